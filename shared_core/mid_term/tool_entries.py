"""The kept results of tools: looking one up, keeping one, ending them by events. Executes nothing itself.

An execution is an attempt: it takes hold of what its entry hangs on (``begin``), runs, and is kept
(``finish``) only if nothing of that moved meanwhile. The order of locks is: this lock, then the container's.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from shared_core.errors import InvalidInput
from shared_core.eviction.values import deep_size
from shared_core.forks import renew_in_child
from shared_core.mid_term import watch
from shared_core.mid_term.flight import Again, Alone, Outcome, Value
from shared_core.mid_term.invalidation import Generations, Kind
from shared_core.mid_term.other_processes import OtherProcesses
from shared_core.mid_term.rows import Row, Rows
from shared_core.mid_term.shelf import CAUSES, Shelf, alive
from shared_core.mid_term.tool_entry import Attempt, Call, Entry
from shared_core.mid_term.values import Uncached, failed, freeze, thawable
from shared_core.records import MISS
from shared_core.settings import Settings
from shared_core.storage.base import Blobs


class ToolEntries:
    """See the module. All methods are thread-safe."""

    def __init__(self, *, settings: Settings, clock: Callable[[], float], blobs: Blobs | None, policy: str) -> None:
        self._clock = clock
        self._new_shelf = partial(Shelf, settings, clock, policy)
        self._shelf: Shelf[Entry] = self._new_shelf()
        self._generations = Generations()
        self._lock = threading.Lock()
        self._hits = self._joined = 0
        self._misses: Counter[str] = Counter()
        self._seconds_saved = 0.0
        self.rows = Rows(blobs, "tools", settings) if blobs is not None else None
        self.others = OtherProcesses(self.rows)
        renew_in_child(self)

    def after_fork_in_child(self) -> None:
        """Start empty: another thread may have been in the middle of a change. The rows are still there."""
        self._lock = threading.Lock()
        self._shelf, self._generations = self._new_shelf(), Generations()

    @property
    def shared(self) -> bool:
        """Whether looking anything up touches the disk."""
        return self.rows is not None

    # Looking up

    def look(self, call: Call) -> Any:
        """The kept value, copied, or ``MISS``; then ``call.cause`` says why."""
        now = self._clock()
        with self._lock:
            entry = self._shelf.get(call.key)
            call.cause = self._shelf.cause(call.key)
        if entry is None:
            entry = self._load(call, now)
            if entry is None:
                return MISS
        else:
            cause = self._untrue(entry, call, now)
            if cause is not None:
                call.cause = cause
                self._remove(call.key, entry, cause)
                return MISS
        return self._serve(call, entry)

    def _serve(self, call: Call, entry: Entry) -> Any:
        try:
            value = entry.frozen.thaw()
        except Exception:  # noqa: BLE001  the value's own code runs here; what cannot be copied out is no hit
            call.cause = "uncacheable"
            self._remove(call.key, entry, "uncacheable")
            return MISS
        if call.readable is not None and not call.readable(value):  # a row that another hand wrote
            if self.rows is not None:
                self.rows.errors += 1
            self._remove(call.key, entry, call.cause)
            return MISS
        with self._lock:
            self._hits += 1
            self._seconds_saved += entry.seconds
        return value

    def joined(self, shared: Entry) -> Any:
        """A follower's own copy of what the leader's execution gave, or ``MISS`` if it cannot be copied."""
        try:
            value = shared.frozen.thaw()
        except Exception:  # noqa: BLE001  as above
            return MISS
        with self._lock:
            self._hits += 1
            self._joined += 1
            self._seconds_saved += shared.seconds
        return value

    def _untrue(self, entry: Entry, call: Call, now: float) -> str | None:
        """Why the entry must not be served now, or None."""
        if not self._generations.true(entry.hold):
            return "invalidated"
        if not alive(entry.created, call.policy.ttl, now):
            return "expired"
        if entry.reach.resources != call.reach.resources:  # the tool was registered anew and reads something else now
            return "invalidated"
        watched = watch.still(entry.watched, now)
        if watched is None:
            return "invalidated"
        entry.watched = watched  # a file that is no longer young need not be hashed again
        if self.others.stamps(entry.reach) != entry.stamps:
            return "invalidated"
        return None

    def _load(self, call: Call, now: float) -> Entry | None:
        """The entry from the stored rows, brought into memory, if it is there and true."""
        if self.rows is None or not call.policy.stored:
            return None
        row = self.rows.load(call.reach.scope, call.key, now)
        if row is None:
            return None
        attempt = self.begin(call, now=row.created)  # what moves from here on overtakes it
        entry = None
        try:
            facts = row.facts
            stamps, watched, seconds = tuple(facts["stamps"]), tuple(facts["watched"]), float(facts["seconds"])
            agrees = stamps == attempt.stamps and tuple(seen[0] for seen in watched) == call.reach.resources
            fresh = watch.still(watched, now) if agrees else None
            if fresh is None:
                call.cause = "invalidated"
            elif not alive(row.created, call.policy.ttl, now):
                call.cause = "expired"
            else:
                frozen = thawable(row.raw)
                size = frozen.size + _watch_size(fresh)
                entry = Entry(frozen, size, row.created, seconds, call.reach, attempt.hold, fresh, stamps, stored=True)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):  # a row that another hand wrote
            self.rows.errors += 1
        if entry is None or not self._enter(call, entry):
            if entry is None:
                self.abort(call, attempt)
            return None
        return entry

    # Keeping

    def begin(self, call: Call, *, now: float | None = None) -> Attempt:
        """Take hold before an execution. Give it to ``finish`` or ``abort``."""
        started = self._clock() if now is None else now
        call.settle()
        with self._lock:
            generations = self._generations
            hold = generations.hold(call.reach)
        try:
            watched: watch.Watch | None = watch.watch(call.reach.resources, started)
        except OSError:
            watched = None
        stamps = self.others.stamps(call.reach) if self.others.note(call.reach, call.default_digests) else None
        return Attempt(started, generations, hold, watched, stamps)

    def abort(self, call: Call, attempt: Attempt) -> None:
        """The execution raised: nothing is kept."""
        with self._lock:
            self._generations.release(call.reach, attempt.hold)

    def raised(self, call: Call, attempt: Attempt) -> None:
        """The execution raised: nothing is kept, and it is counted."""
        self.abort(call, attempt)
        self._count(call.cause)

    def finish(self, call: Call, attempt: Attempt, value: Any) -> tuple[Any, Outcome]:
        """Keep the value if that is possible and still true. The caller's value, and what followers may have."""
        ended = self._clock()
        asked_not_to, alone = isinstance(value, Uncached), isinstance(value, Uncached) and value.alone
        value = value.value if asked_not_to else value
        if alone:
            self.abort(call, attempt)
            self._count("uncacheable")
            return value, Alone()
        try:
            frozen = freeze(value, copy=call.policy.copy)
        except InvalidInput:
            self.abort(call, attempt)
            self._count("uncacheable")
            return value, Alone()
        watched = self._still_true(call, attempt, ended)
        size = frozen.size + _watch_size(watched)
        limit = call.policy.max_entry_bytes
        fits = self._shelf.fits(size) and (limit is None or size <= limit)
        self._count(call.cause if fits and not asked_not_to else "uncacheable")
        entry = Entry(
            frozen=frozen,
            size=size,
            created=attempt.started,
            seconds=max(0.0, ended - attempt.started),
            reach=call.reach,
            hold=attempt.hold,
            watched=watched or (),
            stamps=attempt.stamps or (),
        )
        if watched is None:
            self.abort(call, attempt)
            return value, Again()
        if asked_not_to or not fits or attempt.stamps is None or failed(value):
            self.abort(call, attempt)
            return value, Value(entry)
        raw = frozen.raw() if self.rows is not None and call.policy.stored else None
        entry.stored = raw is not None
        if not self._enter(call, entry):
            return value, Again()
        if raw is not None and self.rows is not None:
            facts = {"stamps": list(entry.stamps), "watched": entry.watched, "seconds": entry.seconds}
            expires = None if call.policy.ttl is None else entry.created + call.policy.ttl
            row = Row(facts, raw, entry.created)
            self.rows.save(call.reach.scope, call.key, row, expires=expires, tags=call.reach.tags())
        return value, Value(entry)

    def _still_true(self, call: Call, attempt: Attempt, now: float) -> watch.Watch | None:
        if attempt.generations is not self._generations:  # it began before a fork: no event here would reach it
            return None
        if attempt.watched is None or not self._generations.true(attempt.hold):
            return None
        if attempt.stamps is not None and self.others.stamps(call.reach) != attempt.stamps:
            return None
        return watch.still(attempt.watched, now)

    def _enter(self, call: Call, entry: Entry) -> bool:
        """Put an entry in; the hold is given back. False if an event overtook it."""
        with self._lock:
            if not self._generations.release(call.reach, entry.hold, call.key):
                return False
            old = self._shelf.get(call.key)
            if old is not None and old.hold != entry.hold:
                self._generations.leave(old.reach, old.hold, call.key)
            stored, evicted = self._shelf.put(call.key, entry)
            if not stored:
                self._generations.leave(entry.reach, entry.hold, call.key)
            for key, one in evicted:
                self._generations.leave(one.reach, one.hold, key)
            self._sweep()
        if self.rows is not None:
            self.rows.drop((one.reach.scope, key) for key, one in evicted if one.stored)
        return True

    # Leaving

    def _remove(self, key: str, entry: Entry, cause: str) -> None:
        with self._lock:
            if self._shelf.get(key) is entry:
                self._take_out(key, entry, cause)

    def _take_out(self, key: str, entry: Entry, cause: str) -> None:
        self._shelf.remove(key, cause)
        self._generations.leave(entry.reach, entry.hold, key)

    def _sweep(self, *, at_once: bool = False) -> None:
        for key in self._generations.sweep(at_once=at_once):
            entry = self._shelf.get(key)
            if entry is not None and not self._generations.true(entry.hold):
                self._take_out(key, entry, "invalidated")

    # Events

    def end(self, kind: Kind, texts: Sequence[str], *, scope: str | None = None, space: str | None = None) -> int:
        """End what hangs on these things in this process; how many entries."""
        with self._lock:
            count = sum(self._generations.end(kind, text, scope=scope, space=space) for text in texts)
            self._sweep(at_once=True)
        return count

    def tools(self, prefix: str) -> set[str]:
        """Names of tools with results here or in the rows that start so."""
        with self._lock:
            found = set(self._generations.tools(prefix))
        return found | self.others.tools(prefix)

    # Counting

    def _count(self, cause: str) -> None:
        with self._lock:
            self._misses[cause] += 1

    def uncacheable(self) -> None:
        """Count a call that has no key."""
        self._count("uncacheable")

    def stats(self) -> dict[str, Any]:
        """See ``ToolCache.stats``."""
        with self._lock:
            return {
                "hits": self._hits,
                "joined": self._joined,
                "misses": {cause: self._misses[cause] for cause in CAUSES},
                "seconds_saved": self._seconds_saved,
                "storage_errors": self.rows.errors if self.rows is not None else 0,
                **self._shelf.stats(),
            }


def _watch_size(watched: watch.Watch | None) -> int:
    return deep_size(watched) if watched else 0
