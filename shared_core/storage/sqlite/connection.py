"""Connections: who may read and write when. The one place that opens, locks, begins and rolls back.

Which path may be opened at all is in ``place.py``, what an error of SQLite says to the user in ``failures.py``.

Readers take a connection of their own from a pool and are never held up by a writer (WAL). Writers
queue on one lock in the process and on ``BEGIN IMMEDIATE`` between processes. ``":memory:"`` is one
connection, used by one thread at a time. SQLite must not be carried over a fork: before one, readers
and writers come to their end and all connections are closed, and both sides open their own again.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from shared_core.errors import Closed, StorageError
from shared_core.storage.sqlite import schema
from shared_core.storage.sqlite.failures import BUSY_SECONDS, is_full, translated
from shared_core.storage.sqlite.full_disk import Reserve
from shared_core.storage.sqlite.place import check_place, switch_to_wal

_FORK_SECONDS = 5.0  # how long a fork waits for reads under way; SQLite's own locks must be free in the child


class Connections:
    """The connections to one database. ``location`` is a path or ``":memory:"``."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.in_memory = location == ":memory:"
        self.read_only = False
        self._immutable = False
        self._lock = threading.RLock()
        self._count_lock = threading.Lock()
        self._quiet = threading.Condition(self._count_lock)
        self._reading = 0
        self._forking = False
        self._unreadable = 0
        self._idle: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        self._forked = False
        self._closed = False
        self.reserve = Reserve(location)
        self._open_first()
        _open.add(self)

    @property
    def unreadable(self) -> int:
        """How many rows could not be read so far."""
        return self._unreadable

    def count_unreadable(self) -> None:
        """Count one row that could not be read."""
        with self._count_lock:
            self._unreadable += 1

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one consistent state from its first statement to the end of the block."""
        self._check_usable()
        if self.in_memory:
            with self._lock, translated(self.location):
                yield self._own_writer()
            return
        with translated(self.location), self._counted_reading():
            db = self._take()
            try:
                db.execute("BEGIN")
                yield db
            finally:
                try:
                    if db.in_transaction:
                        db.execute("COMMIT")
                except BaseException:  # a damaged file may fail even that: the connection must not be lost
                    db.close()
                    raise
                self._give(db)

    @contextmanager
    def write(self, *, wait: bool | float = True, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction: committed and durable when the block ends, rolled back if it raises.

        ``wait`` is how many seconds it may take for another writer to end before StorageError (False: none; True:
        ``BUSY_SECONDS``, and as long as it takes for a thread of this process). ``durable`` False is for what
        can be computed again: a crash of the process loses nothing, a power failure the last such writes
        (never their consistency), and no write waits for the disk.
        """
        self._check_usable()
        patience = BUSY_SECONDS if wait is True else float(wait)
        with self._alone(wait), translated(self.location, patience):
            if self.read_only:
                raise StorageError(
                    f"{self.location}: expected a file that can be written, but it or its folder is read-only; "
                    "open a copy elsewhere, or change its permissions"
                )
            db = self._own_writer()
            if not durable:
                db.execute("PRAGMA synchronous = NORMAL")
            if wait is not True:
                db.execute("PRAGMA busy_timeout = 0")
            try:
                _begin(db, time.monotonic() + (0.0 if wait is True else patience))
            finally:
                if wait is not True:
                    db.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
            try:
                yield db
                db.execute("COMMIT") if self.in_memory else self.reserve.commit(db)
            except BaseException as error:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                if is_full(error):
                    self.wipe()  # what the log holds back may be room enough for the next try
                raise
            finally:
                if not durable:
                    db.execute("PRAGMA synchronous = FULL")

    @contextmanager
    def _alone(self, wait: bool | float) -> Iterator[None]:
        """No other thread of this process writes in the block; ``wait`` as in ``write``."""
        if not (self._lock.acquire() if wait is True else self._lock.acquire(timeout=float(wait))):
            raise StorageError(f"{self.location}: another thread is writing; try again later")
        try:
            yield
        finally:
            self._lock.release()

    def wipe(self) -> None:
        """Empty the write-ahead log, where erased text would lie on. If others are at work the last close does it."""
        if self.in_memory or self.read_only:
            return
        self._check_usable()
        with self._lock, suppress(sqlite3.Error):
            db = self._own_writer()
            db.execute("PRAGMA busy_timeout = 0")
            try:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                db.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")

    def compact(self) -> None:
        """Give the room that erased rows left back to the disk. If others are at work, or the disk is full, it stays."""
        if self.in_memory or self.read_only:
            return
        self._check_usable()
        with self._lock, suppress(sqlite3.Error):
            db = self._own_writer()
            db.execute("PRAGMA temp_store = DEFAULT")  # the copy that it makes may be larger than the memory
            db.execute("VACUUM")
        self.wipe()

    @contextmanager
    def make_room(self, *, wait: bool | float) -> Iterator[None]:
        """Give up the reserve and empty the log; in the block, no other thread writes, and nothing is set aside in files."""
        with self._alone(wait):
            self.reserve.give_up()
            self.wipe()
            with translated(self.location):
                self._own_writer().execute("PRAGMA temp_store = MEMORY")
            yield

    def close(self) -> None:
        """Close all connections; later use raises Closed."""
        with self._lock:
            self._closed = True
            self._close_idle()
            if not self.in_memory and not self.read_only:
                self.reserve.put_away()

    def _close_idle(self) -> None:
        """Close what nobody uses at this moment; ``_lock`` is held, so nobody uses the writer."""
        with self._count_lock:
            idle, self._idle = self._idle, []
        if self._writer is not None:
            idle.append(self._writer)
            self._writer = None
        for db in idle:
            db.close()

    @contextmanager
    def _counted_reading(self) -> Iterator[None]:
        with self._quiet:
            while self._forking:
                self._quiet.wait()
            self._reading += 1
        try:
            yield
        finally:
            with self._quiet:
                self._reading -= 1
                self._quiet.notify_all()

    def before_fork(self) -> None:
        """Close all connections: a child must not inherit what SQLite knows of this process's locks, nor a held one."""
        self._lock.acquire()
        with self._quiet:
            self._forking = True
            self._quiet.wait_for(lambda: not self._reading, _FORK_SECONDS)
        if not self.in_memory:
            self._close_idle()

    def after_fork_in_parent(self) -> None:
        """Go on as before."""
        with self._quiet:
            self._forking = False
            self._quiet.notify_all()
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Start with locks of our own. A read that another thread was in the middle of is not ours to close."""
        self._lock, self._count_lock = threading.RLock(), threading.Lock()
        self._quiet = threading.Condition(self._count_lock)
        self._reading, self._forking, self._forked = 0, False, True

    def _open_first(self) -> None:
        with translated(self.location):
            if not self.in_memory:
                self.read_only = check_place(self.location)
            try:
                db = self._checked()
            except sqlite3.OperationalError as error:
                if is_full(error) and self.reserve.give_up():  # even to read takes room, for the log's index
                    db = self._checked()
                elif self.read_only and Path(self.location).exists() and not Path(f"{self.location}-wal").exists():
                    self._immutable = True  # a WAL file in a read-only folder, and no writer to mind
                    db = self._checked()
                else:
                    raise
            if self.read_only:
                self._idle.append(db)
                return
            self._writer = db
            try:
                if not self.in_memory:
                    switch_to_wal(db)
                schema.migrate(db)
            except BaseException:
                self.close()
                raise
            if not self.in_memory:
                self.reserve.keep()

    def _checked(self) -> sqlite3.Connection:
        """A first connection to a file that is ours to open."""
        db = self._connect()
        try:
            schema.check_version(db, self.location, read_only=self.read_only)
        except BaseException:
            db.close()
            raise
        return db

    def _connect(self) -> sqlite3.Connection:
        if self.in_memory:
            target = ":memory:"
        else:
            mode = "immutable=1" if self._immutable else ("mode=ro" if self.read_only else "mode=rwc")
            target = f"file:{quote(str(Path(self.location).absolute()))}?{mode}"
        db = sqlite3.connect(
            target, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=not self.in_memory
        )
        # Bytes that are no UTF-8 must not fail a whole query: they come out as surrogates, and the row is then unreadable.
        db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        try:
            db.execute("PRAGMA foreign_keys = ON")
            db.execute("PRAGMA secure_delete = ON")  # what is forgotten does not stay in free pages
            db.execute("PRAGMA synchronous = FULL")
        except BaseException:
            db.close()
            raise
        return db

    def _own_writer(self) -> sqlite3.Connection:
        self._check_usable()
        if self._writer is None:
            self._writer = self._connect()
        return self._writer

    def _take(self) -> sqlite3.Connection:
        self._check_usable()
        with self._count_lock:
            db = self._idle.pop() if self._idle else None
        return db if db is not None else self._connect()

    def _give(self, db: sqlite3.Connection) -> None:
        with self._count_lock:
            if not self._closed:
                self._idle.append(db)
                return
        db.close()

    def _check_usable(self) -> None:
        if self._closed:
            raise Closed(f"{self.location}: this memory was closed; open it again with TieredMemory.open(…)")
        if self._forked and self.in_memory:
            raise StorageError("an in-memory store cannot be used after a fork; open a file instead")


_open: weakref.WeakSet[Connections] = weakref.WeakSet()
_forking: list[Connections] = []


def _before_fork() -> None:
    _forking[:] = list(_open)
    for connections in _forking:
        connections.before_fork()


def _after_fork_in_parent() -> None:
    while _forking:
        _forking.pop().after_fork_in_parent()


def _after_fork_in_child() -> None:
    while _forking:
        _forking.pop().after_fork_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def _begin(db: sqlite3.Connection, deadline: float) -> None:
    """Begin to write; while another does, try again until the deadline (``time.monotonic``)."""
    while True:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(0.005)
        else:
            return
