"""``PromptCachedAnthropic``: the ``anthropic`` client as it is, its requests planned and their usage recorded.

    client = PromptCachedAnthropic(anthropic.Anthropic(), memory)
    client.messages.create(model=…, max_tokens=…, messages=…)                 # the same call
    client.messages.create(…, session="s1", volatile=7)                       # what a plan can know besides

``messages`` and ``beta.messages`` are planned: ``create`` (also with ``stream=True``), ``stream`` and ``parse``, also
``with_raw_response`` and ``with_streaming_response``; everything else is the client's own. This is the only file that
imports the SDK, when a client is wrapped; what it answers with is in ``anthropic_answers.py``.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from shared_core.anthropic_answers import RawResponse, Record, ResponseManager, StreamManager, watched
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

    def send(self, call: Callable[..., Any], arguments: Mapping[str, Any], watch: Callable[[Any, Record], Any]) -> Any:
        """Plan, call, and pass the answer on through ``watch``; awaitable if the answer is."""
        plan = self.plan(arguments)

        def record(usage: Any) -> None:
            if usage is not None:
                self.memory.prompts.record(usage, plan=plan)

        answer = call(**plan.sendable)
        return self._answered(answer, record, watch) if inspect.isawaitable(answer) else watch(answer, record)

    async def _answered(self, answer: Any, record: Record, watch: Callable[[Any, Record], Any]) -> Any:
        out = watch(await answer, record)
        return await out if inspect.isawaitable(out) else out


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
        return self._plans.send(self._resource.create, arguments, watched)

    def parse(self, **arguments: Any) -> Any:
        """``messages.parse``."""
        return self._plans.send(self._resource.parse, arguments, watched)

    def stream(self, **arguments: Any) -> StreamManager:
        """``messages.stream``: a context manager over the stream of events."""
        return self._plans.send(self._resource.stream, arguments, StreamManager)  # type: ignore[no-any-return]

    @property
    def with_raw_response(self) -> _Raw:
        """The calls that answer with the HTTP response, planned; its body has arrived, so its usage is recorded."""
        return _Raw(self._resource.with_raw_response, self._plans, _noted)

    @property
    def with_streaming_response(self) -> _Raw:
        """The calls that answer with a response still to be read, planned; recorded as ``RawResponse`` says."""
        return _Raw(self._resource.with_streaming_response, self._plans, ResponseManager)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._resource, name)


class _Raw:
    """``create`` and ``parse`` of a messages resource, answered with responses instead of messages."""

    def __init__(self, resource: Any, plans: _Plans, watch: Callable[[Any, Record], Any]) -> None:
        self._resource, self._plans, self._watch = resource, plans, watch

    def create(self, **arguments: Any) -> Any:
        """``create``; of an asynchronous client with raw responses, a coroutine."""
        return self._plans.send(self._resource.create, arguments, self._watch)

    def parse(self, **arguments: Any) -> Any:
        """``parse``, where the SDK has it."""
        return self._plans.send(self._resource.parse, arguments, self._watch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._resource, name)


def _noted(response: Any, record: Record) -> Any:
    """A raw response; what is in a message is recorded now, of an event stream when it is parsed and passes."""
    watching = RawResponse(response, record)
    if "text/event-stream" in response.headers.get("content-type", ""):
        return watching
    noted = watching.note()
    return _when(noted, response) if inspect.isawaitable(noted) else response


async def _when(noted: Any, response: Any) -> Any:
    await noted
    return response


_LEAVES = frozenset({str, int, float, bool, type(None)})


def _plain(value: Any) -> Any:
    """The argument with the SDK's objects, which callers append to their messages as they came, made plain dicts.

    What holds none of them is passed on as it is, so that a conversation that grew is found unchanged.
    """
    kind = type(value)
    if kind in _LEAVES:
        return value
    if kind is dict:
        made = {key: plain for key, item in value.items() if (plain := _plain(item)) is not item}
        return {**value, **made} if made else value
    if isinstance(value, list | tuple):
        listed = [_plain(item) for item in value]
        return value if all(map(operator.is_, listed, value)) else listed
    if hasattr(value, "to_dict") and hasattr(value, "model_fields_set"):
        fields = value.to_dict(mode="json")
        for name in getattr(value, "__api_exclude__", None) or ():
            fields.pop(name, None)
        return fields
    return value
