"""What a cache holds: which key stands in which slot, with which value. No bound, no policy, no lock of its own.

The methods are for whoever holds the lock of the owner. Keys are also added without it, by steps that the global
interpreter lock makes indivisible: a slot is taken from ``slots.free``, filled, and published in ``index`` last
of all. So between two steps a slot may be neither free nor in the index: it is on its way in, and nobody else's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from shared_core.eviction.slots import Slots

Evicted = list[tuple[Hashable, Any]]

Opened: TypeAlias = tuple[
    frozenset[type], dict[Hashable, int], deque[int], list[Hashable], list[Any], "memoryview[float]", "Table | None"
]
"""All that a put without the lock needs, read in one step: ``Table.opened``."""

CLOSED: Final[Opened] = (frozenset(), {}, deque(), [], [], np.zeros(0).data, None)  # type: ignore[assignment]
"""Lets no value in."""


class Table:
    """Keys and values beside ``slots``; ``bytes`` is the sum of the sizes that stand there.

    A table is emptied by making another: whoever is on the way into this one comes too late to be seen, as if
    before the emptying. ``quick`` are the types of values that may come in without the lock; none at all
    once there is something they would have to ask for (a key with code of its own, a prior, an embedding).
    """

    def __init__(self, slots: Slots, quick: frozenset[type]) -> None:
        self.slots = slots
        self.index: dict[Hashable, int] = {}
        self.keys: list[Hashable] = []
        self.values: list[Any] = []
        self.bytes = 0
        self.quick = quick
        self.grow()

    def opened(self) -> Opened:
        """What a put without the lock may use until something of it is replaced; ``CLOSED`` lets no value in."""
        if not self.quick:
            return CLOSED
        slots = self.slots
        return self.quick, self.index, slots.free, self.keys, self.values, slots.last_accessed, self

    def close(self) -> None:
        """Let nobody in any more without the lock, nor those who are on their way."""
        if self.quick:
            self.mend()
            self.quick = frozenset()

    def grow(self) -> None:
        """More free slots, once there is none. Those taken from now on wait in another queue than those before."""
        more = [None] * self.slots.grow()
        self.keys += more
        self.values += more

    def waiting(self) -> int:
        """How many slots are on their way in, or lost to a put that was interrupted."""
        return self.slots.held() - len(self.index)

    def evictable(self) -> npt.NDArray[np.bool_]:
        """Which slots hold an entry that is neither pinned nor on its way in, shape [n]."""
        found = self.slots.evictable()
        if self.waiting():
            published = np.zeros(len(found), dtype=np.bool_)
            published[list(self.index.values())] = True
            found &= published
        return found

    def take_out(self, rows: list[int]) -> Evicted:
        """Remove the entries of these slots and return them; the slots are still to be given back."""
        # Plain passes, each over all rows: what waits for memory then waits for many rows at once.
        keys, values = self.keys, self.values
        gone = list(map(keys.__getitem__, rows)), list(map(values.__getitem__, rows))
        for key in gone[0]:
            del self.index[key]
        sizes = self.slots.size
        self.bytes -= sum(map(sizes.__getitem__, rows))
        for row in rows:
            keys[row] = values[row] = None
            sizes[row] = 0
        return list(zip(*gone, strict=True))

    def give_back(self, slot: int) -> None:
        """Free a slot whose key another put has published."""
        self.keys[slot] = self.values[slot] = None
        self.slots.release([slot])

    def mend(self) -> None:
        """Make everything follow the index again after a change that did not come to its end.

        Which slots it had taken nobody knows: all that are not in the index are free. So puts on their way in
        are left behind with the old index; they see that it is not this table's any more, and come again.
        """
        old = self.values
        if self.quick:  # plain keys: copying them compares nothing that could fail
            self.index = dict(self.index)
        held = set(self.index.values())
        room = self.slots.reclaim(held)
        self.keys, self.values = [None] * room, [None] * room
        for key, slot in list(self.index.items()):
            self.keys[slot], self.values[slot] = key, old[slot]
        self.bytes = sum(map(self.slots.size.__getitem__, held))
