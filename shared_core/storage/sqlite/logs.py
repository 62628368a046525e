"""Conversation trees in SQLite: nodes with a parent, bodies stored once by content, one head a session.

No pairing rule and no window here (``mid_term/context.py``): rows are added, and heads move.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from shared_core.errors import InvalidInput, NotFound, StorageError
from shared_core.storage.base import LogNode, Size, Sizes, Tail
from shared_core.storage.sqlite import full_disk
from shared_core.storage.sqlite import sizes as sizing
from shared_core.storage.sqlite.connection import Connections

_PATH = """WITH RECURSIVE path (id, parent, depth, hash, created_at, writer, origin, steps) AS (
    SELECT id, parent, depth, hash, created_at, writer, origin, 1 FROM nodes WHERE scope = :scope AND id = :node
    UNION ALL
    SELECT n.id, n.parent, n.depth, n.hash, n.created_at, n.writer, n.origin, p.steps + 1
    FROM path p JOIN nodes n ON n.scope = :scope AND n.id = p.parent WHERE p.steps < :last
        AND n.depth < p.depth  -- always so; were it not, a parent that is its own child would never end
)"""
NEWEST_NODE = "SELECT id FROM nodes WHERE scope = ? AND session = ? ORDER BY row DESC LIMIT 1"
_ALL = 2**62


class SQLiteLogs:
    """``storage.base.Logs`` over SQLite."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def head(self, scope: str, session: str) -> str | None:
        """The node the session stands on."""
        with self._connections.read() as db:
            return self._head(db, scope, session)

    def _head(self, db: sqlite3.Connection, scope: str, session: str) -> str | None:
        """Where the session stands; after a row was lost, at the newest of its messages that is still there."""
        found = db.execute(
            "SELECT h.node, n.id, o.id FROM heads h LEFT JOIN nodes n ON n.scope = h.scope AND n.id = h.node "
            "LEFT JOIN nodes o ON o.scope = h.scope AND o.id = h.origin WHERE h.scope = ? AND h.session = ?",
            (scope, session),
        ).fetchone()
        if found is None or found[0] == found[1]:
            return found[1] if found else None
        self._connections.count_unreadable()
        newest = db.execute(NEWEST_NODE, (scope, session)).fetchone()
        node: str | None = newest[0] if newest else found[2]
        return node

    def append(
        self,
        scope: str,
        session: str,
        parent: str | None,
        nodes: Sequence[tuple[str, Any]],
        now: float,
        *,
        sizes: Sizes | None = None,
        writer: str | None = None,
    ) -> None:
        """Add a chain under ``parent`` and move the head to its end."""
        with self._connections.write() as db:
            off_path = parent != self._head(db, scope, session)
            _append(db, scope, session, parent, nodes, now, sizes, writer=writer, rewound=off_path)

    def move(self, scope: str, session: str, node: str | None, *, now: float) -> None:  # noqa: ARG002 - for backends that keep times
        """Move the head to a node that the session's tree holds."""
        with self._connections.write() as db:
            if node is not None and not _reachable(db, scope, session, node):
                raise NotFound(
                    f"no node {node!r} in session {session!r} of this scope; snapshot() gives the ids there are"
                )
            _set_head(db, scope, session, node, rewound=node != self._head(db, scope, session))

    def replace(
        self, scope: str, session: str, nodes: Sequence[tuple[str, Any]], now: float, *, sizes: Sizes | None = None
    ) -> None:
        """Start a new path from the root."""
        with self._connections.write() as db:
            rewound = self._head(db, scope, session) is not None
            _set_head(db, scope, session, None, rewound=rewound)
            _append(db, scope, session, None, nodes, now, sizes, writer=None, rewound=rewound)

    def splice(
        self,
        scope: str,
        session: str,
        after: str | None,
        nodes: Sequence[tuple[str, Any]],
        now: float,
        *,
        head: str | None,
        sizes: Sizes | None = None,
        writer: str | None = None,
    ) -> bool:
        """Make ``nodes`` all that follows ``after``, if the head is still ``head``."""
        with self._connections.write() as db:
            if self._head(db, scope, session) != head:
                return False
            _set_head(db, scope, session, after, rewound=after != head)
            _append(db, scope, session, after, nodes, now, sizes, writer=writer, rewound=False)
            _erase(db, scope, head, after)
            return True

    def graft(
        self, scope: str, session: str, stem: str | None, copies: Sequence[tuple[str, str]], *, head: str | None
    ) -> bool:
        """Move the head to ``stem`` and repeat other nodes after it, if the head is still ``head``."""
        with self._connections.write() as db:
            if self._head(db, scope, session) != head:
                return False
            depth = 0 if stem is None else _depth(db, scope, stem)
            parent = stem
            for id, node in copies:
                depth += 1
                added = db.execute(
                    "INSERT INTO nodes (scope, id, session, parent, depth, hash, created_at, writer, origin) "
                    "SELECT scope, ?, ?, ?, ?, hash, created_at, writer, coalesce(origin, id) FROM nodes "
                    "WHERE scope = ? AND id = ?",
                    (id, session, parent, depth, scope, node),
                ).rowcount
                if not added:
                    raise NotFound(f"no node {node!r} in this scope to repeat; snapshot() gives the ids there are")
                parent = id
            _set_head(db, scope, session, parent, rewound=True)
            return True

    def current(self, scope: str, session: str) -> tuple[str | None, list[LogNode]]:
        """The head and the path to it, read in one transaction."""
        with self._connections.read() as db:
            head = self._head(db, scope, session)
            return head, self._path(db, scope, head, _ALL)

    def path(self, scope: str, session: str, node: str | None, *, last: int | None = None) -> list[LogNode]:
        """The messages from the root to ``node``."""
        if node is None:
            return []
        with self._connections.read() as db:
            if not _reachable(db, scope, session, node):
                raise NotFound(f"no node {node!r} in session {session!r} of this scope")
            return self._path(db, scope, node, _ALL if last is None else last)

    def written(self, scope: str, session: str, writer: str | None, *, last: int) -> list[LogNode]:
        """The last nodes of one writer on the current path."""
        with self._connections.read() as db:
            if writer is not None and not _known(db, scope, writer):
                return []  # without going back to the root for nothing
            rows = db.execute(  # from the head back, and no further than it takes
                f"{_PATH} SELECT p.id, p.parent, p.depth, b.body, p.created_at, p.writer, p.origin FROM path p "
                "CROSS JOIN bodies b ON b.scope = :scope AND b.hash = p.hash WHERE p.writer IS :writer LIMIT :most",
                {"scope": scope, "node": self._head(db, scope, session), "last": _ALL, "writer": writer, "most": last},
            ).fetchall()
        return self._nodes(reversed(rows))

    def _path(self, db: sqlite3.Connection, scope: str, node: str | None, last: int) -> list[LogNode]:
        rows = db.execute(
            f"{_PATH} SELECT p.id, p.parent, p.depth, b.body, p.created_at, p.writer, p.origin FROM path p "
            "JOIN bodies b ON b.scope = :scope AND b.hash = p.hash ORDER BY p.depth",
            {"scope": scope, "node": node, "last": last},
        ).fetchall()
        return self._nodes(rows)

    def _nodes(self, rows: Iterable[tuple[Any, ...]]) -> list[LogNode]:
        out = []
        for id, parent, depth, body, created_at, writer, origin in rows:
            try:
                out.append(LogNode(id, parent, depth, json.loads(body), created_at, writer, origin))
            except (ValueError, TypeError, RecursionError):
                self._connections.count_unreadable()
        return out

    def node(self, scope: str, session: str, node: str) -> LogNode:
        """One node of the session's tree."""
        found = self.path(scope, session, node, last=1)
        if not found:
            raise NotFound(f"node {node!r} of session {session!r} cannot be read")
        return found[0]

    def unsized(self, scope: str, session: str, counter: str) -> list[tuple[LogNode, Size | None]]:
        """The end of the current path that this counter has no totals for."""
        with self._connections.read() as db:
            found, unreadable = sizing.unsized(db, scope, session, counter)
        for _ in range(unreadable):
            self._connections.count_unreadable()
        return found

    def resize(self, scope: str, nodes: Sequence[str], sizes: Sizes) -> None:
        """Keep the sizes of these nodes."""
        with self._connections.write() as db:
            sizing.put_sizes(db, scope, list(nodes), sizes)

    def tail(self, scope: str, session: str, counter: str, limit: int) -> Tail | None:
        """The current path back to where ``limit`` tokens do not reach."""
        with self._connections.read() as db:
            found, unreadable = sizing.tail(db, scope, session, counter, limit)
            if found is not None and not found.nodes and self._head(db, scope, session) is not None:
                found = None  # it stands nowhere: nothing can be said without going through the path
        for _ in range(unreadable):
            self._connections.count_unreadable()
        return found

    def path_ids(self, scope: str, session: str) -> frozenset[str]:
        """The node ids on the current path."""
        with self._connections.read() as db:
            head = self._head(db, scope, session)
            rows = db.execute(f"{_PATH} SELECT id, origin FROM path", {"scope": scope, "node": head, "last": _ALL})
            return frozenset(id for row in rows for id in row if id is not None)

    def rewound(self, scope: str) -> dict[str, str | None]:
        """Sessions whose tree has nodes off their current path, each with its head."""
        with self._connections.read() as db:
            return dict(db.execute("SELECT session, node FROM heads WHERE scope = ? AND rewound", (scope,)).fetchall())

    def branch(self, scope: str, session: str, node: str | None, new_session: str, now: float) -> None:  # noqa: ARG002
        """Give ``new_session`` a head at ``node``."""
        with self._connections.write() as db:
            if node is not None and not _reachable(db, scope, session, node):
                raise NotFound(
                    f"no node {node!r} in session {session!r} of this scope; snapshot() gives the ids there are"
                )
            if db.execute("SELECT 1 FROM heads WHERE scope = ? AND session = ?", (scope, new_session)).fetchone():
                raise InvalidInput(f"session: expected a new session for a branch, {new_session!r} has a log already")
            db.execute(
                "INSERT INTO heads (scope, session, node, origin) VALUES (?, ?, ?, ?)", (scope, new_session, node, node)
            )

    def delete(self, scope: str, session: str) -> int:
        """Erase the session's head, and its nodes that no branch stands on."""

        def some(db: sqlite3.Connection, most: int) -> tuple[int, ...]:
            heads = db.execute("DELETE FROM heads WHERE scope = ? AND session = ?", (scope, session)).rowcount
            # What a branch still shows stays: it is the branch's past now as much as this session's.
            removed = db.execute(
                "DELETE FROM nodes WHERE row IN ("
                "  SELECT row FROM nodes WHERE scope = :scope AND session = :session AND id NOT IN ("
                "    WITH RECURSIVE kept (id, parent) AS ("
                "      SELECT n.id, n.parent FROM heads h JOIN nodes n ON n.scope = h.scope AND n.id IN (h.node, h.origin) "
                "      WHERE h.scope = :scope"
                "      UNION SELECT n.id, n.parent FROM kept k JOIN nodes n ON n.scope = :scope AND n.id = k.parent"
                "    ) SELECT id FROM kept) LIMIT :most)",
                {"scope": scope, "session": session, "most": most},
            ).rowcount
            bodies = db.execute(
                "DELETE FROM bodies WHERE scope = :scope AND hash IN (SELECT hash FROM bodies WHERE scope = :scope "
                "AND hash NOT IN (SELECT hash FROM nodes WHERE scope = :scope) LIMIT :most)",
                {"scope": scope, "most": most},
            ).rowcount
            return (removed, heads, bodies) if removed or heads or bodies else ()

        return sum(gone[0] for gone in full_disk.erase(self._connections, some) if gone)

    def sessions(self, scope: str, *, prefix: str = "") -> list[str]:
        """Sessions with a log, in order of their first message."""
        with self._connections.read() as db:
            return [
                row[0]
                for row in db.execute(
                    "SELECT session FROM heads WHERE scope = ? AND substr(CAST(session AS BLOB), 1, ?) = ? ORDER BY row",
                    (scope, len(prefix.encode()), prefix.encode()),  # as bytes: a text function would stop at a NUL
                )
            ]


def _append(
    db: sqlite3.Connection, scope: str, session: str, parent: str | None, nodes: Sequence[tuple[str, Any]], now: float,
    sizes: Sizes | None, *, writer: str | None, rewound: bool,
) -> None:  # fmt: skip
    depth = 0 if parent is None else _depth(db, scope, parent)
    for id, body in nodes:
        depth += 1
        try:
            text = json.dumps(body)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"message: expected a plain JSON dict, got {error}; convert it before appending"
            ) from error
        digest = hashlib.sha256(text.encode()).digest()
        db.execute("INSERT OR IGNORE INTO bodies (scope, hash, body) VALUES (?, ?, ?)", (scope, digest, text))
        db.execute(
            "INSERT INTO nodes (scope, id, session, parent, depth, hash, created_at, writer) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (scope, id, session, parent, depth, digest, now, writer),
        )
        parent = id
    if sizes is not None and nodes:
        sizing.put_sizes(db, scope, [id for id, _ in nodes], sizes)
    _set_head(db, scope, session, parent, rewound=rewound)


def _known(db: sqlite3.Connection, scope: str, writer: str) -> bool:
    return db.execute("SELECT 1 FROM nodes WHERE scope = ? AND writer = ?", (scope, writer)).fetchone() is not None


def _depth(db: sqlite3.Connection, scope: str, node: str) -> int:
    found = db.execute("SELECT depth FROM nodes WHERE scope = ? AND id = ?", (scope, node)).fetchone()
    if found is None:
        raise NotFound(f"no node {node!r} in this scope to append to; snapshot() gives the ids there are")
    if not isinstance(found[0], int):
        raise StorageError(f"node {node!r} is damaged: its depth is {found[0]!r}; restore a copy of the file")
    return found[0]


def _erase(db: sqlite3.Connection, scope: str, node: str | None, after: str | None) -> None:
    """Erase from ``node`` up to, not including, ``after``; stop at the first node that something hangs on."""
    while node is not None and node != after:
        at = (scope, node)
        if db.execute("SELECT 1 FROM nodes WHERE scope = ? AND parent = ?", at).fetchone():
            return
        if db.execute("SELECT 1 FROM heads WHERE scope = ? AND ? IN (node, origin)", at).fetchone():
            return
        found = db.execute("DELETE FROM nodes WHERE scope = ? AND id = ? RETURNING parent, hash", at).fetchone()
        if found is None:
            return
        node, digest = found
        db.execute(
            "DELETE FROM bodies WHERE scope = ? AND hash = ? AND NOT EXISTS "
            "(SELECT 1 FROM nodes WHERE scope = ? AND hash = ?)",
            (scope, digest, scope, digest),
        )


def _set_head(db: sqlite3.Connection, scope: str, session: str, node: str | None, *, rewound: bool) -> None:
    # Once nodes lie off the path they do so for good: a later move back only changes which ones.
    db.execute(
        "INSERT INTO heads (scope, session, node, rewound) VALUES (?, ?, ?, ?) ON CONFLICT (scope, session) "
        "DO UPDATE SET node = excluded.node, rewound = rewound OR excluded.rewound",
        (scope, session, node, rewound),
    )


def _reachable(db: sqlite3.Connection, scope: str, session: str, node: str) -> bool:
    """Whether the node was written under this session, or lies in the past that a branch began with."""
    found = db.execute("SELECT session, depth FROM nodes WHERE scope = ? AND id = ?", (scope, node)).fetchone()
    if found is None:
        return False
    if found[0] == session:
        return True
    began = db.execute(
        "SELECT h.origin, n.depth FROM heads h JOIN nodes n ON n.scope = h.scope AND n.id = h.origin "
        "WHERE h.scope = ? AND h.session = ?",
        (scope, session),
    ).fetchone()
    if began is None or began[1] < found[1]:
        return False
    rows = db.execute(  # as far as the node lies back, not to the root
        f"{_PATH} SELECT 1 FROM path WHERE id = :wanted",
        {"scope": scope, "node": began[0], "last": began[1] - found[1] + 1, "wanted": node},
    )
    return rows.fetchone() is not None
