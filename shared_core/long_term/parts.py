"""A file that is written beside its place and moved there when it is whole. What a killed writer left goes with the next.

While a part is written its writer holds a lock on it (``flock``), which the system lets go when the writer is no
more: so a part that can be locked is nobody's. Where there is no such lock (Windows) parts are left alone.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

if sys.platform != "win32":
    import fcntl

_END = ".part"


@contextmanager
def part_of(target: Path) -> Iterator[TextIO]:
    """A new ASCII text file, which is ``target`` when the block ends; if it raises, what was there stays. OSError."""
    _remove_stale(target)
    handle, part = _new(target)
    with os.fdopen(handle, "w", encoding="ascii", newline="\n") as out:
        try:
            yield out
            out.flush()
            os.fsync(out.fileno())
            if sys.platform == "win32":  # it moves no open file
                out.close()
            part.replace(target)  # under the lock, or another writer might take it for stale
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise


def _new(target: Path) -> tuple[int, Path]:
    """A new part, open and locked."""
    while True:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=_END)
        if _is_locked(handle) and os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)  # another writer took it for stale before it was locked


def _is_locked(handle: int) -> bool:
    """Lock the open file, unless somebody else did: then False. Where no file can be locked it counts as locked."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _remove_stale(target: Path) -> None:
    """Remove the parts of this target that nobody writes any more. What cannot be looked at or removed stays."""
    if sys.platform == "win32":
        return
    name = re.compile(rf"\.{re.escape(target.name)}\.\w{{8}}{re.escape(_END)}")
    with suppress(OSError):
        for part in [one for one in target.parent.iterdir() if name.fullmatch(one.name)]:
            with suppress(OSError), os.fdopen(os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK), "rb+") as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()
