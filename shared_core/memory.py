"""``TieredMemory``: opens the tiers on one storage, one embedder, one clock, one Settings. No rules of its own.

Reading order after this file: ``turn.py`` (how the tiers work together), then a tier's ``__init__``.
"""

from __future__ import annotations

import functools
import logging
import time
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from shared_core import arguments
from shared_core.embedding import open_embedder
from shared_core.errors import InvalidInput, ScopeRequired, install_command, open_again
from shared_core.long_term import LongTerm
from shared_core.mid_term.bounded import BoundedBlobs
from shared_core.mid_term.context import Context
from shared_core.mid_term.response_cache import ResponseCache
from shared_core.mid_term.sizing import Sizing
from shared_core.mid_term.tool_cache import ToolCache
from shared_core.off_loop import off_loop
from shared_core.records import Memory, Receipt
from shared_core.settings import Settings
from shared_core.short_term import Prompts
from shared_core.storage.base import Storage
from shared_core.storage.sqlite import SQLiteStorage
from shared_core.turn import Turns

P = ParamSpec("P")
R = TypeVar("R")
Instant = float | datetime
_EXTRAS = {"minilm": "local", "multilingual": "multilingual", "model2vec": "model2vec"}
_log = logging.getLogger(__name__)


def _passed_on(method: Callable[Concatenate[LongTerm, P], R]) -> Callable[Concatenate[TieredMemory, P], R]:
    """The same call on the memory as on its long-term tier: signature and docstring stand there, once."""
    name = method.__name__

    @functools.wraps(method)
    def passed(self: TieredMemory, /, *args: P.args, **kwargs: P.kwargs) -> R:
        found: R = getattr(self.long_term, name)(*args, **kwargs)
        return found

    passed.__qualname__ = f"TieredMemory.{name}"
    return passed


class TieredMemory:
    """The memory of an agent: what it remembers, what it already computed, and where its conversations stand.

    Make one with ``TieredMemory.open``. Thread-safe; several processes may open the same file.
    ``scope`` says whom a call belongs to; None means the default scope, and ScopeRequired without one.
    What touches the file has an async twin with an ``a`` in front. Use it in a ``with`` or an ``async with`` block.

    Its parts: ``turns`` (a turn's beginning and end), ``tools`` and ``responses`` (what was computed already), ``prompts``
    (breakpoints for a provider's cache), ``long_term`` (listing memories, plain retrievals).
    """

    def __init__(
        self,
        storage: Storage,
        *,
        embedder: object | str | None = None,
        default_scope: str | None = None,
        settings: Settings | None = None,
        clock: Callable[[], float] = time.time,
        ids: Callable[[], str] | None = None,
        reembed: bool = False,
    ) -> None:
        """Open the tiers on a storage of your own; ``open`` does it on a SQLite file."""
        if isinstance(storage, str | Path):
            raise InvalidInput(f"storage: expected a Storage, got a path; write TieredMemory.open({str(storage)!r})")
        if settings is not None and not isinstance(settings, Settings):
            raise InvalidInput(f"settings: expected Settings, got {settings!r}; write Settings(recall_k=8)")
        self.settings = settings if settings is not None else Settings()
        self.default_scope = arguments.optional_scope("default_scope", default_scope)
        self.storage = storage
        self.clock = clock = _within_calendar(clock)
        self._ids = ids if ids is not None else _new_id
        self.embedder = open_embedder(embedder)
        self.long_term = LongTerm(
            storage, self.embedder, settings=self.settings, clock=clock, ids=self._ids, scope_of=self.scope_of,
            reembed=reembed, erased=self._erased,
        )  # fmt: skip
        if embedder is None and self.embedder is None and (found := storage.memories.embedder()) is not None:
            _log.warning("recall goes by words alone: %s (the file holds vectors of %r)", _cure(found[0]), found[0])
        shared = self.settings.persist_caches and storage.location is not None and not storage.read_only
        blobs = storage.blobs if shared else None
        self.tools = ToolCache(settings=self.settings, clock=clock, blobs=blobs, scope_of=self.scope_of)
        self.responses = ResponseCache(
            settings=self.settings, clock=clock, blobs=blobs, scope_of=self.scope_of, ids=self._ids,
            generations=storage.blobs if storage.location is not None else None,
        )  # fmt: skip
        self._bounded: weakref.WeakSet[BoundedBlobs] = weakref.WeakSet()
        self._sizing = Sizing(self.settings)
        self.prompts = Prompts(settings=self.settings, clock=clock, scope_of=self.scope_of)
        self.turns = Turns(
            self.long_term, self.context, settings=self.settings, scope_of=self.scope_of, sizing=self._sizing
        )

    @classmethod
    def open(
        cls,
        location: str | Path,
        *,
        embedder: object | str | None = None,
        default_scope: str | None = None,
        settings: Settings | None = None,
        clock: Callable[[], float] = time.time,
        ids: Callable[[], str] | None = None,
        reembed: bool = False,
    ) -> Self:
        """Open or create the memory in one SQLite file, or in ``":memory:"``.

        ``embedder``: None takes the bundled model if it is installed, else words alone; ``"none"``; a name
        ("minilm", "static", "multilingual", "model2vec:<path>"); or an object with ``embed`` (or a LangChain or
        LlamaIndex embedding). ``clock`` gives epoch seconds, ``ids`` unique strings. Raises StorageError,
        SchemaTooNew, EmbedderMismatch (pass ``reembed=True`` to change the model), MissingExtra.
        """
        if not isinstance(location, str | Path) or not str(location):
            raise InvalidInput(f"location: expected a path or ':memory:', got {location!r}")
        storage = SQLiteStorage(location)
        try:
            return cls(
                storage, embedder=embedder, default_scope=default_scope, settings=settings, clock=clock, ids=ids,
                reembed=reembed,
            )  # fmt: skip
        except BaseException:
            storage.close()
            raise

    def __repr__(self) -> str:
        """Which file, whose by default, and what recall reads with."""
        model = self.embedder.fingerprint if self.embedder is not None else "none: recall goes by words alone"
        return f"<TieredMemory {self.storage.location or ':memory:'}, default_scope={self.default_scope!r}, embedder {model}>"

    def scope_of(self, scope: str | None) -> str:
        """The scope a call belongs to: the one given, else the default; ScopeRequired if there is neither."""
        if scope is None:
            if self.default_scope is None:
                raise ScopeRequired(
                    "scope: expected one, got none and no default; pass scope='…' (whose memory is it?), "
                    "or open with TieredMemory.open(…, default_scope='…')"
                )
            return self.default_scope
        return arguments.scope("scope", scope)

    def inner_scope(self, part: str, *, scope: str | None = None) -> str:
        """A scope within the scope, for what an adapter keeps beside the memories: nobody can name it, and
        ``forget_scope`` of the outer one erases it too.
        """
        return arguments.inner_scope(self.scope_of(scope), arguments.name("part", part))

    # -- long term ---------------------------------------------------------------------------------

    def remember(
        self,
        text: str,
        *,
        scope: str | None = None,
        role: str = "user",
        speaker: str | None = None,
        session: str | None = None,
        tags: Sequence[str] = (),
        importance: float | None = None,
        at: Instant | None = None,
        subject: str | None = None,
        pinned: bool = False,
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,
    ) -> Memory:
        """Store one memory; when this returns it is durable and the next recall of any process sees it.

        Equal text of the same scope, role and speaker strengthens the live memory and returns it; with an
        explicit ``id`` nothing merges (same id and text: no-op, or an archived memory comes back; another text:
        DuplicateId). ``importance`` in [0, 1], None has it computed from the text. ``at`` is when it happened
        (epoch seconds or an aware datetime), None is now. A ``subject`` makes this the current memory on that
        subject. Raises InvalidInput, StorageError.
        """
        item = {
            "text": text, "role": role, "speaker": speaker, "session": session, "tags": tags, "importance": importance,
            "at": at, "subject": subject, "pinned": pinned, "metadata": metadata, "id": id,
        }  # fmt: skip
        return self.long_term.remember_many([item], scope=scope)[0]

    remember_many = _passed_on(LongTerm.remember_many)
    recall = _passed_on(LongTerm.recall)
    get = _passed_on(LongTerm.get)
    forget = _passed_on(LongTerm.forget)
    supersede = _passed_on(LongTerm.supersede)
    pin = _passed_on(LongTerm.pin)
    sweep = _passed_on(LongTerm.sweep)
    export = _passed_on(LongTerm.export)
    import_ = _passed_on(LongTerm.import_)
    check = _passed_on(LongTerm.check)
    rebuild_index = _passed_on(LongTerm.rebuild_index)

    def forget_scope(self, scope: str) -> Receipt:
        """Erase all that is kept of a scope, in every tier and for every process; return what that was.

        Memories, text index, vectors, conversation logs, cached results and responses, blobs of adapters. Answers
        in caches that all scopes share go too, whosever they are.
        """
        erased = self.long_term.forget_scope(scope)
        tools, responses = self.tools.clear_scope(scope), self.responses.clear_scope(scope)
        self.prompts.clear_scope(scope)
        for inner in map(arguments.InnerScope, erased.inner):
            self.tools.clear_scope(inner)
            self.responses.clear_scope(inner)
            self.prompts.clear_scope(inner)
        self.responses.clear_shared()
        blobs = dict(erased.blobs)
        return Receipt(
            scope=scope,
            at=self.clock(),
            memories=erased.memories,
            vectors=erased.vectors,
            messages=erased.messages,
            tool_results=max(tools, blobs.pop("tools", 0)),
            responses=max(responses, blobs.pop("responses", 0)),
            blobs=sum(blobs.values()),
            left=erased.left,
        )

    def _erased(self, scope: str, *, durable: bool = True) -> None:
        self.responses.bump(scope, durable=durable)

    # -- mid term ----------------------------------------------------------------------------------

    def context(self, session: str, *, scope: str | None = None) -> Context:
        """The conversation of a session: append, snapshot, rewind, branch, history, window."""
        return Context(
            self.storage.logs,
            arguments.name("session", session),
            scope=self.scope_of(scope),
            clock=self.clock,
            ids=self._ids,
            sizing=self._sizing,
            rewound=self.tools.rewound,
        )

    def sessions(self, *, scope: str | None = None) -> list[str]:
        """The sessions of a scope that hold messages, in the order of their first one."""
        return self.storage.logs.sessions(self.scope_of(scope))

    def bounded_blobs(
        self,
        *,
        max_items: int | None = None,
        max_bytes: int | None = None,
        on_evict: Callable[[str, str, list[str]], None] | None = None,
    ) -> BoundedBlobs:
        """Keyed bytes in the memory's file within bounds, for adapters; see ``mid_term/bounded.py``."""
        bounded = BoundedBlobs(
            self.storage.blobs, rule=self.settings.mid_term, clock=self.clock, max_items=max_items,
            max_bytes=max_bytes, on_evict=on_evict,
        )  # fmt: skip
        self._bounded.add(bounded)
        return bounded

    # -- the whole ---------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """What was found, saved and evicted since opening, per tier."""
        return {
            "short_term": self.prompts.stats(),
            "mid_term": {
                "tools": self.tools.stats(),
                "responses": self.responses.stats(),
                "context": dict(self._sizing.counts),
            },
            "long_term": {
                **self.long_term.stats(),
                "recall_failures": self.turns.counts["recall_failures"],
                "unreadable_rows": self.storage.unreadable,
            },
        }

    def close(self) -> None:
        """Write down what waits and close the storage; idempotent.

        Times and counts of reads are dropped and counted (``accesses_dropped``) if another process holds the file.
        Later calls raise Closed, but a wrapped tool goes on as the tool itself: executed always, counted.
        """
        if not self._closed:
            self._closed = True
            self.tools.close()
            self.responses.close()
            try:
                for bounded in list(self._bounded):
                    bounded.flush()
                self.long_term.close()
            finally:
                self.storage.close()

    _closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- async twins: one thread hop, the same procedure --------------------------------------------

    aremember = off_loop(remember)
    aremember_many = off_loop(remember_many)
    arecall = off_loop(recall)
    aget = off_loop(get)
    aforget = off_loop(forget)
    asupersede = off_loop(supersede)
    apin = off_loop(pin)
    asweep = off_loop(sweep)
    aexport = off_loop(export)
    aimport_ = off_loop(import_)
    aforget_scope = off_loop(forget_scope)
    acheck = off_loop(check)
    arebuild_index = off_loop(rebuild_index)
    asessions = off_loop(sessions)
    aclose = off_loop(close)

    async def astats(self) -> dict[str, Any]:
        """``stats``; answered from memory."""
        return self.stats()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    __reduce__ = open_again


def _cure(fingerprint: str) -> str:
    """What brings back the model of the fingerprint."""
    extra = next((extra for start, extra in _EXTRAS.items() if fingerprint.startswith(start)), None)
    return install_command(extra) if extra else "open it with embedder=, the model it was written with"


def _within_calendar(clock: Callable[[], float]) -> Callable[[], float]:
    return lambda: arguments.reading(clock())


def _new_id() -> str:
    return uuid.uuid4().hex
