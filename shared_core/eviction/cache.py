"""The bounded, thread-safe container: what is asked of it, and the two paths that need no lock. No policy here.

Reading or writing an entry costs a dict look-up and a few scalar writes, and scores are computed only when
something has to go. ``get`` and ``put`` are written out where a call would cost as much as the step itself; what
needs the lock is done in ``held``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from shared_core.errors import InvalidInput
from shared_core.eviction import arguments
from shared_core.eviction.changes import Changes
from shared_core.eviction.held import Held
from shared_core.eviction.policies import named
from shared_core.eviction.readings import Readings
from shared_core.eviction.room import Room
from shared_core.eviction.slots import Slots
from shared_core.eviction.table import CLOSED, Evicted, Table
from shared_core.eviction.values import IMMUTABLE, copy_value, deep_size
from shared_core.forks import renew_in_child
from shared_core.records import MISS
from shared_core.settings import Rule


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
        rule = Rule(alpha=alpha, beta=beta, time_scale=time_scale, evidence_weight=evidence_weight)
        keep_score = named(policy, rule=rule, rng=np.random.default_rng(seed))
        room = Room(arguments.bound("max_items", max_items), arguments.bound("max_bytes", max_bytes), keep_score)
        share = np.nan if default_prior == "frequency" else arguments.share("default_prior", default_prior)
        self._clock = clock
        self._readings = Readings(clock)
        self._getsizeof = getsizeof
        self._copy = copy
        # Types whose values the default copy gives back as they are, and the default size looks no deeper into.
        self._shared = IMMUTABLE if copy is copy_value else frozenset()
        self._flat = IMMUTABLE - {type(MISS)} if getsizeof is deep_size and copy in (None, copy_value) else frozenset()
        # Without a bound of bytes nobody needs the size of a value of those types until it is asked for.
        self._measures = max_bytes is not None
        self._on_evict = on_evict
        self._counts = dict.fromkeys(("hits", "misses", "evictions", "too_large", "no_room", "uncacheable"), 0)
        self._changes = Changes(CLOSED)
        self._held = Held(
            room,
            partial(Slots, room.max_items, default_prior=share, counts=policy == "lfu"),
            frozenset() if self._measures else self._flat,
            self._changes,
            self._counts,
            self._readings.times,  # read once for each hit that ``get`` finds without the lock
        )
        # Whether a hit is done when it has its value: no uses are counted, no value was ever put that has to be copied.
        self._simple = not self._held.table.slots.counts
        self._changes.renew()
        renew_in_child(self)

    def after_fork_in_child(self) -> None:
        """Start empty, with a lock of our own: another thread may have been in the middle of a change."""
        self._held.reset()
        self._changes.renew()

    # Reading

    def get(self, key: Hashable, query_vector: npt.ArrayLike | None = None) -> Any:
        """The value, or ``MISS``. Counts as an access; a query vector becomes the entry's evidence."""
        # A hit takes no lock. It stands on the global interpreter lock of CPython, under which one look-up in a dict
        # or a list, one ``next`` of an iterator in C and one store into a memoryview are each indivisible, and
        # which changes hands at calls and jumps back alone: not between the two look-ups of one expression. So
        # the value is the key's own, whatever other threads do before and after.
        if query_vector is None:
            index, values, last_accessed, times = self._held.shown
            try:
                value = values[slot := index[key]]
            except LookupError:  # a miss
                pass
            else:
                now = next(times)
                # Should the slot have changed hands by now, its new entry looks fresher, or more used, by one access.
                try:  # noqa: SIM105  suppress() costs as much as the whole hit
                    last_accessed[slot] = now
                except IndexError:  # an entry that came after the table has grown: fresh enough
                    pass
                if self._simple:
                    return value
                slots = self._held.table.slots
                try:
                    if slots.counts and slots.use(slot):
                        with self._changes.lock:
                            slots.rescale()
                except IndexError:  # cleared in between: nothing is left to count
                    pass
                return value if self._copy is None or type(value) in self._shared else self._copy(value)
        return self._look(key, query_vector)

    def _look(self, key: Hashable, query_vector: npt.ArrayLike | None = None) -> Any:
        """``get`` with the lock, for what is more than a hit."""
        query = None if query_vector is None else arguments.unit_vector("query_vector", query_vector)
        now = self._clock()
        changes = self._changes
        acquire, release = changes.by_hand
        acquire()
        inside = changes.inside
        try:
            changes.inside, changes.opened = True, CLOSED
            value = self._held.look(key, query, now)
        finally:
            changes.inside = inside
            if not inside:
                changes.opened = changes.offered
            release()
            if changes.later and not inside:
                changes.catch_up()
        # Outside the lock: nobody changes what is stored, and a slow copy holds nobody up.
        if value is MISS or self._copy is None or type(value) in self._shared:
            return value
        return self._copy(value)

    def attend(self, task_vector: npt.ArrayLike) -> None:
        """Make the cosine with the task vector the evidence of every entry now here that has an embedding.

        Not an access. The product itself waits for the next eviction, and is skipped if another task
        comes first; the outcome is the same. Later puts have no evidence yet.
        """
        task = arguments.unit_vector("task_vector", task_vector)

        def attended() -> None:
            self._held.table.slots.check_dimension("task_vector", task)
            self._held.table.slots.attend(task)

        self._changes.alone(attended)

    # Writing

    def put(  # noqa: PLR0915  one hot path, written out
        self, key: Hashable, value: Any, embedding: npt.ArrayLike | None = None, prior: float | None = None
    ) -> bool:
        """Store the value; False if it is not stored: too large, no room beside pins, not copyable.

        Putting a key again replaces value, size, embedding and prior and forgets the evidence; the entry
        keeps its place in the insertion order, its pin, and its access count, to which the put adds.
        If the new value is not stored, the old one goes all the same: it would be stale.
        """
        # A new key takes no lock while there is a free slot and nothing to ask beside: it stands on the global
        # interpreter lock as ``get`` does. A slot belongs to whoever took it from the queue, and is found by nobody
        # before its key is in the index; whoever was not the first with this key, or finds that what it wrote to
        # may have been replaced meanwhile, asks again with the lock.
        clock, changes = self._clock, self._changes
        now, opened = clock(), changes.opened
        if opened is not CLOSED and embedding is None is prior and type(key) is str:
            quick, index, free, keys, values, last_accessed, table = opened
            if type(value) in quick and key not in index:
                try:
                    try:
                        slot = free.popleft()
                    except IndexError:  # no free slot
                        pass
                    else:
                        keys[slot] = key
                        values[slot] = value
                        last_accessed[slot] = now
                        first = index.setdefault(key, slot) == slot
                        if first and changes.opened is opened:
                            return True
                        if changes.alone(partial(self._held.arrive, table, index, key, slot, now, first=first)):
                            return True
                except BaseException:  # interrupted: a slot may be taken, and nobody knows which
                    changes.alone(partial(self._held.mend, table))
                    raise
        unit = None if embedding is None else arguments.unit_vector("embedding", embedding)
        if prior is not None:
            prior = arguments.share("prior", prior)
        gone: Any = None  # whatever leaves is held until the lock is free: its __del__ may call the cache
        held, copied = self._held, False
        if type(value) in self._flat:
            # What sys.getsizeof says of these types, at a quarter of its price.
            size = value.__sizeof__() if self._measures else 0
        else:
            try:
                value = value if self._copy is None else self._copy(value)
            except Exception:  # noqa: BLE001  the value's own code runs here; whatever it raises means "cannot be cached"
                with changes.lock:
                    self._counts["uncacheable"] += 1
                gone = changes.alone(partial(held.drop, key))
                return False
            copied = self._copy is not None and type(value) not in self._shared
            size = arguments.size(self._getsizeof(value))
        if unit is not None:
            size += unit.nbytes
        acquire, release = changes.by_hand
        acquire()
        if changes.inside:
            changes.later.append(partial(self.put, key, value, embedding, prior))
            release()
            return True
        try:
            changes.inside, changes.opened = True, CLOSED
            if copied:
                self._simple = False  # before readers find the value
            stored, evicted, gone = held.store(key, value, size, prior, unit, now)
        finally:
            changes.inside, changes.opened = False, changes.offered
            release()
            if changes.later:
                changes.catch_up()
        del gone
        if evicted and self._on_evict is not None:
            self._on_evict(evicted)
        return stored

    def pin(self, key: Hashable, value: bool = True) -> bool:
        """Protect an entry from eviction, or stop to; False if the key is not here. Not an access."""

        def pinned() -> bool:
            slot = self._held.table.index.get(key)
            if slot is not None:
                (self._held.table.slots.pinned.add if value else self._held.table.slots.pinned.discard)(slot)
            return slot is not None

        return bool(self._changes.alone(pinned))

    def delete(self, key: Hashable) -> bool:
        """Remove an entry, pinned or not; False if the key is not here."""
        return bool(self._changes.alone(partial(self._held.drop, key)))

    def clear(self) -> None:
        """Remove everything, pinned or not; the counters of ``stats`` go on."""

        def emptied() -> Table:
            gone = self._held.table
            self._held.reset()
            return gone

        self._changes.alone(emptied)

    # Looking, without an access

    def __len__(self) -> int:
        return len(self._held.table.index)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: Hashable) -> bool:
        return key in self._held.table.index

    def keys(self) -> list[Hashable]:
        """The keys, oldest insertion first."""
        with self._changes.lock:
            return list(self._held.table.index)

    @property
    def bytes(self) -> int:
        """The sizes of all entries together, never above ``max_bytes``."""
        if self._measures:
            return self._held.table.bytes
        with self._changes.lock:
            table = self._held.table
            held = map(table.values.__getitem__, list(table.index.values()))
            return table.bytes + sum(int(value.__sizeof__()) for value in held if type(value) in self._flat)

    def stats(self) -> dict[str, int]:
        """Counters since construction, and ``items`` and ``bytes`` held now.

        ``too_large``, ``no_room`` (pins) and ``uncacheable`` (cannot be copied) count puts not stored.
        """
        with self._changes.lock:
            counts = {**self._counts, "items": len(self._held.table.index), "bytes": self.bytes}
            counts["hits"] += self._readings.count()
            return counts
