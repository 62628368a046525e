"""What SQLite's errors say to the user: what came, that nothing was written, and what to do. No statement is run here."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from shared_core.errors import InvalidInput, StorageError

BUSY_SECONDS = 60.0
"""How long a write waits for another process."""

DAMAGED = " (the file is damaged or no tiered-memory file; restore a copy, or open another path)"


ENOUGH_BYTES = 8 * 2**20
"""Free room with which every write of usual size goes through, and its log is emptied: twice what the log grows to."""

_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)  # a quota is the second


def is_full(error: BaseException | None) -> bool:
    """Whether SQLite found no room on the disk, for what it was to write or for the index of its log."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", None) in _FULL


@contextmanager
def translated(location: str, patience: float = BUSY_SECONDS) -> Iterator[None]:
    """SQLite's errors in the block as ours; ``patience`` is how many seconds it waited for a writer."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"expected text that UTF-8 can carry, got a lone surrogate at index {error.start}; "
            "replace it, for instance with text.encode('utf-8', 'replace').decode()"
        ) from error
    except UnicodeDecodeError as error:  # SQLite quotes a damaged schema, and Python cannot read the quotation
        raise StorageError(f"{location}: the schema is damaged{DAMAGED}") from error
    except sqlite3.Error as error:
        raise StorageError(
            f"{location}: {error}; nothing was written by this call{_advice(error, patience)}"
        ) from error


def _advice(error: sqlite3.Error, patience: float) -> str:
    text = str(error)
    if "locked" in text or "busy" in text:
        return f" (another process held the file for {patience:g} s)"
    if is_full(error):
        return (
            f" (no room on the disk: free some disk space and try again, {ENOUGH_BYTES // 2**20} MiB are enough for usual "
            "writes; forget(…) has room kept for it, and makes room in the file)"
        )
    if "not a database" in text or "malformed" in text:
        return DAMAGED
    return ""
