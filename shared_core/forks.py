"""What a forked process must not inherit: locks that another thread of the parent held. One list, no rules.

A thread that holds a lock does not exist in the child, so nobody there would ever give it back. Whoever has
locks says so with ``renew_in_child`` and is asked, in the child alone, to make its own. Connections, which
also have work to do before a fork, are in ``storage/sqlite/connection.py``.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Renewed(Protocol):
    """What holds locks, or results that only threads of the parent can bring."""

    def after_fork_in_child(self) -> None:
        """Make new locks, and let go of whatever another thread may have been changing."""


_renewed: weakref.WeakSet[Renewed] = weakref.WeakSet()


def renew_in_child(thing: Renewed) -> None:
    """Call ``thing.after_fork_in_child()`` in every forked child, as long as the thing lives."""
    _renewed.add(thing)


def _after_fork_in_child() -> None:
    for thing in list(_renewed):
        thing.after_fork_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_after_fork_in_child)
