"""``memory_tools``: three tools with which an agent uses its long-term memory itself. No rules here."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.tools import FunctionTool

from llama_index_tiered_memory import events
from llama_index_tiered_memory.attach import Scope, checked, scope_for
from shared_core import TieredMemory

_NOTHING = "Nothing is remembered about that."


def memory_tools(memory: TieredMemory, *, scope: Scope = None) -> list[Any]:
    """``search_memory``, ``save_memory`` and ``forget_memory`` for the tools of an agent, sync and async.

    They are registered as tools that are never cached and make no cached result stale.
    """
    checked(memory, scope)

    def search_memory(query: str) -> str:
        """Search what is remembered from earlier conversations. Gives one memory a line, each with its id."""
        owner = scope_for(memory, scope)
        hits = memory.recall(query, scope=owner)
        events.recalled("search_memory", owner, [hit.memory.id for hit in hits])
        return "\n".join(f"[{hit.memory.id}] {hit.memory.text}" for hit in hits) or _NOTHING

    def save_memory(text: str) -> str:
        """Remember a fact for later conversations, in one sentence that can be understood alone."""
        return f"Remembered as [{memory.remember(text, role='assistant', scope=scope_for(memory, scope)).id}]."

    def forget_memory(id: str) -> str:
        """Forget one memory for good, by the id that search_memory shows."""
        owner, bare = scope_for(memory, scope), id.strip("[] ")  # a model copies the brackets that search shows
        count = memory.forget(id, scope=owner) or (bare and memory.forget(bare, scope=owner))
        return "Forgotten." if count else f"No memory has the id {id}."

    async def asearch_memory(query: str) -> str:
        return await asyncio.to_thread(search_memory, query)

    async def asave_memory(text: str) -> str:
        return await asyncio.to_thread(save_memory, text)

    async def aforget_memory(id: str) -> str:
        return await asyncio.to_thread(forget_memory, id)

    for fn in (search_memory, save_memory, forget_memory):
        memory.tools.register(fn.__name__, cacheable=False, writes=[])
    return [
        FunctionTool.from_defaults(search_memory, async_fn=asearch_memory),
        FunctionTool.from_defaults(save_memory, async_fn=asave_memory),
        FunctionTool.from_defaults(forget_memory, async_fn=aforget_memory),
    ]
