"""Salience: what a memory looks worth when it is written, from its own text. The prior of the rule.

Pure and deterministic: no model, no clock, no store. What happens to the number afterwards (the
forgetting curve, evidence, the agent's own rating) never lives here.

The estimate is a sum of named parts, put through the logistic curve:

    salience = 1 / (1 + exp(-(base + information + density + self + ... - question - assistant)))

Words are judged clause by clause, so that "I moved to Lisbon last week, how are you?" is credited
with the move and charged with the question. The cue words below are English and Chinese; a text in
another language is judged by its density, length, numbers and question marks alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

HEAD_CHARACTERS: Final = 800
"""Cues are read in the head of a text: enough to know what kind of text it is, and a bounded cost."""

HEAD_TERMS: Final = 40
"""Distinct terms that can add information. Beyond them a text is long, not worth more."""

WEIGHTS: Final[Mapping[str, float]] = {
    "base": -4.0,
    "information": 3.0,
    "density": 3.6,
    "self": 0.7,
    "when": 0.7,
    "event": 0.25,
    "preference": 0.3,
    "number": 0.4,
    "name": 0.1,
    "address": -0.25,
    "question": -0.4,
    "courtesy": -0.4,
    "assistant": -4.5,
}
"""What one unit of each signal adds to the sum. See ``signals`` for the units."""


@dataclass(frozen=True, slots=True)
class ScopeStatistics:
    """What a scope has said so far, before this memory: how many memories, and how many of them use each term."""

    memories: int = 0
    document_frequency: Mapping[str, int] = field(default_factory=dict)


EMPTY_SCOPE: Final = ScopeStatistics()

_SELF = "i i'm i've i'd i'll my mine we we're we've we'd our ours"
_ADDRESS = "you you're you've you'll your yours u ur"
_WHEN = """yesterday today tonight tomorrow ago last next recently since january february march april june july august
    september october november december monday tuesday wednesday thursday friday saturday sunday week weeks weekend month
    months year years day days morning evening birthday anniversary"""
_EVENT = """was were had went got made took bought found saw met started did joined tried came gave left lost won moved
    began built wrote told taught spent sold broke read ran said born graduated"""
_PREFERENCE = """love loves like likes prefer prefers favorite favourite hate hates enjoy enjoys want wants plan planning
    gonna decided always never allergic hope dream goal"""
_COURTESY = """thanks thank thx congrats congratulations great awesome wow cool nice glad sounds luck definitely absolutely
    sure yeah yep yes totally appreciate amazing hey hi hello bye ok okay haha lol proud inspiring hmm got"""
_NUMBER = "two three four five six seven eight nine ten eleven twelve dozen twice"
_ASKING = {"what", "what's", "how", "how's", "why", "who", "which", "where", "please"}
_REQUEST = {"can", "could", "would", "will", "do", "did", "are", "have", "help", "show", "tell", "give", "let"}

_CUES: Final[Mapping[str, str]] = {
    word: kind
    for kind, words in (
        ("number", _NUMBER),
        ("courtesy", _COURTESY),
        ("preference", _PREFERENCE),
        ("event", _EVENT),
        ("when", _WHEN),
        ("address", _ADDRESS),
        ("self", _SELF),
    )
    for word in words.split()
}
_CHINESE: Final[Mapping[str, str]] = {
    word: kind
    for kind, words in (
        ("self", "我 我们 咱 咱们 俺"),
        ("address", "你 您 你们"),
        (
            "when",
            """昨天 今天 明天 前天 后天 昨晚 今晚 上周 下周 本周 上个月 下个月 去年 今年 明年 前年 最近 刚刚 周一 周二
            周三 周四 周五 周六 周日 周末 星期 月 号 日 年 小时 生日 以前 以后""",
        ),
        ("event", "了 过 去 参加 买 搬 毕业 开始 遇到 认识 结婚 出生 工作 住"),
        ("preference", "喜欢 爱 讨厌 最爱 想要 打算 计划 决定 希望 习惯 总是 从不 过敏 偏好 不吃 爱好 目标"),
        ("courtesy", "谢谢 感谢 好的 不客气 哈哈 嗯 你好 您好 再见 没关系 太好了 真棒 加油 没问题 当然 晚安 早上好"),
        ("question", "吗 什么 怎么 为什么 哪 谁 多少 几点 请 帮我 能不能 可以吗 呢"),
        ("number", "一 二 两 三 四 五 六 七 八 九 十 百 千 万"),
    )
    for word in words.split()
}
_CHINESE_CUE: Final = re.compile("|".join(sorted(_CHINESE, key=len, reverse=True)))
_TOKEN: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[.!?,;:\n。！？，、；：¿؟;]")
_ENDS: Final = frozenset(".!?,;:\n。！？，、；：¿؟;")
_ASKS: Final = frozenset("?？؟;")


def signals(text: str, terms: Sequence[str], *, role: str, statistics: ScopeStatistics) -> dict[str, float]:
    """The measured signals of a text, before weighting; every one is at least 0.

    ``information`` in [0, 1): rarity summed over the distinct terms, saturating. ``density`` in [0, 1]:
    mean rarity. The cues are counts in statements, each up to 3; ``question`` is the share of clauses
    that ask; ``courtesy`` counts greetings, thanks and acknowledgements; ``assistant`` is 0 or 1.
    """
    found = _cues(text[:HEAD_CHARACTERS])
    rare = _rarities(terms, statistics)
    said = sum(rare) * (1.0 - 0.7 * found["question"])
    found["information"] = said / (said + 6.0)
    found["density"] = sum(rare) / max(len(rare), 3)
    found["assistant"] = 0.0 if role in ("user", "human") else 1.0
    return found


def salience_parts(
    text: str, terms: Sequence[str], *, role: str = "user", statistics: ScopeStatistics = EMPTY_SCOPE
) -> dict[str, float]:
    """The named parts whose sum the logistic curve turns into ``salience``."""
    found = signals(text, terms, role=role, statistics=statistics)
    return {name: weight * found.get(name, 1.0) for name, weight in WEIGHTS.items()}


def salience(
    text: str, terms: Sequence[str], *, role: str = "user", statistics: ScopeStatistics = EMPTY_SCOPE
) -> float:
    """How much a memory looks worth keeping, in [0, 1], from its text and what its scope said before."""
    total = sum(salience_parts(text, terms, role=role, statistics=statistics).values())
    return 1.0 / (1.0 + math.exp(-total))


def _rarities(terms: Sequence[str], statistics: ScopeStatistics) -> list[float]:
    """Rarity in [0, 1] of the first distinct terms: 1 for a term the scope has never used, falling with its use."""
    n = statistics.memories
    known = statistics.document_frequency
    top = math.log((n + 1.5) / 0.5)
    return [
        max(0.0, math.log((n + 1.5) / (known.get(term, 0) + 0.5)) / top)
        for term in islice(dict.fromkeys(terms), HEAD_TERMS)
    ]


def _cues(head: str) -> dict[str, float]:
    totals = dict.fromkeys(("self", "address", "when", "event", "preference", "number", "name", "courtesy"), 0.0)
    clause: list[str] = []  # the kinds of the cues in the clause being read
    clauses = asking = 0
    first, asks, words = True, False, 0
    previous = ""
    sentence_start = True
    for match in _TOKEN.finditer(head + "\n"):
        token = match[0]
        if token in _ENDS:
            if words:
                clauses += 1
                if asks or token in _ASKS:
                    asking += 1
                    clause = [kind for kind in clause if kind == "courtesy"]
                for kind in clause:
                    totals[kind] += 1.0
            clause, first, asks, words, previous = [], True, False, 0, ""
            sentence_start = token not in ",、，;；:："
            continue
        words += 1
        lower = token.lower()
        if first:
            asks = lower in _ASKING
        kind = _CUES.get(lower)
        if kind:
            if kind == "address" and previous in _REQUEST:
                asks = True
            clause.append(kind)
        elif token.isascii():
            if token[0].isdigit():
                clause.append("number")
            elif lower.endswith("ed") and len(lower) > 4:
                clause.append("event")
            elif token[0].isupper() and not (first and sentence_start):
                clause.append("name")
        else:
            for cue in _CHINESE_CUE.findall(token):
                if _CHINESE[cue] == "question":
                    asks = True
                else:
                    clause.append(_CHINESE[cue])
        previous, first = lower, False
    found = {kind: min(total, 3.0) for kind, total in totals.items()}
    found["question"] = asking / max(clauses, 1)
    return found
