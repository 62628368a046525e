"""The tables, and how an older file becomes a current one. Statements only: no reads, no rules.

``scopes.version`` counts the changes of a scope's memories: each row carries the version at which
it last changed, and an erased row leaves its number in ``dropped``. From these two an index in any
process catches up without reading the rest.
"""

from __future__ import annotations

import sqlite3

from shared_core.errors import SchemaTooNew, StorageError

APPLICATION_ID = 0x7469656D  # "tiem"

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        """CREATE TABLE scopes (
            scope TEXT PRIMARY KEY, version INTEGER NOT NULL DEFAULT 0, floor INTEGER NOT NULL DEFAULT 0
        ) WITHOUT ROWID""",
        """CREATE TABLE memories (
            row INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, id TEXT NOT NULL, text TEXT NOT NULL,
            role TEXT NOT NULL, speaker TEXT, session TEXT, tags TEXT NOT NULL, importance REAL NOT NULL,
            at REAL NOT NULL, created_at REAL NOT NULL, last_accessed REAL NOT NULL, access_count INTEGER NOT NULL,
            subject TEXT, pinned INTEGER NOT NULL, status TEXT NOT NULL, metadata TEXT NOT NULL,
            evidence REAL, everywhere INTEGER NOT NULL, merge_key BLOB NOT NULL, version INTEGER NOT NULL
        )""",
        "CREATE UNIQUE INDEX memories_id ON memories (scope, id)",
        "CREATE INDEX memories_version ON memories (scope, version)",
        "CREATE INDEX memories_merge ON memories (scope, merge_key)",
        "CREATE INDEX memories_subject ON memories (scope, subject) WHERE subject IS NOT NULL",
        """CREATE TABLE search_index (
            memory INTEGER PRIMARY KEY REFERENCES memories (row) ON DELETE CASCADE,
            terms TEXT NOT NULL, embedder TEXT, vectors BLOB
        )""",
        """CREATE TABLE sources (
            memory INTEGER NOT NULL REFERENCES memories (row) ON DELETE CASCADE, session TEXT NOT NULL, node TEXT NOT NULL,
            PRIMARY KEY (memory, session, node)
        ) WITHOUT ROWID""",
        """CREATE TABLE successions (
            memory INTEGER NOT NULL REFERENCES memories (row) ON DELETE CASCADE,
            successor INTEGER REFERENCES memories (row) ON DELETE SET NULL, at REAL NOT NULL
        )""",
        "CREATE INDEX successions_memory ON successions (memory)",
        "CREATE INDEX successions_successor ON successions (successor)",
        """CREATE TABLE dropped (
            scope TEXT NOT NULL, version INTEGER NOT NULL, memory INTEGER NOT NULL, PRIMARY KEY (scope, version, memory)
        ) WITHOUT ROWID""",
        """CREATE TABLE blobs (
            row INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, namespace TEXT NOT NULL, key TEXT NOT NULL,
            value BLOB NOT NULL, created_at REAL NOT NULL, expires_at REAL, tags TEXT NOT NULL
        )""",
        "CREATE UNIQUE INDEX blobs_key ON blobs (scope, namespace, key)",
        "CREATE INDEX blobs_namespace ON blobs (namespace)",
        """CREATE TABLE blob_tags (
            namespace TEXT NOT NULL, tag TEXT NOT NULL, blob INTEGER NOT NULL REFERENCES blobs (row) ON DELETE CASCADE,
            PRIMARY KEY (namespace, tag, blob)
        ) WITHOUT ROWID""",
        "CREATE INDEX blob_tags_blob ON blob_tags (blob)",
        "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
        """CREATE TABLE bodies (
            scope TEXT NOT NULL, hash BLOB NOT NULL, body TEXT NOT NULL, PRIMARY KEY (scope, hash)
        ) WITHOUT ROWID""",
        """CREATE TABLE nodes (
            row INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, id TEXT NOT NULL, session TEXT NOT NULL,
            parent TEXT, depth INTEGER NOT NULL, hash BLOB NOT NULL, created_at REAL NOT NULL
        )""",
        "CREATE UNIQUE INDEX nodes_id ON nodes (scope, id)",
        "CREATE INDEX nodes_session ON nodes (scope, session)",
        "CREATE INDEX nodes_hash ON nodes (scope, hash)",
        "CREATE INDEX nodes_parent ON nodes (scope, parent) WHERE parent IS NOT NULL",
        "CREATE TABLE token_counters (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
        # A message's tokens by one counter, and the totals of its path up to it: null until the whole path is
        # counted. "above" is the nearest node before it that counts apart.
        """CREATE TABLE sizes (
            node INTEGER NOT NULL REFERENCES nodes (row) ON DELETE CASCADE, counter INTEGER NOT NULL,
            tokens INTEGER NOT NULL, apart INTEGER NOT NULL, begins INTEGER NOT NULL,
            total INTEGER, apart_total INTEGER, above INTEGER, PRIMARY KEY (node, counter)
        ) WITHOUT ROWID""",
        """CREATE TABLE heads (
            row INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, session TEXT NOT NULL, node TEXT, origin TEXT,
            rewound INTEGER NOT NULL DEFAULT 0, UNIQUE (scope, session)
        )""",
        "CREATE INDEX heads_rewound ON heads (scope) WHERE rewound",
    ),
    (
        # Bounded namespaces of blobs: what each holds, kept true by triggers, and how each blob was used.
        """CREATE TABLE places (
            scope TEXT NOT NULL, namespace TEXT NOT NULL, items INTEGER NOT NULL, bytes INTEGER NOT NULL,
            accesses INTEGER NOT NULL, PRIMARY KEY (scope, namespace)
        ) WITHOUT ROWID""",
        """CREATE TABLE blob_uses (
            blob INTEGER PRIMARY KEY REFERENCES blobs (row) ON DELETE CASCADE,
            last_accessed REAL NOT NULL, count REAL NOT NULL, access INTEGER NOT NULL, proven INTEGER NOT NULL
        )""",
        """CREATE TRIGGER places_insert AFTER INSERT ON blobs BEGIN
            UPDATE places SET items = items + 1, bytes = bytes + length(CAST(new.key AS BLOB)) + length(new.value)
            WHERE scope = new.scope AND namespace = new.namespace;
        END""",
        """CREATE TRIGGER places_update AFTER UPDATE OF value ON blobs BEGIN
            UPDATE places SET bytes = bytes + length(new.value) - length(old.value)
            WHERE scope = new.scope AND namespace = new.namespace;
        END""",
        """CREATE TRIGGER places_delete AFTER DELETE ON blobs BEGIN
            UPDATE places SET items = items - 1, bytes = bytes - length(CAST(old.key AS BLOB)) - length(old.value)
            WHERE scope = old.scope AND namespace = old.namespace;
        END""",
        # Who logged a message; and the node that this one stands in for, after another writer went back beside it.
        "ALTER TABLE nodes ADD COLUMN writer TEXT",
        "ALTER TABLE nodes ADD COLUMN origin TEXT",
        "CREATE INDEX nodes_writer ON nodes (scope, writer) WHERE writer IS NOT NULL",
        # Archived memories only ever grow in number: what reads a scope from its beginning must not walk past them.
        "CREATE INDEX memories_live ON memories (scope, status) WHERE status <> 'archived'",
    ),
)
"""One tuple of statements a released version; the file's ``user_version`` is how many were applied."""


def migrate(db: sqlite3.Connection) -> None:
    """Bring an open database up to date, in one transaction. SchemaTooNew if it is ahead of this release."""
    if _version(db) == len(MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        version = _version(db)
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def check_version(db: sqlite3.Connection, location: str, *, read_only: bool) -> None:
    """Raise SchemaTooNew if a newer release wrote the file, StorageError if another program did.

    A file that can only be read must be current, for it cannot be brought up to date.
    """
    version = _version(db)
    application = db.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID and db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
        raise StorageError(
            f"{location}: expected a tiered-memory file or a new one, found another program's database; open another path"
        )
    if version > len(MIGRATIONS):
        raise SchemaTooNew(
            f"{location}: expected schema version {len(MIGRATIONS)} or older, found {version}; "
            "it was written by a newer release: update your checkout and install it again"
        )
    if read_only and version < len(MIGRATIONS):
        raise StorageError(
            f"{location}: expected schema version {len(MIGRATIONS)}, found {version} in a file that is read-only; "
            "open it once where it can be written"
        )


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
