"""BM25 over posting lists: how well each memory of a scope matches the words of a query.

A pure function of arrays. Cutting text into terms and keeping the lists live elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Posting = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
"""Where one term occurs: memory positions, Shape [df], each once; and how often, Shape [df], above 0."""

SATURATION = 1.2
"""k1: how much a word repeated inside one memory still adds. The textbook value."""

LENGTH_SHARE = 0.75
"""b: how far a long memory is marked down, in [0, 1]. The textbook value: answers of models are long."""


def idf(df: npt.ArrayLike, n: int) -> Floats:
    """Inverse document frequency of terms that occur in ``df`` of ``n`` memories; above 0. Shape as ``df``.

    ``log(1 + (n - df + 0.5) / (df + 0.5))``, the variant that never goes negative.
    """
    counts = np.asarray(df, dtype=np.float64)
    return np.log1p((n - counts + 0.5) / (counts + 0.5))


def bm25(
    postings: Sequence[Posting],
    lengths: npt.NDArray[np.float64],
    *,
    weights: Sequence[float] | None = None,
    saturation: float = SATURATION,
    length_share: float = LENGTH_SHARE,
) -> Floats:
    """Okapi BM25 of every memory. Shape [n], at least 0; 0 where no term of the query occurs.

    ``postings``: one per distinct query term, in any order. ``lengths``: terms per memory, Shape [n].
    ``weights``: what each term of the query counts, Shape [len(postings)]; 1 each by default
    (expansion terms weigh less). The statistics are those of the arrays given: one scope.

    ``sum over terms of weight * idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length))``
    (Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009, eq. 3.15,
    with ``saturation`` = k1, ``length_share`` = b and the idf above).
    """
    n = len(lengths)
    scores = np.zeros(n)
    if not n:
        return scores
    mean = float(lengths.mean()) or 1.0
    norms = saturation * (1.0 - length_share + length_share * np.asarray(lengths, dtype=np.float64) / mean)
    for i, (rows, counts) in enumerate(postings):
        weight = 1.0 if weights is None else weights[i]
        scores[rows] += weight * float(idf(len(rows), n)) * counts * (saturation + 1.0) / (counts + norms[rows])
    return scores
