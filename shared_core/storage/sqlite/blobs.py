"""Keyed bytes with expiry and tags in SQLite. Every statement filters by scope unless the contract says all.

Values are written without waiting for the disk unless asked to, since most can be computed again; counters, which say
that a value must not be used any more, are durable.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

from shared_core.storage.base import Blob
from shared_core.storage.bounded import BlobRoom, size_of
from shared_core.storage.sqlite import full_disk
from shared_core.storage.sqlite.bounded import SQLitePlace
from shared_core.storage.sqlite.connection import Connections

_MANY = 500


class SQLiteBlobs:
    """``storage.base.Blobs`` over SQLite."""

    def __init__(self, connections: Connections, *, wait: bool | float = True) -> None:
        """``wait`` as in ``Connections.write``."""
        self._connections = connections
        self._wait = wait

    def waiting(self, seconds: float) -> SQLiteBlobs:
        """The same, in less of a hurry or more."""
        return SQLiteBlobs(self._connections, wait=seconds)

    def get(self, scope: str, namespace: str, keys: Sequence[str], *, now: float) -> list[Blob | None]:
        """Values in order; None where absent, expired or from the future."""
        found: dict[str, Blob] = {}
        with self._connections.read() as db:
            for i in range(0, len(keys), _MANY):
                some = keys[i : i + _MANY]
                for row in db.execute(
                    "SELECT key, value, created_at, expires_at, tags FROM blobs WHERE scope = ? AND namespace = ? "
                    f"AND key IN ({', '.join('?' * len(some))}) AND created_at <= ? AND (expires_at IS NULL OR expires_at > ?)",
                    (scope, namespace, *some, now, now),
                ):
                    blob = self._read(row)
                    if blob is not None:
                        found[blob.key] = blob
        return [found.get(key) for key in keys]

    def _read(self, row: sqlite3.Row) -> Blob | None:
        key, value, created_at, expires_at, tags = row
        try:
            if isinstance(value, bytes):  # bytes() of a number would be as many zero bytes
                return Blob(key, value, float(created_at), expires_at, tuple(json.loads(tags)))
        except (ValueError, TypeError, RecursionError):
            pass
        self._connections.count_unreadable()
        return None

    def put(self, scope: str, namespace: str, blobs: Sequence[Blob], *, durable: bool = False) -> None:
        """Insert or replace all of them in one transaction."""
        with self._connections.write(wait=self._wait, durable=durable) as db:
            for blob in blobs:
                _put(db, scope, namespace, blob)

    def put_within(
        self, scope: str, namespace: str, blobs: Sequence[Blob], room: BlobRoom, *, durable: bool = False
    ) -> list[str]:
        """Insert or replace one after another within the room, in one transaction."""
        evicted: dict[str, None] = {}
        with self._connections.write(wait=self._wait, durable=durable) as db:
            place = SQLitePlace(db, scope, namespace)
            for blob in blobs:
                admission = room.admit(place, blob.key, size_of(blob.key, blob.value))
                _delete(db, scope, namespace, (blob.key,) if admission is None else admission.victims)
                if admission is not None:
                    evicted.update(dict.fromkeys(admission.victims))
                    evicted.pop(blob.key, None)  # it came back
                    _put(db, scope, namespace, blob)
                    place.note(blob.key, admission.use)
                place.look()
        return list(evicted)

    def use(self, scope: str, namespace: str, reads: Mapping[str, tuple[int, float]], room: BlobRoom) -> None:
        """Note reads of a bounded namespace."""
        with self._connections.write(wait=self._wait, durable=False) as db:
            if not any(_is_held(db, scope, namespace, key) for key in reads):
                return  # a scope that was forgotten meanwhile must not get its name back
            place = SQLitePlace(db, scope, namespace)
            for key, (times, at) in reads.items():
                held = place.find(key)
                if held is not None:
                    place.note(key, room.used(place, held, times, at))
                    place.look()

    def delete(self, scope: str, namespace: str, keys: Sequence[str], *, durable: bool = False) -> int:
        """Remove these keys."""

        def some(db: sqlite3.Connection, most: int) -> int:
            return _delete(db, scope, namespace, keys, most)

        return sum(full_disk.erase(self._connections, some, wait=self._wait, durable=durable))

    def delete_tagged(self, scope: str | None, namespace: str, tag: str) -> int:
        """Remove every blob carrying the tag."""
        with self._connections.write(wait=self._wait, durable=False) as db:
            return _delete_tagged(db, scope, namespace, tag)

    def keys(self, scope: str, namespace: str, *, prefix: str = "", now: float) -> list[str]:
        """Live keys with this literal prefix, in insertion order."""
        with self._connections.read() as db:
            return [
                row[0]
                for row in db.execute(
                    "SELECT key FROM blobs WHERE scope = ? AND namespace = ? "
                    "AND coalesce(substr(CAST(key AS BLOB), 1, ?), x'') = ? "  # of an empty key, substr makes NULL
                    "AND created_at <= ? AND (expires_at IS NULL OR expires_at > ?) ORDER BY row",
                    (scope, namespace, len(prefix.encode()), prefix.encode(), now, now),
                )
            ]

    def namespaces(self, scope: str, *, prefix: str = "") -> list[str]:
        """Namespaces that hold anything, sorted."""
        with self._connections.read() as db:
            return sorted(
                row[0]
                for row in db.execute(
                    "SELECT DISTINCT namespace FROM blobs WHERE scope = ? AND substr(CAST(namespace AS BLOB), 1, ?) = ?",
                    (scope, len(prefix.encode()), prefix.encode()),  # as bytes: a text function would stop at a NUL
                )
            )

    def clear(self, scope: str | None, namespace: str, *, durable: bool = False) -> int:
        """Remove the whole namespace."""

        def some(db: sqlite3.Connection, most: int) -> int:
            return db.execute(
                "DELETE FROM blobs WHERE row IN (SELECT row FROM blobs WHERE (? IS NULL OR scope = ?) AND namespace = ? "
                "LIMIT ?)",
                (scope, scope, namespace, most),
            ).rowcount

        return sum(full_disk.erase(self._connections, some, wait=self._wait, durable=durable))

    def generation(self, scope: str) -> int:
        """The scope's generation; 0 before the first bump."""
        return self.counters([_generation(scope)])[0]

    def bump(self, scope: str, *, durable: bool = True) -> int:
        """Move the scope's generation on."""
        if durable:  # as before something is erased, which a full disk must not keep from being erased
            return full_disk.with_room(self._connections, lambda db: generation_moved_on(db, scope), wait=self._wait)
        with self._connections.write(wait=self._wait, durable=False) as db:
            return generation_moved_on(db, scope)

    def counters(self, names: Sequence[str]) -> list[int]:
        """The shared counters with these names, in order."""
        found: dict[str, int] = {}
        with self._connections.read() as db:
            for i in range(0, len(names), _MANY):
                some = names[i : i + _MANY]
                found.update(
                    db.execute(
                        f"SELECT name, value FROM counters WHERE name IN ({', '.join('?' * len(some))})", tuple(some)
                    )
                )
        return [found.get(name, 0) for name in names]

    def advance(self, names: Sequence[str], *, namespace: str, tags: Sequence[str], scope: str | None = None) -> int:
        """Move counters on and remove what carries the tags, in one transaction."""
        with self._connections.write(wait=self._wait) as db:
            for name in dict.fromkeys(names):
                _moved_on(db, name)
            return sum(_delete_tagged(db, scope, namespace, tag) for tag in dict.fromkeys(tags))

    def trim(self, namespace: str, *, max_items: int, max_bytes: int) -> int:
        """Remove the earliest created blobs of the namespace until both bounds hold."""
        with self._connections.write(wait=self._wait, durable=False) as db:
            items, size = db.execute(
                "SELECT count(*), coalesce(sum(length(value)), 0) FROM blobs WHERE namespace = ?", (namespace,)
            ).fetchone()
            rows = []
            earliest = db.execute(
                "SELECT row, length(value) FROM blobs WHERE namespace = ? ORDER BY created_at, row", (namespace,)
            )
            while items > max_items or size > max_bytes:
                row, length = earliest.fetchone()
                rows.append((row,))
                items, size = items - 1, size - length
            db.executemany("DELETE FROM blobs WHERE row = ?", rows)
            return len(rows)


def _put(db: sqlite3.Connection, scope: str, namespace: str, blob: Blob) -> None:
    (row,) = db.execute(
        "INSERT INTO blobs (scope, namespace, key, value, created_at, expires_at, tags) VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (scope, namespace, key) DO UPDATE SET value = excluded.value, created_at = excluded.created_at, "
        "expires_at = excluded.expires_at, tags = excluded.tags RETURNING row",
        (scope, namespace, blob.key, blob.value, blob.created_at, blob.expires_at, json.dumps(blob.tags)),
    ).fetchone()
    db.execute("DELETE FROM blob_tags WHERE blob = ?", (row,))
    db.executemany(
        "INSERT OR IGNORE INTO blob_tags (namespace, tag, blob) VALUES (?, ?, ?)",
        ((namespace, tag, row) for tag in blob.tags),
    )


def _is_held(db: sqlite3.Connection, scope: str, namespace: str, key: str) -> bool:
    where = (scope, namespace, key)
    return db.execute("SELECT 1 FROM blobs WHERE scope = ? AND namespace = ? AND key = ?", where).fetchone() is not None


def _delete(db: sqlite3.Connection, scope: str, namespace: str, keys: Sequence[str], most: int = full_disk.ALL) -> int:
    gone = 0
    for key in dict.fromkeys(keys):
        if gone == most:
            break
        where = (scope, namespace, key)
        gone += db.execute("DELETE FROM blobs WHERE scope = ? AND namespace = ? AND key = ?", where).rowcount
    return gone


def _delete_tagged(db: sqlite3.Connection, scope: str | None, namespace: str, tag: str) -> int:
    return db.execute(
        "DELETE FROM blobs WHERE (? IS NULL OR scope = ?) AND row IN "
        "(SELECT blob FROM blob_tags WHERE namespace = ? AND tag = ?)",
        (scope, scope, namespace, tag),
    ).rowcount


def _moved_on(db: sqlite3.Connection, name: str) -> int:
    found = db.execute(
        "INSERT INTO counters (name, value) VALUES (?, 1) "
        "ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value",
        (name,),
    ).fetchone()
    return int(found[0])


def generation_moved_on(db: sqlite3.Connection, scope: str) -> int:
    """Move the scope's generation on, inside the caller's transaction."""
    return _moved_on(db, _generation(scope))


def _generation(scope: str) -> str:
    return f"generation:{scope}"
