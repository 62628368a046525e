"""Where the facts of the entries stand: one array per fact, one slot per entry. No rule, no lock, no key.

A cache writes one fact of one entry at a time, and reads all facts of all entries when it evicts.
So every column is a ``memoryview`` over an array: writing through it costs a fraction of a numpy item
assignment, and ``np.asarray`` turns it into the array again without a copy.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from shared_core import scoring
from shared_core.errors import InvalidInput
from shared_core.eviction.ghosts import Ghosts
from shared_core.eviction.policies import Entries

FREE: Final = 0
HELD: Final = 1
PINNED: Final = 2

_PENDING: Final = np.inf
"""Evidence that the attended task vector decides, once somebody asks."""

_COLUMNS: Final = {
    "last_accessed": "d",
    "inserted": "q",
    "uses": "d",
    "prior": "d",
    "evidence": "d",
    "size": "q",
    "state": "b",
    "proven": "b",
}
_FIRST_CAPACITY: Final = 16
_UNIT_LIMIT: Final = 1e100


class Slots:
    """Columns that grow by doubling, never past ``limit`` rows, and the list of free slots.

    A freed slot keeps its old facts; whoever reads a whole column leaves out the rows in state FREE.
    With ``by_frequency`` use counts age, and an entry whose prior is NaN has its frequency as prior.
    """

    last_accessed: memoryview[float]
    inserted: memoryview[int]
    uses: memoryview[float]
    prior: memoryview[float]
    evidence: memoryview[float]
    size: memoryview[int]
    state: memoryview[int]
    proven: memoryview[int]

    def __init__(self, limit: int, *, by_frequency: bool) -> None:
        self._limit = limit
        self._by_frequency = by_frequency
        self._unit = 1.0  # what one use weighs now (scoring/frequency.py); stays 1 where counts do not age
        self._growth_held, self._growth = 1, scoring.growth(1)
        self._ghosts = Ghosts() if by_frequency else None
        self._free: list[int] = []
        self._used = 0
        # Unit rows of shape [capacity, d], a row of NaN where there is none; None until the first one.
        self._embeddings: npt.NDArray[np.float32] | None = None
        self._task: npt.NDArray[np.float32] | None = None
        for name, code in _COLUMNS.items():
            setattr(self, name, np.zeros(0, dtype=code).data)

    def column(self, name: str) -> npt.NDArray[Any]:
        """One fact of all slots ever used, shape [n], sharing memory with the column."""
        return np.asarray(getattr(self, name))[: self._used]

    def take(self) -> int:
        """A slot for the caller to fill: a freed one, else the next."""
        if self._free:
            return self._free.pop()
        if self._used == len(self.state):
            self._grow()
        self._used += 1
        return self._used - 1

    def enter(self, slot: int, key: Hashable) -> None:
        """Start the use count of a new entry: at 0, or where it was when the key was evicted lately."""
        self.uses[slot] = 0.0
        if self._ghosts is not None:
            self.uses[slot], self.proven[slot] = self._ghosts.enter(key, self._held())

    def evict(self, slot: int, key: Hashable) -> None:
        """Give back the slot of an entry that the policy evicted, and keep its count for a while."""
        if self._ghosts is not None:
            self._ghosts.leave(key, self.uses[slot], self._held())
        self.release(slot)

    def _held(self) -> int:
        return self._used - len(self._free)

    def release(self, slot: int) -> None:
        """Give a slot back."""
        self.state[slot] = FREE
        self._free.append(slot)

    def touch(self, slot: int, now: float) -> None:
        """Note one access."""
        self.last_accessed[slot] = now
        self.uses[slot] += self._unit
        if self._by_frequency:
            held = self._held()
            if held != self._growth_held:
                self._growth_held, self._growth = held, scoring.growth(held)
            self._unit *= self._growth
            if self._unit > _UNIT_LIMIT:
                uses = self.column("uses")
                uses /= self._unit
                if self._ghosts is not None:
                    self._ghosts.rescale(1.0 / self._unit)
                self._unit = 1.0

    def entries(self, now: float) -> Entries:
        """All facts a policy may look at, rows in state FREE included."""
        counts = self.column("uses") / self._unit
        prior = self.column("prior")
        if self._ghosts is not None:
            by_use = scoring.frequency_prior(counts, self.column("proven"), self._ghosts.regret)
            prior = np.where(np.isnan(prior), by_use, prior)
        return Entries(
            now=now,
            last_accessed=self.column("last_accessed"),
            inserted=self.column("inserted"),
            access_count=counts,
            prior=prior,
            evidence=self._kept_evidence(),
        )

    # Embeddings and the evidence they give

    def embed(self, slot: int, unit: npt.NDArray[np.float32] | None) -> None:
        """Set or remove the embedding of a slot, and forget the evidence the old one gave."""
        self.evidence[slot] = np.nan
        if self._embeddings is None:
            if unit is None:
                return
            self._embeddings = np.full((len(self.state), len(unit)), np.nan, dtype=np.float32)
        self._embeddings[slot] = np.nan if unit is None else unit

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
        """The evidence column, shape [n], with every promise kept; NaN where there is no evidence."""
        evidence = self.column("evidence")
        if self._task is not None and self._embeddings is not None:
            cosines = scoring.cosine(self._embeddings[: self._used], self._task)
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

    def _grow(self) -> None:
        capacity = min(max(2 * self._used, _FIRST_CAPACITY), self._limit)
        for name, code in _COLUMNS.items():
            longer = np.zeros(capacity, dtype=code)
            longer[: self._used] = getattr(self, name)
            setattr(self, name, longer.data)
        if self._embeddings is not None:
            more = np.empty((capacity, self._embeddings.shape[1]), dtype=np.float32)
            more[: self._used] = self._embeddings
            self._embeddings = more
