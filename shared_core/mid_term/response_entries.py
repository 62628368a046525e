"""The kept answers of models: looking one up, keeping one, why one is not kept. Asks no model itself.

What counts in a request and which answers are worth keeping is in ``exchange.py``; rows in ``rows.py``; what a
forget makes untrue in ``forgets.py``.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from shared_core.forks import renew_in_child
from shared_core.mid_term import exchange
from shared_core.mid_term.flight import Again, Alone, Outcome, Value
from shared_core.mid_term.forgets import Forgets
from shared_core.mid_term.rows import Row, Rows
from shared_core.mid_term.shelf import CAUSES, Shelf, alive
from shared_core.mid_term.values import Frozen, freeze, thawable
from shared_core.records import MISS
from shared_core.settings import Settings
from shared_core.storage.base import Blobs


@dataclass(frozen=True, slots=True)
class Entry:
    """A kept answer: made at ``created`` (epoch seconds) when the scope stood at ``generation``."""

    frozen: Frozen
    size: int
    created: float
    generation: int
    scope: str
    stored: bool


@dataclass(slots=True)
class Asked:
    """One request that may be served."""

    key: str
    scope: str
    request: Mapping[str, Any]
    cause: str = "cold"


class ResponseEntries:
    """See the module. ``ids`` and ``ttl`` as in ``ResponseCache``. All methods are thread-safe."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Callable[[], float],
        blobs: Blobs | None,
        generations: Blobs | None,
        ids: Callable[[], str],
        ttl: float | None,
        policy: str,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._ttl = ttl
        self.rows = Rows(blobs, "responses", settings) if blobs is not None else None
        told = blobs if blobs is not None else generations
        self._told = self.rows or (Rows(told, "responses", settings) if told is not None else None)
        self.forgets = Forgets(told, self._told)
        self._new_shelf = partial(Shelf, settings, clock, policy)
        self._shelf: Shelf[Entry] = self._new_shelf()
        self._lock = threading.Lock()
        self._hits = self._joined = 0
        self._misses: Counter[str] = Counter()
        self._flawed: Counter[str] = Counter()
        self._saved_input = self._saved_output = 0
        renew_in_child(self)

    def after_fork_in_child(self) -> None:
        """Start empty: another thread may have been in the middle of a change. The rows are still there."""
        self._lock = threading.Lock()
        self._shelf = self._new_shelf()

    # Looking up

    def look(self, asked: Asked) -> Any:
        """The kept answer as the receiver's own, or ``MISS``; then ``asked.cause`` says why."""
        now = self._clock()
        generation = self.forgets.generation(asked.scope)
        with self._lock:
            entry = self._shelf.get(asked.key)
            asked.cause = self._shelf.cause(asked.key)
            if entry is not None:
                expired = not alive(entry.created, self._ttl, now)
                if expired or entry.generation != generation:
                    asked.cause = "expired" if expired else "invalidated"
                    self._shelf.remove(asked.key, asked.cause)
                    entry = None
        if entry is None:
            entry = self._load(asked, generation, now)
        if entry is None:
            return MISS
        found = self._served(asked, entry)
        if found is not MISS:
            with self._lock:
                self._hits += 1
        return found

    def _load(self, asked: Asked, generation: int | None, now: float) -> Entry | None:
        row = self.rows.load(asked.scope, asked.key, now) if self.rows is not None else None
        if row is None or not alive(row.created, self._ttl, now) or row.facts.get("generation") != generation:
            return None
        frozen = thawable(row.raw)
        entry = Entry(frozen, frozen.size, row.created, int(generation or 0), asked.scope, stored=True)
        self._enter(asked.key, entry)
        return entry

    def _served(self, asked: Asked, entry: Entry) -> Any:
        try:
            response = entry.frozen.thaw()
            spent = exchange.tokens(response)
            response = exchange.served(response, asked.request, self._ids, created_at=entry.created)
        except Exception:  # noqa: BLE001  the value's own code, or a row another hand wrote: no hit then
            with self._lock:
                self._shelf.remove(asked.key, "uncacheable")
            return MISS
        with self._lock:
            self._saved_input += spent[0]
            self._saved_output += spent[1]
        return response

    def joined(self, asked: Asked, entry: Entry) -> Any:
        """A follower's own copy of what the leader's execution gave, or ``MISS`` if it cannot be served."""
        found = self._served(asked, entry)
        if found is not MISS:
            with self._lock:
                self._hits += 1
                self._joined += 1
        return found

    # Keeping

    def keep(self, asked: Asked, response: Any, generation: int | None, created: float) -> tuple[bool, Outcome]:
        """Keep the response if it is whole and no memory was forgotten meanwhile; what followers may have."""
        try:
            flaw = exchange.flaw(response)
            frozen = freeze(exchange.unmarked(response))
        except Exception:  # noqa: BLE001  no response of a known shape, or one whose own code cannot copy it
            self._flaw("uncacheable")
            return False, Alone()
        if generation is not None and self.forgets.generation(asked.scope) != generation:
            return False, Again()
        if flaw is None and not self._shelf.fits(frozen.size):
            flaw = "too large"
        keeps = flaw is None and generation is not None and self._ttl != 0
        raw = frozen.raw() if keeps and self.rows is not None else None
        entry = Entry(frozen, frozen.size, created, generation or 0, asked.scope, stored=raw is not None)
        if flaw is not None:
            self._flaw(flaw)
        if keeps:
            self._enter(asked.key, entry)
        if raw is not None and self.rows is not None:
            expires = None if self._ttl is None else created + self._ttl
            row = Row({"generation": entry.generation}, raw, created)
            self.rows.save(asked.scope, asked.key, row, expires=expires)
        return keeps, Value(entry)

    def _enter(self, key: str, entry: Entry) -> None:
        with self._lock:
            _, evicted = self._shelf.put(key, entry)
        if self.rows is not None:
            self.rows.drop((one.scope, gone) for gone, one in evicted if one.stored)

    # Leaving and counting

    def share(self, scope: str) -> None:
        """A forget in any scope is one in this scope, and a process that never asked it anything can tell."""
        self.forgets.share(scope)
        if self.rows is not None and not self.rows.noted("shared", scope):
            self.rows.note("shared", scope)

    def shared(self) -> list[str]:
        """The scopes that are shared here or by any process that kept answers in the rows."""
        return sorted({*self.forgets.common, *(self.rows.names("shared", "") if self.rows is not None else ())})

    def clear_scope(self, scope: str) -> int:
        """Forget every answer of a scope, here and in the rows; how many."""
        with self._lock:
            own = self._shelf.select(lambda entry: entry.scope == scope)
            for key in own:
                self._shelf.remove(key, "invalidated")
        return max(len(own), self.rows.clear(scope) if self.rows is not None else 0)

    def miss(self, cause: str) -> None:
        """Count a miss."""
        with self._lock:
            self._misses[cause] += 1

    def _flaw(self, flaw: str) -> None:
        with self._lock:
            self._flawed[flaw] += 1

    def stats(self) -> dict[str, Any]:
        """See ``ResponseCache.stats``."""
        with self._lock:
            return {
                "hits": self._hits,
                "joined": self._joined,
                "misses": {cause: self._misses[cause] for cause in CAUSES},
                "not_kept": dict(self._flawed),
                "saved_input_tokens": self._saved_input,
                "saved_output_tokens": self._saved_output,
                "storage_errors": self._told.errors if self._told is not None else 0,
                **self._shelf.stats(),
            }
