"""``TieredRetriever``: recall behind LlamaIndex's retriever interface. No rules here."""

from __future__ import annotations

import asyncio
import copy
from typing import Any, Self

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters

from llama_index_tiered_memory import events
from llama_index_tiered_memory.attach import Scope, address, attached, checked, scope_for
from llama_index_tiered_memory.convert import metadata_of, to_node
from llama_index_tiered_memory.metadata_filters import predicate
from shared_core import InvalidInput, TieredMemory, arguments

_RECALL = ("tags", "session", "since", "until", "as_of", "max_tokens", "exclude", "where")


class TieredRetriever(BaseRetriever):
    """The memories that matter for a query as nodes, best first: ``TieredRetriever(memory=memory, k=8)``.

    ``filters`` are LlamaIndex's ``MetadataFilters`` on what a node's metadata show (a memory's own, and ``role``,
    ``speaker``, ``session``, ``tags``, ``at``, ``importance``, ``subject``), or a dict of further keywords of
    ``TieredMemory.recall``: tags, session, since, until, as_of, max_tokens, exclude, and ``where`` (a function of a
    memory, or MetadataFilters). All are applied in the search, not after it: ``k`` nodes that match come back.
    A copy reads the same memories; a pickle carries the file's path, the scope, ``k`` and the filters.
    """

    def __init__(
        self,
        *,
        memory: TieredMemory,
        scope: Scope = None,
        k: int = 8,
        filters: MetadataFilters | dict[str, Any] | None = None,
        **base: Any,
    ) -> None:
        super().__init__(**base)
        self._memory = checked(memory, scope)
        self._scope = scope
        self._k = arguments.count("k", k)
        self._given = filters
        self._filters = _keywords(filters)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        scope = scope_for(self._memory, self._scope)
        hits = self._memory.recall(query_bundle.query_str, scope=scope, k=self._k, **self._filters)
        events.recalled("TieredRetriever", scope, [hit.memory.id for hit in hits], self._filters.get("session"))
        return [to_node(hit) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)  # the memories are in the file, the same for both

    def __copy__(self) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {**address(self._memory, self._scope), "k": self._k, "filters": self._given}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept = {name: value for name, value in state.items() if name != "location"}
        self.__init__(memory=attached(state["location"]), **kept)  # type: ignore[misc]


def _keywords(filters: MetadataFilters | dict[str, Any] | None) -> dict[str, Any]:
    """The keywords of a recall."""
    if isinstance(filters, MetadataFilters):
        filters = {"where": filters}
    if filters is not None and not isinstance(filters, dict):
        raise InvalidInput(f"filters: expected MetadataFilters or a dict of keywords of recall, got {filters!r:.80}")
    keywords = dict(filters or {})
    unknown = [name for name in keywords if name not in _RECALL]
    if unknown:
        raise InvalidInput(
            f"filters: expected keywords of recall ({', '.join(_RECALL)}), got {unknown[0]!r}; "
            "filter by metadata with MetadataFilters"
        )
    asked = keywords.get("where")
    if isinstance(asked, MetadataFilters):
        matches = predicate(asked)
        keywords["where"] = lambda memory: matches(metadata_of(memory))
    return keywords
