"""A writer that holds a file and does not come to its end."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONG = 30.0  # seconds after which the writer lets go, so that a call that waits for it fails the test and not for ever


@contextmanager
def stalled(path: Path) -> Iterator[None]:
    """Hold the write lock for the length of the block; the block must end before it has to be let go."""
    held, done, in_time = threading.Event(), threading.Event(), list[bool]()

    def hold() -> None:
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        held.set()
        in_time.append(done.wait(LONG))
        db.execute("ROLLBACK")
        db.close()

    writer = threading.Thread(target=hold)
    writer.start()
    held.wait(LONG)
    try:
        yield
    finally:
        done.set()
        writer.join()
    assert in_time == [True]
