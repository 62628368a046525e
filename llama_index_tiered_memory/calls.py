"""How a call of a model is led through ``memory.responses``: whole or as a stream, sync or async. No rules, no types.

A request is made by a function, and what it raises, like any failure of the cache, leaves the call to the model.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

from llama_index_tiered_memory import events
from llama_index_tiered_memory.answers import Recording, replayed
from llama_index_tiered_memory.attach import Scope, scope_for
from shared_core import MISS, InvalidInput, TieredMemory

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that may be served: its plain dict, whose it is, and the model's name for the events."""

    request: dict[str, Any]
    scope: str
    name: str


@dataclass(frozen=True, slots=True)
class Calls:
    """Leads calls through the responses of one memory. ScopeRequired where the scope function gives None."""

    memory: TieredMemory
    scope: Scope

    def asked(self, request: Callable[[], dict[str, Any]], name: str) -> Asked | None:
        """The request, or None if it cannot be compared: then the model answers, and nothing is kept."""
        scope = scope_for(self.memory, self.scope)
        try:
            return Asked(request(), scope, name)
        except Exception as error:  # noqa: BLE001  a message's or a tool's own code may run here
            _failed("request", error)
            events.missed("responses", name, scope)
            return None

    def whole(self, asked: Asked | None, run: Callable[[], Any]) -> Any:
        """The kept answer, or that of ``run``; equal calls at the same time make one."""
        if asked is None:
            return run()
        own: list[Any] = []

        def execute() -> Any:
            own.append(run())
            return _recorded(own[0])

        found = self.memory.responses.call(asked.request, execute, scope=asked.scope)
        answer = self._given(asked, own, found)
        if answer is None:
            answer = run()
            self._keep(asked, _heard(Recording(), answer))
        return answer

    async def awhole(self, asked: Asked | None, run: Callable[[], Awaitable[Any]]) -> Any:
        """``whole``, without blocking the loop."""
        if asked is None:
            return await run()
        own: list[Any] = []

        async def execute() -> Any:
            own.append(await run())
            return _recorded(own[0])

        found = await self.memory.responses.acall(asked.request, execute, scope=asked.scope)
        answer = self._given(asked, own, found)
        if answer is None:
            answer = await run()
            await asyncio.to_thread(self._keep, asked, _heard(Recording(), answer))
        return answer

    def stream(self, asked: Asked | None, run: Callable[[], Any]) -> Generator[Any, None, None]:
        """The chunks of the kept stream, or those of ``run()``, kept when they have been read to the end."""
        chunks = self._kept(asked)
        return _replay(chunks) if chunks is not None else self._passed(asked, run())

    async def astream(self, asked: Asked | None, run: Callable[[], Awaitable[Any]]) -> AsyncGenerator[Any, None]:
        """``stream``, without blocking the loop."""
        chunks = await asyncio.to_thread(self._kept, asked)
        return _areplay(chunks) if chunks is not None else self._apassed(asked, await run())

    def _given(self, asked: Asked, own: list[Any], found: Any) -> Any:
        if own:
            events.missed("responses", asked.name, asked.scope)
            events.made_room("responses", self.memory)
            return own[0]
        chunks = _read(found)
        if chunks is None:
            events.missed("responses", asked.name, asked.scope)
            return None
        events.hit("responses", asked.name, asked.scope, found["cache"])
        return next(chunks)

    def _kept(self, asked: Asked | None) -> Iterator[Any] | None:
        if asked is None:
            return None
        try:
            found = self.memory.responses.get(asked.request, scope=asked.scope)
        except Exception as error:  # noqa: BLE001  a cache that raises would fail the caller's model call
            _failed("lookup", error)
            return None
        chunks = None if found is MISS else _read(found)
        if chunks is None:
            events.missed("responses", asked.name, asked.scope)
        else:
            events.hit("responses", asked.name, asked.scope, found["cache"])
        return chunks

    def _passed(self, asked: Asked | None, stream: Any) -> Generator[Any, None, None]:
        recording = Recording() if asked is not None else None
        try:
            for chunk in stream:
                recording = _heard(recording, chunk)
                yield chunk
        finally:
            close = getattr(stream, "close", None)
            if close is not None:
                close()
        self._keep(asked, recording)

    async def _apassed(self, asked: Asked | None, stream: Any) -> AsyncGenerator[Any, None]:
        recording = Recording() if asked is not None else None
        try:
            async for chunk in stream:
                recording = _heard(recording, chunk)
                yield chunk
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        await asyncio.to_thread(self._keep, asked, recording)

    def _keep(self, asked: Asked | None, recording: Recording | None) -> None:
        if asked is None or recording is None:
            return
        try:
            self.memory.responses.put(asked.request, recording.response(), scope=asked.scope)
        except Exception as error:  # noqa: BLE001  the answer is paid for and was heard
            _failed("update", error)
        events.made_room("responses", self.memory)


def _recorded(answer: Any) -> dict[str, Any] | None:
    """The answer for the core; None, which it does not keep, if it would not come back equal."""
    recording = _heard(Recording(), answer)
    return recording.response() if recording is not None else None


def _heard(recording: Recording | None, chunk: Any) -> Recording | None:
    """The recording with the chunk, or None from the first chunk on that cannot be kept."""
    if recording is None:
        return None
    try:
        recording.add(chunk)
    except Exception as error:  # noqa: BLE001  the chunk's own code may run here
        _failed("update", error)
        return None
    return recording


def _read(found: Any) -> Iterator[Any] | None:
    """The chunks of a served response, made once to see that they can be; None if they cannot."""
    try:
        for _ in replayed(found):
            pass
        return replayed(found)
    except Exception as error:  # noqa: BLE001  a row another release wrote: the model answers
        _failed("lookup", error)
        return None


def _replay(chunks: Iterator[Any]) -> Generator[Any, None, None]:
    yield from chunks


async def _areplay(chunks: Iterator[Any]) -> AsyncGenerator[Any, None]:
    for chunk in chunks:
        yield chunk


def _failed(what: str, error: Exception) -> None:
    level = logging.INFO if isinstance(error, InvalidInput) else logging.WARNING
    _log.log(level, "model cache: %s failed, the model answers itself: %s", what, error)
