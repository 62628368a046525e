"""What was evicted lately, and how often it was asked for again: the container's regret.

Only hashes and use counts are kept, no key and no value; as many as the container holds entries.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import islice

from shared_core import scoring


class Ghosts:
    """Hashes of evicted keys with their use counts, oldest first. Not thread-safe: its owner holds the lock."""

    def __init__(self) -> None:
        self.regret = 0.0
        self._uses: dict[int, float] = {}
        self._began = False

    def leave(self, key: Hashable, uses: float, held: int) -> None:
        """Note that an entry was evicted from among ``held``; the oldest ghosts beyond that number go."""
        self._began = True
        self._uses[hash(key)] = uses
        surplus = len(self._uses) - max(held, 1)
        if surplus > 0:
            for ghost in list(islice(self._uses, surplus)):
                del self._uses[ghost]

    def enter(self, key: Hashable, held: int) -> tuple[float, bool]:
        """A key is inserted: the use count it had, and whether it is proven (``scoring/frequency.py``)."""
        if not self._began:
            return 0.0, True
        uses = self._uses.pop(hash(key), None)
        self.regret = scoring.moved_regret(self.regret, uses is not None, held)
        return uses or 0.0, uses is not None

    def rescale(self, factor: float) -> None:
        """Multiply every count: the unit in which uses are counted has changed."""
        self._uses = {ghost: uses * factor for ghost, uses in self._uses.items()}
