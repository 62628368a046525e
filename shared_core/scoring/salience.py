"""Salience: what a memory looks worth when it is written, from its own text. The prior of the rule.

Pure and deterministic: no model, no clock, no store. What happens to the number afterwards (the
forgetting curve, evidence, the agent's own rating) never lives here.

The estimate is a sum of named parts put through the logistic curve:

    salience = 1 / (1 + exp(-(base + information + density + self + when + ... + question + assistant)))

A part is a weight times a signal. Words are judged clause by clause, so that "I moved to Lisbon last
week, how are you?" is credited with the move and charged with the question. The cue words are English
and Chinese; a text in another language is judged by its density, length, numbers and question marks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

HEAD_CHARACTERS: Final = 800
"""Cues are read in the head of a text, code left out: enough to tell its kind, at a bounded cost."""

HEAD_TERMS: Final = 25
"""Distinct terms that can add information. Beyond them a text is long, not worth more."""

CUE_LIMIT: Final = 3.0
"""Cues of one kind that count. A list of twenty dates is not seven times as memorable as three."""

WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "base": -4.2,
        "information": 4.0,
        "density": 4.0,
        "self": 0.25,
        "when": 0.9,
        "event": 0.25,
        "preference": 0.4,
        "number": 0.4,
        "name": 0.4,
        "standing": 2.5,
        "address": -0.4,
        "courtesy": -0.5,
        "question": -1.3,
        "assistant": -2.5,
    }
)
"""What one unit of each signal adds. Rounded by hand, one set for every kind of conversation."""


@dataclass(frozen=True, slots=True)
class ScopeStatistics:
    """What a scope has said so far: how many memories it holds, and how many of them use each index term.

    The default is an empty scope. The mapping is read, never kept: pass the live counts.
    """

    memories: int = 0
    document_frequency: Mapping[str, int] = field(default_factory=dict)


EMPTY_SCOPE: Final = ScopeStatistics()

_ASSISTANT_ROLES: Final = frozenset({"assistant", "ai", "model"})

_ENGLISH: Final[Mapping[str, str]] = {
    "self": "i i'm i've i'd my mine me we we're we've we'd our ours",
    "when": """yesterday today tonight tomorrow ago last next recently since january february march april june july
        august september october november december monday tuesday wednesday thursday friday saturday sunday week weeks
        weekend month months year years""",
    "event": """was were had went got made took bought found saw met did came gave left lost won began built wrote told
        taught spent sold broke ran born""",
    "preference": """love loves prefer prefers favorite favourite hate hates enjoy enjoys want wants plan plans planning
        gonna decided allergic dream goal never""",
    "number": "two three four five six seven eight nine ten eleven twelve dozen twice",
    "address": "you you're you've you'll your yours",
    "courtesy": """thanks thank thx congrats congratulations wow cool nice glad sounds luck definitely absolutely sure yeah
        yep yes totally appreciate bye ok okay haha lol proud inspiring hmm bet worries keep sorry looks hope""",
}
_CHINESE: Final[Mapping[str, str]] = {
    "self": "我 我们 咱 咱们 俺",
    "when": """昨天 今天 明天 前天 后天 昨晚 今晚 上周 下周 本周 这周 上个月 下个月 这个月 去年 今年 明年 前年 最近 刚刚 周一 周二
        周三 周四 周五 周六 周日 周末 星期 月 号 年前 小时 生日""",
    "event": "了 过 参加 毕业 遇到 认识 结婚 出生 搬到 发生",
    "preference": "喜欢 爱 讨厌 最爱 想要 打算 计划 决定 习惯 从不 从来不 过敏 偏好 不吃 不喝 爱好 目标 梦想",
    "number": "百 千 万 两 双",
    "standing": "以后请 以后都 从现在起 记住 每次都 每当 请始终 请总是",
    "address": "你 你们 您",
    "courtesy": """谢谢 感谢 多谢 好的 好吧 不客气 哈哈 嗯 你好 您好 再见 没关系 没事 太好了 太棒了 真棒 真好 加油 没问题 当然 晚安
        早上好 早安 辛苦了 明白了 知道了 不错 恭喜 是啊 对啊""",
    "asking": "吗 什么 怎么 为什么 哪 谁 多少 几点 帮我 翻译 总结一下 解释一下 写一 推荐一 能不能 可不可以 可以吗 呢 请问",
}


def _by_word(kinds: Mapping[str, str]) -> dict[str, str]:
    return {word: kind for kind, words in kinds.items() for word in words.split()}


_ENGLISH_KIND: Final = _by_word(_ENGLISH)
_CHINESE_KIND: Final = _by_word(_CHINESE)
_CHINESE_CUE: Final = re.compile("|".join(sorted(_CHINESE_KIND, key=len, reverse=True)))  # the longest cue wins

_ASKING_FIRST: Final = frozenset(
    """what what's how how's why who who's which where please write rewrite summarize summarise translate explain describe
    give show tell list suggest recommend find generate create make convert compare calculate fix help""".split()  # noqa: SIM905
)
_ASKING_BEFORE_YOU: Final = frozenset("can could would will do did are have".split())  # noqa: SIM905
_STANDING_FIRST: Final = frozenset({"always", "never", "whenever", "remember"})

_UNSPACED_FROM: Final = "\u0e00"
"""Where the scripts begin that are cut into characters and pairs of them: about two terms for what a word says."""

_BREAK: Final = re.compile(r"([.!?,;:]+(?=\s|$)|[\n。！？，、；：؟¿]+)")
_WORD: Final = re.compile(r"\d+(?:[.,:/-]\d+)*|[^\W_]+(?:['’][^\W_]+)*")
_CUES: Final = (*_ENGLISH, "name", "standing")


def signals(text: str, terms: Sequence[str], *, role: str, statistics: ScopeStatistics) -> dict[str, float]:
    """The measured signals of a text before weighting, each at least 0; ``base`` is 1.

    ``information`` in [0, 1]: the rarities of the first 25 distinct terms, summed and divided by 25, so
    that it grows with what is said and stops growing with length (a character or a pair of characters
    of Chinese counts as half a term), times the share of clauses that tell. ``density`` in [0, 1]: their mean.
    The rarity of a term is ``log((n + 1.5) / (df + 0.5))`` over its value at df = 0: 1 for a term the
    scope has never used, and so for every term of a first memory. ``question`` is the share of clauses
    that ask. The other cues are counts, up to 3, in clauses that do not ask; ``assistant`` is 0 or 1, and
    an assistant's cues are 0: its dates and its "I" are not facts about the user.
    """
    if role in _ASSISTANT_ROLES:
        found = dict.fromkeys((*_CUES, "question"), 0.0) | {"assistant": 1.0}
    else:
        found = _cues(text) | {"assistant": 0.0}
    said, found["density"] = _rarity(terms, statistics)
    found["information"] = said * (1.0 - found["question"])  # what is asked is not told
    found["base"] = 1.0
    return found


def salience_parts(
    text: str, terms: Sequence[str], *, role: str = "user", statistics: ScopeStatistics = EMPTY_SCOPE
) -> dict[str, float]:
    """The named parts whose sum the logistic curve turns into ``salience``, in the order of ``WEIGHTS``."""
    found = signals(text, terms, role=role, statistics=statistics)
    return {name: weight * found[name] for name, weight in WEIGHTS.items()}


def salience(
    text: str, terms: Sequence[str], *, role: str = "user", statistics: ScopeStatistics = EMPTY_SCOPE
) -> float:
    """How much a memory looks worth keeping, in [0, 1].

    ``terms`` are ``shared_core.text.terms(text)``, which the writer has cut for the index already;
    ``statistics`` are those of the scope before this memory. Constant cost in the length of the text
    beyond its head.
    """
    total = sum(salience_parts(text, terms, role=role, statistics=statistics).values())
    return 1.0 / (1.0 + math.exp(-total))


def _rarity(terms: Sequence[str], statistics: ScopeStatistics) -> tuple[float, float]:
    """Information and density. The text is cut before its terms are compared: a megabyte costs what a paragraph does."""
    n = max(statistics.memories, 0)
    known = statistics.document_frequency
    unseen = math.log((n + 1.5) / 0.5)
    said = rarities = weights = 0.0
    distinct = 0
    for term in dict.fromkeys(terms[: 4 * HEAD_TERMS]):
        rarity = max(0.0, math.log((n + 1.5) / (known.get(term, 0) + 0.5)) / unseen)
        weight = 0.5 if term[-1] >= _UNSPACED_FROM else 1.0
        rarities += rarity
        said += weight * rarity
        weights += weight
        distinct += 1
        if weights >= HEAD_TERMS:
            break
    return said / HEAD_TERMS, rarities / max(distinct, 3)  # one rare word alone is not a dense text


def _cues(text: str) -> dict[str, float]:
    totals = dict.fromkeys(_CUES, 0.0)
    clauses = asking = 0
    fresh = True  # at the start of a sentence, where a capital says nothing
    pieces = _BREAK.split(_prose(text))
    for clause, ending in zip(pieces[::2], (*pieces[1::2], ""), strict=True):
        words = _WORD.findall(clause)
        if words:
            kinds, asks = _read(words, fresh=fresh)
            clauses += 1
            if asks or "?" in ending or "？" in ending or "؟" in ending:
                asking += 1
                kinds = [kind for kind in kinds if kind == "courtesy"]
            for kind in kinds:
                totals[kind] += 1.0
            if asks and ending[:1] in (":", "："):
                break  # "Translate this: ..." - what follows is material to work on
        fresh = not ending or ending[0] not in ",;:，、；："
    found = {kind: min(total, CUE_LIMIT) for kind, total in totals.items()}
    found["question"] = asking / max(clauses, 1)
    return found


def _prose(text: str) -> str:
    """The head of the text without its fenced code, whose numbers and names are nobody's facts."""
    head = text[: 8 * HEAD_CHARACTERS]
    return (" ".join(head.split("```")[::2]) if "```" in head else head)[:HEAD_CHARACTERS]


def _read(words: list[str], *, fresh: bool) -> tuple[list[str], bool]:
    """The kinds of the cues in one clause, and whether it asks for something."""
    kinds: list[str] = []
    lower = words[0].lower()
    asks = lower in _ASKING_FIRST
    if fresh and lower in _STANDING_FIRST:
        kinds.append("standing")
    previous = ""
    for word in words:
        lower = word.lower()
        kind = _ENGLISH_KIND.get(lower)
        if kind is not None:
            asks = asks or (kind == "address" and previous in _ASKING_BEFORE_YOU)
            kinds.append(kind)
        elif not word.isascii():
            for cue in _CHINESE_CUE.findall(word):
                kind = _CHINESE_KIND[cue]
                asks = asks or kind == "asking"
                kinds.append(kind)
        elif word[0].isdigit():
            kinds.append("number")
        elif lower == "ask" and previous == "i":  # "when I ask about ...": how to answer from now on
            kinds.append("standing")
        elif len(lower) > 4 and lower.endswith("ed"):
            kinds.append("event")
        elif word[0].isupper() and not (fresh and not previous):
            kinds.append("when" if word == "May" else "name")
        previous = lower
    return [kind for kind in kinds if kind != "asking"], asks
