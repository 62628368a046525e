"""How fresh something is: the first half of the rule. Ages in, numbers in [0, 1] out; no clock here."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def recency(age: npt.ArrayLike, time_scale: float) -> npt.NDArray[np.float64]:
    """``1 / (1 + age / time_scale)``: 1 when just used, 1/2 after one time scale, never negative.

    ``age`` is seconds since the last access, shape [n] or a scalar; below 0 (a clock set back) counts
    as 0, and NaN (never seen) as infinitely old, so a fact that cannot be read never looks fresh.
    ``time_scale`` is in seconds and above 0; the caller has checked it (``settings.Rule``).
    """
    result = np.maximum(np.asarray(age, dtype=np.float64), 0.0, out=np.empty(np.shape(age)))
    # In place from here on: at 100 000 entries, fresh arrays cost more than the arithmetic.
    result /= time_scale
    result += 1.0
    np.divide(1.0, result, out=result)
    result[np.isnan(result)] = 0.0
    return result
