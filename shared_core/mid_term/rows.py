"""The persistent side of a cache: rows and counters of a ``Blobs``, never in the way of an answer.

Every failure of the storage is counted and means "not there"; nothing here raises because of it. Nor does
anything wait for long: while another process holds the file, what would be stored is not. An event
that could not be written is kept and written before anything is read or stored again: until then this
process uses no row, since it could be untrue.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from shared_core.errors import StorageError
from shared_core.forks import renew_in_child
from shared_core.settings import Settings
from shared_core.storage import codec
from shared_core.storage.base import Blob, Blobs

T = TypeVar("T")
_TRIM_EVERY: Final = 256
_MAX_PENDING: Final = 1000
WAIT_SECONDS: Final = 0.25
"""How long a write waits for another writer: longer than any that is at work takes, and only once for one that
is stalled: after a write that failed none waits until one has gone through.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One stored entry: facts as plain values, the value's bytes, when it was made (epoch seconds)."""

    facts: dict[str, Any]
    raw: bytes
    created: float


@dataclass(frozen=True, slots=True)
class _Event:
    names: tuple[str, ...]
    tags: tuple[str, ...]
    scope: str | None


class Rows:
    """Rows of one namespace. Thread-safe as far as the ``Blobs`` is."""

    def __init__(self, blobs: Blobs, namespace: str, settings: Settings) -> None:
        self._blobs = blobs
        self._namespace = namespace
        self._settings = settings
        self._lock = threading.Lock()
        self._pending: dict[_Event, None] = {}
        self._saves = 0
        self._cut_off = False
        self._stalled = False
        self.errors = 0
        renew_in_child(self)

    def after_fork_in_child(self) -> None:
        """A lock of our own. Events that wait are said by both: twice is once."""
        self._lock = threading.Lock()

    def load(self, scope: str, key: str, now: float) -> Row | None:
        """The row, or None."""

        def read() -> Row | None:
            (blob,) = self._blobs.get(scope, self._namespace, [key], now=now)
            if blob is None:
                return None
            facts, _, raw = blob.value.partition(b"\n")
            found = codec.decode(facts)
            codec.decode(raw)  # a poisoned value is found out here, not when it is handed out
            if not isinstance(found, dict):
                raise StorageError("a stored entry cannot be read: its facts are no dict")
            return Row(found, raw, blob.created_at)

        return self._try(read, None)

    def save(self, scope: str, key: str, row: Row, *, expires: float | None, tags: Sequence[str] = ()) -> bool:
        """Store the row; now and then remove the oldest ones beyond the bounds of the cache. Whether it is stored."""

        def write(blobs: Blobs) -> bool:
            value = codec.encode(row.facts) + b"\n" + row.raw
            blobs.put(scope, self._namespace, [Blob(key, value, row.created, expires, tuple(tags))])
            with self._lock:
                self._saves += 1
                due = self._saves % _TRIM_EVERY == 1
            if due:
                bounds = self._settings
                blobs.trim(self._namespace, max_items=bounds.cache_items, max_bytes=bounds.cache_bytes)
            return True

        return self._write(write, False)

    def drop(self, gone: Iterable[tuple[str, str]]) -> None:
        """Remove rows given as (scope, key)."""
        by_scope: dict[str, list[str]] = {}
        for scope, key in gone:
            by_scope.setdefault(scope, []).append(key)
        for scope, keys in by_scope.items():
            self._write(partial(self._delete, scope, keys), 0)

    def _delete(self, scope: str, keys: Sequence[str], blobs: Blobs) -> int:
        return blobs.delete(scope, self._namespace, keys)

    def clear(self, scope: str | None) -> int:
        """Remove the rows of a scope, or all; how many."""
        return self._try(lambda: self._blobs.clear(scope, self._namespace), 0)

    def stamps(self, names: Sequence[str]) -> list[int] | None:
        """Where the shared counters stand; None if that cannot be told."""
        return self._try(lambda: list(self._blobs.counters(names)), None)

    def generation(self, scope: str) -> int | None:
        """The scope's generation; None if that cannot be told."""
        return self._try(lambda: self._blobs.generation(scope), None)

    def advance(self, names: Sequence[str], tags: Sequence[str], scope: str | None) -> int:
        """Make an event known to every process; how many rows it removed."""
        event = _Event(tuple(names), tuple(tags), scope)
        with self._lock:
            self._pending[event] = None  # the same event twice is one
            if len(self._pending) > _MAX_PENDING:
                self._cut_off = True  # too much is unsaid: from now on this process uses no row and keeps nothing
                self._pending.clear()
        return self._write(self._flush, 0, flushed=True)

    def close(self) -> None:
        """Say what is unsaid, and wait for it: this process will not come back to it."""
        if self._pending:
            self._try(lambda: self._flush(self._blobs), 0, flushed=True)

    def note(self, kind: str, name: str) -> bool:
        """Let every process know of a name of this kind (a tool, a space). Whether it is written."""
        place = f"\x1f{self._namespace}.{kind}"  # no scope that a user can name

        def write(blobs: Blobs) -> bool:
            blobs.put(place, place, [Blob(json.dumps(name), b"", 0.0)])  # escaped: a name may be any text
            return True

        return self._write(write, False)

    def noted(self, kind: str, name: str) -> bool:
        """Whether any process noted the name; True if that cannot be told."""
        place = f"\x1f{self._namespace}.{kind}"  # no scope that a user can name
        return self._try(lambda: self._blobs.get(place, place, [json.dumps(name)], now=0.0)[0] is not None, True)

    def names(self, kind: str, prefix: str) -> list[str]:
        """Names of this kind that any process noted and that start so."""
        place = f"\x1f{self._namespace}.{kind}"  # no scope that a user can name

        def read() -> list[str]:
            found = self._blobs.keys(place, place, prefix=json.dumps(prefix)[:-1], now=0.0)
            return [str(json.loads(name)) for name in found]

        return self._try(read, [])

    def _flush(self, blobs: Blobs) -> int:
        removed = 0
        with self._lock:
            for event in list(self._pending):
                removed += blobs.advance(event.names, namespace=self._namespace, tags=event.tags, scope=event.scope)
                del self._pending[event]
        return removed

    def _try(self, act: Callable[[], T], otherwise: T, *, flushed: bool = False) -> T:
        if self._cut_off:
            return otherwise
        try:
            if self._pending and not flushed:
                self._soon(self._flush)
            return act()
        except Exception:  # noqa: BLE001  a cache that cannot be read or written is a slow one, not a broken agent
            self.errors += 1
            return otherwise

    def _write(self, act: Callable[[Blobs], T], otherwise: T, *, flushed: bool = False) -> T:
        return self._try(lambda: self._soon(act), otherwise, flushed=flushed)

    def _soon(self, act: Callable[[Blobs], T]) -> T:
        """A write that gives up rather than wait for a writer that is stalled."""
        try:
            done = act(self._blobs.waiting(0.0 if self._stalled else WAIT_SECONDS))
        except Exception:
            self._stalled = True
            raise
        self._stalled = False
        return done
