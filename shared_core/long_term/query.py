"""Reading a query: whom it names, which time it means, and what kind of answer it asks for.

Pure functions of text, a given ``now`` and a given zone; English and Chinese. No scoring, no storage, no model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

import numpy as np
import numpy.typing as npt

from shared_core.scoring.lexical import idf
from shared_core.text import fold, terms

Span = tuple[float, float]
"""``since <= t < until``, epoch seconds UTC."""


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
    weights = {term: LEAD_WEIGHT if term in _ASKING_TERMS else weight for term, weight in weights.items()}
    kept = {term: weight for term, weight in weights.items() if term not in name_terms} or weights
    return Query(tuple(kept), tuple(kept.values()), named, spans(asked, now=now, zone=zone), asks_time(asked))


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

    Upper case counts when the query has any ("Will" is a name, "will" is not); an unspaced script is
    searched as it stands.
    """
    cased = text.lower() != text
    shown = text if cased else fold(text)
    words = set(re.findall(r"[^\W_]+", shown))
    found = set()
    for speaker in speakers:
        name = speaker if cased else fold(speaker)
        if name.isascii():
            named = any(part in words for part in re.findall(r"[^\W_]+", name) if len(part) > 1)
        else:
            named = bool(name) and name in shown
        if named:
            found.add(speaker)
    return frozenset(found)


_ASKS_TIME = re.compile(
    r"\bwhen\b|\bhow long\b|\b(?:what|which) (?:date|day|month|year|time|week)\b|"
    r"什么时候|什麼時候|何时|何時|几点|幾點|哪天|哪一天|哪年|哪个月|几月|几号|多久|(?:时间|日期)(?:是|在)?(?:什么|哪|几|多)"
)
_DAY = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_MONTHS = "january february march april may june july august september october november december".split()  # noqa: SIM905
_MONTH = "|".join(_MONTHS)
_UNIT = "day|week|weekend|month|year"
_TELLS_TIME = re.compile(
    rf"\b(?:{_DAY}|{_MONTH.replace('|may|', '|')}|yesterday|today|tonight|tomorrow|ago|(?:{_UNIT}|hour|minute)s?|"
    r"morning|evening|night|recently|soon|last|next|(?:19|20)\d\d|\d{1,2}(?:st|nd|rd|th)|\d{1,2}(?::\d\d)? ?[ap]m)\b|"
    r"[零〇一二三四五六七八九十百两\d]+个?(?:点|月|日|号|年|周|天|小时|分钟|星期)|"
    r"[昨今明前后]天|[上下本这]个?(?:周|星期|月|礼拜)|去年|今年|明年|早上|上午|中午|下午|晚上"
)


def asks_time(text: str) -> bool:
    """Whether a query asks for a time: when, how long, which day; 什么时候, 几点, 多久."""
    return bool(_ASKS_TIME.search(fold(text)))


def tells_time(text: str) -> bool:
    """Whether a memory says a time: a weekday, a month, a date, "last week", 昨天, 三点."""
    return bool(_TELLS_TIME.search(fold(text)))


def is_question(text: str) -> bool:
    """Whether a text ends by asking something."""
    return text.rstrip(" \t\r\n\"'”’)）」』").endswith(("?", "？", "吗", "呢"))


_NUMBERS = {word: i for i, word in enumerate("zero one two three four five six seven eight nine ten".split())}  # noqa: SIM905
_NUMBERS |= {"a": 1, "an": 1, "couple of": 2, "a couple of": 2, "few": 3, "a few": 3}
_ZH_NUMBERS = {**{ch: i for i, ch in enumerate("零一二三四五六七八九十")}, "两": 2, "几": 3, "十一": 11, "十二": 12}
_ZH_DAYS = {ch: i for i, ch in enumerate("一二三四五六日")} | {"天": 6}
_SEASONS = {"spring": 3, "summer": 6, "fall": 9, "autumn": 9, "winter": 12}
YEARS_BACK = 12
"""A month named without its year means that month of any of this many years up to now."""

_ZH_NUMBER = r"(?:\d+|[零一二三四五六七八九十两几]+)"
_EXPRESSIONS = re.compile(
    rf"""
      \b(?P<iso>(?:19|20)\d\d-\d\d?-\d\d?)\b
    | \b(?P<d1>\d\d?)(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<m1>{_MONTH})\b(?:,?\s+(?P<y1>(?:19|20)\d\d))?
    | \b(?P<m2>{_MONTH})\s+(?P<d2>\d\d?)(?:st|nd|rd|th)?\b(?!\s*(?:am|pm|:))(?:,?\s+(?P<y2>(?:19|20)\d\d))?
    | \b(?P<m3>{_MONTH}),?\s+(?:of\s+)?(?P<y3>(?:19|20)\d\d)\b
    | \b(?:in|during|of|since|by|from|until|this|last|early|mid|late)[\s-]+(?P<m4>{_MONTH})\b(?!,?\s+(?:of\s+)?\d)
    | \b(?:the\s+)?(?P<season>spring|summer|fall|autumn|winter)(?:\s+of)?\s+(?P<ys>(?:19|20)\d\d)\b
    | (?P<y5>(?:19|20)\d\d)年(?:(?P<zm1>\d\d?)月(?:份)?(?:(?P<zd1>\d\d?)[日号])?)?
    | (?P<zm2>\d\d?|十[一二]|[一二三四五六七八九十])月(?:份)?(?:(?P<zd2>\d\d?)[日号])?
    | \b(?P<ago>\d+|a\ few|few|a\ couple\ of|couple\ of|an?|one|two|three|four|five|six|seven|eight|nine|ten)
        \s+(?P<ago_unit>day|week|month|year)s?\s+ago\b
    | (?P<zago>{_ZH_NUMBER})(?:个)?(?P<zago_unit>天|日|周|星期|礼拜|月|年)(?:之|以)?前
    | \b(?P<rel>last|past|previous|this|current)\s+(?P<rel_unit>week|weekend|month|year|night|{_DAY})\b
    | (?P<zrel>上上|上|这|本)个?(?P<zrel_unit>周末|周|星期|礼拜|月)(?P<zday>[一二三四五六日天])?
    | (?P<zyear>前年|去年|今年)
    | \b(?P<before>the\ day\ before\ yesterday)\b | \b(?P<day>yesterday|today|tonight)\b | (?P<zd>前天|昨天|昨晚|今天|今晚)
    | \b(?:in|during|of|since|by|from|until)\s+(?P<y6>(?:19|20)\d\d)\b
    """,
    re.VERBOSE,
)


def spans(text: str, *, now: float, zone: tzinfo = UTC) -> tuple[Span, ...]:
    """The stretches of time that ``text`` means, seen from ``now`` in ``zone``: "last week", "in May 2023", 上周五.

    A month or day without its year stands for that one of any of the last YEARS_BACK years. Weeks
    begin on Monday. What is no possible date is passed over.
    """
    today = datetime.fromtimestamp(now, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    found: list[Span] = []
    for match in _EXPRESSIONS.finditer(fold(text)):
        try:
            pairs = _read({key: value for key, value in match.groupdict().items() if value is not None}, today)
            found += [(since.timestamp(), until.timestamp()) for since, until in pairs if since.timestamp() <= now]
        except (ValueError, OverflowError):
            continue
    return tuple(dict.fromkeys(found))


def _read(got: dict[str, str], today: datetime) -> list[tuple[datetime, datetime]]:
    """One expression as pairs of local times; ValueError for an impossible date."""
    if "iso" in got:
        year, month, day = (int(part) for part in got["iso"].split("-"))
        return [_dates(today, year, month, day)]
    if "season" in got:
        since = _dates(today, int(got["ys"]), _SEASONS[got["season"]])[0]
        return [(since, _months(since, 3))]
    year_text = next((got[key] for key in ("y1", "y2", "y3", "y5", "y6") if key in got), None)
    month_text = next((got[key] for key in ("m1", "m2", "m3", "m4", "zm1", "zm2") if key in got), None)
    day_text = next((got[key] for key in ("d1", "d2", "zd1", "zd2") if key in got), None)
    if year_text or month_text:
        named_month = None if month_text is None else _month(month_text)
        named_day = None if day_text is None else int(day_text)
        years = [int(year_text)] if year_text else [today.year - back for back in range(YEARS_BACK)]
        return [
            _dates(today, each, named_month, named_day)
            for each in years
            if (named_month, named_day) != (2, 29) or _leap(each)
        ]
    if "ago" in got or "zago" in got:
        return [_ago(got, today)]
    if "rel" in got or "zrel" in got or "zyear" in got:
        return [_relative(got, today)]
    back = {"yesterday": 1, "昨天": 1, "昨晚": 1, "前天": 2}.get(got.get("day") or got.get("zd") or "", 0)
    since = today - timedelta(days=2 if "before" in got else back)
    return [(since, since + timedelta(days=1))]


def _ago(got: dict[str, str], today: datetime) -> tuple[datetime, datetime]:
    """Three weeks ago: the unit's length around that day, since nobody means it to the day."""
    count_text = got.get("ago") or got["zago"]
    count = int(count_text) if count_text.isdigit() else {**_NUMBERS, **_ZH_NUMBERS}.get(count_text, 3)
    unit = got.get("ago_unit") or {"天": "day", "日": "day", "月": "month", "年": "year"}.get(got["zago_unit"], "week")
    if unit == "day":
        return today - timedelta(days=count), today - timedelta(days=count - 1)
    if unit == "week":
        middle = today - timedelta(weeks=count)
        return middle - timedelta(days=3), middle + timedelta(days=4)
    months = count * (12 if unit == "year" else 1)
    middle, half = _months(today, -months), timedelta(days=183 if unit == "year" else 15)
    return middle - half, middle + half


def _relative(got: dict[str, str], today: datetime) -> tuple[datetime, datetime]:
    """Last week, this month, last Friday, 上周五, 去年."""
    if "zyear" in got:
        return _dates(today, today.year - "今去前".index(got["zyear"][0]))
    back = {"this": 0, "current": 0, "这": 0, "本": 0, "上上": 2}.get(got.get("rel") or got["zrel"], 1)
    unit = got.get("rel_unit") or got["zrel_unit"]
    monday = today - timedelta(days=today.weekday())
    if unit == "night":
        return today - timedelta(days=back), today
    if unit in _DAY.split("|"):
        since = today - timedelta(days=(today.weekday() - _DAY.split("|").index(unit) - 1) % 7 + 1)
        return since, since + timedelta(days=1)
    if unit in ("month", "月"):
        since = _months(today.replace(day=1), -back)
        return since, _months(since, 1)
    if unit == "year":
        return _dates(today, today.year - back)
    week = monday - timedelta(weeks=back)
    if "zday" in got:
        since = week + timedelta(days=_ZH_DAYS[got["zday"]])
        return since, since + timedelta(days=1)
    first = timedelta(days=5 if unit in ("weekend", "周末") else 0)
    return week + first, week + timedelta(days=7)


def _dates(today: datetime, year: int, month: int | None = None, day: int | None = None) -> tuple[datetime, datetime]:
    """A year, a month or a day, from its first midnight to the next one, in the zone of ``today``."""
    since = today.replace(year=year, month=month or 1, day=day or 1)
    if day is not None:
        return since, since + timedelta(days=1)
    return since, _months(since, 12 if month is None else 1)


def _months(start: datetime, count: int) -> datetime:
    years, month = divmod(start.month - 1 + count, 12)
    year, month = start.year + years, month + 1
    last = [31, 29 if _leap(year) else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]
    return start.replace(year=year, month=month, day=min(start.day, last))


def _month(text: str) -> int:
    month = _MONTHS.index(text) + 1 if text in _MONTHS else int(text) if text.isdigit() else _ZH_NUMBERS[text]
    if not 1 <= month <= 12:
        raise ValueError(text)
    return month


def _leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


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
