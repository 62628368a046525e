"""Bounded namespaces in SQLite: what they hold and how it is used. Which blob goes is the room's to say.

The table ``places`` keeps the count and the bytes of each bounded namespace; triggers hold them true whoever
writes or erases. A namespace is taken in with the first write that has a room.
"""

from __future__ import annotations

import sqlite3

from shared_core.storage.bounded import NEVER_USED, Held, Use

_HELD = """SELECT b.key, length(CAST(b.key AS BLOB)) + length(b.value), b.row, u.last_accessed, u.count, u.access, u.proven
    FROM blobs b LEFT JOIN blob_uses u ON u.blob = b.row WHERE b.scope = ? AND b.namespace = ?"""
_HELD_IN_ORDER = _HELD + " ORDER BY b.row"
_ONE_HELD = _HELD + " AND b.key = ?"


class SQLitePlace:
    """``storage.bounded.Place`` within one write transaction."""

    def __init__(self, db: sqlite3.Connection, scope: str, namespace: str) -> None:
        self._db = db
        self._where = (scope, namespace)
        db.execute(
            "INSERT OR IGNORE INTO places (scope, namespace, items, bytes, accesses) SELECT ?, ?, count(*), "
            "coalesce(sum(length(CAST(key AS BLOB)) + length(value)), 0), 0 FROM blobs WHERE scope = ? AND namespace = ? "
            "AND NOT EXISTS (SELECT 1 FROM places WHERE scope = ? AND namespace = ?)",
            (*self._where, *self._where, *self._where),
        )
        self.items = self.bytes = self.accesses = 0
        self.look()

    def look(self) -> None:
        """Take the numbers of now."""
        self.items, self.bytes, self.accesses = self._db.execute(
            "SELECT items, bytes, accesses FROM places WHERE scope = ? AND namespace = ?", self._where
        ).fetchone()

    def find(self, key: str) -> Held | None:
        """The blob under the key."""
        row = self._db.execute(_ONE_HELD, (*self._where, key)).fetchone()
        return None if row is None else _held(row)

    def held(self) -> list[Held]:
        """All blobs, in the order of insertion."""
        return [_held(row) for row in self._db.execute(_HELD_IN_ORDER, self._where)]

    def note(self, key: str, use: Use) -> None:
        """Write the use of a blob that is there, and how far the accesses of the namespace have come."""
        self._db.execute(
            "INSERT INTO blob_uses (blob, last_accessed, count, access, proven) "
            "SELECT row, ?, ?, ?, ? FROM blobs WHERE scope = ? AND namespace = ? AND key = ? "
            "ON CONFLICT (blob) DO UPDATE SET last_accessed = excluded.last_accessed, count = excluded.count, "
            "access = excluded.access, proven = excluded.proven",
            (use.last_accessed, use.count, use.access, use.proven, *self._where, key),
        )
        self._db.execute(
            "UPDATE places SET accesses = max(accesses, ?) WHERE scope = ? AND namespace = ?",
            (use.access, *self._where),
        )


def _held(row: tuple[str, int, int, float | None, float, int, int]) -> Held:
    key, size, order, last_accessed, count, access, proven = row
    use = NEVER_USED if last_accessed is None else Use(last_accessed, count, access, bool(proven))
    return Held(key, size, order, use)
