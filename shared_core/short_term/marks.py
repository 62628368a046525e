"""Where to put at most four breakpoints: the optimum of the cost formula, by dynamic programming. Pure.

In units of the base input price, with w what a write costs, r a read, T the tokens of a prefix and P the
probability that the next request still finds it (unchanged, and within its lifetime), a request that
marks b_1 < b_2 < … on every call costs on average

    N - sum over j of (T_j - T_{j-1}) * (1 - r * P_j - w_j * (1 - P_j)) - (F_j - F_{j-1}) * (w_j - 1)

with T_0 = F_0 = 0. Each span pays its own write and is read as often as its own prefix survives. F are the tokens
by which the prefix grows from request to request: they are new, so they are written even when all the rest is
found. (Equal to N - sum of dT * [(w - r) P - (w - 1)] for one lifetime and a prompt that does not grow.) P_j belongs to the lifetime
of mark j, and lifetimes must not grow along the prompt: one-hour marks come first. So the last mark stands
on the deepest boundary with P > (w - 1) / (w - r), and inner marks where P drops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from shared_core.short_term.rules import MOST_BREAKPOINTS, ModelRules, Ttl

_TTLS: Final[tuple[Ttl, Ttl]] = ("1h", "5m")
Marks = tuple[tuple[int, Ttl], ...]


@dataclass(frozen=True, slots=True)
class Boundary:
    """A place where a prefix may end: its tokens, and how likely it is found again within 5 minutes and 1 hour.

    ``fresh``: tokens by which this prefix grows per request, 0 for a boundary that stays where it is. ``forced``: a mark stands here whatever it is worth; ``ttl``: and only with this lifetime.
    """

    tokens: float
    p5: float
    p60: float
    fresh: float = 0.0
    forced: bool = False
    ttl: Ttl | None = None


def worth(tokens: float, fresh: float, boundary: Boundary, ttl: Ttl, rules: ModelRules) -> float:
    """What marking a span that ends at the boundary saves per request, in base input tokens."""
    p, w = (boundary.p60, rules.write_1h) if ttl == "1h" else (boundary.p5, rules.write_5m)
    return tokens * (1 - rules.read * p - w * (1 - p)) - fresh * (w - 1)


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
    # reached[(j, phase)]: the best saving of marks that end at j with a lifetime of that phase; -1 is no mark yet
    reached: dict[tuple[int, int], tuple[float, Marks]] = {(-1, 0): (0.0, ())}
    best: tuple[float, Marks] | None = (0.0, ()) if forced_before[n] < 0 else None
    for _ in range(slots):
        further: dict[tuple[int, int], tuple[float, Marks]] = {}
        for (i, phase), (saved, marks) in reached.items():
            start, grown = (boundaries[i].tokens, boundaries[i].fresh) if i >= 0 else (0.0, 0.0)
            for j in range(i + 1, n):
                if forced_before[j] > i:
                    break
                here = boundaries[j]
                for then in range(phase, 2):
                    ttl = _TTLS[then]
                    if here.ttl is not None and here.ttl != ttl:
                        continue
                    total = saved + worth(here.tokens - start, here.fresh - grown, here, ttl, rules)
                    known = further.get((j, then))
                    if known is None or total > known[0]:
                        further[j, then] = (total, (*marks, (j, ttl)))
        for (j, _then), found in further.items():
            if j >= forced_before[n] and (best is None or found[0] > best[0]):
                best = found
        reached = further
    if best is None:
        raise ValueError(f"expected at most {slots} forced boundaries with lifetimes that do not grow")
    return best


def distinct(boundaries: Sequence[Boundary]) -> list[int]:
    """The indices that can be in an optimum: of neighbours with the same survival, only the deepest, and forced ones.

    A mark moved from the shallower of two equals to the deeper one adds tokens to its span at the same worth
    per token, taken from a next span that is worth less per token (else the mark would better be absent).
    """
    return [
        i
        for i, here in enumerate(boundaries)
        if here.forced
        or i + 1 == len(boundaries)
        or boundaries[i + 1].forced
        or _kind(here) != _kind(boundaries[i + 1])
    ]


def _kind(boundary: Boundary) -> tuple[float, float, float, Ttl | None]:
    return boundary.p5, boundary.p60, boundary.fresh, boundary.ttl
