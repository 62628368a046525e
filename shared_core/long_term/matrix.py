"""The vectors of one scope, in blocks: nothing is copied as they grow, and little lies empty. No score here."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_FIRST = 64
_LARGEST = 4096  # vectors a block: one product each costs nothing beside the scan


class Matrix:
    """Unit vectors of one dimension, each owned by a position; a position may own several."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._blocks: list[npt.NDArray[np.float32]] = []
        self._filled = 0  # of the last block
        self._used = 0
        self._owner: npt.NDArray[np.int32] | None = None  # None while vector i belongs to position i

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(block.nbytes for block in self._blocks) + (0 if self._owner is None else self._owner.nbytes)

    def windows(self, raw: bytes | None) -> int:
        """How many vectors these bytes are: 0 for what no model of this dimension writes, as good as not embedded."""
        if not raw or not self.dimension or len(raw) % (4 * self.dimension):
            return 0
        return len(raw) // (4 * self.dimension)

    def add(self, raw: bytes, owner: npt.NDArray[np.int32]) -> None:
        """Append vectors, shape [n, dimension] as float32 bytes, of these positions, shape [n]."""
        vectors = np.frombuffer(raw, np.float32).reshape(len(owner), self.dimension)
        end = self._used + len(vectors)
        if self._owner is None and not np.array_equal(owner, np.arange(self._used, end)):
            self._owner = np.arange(self._used, dtype=np.int32)
        if self._owner is not None:
            self._owner = grown(self._owner, end)
            self._owner[self._used : end] = owner
        while len(vectors):
            if not self._blocks or self._filled == len(self._blocks[-1]):
                size = min(max(_FIRST, self._used), _LARGEST)
                self._blocks.append(np.empty((size, self.dimension), np.float32))
                self._filled = 0
            block = self._blocks[-1]
            some = min(len(vectors), len(block) - self._filled)
            block[self._filled : self._filled + some] = vectors[:some]
            self._filled += some
            self._used += some
            vectors = vectors[some:]

    def cosines(self, query: npt.NDArray[np.float32], n: int) -> Floats:
        """Cosine of each position's best vector with the query, shape [n]; NaN where there is none."""
        found = np.empty(self._used, np.float32)
        start = 0
        for block in self._blocks:
            some = min(len(block), self._used - start)
            np.dot(block[:some], query, out=found[start : start + some])
            start += some
        if self._owner is None and self._used == n:
            return found.astype(np.float64)
        owner = np.arange(self._used) if self._owner is None else self._owner[: self._used]
        best = np.full(n, -np.inf)
        np.maximum.at(best, owner, found)
        return np.where(np.isneginf(best), np.nan, best)


def grown(values: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
    """The array itself, or a copy with room for at least ``n`` rows where it has less."""
    if n <= len(values):
        return values
    out = np.zeros((max(n, 2 * len(values)), *values.shape[1:]), values.dtype)
    out[: len(values)] = values
    return out
