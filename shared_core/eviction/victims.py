"""Who goes: the exact lowest entries, in the order in which they go. No scores are made here."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]


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

    All arrays have shape [n]. Lowest means by score, ties least recently used first, then oldest
    insertion (``inserted`` has no duplicates). Entries where ``evictable`` is False (pinned, or not
    there at all) are never chosen; if the others do not free enough, all of them are chosen.
    """
    rows = np.flatnonzero(evictable)
    if not len(rows) or (items <= 0 and size <= 0):
        return rows[:0]
    # How many entries free `size` bytes is known only in order: guess from the mean, look, double.
    count = max(items, int(1.25 * size / max(float(sizes.mean()), 1.0)) + 1 if size > 0 else 0)
    while True:
        count = min(count, len(rows))
        chosen = _lowest(rows, count, (scores, last_accessed, inserted))
        chosen = chosen[np.lexsort((inserted[chosen], last_accessed[chosen], scores[chosen]))]
        enough = max(items, int(np.searchsorted(np.cumsum(sizes[chosen]), size)) + 1 if size > 0 else 0)
        if enough <= count or count == len(rows):
            return chosen[:enough]
        count *= 2


def _lowest(rows: Rows, count: int, columns: tuple[Floats | Ints, ...]) -> Rows:
    """The ``count`` lowest of these rows by the first column, ties by the next; in no order.

    A partition tells the value at the boundary but is free to pick any of the rows that tie on it, so
    only the rows below are sure, and the tied ones are settled by the next column.
    """
    if len(rows) == count or not columns:
        return rows
    values = columns[0][rows]
    boundary = np.partition(values, count - 1)[count - 1]
    sure, tied = rows[values < boundary], rows[values == boundary]
    return np.concatenate([sure, _lowest(tied, count - len(sure), columns[1:])])
