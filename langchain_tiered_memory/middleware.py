"""``TieredMemoryMiddleware``: an agent of ``create_agent`` recalls, reuses tool results and remembers.

One turn is one user message: recall once, the block frozen for every model call of the turn, the turn
remembered at its end. The rules are ``shared_core/turn.py`` and ``memory.tools``; here is where the framework
calls them. What is recalled stands in no message of the state: the state keeps memory ids and a hash, and the
text enters a copy of the request, at the end of the user's message.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime
from langgraph.types import Command

from langchain_tiered_memory import calls, convert, turn_note
from langchain_tiered_memory.owner import Named, one_each, scope_of, session_of, writer_of
from langchain_tiered_memory.turn_note import TieredMemoryState
from shared_core import InvalidInput, TieredMemory, Turn, check_memory, open_again

_log = logging.getLogger(__name__)


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
      Of agents that share a thread (or one that is another's tool) each goes back alone: the others' turns stay.
    - ``on_write_error``: ``"warn"`` logs a turn that could not be remembered and counts it in ``counts``
      (``write_failures``); ``"raise"`` lets the agent fail. Reads that fail never reach the agent.
    - ``name``: for two of them in one agent.

    Without memories to recall the request is passed on as it came.
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
        name: str | None = None,
    ) -> None:
        super().__init__()
        check_memory(memory, scope)
        if on_write_error not in ("warn", "raise"):
            raise InvalidInput(f"on_write_error: expected 'warn' or 'raise', got {on_write_error!r}")
        if isinstance(tools, str):
            raise InvalidInput(f"tools: expected a list of tools or names, got {tools!r}; write [{tools!r}] for one")
        if session is not None and not callable(session) and not isinstance(session, str):
            raise InvalidInput(f"session: expected a string, a function of the runtime or None, got {session!r}")
        self._memory = memory
        self._scope = scope
        self._session = session
        self._remember = remember
        self._follows = remember and session is None  # one log for one thread: it goes back when the thread does
        self._raises = on_write_error == "raise"
        self._name = name or type(self).__name__
        self.counts: Counter[str] = Counter()
        self._unseen: set[str] = set()
        for tool in one_each(tools):
            called = tool if isinstance(tool, str) else tool.name
            self._unseen.add(called)
            if memory.tools.policy(called) is None:
                memory.tools.register(called)

    @property
    def name(self) -> str:
        """The name the agent knows it by; two of one name are refused by ``create_agent``."""
        return self._name

    # The turn begins: recall once

    def before_agent(self, state: TieredMemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Recall for the user's newest message; keep the ids of what came."""
        opening = self._opening(state, runtime)
        if opening is None:
            return None
        turns, where = self._memory.turns, {"session": opening.session, "scope": opening.scope}
        if self._follows:
            turns.rejoin(opening.ids, head=opening.head, writer=opening.writer, **where)
        turn = turns.begin(opening.query, shown_texts=opening.shown, **where) if opening.query.strip() else None
        return turn_note.noted(state, self._name, turn_note.note(opening, turn))

    async def abefore_agent(self, state: TieredMemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """``before_agent`` off the event loop."""
        opening = self._opening(state, runtime)
        if opening is None:
            return None
        turns, where = self._memory.turns, {"session": opening.session, "scope": opening.scope}
        if self._follows:
            await turns.arejoin(opening.ids, head=opening.head, writer=opening.writer, **where)
        turn = await turns.abegin(opening.query, shown_texts=opening.shown, **where) if opening.query.strip() else None
        return turn_note.noted(state, self._name, turn_note.note(opening, turn))

    def _opening(self, state: TieredMemoryState, runtime: Runtime[Any]) -> turn_note.Opening | None:
        """None when there is nothing new to answer: the turn goes on with what it recalled."""
        scope = scope_of(self._memory, self._scope, runtime)
        message, known = turn_note.newest_message(state), self._note(state)
        if message is None or (known is not None and (known["message"], known["scope"]) == (message.id, scope)):
            return None
        session, writer = session_of(self._session, runtime), writer_of(self._name, runtime)
        return turn_note.opened(state, message, known, scope, session, writer)

    def _note(self, state: Any) -> dict[str, Any] | None:
        return turn_note.note_of(state, self._name)

    # Each model call: the same block at the same place

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Hand the model the user's message with the recalled block at its end, in a copy of the request."""
        self._look_for_tools(request)
        note = self._recalled(request)
        if note is None:
            return handler(request)
        turn = self._memory.turns.restore(note["ids"], note["digest"], session=note["session"], scope=note["scope"])
        return handler(self._with_block(request, note, turn))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """``wrap_model_call`` off the event loop."""
        self._look_for_tools(request)
        note = self._recalled(request)
        if note is None:
            return await handler(request)
        turn = await self._memory.turns.arestore(
            note["ids"], note["digest"], session=note["session"], scope=note["scope"]
        )
        return await handler(self._with_block(request, note, turn))

    def _look_for_tools(self, request: ModelRequest[Any]) -> None:
        """Once: a name in ``tools=`` that the agent does not have caches nothing, and is likely a slip."""
        unseen, self._unseen = self._unseen, set()
        if unseen:
            there = {tool.name for tool in request.tools if isinstance(tool, BaseTool)}
            for name in sorted(unseen - there):
                _log.warning("tools=: the agent has no tool %r, it has %s", name, ", ".join(sorted(there)) or "none")

    __reduce__ = open_again

    def _recalled(self, request: ModelRequest[Any]) -> dict[str, Any] | None:
        note = self._note(request.state)
        return note if note is not None and "ids" in note else None

    def _with_block(self, request: ModelRequest[Any], note: Mapping[str, Any], turn: Turn | None) -> ModelRequest[Any]:
        """The request with the block, or as it came: a block that is not the same byte for byte is left out."""
        if turn is None:
            self.counts["blocks_dropped"] += 1
            return request
        messages = list(request.messages)
        for i in reversed(range(len(messages))):
            if messages[i].id == note["message"]:
                messages[i] = convert.with_block(messages[i], turn.block)  # type: ignore[call-overload]
                return request.override(messages=messages)
        return request

    # Each tool call: cached if it was opted in

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Answer from the cache with a new message, or run the tool."""
        name = request.tool_call["name"]
        if not calls.may_share(self._memory, name, request.tool):
            return handler(request)
        own: list[Any] = []

        def execute() -> Any:
            own.append(handler(request))
            return _kept(own[-1])

        found = calls.run(self._memory, name, request.tool_call["args"], execute, scope=self._owner(request))
        kept = own[-1] if own else convert.tool_message(found, request.tool_call)
        return handler(request) if kept is None else kept  # a row that another hand wrote: as if there were none

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """``wrap_tool_call`` off the event loop."""
        name = request.tool_call["name"]
        if not calls.may_share(self._memory, name, request.tool):
            return await handler(request)
        own: list[Any] = []

        async def execute() -> Any:
            own.append(await handler(request))
            return _kept(own[-1])

        found = await calls.arun(self._memory, name, request.tool_call["args"], execute, scope=self._owner(request))
        kept = own[-1] if own else convert.tool_message(found, request.tool_call)
        return await handler(request) if kept is None else kept

    def _owner(self, request: ToolCallRequest) -> str:
        note = self._note(request.state)
        return note["scope"] if note is not None else scope_of(self._memory, self._scope, request.runtime)

    # The turn ends: remember it

    def after_agent(self, state: TieredMemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Log the turn and remember what was said. A replayed step adds nothing."""
        note = self._note(state)
        if not self._remember or note is None:
            return None
        turns, where = self._memory.turns, {"session": note["session"], "scope": note["scope"]}
        writer = note.get("writer")
        try:
            if self._follows:
                turns.rejoin(turn_note.ids_of(state["messages"]), head=note.get("head"), writer=writer, **where)
            turns.end(_plain(state, note), recalled=note.get("ids", ()), writer=writer, **where)
            head = self._memory.context(**where).snapshot()
        except Exception as error:  # noqa: BLE001  the user chose what a failed write may do
            return self._unwritten(error)
        return turn_note.noted(state, self._name, {**note, "head": head})

    async def aafter_agent(self, state: TieredMemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """``after_agent`` off the event loop."""
        note = self._note(state)
        if not self._remember or note is None:
            return None
        turns, where = self._memory.turns, {"session": note["session"], "scope": note["scope"]}
        writer = note.get("writer")
        try:
            if self._follows:
                await turns.arejoin(turn_note.ids_of(state["messages"]), head=note.get("head"), writer=writer, **where)
            await turns.aend(_plain(state, note), recalled=note.get("ids", ()), writer=writer, **where)
            head = await self._memory.context(**where).asnapshot()
        except Exception as error:  # noqa: BLE001  the user chose what a failed write may do
            return self._unwritten(error)
        return turn_note.noted(state, self._name, {**note, "head": head})

    def _unwritten(self, error: Exception) -> None:
        if self._raises:
            raise error
        self.counts["write_failures"] += 1
        _log.warning("the turn could not be remembered: %s", error)


def _plain(state: TieredMemoryState, note: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [convert.plain(message) for message in turn_note.since(state["messages"], note["message"])]


def _kept(answer: Any) -> Any:
    kept = convert.kept_result(answer)
    return calls.Apart(answer) if kept is None else kept
