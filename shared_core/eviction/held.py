"""The entries under their bounds: what comes in, what has to go for it, and in which order the steps are safe.

Everything here is called with the lock of ``changes`` held. Readers and writers without it see ``shown`` and
``changes.opened``, each read in one step and replaced in one step. No copies, no clock, no arguments' checks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from shared_core.eviction.changes import Changes
from shared_core.eviction.room import Room
from shared_core.eviction.slots import Slots
from shared_core.eviction.table import CLOSED, Evicted, Table
from shared_core.records import MISS

Shown: TypeAlias = tuple[dict[Hashable, int], list[Any], "memoryview[float]", Iterator[float]]
"""What ``get`` reads without the lock: the index, the values, the instants of last access, and the clock."""

ONE_AT_A_TIME: Final = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether there is a global interpreter lock as CPython has it. Elsewhere nothing is shown, and all take the lock."""

NOTHING: Evicted = []
"""What a put evicted that needed no room. Not to be changed."""


class Held:
    """A table, and another one after each ``reset``.

    ``quick``: the types of values that may be put without the lock (``Table``). ``counts`` are the counters of a
    cache; all but ``uncacheable`` and the hits without the lock are counted here.
    ``times`` is a clock whose every reading is a hit (``readings``).
    """

    def __init__(
        self,
        room: Room,
        new_slots: Callable[[], Slots],
        quick: frozenset[type],
        changes: Changes,
        counts: dict[str, int],
        times: Iterator[float],
    ) -> None:
        self._room = room
        self._new_slots = new_slots
        self._quick = quick
        self._changes = changes
        self._counts = counts
        self._times = times
        self.shown: Shown = {}, [], CLOSED[5], times
        self.reset()

    def reset(self) -> None:
        """Begin with an empty table; what was on its way into the old one comes too late to be seen."""
        slots = self._new_slots()
        self.table = Table(slots, frozenset() if slots.counts else self._quick)
        self._replaced()

    def _replaced(self) -> None:
        """Show the table as it is, after any part of it was replaced, ``slots.free`` too."""
        table = self.table
        if ONE_AT_A_TIME:
            self.shown = table.index, table.values, table.slots.last_accessed, self._times
            self._changes.offered = table.opened()

    # What is asked of the table

    def store(
        self,
        key: Hashable,
        value: Any,
        size: int,
        prior: float | None,
        unit: npt.NDArray[np.float32] | None,
        now: float,
    ) -> tuple[bool, Evicted, Any]:
        """Whether the value is stored, what was evicted, and what else went: all to be let go without the lock."""
        table = self.table
        slots = table.slots
        if unit is not None:
            slots.check_dimension("embedding", unit)
        slot = table.index.get(key)
        described = prior is not None or unit is not None or not slots.plain
        if table.quick and (described or type(key) is not str):
            table.close()
            self._replaced()
        evicted, gone = NOTHING, None
        new = slot is None
        try:
            added = size if slot is None else size - slots.size[slot]
            if table.bytes + added > self._room.max_bytes or (slot is None and not slots.free):
                room = self._make_room(size, slot, now)
                if room is None:
                    # A new value that is not stored leaves no old one behind: it would be stale.
                    return False, evicted, self.drop(key) if slot is not None else None
                evicted = room
            if slot is None:
                if not slots.free:
                    # All that is held is on its way in without the lock: it comes after this, and evicts it.
                    self._counts["evictions"] += 1
                    return True, [*evicted, (key, value)], None
                slot = slots.free.popleft()
                table.keys[slot], table.values[slot] = key, value
                if slots.counts:
                    slots.enter(slot, key)
            else:
                gone, table.values[slot] = table.values[slot], value
                if slots.counts and slots.use(slot):
                    slots.rescale()
            if added:
                slots.size[slot] = size
                table.bytes += added
            slots.last_accessed[slot] = now
            if described:
                slots.describe(slot, prior, unit)
            if new:
                table.index[key] = slot  # last of all: from here on readers find it
        except BaseException:  # interrupted, or a key that cannot be compared
            self.mend(table)
            raise
        return True, evicted, gone

    def look(self, key: Hashable, query: npt.NDArray[np.float32] | None, now: float) -> Any:
        """The value itself, or ``MISS``; counted as an access, the vector kept as evidence."""
        table = self.table
        slots = table.slots
        if query is not None:
            slots.check_dimension("query_vector", query)
        slot = table.index.get(key)
        if slot is None:
            self._counts["misses"] += 1
            return MISS
        self._counts["hits"] += 1
        slots.last_accessed[slot] = now
        if slots.counts and slots.use(slot):
            slots.rescale()
        if query is not None:
            slots.look(slot, query)
        return table.values[slot]

    def drop(self, key: Hashable) -> Evicted:
        """Remove an entry if it is here."""
        table = self.table
        slot = table.index.get(key)
        if slot is None:
            return []
        try:
            gone = table.take_out([slot])
            table.slots.release([slot])
        except BaseException:
            self.mend(table)
            raise
        self._replaced()
        return gone

    def mend(self, table: Table) -> None:
        """Bring a table in order in which a change did not come to its end."""
        table.mend()
        self._replaced()

    def arrive(
        self, table: Table, index: dict[Hashable, int], key: Hashable, slot: int, now: float, *, first: bool
    ) -> bool:
        """Whether what a put did without the lock stands, after others may have been at work.

        ``first``: it published its slot; otherwise another put was faster with the same key.
        """
        if table.index is not index:  # it was left behind by ``mend``
            return False
        if not first:
            table.give_back(slot)
            self._replaced()
        elif index.get(key) == slot:  # its instant may stand in a column that has been replaced since
            table.slots.last_accessed[slot] = now
        return first

    def _make_room(self, size: int, slot: int | None, now: float) -> Evicted | None:
        """Evict what must go before an entry of this size comes to ``slot`` (None: a new one).

        Returns what was evicted, or None if the entry cannot be stored; nothing was evicted then.
        """
        table, room = self.table, self._room
        if size > room.max_bytes:
            self._counts["too_large"] += 1
            return None
        if room.free_for(table, size):
            table.grow()
            self._replaced()
            return NOTHING
        waiting = table.waiting()  # asked first: who is on the way in now may have arrived when the victims are chosen
        rows = room.leaving(table, size, slot, now)
        if rows is None:
            if waiting:
                return NOTHING
            self._counts["no_room"] += 1  # only pins can leave no room
            return None
        evicted = table.take_out(rows)
        table.slots.evict(rows, [key for key, _ in evicted])
        self._replaced()
        self._counts["evictions"] += len(rows)
        return evicted
