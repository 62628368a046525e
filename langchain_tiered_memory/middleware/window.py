"""``TieredWindowMiddleware``: an agent's model sees the part of a long conversation that fits. No rules here.

Where the window begins and what it shortens is ``shared_core/mid_term/window.py``. The state keeps every message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse

from langchain_tiered_memory import convert, turn_note
from langchain_tiered_memory.owner import given_name
from langchain_tiered_memory.turn_note import TieredMemoryState
from shared_core import TieredMemory, arguments, check_memory, open_again


class TieredWindowMiddleware(AgentMiddleware[TieredMemoryState, Any, Any]):
    """Requests show whole turns, the newest ones, within ``max_tokens``, and their beginning stays the same for long.

    Counted are the messages, not the system prompt and the tools. ``Settings.recall_tokens`` of it are kept free
    for what is recalled. The turn that is going on always stays whole; of a tool output that alone takes half of the
    window its head and tail are shown. Every tool call shown has its result. Before or after
    ``TieredRecallMiddleware`` in the list: before it, blocks of earlier turns are not counted.
    """

    state_schema = TieredMemoryState

    def __init__(self, memory: TieredMemory, max_tokens: int, *, name: str | None = None) -> None:
        super().__init__()
        self._memory = check_memory(memory)
        self._most = arguments.count("window", max_tokens)
        self._name = name or type(self).__name__

    name = given_name
    __reduce__ = open_again

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Hand the model the window of the conversation, in a copy of the request."""
        return handler(request.override(messages=self._window(request)))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """``wrap_model_call`` off the event loop."""
        return await handler(request.override(messages=await asyncio.to_thread(self._window, request)))

    def _window(self, request: ModelRequest[Any]) -> list[Any]:
        recalled = turn_note.digests(request.state)  # their room is kept free whether or not they are there
        given = [convert.to_fit(message, recalled) for message in request.messages]
        window = self._memory.turns.fit(given, self._most)
        return [convert.shown(request.messages[place], given[place], shown) for place, shown in window]
