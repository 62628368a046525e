"""The life of memories: which ones a sweep evicts, by their age and by the rule, and what a check finds.

How room is made on a write is in ``budget.py``; copying memories out and in is in ``transfer.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shared_core.long_term.budget import Facts, keep_parts
from shared_core.long_term.index import Mask, ScopeIndex
from shared_core.long_term.store import MemoryStore
from shared_core.records import CheckReport, Hit, SweepReport
from shared_core.settings import Retention
from shared_core.text import terms


def sweep(
    store: MemoryStore,
    *,
    scope: str,
    max_memories: int | None,
    max_bytes: int | None,
    retention: Sequence[Retention],
    dry_run: bool,
    now: float,
) -> SweepReport:
    """Evict what is older than its retention, then the lowest by the rule until the scope keeps to the bounds.

    Pinned ones always stay. Victims are archived or deleted as ``Settings.victims`` says; ``dry_run`` only
    lists them.
    """
    with store.current(scope) as index:
        positions = np.flatnonzero(index.mask("live") & index.mask("active"))
        facts = Facts.of(index, positions)
        parts = keep_parts(facts, store.settings, now)
        scores = sum(parts.values(), np.zeros(len(positions)))
        too_old = _too_old(index, retention, now)[positions] & ~facts.pinned
        stays = facts.kept(~too_old)
        over_items = 0 if max_memories is None else max(0, len(stays.order) - max_memories)
        over_bytes = 0 if max_bytes is None else max(0, int(stays.size.sum()) - max_bytes)
        too_many = stays.lowest(scores[~too_old], items=over_items, size=over_bytes)
        chosen = np.concatenate([np.flatnonzero(too_old), np.flatnonzero(~too_old)[too_many]])
        chosen = chosen[np.lexsort((facts.order[chosen], facts.last_accessed[chosen], scores[chosen]))]
        ids = [index.ids[position] for position in positions[chosen]]
    hits = []
    for i, memory in zip(chosen, store.found(scope, ids), strict=True):
        if memory is not None:
            shares = {name: float(values[i]) for name, values in parts.items()}
            hits.append(Hit(memory, sum(shares.values()), shares))
    if not dry_run and ids:
        store.count(evicted=store.rows.evict(scope, ids, erased=store.settings.victims == "delete"))
        store.erased(scope)
    return SweepReport(tuple(hits), len(positions) - len(ids), dry_run)


def _too_old(index: ScopeIndex, retention: Sequence[Retention], now: float) -> Mask:
    """The memories that are older than a retention that applies to them, shape [n]."""
    found: Mask = np.zeros(index.n, np.bool_)
    age = now - index.floats("created_at")
    for one in retention:
        old = age > one.seconds
        if one.tag is not None:
            tagged = np.zeros(index.n, np.bool_)
            tagged[list(index.tags.get(one.tag, ()))] = True
            old &= tagged
        found |= old
    return found


def check(store: MemoryStore) -> CheckReport:
    """What is wrong with the storage; nothing is changed."""
    memories, problems = store.storage.upkeep.check(index_terms)
    return CheckReport(memories, tuple(problems))


def rebuild_index(store: MemoryStore) -> CheckReport:
    """Cut every text's terms anew, drop broken vectors and make them again; what is still wrong afterwards."""
    store.storage.upkeep.mend(index_terms)
    store.fill_every_scope()
    return check(store)


def index_terms(text: str) -> str:
    """The index terms of a text as the storage holds them."""
    return " ".join(terms(text))
