"""Who must go before an entry comes: the bounds and the policy, asked of a table. Nothing is changed here."""

from __future__ import annotations

from dataclasses import dataclass

from shared_core.eviction.policies import KeepScore
from shared_core.eviction.table import Table
from shared_core.eviction.victims import excess, victims


@dataclass(frozen=True, slots=True)
class Room:
    """At most ``max_items`` entries of at most ``max_bytes`` together; the lowest by ``keep_score`` go first."""

    max_items: int
    max_bytes: int
    keep_score: KeepScore

    def free_for(self, table: Table, size: int) -> bool:
        """Whether one more entry of this size needs nobody to go."""
        return table.slots.held() < self.max_items and table.bytes + size <= self.max_bytes

    def leaving(self, table: Table, size: int, slot: int | None, now: float) -> list[int] | None:
        """The slots to give up, lowest first, before an entry of this size comes to ``slot`` (None: a new one).

        None if nobody's leaving makes room: the others are pinned, or on their way in.
        """
        slots, items, nbytes = table.slots, table.slots.held(), table.bytes
        evictable = table.evictable()
        if slot is not None:  # an overwrite: its old size is free, and it is not its own victim
            evictable[slot] = False
            items, nbytes = items - 1, nbytes - slots.size[slot]
        entries = slots.entries(now)
        scores = self.keep_score(entries)
        if scores is entries.last_accessed:  # reads go on writing there, and victims are found in several looks
            scores = scores.copy()
        lowest = victims(
            scores,
            entries.last_accessed,
            entries.inserted,
            slots.column("size"),
            evictable,
            items=excess(items, 1, self.max_items),
            size=excess(nbytes, size, self.max_bytes),
        )
        rows: list[int] = lowest.tolist()
        freed = sum(map(slots.size.__getitem__, rows))
        if items - len(rows) >= self.max_items or nbytes - freed + size > self.max_bytes:
            return None
        return rows
