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
from typing import Any

import numpy as np
import numpy.typing as npt

from shared_core.long_term.matrix import roomy
from shared_core.scoring.lexical import Posting

_MOST = 0xFFFF  # occurrences of a term in one memory that are told apart


_FOLDED = 16  # pages are put together into larger pieces, so that no crumbs of them are left in the heap

_Page = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint16]]
"""``code << 32 | position`` of each term of each memory, ascending, and how often it is said; Shape [n] each."""


class _Codes(dict[str, int]):
    """Numbers for terms, in order of appearance: a look-up of an unknown one gives it the next."""

    def __missing__(self, term: str) -> int:
        self[term] = code = len(self)
        return code


class Postings:
    """Filled with ``add`` until ``settle`` ends the reading of a scope, and by what is written from then on."""

    def __init__(self) -> None:
        self._codes: _Codes | None = _Codes()
        self._pages: list[_Page] = []
        self._folded: list[_Page] = []
        self._terms: list[str] = []  # sorted; term i stands at starts[i]:starts[i + 1]
        self._starts: npt.NDArray[np.int64] = np.zeros(1, np.int64)
        self._positions: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self._counts: npt.NDArray[np.uint16] = np.zeros(0, np.uint16)
        self._later: dict[str, array[int]] = {}  # position << 16 | occurrences

    def add(self, first: int, texts: Sequence[Sequence[str]]) -> None:
        """The terms of the memories at position ``first`` and after it: the next ones."""
        if self._codes is not None:
            self._pages.append(_page(self._codes, first, texts))
            if len(self._pages) == _FOLDED:
                self._folded.append(_folded(self._pages))
                self._pages = []
            return
        for position, terms in enumerate(texts, first):
            for term, times in Counter(terms).items():
                posting = self._later.get(term)
                if posting is None:
                    posting = self._later[term] = array("q")
                posting.append(position << 16 | min(times, _MOST))

    def settle(self) -> None:
        """All that is there was read: order it by term, page by page, so that no large array comes and goes."""
        codes, self._codes = self._codes, None
        if codes is None:
            return
        terms = sorted(codes)
        order = np.fromiter(map(codes.__getitem__, terms), np.int64, len(terms))
        if self._pages:
            self._folded.append(_folded(self._pages))
        df = np.zeros(len(terms), np.int64)
        for keys, _ in self._folded:
            df += np.bincount(keys >> 32, minlength=len(terms))
        self._starts = np.concatenate([[0], np.cumsum(df[order])])
        free = np.empty(len(terms), np.int64)  # where the next posting of each code goes
        free[order] = self._starts[:-1]
        total = int(self._starts[-1])
        self._positions, self._counts = roomy((total,), np.int32), roomy((total,), np.uint16)
        for keys, counts in self._folded:
            said = keys >> 32
            firsts = _firsts(said)
            lengths = np.diff(firsts, append=len(said))
            place = free[said] + np.arange(len(said)) - np.repeat(firsts, lengths)
            self._positions[place], self._counts[place] = keys & 0xFFFFFFFF, counts
            free[said[firsts]] += lengths
        self._terms, self._pages, self._folded = terms, [], []

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


def _page(codes: _Codes, first: int, texts: Sequence[Sequence[str]]) -> _Page:
    lengths = list(map(len, texts))
    said = np.fromiter(map(codes.__getitem__, chain.from_iterable(texts)), np.int64, sum(lengths))
    said <<= 32
    said |= np.repeat(np.arange(first, first + len(texts)), lengths)
    said.sort()  # equal ones are one term, said several times in one memory
    firsts = _firsts(said)
    keys, counts = said[firsts], np.diff(firsts, append=len(said))
    return keys, np.minimum(counts, _MOST).astype(np.uint16)


def _folded(pages: Sequence[_Page]) -> _Page:
    """Pages as one, ascending again."""
    keys = np.concatenate([keys for keys, _ in pages])
    order = np.argsort(keys)
    out = roomy(keys.shape, np.int64), roomy(keys.shape, np.uint16)
    out[0][:], out[1][:] = keys[order], np.concatenate([counts for _, counts in pages])[order]
    return out


def _firsts(values: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Where each run of equal values begins."""
    fresh = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=fresh[1:])
    return np.flatnonzero(fresh)
