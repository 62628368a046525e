"""Where the facts of the entries stand: one array per fact, one slot per entry. No rule, no lock, no key.

A cache writes one fact of one entry at a time, and reads all facts of all entries when it evicts.
So every column is a ``memoryview`` over an array: writing through it costs a fraction of a numpy item
assignment, and ``np.asarray`` turns it into the array again without a copy. A column that nobody has
needed yet (priors, evidence, use counts) does not exist, and costs nothing to write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from shared_core import scoring
from shared_core.errors import InvalidInput
from shared_core.eviction.ghosts import Ghosts
from shared_core.eviction.policies import Entries

_PENDING: Final = np.inf
"""Evidence that the attended task vector decides, once somebody asks."""

_EMPTY: Final = {
    "last_accessed": ("d", 0.0),
    "inserted": ("q", 0),
    "size": ("q", 0),
    "uses": ("d", 0.0),
    "prior": ("d", np.nan),
    "evidence": ("d", np.nan),
}
"""Each column with its type and what stands in a slot that nobody has written to."""

_FIRST_CAPACITY: Final = 128
_UNIT_LIMIT: Final = 1e100
_LONG_AGO: Final = -1e300


class Slots:
    """Columns that grow by doubling, never past ``limit`` rows, and the list of free slots.

    ``last_accessed`` and ``size`` are written by the cache, which takes a slot from the left of ``free`` and
    calls ``grow`` when it is empty. Slots are taken in the order in which they were given back, so each
    knows the number of its next insertion beforehand: ``inserted`` costs a new entry nothing, and a number
    not reached yet tells a free slot. It keeps its other facts: whoever reads a whole column leaves out
    the rows that are not ``evictable``. Slots may be taken without the lock of the owner; a queue that has run
    dry is replaced, not filled: who still has the old one finds nothing there.

    ``last_accessed`` is also written, and ``use`` called, without the lock of the owner: ``use`` is a run of
    bytecode without a call or a loop, which CPython does not interrupt where it has a global interpreter
    lock; at worst a use is lost.

    ``default_prior`` NaN stands for the frequency (``scoring/frequency.py``): use counts then age, and
    evicted keys leave ghosts. ``counts``: whether uses are counted at all. A count below 0 is that of an
    entry not proven yet: one column says both.
    """

    last_accessed: memoryview[float]
    inserted: memoryview[int]
    size: memoryview[int]
    uses: memoryview[float]
    prior: memoryview[float]
    evidence: memoryview[float]

    def __init__(self, limit: int, *, default_prior: float, counts: bool) -> None:
        self._limit = limit
        self._default_prior = default_prior
        self._unit = 1.0  # what one use weighs now (scoring/frequency.py); stays 1 where counts do not age
        self._growth = 1.0  # how much more the next use weighs than this one
        self._ghosts = Ghosts() if np.isnan(default_prior) else None
        self.counts = counts or self._ghosts is not None
        self.plain = True  # no entry ever had a prior or an embedding of its own
        self.free: deque[int] = deque()
        self._numbered = 0  # insertion numbers given out, those of the free slots included
        self.pinned: set[int] = set()
        self._capacity = 0
        # Unit rows of shape [capacity, d], a row of NaN where there is none; None until the first one.
        self._embeddings: npt.NDArray[np.float32] | None = None
        self._task: npt.NDArray[np.float32] | None = None
        self._columns = ["last_accessed", "inserted", "size"]
        if self.counts:
            self._columns.append("uses")
        for name in self._columns:
            self._begin(name)

    def column(self, name: str) -> npt.NDArray[Any]:
        """One fact of all slots, shape [n], sharing memory with the column."""
        return np.asarray(getattr(self, name))

    def _begin(self, name: str) -> None:
        code, empty = _EMPTY[name]
        column = np.zeros(self._capacity, dtype=code)
        if empty:
            column.fill(empty)
        setattr(self, name, column.data)

    # Coming and going

    def grow(self) -> int:
        """More free slots, the lowest first, where there is none; how many."""
        old, self._capacity = self._capacity, min(max(2 * self._capacity, _FIRST_CAPACITY), self._limit)
        for name in self._columns:
            shorter = getattr(self, name)
            self._begin(name)
            if old:
                getattr(self, name)[:old] = shorter
        if self._embeddings is not None:
            more = np.full((self._capacity, self._embeddings.shape[1]), np.nan, dtype=np.float32)
            more[:old] = self._embeddings
            self._embeddings = more
        self.column("inserted")[old:] = np.arange(self._numbered, self._numbered + self._capacity - old)
        self._numbered += self._capacity - old
        self.free = deque(range(old, self._capacity))
        return self._capacity - old

    def _queue(self, slots: Sequence[int]) -> None:
        """Queue free slots and number the insertions they wait for."""
        inserted, number = self.inserted, self._numbered
        for slot in slots:
            inserted[slot] = number
            number += 1
        self._numbered = number
        if self.free:
            self.free.extend(slots)
        else:
            self.free = deque(slots)

    def enter(self, slot: int, key: Hashable) -> None:
        """Count the first use of a new entry, on top of those it had when the key was evicted lately."""
        ghosts = self._ghosts
        if ghosts is None:
            self.uses[slot] = self._unit
            return
        held = self.held()
        if ghosts.began:
            uses = ghosts.enter(key, held)
            self.uses[slot] = -self._unit if uses is None else uses + self._unit
        else:  # what comes while there is still room need not compete
            self.uses[slot] = self._unit
        self._growth = scoring.growth(held)
        self._unit *= self._growth

    def evict(self, slots: Sequence[int], keys: Sequence[Hashable]) -> None:
        """Give back the slots of entries that the policy evicted, and keep their counts for a while."""
        self.release(slots)
        if self._ghosts is not None:
            self._ghosts.leave(keys, np.abs(self.column("uses")[slots]).tolist(), self.held())

    def release(self, slots: Sequence[int]) -> None:
        """Give slots back."""
        self.pinned.difference_update(slots)
        self._queue(slots)
        if self._ghosts is not None:
            self._growth = scoring.growth(self.held())

    def held(self) -> int:
        """How many slots are taken."""
        return self._capacity - len(self.free)

    def reclaim(self, held: AbstractSet[int]) -> int:
        """Free all slots but these, in a new queue; how many slots there are."""
        free = [slot for slot in range(self._capacity) if slot not in held]
        for slot in free:
            self.size[slot] = 0
        self.free, self._numbered = deque(), self._numbered - len(self.free)
        self.release(free)
        return self._capacity

    def evictable(self) -> npt.NDArray[np.bool_]:
        """Which slots hold an entry that is not pinned, shape [n]."""
        found: npt.NDArray[np.bool_] = self.column("inserted") < self._numbered - len(self.free)
        if self.pinned:
            found[list(self.pinned)] = False
        return found

    # What one access changes beside ``last_accessed``

    def use(self, slot: int) -> bool:
        """Count one more use of an entry; whether it is time to ``rescale``."""
        uses, unit = self.uses, self._unit
        used = uses[slot]
        uses[slot] = used + unit if used > 0.0 else unit - used
        self._unit = unit = unit * self._growth
        return unit > _UNIT_LIMIT

    def rescale(self) -> None:
        """Make a use weigh 1 again, if it weighs too much. Not without the lock of the owner."""
        unit = self._unit
        if unit > _UNIT_LIMIT:
            uses: memoryview[Any] = (self.column("uses") / unit).data
            if self._ghosts is not None:
                self._ghosts.rescale(1.0 / unit)
            # Into a new column, and both at once: a use that comes meanwhile, without the lock, may be lost, but is
            # never weighed in the old unit.
            self.uses, self._unit = uses, 1.0

    def describe(self, slot: int, prior: float | None, unit: npt.NDArray[np.float32] | None) -> None:
        """Set or remove the prior and the embedding of a slot, and forget the evidence the old one gave."""
        self.plain = False
        if prior is not None:
            self._need("prior")
        if "prior" in self._columns:
            self.prior[slot] = np.nan if prior is None else prior
        if unit is not None:
            self._need("evidence")
            if self._embeddings is None:
                self._embeddings = np.full((self._capacity, len(unit)), np.nan, dtype=np.float32)
        if self._embeddings is not None:
            self.evidence[slot] = np.nan
            self._embeddings[slot] = np.nan if unit is None else unit

    def _need(self, name: str) -> None:
        if name not in self._columns:
            self._begin(name)
            self._columns.append(name)

    # What a policy looks at

    def entries(self, now: float) -> Entries:
        """All facts a policy may look at, rows without an entry included.

        An instant that the clock could not tell (NaN, infinity) counts as long ago; it would spoil every score.
        """
        last_accessed = self.column("last_accessed")
        told = np.isfinite(last_accessed)
        if not told.all():
            last_accessed = np.where(told, last_accessed, _LONG_AGO)
        if not np.isfinite(now):
            now = float(last_accessed.max())
        counts = _throughout(0.0, self._capacity)
        if self.counts:
            counts = np.abs(self.column("uses")) / self._unit
        prior = _throughout(self._default_prior, self._capacity)
        if self._ghosts is not None:
            prior = scoring.frequency_prior(counts, ~np.signbit(self.column("uses")), self._ghosts.regret)
        if "prior" in self._columns:
            own = self.column("prior")
            prior = np.where(np.isnan(own), prior, own)
        return Entries(
            now=now,
            last_accessed=last_accessed,
            inserted=self.column("inserted"),
            access_count=counts,
            prior=prior,
            evidence=self._kept_evidence(),
        )

    # The evidence that embeddings give

    def attend(self, unit_task: npt.NDArray[np.float32]) -> None:
        """Promise every entry the cosine with this vector; ``entries`` keeps the promise."""
        if self._embeddings is not None:
            self._task = unit_task
            self.column("evidence")[:] = _PENDING

    def look(self, slot: int, unit_query: npt.NDArray[np.float32]) -> None:
        """Make the cosine with this vector the evidence of one entry, if it has an embedding."""
        if self._embeddings is not None:
            self.evidence[slot] = scoring.cosine(self._embeddings[slot : slot + 1], unit_query)[0]

    def _kept_evidence(self) -> npt.NDArray[np.float64]:
        """The evidence of all slots, shape [n], with every promise kept; NaN where there is no evidence."""
        if self._embeddings is None:
            return _throughout(np.nan, self._capacity)
        evidence = self.column("evidence")
        if self._task is not None:
            cosines = scoring.cosine(self._embeddings, self._task)
            np.copyto(evidence, cosines, where=evidence == _PENDING)
            self._task = None
        return evidence

    def check_dimension(self, name: str, vector: npt.NDArray[np.float32]) -> None:
        """InvalidInput if the vector cannot be compared with the embeddings; the first one set the dimension."""
        if self._embeddings is not None and len(vector) != self._embeddings.shape[1]:
            raise InvalidInput(
                f"{name}: expected {self._embeddings.shape[1]} dimensions like the embeddings held, got {len(vector)}; "
                "use one embedding model per cache, or clear() it first"
            )


def _throughout(value: float, count: int) -> npt.NDArray[np.float64]:
    """One value for all, shape [count], in the memory of one; to be read only (``np.broadcast_to`` is slow)."""
    return np.ndarray((count,), np.float64, np.array([value]), strides=(0,))
