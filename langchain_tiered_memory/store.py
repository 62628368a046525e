"""``TieredStore``: LangGraph's long-term store over the memory's file. Search by meaning is the core's recall.

Items are rows of their own, never recalled as memories: the text that makes them searchable lives in a scope
beside the user's. Conversions of items are in ``store_items.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from langchain_tiered_memory import store_items as items
from langchain_tiered_memory.owner import Named, scope_of
from langchain_tiered_memory.store_items import Record
from shared_core import Blob, DuplicateId, InvalidInput, TieredMemory, check_memory, open_again

_BORN: Final = 0.0  # a clock that is set back must not hide what was stored; the times of an item are in its record


class TieredStore(BaseStore):
    """``create_agent(store=TieredStore(memory))``: get, put, search, list and delete, in a scope.

    A batch reads the state before it and then writes, the last put of a key winning. Values go in and out as
    copies, and must be what JSON carries. An update keeps ``created_at``; times are aware UTC. Namespaces match by
    whole element. ``ttl`` is LangGraph's config, in minutes; what has expired is never returned. A search with a
    ``query`` ranks by the core's recall over the indexed fields (``fields``, "$" for the whole value; ``index=`` of
    a put overrides); without one, items come in the order of their first writing.
    """

    supports_ttl = True

    def __init__(
        self, memory: TieredMemory, *, scope: Named = None, ttl: TTLConfig | None = None, fields: Iterable[str] = ("$",)
    ) -> None:
        self._memory = check_memory(memory, scope)
        self._scope = scope
        self.ttl_config = ttl
        self._fields = [fields] if isinstance(fields, str) else list(fields)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run the operations; results in their order, None for a put."""
        asked = list(ops)
        for op in asked:
            validate_op_namespace(op)
        scope, now = scope_of(self._memory, self._scope), self._memory.clock()
        results: list[Result] = []
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        for op in asked:
            match op:
                case GetOp():
                    results.append(self._get(op, scope, now))
                case SearchOp():
                    results.append(self._search(op, scope, now))
                case ListNamespacesOp():
                    results.append(self._list(op, scope, now))
                case PutOp():
                    puts[(op.namespace, op.key)] = op
                    results.append(None)
                case _:
                    raise InvalidInput(f"batch: expected store operations, got {type(op).__name__}")
        records = [(op, self._record(op, scope, now)) for op in puts.values()]  # all is checked before any is written
        for op, record in records:
            self._put(op, record, scope, now)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """``batch`` off the event loop."""
        return await asyncio.to_thread(self.batch, list(ops))

    __reduce__ = open_again

    def _read(self, scope: str, namespace: tuple[str, ...], keys: list[str], now: float) -> dict[str, Record]:
        found = self._memory.storage.blobs.get(scope, items.place(namespace), keys, now=now)
        records = ((blob.key, items.record(blob.value)) for blob in found if blob is not None)
        return {key: record for key, record in records if record is not None}

    def _get(self, op: GetOp, scope: str, now: float) -> Item | None:
        record = self._read(scope, op.namespace, [op.key], now).get(op.key)
        if record is None:
            return None
        self._refresh(op.refresh_ttl, scope, op.namespace, {op.key: record}, now)
        return items.item(op.namespace, op.key, record)

    def _search(self, op: SearchOp, scope: str, now: float) -> list[SearchItem]:
        found: dict[tuple[tuple[str, ...], str], Record] = {}
        for namespace in self._namespaces(scope, op.namespace_prefix):
            keys = self._memory.storage.blobs.keys(scope, items.place(namespace), now=now)
            for key, record in self._read(scope, namespace, keys, now).items():
                if items.matches(record.value, op.filter):
                    found[(namespace, key)] = record
        scores = self._scores(op.query, op.namespace_prefix, scope) if op.query and found else {}
        names = sorted(found, key=lambda name: -scores.get(items.name(*name), float("-inf")))  # stable: unscored last
        chosen = names[op.offset : op.offset + op.limit]
        for namespace, key in chosen:
            self._refresh(op.refresh_ttl, scope, namespace, {key: found[(namespace, key)]}, now)
        return [items.search_item(*name, found[name], scores.get(items.name(*name))) for name in chosen]

    def _scores(self, query: str, prefix: tuple[str, ...], scope: str) -> dict[str, float]:
        count = len(self._memory.long_term.list(scope=self._beside(scope)))
        hits = self._memory.recall(query, scope=self._beside(scope), k=count, tags=[items.tag(prefix)]) if count else []
        return {hit.memory.id: hit.score for hit in hits}

    def _beside(self, scope: str) -> str:
        """Where the texts of a scope's items are searched: nobody's memories are there."""
        return self._memory.inner_scope("langgraph.store", scope=scope)

    def _list(self, op: ListNamespacesOp, scope: str, now: float) -> list[tuple[str, ...]]:
        found = {
            namespace
            for namespace in self._namespaces(scope, ())
            if items.fits(namespace, op.match_conditions)
            and self._memory.storage.blobs.keys(scope, items.place(namespace), now=now)
        }
        cut = {namespace[: op.max_depth] if op.max_depth is not None else namespace for namespace in found}
        return sorted(cut)[op.offset : op.offset + op.limit]

    def _namespaces(self, scope: str, prefix: tuple[str, ...]) -> list[tuple[str, ...]]:
        return [
            items.namespace(place) for place in self._memory.storage.blobs.namespaces(scope, prefix=items.place(prefix))
        ]

    def _record(self, op: PutOp, scope: str, now: float) -> Record | None:
        if op.value is None:
            return None
        before = self._read(scope, op.namespace, [op.key], now).get(op.key)
        return items.made(op.value, created=now if before is None else before.created, updated=now, ttl=op.ttl)

    def _put(self, op: PutOp, record: Record | None, scope: str, now: float) -> None:
        name, place = items.name(op.namespace, op.key), items.place(op.namespace)
        self._memory.long_term.forget(name, scope=self._beside(scope))
        if record is None:
            self._memory.storage.blobs.delete(scope, place, [op.key], durable=True)
            return
        self._write(scope, op.namespace, {op.key: record}, now)
        if op.index is False:
            return
        most = self._memory.settings.max_text_bytes
        text = items.text(record.value, self._fields if op.index is None else op.index, most_bytes=most)
        if not text:
            return
        tags = [items.tag(op.namespace[:i]) for i in range(len(op.namespace) + 1)]
        while True:
            try:  # pinned: the budget is for memories, and an item is there until it is deleted
                self._memory.remember(text, id=name, scope=self._beside(scope), role="item", tags=tags, pinned=True)
            except DuplicateId:  # another put of the same key came between: the later one's text stays
                self._memory.long_term.forget(name, scope=self._beside(scope))
            else:
                return

    def _write(self, scope: str, namespace: tuple[str, ...], records: dict[str, Record], now: float) -> None:
        blobs = [
            Blob(key, items.stored(record), _BORN, None if record.ttl is None else now + 60.0 * record.ttl)
            for key, record in records.items()
        ]
        self._memory.storage.blobs.put(scope, items.place(namespace), blobs, durable=True)

    def _refresh(
        self, asked: bool, scope: str, namespace: tuple[str, ...], records: dict[str, Record], now: float
    ) -> None:
        timed = {key: record for key, record in records.items() if record.ttl is not None}
        if asked and timed:
            self._write(scope, namespace, timed, now)
