"""The reference ``Blobs``: what every backend must agree with, in memory. Share one object to act as several processes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from shared_core.storage.base import Blob
from shared_core.storage.bounded import NEVER_USED, BlobRoom, Held, Use, size_of


class InMemoryBlobs:
    """``storage.base.Blobs`` over dicts. Thread-safe; blobs are frozen and their values bytes, so nothing is shared."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._rows: dict[tuple[str, str, str], Blob] = {}
        self._counters: dict[str, int] = {}
        self._generations: dict[str, int] = {}
        self._uses: dict[tuple[str, str, str], Use] = {}
        self._accesses: dict[tuple[str, str], int] = {}

    def waiting(self, seconds: float) -> InMemoryBlobs:
        """Itself."""
        return self

    def get(self, scope: str, namespace: str, keys: Sequence[str], *, now: float) -> list[Blob | None]:
        """Values in order; None where absent, expired or from the future."""
        with self._lock:
            found = [self._rows.get((scope, namespace, key)) for key in keys]
        return [blob if blob is not None and _live(blob, now) else None for blob in found]

    def put(self, scope: str, namespace: str, blobs: Sequence[Blob], *, durable: bool = False) -> None:
        """Insert or replace; an overwrite keeps its place."""
        with self._lock:
            self._rows.update({(scope, namespace, blob.key): blob for blob in blobs})

    def put_within(
        self, scope: str, namespace: str, blobs: Sequence[Blob], room: BlobRoom, *, durable: bool = False
    ) -> list[str]:
        """Insert or replace one after another within the room."""
        evicted: dict[str, None] = {}
        with self._lock:
            for blob in blobs:
                at = (scope, namespace, blob.key)
                admission = room.admit(self._place(scope, namespace), blob.key, size_of(blob.key, blob.value))
                for key in (blob.key,) if admission is None else admission.victims:
                    self._rows.pop((scope, namespace, key), None)
                    self._uses.pop((scope, namespace, key), None)
                if admission is not None:
                    evicted.update(dict.fromkeys(admission.victims))
                    evicted.pop(blob.key, None)
                    self._rows[at], self._uses[at] = blob, admission.use
                    self._accesses[scope, namespace] = admission.use.access
        return list(evicted)

    def use(self, scope: str, namespace: str, reads: Mapping[str, tuple[int, float]], room: BlobRoom) -> None:
        """Note reads of a bounded namespace."""
        with self._lock:
            for key, (times, at) in reads.items():
                place = self._place(scope, namespace)
                held = place.find(key)
                if held is not None:
                    use = self._uses[scope, namespace, key] = room.used(place, held, times, at)
                    self._accesses[scope, namespace] = use.access

    def _place(self, scope: str, namespace: str) -> InMemoryPlace:
        held = [
            Held(key, size_of(key, blob.value), order, self._uses.get((at, within, key), NEVER_USED))
            for order, ((at, within, key), blob) in enumerate(self._rows.items())
            if at == scope and within == namespace
        ]
        return InMemoryPlace(held, self._accesses.get((scope, namespace), 0))

    def delete(self, scope: str, namespace: str, keys: Sequence[str], *, durable: bool = False) -> int:
        """Remove these keys."""
        with self._lock:
            return sum(self._rows.pop((scope, namespace, key), None) is not None for key in keys)

    def delete_tagged(self, scope: str | None, namespace: str, tag: str) -> int:
        """Remove every blob carrying the tag."""
        return self.advance((), namespace=namespace, tags=(tag,), scope=scope)

    def keys(self, scope: str, namespace: str, *, prefix: str = "", now: float) -> list[str]:
        """Live keys with this literal prefix, in insertion order."""
        with self._lock:
            return [
                key
                for (at, within, key), blob in self._rows.items()
                if at == scope and within == namespace and key.startswith(prefix) and _live(blob, now)
            ]

    def namespaces(self, scope: str, *, prefix: str = "") -> list[str]:
        """Namespaces that hold anything, sorted."""
        with self._lock:
            return sorted({within for at, within, _ in self._rows if at == scope and within.startswith(prefix)})

    def clear(self, scope: str | None, namespace: str, *, durable: bool = False) -> int:
        """Remove the whole namespace."""
        with self._lock:
            gone = [at for at in self._rows if at[1] == namespace and scope in (None, at[0])]
            for at in gone:
                del self._rows[at]
            return len(gone)

    def generation(self, scope: str) -> int:
        """The scope's generation; 0 before the first bump."""
        with self._lock:
            return self._generations.get(scope, 0)

    def bump(self, scope: str, *, durable: bool = True) -> int:
        """Move the scope's generation on."""
        with self._lock:
            self._generations[scope] = self._generations.get(scope, 0) + 1
            return self._generations[scope]

    def counters(self, names: Sequence[str]) -> list[int]:
        """The shared counters; 0 for one that never moved."""
        with self._lock:
            return [self._counters.get(name, 0) for name in names]

    def advance(self, names: Sequence[str], *, namespace: str, tags: Sequence[str], scope: str | None = None) -> int:
        """Move the counters and remove the tagged blobs, at one moment."""
        wanted = set(tags)
        with self._lock:
            for name in names:
                self._counters[name] = self._counters.get(name, 0) + 1
            gone = [
                at
                for at, blob in self._rows.items()
                if at[1] == namespace and scope in (None, at[0]) and not wanted.isdisjoint(blob.tags)
            ]
            for at in gone:
                del self._rows[at]
            return len(gone)

    def trim(self, namespace: str, *, max_items: int, max_bytes: int) -> int:
        """Remove the earliest created blobs until both bounds hold."""
        with self._lock:
            rows = sorted(
                ((at, blob) for at, blob in self._rows.items() if at[1] == namespace), key=lambda row: row[1].created_at
            )
            items, size = len(rows), sum(len(blob.value) for _, blob in rows)
            removed = 0
            for at, blob in rows:
                if items - removed <= max_items and size <= max_bytes:
                    break
                del self._rows[at]
                size -= len(blob.value)
                removed += 1
            return removed


class InMemoryPlace:
    """``storage.bounded.Place`` over a list."""

    def __init__(self, held: list[Held], accesses: int) -> None:
        self._held = held
        self.items, self.bytes, self.accesses = len(held), sum(one.size for one in held), accesses

    def find(self, key: str) -> Held | None:
        """The blob under the key."""
        return next((one for one in self._held if one.key == key), None)

    def held(self) -> list[Held]:
        """All blobs, in the order of insertion."""
        return list(self._held)


def _live(blob: Blob, now: float) -> bool:
    return blob.created_at <= now and (blob.expires_at is None or now < blob.expires_at)
