"""One execution that others wait for: its outcome, and who waits for whom. Starts nothing and takes no lock."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Value:
    """It worked, and every follower may take ``shared`` (each makes its own copy)."""

    shared: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """It raised an Exception: every waiter raises it, nothing is kept, the next call tries again."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Again:
    """No outcome for others (stopped, or overtaken by a write): a follower asks anew."""


@dataclass(frozen=True, slots=True)
class Alone:
    """The value cannot be shared, or waiting would never end: the caller executes by itself."""


Outcome = Value | Failed | Again | Alone


@dataclass(slots=True, eq=False)
class Flight:
    """An execution under way: how many wait for it, which others it waits for, and the loop and task it runs in."""

    key: str
    future: Future[Outcome] = field(default_factory=Future)
    waiters: int = 0
    waits_for: list[Flight] = field(default_factory=list)
    loop: asyncio.AbstractEventLoop | None = None
    task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.future.set_running_or_notify_cancel()  # a cancelled waiter can no longer cancel it for all

    def stranded(self) -> bool:
        """Whether its task stands on a loop that nobody runs any more."""
        return self.loop is not None and not self.loop.is_running()

    def land(self, outcome: Outcome) -> None:
        """Tell everybody who waits; the first outcome counts."""
        if not self.future.done():
            self.future.set_result(outcome)


def reaches(flight: Flight, led: tuple[Flight, ...]) -> bool:
    """Whether the flight is one of ``led`` or waits, over any number of others, for one of them."""
    seen: set[int] = set()
    waiting = [flight]
    while waiting:
        found = waiting.pop()
        if found in led:
            return True
        if id(found) not in seen:
            seen.add(id(found))
            waiting.extend(found.waits_for)
    return False
