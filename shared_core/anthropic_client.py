"""``PromptCachedAnthropic``: the ``anthropic`` client as it is, its requests planned and their usage recorded.

    client = PromptCachedAnthropic(anthropic.Anthropic(), memory)
    client.messages.create(model=…, max_tokens=…, messages=…)                 # the same call
    client.messages.create(…, session="s1", volatile=7)                       # what a plan can know besides

``messages`` and ``beta.messages`` are planned: ``create`` (also with ``stream=True``), ``stream`` and ``parse``; everything
else is the client's own. This is the only file that knows the SDK; it is imported when a client is wrapped.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from shared_core.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from shared_core.short_term import Plan, Prompts


class _Memory(Protocol):
    """What is needed of a ``TieredMemory``."""

    @property
    def prompts(self) -> Prompts: ...

    def scope_of(self, scope: str | None) -> str: ...


class PromptCachedAnthropic:
    """Wraps ``anthropic.Anthropic`` or ``AsyncAnthropic`` (also the clouds' clients of the SDK).

    ``scope``: a string, or a function without arguments that gives one; None is the memory's default. Raises
    MissingExtra without the SDK, InvalidInput for another kind of client.
    """

    def __init__(self, client: Any, memory: _Memory, *, scope: str | Callable[[], str] | None = None) -> None:
        try:
            import anthropic  # noqa: PLC0415 - only who wraps a client needs it
        except ImportError as error:
            raise MissingExtra.named("PromptCachedAnthropic", "anthropic") from error
        if not hasattr(client, "messages") or not hasattr(client, "with_options"):
            raise InvalidInput(
                f"client: expected an Anthropic client, got {type(client).__name__}; "
                "write PromptCachedAnthropic(anthropic.Anthropic(), memory)"
            )
        absent = (anthropic.NotGiven, getattr(anthropic, "Omit", anthropic.NotGiven))
        self._client = client
        self._plans = _Plans(memory, scope, absent)

    @property
    def messages(self) -> _Messages:
        """The planned Messages API."""
        return _Messages(self._client.messages, self._plans)

    @property
    def beta(self) -> _Beta:
        """The client's beta resources, with planned messages."""
        return _Beta(self._client.beta, self._plans)

    def with_options(self, **options: Any) -> PromptCachedAnthropic:
        """The client's own ``with_options``, planned as this one is."""
        return PromptCachedAnthropic(self._client.with_options(**options), self._plans.memory, scope=self._plans.scope)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class _Plans:
    """Plans and records in the scope of a client; ``absent`` are the SDK's marks for an argument that was not given."""

    def __init__(self, memory: _Memory, scope: str | Callable[[], str] | None, absent: tuple[type, ...]) -> None:
        self.memory = memory
        self.scope = scope
        self._absent = absent

    def plan(self, arguments: Mapping[str, Any]) -> Plan:
        given = {name: _plain(value) for name, value in arguments.items() if not isinstance(value, self._absent)}
        scope = self.scope() if callable(self.scope) else self.scope
        return self.memory.prompts.plan(scope=self.memory.scope_of(scope), **given)

    def record(self, usage: Any, plan: Plan) -> None:
        if usage is not None:
            self.memory.prompts.record(usage, plan=plan)


class _Beta:
    def __init__(self, beta: Any, plans: _Plans) -> None:
        self._beta, self._plans = beta, plans

    @property
    def messages(self) -> _Messages:
        return _Messages(self._beta.messages, self._plans)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._beta, name)


class _Messages:
    """A messages resource whose requests are planned; ``session=`` and ``volatile=`` are taken out for the plan."""

    def __init__(self, resource: Any, plans: _Plans) -> None:
        self._resource, self._plans = resource, plans

    def create(self, **arguments: Any) -> Any:
        """``messages.create``; of an asynchronous client, a coroutine."""
        return self._send(self._resource.create, arguments)

    def parse(self, **arguments: Any) -> Any:
        """``messages.parse``."""
        return self._send(self._resource.parse, arguments)

    def stream(self, **arguments: Any) -> _Manager:
        """``messages.stream``: a context manager over the stream of events."""
        plan = self._plans.plan(arguments)
        return _Manager(self._resource.stream(**plan.request), lambda usage: self._plans.record(usage, plan))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._resource, name)

    def _send(self, call: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        plan = self._plans.plan(arguments)
        answer = call(**plan.request)
        if inspect.isawaitable(answer):
            return self._recorded(answer, plan)
        return self._taken(answer, plan)

    async def _recorded(self, answer: Any, plan: Plan) -> Any:
        return self._taken(await answer, plan)

    def _taken(self, answer: Any, plan: Plan) -> Any:
        if hasattr(answer, "usage"):
            self._plans.record(answer.usage, plan)
            return answer
        return _Events(answer, lambda usage: self._plans.record(usage, plan))


class _Events:
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


class _Manager:
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


def _plain(value: Any) -> Any:
    """The argument with the SDK's objects, which callers append to their messages as they came, made plain dicts."""
    if hasattr(value, "to_dict") and hasattr(value, "model_fields_set"):
        fields = value.to_dict(mode="json")
        for name in getattr(value, "__api_exclude__", None) or ():
            fields.pop(name, None)
        return fields
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
