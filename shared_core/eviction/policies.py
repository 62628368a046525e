"""The policies: each a pure keep-score function over arrays. Higher is kept; the lowest go first.

The contract, once for all of them: ``keep_score(entries)`` gives one float64 per entry, shape [n],
never NaN, and depends on the entries' facts alone, not on their place in the arrays. Ties are not
the policy's business: ``victims`` breaks them by last access, then by insertion.

No policy knows pins, sizes or bounds, reads a clock or keeps a state; time and randomness come in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from shared_core import scoring
from shared_core.errors import InvalidInput
from shared_core.settings import Rule

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """What a policy may look at: one row per entry, all arrays of shape [n].

    ``now`` and ``last_accessed`` are epoch seconds; ``inserted`` is a number that grows with each
    insertion and is never reused; ``access_count`` counts the write and every read (aged where the
    prior is the frequency; 0 throughout where neither policy nor prior counts); ``prior`` and ``evidence`` are in [0, 1], evidence NaN until there is any.
    """

    now: float
    last_accessed: Floats
    inserted: Ints
    access_count: Floats
    prior: Floats
    evidence: Floats


KeepScore = Callable[[Entries], Floats]


def lru(entries: Entries) -> Floats:
    """Keep what was used last: the plain baseline."""
    return entries.last_accessed


def lfu(entries: Entries) -> Floats:
    """Keep what was used most. A baseline: where counts do not age, it never forgets an old favourite."""
    return entries.access_count


def fifo(entries: Entries) -> Floats:
    """Keep what was inserted last; reading changes nothing."""
    return entries.inserted.astype(np.float64)


def shuffle(entries: Entries, *, rng: np.random.Generator) -> Floats:
    """Keep anything: every call draws a new order. The baseline that any rule has to beat.

    One number is drawn a call and mixed with each entry's insertion number (the finaliser of
    splitmix64), so the order does not depend on where the entries stand in the arrays.
    """
    salt = rng.integers(0, 2**63, dtype=np.uint64)
    bits = entries.inserted.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + salt
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (bits ^ (bits >> np.uint64(31))).astype(np.float64)


def attention_lru(entries: Entries, *, rule: Rule) -> Floats:
    """Keep what is fresh and matters: ``alpha * recency + beta * attention``, the rule of every tier."""
    recency = scoring.recency(entries.now - entries.last_accessed, rule.time_scale)
    attention = scoring.attention(entries.prior, entries.evidence, rule.evidence_weight)
    return scoring.score(recency, attention, rule.alpha, rule.beta)


def named(name: str, *, rule: Rule, rng: np.random.Generator) -> KeepScore:
    """The policy of this name, with what it needs bound to it. InvalidInput for an unknown name."""
    known: dict[str, KeepScore] = {
        "attention_lru": partial(attention_lru, rule=rule),
        "lru": lru,
        "lfu": lfu,
        "fifo": fifo,
        "random": partial(shuffle, rng=rng),
    }
    if name not in known:
        raise InvalidInput(f"policy: expected one of {', '.join(known)}, got {name!r}")
    return known[name]
