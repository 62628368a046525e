"""What is handed around while a tool is called: the call, its execution, the kept result. Records only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shared_core.mid_term import watch
from shared_core.mid_term.invalidation import Generations, Hold, Reach
from shared_core.mid_term.tools import Policy
from shared_core.mid_term.values import Frozen


@dataclass(slots=True)
class Call:
    """One call that may be served: its key, what it hangs on, its policy; ``cause`` of the miss once there is one.

    ``readable`` tells whether the caller can make anything of a kept value.
    """

    key: str
    reach: Reach
    policy: Policy
    cause: str = "cold"
    readable: Callable[[Any], bool] | None = None


@dataclass(slots=True, eq=False)
class Entry:
    """A kept result. Times in epoch seconds; ``seconds`` is what its execution took; ``size`` in bytes."""

    frozen: Frozen
    size: int
    created: float
    seconds: float
    reach: Reach
    hold: Hold
    watched: watch.Watch
    stamps: tuple[int, ...]
    stored: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """An execution under way. ``watched`` or ``stamps`` None: what it sees cannot be told, so nothing is kept."""

    started: float
    generations: Generations
    hold: Hold
    watched: watch.Watch | None
    stamps: tuple[int, ...] | None
