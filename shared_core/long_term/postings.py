"""Posting lists of one scope: which memories say a term, and how often. No formula here (``scoring/lexical.py``).

What is there when a scope is read goes into two flat arrays, ordered by term: a dict of lists would take longer
to fill than the rows take to read, and as much memory as a tenth of the vectors. What is written later is
appended term by term.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from shared_core.scoring.lexical import Posting

_MOST = 0xFFFF  # occurrences of a term in one memory that are told apart


class _Codes(dict[str, int]):
    """Numbers for terms, in order of appearance: a look-up of an unknown one gives it the next."""

    def __missing__(self, term: str) -> int:
        self[term] = code = len(self)
        return code


class Postings:
    """Filled once with ``extend``, then closed by ``settle``, and from then on ``add`` by ``add``."""

    def __init__(self) -> None:
        self._codes: _Codes | None = _Codes()
        self._pages: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint16]]] = []
        self._terms: list[str] = []  # sorted; term i stands at starts[i]:starts[i + 1]
        self._starts: npt.NDArray[np.int64] = np.zeros(1, np.int64)
        self._positions: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self._counts: npt.NDArray[np.uint16] = np.zeros(0, np.uint16)
        self._later: dict[str, array[int]] = {}  # position << 16 | occurrences

    def add(self, first: int, texts: Sequence[Sequence[str]]) -> None:
        """The terms of the memories at ``first`` and after it; positions only grow."""
        if self._codes is not None:
            self._pages.append(_page(self._codes, first, texts))
            return
        for position, terms in enumerate(texts, first):
            for term, times in Counter(terms).items():
                posting = self._later.get(term)
                if posting is None:
                    posting = self._later[term] = array("q")
                posting.append(position << 16 | min(times, _MOST))

    def settle(self) -> None:
        """All that is there was read: order it by term."""
        codes, self._codes = self._codes, None
        if codes is None:
            return
        terms = sorted(codes)
        rank = np.empty(len(terms), np.int64)
        rank[np.fromiter(map(codes.__getitem__, terms), np.int64, len(terms))] = np.arange(len(terms))
        keys = np.concatenate([keys for keys, _ in self._pages] or [np.zeros(0, np.int64)])
        ranks = rank[keys >> 32].astype(np.int32)
        order = np.argsort(ranks, kind="stable")  # the pages came in order of position
        starts = np.searchsorted(ranks[order], np.arange(len(terms) + 1))
        self._positions = (keys & 0xFFFFFFFF).astype(np.int32)[order]
        self._counts = np.concatenate([counts for _, counts in self._pages] or [np.zeros(0, np.uint16)])[order]
        self._pages = []
        self._starts, self._terms = starts, terms

    @property
    def nbytes(self) -> int:
        """Bytes of the flat arrays."""
        return self._starts.nbytes + self._positions.nbytes + self._counts.nbytes

    def of(self, term: str) -> Posting:
        """The positions of the memories that say it, ascending, and how often each does."""
        start, end = self._settled(term)
        positions, counts = self._positions[start:end].astype(np.int64), self._counts[start:end].astype(np.float64)
        later = self._later.get(term)
        if later is not None:
            packed = np.array(later, np.int64)
            positions = np.concatenate([positions, packed >> 16])
            counts = np.concatenate([counts, (packed & _MOST).astype(np.float64)])
        return positions, counts

    def df(self, term: str) -> int:
        """How many memories say it."""
        start, end = self._settled(term)
        return end - start + len(self._later.get(term, ()))

    def _settled(self, term: str) -> tuple[int, int]:
        i = bisect_left(self._terms, term)
        if i == len(self._terms) or self._terms[i] != term:
            return 0, 0
        return int(self._starts[i]), int(self._starts[i + 1])


def _page(
    codes: _Codes, first: int, texts: Sequence[Sequence[str]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint16]]:
    """``code << 32 | position`` of each term of each memory, ascending, and how often it is said there."""
    lengths = list(map(len, texts))
    said = np.fromiter(map(codes.__getitem__, chain.from_iterable(texts)), np.int64, sum(lengths))
    said <<= 32
    said |= np.repeat(np.arange(first, first + len(texts)), lengths)
    keys, counts = np.unique(said, return_counts=True)
    return keys, np.minimum(counts, _MOST).astype(np.uint16)
