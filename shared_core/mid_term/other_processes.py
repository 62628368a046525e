"""What processes that share the rows know of each other's events on tool results: counters that only grow.

No entries and no generations: those are of this process alone (``invalidation.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.mid_term.invalidation import Kind, Reach, counter
from shared_core.mid_term.rows import Rows


class OtherProcesses:
    """The shared counters. Without rows there are no others: nothing moves, and no event reaches further."""

    def __init__(self, rows: Rows | None) -> None:
        self._rows = rows
        self._noted: set[tuple[str, str]] = set()

    def stamps(self, reach: Reach) -> tuple[int, ...] | None:
        """Where the counters of all the entry hangs on stand; None if that cannot be told now."""
        found = self._rows.stamps(reach.counters()) if self._rows is not None else []
        return None if found is None else tuple(found)

    def note(self, reach: Reach) -> bool:
        """Before the first execution: events of other processes must know what there is to reach."""
        for at in (("tool", reach.tool), ("space", reach.space)):
            if self._rows is not None and at not in self._noted:
                if not self._rows.note(*at):
                    return False
                self._noted.add(at)
        return True

    def end(self, kind: Kind, texts: Sequence[str], *, scope: str | None = None, space: str | None = None) -> int:
        """End what hangs on these things for every process that shares the rows; how many rows."""
        within = texts[0] if kind == "space" and texts else space
        if self._rows is None or not texts or (within is not None and not self._used(within)):
            return 0
        names = [counter(kind, text, scope=scope, space=space) for text in texts]
        tags = [counter(kind, text, space=space) for text in texts]
        return self._rows.advance(names, tags, scope)

    def tools(self, prefix: str) -> set[str]:
        """Names of tools with rows that start so."""
        return set(self._rows.names("tool", prefix)) if self._rows is not None else set()

    def _used(self, space: str) -> bool:
        """Whether any process ever kept a result in the space; if none did, an event in it reaches nothing."""
        if ("space", space) not in self._noted and self._rows is not None and self._rows.noted("space", space):
            self._noted.add(("space", space))
        return ("space", space) in self._noted
