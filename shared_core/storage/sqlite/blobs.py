"""Keyed bytes with expiry and tags in SQLite. Every statement filters by scope unless the contract says all."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from shared_core.storage.base import Blob
from shared_core.storage.sqlite.connection import Connections

_MANY = 500


class SQLiteBlobs:
    """``storage.base.Blobs`` over SQLite."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

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
            return Blob(key, bytes(value), float(created_at), expires_at, tuple(json.loads(tags)))
        except (ValueError, TypeError):
            self._connections.count_unreadable()
            return None

    def put(self, scope: str, namespace: str, blobs: Sequence[Blob]) -> None:
        """Insert or replace all of them in one transaction."""
        with self._connections.write() as db:
            for blob in blobs:
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

    def delete(self, scope: str, namespace: str, keys: Sequence[str]) -> int:
        """Remove these keys."""
        with self._connections.write() as db:
            return sum(
                db.execute(
                    "DELETE FROM blobs WHERE scope = ? AND namespace = ? AND key = ?", (scope, namespace, key)
                ).rowcount
                for key in dict.fromkeys(keys)
            )

    def delete_tagged(self, scope: str | None, namespace: str, tag: str) -> int:
        """Remove every blob carrying the tag."""
        with self._connections.write() as db:
            return db.execute(
                "DELETE FROM blobs WHERE (? IS NULL OR scope = ?) AND row IN "
                "(SELECT blob FROM blob_tags WHERE namespace = ? AND tag = ?)",
                (scope, scope, namespace, tag),
            ).rowcount

    def keys(self, scope: str, namespace: str, *, prefix: str = "", now: float) -> list[str]:
        """Live keys with this literal prefix, in insertion order."""
        with self._connections.read() as db:
            return [
                row[0]
                for row in db.execute(
                    "SELECT key FROM blobs WHERE scope = ? AND namespace = ? AND substr(key, 1, ?) = ? "
                    "AND created_at <= ? AND (expires_at IS NULL OR expires_at > ?) ORDER BY row",
                    (scope, namespace, len(prefix), prefix, now, now),
                )
            ]

    def namespaces(self, scope: str, *, prefix: str = "") -> list[str]:
        """Namespaces that hold anything, sorted."""
        with self._connections.read() as db:
            return sorted(
                row[0]
                for row in db.execute(
                    "SELECT DISTINCT namespace FROM blobs WHERE scope = ? AND substr(namespace, 1, ?) = ?",
                    (scope, len(prefix), prefix),
                )
            )

    def clear(self, scope: str | None, namespace: str) -> int:
        """Remove the whole namespace."""
        with self._connections.write() as db:
            return db.execute(
                "DELETE FROM blobs WHERE (? IS NULL OR scope = ?) AND namespace = ?", (scope, scope, namespace)
            ).rowcount

    def generation(self, scope: str) -> int:
        """The scope's generation; 0 before the first bump."""
        with self._connections.read() as db:
            found = db.execute("SELECT value FROM counters WHERE name = ?", (_generation(scope),)).fetchone()
            return int(found[0]) if found else 0

    def bump(self, scope: str) -> int:
        """Move the scope's generation on."""
        with self._connections.write() as db:
            return int(
                db.execute(
                    "INSERT INTO counters (name, value) VALUES (?, 1) "
                    "ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value",
                    (_generation(scope),),
                ).fetchone()[0]
            )


def _generation(scope: str) -> str:
    return f"generation:{scope}"
