"""Rows of long-term memory in SQLite: writing, merging, superseding, and the change feed.

What a merged or superseded memory *means* is written in ``storage/base.py``; how it is recalled is
in ``long_term/``. Every statement filters by scope, and every value is bound.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared_core.errors import DuplicateId, NotFound
from shared_core.records import Memory
from shared_core.storage.base import Access, Changes, MemoryRow, NewMemory, Source, Succession
from shared_core.storage.sqlite.connection import Connections

_COLUMNS = (
    "id, text, scope, role, speaker, session, tags, importance, at, created_at, last_accessed, access_count, "
    "subject, pinned, status, metadata"
)
_MANY = 500  # SQLite takes a bounded number of parameters; longer lists go in pieces


class SQLiteMemories:
    """``storage.base.MemoryRows`` over SQLite."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def version(self, scope: str) -> int:
        """The number of the scope's last change."""
        with self._connections.read() as db:
            return _version(db, scope)

    def changes(self, scope: str, since: int, embedder: str | None) -> Changes:
        """Rows changed and dropped after ``since``."""
        with self._connections.read() as db:
            found = db.execute("SELECT version, floor FROM scopes WHERE scope = ?", (scope,)).fetchone()
            version, floor = found or (0, 0)
            if version == since:
                return Changes(version, (), (), reset=False)
            reset = since < floor or version < since
            since = 0 if reset else since
            dropped = db.execute("SELECT memory FROM dropped WHERE scope = ? AND version > ?", (scope, since))
            gone = () if reset or since == 0 else tuple(row[0] for row in dropped)
            return Changes(version, tuple(self._rows(db, scope, since, embedder)), gone, reset)

    def _rows(self, db: sqlite3.Connection, scope: str, since: int, embedder: str | None) -> Iterator[MemoryRow]:
        sources = _grouped(
            db.execute(
                "SELECT s.memory, s.session, s.node FROM sources s JOIN memories m ON m.row = s.memory "
                "WHERE m.scope = ? AND m.version > ? AND NOT m.everywhere",
                (scope, since),
            ),
            Source,
        )
        successors = _grouped(
            db.execute(
                "SELECT s.memory, s.successor, s.at FROM successions s JOIN memories m ON m.row = s.memory "
                "WHERE m.scope = ? AND m.version > ?",
                (scope, since),
            ),
            Succession,
        )
        cursor = db.execute(
            f"SELECT m.row, m.evidence, i.terms, CASE WHEN i.embedder = ? THEN i.vectors END, {_columns('m')} "
            "FROM memories m LEFT JOIN search_index i ON i.memory = m.row "
            "WHERE m.scope = ? AND m.version > ? ORDER BY m.row",
            (embedder, scope, since),
        )
        for row, evidence, terms, vectors, *columns in cursor:
            memory = self._read(columns)
            if memory is not None:
                yield MemoryRow(
                    row, memory, str(terms or ""), float("nan") if evidence is None else evidence,
                    vectors if isinstance(vectors, bytes) else None,
                    tuple(sources.get(row, ())), tuple(successors.get(row, ())),
                )  # fmt: skip

    def _read(self, columns: Sequence[Any]) -> Memory | None:
        try:
            return _memory(columns)
        except (ValueError, TypeError, KeyError):
            self._connections.count_unreadable()
            return None

    def add(
        self, items: Sequence[NewMemory], accesses: Mapping[str, Sequence[Access]] | None = None
    ) -> list[tuple[Memory, bool]]:
        """Write the items in order, in one transaction."""
        with self._connections.write() as db:
            versions: dict[str, int] = {}
            for scope, seen in (accesses or {}).items():
                _touch(db, scope, seen, _bumped(db, scope, versions))
            return [self._add(db, item, versions) for item in items]

    def _add(self, db: sqlite3.Connection, item: NewMemory, versions: dict[str, int]) -> tuple[Memory, bool]:
        memory = item.memory
        if item.explicit_id:
            found = db.execute(
                f"SELECT {_COLUMNS} FROM memories WHERE scope = ? AND id = ?", (memory.scope, memory.id)
            ).fetchone()
            if found is not None:
                if found[1] != memory.text:
                    raise DuplicateId(
                        f"id {memory.id!r} is taken in this scope by a memory with another text; "
                        "use another id, or supersede(id, text) to replace it"
                    )
                return _memory(found), False
        else:
            found = db.execute(
                f"SELECT row, everywhere, {_COLUMNS} FROM memories WHERE scope = ? AND merge_key = ? "
                "AND status = 'active' ORDER BY row LIMIT 1",
                (memory.scope, item.merge_key),
            ).fetchone()
            if found is not None:
                return _strengthen(db, found[0], bool(found[1]), _memory(found[2:]), item, versions), False
        row = _insert(db, item, _bumped(db, memory.scope, versions))
        if memory.subject is not None:
            _supersede_subject(db, row, memory, versions[memory.scope])
        return memory, True

    def get(self, scope: str, ids: Sequence[str]) -> list[Memory | None]:
        """The memories with these ids, in order."""
        found: dict[str, Memory | None] = {}
        with self._connections.read() as db:
            for some in _pieces(ids):
                for columns in db.execute(
                    f"SELECT {_COLUMNS} FROM memories WHERE scope = ? AND id IN ({_marks(some)})", (scope, *some)
                ):
                    found[columns[0]] = self._read(columns)
        return [found.get(id) for id in ids]

    def list(self, scope: str, *, status: str | None, limit: int | None) -> list[Memory]:
        """Newest first."""
        with self._connections.read() as db:
            cursor = db.execute(
                f"SELECT {_COLUMNS} FROM memories WHERE scope = ? AND (? IS NULL OR status = ?) "
                "ORDER BY created_at DESC, row DESC LIMIT ?",
                (scope, status, status, -1 if limit is None else limit),
            )
            return [memory for memory in map(self._read, cursor) if memory is not None]

    def supersede(self, scope: str, id: str, item: NewMemory) -> Memory:
        """Write ``item`` in the place of ``id``."""
        with self._connections.write() as db:
            old = _row_of(db, scope, id)
            versions: dict[str, int] = {}
            version = _bumped(db, scope, versions)
            stored, _ = self._add(db, replace(item, explicit_id=True), versions)
            new = _row_of(db, scope, stored.id)
            _succeed(db, [old], new, stored.at, version)
            return stored

    def delete(self, scope: str, ids: Sequence[str]) -> int:
        """Erase rows, index and sources."""
        with self._connections.write() as db:
            rows = [
                row
                for some in _pieces(ids)
                for (row,) in db.execute(
                    f"SELECT row FROM memories WHERE scope = ? AND id IN ({_marks(some)})", (scope, *some)
                )
            ]
            if rows:
                version = _bumped(db, scope, {})
                for row in rows:
                    db.execute(
                        "UPDATE memories SET version = ? WHERE row IN (SELECT memory FROM successions WHERE successor = ?)",
                        (version, row),
                    )
                    db.execute(
                        "INSERT OR IGNORE INTO dropped (scope, version, memory) VALUES (?, ?, ?)", (scope, version, row)
                    )
                db.executemany("DELETE FROM memories WHERE row = ?", ((row,) for row in rows))
            return len(rows)

    def set_status(self, scope: str, ids: Sequence[str], status: str) -> int:
        """Change the status of these memories."""
        with self._connections.write() as db:
            version = _bumped(db, scope, {}) if ids else 0
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
                "UPDATE memories SET pinned = ?, version = ? WHERE row = ?", (pinned, _bumped(db, scope, {}), row)
            )

    def touch(self, scope: str, accesses: Sequence[Access]) -> None:
        """Flush read facts alone."""
        with self._connections.write() as db:
            _touch(db, scope, accesses, _bumped(db, scope, {}))

    def set_vectors(self, scope: str, embedder: str, vectors: Mapping[int, bytes]) -> None:
        """Fill in vectors by row number."""
        with self._connections.write() as db:
            version = _bumped(db, scope, {})
            for row, raw in vectors.items():
                touched = db.execute(
                    "UPDATE memories SET version = ? WHERE row = ? AND scope = ?", (version, row, scope)
                ).rowcount
                if touched:
                    db.execute(
                        "UPDATE search_index SET embedder = ?, vectors = ? WHERE memory = ?", (embedder, raw, row)
                    )

    def erase_scope(self, scope: str) -> int:
        """Erase every memory of the scope."""
        with self._connections.write() as db:
            version = _bumped(db, scope, {})
            count = db.execute("DELETE FROM memories WHERE scope = ?", (scope,)).rowcount
            db.execute("DELETE FROM dropped WHERE scope = ?", (scope,))
            db.execute("UPDATE scopes SET floor = ? WHERE scope = ?", (version, scope))
            return count

    def scopes(self) -> list[str]:
        """Every scope that holds memories."""
        with self._connections.read() as db:
            return sorted(row[0] for row in db.execute("SELECT DISTINCT scope FROM memories"))

    def embedder(self) -> tuple[str, int] | None:
        """Fingerprint and dimension of the model in use."""
        with self._connections.read() as db:
            found = db.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchone()
        if found is None:
            return None
        fingerprint, dimension = json.loads(found[0])
        return fingerprint, dimension

    def claim_embedder(self, fingerprint: str, dimension: int) -> tuple[str, int]:
        """Name the model if none is named yet."""
        stored = self.embedder()
        if stored is not None:
            return stored
        with self._connections.write() as db:
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
        with self._connections.write() as db:
            db.execute(
                "INSERT INTO meta (key, value) VALUES ('embedder', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (json.dumps([fingerprint, dimension]),),
            )
            stale = db.execute(
                "UPDATE search_index SET embedder = NULL, vectors = NULL WHERE embedder IS NOT NULL AND embedder <> ?",
                (fingerprint,),
            ).rowcount
            if stale:
                db.execute("UPDATE scopes SET version = version + 1, floor = version + 1")


def _columns(alias: str) -> str:
    return ", ".join(f"{alias}.{name}" for name in _COLUMNS.split(", "))


def _memory(columns: Sequence[Any]) -> Memory:
    """Decode one row. ValueError, TypeError or KeyError if it is not what was written."""
    (id, text, scope, role, speaker, session, tags, importance, at, created_at, last_accessed, access_count,
     subject, pinned, status, metadata) = columns  # fmt: skip
    text.encode()  # bytes that are no UTF-8 came out as surrogates: UnicodeEncodeError is a ValueError
    tags, metadata = json.loads(tags), json.loads(metadata)
    if not isinstance(metadata, dict) or not isinstance(tags, list):
        raise TypeError("tags and metadata")  # noqa: TRY003 - caught by the reader, which counts the row
    return Memory(
        id=id, text=text, scope=scope, role=role, speaker=speaker, session=session, tags=tuple(tags),
        importance=float(importance), at=float(at), created_at=float(created_at), last_accessed=float(last_accessed),
        access_count=int(access_count), subject=subject, pinned=bool(pinned), status=status, metadata=metadata,
    )  # fmt: skip


def _insert(db: sqlite3.Connection, item: NewMemory, version: int) -> int:
    memory, source = item.memory, item.source
    row = db.execute(
        f"INSERT INTO memories ({_COLUMNS}, everywhere, merge_key, version) VALUES ({_marks(range(19))})",
        (
            memory.id, memory.text, memory.scope, memory.role, memory.speaker, memory.session,
            json.dumps(memory.tags), memory.importance, memory.at, memory.created_at, memory.last_accessed,
            memory.access_count, memory.subject, memory.pinned, memory.status, json.dumps(dict(memory.metadata)),
            source is None, item.merge_key, version,
        ),
    ).lastrowid  # fmt: skip
    assert row is not None  # noqa: S101 - an INSERT that did not raise has a row number
    db.execute(
        "INSERT INTO search_index (memory, terms, embedder, vectors) VALUES (?, ?, ?, ?)",
        (row, item.terms, item.embedder, item.vectors),
    )
    if source is not None:
        db.execute("INSERT INTO sources (memory, session, node) VALUES (?, ?, ?)", (row, source.session, source.node))
    return row


def _strengthen(
    db: sqlite3.Connection, row: int, everywhere: bool, old: Memory, item: NewMemory, versions: dict[str, int]
) -> Memory:
    """Count the same text said once more: access count, times, tags, metadata, and where it was said."""
    new, source = item.memory, item.source
    if source is not None:
        fresh = db.execute(
            "INSERT OR IGNORE INTO sources (memory, session, node) VALUES (?, ?, ?)", (row, source.session, source.node)
        ).rowcount
        if not fresh:
            return old  # the very same message written twice, as when a node is replayed
    stored = replace(
        old,
        last_accessed=max(old.last_accessed, new.created_at),
        access_count=old.access_count + 1,
        tags=tuple(dict.fromkeys((*old.tags, *new.tags))),
        metadata={**old.metadata, **new.metadata},
        pinned=old.pinned or new.pinned,
    )
    version = _bumped(db, old.scope, versions)
    db.execute(
        "UPDATE memories SET last_accessed = ?, access_count = ?, tags = ?, metadata = ?, pinned = ?, everywhere = ?, "
        "version = ? WHERE row = ?",
        (
            stored.last_accessed, stored.access_count, json.dumps(stored.tags), json.dumps(dict(stored.metadata)),
            stored.pinned, everywhere or source is None, version, row,
        ),
    )  # fmt: skip
    return stored


def _supersede_subject(db: sqlite3.Connection, row: int, memory: Memory, version: int) -> None:
    # A memory whose successor is visible everywhere is settled; others may come back by a rewind, so they get one more.
    earlier = [
        found
        for (found,) in db.execute(
            "SELECT m.row FROM memories m WHERE m.scope = ? AND m.subject = ? AND m.row <> ? AND m.status <> 'archived' "
            "AND NOT EXISTS (SELECT 1 FROM successions s LEFT JOIN memories n ON n.row = s.successor "
            "WHERE s.memory = m.row AND (n.row IS NULL OR n.everywhere))",
            (memory.scope, memory.subject, row),
        )
    ]
    _succeed(db, earlier, row, memory.at, version)


def _succeed(db: sqlite3.Connection, earlier: Iterable[int], successor: int, at: float, version: int) -> None:
    for old in earlier:
        db.execute("INSERT INTO successions (memory, successor, at) VALUES (?, ?, ?)", (old, successor, at))
        db.execute("UPDATE memories SET status = 'superseded', version = ? WHERE row = ?", (version, old))


def _touch(db: sqlite3.Connection, scope: str, accesses: Sequence[Access], version: int) -> None:
    db.executemany(
        "UPDATE memories SET last_accessed = max(last_accessed, ?), access_count = access_count + ?, "
        "evidence = coalesce(?, evidence), version = ? WHERE scope = ? AND id = ?",
        ((seen.last_accessed, seen.count, seen.evidence, version, scope, seen.id) for seen in accesses),
    )


def _bumped(db: sqlite3.Connection, scope: str, versions: dict[str, int]) -> int:
    """The scope's version for this transaction: moved on once, then the same."""
    if scope not in versions:
        db.execute(
            "INSERT INTO scopes (scope, version) VALUES (?, 1) ON CONFLICT (scope) DO UPDATE SET version = version + 1",
            (scope,),
        )
        versions[scope] = _version(db, scope)
    return versions[scope]


def _version(db: sqlite3.Connection, scope: str) -> int:
    found = db.execute("SELECT version FROM scopes WHERE scope = ?", (scope,)).fetchone()
    return int(found[0]) if found else 0


def _row_of(db: sqlite3.Connection, scope: str, id: str) -> int:
    found = db.execute("SELECT row FROM memories WHERE scope = ? AND id = ?", (scope, id)).fetchone()
    if found is None:
        raise NotFound(f"no memory with id {id!r} in this scope; long_term.list() shows the ids there are")
    return int(found[0])


def _grouped(cursor: sqlite3.Cursor, make: type[Source] | type[Succession]) -> dict[int, list[Any]]:
    out: dict[int, list[Any]] = {}
    for row, *rest in cursor:
        out.setdefault(row, []).append(make(*rest))
    return out


def _pieces(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    unique = list(dict.fromkeys(ids))
    return (unique[i : i + _MANY] for i in range(0, len(unique), _MANY))


def _marks(values: Iterable[object]) -> str:
    return ", ".join("?" for _ in values)
