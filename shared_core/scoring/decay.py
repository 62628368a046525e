"""The forgetting curve: what a stored importance is still worth now. Nothing is ever written back.

The stored value stays what it was and the loss is computed from stored facts and ``now``: asking
twice does not forget twice.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def effective_importance(
    importance: npt.ArrayLike, days: npt.ArrayLike, access_count: npt.ArrayLike, decay: float
) -> npt.NDArray[np.float64]:
    """``importance * decay ** (days / max(access_count, 1))``, in [0, 1]; shapes [n] or scalars.

    ``days`` is days since the last access, below 0 counts as 0 and NaN as infinitely long ago;
    ``decay`` in (0, 1] is the share left after one day. An importance outside [0, 1] is clipped, NaN
    is 1/2 (unrated). Falls with days, rises with importance and with the number of accesses.
    """
    importance = np.asarray(importance, dtype=np.float64)
    days = np.asarray(days, dtype=np.float64)
    access_count = np.asarray(access_count, dtype=np.float64)
    importance = np.minimum(np.maximum(np.where(np.isnan(importance), 0.5, importance), 0.0), 1.0)
    days = np.where(np.isnan(days), np.inf, np.maximum(days, 0.0))
    # The upper end keeps infinity / infinity out; a NaN count is an unknown one, hence 1.
    strength = np.where(access_count >= 1.0, np.minimum(access_count, np.finfo(np.float64).max), 1.0)
    return importance * decay ** (days / strength)
