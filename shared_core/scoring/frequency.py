"""A prior for entries that nobody rated: how often they were used lately, scaled to [0, 1].

Our own formula. It counts in accesses, not in seconds, so that a night without traffic forgets
nothing: each access to the container makes all earlier ones weigh a little less.

- A use weighs 1 and halves with every ``HALF_LIFE`` accesses per entry the container then holds.
- ``frequency`` is the sum of an entry's uses so weighed; ``prior = frequency / (1 + frequency)``.

A new entry thus starts at 1/2, the prior of an unrated entry; each use moves it towards 1, neglect
towards 0. Ageing every count on every access would cost O(n); instead the weight of one *new* use
(``unit``) grows by ``growth`` with each access, old sums stay as they are, and the division by
``unit`` is made where the prior is needed. O(1) an access, one vectorised pass at eviction.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

HALF_LIFE = 10
"""Accesses per held entry after which a use weighs half; ten is the sample period of W-TinyLFU."""


def growth(entries: int) -> float:
    """How much more the next use weighs than this one, in a container that holds this many entries."""
    return float(2.0 ** (1.0 / (HALF_LIFE * max(entries, 1))))


def frequency_prior(counts: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Scale aged use counts, shape [n], to [0, 1]: ``f / (1 + f)``; a negative or NaN count is 0.

    An aged count is an entry's sum of unit weights at the time of its uses, divided by the unit now.
    """
    counts = np.asarray(counts, dtype=np.float64)
    # Written so that an infinite count gives 1 and not NaN.
    return 1.0 - 1.0 / (1.0 + np.where(counts > 0.0, counts, 0.0))
