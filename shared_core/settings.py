"""Every number a user may turn, with its unit and its default. Frozen; checked once, when built.

Nothing here acts: the tiers read these values, and the file that uses a number explains it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from shared_core.errors import InvalidInput
from shared_core.masking import mask_secrets
from shared_core.records import Hit

DAY_SECONDS = 86_400.0
YEAR_SECONDS = 365 * DAY_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The constants of ``score = alpha * recency + beta * attention`` for one tier.

    ``time_scale`` is in seconds; ``evidence_weight`` in [0, 1]; ``alpha, beta >= 0``, not both 0.
    """

    alpha: float = 0.4
    beta: float = 0.6
    time_scale: float = 300.0
    evidence_weight: float = 0.25

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            _check(f"Rule.{name}", getattr(self, name), low=0.0)
        if self.alpha == 0 and self.beta == 0:
            raise InvalidInput("Rule: alpha and beta must not both be 0; give one of them a positive weight")
        _check("Rule.time_scale", self.time_scale, low=0.0, open_low=True)
        _check("Rule.evidence_weight", self.evidence_weight, low=0.0, high=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallWeights:
    """What each part of a recall score weighs; one set for all. The sum is made in ``scoring/fusion.py``.

    ``lexical`` and ``semantic``: a full match of words, of meaning; ``expansion``: what words
    that the query lacks and the best matches share add, as a share of ``lexical``. ``next_neighbour`` and
    ``second_neighbour``: the share of their match that memories one and two places away in the same
    session lend; ``session``: the share of the session's own match. The others are added in full
    when they hold: ``speaker`` (said by someone the query names), ``role`` (said by the user, where
    an assistant speaks too), ``question`` (taken off: it asks rather than tells), ``answers`` (holds
    a time when the query asks for one), ``when`` (its time is the one the query names),
    ``recency`` and ``importance`` (times their value in [0, 1]).
    """

    lexical: float = 1.0
    expansion: float = 0.2
    semantic: float = 1.0
    next_neighbour: float = 0.3
    second_neighbour: float = 0.1
    session: float = 0.45
    speaker: float = 0.6
    role: float = 0.6
    question: float = 0.12
    answers: float = 0.35
    when: float = 0.8
    recency: float = 0.02
    importance: float = 0.25

    def __post_init__(self) -> None:
        for spec in fields(self):
            _check(f"RecallWeights.{spec.name}", getattr(self, spec.name), low=0.0)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long memories may stay: ``seconds`` since they were written, those with ``tag`` (None: all of them).

    A sweep evicts what is older; of several that apply, the shortest counts.
    """

    seconds: float
    tag: str | None = None

    def __post_init__(self) -> None:
        _check("Retention.seconds", self.seconds, low=0.0)
        if self.tag is not None and (not isinstance(self.tag, str) or not self.tag):
            raise InvalidInput(f"Retention.tag: expected a tag, or None for every memory, got {self.tag!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of one ``TieredMemory``.

    Long term: ``long_term`` (the rule), ``decay`` (share of importance left after one day without
    access, in (0, 1]), ``max_memories`` and ``max_bytes`` (the budget of each scope: archived memories do
    not count, bytes are those of texts and vectors, None is unbounded; kept to on every write),
    ``retention`` (what a sweep evicts for its age), ``victims`` (``"archive"`` or ``"delete"``),
    ``zone`` (where "yesterday" in a query is: a tzinfo, or a name such as
    ``"Europe/Vienna"``, kept as its ZoneInfo), ``recall``, ``recall_tokens`` (room reserved for recalled memories in every
    prompt, a constant), ``recall_k`` (hits a turn asks for), ``recall_time_scale`` (seconds after which a
    memory counts half as recent in a recall: what is asked for is often the latest, what is worth keeping is
    not, so it is much shorter than that of ``long_term``),
    ``max_text_bytes`` (larger texts are refused), ``max_windows`` (vectors per text),
    ``index_bytes`` (vectors held in memory, of all scopes; the scopes used longest ago are read again when asked for).
    Mid term: ``mid_term`` (the rule), ``cache_bytes`` and ``cache_items`` (bounds of each cache),
    ``max_entry_share`` (an entry above this share of the byte bound is not stored),
    ``persist_caches`` (keep tool and response caches in the memory's file),
    ``tool_output_characters`` (a longer tool output stands in a window as its head and tail), ``wait_seconds`` (a call of
    a cached tool waits that long for an equal one under way, then it runs beside it; None waits for ever, which a tool
    that calls itself with its own arguments through a thread pool would do; an answer of a model is waited for ten minutes).
    Hooks, each a function, None for none: ``mask`` takes a text to be remembered and returns what is written
    (the default masks what looks like keys and tokens, see ``masking.py``; the log of a conversation stays
    verbatim, since a model is shown it again byte for byte; if the hook raises, nothing is written).
    ``rewrite`` takes a query and returns the one to recall with; ``rerank`` takes the query and the best
    ``4 k`` hits and returns those to keep, best first; ``score_importance`` takes the texts of a write that have
    no importance given and returns theirs, in [0, 1]. A failure of these three is counted, and recall
    and write go on without them.
    ``count_tokens`` counts the tokens of a text; None uses ``text.estimate_tokens``, and so does a count that fails
    or is no number of 0 or more (counted as ``count_failures``). Counts of messages are
    kept under the function's name and constants: a counter that counts differently needs another name.
    """

    long_term: Rule = field(default_factory=lambda: Rule(time_scale=5 * YEAR_SECONDS))
    mid_term: Rule = field(default_factory=Rule)
    decay: float = 0.9995
    max_memories: int | None = None
    max_bytes: int | None = None
    retention: tuple[Retention, ...] = ()
    zone: tzinfo | str = UTC
    recall: RecallWeights = field(default_factory=RecallWeights)
    recall_k: int = 8
    recall_time_scale: float = 30 * DAY_SECONDS
    recall_tokens: int = 800
    victims: str = "archive"
    max_text_bytes: int = 4 * 2**20
    max_windows: int = 32
    index_bytes: int = 2**30
    cache_bytes: int = 64 * 2**20
    cache_items: int = 100_000
    max_entry_share: float = 0.2
    persist_caches: bool = True
    tool_output_characters: int = 16_000
    wait_seconds: float | None = 60.0
    mask: Callable[[str], str] | None = mask_secrets
    rewrite: Callable[[str], str] | None = None
    rerank: Callable[[str, list[Hit]], Sequence[Hit]] | None = None
    score_importance: Callable[[Sequence[str]], Sequence[float]] | None = None
    count_tokens: Callable[[str], int] | None = None

    def __post_init__(self) -> None:
        _check("Settings.decay", self.decay, low=0.0, high=1.0, open_low=True)
        _check("Settings.max_entry_share", self.max_entry_share, low=0.0, high=1.0, open_low=True)
        _check("Settings.recall_time_scale", self.recall_time_scale, low=0.0, open_low=True)
        if self.wait_seconds is not None:
            _check("Settings.wait_seconds", self.wait_seconds, low=0.0)
        for name in ("recall_k", "recall_tokens"):
            _check_whole(f"Settings.{name}", getattr(self, name), low=0)
        for name in (
            "max_text_bytes",
            "max_windows",
            "index_bytes",
            "cache_bytes",
            "cache_items",
            "tool_output_characters",
        ):
            _check_whole(f"Settings.{name}", getattr(self, name), low=1)
        for name in ("max_memories", "max_bytes"):
            if getattr(self, name) is not None:
                _check_whole(f"Settings.{name}", getattr(self, name), low=1)
        if not isinstance(self.retention, tuple) or not all(isinstance(one, Retention) for one in self.retention):
            raise InvalidInput(
                f"Settings.retention: expected a tuple such as (Retention(seconds=86_400, tag='x'),), got {self.retention!r}"
            )
        for name in ("mask", "rewrite", "rerank", "score_importance"):
            hook = getattr(self, name)
            if hook is not None and not callable(hook):
                raise InvalidInput(f"Settings.{name}: expected a function or None, got {hook!r}")
        if self.victims not in ("archive", "delete"):
            raise InvalidInput(f"Settings.victims: expected 'archive' or 'delete', got {self.victims!r}")
        for name, kind in (
            ("long_term", Rule),
            ("mid_term", Rule),
            ("recall", RecallWeights),
            ("persist_caches", bool),
        ):
            _check_kind(f"Settings.{name}", getattr(self, name), kind)
        object.__setattr__(self, "zone", _zone(self.zone))
        if self.count_tokens is not None and not callable(self.count_tokens):
            raise InvalidInput(
                f"Settings.count_tokens: expected a function of a text, or None, got {self.count_tokens!r}; "
                "write lambda text: len(tokenizer.encode(text))"
            )


def _check(name: str, value: float, *, low: float, high: float = math.inf, open_low: bool = False) -> None:
    ok = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not ok or value > high or value < low or (open_low and value == low):
        bounds = f"{'above' if open_low else 'at least'} {low:g}" + (
            "" if high == math.inf else f" and at most {high:g}"
        )
        raise InvalidInput(f"{name}: expected a number {bounds}, got {value!r}")


def _check_whole(name: str, value: object, *, low: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise InvalidInput(f"{name}: expected a whole number of at least {low}, got {value!r}")


def _check_kind(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        hint = "True or False" if kind is bool else f"write {kind.__name__}(…)"
        raise InvalidInput(f"{name}: expected a {kind.__name__}, got {value!r}; {hint}")


def _zone(value: Any) -> tzinfo:
    if isinstance(value, tzinfo):
        return value
    try:
        return ZoneInfo(value)
    except (TypeError, ValueError, OSError, LookupError) as error:
        raise InvalidInput(
            f"Settings.zone: expected a tzinfo or the name of a zone, got {value!r}; write 'Europe/Vienna' or timezone.utc"
        ) from error
