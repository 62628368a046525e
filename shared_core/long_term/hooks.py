"""The user's own rewriting of queries, reranking of hits, counting of tokens: called, checked, done without when they fail.

No score here, and no default: without a hook nothing changes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from shared_core.long_term.store import MemoryStore
from shared_core.records import Hit
from shared_core.text import counted_tokens, estimate_tokens

_log = logging.getLogger(__name__)


def rewritten(store: MemoryStore, query: str) -> str:
    """The query to recall with: what ``Settings.rewrite`` makes of it, if that is text."""
    rewrite = store.settings.rewrite
    if rewrite is None:
        return query
    try:
        found = rewrite(query)
        if not isinstance(found, str) or not found.strip():
            raise TypeError(f"expected a query, got {found!r:.100}")  # noqa: TRY301
    except Exception as error:  # noqa: BLE001 - whatever a hook raises, recall goes on without it
        store.count(rewrite_failures=1)
        _log.warning("the query could not be rewritten, it is taken as it is: %s", error)
        return query
    return found


def reranked(store: MemoryStore, query: str, hits: Sequence[Hit]) -> Sequence[Hit]:
    """The hits that ``Settings.rerank`` keeps, in its order; it decides on places, not on scores or parts.

    Each hit is taken once, and only those that it was given.
    """
    rerank = store.settings.rerank
    if rerank is None or not hits:
        return hits
    try:
        given = {hit.memory.id: hit for hit in hits}
        kept = dict.fromkeys(hit.memory.id for hit in rerank(query, list(hits)))
        return [given[id] for id in kept]
    except Exception as error:  # noqa: BLE001 - as above
        store.count(rerank_failures=1)
        _log.warning("the hits could not be reranked, they stay in the order of their scores: %r", error)
        return hits


def tokens_of(store: MemoryStore, text: str) -> int:
    """The text's tokens as ``Settings.count_tokens`` counts them; estimated if there is none, or it is no count."""
    count = store.settings.count_tokens
    if count is None:
        return estimate_tokens(text)
    try:
        return counted_tokens(count(text))
    except Exception as error:  # noqa: BLE001 - as above
        store.count(count_failures=1)
        _log.warning("Settings.count_tokens failed, the tokens of a text are estimated: %r", error)
        return estimate_tokens(text)
