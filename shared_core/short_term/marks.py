"""Where to put at most four breakpoints: the optimum of the cost formula, by dynamic programming. Pure.

In units of the base input price, with w what a write costs, r a read, T the tokens of a prefix and P the
probability that the next request still finds it (unchanged, and within its lifetime), a request that
marks b_1 < b_2 < … on every call costs on average

    N - sum over j of (T_j - T_{j-1}) * ((w - r) * P_j - (w_j - 1)) - (F_j - F_{j-1}) * (w_j - 1)

with T_0 = F_0 = 0. Each span pays its own write and is read as often as its own prefix survives. F are the tokens
by which the prefix grows from request to request: they are new, so they are written even when all the rest is
found. w is what a read saves the next request from writing: w_j, but behind a mark that moves on with the prompt
(F_{j-1} > 0) it is w_{j-1}, since by then the span lies before that mark. P_j belongs to the lifetime of mark j,
and lifetimes must not grow along the prompt: one-hour marks come first. So the last mark stands
on the deepest boundary with P > (w - 1) / (w - r), and inner marks where P drops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from shared_core.short_term.rules import MOST_BREAKPOINTS, ModelRules, Ttl

_TTLS: Final[tuple[Ttl, Ttl]] = ("1h", "5m")
Marks = tuple[tuple[int, Ttl], ...]


class Boundary(NamedTuple):
    """A place where a prefix may end: its tokens, and how likely it is found again within 5 minutes and 1 hour.

    ``fresh``: tokens by which this prefix grows per request, 0 for a boundary that stays where it is. ``forced``: a mark stands here whatever it is worth; ``ttl``: and only with this lifetime.
    """

    tokens: float
    p5: float
    p60: float
    fresh: float = 0.0
    forced: bool = False
    ttl: Ttl | None = None


def best_marks(
    boundaries: Sequence[Boundary], rules: ModelRules, *, slots: int = MOST_BREAKPOINTS
) -> tuple[float, Marks]:
    """The marks that save most, as (index, lifetime) in order, and what they save per request.

    Boundaries come in order of tokens. O(slots * n^2). Among equals, fewer marks. At most ``slots`` boundaries
    may be forced, with lifetimes that do not grow; otherwise no marks satisfy the rules and ValueError is raised.
    """
    n = len(boundaries)
    forced_before = [-1] * (n + 1)
    for j in range(n):
        forced_before[j + 1] = j if boundaries[j].forced else forced_before[j]
    # A state is one more mark: (index, lifetime: 0 for 1h, 1 for 5m); (-1, 0) is no mark yet. From each, the states it
    # can lead to and what the mark there is worth: the formula's term, on what the two marks enclose.
    r, writes = rules.read, (rules.write_1h, rules.write_5m)
    none = ((-1, 0), 0.0, 0.0, 0.0, 0.0)
    states = [none] + [
        ((j, k), here.tokens, here.fresh, here.p5 if k else here.p60, writes[k])
        for j, here in enumerate(boundaries)
        for k in (0, 1)
        if here.ttl is None or here.ttl == _TTLS[k]
    ]
    ways: dict[tuple[int, int], list[tuple[tuple[int, int], float]]] = {}
    for at, (state, tokens_before, fresh_before, _, w_before) in enumerate(states):
        onward = ways[state] = []
        for there, tokens, fresh, p, w in states[at + 1 :]:
            j, then = there
            if j > state[0] and then >= state[1] and forced_before[j] <= state[0]:
                again = w_before if fresh_before else w
                gain = (tokens - tokens_before) * ((again - r) * p - w + 1) - (fresh - fresh_before) * (w - 1)
                onward.append((there, gain))
    # Each state reached knows the best saving that ends there and the state before it.
    reached: dict[tuple[int, int], float] = {(-1, 0): 0.0}
    trail: list[dict[tuple[int, int], tuple[int, int]]] = []
    best: tuple[float, int, tuple[int, int]] | None = (0.0, 0, (-1, 0)) if forced_before[n] < 0 else None
    for slot in range(min(slots, n)):
        further: dict[tuple[int, int], float] = {}
        come_from: dict[tuple[int, int], tuple[int, int]] = {}
        for state, saved in reached.items():
            for there, gain in ways[state]:
                if there not in further or saved + gain > further[there]:
                    further[there] = saved + gain
                    come_from[there] = state
        trail.append(come_from)
        for state, saved in further.items():
            if state[0] >= forced_before[n] and (best is None or saved > best[0]):
                best = (saved, slot + 1, state)
        reached = further
    if best is None:
        raise ValueError(f"expected at most {slots} forced boundaries with lifetimes that do not grow")
    saved, count, state = best
    marks: list[tuple[int, Ttl]] = []
    for come_from in reversed(trail[:count]):
        marks.append((state[0], _TTLS[state[1]]))
        state = come_from[state]
    return saved, tuple(reversed(marks))


def distinct(boundaries: Sequence[Boundary]) -> list[int]:
    """The indices that can be in an optimum: of resting neighbours with the same survival only the deepest, and forced ones.

    A mark moved from the shallower of two equals to the deeper one adds tokens to its span at the same worth
    per token, taken from a next span that is worth less per token (else the mark would better be absent).
    """
    return [
        i
        for i, here in enumerate(boundaries)
        if here.forced
        or here.fresh
        or i + 1 == len(boundaries)
        or boundaries[i + 1].forced
        or _kind(here) != _kind(boundaries[i + 1])
    ]


def _kind(boundary: Boundary) -> tuple[float, float, float, Ttl | None]:
    return boundary.p5, boundary.p60, boundary.fresh, boundary.ttl
