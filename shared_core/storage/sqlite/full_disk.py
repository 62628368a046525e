"""A disk without room: to erase is to write first, so a little room is kept aside for it. No statement on rows here.

SQLite writes a deletion to its log before it gives any room back, and needs room for the log's index before it
even reads. So a file of ``RESERVE_BYTES`` stands beside the memory, and is given up when one of the two fails.
Then the log is emptied after every few rows, so that erasing much takes no more room than erasing little.

The log can be emptied only if the file can grow by the pages that are new in it. So on a disk that may soon be full, what
the file has to grow by is kept below half of the reserve: after a larger write the log is emptied at once, and a
write after which that could not be done is refused.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from shared_core.errors import StorageError
from shared_core.storage.sqlite.failures import ENOUGH_BYTES, is_full

if TYPE_CHECKING:
    from shared_core.storage.sqlite.connection import Connections

T = TypeVar("T")

RESERVE_BYTES = 2**19
"""What is kept: the log of a few memories of usual length, their vectors zeroed, and of all pages on the way to them."""

MOST_GROWTH = RESERVE_BYTES // 2
"""Bytes by which the file may have to grow when the log is emptied."""

_AMPLE = 2**28
"""Bytes free on a disk that no other program fills between two writes of ours."""

ALL = -1
"""How many rows a step erases where there is room: SQL's LIMIT for no limit."""

_PIECES = (256, 32, 4, 1)  # rows of a step; fewer when even that many do not fit
_SMALLEST = 2**16  # bytes; less is no help
_HEAD = b"Room on the disk that tiered-memory keeps, to forget something when the disk is full. It may be deleted.\n"


class Reserve:
    """The file that keeps room beside the memory at ``location``. Where it cannot be kept, a full disk is full."""

    def __init__(self, location: str) -> None:
        self._database = Path(location).absolute()
        self._path = Path(f"{self._database}-reserve")
        self._log = Path(f"{self._database}-wal")
        self._name, self._page_bytes = str(self._database), 0

    def keep(self) -> None:
        """Take up to ``RESERVE_BYTES``, but never more than half of what is free: the rest is for the log."""
        with suppress(OSError):
            held = self._path.stat().st_size if self._path.exists() else 0
            if held >= RESERVE_BYTES:
                return
            size = min(RESERVE_BYTES, (shutil.disk_usage(self._path.parent).free + held) // 2)
            if size >= max(_SMALLEST, held) and (self._is_ours() or not self._path.exists()):
                try:
                    self._take(size)
                except OSError:
                    self.give_up()

    def commit(self, db: sqlite3.Connection) -> None:
        """Commit so that the log can be emptied later on. StorageError, and no commit, if there is no room for that."""
        growth = self._growth(db)
        free = self._free() if growth > MOST_GROWTH else None
        tight = free is not None and free < _AMPLE
        if free is not None and tight:
            self._check_room(growth, free)
        db.execute("COMMIT")
        if tight:
            with suppress(sqlite3.Error):
                db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _growth(self, db: sqlite3.Connection) -> int:
        """Bytes that the file will have to grow by, with what the transaction under way has written."""
        if not self._page_bytes:
            self._page_bytes = int(db.execute("PRAGMA page_size").fetchone()[0])
        try:
            held = os.stat(self._name).st_size  # noqa: PTH116 - once a write, and ten times as fast as a Path's
        except OSError:  # it was moved: nothing can be told
            return 0
        return int(db.execute("PRAGMA page_count").fetchone()[0]) * self._page_bytes - held

    def _free(self) -> int | None:
        """Bytes free on the disk; None if that cannot be told."""
        try:
            return shutil.disk_usage(self._database.parent).free
        except OSError:
            return None

    def _check_room(self, growth: int, free: int) -> None:
        """Raise if the disk has no room for so much twice, in the log and then in the file."""
        try:
            log = self._log.stat().st_size
        except OSError:
            return
        if log + free < 2 * growth:
            raise StorageError(
                f"{self._database}: the disk has no room for so much at once: {free} bytes are free, {2 * growth - log} are "
                "needed; nothing was written by this call: write less in one call, or free some disk space"
            )

    def give_up(self) -> bool:
        """Give the room back to the disk; False if there was none."""
        try:
            if self._is_ours():
                self._path.unlink()
                return True
        except OSError:
            pass
        return False

    def put_away(self) -> None:
        """The memory was closed: give the room back, unless others have it open, or the next opening may need it."""
        if not self._log.exists() and (self._free() or 0) >= ENOUGH_BYTES:
            self.give_up()

    def _is_ours(self) -> bool:
        """Whether the file is one that ``_take`` made or began: a file of that name may be anybody's."""
        if not self._path.is_file():
            return False
        with self._path.open("rb") as read:
            return _HEAD.startswith(read.read(len(_HEAD)))

    def _take(self, size: int) -> None:
        with self._path.open("ab") as out:
            if out.tell() < len(_HEAD):
                out.write(_HEAD[out.tell() :])
                out.flush()
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(out.fileno(), 0, size)
            else:  # bytes that no file system can store in fewer
                out.write(os.urandom(size - out.tell()))


def with_room(connections: Connections, work: Callable[[sqlite3.Connection], T], *, wait: bool | float = True) -> T:
    """Do ``work`` in a durable transaction, on a full disk with the room that was kept."""
    try:
        with connections.write(wait=wait) as db:
            return work(db)
    except StorageError as error:
        if not is_full(error.__cause__):
            raise
    with _room_made(connections, wait), connections.write(wait=wait) as db:
        return work(db)


def erase(
    connections: Connections,
    some: Callable[[sqlite3.Connection, int], T],
    *,
    wait: bool | float = True,
    durable: bool = True,
) -> list[T]:
    """Erase in one transaction: ``some(db, ALL)``. On a full disk in many: ``some(db, n)`` until it finds nothing.

    ``some`` erases at most ``n`` rows (of each kind) and returns what it did, which is false if there was
    nothing. Returns the results. A failure on a full disk leaves what was erased so far erased.
    """
    try:
        with connections.write(wait=wait, durable=durable) as db:
            return [some(db, ALL)]
    except StorageError as error:
        if not is_full(error.__cause__):
            raise
    with _room_made(connections, wait):
        return list(_piece_by_piece(connections, some, wait=wait))


def _piece_by_piece(
    connections: Connections, some: Callable[[sqlite3.Connection, int], T], *, wait: bool | float
) -> Iterator[T]:
    sizes = iter(_PIECES)
    most = next(sizes)
    while True:
        try:
            with connections.write(wait=wait) as db:
                found = some(db, most)
        except StorageError as error:
            if not is_full(error.__cause__):
                raise
            if most == _PIECES[-1]:
                raise StorageError(
                    f"{connections.location}: the disk is full, and the room that was kept to erase something is used "
                    f"up: free {ENOUGH_BYTES // 2**20} MiB on it, in another place, and call again; what was erased so "
                    "far stays erased"
                ) from error.__cause__
            most = next(sizes)
            continue
        finally:
            connections.wipe()
        if not found:
            return
        yield found


@contextmanager
def _room_made(connections: Connections, wait: bool | float) -> Iterator[None]:
    """Give the reserve up for the block, in which no other thread of this process writes."""
    with connections.make_room(wait=wait):
        try:
            yield
        finally:
            connections.wipe()
            connections.reserve.keep()
