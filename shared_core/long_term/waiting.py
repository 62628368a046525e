"""Read facts that wait to be written down: when memories were last read, how often, and with what evidence. No storage."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from shared_core.forks import renew_in_child
from shared_core.records import Memory
from shared_core.storage.base import Access


class WaitingReads:
    """The reads of every scope since the last write. Thread-safe; a forked child starts with none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[str, Access]] = {}
        self._going: list[dict[str, dict[str, Access]]] = []  # those that a write is about to write down
        renew_in_child(self)

    def note(self, scope: str, accesses: Iterable[Access]) -> None:
        """Let these wait; several of one memory become one."""
        with self._lock:
            waiting = self._waiting.setdefault(scope, {})
            for access in accesses:
                earlier = waiting.get(access.id)
                waiting[access.id] = access if earlier is None else _joined(earlier, access)

    def of(self, scope: str) -> dict[str, Access]:
        """What waits in a scope, by memory id."""
        with self._lock:
            return dict(self._waiting.get(scope, {}))

    def unwritten(self, scope: str, id: str) -> Access | None:
        """What is not written down yet of one memory: what waits, and what a write has taken and not ended.

        That write may itself wait long for another process; a reader does not wait with it.
        """
        found = None
        with self._lock:
            for some in (*self._going, self._waiting):
                access = some.get(scope, {}).get(id)
                if access is not None:
                    found = access if found is None else _joined(found, access)
        return found

    def as_read(self, memory: Memory) -> Memory:
        """The memory with the reads that are not written down yet."""
        access = self.unwritten(memory.scope, memory.id)
        if access is None:
            return memory
        return replace(
            memory,
            last_accessed=max(memory.last_accessed, access.last_accessed),
            access_count=memory.access_count + access.count,
        )

    @contextmanager
    def taken(self) -> Iterator[Mapping[str, Sequence[Access]]]:
        """All of them, by scope, to be written down in the block; they wait on if it raises."""
        with self._lock:
            taken, self._waiting = self._waiting, {}
            self._going.append(taken)
        try:
            yield {scope: list(waiting.values()) for scope, waiting in taken.items()}
        except BaseException:
            with self._lock:
                for scope, waiting in taken.items():
                    newer = self._waiting.setdefault(scope, {})
                    for id, access in waiting.items():
                        newer[id] = _joined(access, newer[id]) if id in newer else access
                self._ended(taken)
            raise
        with self._lock:
            self._ended(taken)

    def _ended(self, taken: dict[str, dict[str, Access]]) -> None:
        self._going = [one for one in self._going if one is not taken]

    def drop(self, scope: str) -> None:
        """Forget what waits in a scope."""
        with self._lock:
            for some in (*self._going, self._waiting):
                some.pop(scope, None)

    def drop_all(self) -> int:
        """Forget all that waits; how many memories were read."""
        with self._lock:
            dropped = sum(map(len, self._waiting.values()))
            self._waiting.clear()
        return dropped

    def after_fork_in_child(self) -> None:
        """A lock of our own; the reads that wait are the parent's to write down."""
        self._lock, self._waiting, self._going = threading.Lock(), {}, []


def _joined(first: Access, then: Access) -> Access:
    return Access(
        first.id,
        max(first.last_accessed, then.last_accessed),
        first.count + then.count,
        first.evidence if then.evidence is None else then.evidence,
    )
