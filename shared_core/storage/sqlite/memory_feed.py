"""What one transaction reads of the rows of long-term memory: the changes since a version, page by page. No writes here."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import Any

from shared_core.records import Memory
from shared_core.storage.base import Changes, MemoryRow, Source, Succession
from shared_core.storage.sqlite.memory_writes import COLUMNS, whole

_PAGE = 125  # rows decoded at a time

_MAIN = ", ".join(f"m.{name}" for name in COLUMNS.split(", "))
_LIVE = "SELECT row FROM memories WHERE scope = :scope AND status <> 'archived'"
_COUNT = f"SELECT count(*) FROM ({_LIVE})"
# The inner query sorts numbers, from an index alone; without it SQLite would sort whole rows with their vectors.
_WHOLE = (
    "SELECT m.row, m.evidence, i.terms, CASE WHEN i.embedder = :embedder AND m.status <> 'archived' THEN i.vectors END, "
    f"{_MAIN} FROM memories m LEFT JOIN search_index i ON i.memory = m.row WHERE m.row IN "
)
_ALL_ROWS = f"{_WHOLE} ({_LIVE}) ORDER BY m.row"
_CHANGED_ROWS = f"{_WHOLE} (SELECT row FROM memories WHERE scope = :scope AND version > :since) ORDER BY m.row"

Read = Callable[[Sequence[Any]], Memory | None]
"""Decodes one row; None for one that cannot be read, which it counts."""


def pages(
    db: sqlite3.Connection, scope: str, since: int, embedder: str | None, read: Read
) -> Generator[Changes, None, None]:
    """``storage.base.MemoryRows.pages``, inside the caller's transaction."""
    found = db.execute("SELECT version, floor FROM scopes WHERE scope = ?", (scope,)).fetchone()
    version, floor = map(whole, found or (0, 0))
    if version == since:
        yield Changes(version, (), (), reset=False)
        return
    reset = since < floor or version < since
    since = 0 if reset else since
    dropped = db.execute("SELECT memory FROM dropped WHERE scope = ? AND version > ?", (scope, since))
    gone = () if since == 0 else tuple(row for (row,) in dropped if isinstance(row, int))
    total = 0
    if since == 0:
        total = db.execute(_COUNT, {"scope": scope}).fetchone()[0]
    rows = _rows(db, scope, since, embedder, read)
    page = tuple(islice(rows, _PAGE))
    while len(page) == _PAGE:
        yield Changes(since, page, gone, reset, total)
        gone, reset, total, page = (), False, 0, tuple(islice(rows, _PAGE))
    yield Changes(version, page, gone, reset, total)


def _rows(db: sqlite3.Connection, scope: str, since: int, embedder: str | None, read: Read) -> Iterator[MemoryRow]:
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
            "WHERE m.scope = ? AND m.version > ? "
            "AND typeof(s.successor) IN ('integer', 'null') AND typeof(s.at) = 'real'",
            (scope, since),
        ),
        Succession,
    )
    cursor = db.execute(_CHANGED_ROWS if since else _ALL_ROWS, {"embedder": embedder, "scope": scope, "since": since})
    for row, evidence, terms, vectors, *columns in cursor:
        memory = read(columns)
        if memory is not None:
            yield MemoryRow(
                row, memory, str(terms or ""), evidence if isinstance(evidence, float) else float("nan"),
                vectors if isinstance(vectors, bytes) else None,
                tuple(sources.get(row, ())), tuple(successors.get(row, ())),
            )  # fmt: skip


def _grouped(cursor: sqlite3.Cursor, make: type[Source | Succession]) -> dict[int, list[Any]]:
    out: dict[int, list[Any]] = {}
    for row, *rest in cursor:
        out.setdefault(row, []).append(make(*rest))
    return out
