"""Rows of long-term memory in SQLite: writing, merging, superseding, and naming the model of their vectors.

The change feed is in ``memory_feed.py``. What a merged or superseded memory *means* is written in
``storage/memory_rows.py``; how it is recalled is in ``long_term/``. Every statement filters by scope, and every value is bound.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared_core.errors import DuplicateId, NotFound, StorageError
from shared_core.records import Memory
from shared_core.storage.base import Access, Changes, NewMemory, Room
from shared_core.storage.sqlite import full_disk
from shared_core.storage.sqlite.connection import Connections
from shared_core.storage.sqlite.memory_feed import pages
from shared_core.storage.sqlite.memory_writes import (
    COLUMNS,
    archive,
    bumped,
    decoded,
    erase,
    insert,
    is_text,
    mask,
    revive,
    strengthen,
    succeed,
    supersede_subject,
    touch,
    version_of,
)

_MANY = 500  # SQLite takes a bounded number of parameters; longer lists go in pieces


class SQLiteMemories:
    """``storage.base.MemoryRows`` over SQLite."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def version(self, scope: str) -> int:
        """The number of the scope's last change."""
        with self._connections.read() as db:
            return version_of(db, scope)

    def changes(self, scope: str, since: int, embedder: str | None) -> Changes:
        """Rows changed and dropped after ``since``."""
        first, *more = self.pages(scope, since, embedder)
        last = more[-1] if more else first
        return replace(first, version=last.version, rows=tuple(row for page in (first, *more) for row in page.rows))

    def pages(self, scope: str, since: int, embedder: str | None) -> Generator[Changes, None, None]:
        """``changes`` in pieces, under one transaction."""
        with self._connections.read() as db:
            yield from pages(db, scope, since, embedder, self._read)

    def _read(self, columns: Sequence[Any]) -> Memory | None:
        try:
            return decoded(columns)
        except (ValueError, TypeError, RecursionError):
            self._connections.count_unreadable()
            return None

    def add(
        self,
        items: Sequence[NewMemory],
        accesses: Mapping[str, Sequence[Access]] | None = None,
        *,
        rooms: Mapping[str, Room] | None = None,
    ) -> list[tuple[Memory, bool]]:
        """Write the items in order, in one transaction."""
        rooms = rooms or {}
        with self._connections.write() as db:
            versions: dict[str, int] = {}
            for scope, seen in (accesses or {}).items():
                if seen:
                    touch(db, scope, seen, bumped(db, scope, versions))
            stored = [self._add(db, item, versions, rooms.get(item.memory.scope)) for item in items]
        if any(item.unmasked is not None and item.explicit_id for item in items):
            self._connections.wipe()  # it may have stood here unmasked
        return stored

    def _add(
        self, db: sqlite3.Connection, item: NewMemory, versions: dict[str, int], room: Room | None
    ) -> tuple[Memory, bool]:
        memory = item.memory
        if item.explicit_id:
            found = db.execute(
                f"SELECT {COLUMNS} FROM memories WHERE scope = ? AND id = ?", (memory.scope, memory.id)
            ).fetchone()
            if found is not None:
                unmasked = item.unmasked is not None and found[1] == item.unmasked
                if found[1] != memory.text and not unmasked:
                    raise DuplicateId(
                        f"id {memory.id!r} is taken in this scope by a memory with another text; "
                        "use another id, or supersede(id, text) to replace it"
                    )
                stored = self._read(found)
                if stored is None:
                    raise StorageError(f"id {memory.id!r} is taken by a row that cannot be read; forget(id) it first")
                if unmasked:
                    stored = mask(db, stored, item, bumped(db, memory.scope, versions))
                if stored.status == "archived":
                    _make_room(db, item, versions, room)
                    stored = revive(db, stored, memory.created_at, bumped(db, memory.scope, versions))
                return stored, False
        else:
            found = db.execute(
                f"SELECT row, everywhere, {COLUMNS} FROM memories WHERE scope = ? AND merge_key = ? "
                "AND status = 'active' ORDER BY row LIMIT 1",
                (memory.scope, item.merge_key),
            ).fetchone()
            old = None if found is None else self._read(found[2:])
            if old is not None:
                stored = strengthen(db, found[0], bool(found[1]), old, item, versions)
                if room is not None:
                    room.strengthened(stored)
                return stored, False
        _make_room(db, item, versions, room)
        row = insert(db, item, bumped(db, memory.scope, versions))
        if memory.subject is not None and supersede_subject(db, row, memory, versions[memory.scope]):
            memory = replace(memory, status="superseded")
        return memory, True

    def get(self, scope: str, ids: Sequence[str]) -> list[Memory | None]:
        """The memories with these ids, in order."""
        found: dict[str, Memory | None] = {}
        with self._connections.read() as db:
            for some in _pieces(ids):
                for columns in db.execute(
                    f"SELECT {COLUMNS} FROM memories WHERE scope = ? AND id IN ({_marks(some)})", (scope, *some)
                ):
                    found[columns[0]] = self._read(columns)
        return [found.get(id) for id in ids]

    def list(self, scope: str, *, status: str | None, limit: int | None) -> list[Memory]:
        """Newest first."""
        with self._connections.read() as db:
            cursor = db.execute(
                f"SELECT {COLUMNS} FROM memories WHERE scope = ? AND (? IS NULL OR status = ?) "
                "ORDER BY created_at DESC, row DESC LIMIT ?",
                (scope, status, status, -1 if limit is None else min(limit, 2**63 - 1)),  # as many as SQLite can count
            )
            return [memory for memory in map(self._read, cursor) if memory is not None]

    def supersede(self, scope: str, id: str, item: NewMemory, *, room: Room | None = None) -> Memory:
        """Write ``item`` in the place of ``id``."""
        with self._connections.write() as db:
            old = _row_of(db, scope, id)
            versions: dict[str, int] = {}
            version = bumped(db, scope, versions)
            # What took its place before is replaced too: of one memory, one text is current.
            line = db.execute(
                "WITH RECURSIVE line (row) AS (SELECT ? UNION SELECT s.successor FROM successions s "
                "JOIN line l ON s.memory = l.row WHERE s.successor IS NOT NULL) SELECT row FROM line",
                (old,),
            ).fetchall()
            stored, _ = self._add(db, replace(item, explicit_id=True), versions, room)
            there = [row for (row,) in line if db.execute("SELECT 1 FROM memories WHERE row = ?", (row,)).fetchone()]
            succeed(db, there, _row_of(db, scope, stored.id), stored.at, version)
        return stored

    def delete(self, scope: str, ids: Sequence[str]) -> int:
        """Erase rows, index and sources."""
        return self._erased(scope, ids, pinned=True)

    def _erased(self, scope: str, ids: Sequence[str], *, pinned: bool) -> int:
        def some(db: sqlite3.Connection, most: int) -> int:
            rows = _rows_of(db, scope, ids, pinned=pinned)
            rows = rows if most == full_disk.ALL else rows[:most]
            if rows:
                erase(db, scope, rows, bumped(db, scope, {}))
            return len(rows)

        count = sum(full_disk.erase(self._connections, some))
        if count:
            self._connections.wipe()
        return count

    def evict(self, scope: str, ids: Sequence[str], *, erased: bool) -> int:
        """Archive these memories, or erase them; pinned ones stay."""
        if erased:
            return self._erased(scope, ids, pinned=False)
        with self._connections.write() as db:
            return archive(db, scope, ids, bumped(db, scope, {})) if ids else 0

    def set_status(self, scope: str, ids: Sequence[str], status: str) -> int:
        """Change the status of these memories."""
        with self._connections.write() as db:
            version = bumped(db, scope, {}) if ids else 0
            return sum(
                db.execute(
                    f"UPDATE memories SET status = ?, version = ? WHERE scope = ? AND status <> ? AND id IN ({_marks(some)})",
                    (status, version, scope, status, *some),
                ).rowcount
                for some in _pieces(ids)
            )

    def set_pinned(self, scope: str, id: str, pinned: bool) -> None:
        """Pin or unpin one memory."""
        with self._connections.write() as db:
            row = _row_of(db, scope, id)
            db.execute(
                "UPDATE memories SET pinned = ?, version = ? WHERE row = ?", (pinned, bumped(db, scope, {}), row)
            )

    def touch(self, scope: str, accesses: Sequence[Access], *, wait: bool | float = True) -> None:
        """Flush read facts alone."""
        if not accesses:
            return
        with self._connections.write(wait=wait) as db:
            touch(db, scope, accesses, bumped(db, scope, {}))

    def set_vectors(self, scope: str, embedder: str, vectors: Mapping[int, bytes], *, wait: bool = True) -> None:
        """Fill in vectors by row number."""
        with self._connections.write(wait=wait) as db:
            version = bumped(db, scope, {})
            for row, raw in vectors.items():
                touched = db.execute(
                    "UPDATE memories SET version = ? WHERE row = ? AND scope = ?", (version, row, scope)
                ).rowcount
                if touched:
                    db.execute(
                        "UPDATE search_index SET embedder = ?, vectors = ? WHERE memory = ?", (embedder, raw, row)
                    )

    def scopes(self) -> Sequence[str]:
        """Every scope that holds memories."""
        with self._connections.read() as db:
            return sorted(row[0] for row in db.execute("SELECT DISTINCT scope FROM memories") if is_text(row[0]))

    def embedder(self) -> tuple[str, int] | None:
        """Fingerprint and dimension of the model in use."""
        with self._connections.read() as db:
            found = db.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchone()
        if found is None:
            return None
        try:
            fingerprint, dimension = json.loads(found[0])
        except (ValueError, TypeError) as error:
            raise StorageError(f"the name of the embedder is damaged ({found[0]!r:.80}); pass reembed=True") from error
        return fingerprint, dimension

    def claim_embedder(self, fingerprint: str, dimension: int, *, wait: bool = True) -> tuple[str, int]:
        """Name the model if none is named yet."""
        stored = self.embedder()
        if stored is not None:
            return stored
        with self._connections.write(wait=wait) as db:
            db.execute(
                "INSERT OR IGNORE INTO meta (key, value) VALUES ('embedder', ?)",
                (json.dumps([fingerprint, dimension]),),
            )
            fingerprint, dimension = json.loads(
                db.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchone()[0]
            )
        return fingerprint, dimension

    def set_embedder(self, fingerprint: str, dimension: int) -> None:
        """Name the model; vectors of another one are dropped."""
        before = self.embedder()
        resized = before is not None and before[1] != dimension  # the same name, and yet another model
        with self._connections.write() as db:
            db.execute(
                "INSERT INTO meta (key, value) VALUES ('embedder', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (json.dumps([fingerprint, dimension]),),
            )
            stale = db.execute(
                "UPDATE search_index SET embedder = NULL, vectors = NULL WHERE embedder IS NOT NULL AND (embedder <> ? OR ?)",
                (fingerprint, resized),
            ).rowcount
            if stale:
                db.execute("UPDATE scopes SET version = version + 1, floor = version + 1")


def _make_room(db: sqlite3.Connection, item: NewMemory, versions: dict[str, int], room: Room | None) -> None:
    """Evict what the budget asks for before this item counts."""
    scope, victims = item.memory.scope, [] if room is None else room.make(item)
    if room is not None and victims:
        _evict(db, scope, victims, bumped(db, scope, versions), erased=room.erases)


def _evict(db: sqlite3.Connection, scope: str, ids: Sequence[str], version: int, *, erased: bool) -> int:
    if not erased:
        return archive(db, scope, ids, version)
    rows = _rows_of(db, scope, ids, pinned=False)
    erase(db, scope, rows, version)
    return len(rows)


def _rows_of(db: sqlite3.Connection, scope: str, ids: Sequence[str], *, pinned: bool) -> list[int]:
    return [
        row
        for some in _pieces(ids)
        for (row,) in db.execute(
            f"SELECT row FROM memories WHERE scope = ? AND (? OR NOT pinned) AND id IN ({_marks(some)})",
            (scope, pinned, *some),
        )
    ]


def _row_of(db: sqlite3.Connection, scope: str, id: str) -> int:
    found = db.execute("SELECT row FROM memories WHERE scope = ? AND id = ?", (scope, id)).fetchone()
    if found is None:
        raise NotFound(f"no memory with id {id!r} in this scope; long_term.list() shows the ids there are")
    return int(found[0])


def _pieces(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    unique = list(dict.fromkeys(ids))
    return (unique[i : i + _MANY] for i in range(0, len(unique), _MANY))


def _marks(values: Iterable[object]) -> str:
    return ", ".join("?" for _ in values)
