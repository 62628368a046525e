"""``TieredNodeCache``: LangGraph's cache of node results in the memory's file. What is cached, and under which key
and for how long, is said by the ``CachePolicy`` of each node; here it is kept and handed back.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langgraph.cache.base import BaseCache, FullKey, Namespace
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langchain_tiered_memory.owner import Named, scope_of
from shared_core import Blob, InvalidInput, TieredMemory, check_memory, open_again

_log = logging.getLogger(__name__)
_PREFIX: Final = "langgraph/nodes/"
_WAIT_SECONDS: Final = 0.25  # for another writer; a result that would have to wait longer is not kept


class TieredNodeCache(BaseCache[Any]):
    """``graph.compile(cache=TieredNodeCache(memory))``: results survive the process; a row that is broken is a miss.

    Values go through LangGraph's serializer with its safe types alone: a row can name no other class. A value that
    would not come back as it is is not kept; ``serde`` is a serializer that knows more types. Failures of the storage
    are counted in ``counts`` and the node runs. ``scope`` is a string or a function without arguments; without one
    and without a default scope it is the class name.
    """

    def __init__(self, memory: TieredMemory, *, scope: Named = None, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=None))
        self._memory = check_memory(memory, scope)
        self._scope = scope
        self.counts: Counter[str] = Counter()

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
        """The values that are there, under the very keys that were asked for."""
        scope, now = self._owner(), self._memory.clock()
        found: dict[FullKey, Any] = {}
        for full in keys:
            try:
                (blob,) = self._memory.storage.blobs.get(scope, _place(full[0]), [full[1]], now=now)
                if blob is not None:
                    found[full] = self._load(blob.value)
            except Exception as error:  # noqa: BLE001  a cache that raises would fail the node
                self._failed("get", error)
        return found

    def set(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        """Keep the values; each lives its own number of seconds, None for ever."""
        scope, now = self._owner(), self._memory.clock()
        for (namespace, key), (value, ttl) in pairs.items():
            try:
                raw = self._dump(value)
                blob = Blob(key, raw, now, None if ttl is None else now + ttl)
                self._memory.storage.blobs.waiting(_WAIT_SECONDS).put(scope, _place(namespace), [blob])
            except Exception as error:  # noqa: BLE001  the node has run: its result must reach the graph
                self._failed("set", error)

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget the values of these namespaces, or all."""
        scope, blobs = self._owner(), self._memory.storage.blobs
        places = blobs.namespaces(scope, prefix=_PREFIX) if namespaces is None else map(_place, namespaces)
        for place in places:
            blobs.clear(scope, place)

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
        """``get`` off the event loop."""
        return await asyncio.to_thread(self.get, keys)

    async def aset(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        """``set`` off the event loop."""
        await asyncio.to_thread(self.set, pairs)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """``clear`` off the event loop."""
        await asyncio.to_thread(self.clear, namespaces)

    def _dump(self, value: Any) -> bytes:
        kind, raw = self.serde.dumps_typed(value)
        if self.serde.dumps_typed(self.serde.loads_typed((kind, raw))) != (kind, raw):
            raise InvalidInput("the value does not come back as it is; pass serde= that knows its types")
        return kind.encode() + b"\n" + raw

    def _load(self, stored: bytes) -> Any:
        kind, _, raw = stored.partition(b"\n")
        return self.serde.loads_typed((kind.decode(), raw))

    __reduce__ = open_again

    def _owner(self) -> str:
        return scope_of(self._memory, self._scope, fallback=type(self).__name__)

    def _failed(self, what: str, error: Exception) -> None:
        self.counts[f"{what}_failures"] += 1
        _log.warning("node cache: %s failed, the node runs: %s", what, error)


def _place(namespace: Namespace) -> str:
    return _PREFIX + json.dumps(list(namespace))
