"""What was evicted lately, and how often it was asked for again: the container's regret.

Only hashes and use counts are kept, no key and no value; as many as the container holds entries.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import islice

from shared_core import scoring


class Ghosts:
    """Hashes of evicted keys with their use counts, oldest first. Not thread-safe: its owner holds the lock.

    ``began`` is False until the first eviction: nothing has had to compete so far.
    """

    def __init__(self) -> None:
        self.regret = 0.0
        self.began = False
        self._uses: dict[int, float] = {}
        self._left = 0  # ghosts that went since the dict was last packed

    def leave(self, keys: Iterable[Hashable], uses: Iterable[float], held: int) -> None:
        """Note evictions, in their order, that left ``held`` entries; ghosts beyond the entries there were go."""
        self.began = True
        ghosts = self._uses
        ghosts.update(zip(map(hash, keys), uses, strict=True))
        # The last one to go was still held when it went.
        for ghost in list(islice(ghosts, max(0, len(ghosts) - (held + 1)))):
            del ghosts[ghost]
            self._left += 1
        # A dict keeps the place of what left it, and grows on: twice the memory, half of it empty.
        if 2 * self._left > len(ghosts):
            self._uses, self._left = dict(ghosts), 0

    def enter(self, key: Hashable, held: int) -> float | None:
        """A key is inserted among ``held``: the use count it had when it was evicted, None if it was not lately."""
        uses = self._uses.pop(hash(key), None)
        self._left += uses is not None
        self.regret = scoring.moved_regret(self.regret, uses is not None, held)
        return uses

    def rescale(self, factor: float) -> None:
        """Multiply every count: the unit in which uses are counted has changed."""
        self._uses = {ghost: uses * factor for ghost, uses in self._uses.items()}
