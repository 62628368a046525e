"""Every place where LangChain and LangGraph take a memory, filled by one ``TieredMemory``.

Each name is loaded when it is touched: importing this package needs no framework, and touching what a
missing extra provides raises one line with the pip command. One file per interface; ``convert/``
holds every type conversion, ``owner.py`` who a call belongs to; the rules are all in ``shared_core``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shared_core import MissingExtra

if TYPE_CHECKING:
    from langchain_tiered_memory.byte_store import TieredByteStore as TieredByteStore
    from langchain_tiered_memory.cached_tools import cached_tools as cached_tools
    from langchain_tiered_memory.chain_memory import TieredChainMemory as TieredChainMemory
    from langchain_tiered_memory.chat_history import TieredChatMessageHistory as TieredChatMessageHistory
    from langchain_tiered_memory.llm_cache import TieredLLMCache as TieredLLMCache
    from langchain_tiered_memory.memory_tools import memory_tools as memory_tools
    from langchain_tiered_memory.middleware import TieredMemoryMiddleware as TieredMemoryMiddleware
    from langchain_tiered_memory.middleware import TieredPromptPlanMiddleware as TieredPromptPlanMiddleware
    from langchain_tiered_memory.middleware import TieredRecallMiddleware as TieredRecallMiddleware
    from langchain_tiered_memory.middleware import TieredResponseCacheMiddleware as TieredResponseCacheMiddleware
    from langchain_tiered_memory.middleware import TieredToolCacheMiddleware as TieredToolCacheMiddleware
    from langchain_tiered_memory.middleware import TieredWindowMiddleware as TieredWindowMiddleware
    from langchain_tiered_memory.node_cache import TieredNodeCache as TieredNodeCache
    from langchain_tiered_memory.retriever import TieredRetriever as TieredRetriever
    from langchain_tiered_memory.store import TieredStore as TieredStore

_PLACES = {
    "TieredByteStore": ("byte_store", "langchain"),
    "TieredChainMemory": ("chain_memory", "classic"),
    "TieredChatMessageHistory": ("chat_history", "langchain"),
    "TieredLLMCache": ("llm_cache", "langchain"),
    "TieredMemoryMiddleware": ("middleware", "langchain"),
    "TieredNodeCache": ("node_cache", "langchain"),
    "TieredPromptPlanMiddleware": ("middleware", "langchain"),
    "TieredRecallMiddleware": ("middleware", "langchain"),
    "TieredResponseCacheMiddleware": ("middleware", "langchain"),
    "TieredRetriever": ("retriever", "langchain"),
    "TieredStore": ("store", "langchain"),
    "TieredToolCacheMiddleware": ("middleware", "langchain"),
    "TieredWindowMiddleware": ("middleware", "langchain"),
    "cached_tools": ("cached_tools", "langchain"),
    "memory_tools": ("memory_tools", "langchain"),
}
_FRAMEWORKS = ("langchain", "langchain_core", "langchain_classic", "langgraph")

__all__ = [
    "TieredByteStore",
    "TieredChainMemory",
    "TieredChatMessageHistory",
    "TieredLLMCache",
    "TieredMemoryMiddleware",
    "TieredNodeCache",
    "TieredPromptPlanMiddleware",
    "TieredRecallMiddleware",
    "TieredResponseCacheMiddleware",
    "TieredRetriever",
    "TieredStore",
    "TieredToolCacheMiddleware",
    "TieredWindowMiddleware",
    "cached_tools",
    "memory_tools",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    module, extra = _PLACES[name]
    try:
        found = getattr(import_module(f"{__name__}.{module}"), name)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in _FRAMEWORKS:
            raise
        raise MissingExtra.named(name, extra) from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
