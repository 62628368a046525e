"""``TieredKVStore``: LlamaIndex's key-value interface over the memory's file. No rules: nothing expires.

Within bounds, what goes is decided by the core's ``mid_term/bounded.py``.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

from llama_index.core.storage.kvstore.types import DEFAULT_BATCH_SIZE, DEFAULT_COLLECTION, BaseKVStore

from llama_index_tiered_memory import events
from llama_index_tiered_memory.attach import Scope, address, attached, checked, scope_for
from llama_index_tiered_memory.convert import from_key, to_json_value, to_key
from shared_core import Blob, InvalidInput, TieredMemory

_log = logging.getLogger(__name__)
_NAMESPACE = "kv/"
_BORN = 0.0  # a stored document must not vanish because a clock was set back
_FALLBACK = "TieredKVStore"


class TieredKVStore(BaseKVStore):
    """Key-value store for document stores, index stores, ingestion and embedding caches.

    ``TieredKVStore(memory)``; written means durable, values go in and out as copies, keys are any text and
    collections are apart from each other. Values are dicts that JSON can carry (numpy numbers and arrays become
    numbers and lists); a damaged row is no value, logged and counted in ``counts``. Without a scope it uses the
    memory's default, else its class name: documents belong to no user. Pickles by path (a worker process opens the
    file itself) unless the memory is in ``":memory:"``.

    For caches: with ``max_items`` or ``max_bytes`` (of keys and values) each collection stays within the bound,
    whatever processes write it, and what is used least goes first: the rule, with the aged frequency of use as prior.
    A value larger than the bound is not stored. ``on_evict(collection, keys)`` is told what went; copies of the store
    in other processes are not told. Documents are not for a bounded store.
    """

    def __init__(
        self,
        memory: TieredMemory,
        *,
        scope: Scope = None,
        max_items: int | None = None,
        max_bytes: int | None = None,
        on_evict: Callable[[str, list[str]], None] | None = None,
    ) -> None:
        self._memory = checked(memory, scope, fallback=_FALLBACK)
        self._scope = scope
        self.counts: Counter[str] = Counter()
        self._bounds = {"max_items": max_items, "max_bytes": max_bytes}
        self._on_evict = on_evict
        bounded = max_items is not None or max_bytes is not None
        self._bounded = memory.bounded_blobs(**self._bounds, on_evict=self._evicted) if bounded else None

    def _evicted(self, scope: str, namespace: str, keys: list[str]) -> None:
        collection, gone = namespace.removeprefix(_NAMESPACE), [from_key(key) for key in keys]
        events.evicted(collection, scope, gone)
        if self._on_evict is not None:
            self._on_evict(collection, gone)

    def _where(self, collection: str) -> tuple[str, str]:
        if not isinstance(collection, str):
            raise InvalidInput(f"collection: expected a string, got {collection!r:.80}")
        return scope_for(self._memory, self._scope, fallback=_FALLBACK), _NAMESPACE + collection

    def put(self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION) -> None:
        """Store a value. InvalidInput if JSON cannot carry it."""
        self.put_all([(key, val)], collection)

    def put_all(
        self,
        kv_pairs: list[tuple[str, dict[str, Any]]],
        collection: str = DEFAULT_COLLECTION,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        """Store all pairs in one transaction, whatever the batch size; of equal keys the last wins.

        Within bounds, as if they were put one after another.
        """
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise InvalidInput(f"batch_size: expected a whole number of 1 or more, got {batch_size!r}")
        pairs = [(to_key(key), to_json_value(val)) for key, val in kv_pairs]
        if not pairs:
            return
        if self._bounded is not None:
            self._bounded.put(*self._where(collection), pairs)
        else:
            blobs = [Blob(key, value, _BORN) for key, value in pairs]
            self._memory.storage.blobs.put(*self._where(collection), blobs, durable=True)

    def get(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        """The value, or None."""
        keys = [to_key(key)]
        if self._bounded is None:
            return self._read(keys, collection)[0]
        return self._value(self._bounded.get(*self._where(collection), keys)[0])

    def get_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        """Every value of the collection by key, in the order of first writing; {} for an unknown collection.

        Not a use of any of them.
        """
        keys = self._memory.storage.blobs.keys(*self._where(collection), now=_BORN)
        values = zip(keys, self._read(keys, collection), strict=True)
        return {from_key(key): value for key, value in values if value is not None}

    def delete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        """Remove the key; return whether it was there."""
        return self._memory.storage.blobs.delete(*self._where(collection), [to_key(key)], durable=True) > 0

    def delete_all(self, collection: str = DEFAULT_COLLECTION) -> int:
        """Remove the whole collection in one transaction; return how many values it held."""
        return self._memory.storage.blobs.clear(*self._where(collection), durable=True)

    def _read(self, keys: list[str], collection: str) -> list[dict[str, Any] | None]:
        found = self._memory.storage.blobs.get(*self._where(collection), keys, now=_BORN)
        return [self._value(None if blob is None else blob.value) for blob in found]

    def _value(self, raw: bytes | None) -> dict[str, Any] | None:
        if raw is None:
            return None
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
        self.counts["unreadable_rows"] += 1
        _log.warning("a stored value cannot be read: it is as if there were none; put it anew")
        return None

    async def aput(self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION) -> None:
        """``put`` off the event loop."""
        await asyncio.to_thread(self.put, key, val, collection)

    async def aput_all(
        self,
        kv_pairs: list[tuple[str, dict[str, Any]]],
        collection: str = DEFAULT_COLLECTION,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        """``put_all`` off the event loop."""
        await asyncio.to_thread(self.put_all, kv_pairs, collection, batch_size)

    async def aget(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        """``get`` off the event loop."""
        return await asyncio.to_thread(self.get, key, collection)

    async def aget_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        """``get_all`` off the event loop."""
        return await asyncio.to_thread(self.get_all, collection)

    async def adelete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        """``delete`` off the event loop."""
        return await asyncio.to_thread(self.delete, key, collection)

    async def adelete_all(self, collection: str = DEFAULT_COLLECTION) -> int:
        """``delete_all`` off the event loop."""
        return await asyncio.to_thread(self.delete_all, collection)

    def __getstate__(self) -> dict[str, Any]:
        return {**address(self._memory, self._scope, fallback=_FALLBACK), **self._bounds}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept = {name: value for name, value in state.items() if name != "location"}
        self.__init__(attached(state["location"]), **kept)  # type: ignore[misc]

    def __copy__(self) -> Self:
        return type(self)(self._memory, scope=self._scope, **self._bounds, on_evict=self._on_evict)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()  # the values are in the file; a copy of the component reads the same ones
