"""``TieredToolCacheMiddleware``: an agent's opted-in tool calls through ``memory.tools``. No keys and no rules here."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command

from langchain_tiered_memory import calls
from langchain_tiered_memory.owner import Named, Owner, given_name, one_each
from langchain_tiered_memory.tool_copies import cached
from langchain_tiered_memory.turn_note import TieredMemoryState
from shared_core import InvalidInput, TieredMemory, check_memory, open_again

_log = logging.getLogger(__name__)
_MOST_COPIES = 1_000


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
        self._copies: dict[
            tuple[int, str], tuple[BaseTool, BaseTool]
        ] = {}  # each with its tool, so that the id stays its own
        self.counts: Counter[str] = Counter()
        for tool in one_each(tools):
            if not isinstance(tool, str | BaseTool):
                raise InvalidInput(
                    f"tools: expected names or LangChain tools, got {tool!r:.80}; "
                    f"write {getattr(tool, '__name__', 'get_weather')!r}"
                )
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
        """Run a tool that asks the memory first."""
        if not self._is_unknown(request):
            return handler(self._asking_first(request))
        scope, name = self._owner.scope(request.state, request.runtime), request.tool_call["name"]
        return calls.run(self._memory, name, {}, lambda: handler(request), scope=scope, defaults={})  # type: ignore[no-any-return]

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """``wrap_tool_call`` off the event loop."""
        if not self._is_unknown(request):
            return await handler(self._asking_first(request))

        scope, name = self._owner.scope(request.state, request.runtime), request.tool_call["name"]
        return await calls.arun(self._memory, name, {}, lambda: handler(request), scope=scope, defaults={})  # type: ignore[no-any-return]

    def _is_unknown(self, request: ToolCallRequest) -> bool:
        """Whether a tool that the agent does not have may be run, by another middleware, and write anything."""
        policy = self._memory.tools.policy(request.tool_call["name"])
        return request.tool is None and (policy is None or not policy.kept)

    def _asking_first(self, request: ToolCallRequest) -> ToolCallRequest:
        """The request with its tool, and those another middleware may put in its place, as copies that ask the memory.

        So what is kept is what the tool was really given and gave, whoever changes a call or its answer on the way.
        """
        if request.tool is None:
            return request
        scope = self._owner.scope(request.state, request.runtime)
        runtime = request.runtime
        if isinstance(runtime, ToolRuntime):
            runtime = replace(runtime, tools=[self._cached(tool, scope) for tool in runtime.tools])
        return replace(request, tool=self._cached(request.tool, scope), runtime=runtime)

    def _cached(self, tool: BaseTool, scope: str) -> BaseTool:
        found = self._copies.get((id(tool), scope))
        if found is None:
            while len(self._copies) >= _MOST_COPIES:
                self._copies.pop(next(iter(self._copies)), None)
            found = self._copies[id(tool), scope] = (tool, cached(tool, self._memory, scope, self.counts))
        return found[1]
