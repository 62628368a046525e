"""``PromptCachedAnthropic``: the ``anthropic`` client as it is, its requests planned and their usage recorded.

    client = PromptCachedAnthropic(anthropic.Anthropic(), memory)
    client.messages.create(model=…, max_tokens=…, messages=…)                 # the same call
    client.messages.create(…, session="s1", volatile=7)                       # what a plan can know besides

``messages`` and ``beta.messages`` are planned: ``create`` (also with ``stream=True``), ``stream`` and ``parse``, also
``with_raw_response`` and ``with_streaming_response``; everything else is the client's own. This is the only file that
imports the SDK, when a client is wrapped; what it answers with is in ``anthropic_answers.py``.

It fails open: a request that cannot be planned is sent as it came, and a usage that cannot be recorded does not cost the
answer. Both are told of in the log and counted in ``client.counts`` (``plan_failures``, ``record_failures``).
"""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from shared_core import arguments as checked
from shared_core.anthropic_answers import RawResponse, Record, ResponseManager, StreamManager, watched
from shared_core.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from shared_core.short_term import Plan, Prompts

_log = logging.getLogger(__name__)
_FOR_THE_PLAN = ("session", "volatile", "now")
"""The arguments that a plan takes and the API does not."""


class _Memory(Protocol):
    """What is needed of a ``TieredMemory``."""

    @property
    def prompts(self) -> Prompts: ...

    def scope_of(self, scope: str | None) -> str: ...


class PromptCachedAnthropic:
    """Wraps ``anthropic.Anthropic`` or ``AsyncAnthropic`` (also the clouds' clients of the SDK).

    As a context manager it closes the client, as the client does. ``scope``: a string, or a function without arguments that gives one; None is the memory's default. Raises
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

    @property
    def with_raw_response(self) -> _Answers:
        """The client whose calls answer with the HTTP response, its messages planned."""
        return _Answers(self._client.with_raw_response, self._plans, _noted)

    @property
    def with_streaming_response(self) -> _Answers:
        """The client whose calls answer with a response still to be read, its messages planned."""
        return _Answers(self._client.with_streaming_response, self._plans, ResponseManager)

    @property
    def counts(self) -> Counter[str]:
        """What failed and cost no answer: ``plan_failures``, ``record_failures``."""
        return self._plans.counts

    def with_options(self, **options: Any) -> PromptCachedAnthropic:
        """The client's own ``with_options``, planned and counted as this one is."""
        made = PromptCachedAnthropic(self._client.with_options(**options), self._plans.memory)
        made._plans = self._plans
        return made

    copy = with_options

    def __enter__(self) -> Self:
        self._client.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._client.__exit__(*error)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.__aexit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class _Plans:
    """Plans and records in the scope of a client; ``absent`` are the SDK's marks for an argument that was not given."""

    def __init__(self, memory: _Memory, scope: str | Callable[[], str] | None, absent: tuple[type, ...]) -> None:
        self.memory = memory
        self.counts: Counter[str] = Counter()
        self._scope = scope
        self._absent = absent

    def plan(self, given: Mapping[str, Any]) -> Plan | None:
        """The plan of a call; None if it cannot be planned. Raises for a scope or a session that is none."""
        scope = self.memory.scope_of(self._scope() if callable(self._scope) else self._scope)
        checked.optional_name("session", given.get("session"))
        try:
            return self.memory.prompts.plan(scope=scope, **given)
        except Exception as error:  # noqa: BLE001  planning saves money; it must not cost the answer
            self._failed("plan_failures", "the prompt could not be planned, it is sent as it is", error)
            return None

    def send(self, call: Callable[..., Any], arguments: Mapping[str, Any], watch: Callable[[Any, Record], Any]) -> Any:
        """Plan, call, and pass the answer on through ``watch``; awaitable if the answer is."""
        given = {
            name: list(value) if isinstance(value, Iterator) else value  # read once by the plan, it may be sent without
            for name, value in arguments.items()
            if not isinstance(value, self._absent)
        }
        plan = self.plan(given)
        if plan is None:
            return call(**{name: value for name, value in given.items() if name not in _FOR_THE_PLAN})

        def record(usage: Any) -> None:
            if usage is not None:
                try:
                    self.memory.prompts.record(usage, plan=plan)
                except Exception as error:  # noqa: BLE001  the answer was paid for
                    self._failed("record_failures", "the usage could not be recorded", error)

        answer = call(**plan.sendable)
        return self._answered(answer, record, watch) if inspect.isawaitable(answer) else watch(answer, record)

    def _failed(self, name: str, what: str, error: Exception) -> None:
        self.counts[name] += 1
        _log.warning("%s: %s", what, error)

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


class _Answers:
    """A client, or its beta resources, whose calls answer with responses; ``messages`` are planned."""

    def __init__(self, resource: Any, plans: _Plans, watch: Callable[[Any, Record], Any]) -> None:
        self._resource, self._plans, self._watch = resource, plans, watch

    @property
    def messages(self) -> _Raw:
        return _Raw(self._resource.messages, self._plans, self._watch)

    @property
    def beta(self) -> _Answers:
        return _Answers(self._resource.beta, self._plans, self._watch)

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
