"""What one transaction does to the rows of long-term memory: insert, strengthen, supersede, touch, count versions.

Each function runs inside a transaction that the caller began (``memories.py``); none begins one.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from shared_core.errors import StorageError
from shared_core.records import Memory
from shared_core.storage.base import Access, NewMemory
from shared_core.storage.upkeep import WholeMemory

COLUMNS = (
    "id, text, scope, role, speaker, session, tags, importance, at, created_at, last_accessed, access_count, "
    "subject, pinned, status, metadata"
)

FEED = 10_000
"""Changes of a scope for which erased rows are told one by one; an index that is further behind starts anew."""


def decoded(columns: Sequence[Any]) -> Memory:
    """Decode one row. ValueError or TypeError if it is not what was written."""
    (id, text, scope, role, speaker, session, tags, importance, at, created_at, last_accessed, access_count,
     subject, pinned, status, metadata) = columns  # fmt: skip
    tags = [] if tags == "[]" else json.loads(tags)
    metadata = {} if metadata == "{}" else json.loads(metadata)
    # Bytes that are no UTF-8 came out as surrogates: UnicodeEncodeError is a ValueError.
    "".join((id, text, scope, role, speaker or "", session or "", subject or "", status, *tags)).encode()
    if not isinstance(metadata, dict) or not isinstance(tags, list):
        raise TypeError("tags and metadata")  # the reader catches it and counts the row
    if not all(map(math.isfinite, (importance, at, created_at, last_accessed))) or not 0 <= importance <= 1:
        raise ValueError("times and importance")
    if not isinstance(access_count, int) or not 0 <= access_count < 2**53:
        raise ValueError("access_count")
    return Memory(
        id=id, text=text, scope=scope, role=role, speaker=speaker, session=session, tags=tuple(tags),
        importance=float(importance), at=float(at), created_at=float(created_at), last_accessed=float(last_accessed),
        access_count=int(access_count), subject=subject, pinned=bool(pinned), status=status, metadata=metadata,
    )  # fmt: skip


def is_text(value: object) -> bool:
    """Whether this is a name as it was written, and not what damage or another hand left in its place."""
    # Bytes that are no UTF-8 came out as lone surrogates.
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def insert(db: sqlite3.Connection, item: NewMemory, version: int) -> int:
    """Add one row with its index and its source; return its number."""
    memory, source = item.memory, item.source
    row = db.execute(
        f"INSERT INTO memories ({COLUMNS}, everywhere, merge_key, version) VALUES ({', '.join('?' * 19)})",
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


def insert_whole(db: sqlite3.Connection, item: WholeMemory, version: int, *, model: str | None) -> int:
    """Add one row as it was elsewhere, evidence, status and sources too; vectors only where ``model`` made them."""
    ours = item.vectors is not None and item.embedder == model
    new = NewMemory(
        memory=item.memory, merge_key=item.merge_key, terms=item.terms,
        embedder=item.embedder if ours else None, vectors=item.vectors if ours else None,
    )  # fmt: skip
    row = insert(db, new, version)
    db.execute("UPDATE memories SET evidence = ?, everywhere = ? WHERE row = ?", (item.evidence, item.everywhere, row))
    db.executemany(
        "INSERT OR IGNORE INTO sources (memory, session, node) VALUES (?, ?, ?)",
        ((row, source.session, source.node) for source in item.sources),
    )
    return row


def mask(db: sqlite3.Connection, old: Memory, item: NewMemory, version: int) -> Memory:
    """Put the item's masked text in the place of the same text unmasked; whatever else is known of it stays.

    An index takes over no other text for a row that it holds: the scope's floor has every process read it anew.
    """
    (row,) = db.execute("SELECT row FROM memories WHERE scope = ? AND id = ?", (old.scope, old.id)).fetchone()
    db.execute(
        "UPDATE memories SET text = ?, merge_key = ?, version = ? WHERE row = ?",
        (item.memory.text, item.merge_key, version, row),
    )
    db.execute(
        "INSERT INTO search_index (memory, terms, embedder, vectors) VALUES (?, ?, ?, ?) ON CONFLICT (memory) "
        "DO UPDATE SET terms = excluded.terms, embedder = excluded.embedder, vectors = excluded.vectors",
        (row, item.terms, item.embedder, item.vectors),
    )
    db.execute("UPDATE scopes SET floor = ? WHERE scope = ?", (version, old.scope))
    return replace(old, text=item.memory.text)


def archive(db: sqlite3.Connection, scope: str, ids: Iterable[str], version: int) -> int:
    """Take memories out of every recall; one that was pinned meanwhile stays. Return how many went."""
    return db.executemany(
        "UPDATE memories SET status = 'archived', version = ? "
        "WHERE scope = ? AND id = ? AND NOT pinned AND status <> 'archived'",
        ((version, scope, id) for id in ids),
    ).rowcount


def erase(db: sqlite3.Connection, scope: str, rows: Iterable[int], version: int) -> None:
    """Erase rows, leaving their numbers for other processes; what one of them had replaced is told so too."""
    for row in rows:
        db.execute(
            "UPDATE memories SET version = ? WHERE row IN (SELECT memory FROM successions WHERE successor = ?)",
            (version, row),
        )
        db.execute("INSERT OR IGNORE INTO dropped (scope, version, memory) VALUES (?, ?, ?)", (scope, version, row))
        db.execute("DELETE FROM memories WHERE row = ?", (row,))
    if db.execute("DELETE FROM dropped WHERE scope = ? AND version <= ?", (scope, version - FEED)).rowcount:
        db.execute("UPDATE scopes SET floor = max(floor, ?) WHERE scope = ?", (version - FEED, scope))


def strengthen(
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
    version = bumped(db, old.scope, versions)
    db.execute(
        "UPDATE memories SET last_accessed = ?, access_count = ?, tags = ?, metadata = ?, pinned = ?, everywhere = ?, "
        "version = ? WHERE row = ?",
        (
            stored.last_accessed, stored.access_count, json.dumps(stored.tags), json.dumps(dict(stored.metadata)),
            stored.pinned, everywhere or source is None, version, row,
        ),
    )  # fmt: skip
    return stored


def revive(db: sqlite3.Connection, old: Memory, now: float, version: int) -> Memory:
    """Bring an archived memory back as it was, used at this moment; of its subject the latest event stays current."""
    row, replaced = db.execute(
        "SELECT row, EXISTS (SELECT 1 FROM successions WHERE memory = m.row) FROM memories m WHERE scope = ? AND id = ?",
        (old.scope, old.id),
    ).fetchone()
    stored = replace(old, status="active", last_accessed=max(old.last_accessed, now))
    db.execute(
        "UPDATE memories SET status = ?, last_accessed = ?, version = ? WHERE row = ?",
        (stored.status, stored.last_accessed, version, row),
    )
    if old.subject is not None:
        replaced = supersede_subject(db, row, old, version, happened=True) or replaced
    if replaced:
        db.execute("UPDATE memories SET status = 'superseded' WHERE row = ?", (row,))
        stored = replace(stored, status="superseded")
    return stored


def supersede_subject(
    db: sqlite3.Connection, row: int, memory: Memory, version: int, *, happened: bool = False
) -> bool:
    """Place a memory among the others of its subject: the latest event is current, and history stays in order.

    A memory is settled by a successor that is visible everywhere; one that may come back by a rewind
    gets one more. What happens now is the latest, whatever a clock says that was set back; an ``at``
    in the past comes before what happened since, and so does what ``happened`` before this write. Returns
    whether it is itself history.
    """
    told = happened or memory.at != memory.created_at
    here = {"scope": memory.scope, "subject": memory.subject, "row": row, "at": memory.at if told else math.inf}
    before = db.execute(
        "SELECT m.row FROM memories m WHERE m.scope = :scope AND m.subject = :subject AND m.row <> :row "
        "AND m.status <> 'archived' AND m.at <= :at AND NOT EXISTS ("
        "SELECT 1 FROM successions s LEFT JOIN memories n ON n.row = s.successor "
        "WHERE s.memory = m.row AND s.at <= :at AND (n.row IS NULL OR n.everywhere))",
        here,
    ).fetchall()
    succeed(db, [found for (found,) in before], row, memory.at, version)
    after = db.execute(
        "SELECT row, at, everywhere FROM memories WHERE scope = :scope AND subject = :subject AND row <> :row "
        "AND at > :at ORDER BY at, row",
        here,
    ).fetchall()
    for later, at, everywhere in after:
        succeed(db, [row], later, at, version)
        if everywhere:
            break
    return bool(after)


def succeed(db: sqlite3.Connection, earlier: Iterable[int], successor: int, at: float, version: int) -> None:
    """Note that ``successor`` took the place of each earlier row at this time."""
    for old in earlier:
        db.execute(
            "INSERT INTO successions (memory, successor, at) SELECT ?, ?, ? WHERE NOT EXISTS "
            "(SELECT 1 FROM successions WHERE memory = ? AND successor = ?)",
            (old, successor, at, old, successor),
        )
        db.execute(
            "UPDATE memories SET status = CASE status WHEN 'archived' THEN status ELSE 'superseded' END, version = ? "
            "WHERE row = ?",
            (version, old),
        )


def touch(db: sqlite3.Connection, scope: str, accesses: Sequence[Access], version: int) -> None:
    """Add read facts to the rows; ids that are gone are passed over."""
    db.executemany(
        "UPDATE memories SET last_accessed = max(last_accessed, ?), access_count = access_count + ?, "
        "evidence = coalesce(?, evidence), version = ? WHERE scope = ? AND id = ?",
        ((seen.last_accessed, seen.count, seen.evidence, version, scope, seen.id) for seen in accesses),
    )


def bumped(db: sqlite3.Connection, scope: str, versions: dict[str, int]) -> int:
    """The scope's version for this transaction: moved on once, then the same."""
    if scope not in versions:
        moved = db.execute(
            "INSERT INTO scopes (scope, version) VALUES (?, 1) ON CONFLICT (scope) DO UPDATE SET version = version + 1 "
            "RETURNING version",
            (scope,),
        ).fetchall()  # to its end: the row is written when the statement is
        versions[scope] = whole(moved[0][0])
    return versions[scope]


def version_of(db: sqlite3.Connection, scope: str) -> int:
    """The number of the scope's last change."""
    found = db.execute("SELECT version FROM scopes WHERE scope = ?", (scope,)).fetchone()
    return whole(found[0]) if found else 0


def whole(value: object) -> int:
    """A number that counts changes; StorageError for what another hand wrote in its place."""
    if not isinstance(value, int) or not 0 <= value < 2**62:
        raise StorageError(f"the count of a scope's changes is damaged (found {value!r}); restore a copy of the file")
    return value
