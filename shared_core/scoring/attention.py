"""How much something matters: the second half of the rule.

Model providers return no attention weights, so this is a proxy: a prior for what was worth keeping
when it was written, moved by the cosine with the task at hand. No thresholds and no storage here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def unit(vectors: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Scale vectors of shape [d] or [n, d] to length 1 along the last axis; a zero vector stays zero."""
    vectors = np.asarray(vectors, dtype=np.float32)
    # float64, because the square of a large float32 is not a float32 any more.
    length = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    return (vectors / np.where(length > 0.0, length, 1.0)).astype(np.float32)


def cosine(units: npt.NDArray[np.float32], unit_task: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Evidence: the cosine of each row with the task vector, clipped to [0, 1].

    ``units`` has shape [n, d] and ``unit_task`` shape [d], both from ``unit``; the result has shape [n].
    A zero vector on either side gives 0; a row of NaN (no embedding) gives NaN (no evidence).

    ``einsum`` rather than ``@``: as fast, and a row's result does not depend on which rows stand
    around it, so that equal embeddings tie exactly and stamping late equals stamping at once.
    """
    cosines = np.einsum("nd,d->n", units, unit_task)
    return np.asarray(np.clip(cosines, 0.0, 1.0), dtype=np.float64)


def attention(prior: npt.ArrayLike, evidence: npt.ArrayLike, weight: float) -> npt.NDArray[np.float64]:
    """``(1 - weight) * prior + weight * evidence``; evidence NaN means none yet and equals the prior.

    ``prior`` and ``evidence`` are in [0, 1], shape [n] or scalars; ``weight`` is in [0, 1].
    """
    prior = np.asarray(prior, dtype=np.float64)
    evidence = np.asarray(evidence, dtype=np.float64)
    result = np.where(np.isnan(evidence), prior, evidence)
    result *= weight
    result += (1.0 - weight) * prior
    return result
