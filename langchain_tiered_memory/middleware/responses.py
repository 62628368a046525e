"""``TieredResponseCacheMiddleware``: an agent's model answers through ``memory.responses``. No keys and no rules here.

The model of each call is seen through a class whose cache is ``TieredLLMCache``: LangChain asks it with the whole
request (messages, bound tools, settings, and whatever was recalled into it), and what becomes of an answer (a
structured response, a tool call) is made of a replayed one as of a fresh one.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import cached_property, lru_cache, partial
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel

from langchain_tiered_memory import views, wrapped
from langchain_tiered_memory.llm_cache import TieredLLMCache
from langchain_tiered_memory.owner import Named, Owner, given_name
from langchain_tiered_memory.turn_note import TieredMemoryState
from shared_core import TieredMemory, check_memory, open_again

_log = logging.getLogger(__name__)
_CACHE = "_tiered_memory_cache"


class TieredResponseCacheMiddleware(AgentMiddleware[TieredMemoryState, Any, Any]):
    """A model request that was answered before, in whatever process, is answered from the memory.

    A hit is a new message with an id of its own and the token counts of the first answer; its
    ``response_metadata["cache"]`` says that it is one. What hits saved is counted apart, in
    ``memory.stats()["mid_term"]["responses"]``. Truncated, refused and failed answers are not kept. A run that is
    streamed gets a replayed answer as one whole message. Where it stands in the list does not matter, as the model asks
    the memory when its request is final; but a middleware that asks a model of its own instead (``ModelFallbackMiddleware``)
    stands before it. ``scope``: a string, or a function of the runtime, called at each model call;
    None is the memory's default. A cache of the model's own is not asked. Failures are counted in ``counts``
    (``lookup_failures``, ``update_failures``); the model answers then. A model class of your own that is not serialisable
    is told by its class, ``model``, ``temperature`` and ``max_tokens``, and what its ``_identifying_params`` name: name
    there whatever else changes its answers. Models inside ``bind``, ``with_retry`` and ``with_fallbacks`` are seen, each
    by itself. What is no chat model (``init_chat_model`` with configurable fields, a sequence) is asked always: counted
    (``models_not_cached``), and the log says so once.
    """

    state_schema = TieredMemoryState

    def __init__(self, memory: TieredMemory, *, scope: Named = None, name: str | None = None) -> None:
        super().__init__()
        self._memory = check_memory(memory, scope)
        self._name = name or type(self).__name__
        self._owner = Owner(memory, self._name, scope=scope)
        self._told = False
        self.counts: Counter[str] = Counter()

    name = given_name
    __reduce__ = open_again

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Ask a model that asks the memory first."""
        return handler(self._cached(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """``wrap_model_call`` for an asynchronous agent; the cache is asked off the event loop."""
        return await handler(self._cached(request))

    def _cached(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        cache = TieredLLMCache(self._memory, scope=self._owner.scope(request.state, request.runtime))
        cache.counts = self.counts
        given: Any = request.model
        asking = wrapped.each_model(given, partial(self._asking_first, cache))
        return request if asking is given else request.override(model=asking)

    def _asking_first(self, cache: TieredLLMCache, model: Any) -> Any:
        if not isinstance(model, BaseChatModel):
            self.counts["models_not_cached"] += 1
            if not self._told:
                self._told = True
                _log.warning("responses are not cached: expected a chat model, got %s", type(model).__name__)
            return model
        try:
            return views.view(model, _asking(type(model)), _CACHE, cache)
        except Exception as error:  # noqa: BLE001  a model whose class cannot be derived from answers itself
            self.counts["lookup_failures"] += 1
            _log.warning("responses are not cached: %s cannot be seen through a subclass: %s", type(model), error)
            return model


@lru_cache(maxsize=32)
def _asking(kind: Any) -> Any:
    """A subclass whose cache is the one of the call."""
    members: dict[str, Any] = {"cache": property(lambda model: getattr(model, _CACHE))}
    settings = getattr(kind, "_serialized", None)
    if isinstance(settings, cached_property):
        # What LangChain's key says of the settings is kept by a model from its first call on: say it anew.
        members["_serialized"] = property(settings.func)
    if not kind.is_lc_serializable():

        def _get_llm_string(self: Any, stop: list[str] | None = None, **kwargs: Any) -> str:
            # LangChain's key says of such a model what its class chose to tell, often no more than what kind it is.
            own = kind._get_llm_string(self, stop=stop, **kwargs)  # noqa: SLF001
            traced = sorted(self._get_ls_params(stop=stop, **kwargs).items())
            return f"{own}---{kind.__module__}.{kind.__qualname__}---{traced}"

        members["_get_llm_string"] = _get_llm_string
    return views.kind_of(kind, _CACHE, members)
