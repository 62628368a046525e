"""The bounded, thread-safe container that runs the policies. No expiry, no keys' meaning, no disk here.

Every fact an eviction needs stands in ``slots``; reading or writing an entry costs a dict look-up and
a few scalar writes, and scores are computed only when something has to go. ``get`` and ``put`` are written
out where a call would cost as much as the step itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from shared_core.errors import InvalidInput
from shared_core.eviction import arguments
from shared_core.eviction.policies import KeepScore, named
from shared_core.eviction.readings import Readings
from shared_core.eviction.slots import Slots
from shared_core.eviction.values import IMMUTABLE, copy_value, deep_size
from shared_core.eviction.victims import excess, victims
from shared_core.forks import renew_in_child
from shared_core.records import MISS
from shared_core.settings import Rule

Evicted = list[tuple[Hashable, Any]]


class AttentionLRUCache:
    """A dict-like cache bounded in entries, in bytes, or both, that keeps what is fresh and what matters.

    **Bounds.** Before a ``put`` that would pass a bound, the lowest entries already there are evicted,
    down to ``bound - max(1, bound // 100, size of the new entry)`` (entries have size 1 under
    ``max_items``); the newcomer is never its own victim. An entry larger than ``max_bytes`` is not
    stored and evicts nothing. Pinned entries are never evicted; where they leave no room, the new entry
    is not stored and nothing is evicted. The size of an entry is ``getsizeof(value)`` plus 4 bytes for
    each dimension of its embedding, measured when it is put (that of an immutable value under ``max_items`` alone when
    ``bytes`` is asked for); keys and bookkeeping come on top.

    **Rule.** ``alpha``, ``beta``, ``time_scale`` (seconds) and ``evidence_weight`` as in
    ``settings.Rule``. ``default_prior`` in [0, 1] is the prior of entries put without one;
    ``"frequency"`` gives them their aged access frequency instead (``scoring/frequency.py``), and then
    access counts age for every policy. ``policy`` is ``"attention_lru"``, ``"lru"``, ``"lfu"``,
    ``"fifo"`` or ``"random"`` (repeatable by ``seed``).

    **Values.** Keys are compared as in a dict. Values are copied in and out by ``copy``; ``copy=None``
    keeps and gives the very object. ``on_evict`` is called once for each pass with the list of evicted
    (key, value) pairs, lowest first, after the new entry is in and without the lock: it may use the
    cache, and what it raises reaches the caller of ``put`` with the cache in order.

    **Time** is ``clock()``, read once a call; NaN counts as long ago. All calls are thread-safe, and code of
    a key or value that runs inside one (``__eq__``, ``__del__``) may call the cache: values that go are
    dropped outside the lock, and a change asked for in the middle of another returns True at once and is made
    when that one has ended. An empty cache is true. InvalidInput (a ValueError) for arguments that make no sense; nothing was changed then.
    """

    def __init__(
        self,
        max_items: int | None = None,
        max_bytes: int | None = None,
        *,
        alpha: float = 0.4,
        beta: float = 0.6,
        time_scale: float = 300.0,
        evidence_weight: float = 0.25,
        default_prior: float | str = 0.5,
        clock: Callable[[], float] = time.time,
        policy: str = "attention_lru",
        seed: int = 0,
        getsizeof: Callable[[Any], int] = deep_size,
        copy: Callable[[Any], Any] | None = copy_value,
        on_evict: Callable[[Evicted], None] | None = None,
    ) -> None:
        if max_items is None and max_bytes is None:
            raise InvalidInput("AttentionLRUCache: expected max_items, max_bytes or both, got neither")
        self._max_items = arguments.bound("max_items", max_items)
        self._max_bytes = arguments.bound("max_bytes", max_bytes)
        rule = Rule(alpha=alpha, beta=beta, time_scale=time_scale, evidence_weight=evidence_weight)
        self._keep_score: KeepScore = named(policy, rule=rule, rng=np.random.default_rng(seed))
        share = np.nan if default_prior == "frequency" else arguments.share("default_prior", default_prior)
        self._new_slots = partial(Slots, self._max_items, default_prior=share, counts=policy == "lfu")
        self._clock = clock
        self._readings = Readings(clock)
        self._times = self._readings.times  # read once for each hit that ``get`` finds without the lock
        self._getsizeof = getsizeof
        self._copy = copy
        # Types whose values the default copy gives back as they are, and the default size looks no deeper into.
        self._shared = IMMUTABLE if copy is copy_value else frozenset()
        self._flat = IMMUTABLE - {type(MISS)} if getsizeof is deep_size and copy in (None, copy_value) else frozenset()
        # Without a bound of bytes nobody needs the size of a value of those types until it is asked for.
        self._measures = max_bytes is not None
        self._on_evict = on_evict
        self._as_they_are = True  # no value was ever put that has to be copied on its way out
        # Taken and given back by hand where it counts: ``with`` costs twice as much as the two calls.
        self._own_lock()
        self._reset()
        self._counts = dict.fromkeys(("hits", "misses", "evictions", "too_large", "no_room", "uncacheable"), 0)

        renew_in_child(self)

    def _own_lock(self) -> None:
        self._lock = threading.RLock()
        self._acquire, self._release = self._lock.acquire, self._lock.release
        self._changing = False  # seen True by whom the lock lets in all the same: code that a change itself runs
        self._later: list[Callable[[], Any]] = []

    def after_fork_in_child(self) -> None:
        """Start empty, with a lock of our own: another thread may have been in the middle of a change."""
        self._own_lock()
        self._reset()

    def _reset(self) -> None:
        self._index: dict[Hashable, int] = {}
        self._era = object()  # another one after keys have left the index, and before their slots are taken anew
        self._slots = self._new_slots()
        room = self._slots.grow()
        self._keys: list[Hashable] = [None] * room
        self._values: list[Any] = [None] * room
        self._bytes = 0

    # Reading

    def get(self, key: Hashable, query_vector: npt.ArrayLike | None = None) -> Any:
        """The value, or ``MISS``. Counts as an access; a query vector becomes the entry's evidence."""
        if query_vector is not None:
            return self._look(key, query_vector)
        # A hit takes no lock. It stands on the global interpreter lock of CPython, under which one look-up in a dict
        # or a list, one ``next`` of an iterator in C and one store into a memoryview are each indivisible; other
        # threads may do anything between two of them. A slot gets another key's value only in a later era, so
        # a value read within one era is the key's own.
        era = self._era
        try:
            slot = self._index[key]
            value = self._values[slot]
        except LookupError:  # a miss; or cleared in between
            return self._look(key)
        if self._era is not era:
            return self._look(key)
        now = next(self._times)
        slots = self._slots
        # Should the slot have changed hands by now, its new entry looks fresher, or more used, by one access.
        try:
            slots.last_accessed[slot] = now
            if slots.counts and slots.use(slot):
                with self._lock:
                    slots.rescale()
        except IndexError:  # cleared in between: nothing is left to stamp
            pass
        if self._as_they_are or self._copy is None or type(value) in self._shared:
            return value
        return self._copy(value)

    def _look(self, key: Hashable, query_vector: npt.ArrayLike | None = None) -> Any:
        """``get`` with the lock, for what is more than a hit."""
        query = None if query_vector is None else arguments.unit_vector("query_vector", query_vector)
        now = self._clock()
        self._acquire()
        inside, self._changing = self._changing, True
        try:
            slots = self._slots
            if query is not None:
                slots.check_dimension("query_vector", query)
            slot = self._index.get(key)
            if slot is None:
                self._counts["misses"] += 1
                return MISS
            self._counts["hits"] += 1
            slots.last_accessed[slot] = now
            if slots.counts and slots.use(slot):
                slots.rescale()
            if query is not None:
                slots.look(slot, query)
            value = self._values[slot]
        finally:
            self._changing = inside
            self._release()
            if self._later and not inside:
                self._catch_up()
        # Outside the lock: nobody changes what is stored, and a slow copy holds nobody up.
        if self._as_they_are or self._copy is None or type(value) in self._shared:
            return value
        return self._copy(value)

    def attend(self, task_vector: npt.ArrayLike) -> None:
        """Make the cosine with the task vector the evidence of every entry now here that has an embedding.

        Not an access. The product itself waits for the next eviction, and is skipped if another task
        comes first; the outcome is the same. Later puts have no evidence yet.
        """
        task = arguments.unit_vector("task_vector", task_vector)

        def attended() -> None:
            self._slots.check_dimension("task_vector", task)
            self._slots.attend(task)

        self._alone(attended)

    # Writing

    def put(  # noqa: PLR0915  one hot path, written out
        self, key: Hashable, value: Any, embedding: npt.ArrayLike | None = None, prior: float | None = None
    ) -> bool:
        """Store the value; False if it is not stored: too large, no room beside pins, not copyable.

        Putting a key again replaces value, size, embedding and prior and forgets the evidence; the entry
        keeps its place in the insertion order, its pin, and its access count, to which the put adds.
        If the new value is not stored, the old one goes all the same: it would be stale.
        """
        unit = None if embedding is None else arguments.unit_vector("embedding", embedding)
        if prior is not None:
            prior = arguments.share("prior", prior)
        gone: Any = None  # whatever leaves is held until the lock is free: its __del__ may call the cache
        if type(value) in self._flat:
            # What sys.getsizeof says of these types, at a quarter of its price.
            size = value.__sizeof__() if self._measures else 0
        else:
            try:
                value = value if self._copy is None else self._copy(value)
            except Exception:  # noqa: BLE001  the value's own code runs here; whatever it raises means "cannot be cached"
                with self._lock:
                    self._counts["uncacheable"] += 1
                gone = self._alone(partial(self._drop, key))
                return False
            if self._copy is not None and type(value) not in self._shared:
                self._as_they_are = False
            size = arguments.size(self._getsizeof(value))
        if unit is not None:
            size += unit.nbytes
        now = self._clock()
        evicted = None
        self._acquire()
        if self._changing:
            self._later.append(partial(self.put, key, value, embedding, prior))
            self._release()
            return True
        try:
            self._changing = True
            slots = self._slots
            if unit is not None:
                slots.check_dimension("embedding", unit)
            slot = self._index.get(key)
            new = slot is None
            if slot is None:
                added = size
                if self._bytes + added > self._max_bytes or not slots.free:
                    evicted = self._make_room(size, None, now)
                    if evicted is None:
                        return False
                slot = slots.free.popleft()
                self._keys[slot] = key
                self._values[slot] = value
                if slots.counts:
                    slots.enter(slot, key)
            else:
                added = size - slots.size[slot]
                if self._bytes + added > self._max_bytes:
                    evicted = self._make_room(size, slot, now)
                    if evicted is None:
                        gone = self._drop(key)
                        return False
                gone, self._values[slot] = self._values[slot], value
                if slots.counts and slots.use(slot):
                    slots.rescale()
            if added:
                slots.size[slot] = size
                self._bytes += added
            slots.last_accessed[slot] = now
            if prior is not None or unit is not None or not slots.plain:
                slots.describe(slot, prior, unit)
            if new:
                try:
                    self._index[key] = slot  # last of all: from here on readers find it
                except BaseException:  # a key that cannot be compared: its slot is the next again
                    self._keys[slot] = self._values[slot] = None
                    self._bytes -= size
                    slots.size[slot] = 0
                    slots.free.appendleft(slot)
                    raise
        finally:
            self._changing = False
            self._release()
            if self._later:
                self._catch_up()
        del gone
        if evicted and self._on_evict is not None:
            self._on_evict(evicted)
        return True

    def pin(self, key: Hashable, value: bool = True) -> bool:
        """Protect an entry from eviction, or stop to; False if the key is not here. Not an access."""

        def pinned() -> bool:
            slot = self._index.get(key)
            if slot is not None:
                (self._slots.pinned.add if value else self._slots.pinned.discard)(slot)
            return slot is not None

        return bool(self._alone(pinned))

    def delete(self, key: Hashable) -> bool:
        """Remove an entry, pinned or not; False if the key is not here."""
        return bool(self._alone(partial(self._drop, key)))

    def clear(self) -> None:
        """Remove everything, pinned or not; the counters of ``stats`` go on."""

        def emptied() -> list[Any]:
            gone = self._values
            self._reset()
            return gone

        self._alone(emptied)

    # Looking, without an access

    def __len__(self) -> int:
        return len(self._index)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: Hashable) -> bool:
        return key in self._index

    def keys(self) -> list[Hashable]:
        """The keys, oldest insertion first."""
        with self._lock:
            return list(self._index)

    @property
    def bytes(self) -> int:
        """The sizes of all entries together, never above ``max_bytes``."""
        if self._measures:
            return self._bytes
        with self._lock:
            held = map(self._values.__getitem__, self._index.values())
            return self._bytes + sum(int(value.__sizeof__()) for value in held if type(value) in self._flat)

    def stats(self) -> dict[str, int]:
        """Counters since construction, and ``items`` and ``bytes`` held now.

        ``too_large``, ``no_room`` (pins) and ``uncacheable`` (cannot be copied) count puts not stored.
        """
        with self._lock:
            counts = {**self._counts, "items": len(self._index), "bytes": self.bytes}
            counts["hits"] += self._readings.count()
            return counts

    # One change at a time

    def _alone(self, change: Callable[[], Any]) -> Any:
        """What the change gives, made inside the lock; True, and made later, in the middle of another."""
        with self._lock:
            if self._changing:
                self._later.append(partial(self._alone, change))
                return True
            try:
                self._changing = True
                done = change()
            finally:
                self._changing = False
        if self._later:
            self._catch_up()
        return done

    def _catch_up(self) -> None:
        """Make the changes that were asked for in the middle of the one that has ended."""
        while self._later:
            try:
                change = self._later.pop(0)
            except IndexError:  # another thread was faster
                return
            change()

    # Inside the lock

    def _drop(self, key: Hashable) -> Evicted:
        """Remove an entry if it is here; the caller lets go of it outside the lock."""
        slot = self._index.get(key)
        if slot is None:
            return []
        gone = self._take_out([slot])
        self._slots.release([slot])
        return gone

    def _take_out(self, rows: list[int]) -> Evicted:
        """Remove the entries of these slots and return them; the slots are still to be given back."""
        # Plain passes, each over all rows: what waits for memory then waits for many rows at once.
        keys, values = self._keys, self._values
        gone = list(map(keys.__getitem__, rows)), list(map(values.__getitem__, rows))
        for key in gone[0]:
            del self._index[key]
        self._era = object()
        sizes = self._slots.size
        self._bytes -= sum(map(sizes.__getitem__, rows))
        for row in rows:
            keys[row] = values[row] = None
            sizes[row] = 0
        return list(zip(*gone, strict=True))

    def _make_room(self, size: int, slot: int | None, now: float) -> Evicted | None:
        """Evict what must go before an entry of this size comes to ``slot`` (None: a new one).

        Returns what was evicted, or None if the entry cannot be stored; nothing was evicted then.
        """
        if size > self._max_bytes:
            self._counts["too_large"] += 1
            return None
        slots, items, nbytes = self._slots, len(self._index), self._bytes
        if items < self._max_items and nbytes + size <= self._max_bytes:
            more = [None] * slots.grow()
            self._keys += more
            self._values += more
            return []
        evictable = slots.evictable()
        if slot is not None:  # an overwrite: its old size is free, and it is not its own victim
            evictable[slot] = False
            items, nbytes = items - 1, nbytes - slots.size[slot]
        entries = slots.entries(now)
        lowest = victims(
            self._keep_score(entries),
            entries.last_accessed,
            entries.inserted,
            slots.column("size"),
            evictable,
            items=excess(items, 1, self._max_items),
            size=excess(nbytes, size, self._max_bytes),
        )
        rows = lowest.tolist()
        freed = sum(map(slots.size.__getitem__, rows))
        if items - len(rows) >= self._max_items or nbytes - freed + size > self._max_bytes:
            self._counts["no_room"] += 1  # only pins can leave no room
            return None
        evicted = self._take_out(rows)
        slots.evict(rows, [key for key, _ in evicted])
        self._counts["evictions"] += len(rows)
        return evicted
