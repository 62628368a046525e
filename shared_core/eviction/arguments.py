"""What the arguments of a cache must be. Each check returns the value ready for use or raises InvalidInput."""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from shared_core import scoring
from shared_core.errors import InvalidInput

NO_BOUND = sys.maxsize


def bound(name: str, value: object) -> int:
    """A whole number from 1 on; None stands for no bound."""
    if value is None:
        return NO_BOUND
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise InvalidInput(f"{name}: expected a whole number from 1 on or None (no bound), got {value!r}")
    return int(value)


def size(value: object) -> int:
    """What ``getsizeof`` answered: a whole number of bytes from 0 on."""
    if not isinstance(value, int) or not 0 <= value <= NO_BOUND:
        raise InvalidInput(f"getsizeof: expected it to return a whole number of bytes from 0 on, got {value!r}")
    return value


def share(name: str, value: object) -> float:
    """A number from 0 to 1."""
    number = float(value) if isinstance(value, int | float | np.integer | np.floating) else np.nan
    if isinstance(value, bool) or not 0.0 <= number <= 1.0:
        raise InvalidInput(f"{name}: expected a number from 0 to 1, got {value!r}")
    return number


def unit_vector(name: str, vector: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """A finite vector of shape [d], d >= 1, scaled to length 1 (zero stays zero)."""
    try:
        array = np.asarray(vector)
    except ValueError as error:  # rows of different lengths
        raise InvalidInput(f"{name}: expected a list of numbers, got {vector!r:.80}") from error
    if array.dtype.kind not in "fiu":
        raise InvalidInput(f"{name}: expected real numbers, got {vector!r:.80}")
    if array.ndim != 1 or not len(array):
        raise InvalidInput(f"{name}: expected one vector of shape [d], got shape {list(array.shape)}; pass one row")
    with np.errstate(over="ignore"):
        array = array.astype(np.float32)
    if not np.isfinite(array).all():
        raise InvalidInput(f"{name}: expected finite float32 numbers, got NaN or infinity in it")
    return scoring.unit(array)
