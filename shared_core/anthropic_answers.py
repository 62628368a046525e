"""What the ``anthropic`` SDK answers with, passed on as it is while the usage in it is noted once.

Each class wraps one kind of answer: a stream of events, the manager of a stream, a raw response and its manager. Nothing
is planned here, and the SDK is not imported: the answers are known by what they can do.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Self

Record = Callable[[Any], None]


def watched(answer: Any, record: Record) -> Any:
    """An answer whose usage is recorded: now if it is a message, when its first event passes if it is a stream."""
    if hasattr(answer, "usage"):
        record(answer.usage)
        return answer
    return Events(answer, record)


class Events:
    """The SDK's stream; the usage of its first event, which holds the whole prompt's, is recorded in passing."""

    def __init__(self, stream: Any, record: Callable[[Any], None]) -> None:
        self._stream, self._record = stream, record

    def _pass(self, event: Any) -> Any:
        if getattr(event, "type", None) == "message_start":
            self._record(event.message.usage)
        return event

    def __iter__(self) -> Iterator[Any]:
        return (self._pass(event) for event in self._stream)

    def __next__(self) -> Any:
        return self._pass(next(self._stream))

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for event in self._stream:
            yield self._pass(event)

    async def __anext__(self) -> Any:
        return self._pass(await anext(self._stream))

    def __enter__(self) -> Self:
        self._stream.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.__exit__(*error)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.__aexit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class StreamManager:
    """The SDK's stream manager; what the stream had seen of the usage when it is left is recorded."""

    def __init__(self, manager: Any, record: Callable[[Any], None]) -> None:
        self._manager, self._record = manager, record
        self._stream: Any = None

    def __enter__(self) -> Any:
        self._stream = self._manager.__enter__()
        return self._stream

    def __exit__(self, *error: object) -> None:
        try:
            self._seen()
        finally:
            self._manager.__exit__(*error)

    async def __aenter__(self) -> Any:
        self._stream = await self._manager.__aenter__()
        return self._stream

    async def __aexit__(self, *error: object) -> None:
        try:
            self._seen()
        finally:
            await self._manager.__aexit__(*error)

    def _seen(self) -> None:
        try:
            snapshot = self._stream.current_message_snapshot
        except (AssertionError, AttributeError):
            return  # left before the first event: nothing is known of the usage
        self._record(getattr(snapshot, "usage", None))


class RawResponse:
    """The SDK's raw response; the usage is recorded when it is parsed, read whole, or its events pass.

    Who iterates over its bytes or lines instead (``iter_bytes``, ``iter_text``, ``iter_lines``), or reads an event stream
    whole, gets them untouched and nothing is recorded: what is in them is not looked into.
    """

    def __init__(self, response: Any, record: Record) -> None:
        self._response = response
        self._once: Record | None = record

    def parse(self, **to: Any) -> Any:
        """``parse``; with the asynchronous client, a coroutine."""
        return self._then(self._response.parse(**to), self._parsed)

    def read(self) -> Any:
        """``read``."""
        return self._then(self._response.read(), self._read)

    def text(self) -> Any:
        """``text``."""
        return self._then(self._response.text(), self._read)

    def json(self) -> Any:
        """``json``."""
        return self._then(self._response.json(), self._read)

    def note(self) -> Any:
        """Record the usage of a response whose body has arrived; with the asynchronous client, a coroutine."""
        return self._then(self._response.parse(), lambda parsed: self._note(getattr(parsed, "usage", None)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)

    def _then(self, done: Any, then: Callable[[Any], Any]) -> Any:
        if inspect.isawaitable(done):
            return self._later(done, then)
        return then(done)

    async def _later(self, done: Any, then: Callable[[Any], Any]) -> Any:
        out = then(await done)
        return await out if inspect.isawaitable(out) else out

    def _parsed(self, parsed: Any) -> Any:
        if hasattr(parsed, "usage"):
            self._note(parsed.usage)
        elif hasattr(parsed, "__next__") or hasattr(parsed, "__anext__"):
            return Events(parsed, self._note)
        else:  # parsed to another type than the SDK's own
            return self._read(parsed)
        return parsed

    def _read(self, out: Any) -> Any:
        noted = self.note()
        return self._after(noted, out) if inspect.isawaitable(noted) else out

    async def _after(self, noted: Any, out: Any) -> Any:
        await noted
        return out

    def _note(self, usage: Any) -> None:
        if self._once is not None and usage is not None:
            record, self._once = self._once, None
            record(usage)


class ResponseManager:
    """The SDK's context manager over a response whose body has not been read yet."""

    def __init__(self, manager: Any, record: Record) -> None:
        self._manager, self._record = manager, record

    def __enter__(self) -> RawResponse:
        return RawResponse(self._manager.__enter__(), self._record)

    def __exit__(self, *error: object) -> None:
        self._manager.__exit__(*error)

    async def __aenter__(self) -> RawResponse:
        return RawResponse(await self._manager.__aenter__(), self._record)

    async def __aexit__(self, *error: object) -> None:
        await self._manager.__aexit__(*error)
