"""``TieredMemoryMiddleware``: all of the memory in one middleware, made of the separate ones and of nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse, ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime
from langgraph.types import Command

from langchain_tiered_memory.middleware.plan import TieredPromptPlanMiddleware
from langchain_tiered_memory.middleware.recall import TieredRecallMiddleware
from langchain_tiered_memory.middleware.responses import TieredResponseCacheMiddleware
from langchain_tiered_memory.middleware.tools import TieredToolCacheMiddleware
from langchain_tiered_memory.middleware.window import TieredWindowMiddleware
from langchain_tiered_memory.owner import Named, given_name
from langchain_tiered_memory.turn_note import TieredMemoryState
from shared_core import TieredMemory, arguments, open_again


class TieredMemoryMiddleware(AgentMiddleware[TieredMemoryState, Any, Any]):
    """Memory for ``create_agent(model, tools, middleware=[TieredMemoryMiddleware(memory)])``.

    - ``scope``: a string, or a function of the runtime (``lambda runtime: runtime.context.user_id``); None is the
      memory's default scope, and ScopeRequired without one.
    - ``session``: the same; None is the thread id. Both are resolved once per turn.
    - ``tools``: names (or tools) whose results are cached; those not registered with ``memory.tools`` yet are
      registered with its defaults. Tools nobody registered are executed always, and since they may write
      anything, they make the cached results of the scope stale: register the harmless ones with
      ``cacheable=False, writes=[]``.
    - ``remember``: log each turn and remember what the user and the model said. A thread that is taken up again
      from an earlier checkpoint takes the log with it: what the abandoned branch remembered is not recalled there.
    - ``on_write_error``: ``"warn"`` logs a turn that could not be remembered and counts it in ``counts``
      (``write_failures``); ``"raise"`` lets the agent fail. Reads that fail never reach the agent.
    - ``plan_prompts``: an Anthropic model's requests get breakpoints where the provider's cache pays, before what was
      recalled, at most four with everybody else's. Other providers' requests stay as they are.
    - ``response_cache``: a model request that was answered before is answered from the memory. Off by default: the
      same question then has the same answer.
    - ``window``: the most tokens of the conversation that a request shows; None shows all of it.
    - ``name``: for two of them in one agent.

    Each of these is a middleware of its own as well, and this one is made of them: ``TieredRecallMiddleware``,
    ``TieredToolCacheMiddleware``, ``TieredWindowMiddleware``, ``TieredResponseCacheMiddleware``,
    ``TieredPromptPlanMiddleware``, in this order. Without memories to recall the messages are passed on as they came.
    """

    state_schema = TieredMemoryState

    def __init__(
        self,
        memory: TieredMemory,
        *,
        scope: Named = None,
        session: Named = None,
        tools: Iterable[str | BaseTool] = (),
        remember: bool = True,
        on_write_error: str = "warn",
        plan_prompts: bool = True,
        response_cache: bool = False,
        window: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        for flag, given in (("plan_prompts", plan_prompts), ("response_cache", response_cache), ("remember", remember)):
            arguments.flag(flag, given)
        self._name = name or type(self).__name__
        self.counts: Counter[str] = Counter()
        own: dict[str, Any] = {"scope": scope, "name": self._name}
        self._recall = TieredRecallMiddleware(
            memory, session=session, remember=remember, on_write_error=on_write_error, **own
        )
        self._tools = TieredToolCacheMiddleware(memory, tools, **own)
        self._parts: list[Any] = [self._recall, self._tools]  # as they would stand in the agent's list
        if window is not None:
            self._parts.append(TieredWindowMiddleware(memory, window, name=self._name))
        if response_cache:
            self._parts.append(TieredResponseCacheMiddleware(memory, **own))
        if plan_prompts:
            self._parts.append(TieredPromptPlanMiddleware(memory, session=session, **own))
        for part in self._parts:
            part.counts = self.counts

    name = given_name
    __reduce__ = open_again

    def before_agent(self, state: TieredMemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Recall for the user's newest message; keep the ids of what came."""
        return self._recall.before_agent(state, runtime)

    async def abefore_agent(self, state: TieredMemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """``before_agent`` off the event loop."""
        return await self._recall.abefore_agent(state, runtime)

    def after_agent(self, state: TieredMemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Log the turn and remember what was said."""
        return self._recall.after_agent(state, runtime)

    async def aafter_agent(self, state: TieredMemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """``after_agent`` off the event loop."""
        return await self._recall.aafter_agent(state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Through every part, the first outermost."""
        call: Callable[[ModelRequest[Any]], Any] = handler
        for part in reversed(self._parts):
            call = partial(part.wrap_model_call, handler=call)
        return call(request)  # type: ignore[no-any-return]

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """``wrap_model_call`` off the event loop."""
        call: Callable[[ModelRequest[Any]], Awaitable[Any]] = handler
        for part in reversed(self._parts):
            call = partial(part.awrap_model_call, handler=call)
        return await call(request)  # type: ignore[no-any-return]

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Answer from the cache with a new message, or run the tool."""
        return self._tools.wrap_tool_call(request, handler)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """``wrap_tool_call`` off the event loop."""
        return await self._tools.awrap_tool_call(request, handler)
