"""Reading a query: whom it names, which time it means, and what kind of answer it asks for.

Pure functions of text, a given ``now`` and a given zone. No scoring, no storage, no model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, tzinfo

import numpy as np
import numpy.typing as npt

from shared_core.long_term.times import DAYS, MONTHS, Span, spans
from shared_core.scoring.lexical import idf
from shared_core.text import STOP_WORDS, fold, share_of_word, terms


@dataclass(frozen=True, slots=True)
class Query:
    """What a query says.

    Distinct index ``terms`` in order and what each counts (``weights``, in (0, 1]), the ``speakers`` it
    names, the ``spans`` of time it means (none, one, or the same month of several years), and whether
    it asks for a time.
    """

    terms: tuple[str, ...]
    weights: tuple[float, ...]
    speakers: frozenset[str] = frozenset()
    spans: tuple[Span, ...] = ()
    asks_time: bool = False


def analyse(text: str, *, speakers: Iterable[str] = (), now: float, zone: tzinfo = UTC) -> Query:
    """Read ``text`` as a question to memories said by ``speakers``, asked at ``now`` (epoch seconds) in ``zone``.

    The names of speakers found in it are taken out of the terms: a turn that calls someone by name is
    most often said by somebody else. If nothing else is left they stay. People lead up to a question:
    what they ask stands in the last sentence, and the words before it count LEAD_WEIGHT.
    """
    named = speakers_named(text, speakers)
    *lead, asked = sentences(text) or [text]
    weights = dict.fromkeys(terms(asked), 1.0)
    for sentence in lead:
        for term in terms(sentence):
            weights.setdefault(term, LEAD_WEIGHT)
    name_terms = {term for name in named for term in terms(name)}
    weights = {
        term: (LEAD_WEIGHT if term in _ASKING_TERMS else weight) * share_of_word(term)
        for term, weight in weights.items()
    }
    kept = {term: weight for term, weight in weights.items() if term not in name_terms} or weights
    return Query(tuple(kept), tuple(kept.values()), named, spans(asked, now=now, zone=zone), asks_time(asked))


LONGEST = 8_000
"""Characters of a query that are read. Of a longer one the end counts, where the question is: reading a whole pasted
file would take seconds, and models read less of it anyway."""


def read_part(text: str) -> str:
    """The part of a query that recall reads: all of it, or its last LONGEST characters."""
    return text[-LONGEST:]


EXPANSION_MEMORIES = 5
"""How many of the best matches are asked for words that the query lacks."""

EXPANSION_TERMS = 20
"""How many such words are looked for."""


def expansion(
    read: Query, best: Iterable[tuple[float, Collection[str]]], *, df: Callable[[str], int], n: int
) -> dict[str, float]:
    """Words that the best matches say and the query does not, with what each counts in (0, 1].

    This is how a fact two steps away is found: "the park I visited" names the park, and its name finds
    what was said of it. ``best``: match (above 0) and index terms of the EXPANSION_MEMORIES best
    memories; ``df``: in how many of the ``n`` memories a term occurs. A term counts ``sum of match *
    idf / sqrt(terms of the memory)``, as a share of the largest. Left out: what occurs once (it finds
    nothing new) or in more than a tenth of the memories, and single characters.
    """
    asked = set(read.terms)
    worth: dict[str, float] = {}
    for match, said in best:
        for term in dict.fromkeys(said):
            if match > 0.0 and len(term) > 1 and term not in asked and 2 <= (found := df(term)) <= n / 10:
                worth[term] = worth.get(term, 0.0) + match * float(idf(found, n)) / math.sqrt(len(said))
    kept = sorted(worth.items(), key=lambda pair: (-pair[1], pair[0]))[:EXPANSION_TERMS]
    return {term: value / kept[0][1] for term, value in kept}


LEAD_WEIGHT = 0.3
"""What a word counts that stands only in the sentences before the last one, where the question is, or
that is about asking and remembering itself ("list what I mentioned": what counts is what was mentioned)."""

_ASKING_TERMS = frozenset(
    terms(
        "ask asked list order brought mention mentioned conversation conversations discuss discussed talk talked tell told "
        "say said remind remember recall summary summarize summarise overview provide different various aspects "
        "提到 说过 聊过 记得 告诉"
    )
)

_SENTENCE_END = re.compile(r"(?<=[。！？；：\n])|(?<=[.!?;:])\s+")


def sentences(text: str) -> list[str]:
    """The sentences of a text, blank ones left out: cut after 。！？；： and after .!?;: before white space."""
    return [part for part in _SENTENCE_END.split(text) if part.strip()]


def speakers_named(text: str, speakers: Iterable[str]) -> frozenset[str]:
    """Those of ``speakers`` whose name, or a word of it, stands in ``text``.

    Where names are written with capitals, capitals count ("Will" is a name, "will" is not); in a query
    typed without them a name matches in any case, unless it is a stop word. An unspaced script is
    searched as it stands.
    """
    words = re.findall(r"[^\W_]+", text)
    cased = any(word[0].isupper() and word != "I" for word in words[1:])
    shown = text if cased else fold(text)
    said = set(words) if cased else {word for word in re.findall(r"[^\W_]+", shown) if word not in STOP_WORDS}
    found = set()
    for speaker in speakers:
        name = speaker if cased else fold(speaker)
        if name.isascii():
            named = any(part in said for part in re.findall(r"[^\W_]+", name) if len(part) > 1)
        else:
            named = name in shown
        if named:
            found.add(speaker)
    return frozenset(found)


_ASKS_TIME = re.compile(
    r"\bwhen\b|\bhow long\b|\b(?:what|which) (?:date|day|month|year|time|week)\b|"
    r"什么时候|什麼時候|何时|何時|几点|幾點|哪天|哪一天|哪年|哪个月|几月|几号|多久|(?:时间|日期)(?:是|在)?(?:什么|哪|几|多)|"
    r"^\W*cuando\b|^\W*quand\b|^\W*quando\b|\bwann\b|\ba que hora\b|\b(?:que|quel) (?:dia|jour)\b|\bwelchem tag\b|"
    r"いつ|何時|何日|何曜日|언제|몇 ?시|며칠"
)
_SURE_MONTHS = "|".join(month for month in MONTHS if month != "may")  # "I may come" tells no time
_TIME_WORDS = frozenset(
    """yesterday today tonight tomorrow ago day days week weeks weekend weekends month months year years hour hours
    minute minutes morning evening night recently soon last next
    ayer anteayer semana semanas gestern vorgestern heute woche wochen monat uhr demain semaine aujourd
    ieri oggi domani settimana ontem hoje amanha""".split()  # noqa: SIM905
).union(DAYS.split("|"), _SURE_MONTHS.split("|"))
_TIME_TERMS = frozenset(term for word in _TIME_WORDS for term in terms(word))
_DIGIT = re.compile("[0-9]")
_WORDS = re.compile("[a-z]+")
_MAY_HOLD_A_DATE = re.compile(r"[0-9]|[^\x00-\x7f]")  # a cheap look: every memory of a scope is asked when it is read
_DATE = re.compile(
    r"\b(?:(?:19|20)\d\d|\d{1,2}(?:st|nd|rd|th)|\d{1,2}(?::\d\d)? ?[ap]m)\b|"
    r"[零〇一二三四五六七八九十百两\d]个?(?:点|月|日|号|年|周|天|小时|分钟|星期)|"
    r"[昨今明][日年]|[先今来][週月]|[月火水木金土日]曜|어제|오늘|내일|요일|지난|"
    r"[昨今明前后]天|[上下本这]个?(?:周|星期|月|礼拜)|去年|今年|明年|早上|上午|中午|下午|晚上"
)


def asks_time(text: str) -> bool:
    """Whether a query asks for a time: when, how long, which day; 什么时候, 几点, 多久."""
    return bool(_ASKS_TIME.search(fold(text)))


def tells_time(text: str, said: Collection[str]) -> bool:
    """Whether a memory says a time: a weekday, a month, a date, "last week", 昨天, 三点.

    ``said`` are its index terms: what has no digit, no letter past ASCII and no time word among them says none,
    and most memories need no closer look.
    """
    if text.isascii() and _TIME_TERMS.isdisjoint(said) and not _DIGIT.search(text):
        return False
    folded = fold(text)
    if not _TIME_WORDS.isdisjoint(_WORDS.findall(folded)):
        return True
    return bool(_MAY_HOLD_A_DATE.search(folded) and _DATE.search(folded))


def closeness(at: npt.NDArray[np.float64], found: Iterable[Span]) -> npt.NDArray[np.float64]:
    """How well event times fit spans, in [0, 1]. Shape [n] from epoch seconds, Shape [n].

    1 inside a span; outside, ``1 / (1 + gap / length)`` of the nearest one, halved once the gap is
    as long as the span: a date half remembered still counts. 0 without spans.
    """
    best = np.zeros(len(at))
    for since, until in found:
        gap = np.maximum(np.maximum(since - at, at - until), 0.0)
        best = np.maximum(best, 1.0 / (1.0 + gap / max(until - since, 1.0)))
    return best
