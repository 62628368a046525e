"""``TieredRetriever``: memories as documents, for retrieval chains. Ranking is the core's recall."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field, SkipValidation

from langchain_tiered_memory import convert
from langchain_tiered_memory.owner import Named, check_fields, scope_of
from shared_core import TieredMemory


class TieredRetriever(BaseRetriever):
    """The ``k`` memories that matter for a query, best first: ``TieredRetriever(memory=memory, k=8)``.

    ``invoke(query, k=…)`` asks for another number. A document's text is the memory's; its metadata hold the
    memory's own, and ``score``, ``parts``, ``role``, ``speaker``, ``session``, ``tags``, ``at``, ``importance``.
    ``scope`` is a string or a function without arguments; ``session`` is the viewpoint of a recall. Documents are
    fresh at every call.
    """

    model_config = ConfigDict(extra="forbid")

    memory: SkipValidation[TieredMemory] = Field(exclude=True)
    scope: SkipValidation[Named] = Field(default=None, exclude=True)
    session: str | None = None
    k: int = Field(default=8, ge=0)

    if not TYPE_CHECKING:  # a type checker reads the fields

        def __init__(self, *given: Any, **fields: Any) -> None:
            check_fields(type(self).__name__, given, fields)
            super().__init__(**fields)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002
        k: int | None = None,
    ) -> list[Document]:
        return [convert.document(hit) for hit in self.memory.recall(query, **self._asked(k))]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002
        k: int | None = None,
    ) -> list[Document]:
        return [convert.document(hit) for hit in await self.memory.arecall(query, **self._asked(k))]

    def _asked(self, k: int | None) -> dict[str, Any]:
        return {"k": self.k if k is None else k, "session": self.session, "scope": scope_of(self.memory, self.scope)}
