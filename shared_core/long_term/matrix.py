"""The vectors of one scope in one array, and arrays that give back to the system what they take. No score here."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_FIRST = 64
_LARGE = 1 << 17  # bytes from which an array gets memory of its own


class Matrix:
    """Unit vectors of one dimension, each owned by a position; a position may own several."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._vectors: npt.NDArray[np.float32] = np.empty((0, dimension), np.float32)
        self._used = 0
        self._owner: npt.NDArray[np.int32] | None = None  # None while vector i belongs to position i

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._vectors.nbytes + (0 if self._owner is None else self._owner.nbytes)

    def windows(self, raw: bytes | None) -> int:
        """How many vectors these bytes are: 0 for what no model of this dimension writes, as good as not embedded."""
        if not raw or not self.dimension or len(raw) % (4 * self.dimension):
            return 0
        return len(raw) // (4 * self.dimension)

    def add(self, raw: bytes, owner: npt.NDArray[np.int32], *, room: int = 0) -> None:
        """Append vectors, shape [n, dimension] as float32 bytes, of these positions, shape [n].

        ``room`` is how many there are going to be in all, as far as it is known.
        """
        end = self._used + len(owner)
        if self._owner is None and not np.array_equal(owner, np.arange(self._used, end)):
            self._owner = np.arange(self._used, dtype=np.int32)
        if self._owner is not None:
            self._owner = grown(self._owner, end)
            self._owner[self._used : end] = owner
        if end > len(self._vectors):
            larger = roomy((max(end, room, _FIRST, 2 * self._used), self.dimension), np.float32)
            larger[: self._used] = self._vectors[: self._used]
            self._vectors = larger
        self._vectors[self._used : end] = np.frombuffer(raw, np.float32).reshape(len(owner), self.dimension)
        self._used = end

    def cosines(self, query: npt.NDArray[np.float32], n: int) -> Floats:
        """Cosine of each position's best vector with the query, shape [n]; NaN where there is none."""
        found = self._vectors[: self._used] @ query
        if self._owner is None and self._used == n:
            return found.astype(np.float64)
        owner = np.arange(self._used) if self._owner is None else self._owner[: self._used]
        best = np.full(n, -np.inf)
        np.maximum.at(best, owner, found)
        return np.where(np.isneginf(best), np.nan, best)


def roomy(shape: tuple[int, ...], dtype: type) -> npt.NDArray[Any]:
    """An array of any content. A large one takes no memory where nothing was written yet, and all goes when it goes.

    Arrays from the heap do neither for sure: what is freed between two things that stay is lost to the system.
    """
    count = int(np.prod(shape))
    size = count * np.dtype(dtype).itemsize
    if size < _LARGE:
        return np.empty(shape, dtype)
    return np.frombuffer(mmap.mmap(-1, size, access=mmap.ACCESS_COPY), dtype).reshape(shape)


def grown(values: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
    """The array itself, or a copy with room for at least ``n`` rows where it has less; zeros where it is new."""
    if n <= len(values):
        return values
    out = np.zeros((max(n, 2 * len(values)), *values.shape[1:]), values.dtype)
    out[: len(values)] = values
    return out
