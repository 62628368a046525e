"""Upkeep of a SQLite file: whole memories out and in, a scope erased everywhere, damage found and mended."""

from __future__ import annotations

import json
import math
import sqlite3
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from shared_core.errors import DuplicateId
from shared_core.records import Memory, Problem
from shared_core.storage.base import Source
from shared_core.storage.sqlite import full_disk
from shared_core.storage.sqlite.blobs import generation_moved_on
from shared_core.storage.sqlite.connection import Connections
from shared_core.storage.sqlite.logs import NEWEST_NODE
from shared_core.storage.sqlite.memory_writes import COLUMNS, bumped, decoded, insert_whole, is_text, succeed
from shared_core.storage.upkeep import Erased, Successor, TermsOf, WholeMemory

_SHOWN = 5  # ids named for each kind of damage
_KEYS = {
    "memories": "row",  # with their index, sources and successions
    "blobs": "row",  # with their tags and uses
    "places": "namespace",
    "nodes": "row",
    "bodies": "hash",
    "heads": "row",
    "dropped": "version, memory",
}
_ERASE = {
    table: f"DELETE FROM {table} WHERE scope = :scope AND ({key}) IN "
    f"(SELECT {key} FROM {table} WHERE scope = :scope ORDER BY {key} LIMIT :most)"
    for table, key in _KEYS.items()
}
_LEFT = """SELECT (SELECT count(*) FROM memories WHERE scope = :scope) + (SELECT count(*) FROM blobs WHERE scope = :scope)
    + (SELECT count(*) FROM nodes WHERE scope = :scope) + (SELECT count(*) FROM bodies WHERE scope = :scope)
    + (SELECT count(*) FROM heads WHERE scope = :scope) + (SELECT count(*) FROM dropped WHERE scope = :scope)
    + (SELECT count(*) FROM places WHERE scope = :scope)"""
_BETWEEN = " UNION ".join(f"SELECT scope FROM {table} WHERE scope >= :start AND scope < :end" for table in _ERASE)
_VECTORS = """SELECT count(*) FROM (SELECT row FROM memories WHERE scope = :scope ORDER BY row LIMIT :most) m
    JOIN search_index i ON i.memory = m.row WHERE i.vectors IS NOT NULL"""
_NAMESPACES = """SELECT namespace, count(*) FROM
    (SELECT namespace FROM blobs WHERE scope = :scope ORDER BY row LIMIT :most) GROUP BY namespace"""
_NOWHERE = """SELECT row, scope, session, origin FROM heads WHERE node IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.scope = heads.scope AND n.id = heads.node)"""
_CUT_OFF = """SELECT n.id FROM nodes n LEFT JOIN nodes p ON p.scope = n.scope AND p.id = n.parent
    WHERE n.parent IS NOT NULL AND p.id IS NULL"""
_TEXTLESS = """SELECT n.id FROM nodes n LEFT JOIN bodies b ON b.scope = n.scope AND b.hash = n.hash
    WHERE b.hash IS NULL"""


class SQLiteUpkeep:
    """``storage.upkeep.Upkeep`` over SQLite."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def whole(self, scope: str) -> Iterator[WholeMemory]:
        """Every memory of the scope in insertion order, in one read transaction."""
        with self._connections.read() as db:
            rows = db.execute(
                f"SELECT row, everywhere, merge_key, evidence, {COLUMNS} FROM memories WHERE scope = ? ORDER BY row",
                (scope,),
            )
            for row, everywhere, merge_key, evidence, *columns in rows:
                memory = self._read(columns)
                if memory is None:
                    continue
                terms, embedder, vectors = db.execute(
                    "SELECT terms, embedder, vectors FROM search_index WHERE memory = ?", (row,)
                ).fetchone() or ("", None, None)
                yield WholeMemory(
                    memory=memory, merge_key=merge_key, terms=terms, everywhere=bool(everywhere),
                    evidence=evidence if isinstance(evidence, float) else None,
                    sources=tuple(
                        Source(*found)
                        for found in db.execute(
                            "SELECT session, node FROM sources WHERE memory = ? ORDER BY session, node", (row,)
                        )
                    ),
                    successors=tuple(
                        Successor(*found)
                        for found in db.execute(
                            "SELECT m.id, s.at FROM successions s LEFT JOIN memories m ON m.row = s.successor "
                            "WHERE s.memory = ? ORDER BY s.rowid",
                            (row,),
                        )
                    ),
                    embedder=embedder if isinstance(vectors, bytes) else None,
                    vectors=vectors if isinstance(vectors, bytes) else None,
                )  # fmt: skip

    def _read(self, columns: Sequence[object]) -> Memory | None:
        try:
            return decoded(columns)
        except (ValueError, TypeError, RecursionError):
            self._connections.count_unreadable()
            return None

    def restore(self, items: Sequence[WholeMemory]) -> int:
        """Write memories as they are, in one transaction."""
        with self._connections.write() as db:
            fresh: list[tuple[int, WholeMemory]] = []
            versions: dict[str, int] = {}
            held = db.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchone()
            model = json.loads(held[0])[0] if held else None
            for item in items:
                memory = item.memory
                found = db.execute(
                    "SELECT text FROM memories WHERE scope = ? AND id = ?", (memory.scope, memory.id)
                ).fetchone()
                if found is None:
                    fresh.append((insert_whole(db, item, bumped(db, memory.scope, versions), model=model), item))
                elif found[0] != memory.text:
                    raise DuplicateId(
                        f"id {memory.id!r} is taken in scope {memory.scope!r} by a memory with another text; "
                        "forget that one first, or take this line out"
                    )
            for row, item in fresh:
                for successor in item.successors:
                    db.execute(
                        "INSERT INTO successions (memory, successor, at) VALUES (?, "
                        "(SELECT row FROM memories WHERE scope = ? AND id = ?), ?)",
                        (row, item.memory.scope, successor.id, successor.at),
                    )
            _settle_subjects(db, {row: item.memory for row, item in fresh}, versions)
            return len(fresh)

    def erase_scope(self, scope: str, *, within: str | None = None) -> Erased:
        """Erase all content of the scope and of those within it, in one transaction (see ``full_disk.erase``)."""
        inner: dict[str, None] = {}

        def some(db: sqlite3.Connection, most: int) -> list[Erased]:
            within_it = [] if within is None else _beginning_with(db, within)
            inner.update(dict.fromkeys(within_it))
            found = [_erased(db, one, most) for one in (scope, *within_it)]
            return [one for one, _ in found] if most == full_disk.ALL or any(rows for _, rows in found) else []

        steps = full_disk.erase(self._connections, some)
        self._connections.wipe()
        every = [one for step in steps for one in step]
        blobs: Counter[str] = Counter()
        for one in every:
            blobs.update(one.blobs)
        return Erased(
            sum(step[0].memories for step in steps),
            sum(one.vectors for one in every),
            sum(one.messages for one in every),
            dict(blobs),
            sum(one.left for one in steps[-1]) if steps else 0,
            tuple(inner),
        )

    def check(self, terms_of: TermsOf) -> tuple[int, list[Problem]]:
        """What is wrong with the file, in one read transaction."""
        found: dict[str, list[str]] = {}
        memories = 0
        with self._connections.read() as db:
            try:
                for kind, which in _faults(db, terms_of):
                    found.setdefault(kind, []).append(which)
                memories = int(db.execute("SELECT count(*) FROM memories").fetchone()[0])
            except sqlite3.DatabaseError as error:
                found.setdefault(_DAMAGED, []).append(str(error))
        return memories, [Problem(kind, len(ids), tuple(ids[:_SHOWN])) for kind, ids in found.items()]

    def mend(self, terms_of: TermsOf) -> int:
        """Make the index agree with the rows, in one transaction; then give free room back to the disk."""
        count = self._agreed(terms_of)
        self._connections.compact()
        return count

    def _agreed(self, terms_of: TermsOf) -> int:
        with self._connections.write() as db:
            db.execute("REINDEX")
            count = db.execute("DELETE FROM search_index WHERE memory NOT IN (SELECT row FROM memories)").rowcount
            db.execute("DELETE FROM sources WHERE memory NOT IN (SELECT row FROM memories)")
            db.execute("DELETE FROM successions WHERE memory NOT IN (SELECT row FROM memories)")
            db.execute("UPDATE successions SET successor = NULL WHERE successor NOT IN (SELECT row FROM memories)")
            db.execute("DELETE FROM sizes WHERE node NOT IN (SELECT row FROM nodes)")
            db.execute("DELETE FROM blob_tags WHERE blob NOT IN (SELECT row FROM blobs)")
            for row, scope, session, origin in db.execute(_NOWHERE).fetchall():
                newest = db.execute(NEWEST_NODE, (scope, session)).fetchone()
                db.execute("UPDATE heads SET node = ? WHERE row = ?", (newest[0] if newest else origin, row))
                count += 1
            scopes: set[str] = set()
            model = _model(db)
            broken = [row for row in _indexed(db) if _fault(row, terms_of, model) not in (None, _UNREADABLE)]
            for number, _, _, _, embedder, vectors, *columns in broken:
                memory = decoded(columns)
                sound = _vectors_fault(embedder, vectors, model) is None
                db.execute(
                    "INSERT INTO search_index (memory, terms, embedder, vectors) VALUES (?, ?, ?, ?) ON CONFLICT (memory) "
                    "DO UPDATE SET terms = excluded.terms, embedder = excluded.embedder, vectors = excluded.vectors",
                    (number, terms_of(memory.text), embedder if sound else None, vectors if sound else None),
                )
                scopes.add(memory.scope)
            for scope in scopes:  # every process reads the scope anew
                version = bumped(db, scope, {})
                db.execute("UPDATE scopes SET floor = ? WHERE scope = ?", (version, scope))
            return count + len(broken)


def _beginning_with(db: sqlite3.Connection, start: str) -> list[str]:
    """Every scope of such a name that anything is stored of."""
    end = start[:-1] + chr(ord(start[-1]) + 1)  # names are compared code point by code point, in the index
    return sorted(name for (name,) in db.execute(_BETWEEN, {"start": start, "end": end}) if is_text(name))


def _erased(db: sqlite3.Connection, scope: str, most: int) -> tuple[Erased, int]:
    """Erase at most so many rows of each table; what that was, and how many rows."""
    here = {"scope": scope, "most": most}
    vectors = int(db.execute(_VECTORS, here).fetchone()[0])
    blobs = dict(db.execute(_NAMESPACES, here))
    gone = {table: db.execute(statement, here).rowcount for table, statement in _ERASE.items()}
    version = bumped(db, scope, {})
    db.execute("UPDATE scopes SET floor = ? WHERE scope = ?", (version, scope))
    generation_moved_on(db, scope)
    left = int(db.execute(_LEFT, {"scope": scope}).fetchone()[0])
    return Erased(gone["memories"], vectors, gone["nodes"], blobs, left), sum(gone.values())


_DAMAGED = "the file is damaged; restore a copy"
_UNREADABLE = "memories that cannot be read; forget(id) them"


def _faults(db: sqlite3.Connection, terms_of: TermsOf) -> Iterator[tuple[str, str]]:
    """Each fault as its kind and the row that has it."""
    for (line,) in db.execute("PRAGMA integrity_check").fetchall():
        if line != "ok":
            yield _DAMAGED, str(line)
    for table, row, parent, _ in db.execute("PRAGMA foreign_key_check").fetchall():
        yield f"rows of {table} that belong to no row of {parent}; rebuild_index()", str(row)
    for (id,) in db.execute(_TEXTLESS):
        yield "messages without their text", str(id)
    for (id,) in db.execute(_CUT_OFF):
        yield "messages whose earlier ones are lost", str(id)
    for _, _, session, _ in db.execute(_NOWHERE):
        yield "conversations that stand nowhere; rebuild_index()", str(session)
    model = _model(db)
    for row in _indexed(db):
        kind = _fault(row, terms_of, model)
        if kind is not None:
            yield kind, str(row[1])


def _indexed(db: sqlite3.Connection) -> sqlite3.Cursor:
    """Row number, id, whether it has an index row, terms, embedder, vectors, and the memory's columns."""
    return db.execute(
        f"SELECT m.row, m.id, i.memory, i.terms, i.embedder, i.vectors, {', '.join('m.' + name for name in COLUMNS.split(', '))} FROM memories m "
        "LEFT JOIN search_index i ON i.memory = m.row ORDER BY m.row"
    )


def _fault(row: Sequence[object], terms_of: TermsOf, model: tuple[str, int] | None) -> str | None:
    _, _, indexed, terms, embedder, vectors, *columns = row
    try:
        memory = decoded(columns)
    except (ValueError, TypeError, RecursionError):
        return _UNREADABLE
    if indexed is None:
        return "memories without an index row; rebuild_index()"
    if terms != terms_of(memory.text):
        return "memories whose index terms are not those of their text; rebuild_index()"
    return _vectors_fault(embedder, vectors, model)


def _vectors_fault(embedder: object, vectors: object, model: tuple[str, int] | None) -> str | None:
    if vectors is None and embedder is None:
        return None
    broken = "memories whose vectors are not what the model writes; rebuild_index()"
    if not isinstance(vectors, bytes) or not vectors or model is None or embedder != model[0]:
        return broken
    if len(vectors) % (4 * model[1]):
        return broken
    numbers = struct.unpack(f"<{len(vectors) // 4}f", vectors)
    return None if all(map(math.isfinite, numbers)) else broken


def _model(db: sqlite3.Connection) -> tuple[str, int] | None:
    held = db.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchone()
    if held is None:
        return None
    fingerprint, dimension = json.loads(held[0])
    return str(fingerprint), int(dimension)


def _settle_subjects(db: sqlite3.Connection, fresh: dict[int, Memory], versions: dict[str, int]) -> None:
    """Where a subject was told in both places, the latest event takes the place of the others."""
    for scope, subject in dict.fromkeys((one.scope, one.subject) for one in fresh.values() if one.subject is not None):
        live = db.execute(
            "SELECT row, at FROM memories WHERE scope = ? AND subject = ? AND status = 'active' ORDER BY at, row",
            (scope, subject),
        ).fetchall()
        if all(row in fresh for row, _ in live):
            continue  # it came as it is
        for (earlier, _), (later, at) in pairwise(live):
            succeed(db, [earlier], later, at, versions[scope])
