"""LlamaIndex plugs in here: thin adapters over ``shared_core``, one file per interface. No rules of memory.

Reading order: ``convert.py`` (every type conversion), ``attach.py`` (how a copy finds its memory again),
then any interface. Names load when touched, so importing this package needs no LlamaIndex.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shared_core import MissingExtra

if TYPE_CHECKING:
    from llama_index_tiered_memory.agent_memory import TieredAgentMemory
    from llama_index_tiered_memory.agent_tools import memory_tools
    from llama_index_tiered_memory.anthropic_llm import planned_anthropic
    from llama_index_tiered_memory.async_chat_store import TieredAsyncChatStore
    from llama_index_tiered_memory.chat_store import TieredChatStore
    from llama_index_tiered_memory.events import (
        TieredEvictionEvent,
        TieredHitEvent,
        TieredMissEvent,
        TieredRecallEvent,
    )
    from llama_index_tiered_memory.kv_store import TieredKVStore
    from llama_index_tiered_memory.llm import cached_llm
    from llama_index_tiered_memory.memory_block import TieredMemoryBlock
    from llama_index_tiered_memory.retriever import TieredRetriever
    from llama_index_tiered_memory.tools import cached_tools

_HOME = {
    "TieredAgentMemory": "agent_memory",
    "TieredAsyncChatStore": "async_chat_store",
    "TieredChatStore": "chat_store",
    "TieredEvictionEvent": "events",
    "TieredHitEvent": "events",
    "TieredKVStore": "kv_store",
    "TieredMemoryBlock": "memory_block",
    "TieredMissEvent": "events",
    "TieredRecallEvent": "events",
    "TieredRetriever": "retriever",
    "cached_llm": "llm",
    "cached_tools": "tools",
    "memory_tools": "agent_tools",
    "planned_anthropic": "anthropic_llm",
}

__all__ = [
    "TieredAgentMemory",
    "TieredAsyncChatStore",
    "TieredChatStore",
    "TieredEvictionEvent",
    "TieredHitEvent",
    "TieredKVStore",
    "TieredMemoryBlock",
    "TieredMissEvent",
    "TieredRecallEvent",
    "TieredRetriever",
    "cached_llm",
    "cached_tools",
    "memory_tools",
    "planned_anthropic",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_HOME[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "llama_index":
            raise
        raise MissingExtra.named(f"{__name__}.{name}", "llama-index") from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
