"""A prior for entries that nobody rated: how often they were used lately, scaled to [0, 1].

Our own formula. It counts in accesses, not in seconds, so that a night without traffic forgets
nothing: each access to the container makes all earlier ones weigh a little less.

- A use weighs 1 and halves with every ``HALF_LIFE`` accesses per entry the container then holds;
  ``f`` is the sum of an entry's uses so weighed, and goes on from where it was if the entry comes back
  soon after an eviction.
- An entry is *proven* once it was asked for again: by a hit, or by coming back soon after it was
  evicted. What came while there was still room never had to compete, and counts as proven too.
- ``prior = (1 + f) / (2 + f)`` when proven: above 1/2, each use moves it towards 1, neglect back.
- ``prior = min(1/2, REGRET_GAIN * regret)`` when not: a newcomer has shown nothing, so it is worth what
  newcomers here have been worth lately. ``regret`` is the share of insertions, averaged over about as
  many as the container holds, that brought back something evicted shortly before. In a scan or a loop
  it is 0, and newcomers replace each other; where the working set moves it rises, and they are given
  time.

The idea of a probation that ghosts correct is that of S3-FIFO (Yang et al., SOSP 2023) and ARC
(Megiddo and Modha, FAST 2003). Ageing every count on every access would cost O(n); instead the weight
of one *new* use (``unit``) grows by ``growth`` with each access, old sums stay as they are, and the
division by ``unit`` is made where the prior is needed. O(1) an access, one vectorised pass at eviction.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

HALF_LIFE = 10
"""Accesses per held entry after which a use weighs half; ten is the sample period of W-TinyLFU."""

REGRET_GAIN = 1.5
"""How far regret raises the prior of newcomers."""


def growth(entries: int) -> float:
    """How much more the next use weighs than this one, in a container that holds this many entries."""
    result: float = 2.0 ** (1.0 / (HALF_LIFE * (entries or 1)))
    return result


def frequency_prior(
    counts: npt.ArrayLike, proven: npt.ArrayLike = True, regret: float = 0.0
) -> npt.NDArray[np.float64]:
    """The prior of entries by use, shape [n], in [0, 1]; a negative or NaN count is 0.

    An aged count is an entry's sum of unit weights at the time of its uses, divided by the unit now;
    ``proven`` has shape [n]; ``regret`` is in [0, 1].
    """
    counts = np.asarray(counts, dtype=np.float64)
    # Written so that an infinite count gives 1 and not NaN.
    used = 1.0 - 1.0 / (2.0 + np.where(counts > 0.0, counts, 0.0))
    return np.where(np.asarray(proven, dtype=np.bool_), used, min(0.5, REGRET_GAIN * max(regret, 0.0)))


def moved_regret(regret: float, came_back: bool, entries: int) -> float:
    """Regret after one more insertion into a full container that holds this many entries."""
    return regret + (float(came_back) - regret) / (entries + 20)
