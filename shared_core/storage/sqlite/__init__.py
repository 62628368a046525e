"""SQLite: the embedded default. One file, WAL, no extension to load.

Reading order: ``schema.py`` (the tables and their migrations), ``connection.py`` (who may read and
write when; ``place.py``, ``failures.py``, ``full_disk.py``), ``memories.py`` with ``memory_writes.py`` and
``memory_feed.py``, ``blobs.py``, ``logs.py`` (one protocol of ``storage/base.py`` each), ``upkeep.py``
(``storage/upkeep.py``).
"""

from __future__ import annotations

from pathlib import Path

from shared_core.storage.sqlite.blobs import SQLiteBlobs
from shared_core.storage.sqlite.connection import Connections
from shared_core.storage.sqlite.logs import SQLiteLogs
from shared_core.storage.sqlite.memories import SQLiteMemories
from shared_core.storage.sqlite.upkeep import SQLiteUpkeep


class SQLiteStorage:
    """``storage.base.Storage`` over one SQLite file, or ``":memory:"``."""

    def __init__(self, location: str | Path) -> None:
        """Open or create the file. StorageError if it is no database, SchemaTooNew if a newer release wrote it."""
        self._connections = Connections(str(location))
        self.memories = SQLiteMemories(self._connections)
        self.blobs = SQLiteBlobs(self._connections)
        self.logs = SQLiteLogs(self._connections)
        self.upkeep = SQLiteUpkeep(self._connections)

    @property
    def location(self) -> str | None:
        """The file's absolute path; None for ``":memory:"``."""
        return None if self._connections.in_memory else str(Path(self._connections.location).absolute())

    @property
    def unreadable(self) -> int:
        """How many rows could not be read since it was opened."""
        return self._connections.unreadable

    @property
    def read_only(self) -> bool:
        """True when the file or its folder cannot be written."""
        return self._connections.read_only

    def size_bytes(self) -> int:
        """Bytes of the database's pages (the write-ahead log not counted)."""
        with self._connections.read() as db:
            pages = db.execute("PRAGMA page_count").fetchone()[0]
            return int(pages * db.execute("PRAGMA page_size").fetchone()[0])

    def close(self) -> None:
        """Close every connection; idempotent."""
        self._connections.close()


__all__ = ["SQLiteStorage"]
