"""The public face of long-term memory: checks arguments, reads the clock once, calls the tier's parts."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from shared_core import arguments
from shared_core.embedding.base import Embedder
from shared_core.errors import InvalidInput, NotFound
from shared_core.long_term import lifecycle, transfer
from shared_core.long_term import recall as recalling
from shared_core.long_term.draft import Draft, draft
from shared_core.long_term.hooks import tokens_of
from shared_core.long_term.query import read_part
from shared_core.long_term.shown import Marks
from shared_core.long_term.store import MemoryStore
from shared_core.long_term.view import View
from shared_core.off_loop import off_loop
from shared_core.records import CheckReport, Hit, Memory, SweepReport
from shared_core.settings import Retention, Settings
from shared_core.storage.base import Source, Storage
from shared_core.storage.upkeep import Erased
from shared_core.text import near_identical, signature

Instant = float | datetime
_CLOSING_SECONDS = 0.25  # longer than a writer at work takes


class LongTerm:
    """Memories of all scopes. ``scope=None`` means the default scope everywhere here."""

    def __init__(
        self,
        storage: Storage,
        embedder: Embedder | None,
        *,
        settings: Settings,
        clock: Callable[[], float],
        ids: Callable[[], str],
        scope_of: Callable[[str | None], str],
        reembed: bool = False,
        erased: Callable[..., object] = lambda *_, **__: None,
    ) -> None:
        """Raise EmbedderMismatch if the storage holds another model's vectors and ``reembed`` is not set.

        ``erased`` is told the scope when memories of it were forgotten, swept or erased.
        """
        self._store = MemoryStore(storage, embedder, settings=settings, ids=ids, erased=erased)
        self._settings = settings
        self._clock = clock
        self._scope_of = scope_of
        self._shown = Marks(self._masked)
        self._store.check_embedder(reembed=reembed)

    def remember_many(self, items: Iterable[Mapping[str, Any]], *, scope: str | None = None) -> list[Memory]:
        """Store dicts of ``remember``'s arguments in one transaction; one memory each, in order (ids may repeat)."""
        return self._store.write([self._draft(item, scope) for item in items], now=self._clock())

    def remember_under(self, items: Iterable[tuple[Mapping[str, Any], Source]], *, scope: str) -> list[Memory]:
        """As ``remember_many``, each written under a node of a conversation."""
        return self._store.write([self._draft(item, scope, source) for item, source in items], now=self._clock())

    def _draft(self, item: Mapping[str, Any], scope: str | None, source: Source | None = None) -> Draft:
        chosen = item.get("scope") if isinstance(item, Mapping) and item.get("scope") is not None else scope
        return draft(
            item,
            scope=self._scope_of(chosen),
            max_text_bytes=self._settings.max_text_bytes,
            mask=self._settings.mask,
            source=source,
        )

    def recall(
        self,
        query: str,
        *,
        scope: str | None = None,
        k: int = 8,
        tags: Sequence[str] | None = None,
        session: str | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        as_of: Instant | None = None,
        max_tokens: int | None = None,
        exclude: Iterable[str] = (),
        where: Callable[[Memory], bool] | None = None,
        shown_texts: Iterable[str] = (),
    ) -> list[Hit]:
        """The memories that matter for the query, best first, each with the parts of its score.

        ``tags`` keeps memories with any of them; ``since <= at < until``; ``as_of`` looks back to that time.
        ``session`` is a viewpoint: that conversation is seen as it stands now, after any rewind. ``max_tokens``
        is never exceeded; ``exclude`` are ids not to return. ``where`` keeps memories for which it is true (by
        their metadata, say); it is called for each that the other filters leave, and must not call the memory
        itself. A query without words ranks by recency and importance alone. Hits count as accesses. Raises
        InvalidInput, StorageError.

        ``shown_texts`` are texts that the reader has before it already: memories of equal text are passed over.
        """
        _check_query(query)
        view = View(
            session=arguments.optional_name("session", session),
            tags=None if tags is None else arguments.names("tags", tags),
            since=arguments.optional_instant("since", since),
            until=arguments.optional_instant("until", until),
            as_of=arguments.optional_instant("as_of", as_of),
            exclude=arguments.names("exclude", exclude),
            shown=self._shown.of(shown_texts),
            where=arguments.optional_function("where", where),
        )
        return recalling.recall(
            self._store, query, scope=self._scope_of(scope), view=view, k=arguments.count("k", k),
            max_tokens=arguments.optional_count("max_tokens", max_tokens), now=self._clock(),
        )  # fmt: skip

    def _masked(self, text: str) -> str:
        """The text as a memory of it would be written."""
        return text if self._settings.mask is None else self._settings.mask(text)

    def echoed(self, text: str, ids: Iterable[str], *, scope: str | None = None) -> Memory | None:
        """The one of these memories that ``text`` as a whole repeats, or nearly; None if it says anything else.

        Numbers and negation must agree, see ``text.near_identical``.
        """
        said = signature(self._masked(text))
        found = self.get_many(ids, scope=scope)
        return next((one for one in found if one is not None and near_identical(said, signature(one.text))), None)

    def strengthen(self, id: str, *, scope: str | None = None) -> None:
        """Count the memory as accessed once more, now; written down with the next write."""
        self._store.strengthen(self._scope_of(scope), id, self._clock())

    def count_tokens(self, text: str) -> int:
        """The text's tokens by ``Settings.count_tokens``; an estimate if there is none, or (counted) it fails."""
        return tokens_of(self._store, text)

    def get(self, id: str, *, scope: str | None = None) -> Memory | None:
        """The memory with this id, or None. Not an access."""
        return self._store.found(self._scope_of(scope), [arguments.name("id", id)])[0]

    def get_many(self, ids: Iterable[str], *, scope: str | None = None) -> list[Memory | None]:
        """The memories with these ids, in order; None where there is none. Not an access."""
        return self._store.found(self._scope_of(scope), [arguments.name("id", id) for id in ids])

    def ids_under(self, session: str, nodes: Iterable[str], *, scope: str | None = None) -> list[str]:
        """The ids of the memories that were written under these nodes of the session."""
        wanted = frozenset(nodes)
        if not wanted:
            return []
        with self._store.current(self._scope_of(scope)) as index:
            return [
                index.ids[position]
                for position in index.written_under.get(session, ())
                if any(s.session == session and s.node in wanted for s in index.sources.get(position, ()))
            ]

    def list(
        self, *, scope: str | None = None, limit: int | None = None, status: str | None = "active"
    ) -> list[Memory]:
        """Newest first, for administration; ``status`` None lists every status. Not an access."""
        if status is not None and status not in transfer.STATUSES:
            raise InvalidInput(f"status: expected one of {', '.join(transfer.STATUSES)} or None, got {status!r}")
        return self._store.newest(self._scope_of(scope), status=status, limit=arguments.optional_count("limit", limit))

    def retrieve_by_recency(self, *, scope: str | None = None, limit: int = 10) -> builtins.list[Memory]:
        """The memories last accessed, newest first."""
        return self._retrieve(recalling.by_recency, scope, limit)

    def retrieve_by_importance(self, *, scope: str | None = None, limit: int = 10) -> builtins.list[Memory]:
        """The memories worth most now: importance less what the forgetting curve took."""
        now = self._clock()
        return self._retrieve(recalling.by_importance(self._settings.decay, now), scope, limit, now=now)

    def retrieve_by_tags(
        self, tags: Sequence[str], *, scope: str | None = None, limit: int = 10
    ) -> builtins.list[Memory]:
        """Memories that carry any of the tags, last accessed first."""
        return self._retrieve(recalling.by_recency, scope, limit, tags=arguments.names("tags", tags))

    def retrieve_by_similarity(self, query: str, *, scope: str | None = None, limit: int = 10) -> builtins.list[Memory]:
        """The memories nearest in meaning to the query (by its words where no model is)."""
        now = self._clock()
        _check_query(query)
        query = read_part(query)
        vector = self._store.vectors.of_query(query)
        return self._retrieve(recalling.by_similarity(vector, query), scope, limit, now=now)

    def _retrieve(
        self,
        rank: Callable[..., Any],
        scope: str | None,
        limit: int,
        *,
        tags: tuple[str, ...] | None = None,
        now: float | None = None,
    ) -> builtins.list[Memory]:
        return recalling.retrieve(
            self._store, scope=self._scope_of(scope), limit=arguments.count("limit", limit),
            now=self._clock() if now is None else now, rank=rank, tags=tags,
        )  # fmt: skip

    def forget(self, ids: str | Iterable[str], *, scope: str | None = None) -> int:
        """Erase memories; return how many there were. Answers cached for the scope are not replayed after it.

        Their ids may be used again.
        """
        chosen = self._scope_of(scope)
        wanted = arguments.ids("ids", ids)
        if wanted:
            self._store.erased(chosen)  # before: a process that dies in between replays no answer built on them
        count = self._store.rows.delete(chosen, wanted)
        if count:
            self._store.erased(chosen)  # after: what was answered meanwhile saw the memory still
        return count

    def supersede(self, id: str, text: str, *, scope: str | None = None) -> Memory:
        """Put a new text in the place of a memory; the old one stays readable with ``recall(as_of=…)``."""
        chosen = self._scope_of(scope)
        old = self.get(id, scope=chosen)
        if old is None:
            raise NotFound(f"no memory with id {id!r} in this scope; long_term.list() shows the ids there are")
        item = self._draft({"text": text}, chosen)
        successor = replace(
            item, role=old.role, speaker=old.speaker, session=old.session, tags=old.tags, subject=old.subject,
            pinned=old.pinned, metadata=dict(old.metadata),
        )  # fmt: skip
        return self._store.replace(id, successor, now=self._clock())

    def pin(self, id: str, value: bool = True, *, scope: str | None = None) -> None:
        """Pin a memory, so that no sweep evicts it, or unpin it. NotFound if there is none."""
        self._store.rows.set_pinned(self._scope_of(scope), arguments.name("id", id), arguments.flag("value", value))

    def sweep(
        self,
        *,
        scope: str | None = None,
        max_memories: int | None = None,
        max_bytes: int | None = None,
        retention: Sequence[Retention] | None = None,
        dry_run: bool = False,
    ) -> SweepReport:
        """Evict memories that are older than their retention, then those with the lowest scores by the rule.

        Down to the bounds; what is None is as ``Settings`` says. Pinned ones stay. ``dry_run`` lists the victims
        and changes nothing. Answers cached for the scope are not replayed after a sweep that evicted.
        """
        settings = self._settings
        return lifecycle.sweep(
            self._store,
            scope=self._scope_of(scope),
            max_memories=_chosen(arguments.optional_count("max_memories", max_memories), settings.max_memories),
            max_bytes=_chosen(arguments.optional_count("max_bytes", max_bytes), settings.max_bytes),
            retention=settings.retention
            if retention is None
            else replace(settings, retention=tuple(retention)).retention,
            dry_run=dry_run,
            now=self._clock(),
        )

    def forget_scope(self, scope: str) -> Erased:
        """Erase all that the storage holds of the scope: memories, vectors, logs, blobs."""
        chosen = arguments.scope("scope", scope)
        erased = self._store.storage.upkeep.erase_scope(chosen, within=arguments.within(chosen))
        for one in (*erased.inner, chosen):
            self._store.forget_index(one)
            self._store.erased(one)
        return erased

    def export(self, path: str | Path, *, scope: str | None = None, vectors: bool = False) -> int:
        """Write every memory of the scope, of every status, to a file of JSON Lines; return how many.

        Lossless; ``vectors`` too if asked for (they can be made again). A failure leaves what was there.
        """
        return transfer.export(self._store, path, scope=self._scope_of(scope), vectors=bool(vectors))

    def import_(self, path: str | Path) -> int:
        """Write the memories of an exported file into the scopes it names; return how many were not there.

        All or none: InvalidInput names the line that is no memory. Importing again changes nothing. Texts are
        masked like those of a write (``Settings.mask``). A budget is kept to by the next write or sweep, not by
        an import.
        """
        return transfer.import_(self._store, path, now=self._clock())

    def check(self) -> CheckReport:
        """Look the whole storage over and say what is wrong: damage, unreadable rows, an index that disagrees."""
        return lifecycle.check(self._store)

    def rebuild_index(self) -> CheckReport:
        """Mend what ``check`` found and can be mended: terms are cut and vectors made anew from the texts.

        The room that was left by what was erased is given back to the disk.
        """
        return lifecycle.rebuild_index(self._store)

    alist = off_loop(list)
    aretrieve_by_recency = off_loop(retrieve_by_recency)
    aretrieve_by_importance = off_loop(retrieve_by_importance)
    aretrieve_by_tags = off_loop(retrieve_by_tags)
    aretrieve_by_similarity = off_loop(retrieve_by_similarity)

    def stats(self) -> dict[str, Any]:
        """Counts since opening: remembered, strengthened, recalls, recalled, evicted, failures.

        ``embedder`` is the model's fingerprint or None, ``indexed`` how many memories this process holds ready.
        """
        names = (
            "remembered", "strengthened", "recalls", "recalled", "evicted", "accesses_dropped",
            "embedding_failures", "foreign_model", "echoes", "rewrite_failures", "rerank_failures", "importance_failures",
            "count_failures",
        )  # fmt: skip
        return {
            **{name: self._store.counted(name) for name in names},
            "embedder": self._store.vectors.fingerprint,
            "indexed": self._store.indexed(),
        }

    def flush(self) -> None:
        """Write down the read facts that wait for the next write."""
        self._store.flush()

    def close(self) -> None:
        """Write them down if nobody else writes: no program's end waits for how often a memory was read."""
        self._store.flush(wait=_CLOSING_SECONDS)


def _chosen(given: int | None, otherwise: int | None) -> int | None:
    return otherwise if given is None else given


def _check_query(query: object) -> None:
    if not isinstance(query, str):
        raise InvalidInput(
            f"query: expected a string, got {type(query).__name__}{arguments.part(query, 'text', 'content')}"
        )
