"""Hits, misses, evictions and recalls as events of LlamaIndex's instrumentation. They only tell: nothing acts on them.

    get_dispatcher("llama_index_tiered_memory").add_event_handler(mine)      # or the root dispatcher: get_dispatcher()

No event holds an argument, a prompt, an answer or the text of a memory: only names, scopes, counts, the ids of
memories, and of a store's keys their SHA-256. (``tags`` are LlamaIndex's: a workflow writes a summary of its step's
input there, on every event.) A handler that raises is the dispatcher's to swallow, and it does.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Iterable
from typing import Any

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events import BaseEvent
from pydantic import Field

from shared_core import TieredMemory

_dispatcher = get_dispatcher("llama_index_tiered_memory")
_noticed: weakref.WeakKeyDictionary[TieredMemory, dict[str, int]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class TieredHitEvent(BaseEvent):
    """A call was answered from a cache: ``cache`` is "tools" or "responses", ``name`` the tool's or the model's."""

    cache: str
    name: str
    scope: str
    saved_input_tokens: int = Field(default=0, description="What a model's answer was paid with when it was made.")
    saved_output_tokens: int = 0

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's traces."""
        return "TieredHitEvent"


class TieredMissEvent(BaseEvent):
    """A call was executed: a model's, or that of a tool whose results are kept (others are neither hit nor miss)."""

    cache: str
    name: str
    scope: str

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's traces."""
        return "TieredMissEvent"


class TieredEvictionEvent(BaseEvent):
    """Entries left a bounded cache for want of room: ``count`` of them since the event before.

    ``cache`` is "tools", "responses" or "kv". The first two are bounded for all scopes together, so ``scope`` is
    None there; ``name`` is the collection of a key-value store. ``keys`` are SHA-256 in hexadecimal, where known.
    """

    cache: str
    count: int
    name: str = ""
    scope: str | None = None
    keys: list[str] = Field(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's traces."""
        return "TieredEvictionEvent"


class TieredRecallEvent(BaseEvent):
    """Memories were searched: ``source`` is the class or the tool that asked, ``ids`` what was found, best first."""

    source: str
    scope: str
    ids: list[str]
    session: str | None = None

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's traces."""
        return "TieredRecallEvent"


def hit(cache: str, name: str, scope: str, mark: dict[str, Any] | None = None) -> None:
    """Tell of a hit; ``mark`` is what the core writes on a served response."""
    spent = mark or {}
    _dispatcher.event(
        TieredHitEvent(
            cache=cache, name=name, scope=scope, saved_input_tokens=spent.get("input_tokens", 0),
            saved_output_tokens=spent.get("output_tokens", 0),
        )
    )  # fmt: skip


def missed(cache: str, name: str, scope: str) -> None:
    """Tell of a miss."""
    _dispatcher.event(TieredMissEvent(cache=cache, name=name, scope=scope))


def made_room(cache: str, memory: TieredMemory) -> None:
    """Tell of what a cache evicted since this was last asked; call it when something was put in."""
    evictions = memory.tools.evictions if cache == "tools" else memory.responses.stats()["evictions"]
    with _lock:
        told = _noticed.setdefault(memory, {})
        count = evictions - told.get(cache, 0)
        told[cache] = max(evictions, told.get(cache, 0))
    if count > 0:
        _dispatcher.event(TieredEvictionEvent(cache=cache, count=count))


def evicted(name: str, scope: str, keys: Iterable[str]) -> None:
    """Tell of keys that a bounded key-value store evicted from its collection ``name``; none, no event."""
    digests = [hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest() for key in keys]
    if digests:
        _dispatcher.event(TieredEvictionEvent(cache="kv", name=name, scope=scope, keys=digests, count=len(digests)))


def recalled(source: str, scope: str, ids: Iterable[str], session: str | None = None) -> None:
    """Tell of a search in the memories, also of one that found nothing."""
    _dispatcher.event(TieredRecallEvent(source=source, scope=scope, ids=list(ids), session=session))
