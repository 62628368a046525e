"""The budget of a scope: who goes before a new memory is written. Facts in, ids out; no storage and no clock here.

The bound is kept in amortised constant time: a pass over all memories scores them once and evicts a
hundredth of the bound, so that the next hundredth of writes need no pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import compress

import numpy as np

from shared_core.eviction.victims import victims
from shared_core.long_term.index import Floats, Ints, Mask, ScopeIndex
from shared_core.records import Memory
from shared_core.scoring import attention, effective_importance, recency, rule
from shared_core.settings import DAY_SECONDS, Settings
from shared_core.storage.base import NewMemory


@dataclass(slots=True)
class Facts:
    """What the rule reads of some memories; every array has shape [n]. ``order`` is that of insertion."""

    importance: Floats
    last_accessed: Floats
    access_count: Floats
    evidence: Floats
    size: Ints
    order: Ints
    pinned: Mask

    @classmethod
    def of(cls, index: ScopeIndex, positions: Ints) -> Facts:
        """Copies of the facts at these positions of an index."""
        # Picked first and widened then: most of a tiny scope's columns may be gaps.
        return cls(
            importance=index.column("importance")[positions].astype(np.float64),
            last_accessed=index.floats("last_accessed")[positions],
            access_count=index.column("access_count")[positions].astype(np.float64),
            evidence=index.column("evidence")[positions].astype(np.float64),
            size=index.column("size")[positions].astype(np.int64),
            order=index.ints("row")[positions],
            pinned=index.mask("pinned")[positions],
        )

    def kept(self, mask: Mask) -> Facts:
        """The facts where ``mask`` holds."""
        return Facts(*(getattr(self, one.name)[mask] for one in fields(self)))

    def joined(self, other: Facts) -> Facts:
        """These and then the others."""
        return Facts(*(np.concatenate([getattr(self, one.name), getattr(other, one.name)]) for one in fields(self)))

    def lowest(self, scores: Floats, *, items: int, size: int) -> Ints:
        """Indexes of those that go, lowest first, so that this many memories and bytes are freed."""
        chosen = victims(scores, self.last_accessed, self.order, self.size, ~self.pinned, items=items, size=size)
        return chosen.astype(np.int64, copy=False)


def keep_parts(facts: Facts, settings: Settings, now: float) -> dict[str, Floats]:
    """``alpha * recency`` and ``beta * attention`` of every memory, shape [n] each.

    The prior of the rule is the effective importance: the stored one, less what the forgetting curve took.
    """
    constants = settings.long_term
    age = now - facts.last_accessed
    prior = effective_importance(facts.importance, age / DAY_SECONDS, facts.access_count, settings.decay)
    return rule.parts(
        recency(age, constants.time_scale),
        attention(prior, facts.evidence, constants.evidence_weight),
        constants.alpha,
        constants.beta,
    )


def size_of(item: NewMemory) -> int:
    """Bytes that a memory takes of the budget: those of its text and its vectors."""
    return len(item.memory.text.encode()) + len(item.vectors or b"")


class ScopeRoom:
    """Makes room for one write (``storage.base.Room``): each item as if it were written alone, in order."""

    def __init__(self, index: ScopeIndex, settings: Settings, now: float) -> None:
        """Take copies of what is known; ``index`` is current and locked by the caller."""
        positions = np.flatnonzero(index.mask("live") & index.mask("active"))
        self._facts = Facts.of(index, positions)
        self._ids = [index.ids[position] for position in positions]
        self._settings = settings
        self._now = now
        self._count, self._bytes = index.count, index.bytes
        self._stay: Mask | None = None  # which of the facts the last pass left; most writes need no second pass
        self._new: list[tuple[Memory, int]] = []
        self._changed: dict[str, Memory] = {}
        self.evicted = 0
        self.erases = settings.victims == "delete"

    @property
    def erased(self) -> bool:
        """Whether any were erased so far."""
        return self.erases and self.evicted > 0

    def make(self, item: NewMemory) -> Sequence[str]:
        """The ids to evict before this new memory is inserted; it counts from now on and is not among them."""
        size = size_of(item)
        items = _excess(self._count, 1, self._settings.max_memories)
        over = _excess(self._bytes, size, self._settings.max_bytes)
        gone = self._pass(items, over) if items or over else []
        self._new.append((item.memory, size))
        self._count += 1
        self._bytes += size
        return gone

    def strengthened(self, memory: Memory) -> None:
        """An item merged into this one: its facts are those of now."""
        self._changed[memory.id] = memory

    def _pass(self, items: int, size: int) -> list[str]:
        self._take_over()
        parts = keep_parts(self._facts, self._settings, self._now)
        chosen = self._facts.lowest(parts["recency"] + parts["attention"], items=items, size=size)
        gone = [self._ids[i] for i in chosen]
        self._stay = np.ones(len(self._ids), np.bool_)
        self._stay[chosen] = False
        self._count -= len(chosen)
        self._bytes -= int(self._facts.size[chosen].sum())
        self.evicted += len(gone)
        return gone

    def _take_over(self) -> None:
        """Bring what this write has done so far into the arrays."""
        if self._stay is not None:
            self._facts = self._facts.kept(self._stay)
            self._ids = list(compress(self._ids, self._stay))
            self._stay = None
        if self._new:
            first = int(self._facts.order.max(initial=0)) + 1
            memories = [memory for memory, _ in self._new]
            # As float32, like the index will hold it: the same memory scores the same in the next write.
            importance = np.array([memory.importance for memory in memories], np.float32).astype(np.float64)
            new = Facts(
                importance=importance,
                last_accessed=np.array([memory.last_accessed for memory in memories], np.float64),
                access_count=np.array([memory.access_count for memory in memories], np.float64),
                evidence=np.full(len(memories), np.nan),
                size=np.array([size for _, size in self._new], np.int64),
                order=np.arange(first, first + len(memories), dtype=np.int64),
                pinned=np.array([memory.pinned for memory in memories], np.bool_),
            )
            self._facts = self._facts.joined(new)
            self._ids += [memory.id for memory in memories]
            self._new = []
        if self._changed:
            for i, id in enumerate(self._ids):
                memory = self._changed.get(id)
                if memory is not None:
                    self._facts.last_accessed[i] = memory.last_accessed
                    self._facts.access_count[i] = memory.access_count
                    self._facts.pinned[i] = memory.pinned
            self._changed = {}


def needs_room(index: ScopeIndex, items: Sequence[NewMemory], settings: Settings) -> bool:
    """Whether these items could pass a bound of the scope. Constant cost: the index keeps count."""
    bytes_too = settings.max_bytes is not None and index.bytes + sum(map(size_of, items)) > settings.max_bytes
    return bytes_too or (settings.max_memories is not None and index.count + len(items) > settings.max_memories)


def _excess(held: int, size: int, bound: int | None) -> int:
    """How much has to go before something of ``size`` comes in; 0 while it fits."""
    if bound is None or held + size <= bound:
        return 0
    return held - (bound - max(1, bound // 100, size))
