"""What processes that share the rows know of each other's events on tool results: counters that only grow.

No entries and no generations: those are of this process alone (``invalidation.py``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from shared_core.mid_term.invalidation import Kind, Reach, counter
from shared_core.mid_term.rows import Rows
from shared_core.mid_term.tools import MOST_DEFAULTS


class OtherProcesses:
    """The shared counters. Without rows there are no others: nothing moves, and no event reaches further."""

    def __init__(self, rows: Rows | None) -> None:
        self._rows = rows
        self._noted: set[tuple[str, str]] = set()
        self._functions: Counter[str] = Counter()

    def stamps(self, reach: Reach) -> tuple[int, ...] | None:
        """Where the counters of all the entry hangs on stand; None if that cannot be told now."""
        found = self._rows.stamps(reach.counters()) if self._rows is not None else []
        return None if found is None else tuple(found)

    def note(self, reach: Reach, defaults: Callable[[], Mapping[str, str]]) -> bool:
        """Before the first execution: events of other processes must know what there is to reach.

        ``defaults`` are the digests of those of the function: no value stands outside its scope's rows.
        """
        if self._rows is None:
            return True
        for at in (("tool", reach.tool), ("space", reach.space), *self._to_note(reach.tool, defaults())):
            if at not in self._noted:
                if not self._rows.note(*at):
                    return False
                self._noted.add(at)
        return True

    def _to_note(self, tool: str, defaults: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        at = (_defaults_of(tool), json.dumps(defaults, sort_keys=True))
        if defaults and at not in self._noted and self._functions[tool] < MOST_DEFAULTS:
            self._functions[tool] += 1
            yield at

    def defaults(self, tool: str) -> Iterator[dict[str, str]]:
        """What any process noted of the defaults of the tool's functions."""
        for text in self._rows.names(_defaults_of(tool), "") if self._rows is not None else ():
            try:
                found = json.loads(text)
            except ValueError:  # a row that another hand wrote
                continue
            if isinstance(found, dict):
                yield {name: str(value) for name, value in found.items()}

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


def _defaults_of(tool: str) -> str:
    return f"defaults.{json.dumps(tool)}"  # escaped: a name may be any text
