"""Who goes: the exact lowest entries, in the order in which they go. No scores are made here."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def victims(
    scores: Floats,
    last_accessed: Floats,
    inserted: Ints,
    sizes: Ints,
    evictable: npt.NDArray[np.bool_],
    *,
    items: int = 0,
    size: int = 0,
) -> npt.NDArray[np.intp]:
    """The fewest lowest entries that free at least ``items`` entries and ``size`` bytes, lowest first.

    All arrays have shape [n]. Lowest means by score, ties least recently used first, then oldest
    insertion (``inserted`` has no duplicates). Entries where ``evictable`` is False (pinned, or not
    there at all) are never chosen; if the others together do not free enough, all of them are.
    """
    rows = np.arange(len(scores)) if evictable.all() else np.flatnonzero(evictable)
    if items <= 0 and size <= 0:
        return rows[:0]
    columns = (scores[rows], last_accessed[rows], inserted[rows])
    # How many entries free `size` bytes is known only in order: guess from the mean, look, double.
    mean = max(float(sizes[rows].mean()), 1.0) if len(rows) and size > 0 else 1.0
    count = max(items, int(size / mean) + 1, 1)
    while True:
        chosen = _lowest(min(count, len(rows)), columns)
        freed = np.cumsum(sizes[rows[chosen]])
        enough = max(items, int(np.searchsorted(freed, size)) + 1 if size > 0 else 0)
        if enough <= len(chosen) or len(chosen) == len(rows):
            return rows[chosen[:enough]]
        count *= 2


def _lowest(count: int, columns: tuple[Floats, Floats, Ints]) -> npt.NDArray[np.intp]:
    """The ``count`` lowest rows by the first column, ties by the second, then the third; in that order.

    ``argpartition`` finds the score at the boundary but is free to pick any rows that tie on it, so
    these are settled by the next column, and so on; only the chosen ones are sorted.
    """
    tied = np.arange(len(columns[0]))
    taken = []
    wanted = count
    for column in columns:
        if wanted >= len(tied):
            break
        values = column[tied]
        boundary = values[np.argpartition(values, wanted - 1)[wanted - 1]]
        below = tied[values < boundary]
        taken.append(below)
        wanted -= len(below)
        tied = tied[values == boundary]
    chosen = np.concatenate([*taken, tied[:wanted]])
    scores, last_accessed, inserted = (column[chosen] for column in columns)
    return chosen[np.lexsort((inserted, last_accessed, scores))]
