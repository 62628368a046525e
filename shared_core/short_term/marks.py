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
_NEVER: Final = float("-inf")
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
    # A state is a mark: a boundary with a lifetime (0 for 1h, 1 for 5m). ``best[s]`` is the best saving of so many marks that
    # end with it, one at first; ``ways[s]`` are the states it can follow, with what its mark is then worth: the formula's
    # term, on what the two marks enclose. No mark may follow, and no marks end with, a state before ``least``.
    r, hour, minutes = rules.read, rules.write_1h, rules.write_5m
    states: list[tuple[int, int, float, float, float]] = []
    best: list[float] = []
    ways: list[list[tuple[int, float]]] = []
    least, free = 0, True
    for j, (tokens, p5, p60, fresh, forced, only) in enumerate(boundaries):
        before, size = states[least:], len(states)
        for k, p, w in ((0, p60, hour), (1, p5, minutes)):
            if only is None or only == _TTLS[k]:
                worth, dear, back = (w - r) * p - w + 1, w - 1, []
                for s, (_, ttl, tokens_before, fresh_before, w_before) in enumerate(before, least):
                    if ttl <= k:
                        per_token = (w_before - r) * p - w + 1 if fresh_before else worth
                        back.append((s, (tokens - tokens_before) * per_token - (fresh - fresh_before) * dear))
                states.append((j, k, tokens, fresh, w))
                best.append(tokens * worth - fresh * dear if free else _NEVER)
                ways.append(back)
        if forced:
            least, free = size, False
    saved, end, layers = 0.0 if free else _NEVER, 0, [[-1] * len(states)]
    found: list[list[int]] = []
    for length in range(min(slots, len(boundaries))):
        if length:
            best, came = _one_more(best, ways)
            layers.append(came)
        for s in range(least, len(best)):
            if best[s] > saved:
                saved, end, found = best[s], s, layers[:]
    if saved == _NEVER:
        raise ValueError(f"expected at most {slots} forced boundaries with lifetimes that do not grow")
    marks: list[tuple[int, Ttl]] = []
    for came in reversed(found):
        marks.append((states[end][0], _TTLS[states[end][1]]))
        end = came[end]
    return saved, tuple(reversed(marks))


def _one_more(best: list[float], ways: list[list[tuple[int, float]]]) -> tuple[list[float], list[int]]:
    """The best savings with one mark more, by the state that ends them, and the states before those."""
    further, came = [], []
    for back in ways:
        most, via = _NEVER, 0
        for s, gain in back:
            if best[s] + gain > most:
                most, via = best[s] + gain, s
        further.append(most)
        came.append(via)
    return further, came


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
