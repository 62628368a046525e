"""What is handed around while a tool is called: the call, its execution, the kept result. Records only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from shared_core.mid_term import watch
from shared_core.mid_term.invalidation import Generations, Hold, Reach
from shared_core.mid_term.keys import argument_digests, call_name
from shared_core.mid_term.tools import Defaults, Policy
from shared_core.mid_term.values import Frozen


@dataclass(slots=True)
class Call:
    """One call that may be served: its key, what it hangs on, its policy; ``cause`` of the miss once there is one.

    ``args`` are complete, ``defaults`` those of the function, ``keyed`` names a call whose tool has a ``key=``.
    ``readable`` tells whether the caller can make anything of a kept value.
    """

    key: str
    reach: Reach
    policy: Policy
    args: Mapping[str, Any]
    defaults: Defaults
    keyed: str | None
    cause: str = "cold"
    readable: Callable[[Any], bool] | None = None

    def settle(self) -> None:
        """Say which call it is, for events: wanted before an execution, and by no hit."""
        if not self.reach.call:
            name = self.keyed or call_name(self.reach.tool, argument_digests(self.args))
            self.reach = replace(self.reach, call=name)

    def default_digests(self) -> dict[str, str]:
        """Those of the function's defaults that can be compared."""
        return default_digests(dict(self.defaults))


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


def default_digests(defaults: Mapping[str, Any]) -> dict[str, str]:
    """The digests of defaults, without those that cannot be compared: a call that has one is never kept."""
    found: dict[str, str] = {}
    for name, value in defaults.items():
        with contextlib.suppress(Exception):  # the value's own code runs here
            found |= argument_digests({name: value})
    return found
