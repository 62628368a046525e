"""How a tool is called once it is clear which call it is: served, executed and kept, or executed always.

Plain and async side by side; which call it is and what the user may say is ``tool_cache.py``, what is kept
``tool_entries.py``, who executes when many ask at once ``single_flight.py``.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shared_core.mid_term import tools
from shared_core.mid_term.aside import awaited, in_thread
from shared_core.mid_term.flight import Again, Outcome
from shared_core.mid_term.single_flight import SingleFlight
from shared_core.mid_term.tool_counts import ToolCounts
from shared_core.mid_term.tool_entries import ToolEntries
from shared_core.mid_term.tool_entry import Attempt, Call
from shared_core.mid_term.tools import Event, Policy
from shared_core.mid_term.values import Uncached
from shared_core.records import MISS


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call as it was made: the arguments in full, the space it may touch."""

    name: str
    policy: Policy
    args: dict[str, Any]
    space: str


class ToolCalls:
    """Runs calls on the entries and counts what is not kept. All methods are thread-safe."""

    def __init__(self, entries: ToolEntries, counts: ToolCounts, *, patience: float | None) -> None:
        self._entries = entries
        self._counts = counts
        self._flights = SingleFlight(patience=patience)
        self._closed = False

    def close(self) -> None:
        """From now on everything is executed."""
        self._closed = True

    @property
    def given_up(self) -> int:
        """Executions that took longer than anybody waits for one."""
        return self._flights.given_up

    def run(self, prepared: Prepared, call: Call | None, run: Callable[[], Any]) -> Any:
        """The kept value, or what ``run()`` gives; without a call it is run whatever is kept."""
        if self._closed:
            return self._alone(run)
        if call is None:
            return self._bypass(prepared, run)

        def lead() -> tuple[Any, Outcome]:
            return self._lead(call, run)

        return self._flights.serve(call.key, lambda: self._entries.look(call), lead, self._entries.joined)

    def _lead(self, call: Call, run: Callable[[], Any]) -> tuple[Any, Outcome]:
        found = self._entries.look(call)  # an execution may have ended since the caller looked
        if found is not MISS:
            return found, Again()
        attempt = self._entries.begin(call)
        try:
            value = run()
        except BaseException:
            self._entries.raised(call, attempt)
            raise
        return self._entries.finish(call, attempt, value)

    async def arun(self, prepared: Prepared, call: Call | None, run: Callable[[], Any], *, hop: bool) -> Any:
        """``run`` without blocking the loop; ``hop``: ``run()`` is a plain function, for a thread."""
        if self._closed:
            return _open(await awaited(await in_thread(self._alone, run) if hop else self._alone(run)))
        if call is None:
            return await self._abypass(prepared, run, hop=hop)
        disk = self._entries.shared or bool(call.reach.resources)

        async def look() -> Any:
            return await self._aside(disk, self._entries.look, call)

        async def alead() -> tuple[Any, Outcome]:
            found = await look()
            if found is not MISS:
                return found, Again()
            attempt = await self._begun(call, disk=disk)
            try:
                value = await awaited(run())
            except BaseException:
                self._entries.raised(call, attempt)
                raise
            kept: tuple[Any, Outcome] = await self._aside(disk, self._entries.finish, call, attempt, value)
            return kept

        lead: Callable[[], Any] = (lambda: self._lead(call, run)) if hop else alead
        return await awaited(await self._flights.aserve(call.key, look, lead, self._entries.joined, hop=hop))

    async def _begun(self, call: Call, *, disk: bool) -> Attempt:
        """The attempt; if the caller is cancelled while a thread makes it, its hold is given back when it is made."""
        making = asyncio.ensure_future(self._aside(disk, self._entries.begin, call))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(functools.partial(self._given_back, call))
            raise

    def _given_back(self, call: Call, making: asyncio.Future[Attempt]) -> None:
        if not making.cancelled() and making.exception() is None:
            self._entries.abort(call, making.result())

    @staticmethod
    async def _aside(disk: bool, fn: Callable[..., Any], *args: Any) -> Any:
        """In a thread if the work touches the disk. A fresh one: see ``single_flight``."""
        return await in_thread(fn, *args) if disk else fn(*args)

    # Executed always

    def _alone(self, run: Callable[[], Any]) -> Any:
        self._counts.after_close()
        return _open(run())

    def _bypass(self, prepared: Prepared, run: Callable[[], Any]) -> Any:
        event = self._event(prepared)
        self._end_shared(event)
        try:
            return _open(run())
        finally:
            self._end(event, prepared)
            self._end_shared(event)

    async def _abypass(self, prepared: Prepared, run: Callable[[], Any], *, hop: bool) -> Any:
        if hop:  # whole in the thread: a cancelled caller does not stop it, and the event comes when it has ended
            value = await in_thread(self._bypass, prepared, run)
            if not inspect.iscoroutine(value):
                return value
        event = self._event(prepared)
        await self._aside(event is not None, self._end_shared, event)
        try:
            return _open(await awaited(value if hop else run()))
        finally:
            self._end(event, prepared)
            await self._aside(event is not None, self._end_shared, event)

    def _event(self, prepared: Prepared) -> Event | None:
        """Count an execution that is not kept; the event it causes."""
        if prepared.policy.kept:
            self._entries.uncacheable()
            return None
        self._counts.bypassed(prepared.name)
        return tools.event_of(prepared.policy, prepared.args, prepared.space)

    def _end(self, event: Event | None, prepared: Prepared) -> None:
        if event is not None:
            ended = self._entries.end(event.kind, event.texts, space=event.space)
            if ended and prepared.policy is tools.UNKNOWN:
                self._counts.made_stale(prepared.name, ended)

    def _end_shared(self, event: Event | None) -> None:
        """Before and after an execution: a process that dies in between has invalidated all the same."""
        if event is not None:
            self._entries.others.end(event.kind, event.texts, space=event.space)


def _open(value: Any) -> Any:
    return value.value if isinstance(value, Uncached) else value
