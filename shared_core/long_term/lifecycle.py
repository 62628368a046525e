"""The life of memories under a budget: which ones a sweep evicts, by the rule alone.

In long-term memory the prior of the rule is the effective importance (the forgetting curve).
"""

from __future__ import annotations

import numpy as np

from shared_core.eviction.victims import victims
from shared_core.long_term.decaying import effective
from shared_core.long_term.index import Floats, ScopeIndex
from shared_core.long_term.store import MemoryStore
from shared_core.records import Hit, SweepReport
from shared_core.scoring import attention, recency, rule
from shared_core.settings import Settings


def keep_parts(index: ScopeIndex, settings: Settings, now: float) -> dict[str, Floats]:
    """``alpha * recency`` and ``beta * attention`` of every memory, shape [n] each."""
    constants = settings.long_term
    age = now - index.floats("last_accessed")
    prior = effective(index, settings.decay, now)
    return rule.parts(
        recency(age, constants.time_scale),
        attention(prior, index.floats("evidence"), constants.evidence_weight),
        constants.alpha,
        constants.beta,
    )


def sweep(
    store: MemoryStore, *, scope: str, max_memories: int | None, max_bytes: int | None, dry_run: bool, now: float
) -> SweepReport:
    """Evict the lowest memories until the scope keeps to the bounds; pinned ones always stay.

    Victims are archived or deleted as ``Settings.victims`` says; ``dry_run`` only lists them.
    """
    with store.current(scope) as index:
        counted = index.mask("live") & index.mask("active")
        sizes = index.ints("size")
        over_items = 0 if max_memories is None else max(0, int(counted.sum()) - max_memories)
        over_bytes = 0 if max_bytes is None else max(0, int(sizes[counted].sum()) - max_bytes)
        parts = keep_parts(index, store.settings, now)
        chosen = victims(
            sum(parts.values(), np.zeros(index.n)), index.floats("last_accessed"), index.ints("row"), sizes,
            counted & ~index.mask("pinned"), items=over_items, size=over_bytes,
        )  # fmt: skip
        ids = [index.ids[position] for position in chosen]
        hits = []
        for position, memory in zip(chosen, store.rows.get(scope, ids), strict=True):
            if memory is not None:
                shares = {name: float(values[position]) for name, values in parts.items()}
                hits.append(Hit(memory, sum(shares.values()), shares))
        kept = int(counted.sum()) - len(chosen)
    if not dry_run and ids:
        if store.settings.victims == "delete":
            store.rows.delete(scope, ids)
        else:
            store.rows.set_status(scope, ids, "archived")
        store.count(evicted=len(ids))
    return SweepReport(tuple(hits), kept, dry_run)
