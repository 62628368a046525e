"""Keyed bytes within bounds, in the memory's file: what goes for a new one is decided by the rule. No values here.

The facts stand in the storage and the decision is made within the write, so the bounds hold over processes and
restarts. The prior is the aged frequency of ``scoring/frequency.py``; what was evicted lately, by which newcomers
are judged, each process knows of itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from shared_core import scoring
from shared_core.errors import TieredMemoryError, open_again
from shared_core.eviction import arguments
from shared_core.eviction.ghosts import Ghosts
from shared_core.eviction.policies import Entries, attention_lru
from shared_core.eviction.victims import excess, victims
from shared_core.forks import renew_in_child
from shared_core.mid_term.rows import WAIT_SECONDS
from shared_core.settings import Rule
from shared_core.storage.base import Blob, Blobs
from shared_core.storage.bounded import Admission, Held, Place, Use

_UNIT_LIMIT = 1e100
_WAITING = 64  # reads that wait in memory for the next write; more are written down on their own
_WAITING_SECONDS = 30.0  # so do those that waited as long: another process may be choosing what goes
_ALWAYS = 0.0  # nothing here expires, and a clock that is set back must not hide what was stored


class BoundedBlobs:
    """``get`` and ``put`` on namespaces that each hold at most ``max_items`` blobs and ``max_bytes`` bytes.

    Bytes are those of keys and values. Before a put that would pass a bound the lowest go, as in
    ``AttentionLRUCache``; a blob larger than the bound is not stored and evicts nothing, and an older one under its
    key goes, since it would be stale. ``on_evict(scope, namespace, keys)`` is called after a write that evicted.
    Reads are noted with the next write, every 64 reads or 30 seconds, and by ``flush``; a writer that holds the file
    delays none by more than a quarter of a second, and those by nothing that follow. Raises InvalidInput,
    StorageError.
    """

    def __init__(
        self,
        blobs: Blobs,
        *,
        rule: Rule,
        clock: Callable[[], float],
        max_items: int | None = None,
        max_bytes: int | None = None,
        on_evict: Callable[[str, str, list[str]], None] | None = None,
    ) -> None:
        self._blobs = blobs
        self._clock = clock
        self._rule = rule
        self._max_items = arguments.bound("max_items", max_items)
        self._max_bytes = arguments.bound("max_bytes", max_bytes)
        self._on_evict = on_evict
        self._stalled = False  # another writer held the file when reads were noted last
        self._forget_reads()
        self._lately: dict[tuple[str, str], _Lately] = {}
        renew_in_child(self)

    __reduce__ = open_again

    def _forget_reads(self) -> None:
        self._lock = threading.Lock()
        self._reads: dict[tuple[str, str], dict[str, tuple[int, float]]] = {}
        self._waiting, self._since = 0, float("inf")

    def after_fork_in_child(self) -> None:
        """A lock of our own; the parent notes what it read."""
        self._forget_reads()

    def get(self, scope: str, namespace: str, keys: Sequence[str]) -> list[bytes | None]:
        """The values in order, None where there is none; each is an access."""
        found = self._blobs.get(scope, namespace, keys, now=_ALWAYS)
        now = self._clock()
        with self._lock:
            reads = self._reads.setdefault((scope, namespace), {})
            for blob in found:
                if blob is not None:
                    reads[blob.key] = (reads.get(blob.key, (0, now))[0] + 1, now)
                    self._waiting += 1
                    self._since = min(self._since, now)
            due = self._waiting >= _WAITING or now - self._since >= _WAITING_SECONDS
        if due:
            self.flush()
        return [None if blob is None else blob.value for blob in found]

    def put(self, scope: str, namespace: str, pairs: Sequence[tuple[str, bytes]]) -> list[str]:
        """Store the pairs one after another, in one durable transaction; the keys that went for them."""
        self._note(scope, namespace)
        blobs = [Blob(key, value, _ALWAYS) for key, value in pairs]
        room = _Room(self, self._lately.setdefault((scope, namespace), _Lately()), self._clock())
        gone = self._blobs.put_within(scope, namespace, blobs, room, durable=True)
        if gone and self._on_evict is not None:
            self._on_evict(scope, namespace, gone)
        return gone

    def flush(self) -> None:
        """Note the reads that wait. A storage that cannot be written loses them, and nothing else."""
        with self._lock:
            places, self._since = list(self._reads), float("inf")
        for scope, namespace in places:
            self._note(scope, namespace)

    def _note(self, scope: str, namespace: str) -> None:
        with self._lock:
            reads = self._reads.pop((scope, namespace), {})
            self._waiting -= sum(times for times, _ in reads.values())
        try:
            if reads:
                hurried = self._blobs.waiting(0.0 if self._stalled else WAIT_SECONDS)
                hurried.use(scope, namespace, reads, _Room(self, _Lately(), self._clock()))
                self._stalled = False
        except (TieredMemoryError, OSError):  # they are hints of what to keep
            self._stalled = True

    def _victims(
        self, held: list[Held], place: Place, lately: _Lately, now: float, items: int, size: int
    ) -> list[Held]:
        """The lowest of those held, lowest first, so that this many items and bytes are freed."""
        use = [one.use for one in held]
        counts = _aged(use, place)
        entries = Entries(
            now=now,
            last_accessed=np.array([max(one.last_accessed, -1e300) for one in use]),
            inserted=np.array([one.order for one in held], np.int64),
            access_count=counts,
            prior=scoring.frequency_prior(
                counts, np.array([one.proven for one in use], np.bool_), lately.ghosts.regret
            ),
            evidence=np.full(len(held), np.nan),
        )
        sizes = np.array([one.size for one in held], np.int64)
        chosen = victims(
            attention_lru(entries, rule=self._rule), entries.last_accessed, entries.inserted, sizes,
            np.ones(len(held), np.bool_), items=items, size=size,
        )  # fmt: skip
        weights = (counts[chosen] * lately.unit(place)).tolist()
        lately.ghosts.leave([held[i].key for i in chosen], weights, len(held) - len(chosen))
        return [held[i] for i in chosen]


class _Lately:
    """What was evicted lately, with counts in a unit that grows with each access instead of every count ageing."""

    def __init__(self) -> None:
        self.ghosts = Ghosts()
        self._since: int | None = None

    def unit(self, place: Place) -> float:
        """What one use weighs now."""
        since = place.accesses if self._since is None else self._since
        unit: float = scoring.growth(place.items) ** min(place.accesses - since, 9_000 * (place.items or 1))
        if unit > _UNIT_LIMIT:
            self.ghosts.rescale(1.0 / unit)
            since, unit = place.accesses, 1.0
        self._since = since
        return unit


class _Room:
    """``storage.bounded.BlobRoom`` for one call, at one time."""

    def __init__(self, bounds: BoundedBlobs, lately: _Lately, now: float) -> None:
        self._bounds, self._lately, self._now = bounds, lately, now

    def admit(self, place: Place, key: str, size: int) -> Admission | None:
        """What goes for the blob; None if it is larger than the bound."""
        bounds = self._bounds
        if size > bounds._max_bytes:  # noqa: SLF001  one idea in two classes
            return None
        old = place.find(key)
        items, nbytes = place.items, place.bytes
        if old is not None:  # an overwrite: its old size is free, and it is not its own victim
            items, nbytes = items - 1, nbytes - old.size
        more = excess(items, 1, bounds._max_items)  # noqa: SLF001
        over = excess(nbytes, size, bounds._max_bytes)  # noqa: SLF001
        gone: list[Held] = []
        if more or over:
            others = [one for one in place.held() if one.key != key]
            gone = bounds._victims(others, place, self._lately, self._now, more, over)  # noqa: SLF001
        if old is not None:
            return Admission(tuple(one.key for one in gone), self.used(place, old, 1, self._now))
        ghosts = self._lately.ghosts
        earlier = ghosts.enter(key, items - len(gone) + 1) if ghosts.began else None
        count = 1.0 if earlier is None else 1.0 + earlier / self._lately.unit(place)
        use = Use(self._now, count, place.accesses + 1, proven=earlier is not None or not ghosts.began)
        return Admission(tuple(one.key for one in gone), use)

    def used(self, place: Place, held: Held, times: int, at: float) -> Use:
        """The use after it was read, or put again."""
        count = float(_aged([held.use], place)[0]) + times
        return Use(max(held.use.last_accessed, at), count, place.accesses + times, proven=True)


def _aged(uses: list[Use], place: Place) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The counts as they weigh now, shape [n]: each access to the namespace made those before it weigh less."""
    since = 1.0 + place.accesses - np.array([use.access for use in uses], np.float64)
    counts: np.ndarray[tuple[int], np.dtype[np.float64]] = np.array([use.count for use in uses], np.float64)
    return counts * scoring.growth(place.items) ** -since
