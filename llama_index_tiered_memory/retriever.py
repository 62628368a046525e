"""``TieredRetriever``: recall behind LlamaIndex's retriever interface. No rules here."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_tiered_memory import events
from llama_index_tiered_memory.attach import Scope, checked, scope_for
from llama_index_tiered_memory.convert import to_node
from shared_core import TieredMemory


class TieredRetriever(BaseRetriever):
    """The memories that matter for a query as nodes, best first: ``TieredRetriever(memory=memory, k=8)``.

    ``filters`` are further keywords of ``TieredMemory.recall``: tags, session, since, until, as_of, max_tokens,
    exclude. They are applied in the search, not after it.
    """

    def __init__(
        self,
        *,
        memory: TieredMemory,
        scope: Scope = None,
        k: int = 8,
        filters: dict[str, Any] | None = None,
        **base: Any,
    ) -> None:
        super().__init__(**base)
        self._memory = checked(memory, scope)
        self._scope = scope
        self._k = k
        self._filters = dict(filters or {})

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        scope = scope_for(self._memory, self._scope)
        hits = self._memory.recall(query_bundle.query_str, scope=scope, k=self._k, **self._filters)
        events.recalled("TieredRetriever", scope, [hit.memory.id for hit in hits], self._filters.get("session"))
        return [to_node(hit) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)
