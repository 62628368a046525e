"""``memory.responses``: answers of a model to exactly the same request, paid for once.

Here is what the user may ask, and what a call goes through. What counts in a request is in ``exchange.py``, what
is kept in ``response_entries.py``, concurrent calls in ``single_flight.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import uuid4

from shared_core import arguments
from shared_core.errors import InvalidInput, open_again
from shared_core.forks import renew_in_child
from shared_core.mid_term import exchange, tools
from shared_core.mid_term.aside import awaited, in_thread
from shared_core.mid_term.flight import Again, Outcome
from shared_core.mid_term.keys import digest
from shared_core.mid_term.response_entries import Asked, Entry, ResponseEntries
from shared_core.mid_term.single_flight import SingleFlight
from shared_core.records import MISS
from shared_core.settings import DAY_SECONDS, Settings
from shared_core.storage.base import Blobs

_ASKED: Final = 10_000
_ASKING: Final = 100
_ASKING_SECONDS: Final = 600.0  # no model takes longer to answer: then nobody waits, and a call that failed has no put


class ResponseCache:
    """A cache of model responses under exact keys, for plain dicts in the Anthropic or OpenAI shape.

    ``scope_of``, ``blobs`` and ``policy`` as in ``ToolCache``; ``generations`` is where forgets are told if no
    answers are kept there; ``ttl`` in seconds, None for no expiry; ``ids`` makes fresh ids. A served response is the receiver's own, carries a fresh message id and fresh ids for
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
        generations: Blobs | None = None,
        ids: Callable[[], str] = lambda: uuid4().hex,
        ttl: float | None = DAY_SECONDS,
        policy: str = "attention_lru",
    ) -> None:
        self._clock = clock
        self._scope_of = scope_of
        self._entries = ResponseEntries(
            settings=settings, clock=clock, blobs=blobs, generations=generations, ids=ids,
            ttl=arguments.ttl("ttl", ttl), policy=policy,
        )  # fmt: skip
        self._flights = SingleFlight(patience=_ASKING_SECONDS)
        self._lock = threading.Lock()
        self._asked: dict[str, list[tuple[int, float]]] = {}  # generation and time of misses whose put is to come
        self._closed = False
        renew_in_child(self)

    def after_fork_in_child(self) -> None:
        """A lock of our own; what another thread of the parent was about to put is not put here."""
        self._lock = threading.Lock()
        self._asked = {}

    # The public calls

    def get(self, request: Mapping[str, Any], *, scope: str | None = None) -> Any:
        """The kept response, or ``MISS``."""
        asked = self._ask(request, scope)
        if asked is None:
            return MISS
        found = self._entries.look(asked)
        if found is MISS:
            generation, now = self._begin(asked)
            with self._lock:
                waiting = [one for one in self._asked.pop(asked.key, ()) if now - one[1] < _ASKING_SECONDS]
                if generation is not None:
                    self._asked[asked.key] = [*waiting[:_ASKING], (generation, now)]
                if len(self._asked) > _ASKED:
                    del self._asked[next(iter(self._asked))]
        return found

    def put(self, request: Mapping[str, Any], response: Mapping[str, Any], *, scope: str | None = None) -> bool:
        """Keep a response; False if it is not kept. After a ``get`` that missed it counts as begun then.

        Whose put it is nobody says: where several have missed, it counts as begun with the first of them that
        may still be under way.
        """
        asked = self._ask(request, scope)
        if asked is None:
            return False
        now = self._clock()
        with self._lock:
            waiting = [one for one in self._asked.pop(asked.key, ()) if now - one[1] < _ASKING_SECONDS]
            if len(waiting) > 1:
                self._asked[asked.key] = waiting[:-1]
        generation = min(waiting)[0] if waiting else self._entries.forgets.generation(asked.scope)
        return self._entries.keep(asked, response, generation, now)[0]

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

        def take(entry: Entry) -> Any:
            return self._entries.joined(asked, entry)

        return self._flights.serve(asked.key, lambda: self._entries.look(asked), lead, take)

    async def aget(self, request: Mapping[str, Any], *, scope: str | None = None) -> Any:
        """``get`` without blocking the loop."""
        return await self._aside(lambda: self.get(request, scope=scope))

    async def aput(self, request: Mapping[str, Any], response: Mapping[str, Any], *, scope: str | None = None) -> bool:
        """``put`` without blocking the loop."""
        return bool(await self._aside(lambda: self.put(request, response, scope=scope)))

    async def acall(self, request: Mapping[str, Any], fn: Callable[..., Any], *, scope: str | None = None) -> Any:
        """``call`` without blocking the loop: ``fn`` is a coroutine function, or a plain one for a thread."""
        asked = self._ask(request, scope)
        run, hop = _asking(fn, request), not tools.gives_awaitable(fn)
        if asked is None:
            return await awaited(await in_thread(run) if hop else run())

        async def look() -> Any:
            return await self._aside(lambda: self._entries.look(asked))

        async def alead() -> tuple[Any, Outcome]:
            found = await look()
            if found is not MISS:
                return found, Again()
            began = await self._aside(lambda: self._begin(asked))
            response = await awaited(run())
            kept: tuple[Any, Outcome] = await self._aside(lambda: self._finish(asked, response, *began))
            return kept

        def take(entry: Entry) -> Any:
            return self._entries.joined(asked, entry)

        lead: Callable[[], Any] = (lambda: self._lead(asked, run)) if hop else alead
        return await awaited(await self._flights.aserve(asked.key, look, lead, take, hop=hop))

    def bump(self, scope: str, *, durable: bool = True) -> int:
        """A memory of the scope was forgotten: no answer made before is given again. The new generation."""
        return self._entries.forgets.bump(scope, durable=durable)

    def share(self, scope: str) -> None:
        """The answers of this scope may be built on memories of any other: a forget anywhere is one here."""
        self._entries.share(scope)

    def clear_scope(self, scope: str) -> int:
        """Forget every answer of a scope, here and in the rows; how many."""
        self._entries.forgets.advance(arguments.scope("scope", scope))
        return self._entries.clear_scope(scope)

    def clear_shared(self) -> None:
        """Erase the answers of every scope that any process shares: after a forget none of them is given again."""
        for scope in self._entries.shared():
            self._entries.clear_scope(scope)

    def stats(self) -> dict[str, Any]:
        """Counters since the start, and what is held now.

        ``hits`` (of them ``joined``: served by a call under way), ``misses`` by cause, ``not_kept`` by flaw,
        ``saved_input_tokens`` and ``saved_output_tokens``: what the hits would have cost, counted apart from
        anything that was paid; ``entries``, ``bytes``, ``evictions``, ``storage_errors``, ``given_up`` (calls of a model
        that an equal one waited for ten minutes for, and then asked itself).
        """
        return {**self._entries.stats(), "given_up": self._flights.given_up}

    def close(self) -> None:
        """From now on everything is a miss: ``call`` asks the model, nothing is kept."""
        self._closed = True

    __reduce__ = open_again

    # What they go through

    def _ask(self, request: Mapping[str, Any], scope: str | None) -> Asked | None:
        """The request with its key, or None (counted) if it has none."""
        scope = self._scope_of(scope)
        if not isinstance(request, Mapping):
            raise InvalidInput(f"expected the request as a dict, got {type(request).__name__}; convert it first")
        if self._closed:
            self._entries.miss("uncacheable")
            return None
        try:
            return Asked(digest("response", scope, exchange.canonical_request(request)), scope, request)
        except Exception:  # noqa: BLE001  a part's own code may run here; whatever it raises, there is no key
            self._entries.miss("uncacheable")
            return None

    def _begin(self, asked: Asked) -> tuple[int | None, float]:
        """The generation and the time an execution begins at."""
        self._entries.miss(asked.cause)
        return self._entries.forgets.generation(asked.scope), self._clock()

    def _lead(self, asked: Asked, run: Callable[[], Any]) -> tuple[Any, Outcome]:
        found = self._entries.look(asked)  # an execution may have ended since the caller looked
        if found is not MISS:
            return found, Again()
        began = self._begin(asked)
        return self._finish(asked, run(), *began)

    def _finish(self, asked: Asked, response: Any, generation: int | None, created: float) -> tuple[Any, Outcome]:
        return response, self._entries.keep(asked, response, generation, created)[1]

    async def _aside(self, work: Callable[[], Any]) -> Any:
        """In a thread if it touches the disk. A fresh one: see ``single_flight``."""
        return await in_thread(work) if self._entries.rows is not None else work()


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
