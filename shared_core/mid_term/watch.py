"""How a watched file or directory is recognised as unchanged. Looks at the file system; decides nothing else.

A mark is plain data, so that it can be stored beside a value and compared by another process.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

YOUNG_SECONDS: Final = 2.0
_MOST_HASHED: Final = 64 * 2**20
_MADE_UP: Final = 64 * 2**10
Mark = tuple[Any, ...]
Watch = tuple[tuple[str, str, Mark], ...]
"""(resource, absolute path, mark) of each watched resource."""


def watch(resources: Iterable[str], now: float, *, like: Watch | None = None) -> Watch:
    """Look at every resource as a path. OSError if a path that is there cannot be read.

    A path that is not there has a mark too: when it appears, the mark changes. ``like`` is an earlier look:
    a file whose content was hashed then is hashed again, however old it is now.
    """
    hashed = {path: mark for _, path, mark in like or ()}
    found = []
    for resource in resources:
        path = os.path.abspath(resource.removeprefix("file:"))  # noqa: PTH100  Path would follow no rule of ours here
        found.append((resource, path, _mark(path, now, hashed.get(path))))
    return tuple(found)


def still(before: Watch, now: float) -> Watch | None:
    """A new look if every watched resource is still what it was, at the same place; None if not, or unreadable."""
    try:
        after = watch((resource for resource, _, _ in before), now, like=before)
    except OSError:
        return None
    return after if same(before, after) else None


def same(before: Watch, after: Watch) -> bool:
    """Whether two looks, the second made ``like`` the first, saw the same."""
    return len(before) == len(after) and all(
        a[:2] == b[:2] and _agree(a[2], b[2]) for a, b in zip(before, after, strict=True)
    )


def _agree(before: Mark, after: Mark) -> bool:
    if before[0] != after[0] or before[0] == "absent":
        return bool(before[0] == after[0])
    if before[1] != after[1]:  # the facts from stat
        return False
    if before[0] == "file":
        return before[2] is None or after[2] is None or bool(before[2] == after[2])
    names = [entry[0] for entry in before[2]], [entry[0] for entry in after[2]]
    return names[0] == names[1] and all(_agree(a[1], b[1]) for a, b in zip(before[2], after[2], strict=True))


def _mark(path: str, now: float, before: Mark | None, *, inside: bool = False) -> Mark:
    """("absent",), ("file", facts, hash or None, young) or ("directory", facts, ((name, mark), …)).

    Facts are (mtime_ns, size, inode, device, ctime_ns): the change time sees what restoring the others hides.
    Times tick coarsely, so while a file is younger than two seconds an edit may leave all of them as they
    are: then the content is hashed, and once more at the first look after that. So is always a small file that
    takes no room on a disk: the system makes up its content when it is read (``/proc``) and its facts say nothing.
    What is too large to hash so soon cannot be told apart: OSError. A directory is marked by its entries with
    their own facts, one level deep, because editing a file does not touch the directory's time; of those none is
    opened that is empty or says so, as those that keep a reader waiting do (``/proc/kmsg``).
    """
    try:
        facts = os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return ("absent",)
    except OSError as error:
        if inside or error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            return ("absent",)
        raise
    seen = (facts.st_mtime_ns, facts.st_size, facts.st_ino, facts.st_dev, facts.st_ctime_ns)
    if stat.S_ISDIR(facts.st_mode) and not inside:
        held = dict(before[2]) if before is not None and before[0] == "directory" else {}
        names = sorted(os.listdir(path))  # noqa: PTH208
        entries = ((name, _mark(os.path.join(path, name), now, held.get(name), inside=True)) for name in names)  # noqa: PTH118
        return ("directory", seen, tuple(entries))
    known = before if before is not None and before[0] == "file" else None
    if not stat.S_ISREG(facts.st_mode) or (known is not None and known[1] != seen):  # the facts tell already
        return ("file", seen, None, False)
    young = now - max(facts.st_mtime, facts.st_ctime) < YOUNG_SECONDS
    made_up = getattr(facts, "st_blocks", 1) == 0
    unsure = young or (known is not None and known[3])
    if (unsure and facts.st_size > 0) if inside else (unsure or (made_up and facts.st_size <= _MADE_UP)):
        try:
            return ("file", seen, _content(path, facts.st_size, _MADE_UP if made_up else _MOST_HASHED), young)
        except OSError:
            if not inside:
                raise
    return ("file", seen, None, False)


def _content(path: str, size: int, most: int) -> str:
    if size > most:
        raise OSError(errno.EFBIG, "too large to be told apart by its content", path)
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
