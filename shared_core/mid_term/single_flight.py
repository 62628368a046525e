"""One execution for identical calls at the same moment, over threads, tasks and event loops. Stores nothing.

The first caller of a key leads: it executes. Callers that come meanwhile follow: they wait for the leader's
outcome, of one of the four kinds in ``flight.py``; what it holds is the caller's business.

- A coroutine leads in a task of its own, so cancelling one waiter disturbs no other; when the last waiter
  is cancelled, the task is cancelled too, and the next call starts afresh.
- A plain function led from a coroutine runs in a fresh thread, never in the loop's shared pool: followers
  that block there could otherwise take every thread the leader needs.
- A call made, directly or further down, by the execution it would wait for does not wait: it executes alone. It is
  known by its context, which tasks and ``asyncio.to_thread`` carry on.
  The same holds for two executions that would wait for each other, and for a blocking call on the leader's loop.
- A bare thread pool carries no context, and nothing tells a call that an execution makes through one from a
  stranger's: it would wait for its own caller for ever. So nobody waits without end: a flight that a follower has
  waited for in full is given up, and the next caller leads another beside it. To run twice is better than to hang.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import math
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from shared_core.forks import renew_in_child
from shared_core.mid_term.aside import in_thread
from shared_core.mid_term.flight import Again, Alone, Failed, Flight, Outcome, Value, reaches
from shared_core.records import MISS

_POLL_SECONDS: Final = 1.0


_led: contextvars.ContextVar[tuple[Flight, ...]] = contextvars.ContextVar("led_flights", default=())


class SingleFlight:
    """Flights by key. ``run`` and ``arun`` give (value, None) to the leader and (None, outcome) to the others.

    ``lead`` executes and returns (value for the leader, outcome for the followers); what it raises goes to
    the leader, and to the followers if it is an ``Exception``. A follower waits ``patience`` seconds at most, None
    for ever; ``given_up`` counts the flights that took longer.
    """

    def __init__(self, *, patience: float | None) -> None:
        self._lock = threading.Lock()
        self._flights: dict[str, Flight] = {}
        self._patience = patience
        self.given_up = 0
        renew_in_child(self)

    def after_fork_in_child(self) -> None:
        """Start with no flight: those of the parent land there, and nobody here would ever hear of it."""
        self._lock, self._flights = threading.Lock(), {}

    def __len__(self) -> int:
        return len(self._flights)

    def __bool__(self) -> bool:
        return True

    def serve(
        self, key: str, look: Callable[[], Any], lead: Callable[[], tuple[Any, Outcome]], take: Callable[[Any], Any]
    ) -> Any:
        """What a cached call does: look; else lead or follow. ``look`` and ``take`` answer ``MISS`` for nothing.

        ``take`` makes the follower's own value of what the leader shared.
        """
        while (value := look()) is MISS:
            value, outcome = self.run(key, lead)
            if outcome is None:
                return value
            value, outcome = _follow(outcome, take)
            if value is not MISS:
                return value
            if isinstance(outcome, Alone):
                return lead()[0]
        return value

    async def aserve(
        self,
        key: str,
        look: Callable[[], Awaitable[Any]],
        lead: Callable[[], Any],
        take: Callable[[Any], Any],
        *,
        hop: bool,
    ) -> Any:
        """``serve`` without blocking the loop; ``hop`` as in ``arun``."""
        while (value := await look()) is MISS:
            value, outcome = await self.arun(key, lead, hop=hop)
            if outcome is None:
                return value
            value, outcome = _follow(outcome, take)
            if value is not MISS:
                return value
            if isinstance(outcome, Alone):
                return (await (in_thread(lead) if hop else lead()))[0]
        return value

    def run(self, key: str, lead: Callable[[], tuple[Any, Outcome]]) -> tuple[Any, Outcome | None]:
        """Lead or follow, blocking."""
        flight, leads = self._board(key, _running_loop())
        if flight is None:
            return None, Alone()
        if leads:
            return self._lead(flight, lead), None
        try:
            for seconds in self._waits():
                try:
                    return None, flight.future.result(seconds)
                except TimeoutError:
                    if flight.stranded():
                        self._land(flight, Again())
            return None, self._give_up(flight)
        finally:
            self._leave(flight)

    async def arun(
        self,
        key: str,
        lead: Callable[[], Any],
        *,
        hop: bool,
    ) -> tuple[Any, Outcome | None]:
        """Lead or follow without blocking the loop. ``hop``: ``lead`` is a plain function, for a thread."""
        loop = asyncio.get_running_loop()
        flight, leads = self._board(key, None)
        if flight is None:
            return None, Alone()
        own: list[Any] = []
        if leads and hop:
            context = contextvars.copy_context()
            thread = threading.Thread(
                target=context.run, args=(self._lead_aside, flight, lead, own), name="tiered-memory-tool"
            )
            try:
                thread.start()
            except BaseException:  # no more threads: nobody executes, so nobody may wait for it
                self._land(flight, Again())
                raise
        elif leads:
            flight.loop = loop
            flight.task = loop.create_task(self._alead(flight, lead, own))
            flight.task.add_done_callback(lambda _: self._land(flight, Again()))
        landed = asyncio.wrap_future(flight.future)
        try:
            for seconds in itertools.repeat(_POLL_SECONDS) if leads else self._waits():
                if flight.future.done():
                    break
                await asyncio.wait({landed}, timeout=seconds)
                if flight.stranded():
                    self._land(flight, Again())
            if not flight.future.done():
                return None, self._give_up(flight)
        finally:
            landed.cancel()
            self._leave(flight)
        if not leads:
            return None, flight.future.result()
        if not own:  # its task was taken from it before it could begin
            return None, Again()
        error, value = own
        if error is not None:
            raise error
        return value, None

    # Boarding and leaving

    def _board(self, key: str, blocked_loop: asyncio.AbstractEventLoop | None) -> tuple[Flight | None, bool]:
        """The flight of the key and whether the caller leads it; None if the caller must not wait."""
        led = _led.get()
        with self._lock:
            flight = self._flights.get(key)
            if flight is not None and flight not in led and flight.stranded():
                self._forget(flight)
                flight.land(Again())
                flight = None
            if flight is None:
                flight = self._flights[key] = Flight(key, waiters=1)
                return flight, True
            if reaches(flight, led) or (blocked_loop is not None and flight.loop is blocked_loop):
                return None, False
            flight.waiters += 1
            for mine in led:
                mine.waits_for.append(flight)
            return flight, False

    def _leave(self, flight: Flight) -> None:
        task = None
        with self._lock:
            flight.waiters -= 1
            for mine in _led.get():
                if flight in mine.waits_for:
                    mine.waits_for.remove(flight)
            if flight.waiters == 0 and flight.task is not None and not flight.task.done():
                self._forget(flight)
                task = flight.task
        if task is not None and flight.loop is not None and not flight.loop.is_closed():
            flight.loop.call_soon_threadsafe(task.cancel)

    def _waits(self) -> Iterator[float]:
        """How long to wait, again and again, until patience ends."""
        left = math.inf if self._patience is None else self._patience
        while left > 0:
            yield min(left, _POLL_SECONDS)
            left -= _POLL_SECONDS

    def _give_up(self, flight: Flight) -> Outcome:
        """The flight goes on for those who still wait for it; whoever comes now, leads another."""
        with self._lock:
            if self._flights.get(flight.key) is flight:  # the first of its followers
                self.given_up += 1
                self._forget(flight)
        return Again()

    def _forget(self, flight: Flight) -> None:
        if self._flights.get(flight.key) is flight:
            del self._flights[flight.key]

    def _land(self, flight: Flight, outcome: Outcome) -> None:
        with self._lock:
            self._forget(flight)
            flight.land(outcome)

    # Leading

    def _lead(self, flight: Flight, lead: Callable[[], tuple[Any, Outcome]]) -> Any:
        outcome: Outcome = Again()
        token = _led.set((*_led.get(), flight))
        try:
            value, outcome = lead()
        except Exception as error:
            outcome = Failed(error)
            raise
        finally:
            _led.reset(token)
            self._land(flight, outcome)
        return value

    def _lead_aside(self, flight: Flight, lead: Callable[[], tuple[Any, Outcome]], own: list[Any]) -> None:
        def keep() -> tuple[Any, Outcome]:  # before it lands: whoever wakes up then finds the result
            try:
                value, outcome = lead()
            except BaseException as error:
                own.extend((error, None))
                raise
            own.extend((None, value))
            return value, outcome

        with contextlib.suppress(BaseException):  # carried to the caller, who raises it
            self._lead(flight, keep)

    async def _alead(self, flight: Flight, lead: Callable[[], Awaitable[tuple[Any, Outcome]]], own: list[Any]) -> None:
        outcome: Outcome = Again()
        _led.set((*_led.get(), flight))  # the task's own context
        try:
            value, outcome = await lead()
            own.extend((None, value))
        except Exception as error:  # noqa: BLE001  carried to every waiter, who raise it
            outcome = Failed(error)
            own.extend((error, None))
        except BaseException as error:
            own.extend((error, None))
            raise
        finally:
            self._land(flight, outcome)


def _follow(outcome: Outcome, take: Callable[[Any], Any]) -> tuple[Any, Outcome]:
    if isinstance(outcome, Failed):
        raise outcome.error
    if isinstance(outcome, Value):
        return take(outcome.shared), Alone()
    return MISS, outcome


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
