"""A clock that counts how often it was read, without a lock. No time of its own, no entries here."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat, starmap
from operator import length_hint
from typing import Final

_MANY: Final = 2**62
"""More readings than can ever be."""


class Readings:
    """``next(readings.times)`` is ``clock()``, and counts as one reading.

    ``starmap`` takes an item from ``repeat`` and then calls the clock. The taking is one step in C, which the
    global interpreter lock makes indivisible: each of any number of threads takes its own, none is lost, and
    counting costs hardly more than the clock alone. A lock around a counter would cost more than the rest
    of a hit.
    """

    __slots__ = ("_left", "times")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._left = repeat((), _MANY)
        self.times = starmap(clock, self._left)

    def count(self) -> int:
        """How many readings there were."""
        return _MANY - length_hint(self._left)
