"""``TieredPromptPlanMiddleware``: the requests of an Anthropic model through ``memory.prompts``. No rules here.

A plan is made of the very request that would be sent: the model of each call is seen through a subclass that hands
LangChain's finished payload to the planner and sends what comes back. So every breakpoint counts, whoever put it
there and in whatever order the middlewares stand. Known are ``ChatAnthropic`` and what is derived from it, also
inside ``bind``, ``with_retry`` and ``with_fallbacks``; any other model's request is passed on as it came.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse

from langchain_tiered_memory import convert, turn_note, views, wrapped
from langchain_tiered_memory.owner import Named, Owner, check_session, given_name
from langchain_tiered_memory.turn_note import TieredMemoryState
from shared_core import TieredMemory, check_memory, open_again
from shared_core.short_term import Plan, is_anthropic

_log = logging.getLogger(__name__)
_CALL = "_tiered_memory_call"


class TieredPromptPlanMiddleware(AgentMiddleware[TieredMemoryState, Any, Any]):
    """Breakpoints where the provider's prompt cache pays, at most four with everybody else's, none on what was recalled.

    ``plan`` and ``record`` of ``memory.prompts``: what was billed is in its ``stats()``. ``scope``: a string, or a
    function of the runtime, called at each model call; None is the memory's default. ``session``: the same; None is the
    thread id, and without one the conversation is recognised by how it begins. Where it stands in the list
    does not matter, but behind a middleware that asks a model of its own instead (``ModelFallbackMiddleware``). A plan
    that fails is counted in ``counts`` (``plan_failures``) and logged; the request is sent as it
    was. Another middleware's automatic breakpoint behind the recalled block is told of, once, in the log.
    """

    state_schema = TieredMemoryState

    def __init__(
        self, memory: TieredMemory, *, scope: Named = None, session: Named = None, name: str | None = None
    ) -> None:
        super().__init__()
        self._memory = check_memory(memory, scope)
        check_session(session)
        self._name = name or type(self).__name__
        self._owner = Owner(memory, self._name, scope=scope, session=session)
        self._told = False
        self.counts: Counter[str] = Counter()

    name = given_name
    __reduce__ = open_again

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Ask a model that plans its request."""
        return handler(self._planning(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """``wrap_model_call`` for an asynchronous agent; a plan touches neither disk nor network."""
        return await handler(self._planning(request))

    def _planning(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        given: Any = request.model
        planned = wrapped.each_model(given, partial(self._seen, request))
        return request if planned is given else request.override(model=planned)

    def _seen(self, request: ModelRequest[Any], model: Any) -> Any:
        if not is_chat_anthropic(model) or hasattr(model, _CALL):  # planned by another one of us already
            return model
        scope = self._owner.scope(request.state, request.runtime)
        session = self._owner.session(request.state, request.runtime)
        call = _Call(self, scope, session, turn_note.digests(request.state))
        try:
            kind: Any = type(model)
            return views.view(model, _planned(kind), _CALL, call)
        except Exception as error:  # noqa: BLE001  planning saves money; it must not cost the answer
            self.failed(error)
            return model

    def plan(self, call: _Call, payload: Mapping[str, Any]) -> Plan:
        """The plan of a finished payload."""
        volatile = convert.place_of(payload["messages"], call.recalled)
        goes = volatile is not None and not convert.asks_for_thinking(payload)  # with thinking, the block stays
        if goes and not self._told and convert.is_marked_from(payload, volatile or 0):
            self._told = True
            _log.warning(
                "cache_control: another middleware (AnthropicPromptCachingMiddleware?) or a setting of the model marks the "
                "end of the prompt, behind the recalled memories, which are others in every turn: what is written there "
                "is paid for and not read again. %s sets breakpoints itself, before the recalled memories: take the "
                "other one out of the agent; plan_prompts=False keeps the other one and takes ours out.",
                self._name,
            )  # fmt: skip
        return self._memory.prompts.plan(scope=call.scope, session=call.session, volatile=volatile, **payload)

    def record(self, plan: Plan, message: Any) -> None:
        """What the provider billed for a plan."""
        used = getattr(message, "usage_metadata", None)
        if used is not None:
            self._memory.prompts.record(used, plan=plan)

    def failed(self, error: Exception) -> None:
        """Count and tell."""
        self.counts["plan_failures"] += 1
        _log.warning("the prompt could not be planned, it is sent as it is: %s", error)


def is_chat_anthropic(model: object) -> bool:
    """Whether it is LangChain's Anthropic chat model, or derived from it; nothing is imported to tell."""
    return any(
        kind.__name__ == "ChatAnthropic" and kind.__module__.partition(".")[0] == "langchain_anthropic"
        for kind in type(model).__mro__
    ) and hasattr(model, "_get_request_payload")


class _Call:
    """One model call: whose it is, the hashes of what was recalled, and the plan that waits for its usage."""

    def __init__(
        self, plans: TieredPromptPlanMiddleware, scope: str, session: str | None, recalled: frozenset[str]
    ) -> None:
        self.plans, self.scope, self.session, self.recalled = plans, scope, session, recalled
        self.waiting: Plan | None = None

    def planned(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The payload to send."""
        self.waiting = None
        if not is_anthropic(str(payload.get("model"))):
            return payload
        try:
            plan = self.plans.plan(self, payload)
            request = plan.request
        except Exception as error:  # noqa: BLE001  as above
            self.plans.failed(error)
            return payload
        self.waiting = plan
        return request

    def answered(self, result: Any) -> None:
        """Record what the answer cost; a replayed one was not planned and cost nothing."""
        plan, self.waiting = self.waiting, None
        if plan is None:
            return
        try:
            self.plans.record(plan, result.generations[0].message)
        except Exception as error:  # noqa: BLE001  as above
            self.plans.failed(error)


@lru_cache(maxsize=32)
def _planned(kind: Any) -> Any:
    """A subclass, under the same name, whose payloads go through the planner of the instance's call."""

    def _get_request_payload(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, _CALL).planned(kind._get_request_payload(self, *args, **kwargs))  # noqa: SLF001

    def _generate_with_cache(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = kind._generate_with_cache(self, *args, **kwargs)  # noqa: SLF001
        getattr(self, _CALL).answered(result)
        return result

    async def _agenerate_with_cache(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = await kind._agenerate_with_cache(self, *args, **kwargs)  # noqa: SLF001
        getattr(self, _CALL).answered(result)
        return result

    methods = (_get_request_payload, _generate_with_cache, _agenerate_with_cache)
    return views.kind_of(kind, _CALL, {method.__name__: method for method in methods})
