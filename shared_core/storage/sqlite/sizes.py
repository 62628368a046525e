"""The tokens of messages in SQLite, with running totals, so that the end of a path is found without its beginning.

No counting and no cut here: sizes come in, and a stretch of a path goes out.
"""

from __future__ import annotations

import json
import sqlite3

from shared_core.storage.base import LogNode, Size, SizedNode, Sizes, Tail

_UNSIZED = """WITH RECURSIVE path (id, parent, depth, hash, created_at, tokens, apart, begins, total) AS (
    SELECT n.id, n.parent, n.depth, n.hash, n.created_at, s.tokens, s.apart, s.begins, s.total
    FROM heads h JOIN nodes n ON n.scope = h.scope AND n.id = h.node
    LEFT JOIN sizes s ON s.node = n.row AND s.counter = :counter WHERE h.scope = :scope AND h.session = :session
    UNION ALL
    SELECT n.id, n.parent, n.depth, n.hash, n.created_at, s.tokens, s.apart, s.begins, s.total
    FROM path p JOIN nodes n ON n.scope = :scope AND n.id = p.parent
    LEFT JOIN sizes s ON s.node = n.row AND s.counter = :counter WHERE p.total IS NULL
) SELECT p.id, p.parent, p.depth, b.body, p.created_at, p.tokens, p.apart, p.begins
FROM path p LEFT JOIN bodies b ON b.scope = :scope AND b.hash = p.hash WHERE p.total IS NULL ORDER BY p.depth"""

_HEAD = """SELECT n.row, s.total, s.apart_total FROM heads h JOIN nodes n ON n.scope = h.scope AND n.id = h.node
LEFT JOIN sizes s ON s.node = n.row AND s.counter = :counter WHERE h.scope = :scope AND h.session = :session"""

_NODES = """WITH RECURSIVE path (id, parent, depth, hash, tokens, total, apart, begins, turns) AS (
    SELECT n.id, n.parent, n.depth, n.hash, s.tokens, s.total, s.apart, s.begins, s.begins
    FROM nodes n JOIN sizes s ON s.node = n.row AND s.counter = :counter WHERE n.row = :row
    UNION ALL
    SELECT n.id, n.parent, n.depth, n.hash, s.tokens, s.total, s.apart, s.begins, p.turns + s.begins
    FROM path p JOIN nodes n ON n.scope = :scope AND n.id = p.parent
    JOIN sizes s ON s.node = n.row AND s.counter = :counter
    WHERE NOT (p.begins AND p.turns > 1 AND p.total - p.tokens < :past)
) SELECT p.id, b.body, p.tokens, p.total, p.apart
FROM path p JOIN bodies b ON b.scope = :scope AND b.hash = p.hash ORDER BY p.depth"""

_SYSTEMS = """WITH RECURSIVE systems (row) AS (
    SELECT CASE WHEN apart THEN node ELSE above END FROM sizes WHERE node = :row AND counter = :counter
    UNION ALL
    SELECT s.above FROM systems x JOIN sizes s ON s.node = x.row AND s.counter = :counter
) SELECT n.id, b.body, s.tokens, s.total, s.apart FROM systems x JOIN nodes n ON n.row = x.row
JOIN sizes s ON s.node = n.row AND s.counter = :counter
JOIN bodies b ON b.scope = n.scope AND b.hash = n.hash ORDER BY n.depth"""


def put_sizes(db: sqlite3.Connection, scope: str, nodes: list[str], sizes: Sizes) -> None:
    """Keep the sizes of nodes in the order of their path, each with its totals if those before it are known."""
    db.execute("INSERT OR IGNORE INTO token_counters (name) VALUES (?)", (sizes.counter,))
    counter = _counter(db, sizes.counter)
    for node, size in zip(nodes, sizes.of, strict=True):
        found = db.execute(
            "SELECT n.row, n.parent, p.row, s.total, s.apart_total, s.apart, s.above FROM nodes n "
            "LEFT JOIN nodes p ON p.scope = n.scope AND p.id = n.parent "
            "LEFT JOIN sizes s ON s.node = p.row AND s.counter = ? WHERE n.scope = ? AND n.id = ?",
            (counter, scope, node),
        ).fetchone()
        if found is None:
            continue
        row, parent, parent_row, total, apart_total, is_apart, above = found
        if parent is None:
            total, apart_total = 0, 0
        if total is not None:
            total += 0 if size.apart else size.tokens
            apart_total += size.tokens if size.apart else 0
        db.execute(
            "INSERT OR REPLACE INTO sizes (node, counter, tokens, apart, begins, total, apart_total, above) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                row, counter, size.tokens, size.apart, size.begins, total, apart_total,
                parent_row if is_apart else above,
            ),
        )  # fmt: skip


def unsized(
    db: sqlite3.Connection, scope: str, session: str, counter: str
) -> tuple[list[tuple[LogNode, Size | None]], int]:
    """The end of the path without totals, and how many of its bodies could not be read (they are None)."""
    out: list[tuple[LogNode, Size | None]] = []
    unreadable = 0
    names = {"scope": scope, "session": session, "counter": _counter(db, counter)}
    for id, parent, depth, body, created_at, tokens, apart, begins in db.execute(_UNSIZED, names).fetchall():
        try:
            message = json.loads(body or "")
        except ValueError:
            message, unreadable = None, unreadable + 1
        size = None if tokens is None else Size(tokens, bool(apart), bool(begins))
        out.append((LogNode(id, parent, depth, message, created_at), size))
    return out, unreadable


def tail(db: sqlite3.Connection, scope: str, session: str, counter_name: str, limit: int) -> tuple[Tail | None, int]:
    """The end of the path (None if a total is missing), and how many of its bodies could not be read."""
    names = {"scope": scope, "session": session, "counter": _counter(db, counter_name)}
    head = db.execute(_HEAD, names).fetchone()
    if head is None:
        return Tail(0, 0, (), ()), 0
    row, total, apart = head
    if total is None:
        return None, 0
    at = {"scope": scope, "counter": names["counter"], "row": row}
    systems, lost = _read(db.execute(_SYSTEMS, {"counter": names["counter"], "row": row}))
    nodes, missing = _read(db.execute(_NODES, {**at, "past": total + apart - limit}))
    return Tail(total, apart, tuple(systems), tuple(nodes)), lost + missing


def _read(rows: sqlite3.Cursor) -> tuple[list[SizedNode], int]:
    out, unreadable = [], 0
    for id, body, tokens, total, apart in rows.fetchall():
        try:
            out.append(SizedNode(id, json.loads(body), tokens, total, bool(apart)))
        except ValueError:
            unreadable += 1
    return out, unreadable


def _counter(db: sqlite3.Connection, name: str) -> int | None:
    found = db.execute("SELECT id FROM token_counters WHERE name = ?", (name,)).fetchone()
    return int(found[0]) if found else None
