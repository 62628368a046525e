"""``TieredToolCacheMiddleware``: an agent's opted-in tool calls through ``memory.tools``. No keys and no rules here."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

from langchain_tiered_memory import calls, convert
from langchain_tiered_memory.injected import default_arguments
from langchain_tiered_memory.owner import Named, Owner, given_name, one_each
from langchain_tiered_memory.turn_note import TieredMemoryState
from shared_core import InvalidInput, TieredMemory, check_memory, open_again

_log = logging.getLogger(__name__)


class TieredToolCacheMiddleware(AgentMiddleware[TieredMemoryState, Any, Any]):
    """Results of the opted-in tools are paid for once; a hit is a new message under the new call.

    ``tools``: names (or tools) whose results are cached; those not registered with ``memory.tools`` yet are
    registered with its defaults. Every other tool is executed always and, unless it is registered as harmless
    (``cacheable=False, writes=[]``), makes the cached results of the scope stale. ``scope``: a string, or a
    function of the runtime, called at each tool call; None is the memory's default. A tool that asks a person
    (``interrupt``) is executed with the answer, which is not kept: counted in ``counts`` (``answers_not_kept``).
    """

    state_schema = TieredMemoryState

    def __init__(
        self,
        memory: TieredMemory,
        tools: Iterable[str | BaseTool] = (),
        *,
        scope: Named = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        check_memory(memory, scope)
        if isinstance(tools, str):
            raise InvalidInput(f"tools: expected a list of tools or names, got {tools!r}; write [{tools!r}] for one")
        self._memory = memory
        self._name = name or type(self).__name__
        self._owner = Owner(memory, self._name, scope=scope)
        self._unseen: set[str] = set()
        self.counts: Counter[str] = Counter()
        for tool in one_each(tools):
            called = tool if isinstance(tool, str) else tool.name
            self._unseen.add(called)
            if memory.tools.policy(called) is None:
                memory.tools.register(called)

    name = given_name
    __reduce__ = open_again

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Pass the request on; the first one tells whether the agent has the tools that were named."""
        self._look_for_tools(request)
        return handler(request)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """``wrap_model_call`` for an asynchronous agent."""
        self._look_for_tools(request)
        return await handler(request)

    def _look_for_tools(self, request: ModelRequest[Any]) -> None:
        """Once: a name in ``tools=`` that the agent does not have caches nothing, and is likely a slip."""
        unseen, self._unseen = self._unseen, set()
        if unseen:
            there = {tool.name for tool in request.tools if isinstance(tool, BaseTool)}
            for name in sorted(unseen - there):
                _log.warning("tools=: the agent has no tool %r, it has %s", name, ", ".join(sorted(there)) or "none")

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Answer from the cache with a new message, or run the tool."""
        name = request.tool_call["name"]
        if not calls.may_share(self._memory, name, request.tool, self.counts):
            return handler(request)
        own: list[Any] = []

        def execute() -> Any:
            own.append(handler(request))
            return _kept(own[-1])

        scope = self._owner.scope(request.state, request.runtime)
        defaults = default_arguments(request.tool)
        found = calls.run(self._memory, name, request.tool_call["args"], execute, scope=scope, defaults=defaults)
        kept = own[-1] if own else convert.tool_message(found, request.tool_call)
        return handler(request) if kept is None else kept  # a row that another hand wrote: as if there were none

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """``wrap_tool_call`` off the event loop."""
        name = request.tool_call["name"]
        if not calls.may_share(self._memory, name, request.tool, self.counts):
            return await handler(request)
        own: list[Any] = []

        async def execute() -> Any:
            own.append(await handler(request))
            return _kept(own[-1])

        scope = self._owner.scope(request.state, request.runtime)
        defaults = default_arguments(request.tool)
        found = await calls.arun(self._memory, name, request.tool_call["args"], execute, scope=scope, defaults=defaults)
        kept = own[-1] if own else convert.tool_message(found, request.tool_call)
        return await handler(request) if kept is None else kept


def _kept(answer: Any) -> Any:
    kept = convert.kept_result(answer)
    return calls.Apart(answer) if kept is None else kept
