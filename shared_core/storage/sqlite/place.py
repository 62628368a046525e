"""Where a file may be opened: looked at before SQLite does, whose answers come late or not at all. No transaction here."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

from shared_core.errors import InvalidInput, StorageError
from shared_core.storage.sqlite.failures import BUSY_SECONDS, DAMAGED

_SMALLEST = 512  # bytes of the smallest page


def check_place(location: str) -> bool:
    """Whether the file can only be read. InvalidInput or StorageError for a path that no memory can be at."""
    if "\0" in location:  # SQLite would open the file named by what stands before it
        raise InvalidInput(f"location: expected a path or ':memory:', got {location!r}")
    path = Path(location)
    try:
        path.exists()
    except OSError as error:  # a name that no file can have
        raise StorageError(f"{location}: expected a file that can be opened, got {error}; open another path") from error
    if path.is_dir():
        raise StorageError(f"{location}: expected a file, got a folder; write {str(path / 'agent.db')!r}")
    if not path.parent.is_dir():
        raise StorageError(f"{location}: expected an existing folder, {path.parent} is none; create it first")
    if path.is_file() and 0 < path.stat().st_size < _SMALLEST:  # SQLite would take it for a new file
        raise StorageError(f"{location}: file is not a database{DAMAGED}")
    return not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK))


def switch_to_wal(db: sqlite3.Connection) -> None:
    """Let readers and a writer go on side by side from now on."""
    # Changing the journal mode does not wait for other openers as a transaction does, so the wait is here.
    # Where the file system has no shared memory the mode stays what it was: correct all the same, readers just wait.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                db.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return
