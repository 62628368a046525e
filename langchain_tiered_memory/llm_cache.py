"""``TieredLLMCache``: LangChain's model cache on ``memory.responses``.

What makes two requests the same, what is never stored, how long it lives: the rules of
``shared_core/mid_term/response_cache.py``. Here only the conversion, and that a cache that fails costs a
model call and nothing else. ``.stream()`` and ``.astream()`` of a model never ask a cache (LangChain's
choice); agents and graphs call ``.invoke`` and do, also when the graph is streamed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

from langchain_core.caches import RETURN_VAL_TYPE, BaseCache

from langchain_tiered_memory import convert
from langchain_tiered_memory.owner import Named, scope_of
from shared_core import MISS, InvalidInput, TieredMemory, check_memory, open_again

_log = logging.getLogger(__name__)


class TieredLLMCache(BaseCache):
    """Model answers paid for once: ``set_llm_cache(TieredLLMCache(memory))``.

    ``scope`` is a string or a function without arguments, called at each request; without one and without a
    default scope it is the class name, one cache for all. Every hit is a fresh list of fresh generations with
    message ids of their own. A cache that cannot read or write lets the model answer: counted in ``counts``
    (``lookup_failures``, ``update_failures``) and logged. An answer that would not load again is not stored.
    """

    def __init__(self, memory: TieredMemory, *, scope: Named = None) -> None:
        self._memory = check_memory(memory, scope)
        self._scope = scope
        self.counts: Counter[str] = Counter()
        if scope is None and memory.default_scope is None:
            memory.responses.share(type(self).__name__)  # its answers may rest on anyone's memories

    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """The generations of the same request, or None."""
        scope = self._owner()
        try:
            return _opened(self._memory.responses.get(convert.request(prompt, llm_string), scope=scope))
        except Exception as error:  # noqa: BLE001  a cache that raises would fail the caller's model call
            self._failed("lookup", error)
            return None

    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Keep the generations of a request."""
        scope = self._owner()
        try:
            self._memory.responses.put(convert.request(prompt, llm_string), convert.response(return_val), scope=scope)
        except Exception as error:  # noqa: BLE001  the answer is paid for: it must reach the caller
            self._failed("update", error)

    def clear(self, **kwargs: Any) -> None:  # noqa: ARG002
        """Forget every answer of this cache's scope. ``kwargs`` are LangChain's and say nothing here."""
        self._memory.responses.clear_scope(self._owner())

    async def alookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """``lookup`` off the event loop."""
        scope = self._owner()
        try:
            return _opened(await self._memory.responses.aget(convert.request(prompt, llm_string), scope=scope))
        except Exception as error:  # noqa: BLE001  as in ``lookup``
            self._failed("lookup", error)
            return None

    async def aupdate(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """``update`` off the event loop. The list is taken apart before: its owner may go on changing it."""
        scope = self._owner()
        try:
            packed = convert.response(return_val)
            await self._memory.responses.aput(convert.request(prompt, llm_string), packed, scope=scope)
        except Exception as error:  # noqa: BLE001  as in ``update``
            self._failed("update", error)

    async def aclear(self, **kwargs: Any) -> None:
        """``clear`` off the event loop."""
        await asyncio.to_thread(self.clear, **kwargs)

    __reduce__ = open_again

    def _owner(self) -> str:
        return scope_of(self._memory, self._scope, fallback=type(self).__name__)

    def _failed(self, what: str, error: Exception) -> None:
        self.counts[f"{what}_failures"] += 1
        level = logging.INFO if isinstance(error, InvalidInput) else logging.WARNING
        _log.log(level, "model cache: %s failed, the model answers itself: %s", what, error)


def _opened(found: Any) -> RETURN_VAL_TYPE | None:
    return None if found is MISS else convert.generations(found)
