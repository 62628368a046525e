"""Who goes: the exact lowest entries, in the order in which they go. No scores are made here."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

_SAMPLED: Final = 16
"""One of so many scores is looked at to guess where the lowest end."""


def excess(held: int, new: int, bound: int) -> int:
    """How much of what is held must go before ``new`` comes; 0 while both fit under the bound."""
    if held + new <= bound:
        return 0
    return held - (bound - max(1, bound // 100, new))


def victims(
    scores: Floats,
    last_accessed: Floats,
    inserted: Ints,
    sizes: Ints,
    evictable: npt.NDArray[np.bool_],
    *,
    items: int = 0,
    size: int = 0,
) -> Rows:
    """The fewest lowest entries that free at least ``items`` entries and ``size`` bytes, lowest first.

    All arrays have shape [n]; scores are finite. Lowest means by score, ties least recently used first,
    then oldest insertion (``inserted`` has no duplicates). Entries where ``evictable`` is False (pinned,
    or not there at all) are never chosen; if the others do not free enough, all of them are chosen.
    """
    available = int(np.count_nonzero(evictable))
    if not available or (items <= 0 and size <= 0):
        return np.zeros(0, dtype=np.intp)
    if available < len(scores):
        scores = np.where(evictable, scores, np.inf)
    # How many entries free `size` bytes is known only in order: guess from the mean, look, double.
    count = max(items, int(1.25 * size / max(float(sizes.mean()), 1.0)) + 1 if size > 0 else 0)
    while True:
        count = min(count, available)
        chosen = _lowest(count, (scores, last_accessed, inserted))
        chosen = chosen[np.lexsort((inserted[chosen], last_accessed[chosen], scores[chosen]))]
        enough = max(items, int(np.searchsorted(np.cumsum(sizes[chosen]), size)) + 1 if size > 0 else 0)
        if enough <= count or count == available:
            return chosen[:enough]
        count *= 2


def _lowest(count: int, columns: tuple[Floats | Ints, ...], rows: Rows | None = None) -> Rows:
    """The ``count`` lowest of these rows (None: all) by the first column, ties by the next; in no order.

    A partition tells the value at the boundary but is free to pick any of the rows that tie on it, so
    only the rows below it are sure, and the tied ones are settled by the next column.

    Partitioning everything is most of the price where few are wanted of many. A boundary guessed from a
    sample leaves out nearly all rows first; it is only trusted when as many rows as wanted are below it.
    """
    if rows is None:
        sample = columns[0][::_SAMPLED]
        guess = 2 * count // _SAMPLED + _SAMPLED
        if 2 * guess < len(sample):
            near = np.flatnonzero(columns[0] <= np.partition(sample, guess)[guess])
            rows = near if len(near) >= count else None
    values = columns[0] if rows is None else columns[0][rows]
    boundary = np.partition(values, count - 1)[count - 1]
    sure, tied = np.flatnonzero(values < boundary), np.flatnonzero(values == boundary)
    if rows is not None:
        sure, tied = rows[sure], rows[tied]
    if len(sure) + len(tied) > count:
        tied = _lowest(count - len(sure), columns[1:], tied)
    return np.concatenate([sure, tied])
