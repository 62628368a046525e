"""Recall: the scored search, and the plain retrievals by one fact.

Collects the signals of a scope's memories, has them fused (``scoring/fusion.py``), and picks the best
under ``k`` and a token budget. Every hit counts as an access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from itertools import islice
from typing import cast

import numpy as np
import numpy.typing as npt

from shared_core.long_term.decaying import effective
from shared_core.long_term.hooks import reranked, rewritten, tokens_of
from shared_core.long_term.index import Floats, Ints, ScopeIndex
from shared_core.long_term.query import analyse, read_part
from shared_core.long_term.shown import mark
from shared_core.long_term.signals import signals_of, words_match
from shared_core.long_term.store import MemoryStore
from shared_core.long_term.view import View, visible
from shared_core.records import Hit, Memory
from shared_core.scoring.fusion import fuse, total
from shared_core.storage.base import Access
from shared_core.text import Signature, near_identical, share_of_word, signature, terms

RERANKED = 4
"""A reranker is handed this many times the hits that are asked for."""

_FURTHEST = 256  # how far past 4 k a recall looks for memories that fit and repeat nothing: its cost stays bounded
_FIRST_LOOK = 32  # rows fetched at once while looking for k hits that are no near-copies of each other


@dataclass(frozen=True, slots=True)
class _Found:
    """Candidates of one recall: positions, Shape [n], each part of their score and their cosines, Shape [n]."""

    positions: Ints
    parts: dict[str, Floats]
    cosines: Floats | None
    evidence: dict[str, float] = field(default_factory=dict)  # cosines by id, of those that were looked at


def recall(
    store: MemoryStore, query: str, *, scope: str, view: View, k: int, max_tokens: int | None, now: float
) -> list[Hit]:
    """The best ``k`` memories that ``view`` may see, best first, within ``max_tokens``.

    Whole memories only: one that does not fit is passed over for a shorter one further down.
    Of a near-identical group (same words, numbers and negation) the best stands for all.
    With ``Settings.rerank`` the best RERANKED times k are handed to it, and its order is the order.
    """
    if k == 0:
        return []
    query = read_part(rewritten(store, query))
    vector = store.vectors.of_query(query)
    with store.current(scope) as index:
        store.fill_vectors(scope, index)
        positions = np.flatnonzero(visible(index, view, scope, store.storage.logs))
        if view.where is not None:  # before anything is scored or cut, like every other filter
            everyone = _in_order(store, scope, index, positions, np.arange(len(positions)), step=_FURTHEST)
            positions = positions[[i for i, memory in everyone if view.where(memory)]]
        if not len(positions):
            return []
        found = _score(store, scope, index, positions, query, vector, now)
        order = _best_first(
            total(found.parts),
            index.floats("at")[index.where(positions)],
            index.ints("row")[index.where(positions)],
            _FURTHEST + 4 * k + len(view.shown),
        )
        candidates = _distinct(store, scope, index, found, order, view.shown)
        if store.settings.rerank is None:
            hits = _fitting(store, candidates, k, max_tokens)
            _note(store, scope, index, hits, found, now)
            return hits
        several = list(islice(candidates, RERANKED * k))
    hits = _fitting(store, reranked(store, query, several), k, max_tokens)  # nobody waits for a slow model
    with store.current(scope) as index:
        _note(store, scope, index, hits, found, now)
    return hits


def _best_first(scores: Floats, at: Floats, rows: Ints, most: int) -> Ints:
    """Indexes of the ``most`` best, best first; ties go to the later event, then to the earlier row."""
    some = np.arange(len(scores))
    if len(scores) > most:
        least = np.partition(scores, len(scores) - most)[len(scores) - most]
        some = np.flatnonzero(scores >= least)  # all ties of the last one are still in
    order: Ints = some[np.lexsort((rows[some], -at[some], -scores[some]))][:most]
    return order


def _score(
    store: MemoryStore,
    scope: str,
    index: ScopeIndex,
    positions: Ints,
    query: str,
    vector: npt.NDArray[np.float32] | None,
    now: float,
) -> _Found:
    cosines = None if vector is None else index.cosines(vector)[index.where(positions)]
    read = analyse(query, speakers=index.speakers, now=now, zone=cast(tzinfo, store.settings.zone))

    def texts_of(ids: Sequence[str]) -> list[str]:
        return [memory.text if memory else "" for memory in store.rows.get(scope, ids)]

    signals = signals_of(index, positions, read, cosines, texts_of=texts_of, settings=store.settings, now=now)
    return _Found(positions, fuse(signals, store.settings.recall), cosines)


def _distinct(
    store: MemoryStore, scope: str, index: ScopeIndex, found: _Found, order: Ints, already: frozenset[bytes]
) -> Iterator[Hit]:
    """The hits in order, without what is shown already and what nearly repeats a better one."""
    seen: dict[tuple[object, ...], list[Signature]] = {}
    if already:  # those that an earlier turn of the conversation read and passed over are not read again
        order = order[[index.marks.get(position) not in already for position in found.positions[order].tolist()]]
    for i, memory in _in_order(store, scope, index, found.positions, order):
        if already and (told := mark(memory.text)) in already:
            index.marks[int(found.positions[i])] = told
            continue
        own = signature(memory.text, literal=True)
        alike = seen.setdefault((memory.role, memory.speaker, own.exact), [])
        if any(near_identical(own, other) for other in alike):
            continue
        alike.append(own)
        parts = {name: float(values[i]) for name, values in found.parts.items()}
        if found.cosines is not None:
            found.evidence[memory.id] = float(found.cosines[i])
        yield Hit(memory, sum(parts.values()), parts)


def _fitting(store: MemoryStore, candidates: Iterable[Hit], k: int, max_tokens: int | None) -> list[Hit]:
    """The first ``k`` that fit the budget one after another."""
    hits: list[Hit] = []
    left = max_tokens
    for hit in candidates:
        if left is not None:
            cost = tokens_of(store, hit.memory.text)
            if cost > left:
                continue
            left -= cost
        hits.append(hit)
        if len(hits) == k or left == 0:
            break
    return hits


def _in_order(
    store: MemoryStore, scope: str, index: ScopeIndex, positions: Ints, order: Ints, *, step: int = _FIRST_LOOK
) -> Iterator[tuple[int, Memory]]:
    for start in range(0, len(order), step):
        some = order[start : start + step]
        rows = store.rows.get(scope, [index.ids[p] for p in positions[some]])
        for i, memory in zip(some, rows, strict=True):
            if memory is not None:
                yield int(i), _current(index, int(positions[i]), memory)


def _current(index: ScopeIndex, position: int, memory: Memory) -> Memory:
    """The memory with the read facts that are not written down yet."""
    return replace(
        memory,
        last_accessed=float(index.column("last_accessed")[position]),
        access_count=int(index.column("access_count")[position]),
    )


def _note(store: MemoryStore, scope: str, index: ScopeIndex, hits: Sequence[Hit], found: _Found, now: float) -> None:
    """Count the hits as accesses; how near each was to the query is its evidence."""
    accesses = []
    for hit in hits:
        cosine = found.evidence.get(hit.memory.id, np.nan)
        evidence = None if np.isnan(cosine) else min(max(cosine, 0.0), 1.0)
        accesses.append(Access(hit.memory.id, now, 1, evidence))
    store.seen(scope, index, accesses)
    store.count(recalls=1, recalled=len(hits))


def retrieve(
    store: MemoryStore, *, scope: str, limit: int, now: float, rank: Callable[[ScopeIndex, Ints], tuple[Floats, ...]],
    tags: tuple[str, ...] | None = None,
) -> list[Memory]:  # fmt: skip
    """The first ``limit`` live memories by ``rank``: columns, most important first, each highest first."""
    if limit == 0:
        return []
    with store.current(scope) as index:
        store.fill_vectors(scope, index)
        positions = np.flatnonzero(visible(index, View(tags=tags), scope, store.storage.logs))
        if not len(positions):
            return []
        columns = rank(index, positions)
        order = np.lexsort((-index.ints("row")[positions], *(-column for column in reversed(columns))))[:limit]
        memories = [memory for _, memory in _in_order(store, scope, index, positions, order)]
        store.seen(scope, index, [Access(memory.id, now, 1) for memory in memories])
        return memories


def by_recency(index: ScopeIndex, positions: Ints) -> tuple[Floats, ...]:
    """Last accessed first, then last written."""
    return index.floats("last_accessed")[positions], index.floats("created_at")[positions]


def by_importance(decay: float, now: float) -> Callable[[ScopeIndex, Ints], tuple[Floats, ...]]:
    """Effective importance: the stored one, less what the forgetting curve has taken by ``now``."""

    def rank(index: ScopeIndex, positions: Ints) -> tuple[Floats, ...]:
        return (effective(index, decay, now)[positions], *by_recency(index, positions))

    return rank


def by_similarity(
    vector: npt.NDArray[np.float32] | None, query: str
) -> Callable[[ScopeIndex, Ints], tuple[Floats, ...]]:
    """Cosine with the query; by its words alone where no model is."""

    def rank(index: ScopeIndex, positions: Ints) -> tuple[Floats, ...]:
        if vector is not None:
            return (np.nan_to_num(index.cosines(vector)[positions], nan=-1.0),)
        return (words_match(index, positions, {term: share_of_word(term) for term in terms(query)}),)

    return rank
