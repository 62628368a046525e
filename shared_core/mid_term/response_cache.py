"""``memory.responses``: answers of a model to exactly the same request, paid for once.

Here is what a lookup and a call go through. What counts in a request and which answers are worth keeping is
in ``exchange.py``; rows in ``rows.py``; concurrent calls in ``single_flight.py``.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import uuid4

from shared_core import arguments
from shared_core.errors import InvalidInput, open_again
from shared_core.forks import renew_in_child
from shared_core.mid_term import exchange, tools
from shared_core.mid_term.keys import digest
from shared_core.mid_term.rows import Row, Rows
from shared_core.mid_term.shelf import CAUSES, Shelf, alive
from shared_core.mid_term.single_flight import Again, Alone, Outcome, SingleFlight, Value, in_thread
from shared_core.mid_term.values import Frozen, freeze, thawable
from shared_core.records import MISS
from shared_core.settings import DAY_SECONDS, Settings
from shared_core.storage.base import Blobs

_ASKED: Final = 10_000
_ANY_SCOPE: Final = "\x1fany scope"  # its generation moves with a forget in whatever scope


@dataclass(frozen=True, slots=True)
class _Entry:
    """A kept answer: made at ``created`` (epoch seconds) when the scope stood at ``generation``."""

    frozen: Frozen
    size: int
    created: float
    generation: int
    scope: str
    stored: bool


@dataclass(slots=True)
class _Asked:
    """One request that may be served."""

    key: str
    scope: str
    request: Mapping[str, Any]
    cause: str = "cold"


class ResponseCache:
    """A cache of model responses under exact keys, for plain dicts in the Anthropic or OpenAI shape.

    ``scope_of``, ``blobs`` and ``policy`` as in ``ToolCache``; ``ttl`` in seconds, None for no expiry; ``ids``
    makes fresh ids. A served response is the receiver's own, carries a fresh message id and fresh ids for
    tool calls whose ids the request already holds, and says under ``"cache"`` that it is a hit, when it was
    made, and what it would have cost in tokens; ``usage`` is as it was. Truncated, refused, unfinished, empty
    and errored answers and those with invalid tool calls are not kept. A ``bump`` of the scope (a memory was
    forgotten) makes every older answer a miss. No failure of the storage reaches the caller.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Callable[[], float],
        blobs: Blobs | None,
        scope_of: Callable[[str | None], str],
        ids: Callable[[], str] = lambda: uuid4().hex,
        ttl: float | None = DAY_SECONDS,
        policy: str = "attention_lru",
    ) -> None:
        self._clock = clock
        self._scope_of = scope_of
        self._ids = ids
        self._ttl = arguments.ttl("ttl", ttl)
        self._blobs = blobs
        self._rows = Rows(blobs, "responses", settings) if blobs is not None else None
        self._new_shelf = partial(Shelf, settings, clock, policy)
        self._shelf: Shelf[_Entry] = self._new_shelf()
        self._flights = SingleFlight()
        self._lock = threading.Lock()
        self._generations: dict[str, int] = {}
        self._common: set[str] = set()
        self._asked: dict[str, int] = {}  # the generation at a miss, for the put that follows
        self._hits = self._joined = 0
        self._misses: Counter[str] = Counter()
        self._flawed: Counter[str] = Counter()
        self._saved_input = self._saved_output = 0
        self._closed = False
        renew_in_child(self)

    def after_fork_in_child(self) -> None:
        """Start empty: another thread may have been in the middle of a change. The rows are still there."""
        self._lock = threading.Lock()
        self._shelf, self._asked = self._new_shelf(), {}

    # The public calls

    def get(self, request: Mapping[str, Any], *, scope: str | None = None) -> Any:
        """The kept response, or ``MISS``."""
        asked = self._ask(request, scope)
        if asked is None:
            return MISS
        found = self._look(asked)
        if found is MISS:
            generation, _ = self._begin(asked)
            with self._lock:
                self._asked.pop(asked.key, None)
                if generation is not None:
                    self._asked[asked.key] = generation
                if len(self._asked) > _ASKED:
                    del self._asked[next(iter(self._asked))]
        return found

    def put(self, request: Mapping[str, Any], response: Mapping[str, Any], *, scope: str | None = None) -> bool:
        """Keep a response; False if it is not kept. After a ``get`` that missed it counts as begun then."""
        asked = self._ask(request, scope)
        if asked is None:
            return False
        with self._lock:
            generation = self._asked.pop(asked.key, None)
        if generation is None:
            generation = self._generation(asked.scope)
        return self._keep(asked, response, generation, self._clock())[0]

    def call(self, request: Mapping[str, Any], fn: Callable[..., Any], *, scope: str | None = None) -> Any:
        """The kept response, or that of ``fn``, which is then kept; one execution for identical calls at once.

        ``fn`` takes the request as its keywords (``client.messages.create``), as one argument, or nothing.
        """
        asked = self._ask(request, scope)
        run = _asking(fn, request)
        if asked is None:
            return run()

        def lead() -> tuple[Any, Outcome]:
            return self._lead(asked, run)

        def take(entry: _Entry) -> Any:
            return self._joined_by(asked, entry)

        return self._flights.serve(asked.key, lambda: self._look(asked), lead, take)

    async def aget(self, request: Mapping[str, Any], *, scope: str | None = None) -> Any:
        """``get`` without blocking the loop."""
        return await self._aside(lambda: self.get(request, scope=scope))

    async def aput(self, request: Mapping[str, Any], response: Mapping[str, Any], *, scope: str | None = None) -> bool:
        """``put`` without blocking the loop."""
        return bool(await self._aside(lambda: self.put(request, response, scope=scope)))

    async def acall(self, request: Mapping[str, Any], fn: Callable[..., Any], *, scope: str | None = None) -> Any:
        """``call`` without blocking the loop: ``fn`` is a coroutine function, or a plain one for a thread."""
        asked = self._ask(request, scope)
        run, hop = _asking(fn, request), not tools.is_async(fn)
        if asked is None:
            return await (in_thread(run) if hop else run())

        async def look() -> Any:
            return await self._aside(lambda: self._look(asked))

        async def alead() -> tuple[Any, Outcome]:
            found = await look()
            if found is not MISS:
                return found, Again()
            began = await self._aside(lambda: self._begin(asked))
            response = await run()
            kept: tuple[Any, Outcome] = await self._aside(lambda: self._finish(asked, response, *began))
            return kept

        def take(entry: _Entry) -> Any:
            return self._joined_by(asked, entry)

        lead: Callable[[], Any] = (lambda: self._lead(asked, run)) if hop else alead
        return await self._flights.aserve(asked.key, look, lead, take, hop=hop)

    def bump(self, scope: str, *, durable: bool = True) -> int:
        """A memory of the scope was forgotten: no answer made before is given again. The new generation."""
        self._advance(_ANY_SCOPE, durable)
        return self._advance(scope, durable)

    def share(self, scope: str) -> None:
        """The answers of this scope may be built on memories of any other: a forget anywhere is one here."""
        self._common.add(arguments.name("scope", scope))

    def _advance(self, scope: str, durable: bool = True) -> int:
        if self._blobs is not None:
            return self._blobs.bump(scope, durable=durable)
        with self._lock:
            self._generations[scope] = self._generations.get(scope, 0) + 1
            return self._generations[scope]

    def clear_scope(self, scope: str) -> int:
        """Forget every answer of a scope, here and in the rows; how many."""
        self._advance(arguments.name("scope", scope))
        with self._lock:
            own = self._shelf.select(lambda entry: entry.scope == scope)
            for key in own:
                self._shelf.remove(key, "invalidated")
        return max(len(own), self._rows.clear(scope) if self._rows is not None else 0)

    def stats(self) -> dict[str, Any]:
        """Counters since the start, and what is held now.

        ``hits`` (of them ``joined``: served by a call under way), ``misses`` by cause, ``not_kept`` by flaw,
        ``saved_input_tokens`` and ``saved_output_tokens``: what the hits would have cost, counted apart from
        anything that was paid; ``entries``, ``bytes``, ``evictions``, ``storage_errors``.
        """
        with self._lock:
            return {
                "hits": self._hits,
                "joined": self._joined,
                "misses": {cause: self._misses[cause] for cause in CAUSES},
                "not_kept": dict(self._flawed),
                "saved_input_tokens": self._saved_input,
                "saved_output_tokens": self._saved_output,
                "storage_errors": self._rows.errors if self._rows is not None else 0,
                **self._shelf.stats(),
            }

    def close(self) -> None:
        """From now on everything is a miss: ``call`` asks the model, nothing is kept."""
        self._closed = True

    __reduce__ = open_again

    # What they go through

    def _ask(self, request: Mapping[str, Any], scope: str | None) -> _Asked | None:
        """The request with its key, or None (counted) if it has none."""
        scope = self._scope_of(scope)
        if not isinstance(request, Mapping):
            raise InvalidInput(f"expected the request as a dict, got {type(request).__name__}; convert it first")
        if self._closed:
            self._miss("uncacheable")
            return None
        try:
            return _Asked(digest("response", scope, exchange.canonical_request(request)), scope, request)
        except Exception:  # noqa: BLE001  a part's own code may run here; whatever it raises, there is no key
            self._miss("uncacheable")
            return None

    def _look(self, asked: _Asked) -> Any:
        now = self._clock()
        generation = self._generation(asked.scope)
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

    def _load(self, asked: _Asked, generation: int | None, now: float) -> _Entry | None:
        row = self._rows.load(asked.scope, asked.key, now) if self._rows is not None else None
        if row is None or not alive(row.created, self._ttl, now) or row.facts.get("generation") != generation:
            return None
        frozen = thawable(row.raw)
        entry = _Entry(frozen, frozen.size, row.created, int(generation or 0), asked.scope, stored=True)
        self._enter(asked.key, entry)
        return entry

    def _served(self, asked: _Asked, entry: _Entry) -> Any:
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

    def _joined_by(self, asked: _Asked, entry: _Entry) -> Any:
        found = self._served(asked, entry)
        if found is not MISS:
            with self._lock:
                self._hits += 1
                self._joined += 1
        return found

    def _begin(self, asked: _Asked) -> tuple[int | None, float]:
        """The generation and the time an execution begins at."""
        self._miss(asked.cause)
        return self._generation(asked.scope), self._clock()

    def _lead(self, asked: _Asked, run: Callable[[], Any]) -> tuple[Any, Outcome]:
        found = self._look(asked)  # an execution may have ended since the caller looked
        if found is not MISS:
            return found, Again()
        began = self._begin(asked)
        return self._finish(asked, run(), *began)

    def _finish(self, asked: _Asked, response: Any, generation: int | None, created: float) -> tuple[Any, Outcome]:
        return response, self._keep(asked, response, generation, created)[1]

    def _keep(self, asked: _Asked, response: Any, generation: int | None, created: float) -> tuple[bool, Outcome]:
        """Keep the response if it is whole and no memory was forgotten meanwhile; what followers may have."""
        try:
            flaw = exchange.flaw(response)
            frozen = freeze(exchange.unmarked(response))
        except Exception:  # noqa: BLE001  no response of a known shape, or one whose own code cannot copy it
            self._flaw("uncacheable")
            return False, Alone()
        if generation is not None and self._generation(asked.scope) != generation:
            return False, Again()
        if flaw is None and not self._shelf.fits(frozen.size):
            flaw = "too large"
        keeps = flaw is None and generation is not None and self._ttl != 0
        raw = frozen.raw() if keeps and self._rows is not None else None
        entry = _Entry(frozen, frozen.size, created, generation or 0, asked.scope, stored=raw is not None)
        if flaw is not None:
            self._flaw(flaw)
        if keeps:
            self._enter(asked.key, entry)
        if raw is not None and self._rows is not None:
            expires = None if self._ttl is None else created + self._ttl
            row = Row({"generation": entry.generation}, raw, created)
            self._rows.save(asked.scope, asked.key, row, expires=expires)
        return keeps, Value(entry)

    def _enter(self, key: str, entry: _Entry) -> None:
        with self._lock:
            _, evicted = self._shelf.put(key, entry)
        if self._rows is not None:
            self._rows.drop((one.scope, gone) for gone, one in evicted if one.stored)

    def _generation(self, scope: str) -> int | None:
        found = self._generation_of(scope)
        if scope not in self._common or found is None:
            return found
        anywhere = self._generation_of(_ANY_SCOPE)
        return None if anywhere is None else found + anywhere  # both only grow, so the sum tells every move

    def _generation_of(self, scope: str) -> int | None:
        if self._rows is not None:
            return self._rows.generation(scope)
        with self._lock:
            return self._generations.get(scope, 0)

    def _miss(self, cause: str) -> None:
        with self._lock:
            self._misses[cause] += 1

    def _flaw(self, flaw: str) -> None:
        with self._lock:
            self._flawed[flaw] += 1

    async def _aside(self, work: Callable[[], Any]) -> Any:
        """In a thread if it touches the disk. A fresh one: see ``single_flight``."""
        return await in_thread(work) if self._rows is not None else work()


def _asking(fn: Callable[..., Any], request: Mapping[str, Any]) -> Callable[[], Any]:
    found = tools.signature(fn)
    if found is not None and not found.parameters:
        return fn
    try:
        if found is not None:
            found.bind(**request)
    except TypeError:
        return lambda: fn(request)
    return lambda: fn(**request)
