"""Writing memories, keeping each scope's arrays current, and what is known of reads.

Owns the indexes. Read facts wait in ``waiting.py`` for the next write. No model (``vectors.py``), no recall
score (``recall.py``), no eviction (``budget.py``, ``lifecycle.py``), no SQL (``storage/``).
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace

from tqdm import tqdm

from shared_core import arguments
from shared_core.embedding.base import Embedder
from shared_core.errors import InvalidInput, StorageError
from shared_core.forks import renew_in_child
from shared_core.long_term.budget import ScopeRoom, needs_room, size_of
from shared_core.long_term.draft import Draft
from shared_core.long_term.frequencies import Frequencies
from shared_core.long_term.index import ScopeIndex
from shared_core.long_term.vectors import TextVectors
from shared_core.long_term.waiting import WaitingReads
from shared_core.records import Memory
from shared_core.settings import Settings
from shared_core.storage.base import Access, NewMemory, Storage
from shared_core.text import terms

_log = logging.getLogger(__name__)
_MANY = 50_000  # memories whose first reading shows a bar, if it takes longer than a second


class MemoryStore:
    """The memories of every scope of one storage. Thread-safe."""

    def __init__(
        self,
        storage: Storage,
        embedder: Embedder | None,
        *,
        settings: Settings,
        ids: Callable[[], str],
        erased: Callable[..., object] = lambda *_, **__: None,
    ) -> None:
        """``erased`` is told the scope when memories of it were evicted or erased on purpose (then ``durable``)."""
        self.storage = storage
        self.rows = storage.memories
        self.settings = settings
        self._ids = ids
        self.erased = erased
        self._lock = threading.Lock()
        self._making_room = threading.Lock()
        self._indexes: dict[str, ScopeIndex] = {}
        self._sizes: dict[str, int] = {}  # bytes of each index, and of all: a sum at each new scope would be felt
        self._held = 0
        self.reads = WaitingReads()
        self._counts: Counter[str] = Counter()
        self.vectors = TextVectors(storage, embedder, max_windows=settings.max_windows, count=self.count)
        renew_in_child(self)

    # -- reading -----------------------------------------------------------------------------------

    @contextmanager
    def current(self, scope: str) -> Iterator[ScopeIndex]:
        """The scope's arrays, up to date with every committed write of every process, locked for the block."""
        with self._lock:
            index = self._indexes.pop(scope, None)
            if index is None:
                index = ScopeIndex(self.vectors.dimension)
            self._indexes[scope] = index  # last in the order of use
        with index.lock:
            index.take_dimension(self.vectors.dimension)
            self._catch_up(scope, index)
            self._keep_to_bound(scope, index)
            yield index

    def _keep_to_bound(self, scope: str, index: ScopeIndex) -> None:
        """Let go of the indexes used longest ago while all together are too large; they are read again when asked for."""
        size = index.nbytes
        with self._lock:
            if self._indexes.get(scope) is not index or self._sizes.get(scope) == size:
                return
            self._held += size - self._sizes.get(scope, 0)
            self._sizes[scope] = size
            while self._held > self.settings.index_bytes and len(self._indexes) > 1:
                self._let_go(next(iter(self._indexes)))

    def _let_go(self, scope: str) -> None:
        self._indexes.pop(scope, None)
        self._held -= self._sizes.pop(scope, 0)

    def _catch_up(self, scope: str, index: ScopeIndex) -> None:
        if self.rows.version(scope) == index.version:
            return
        fingerprint = self.vectors.fingerprint
        waiting = self.reads.of(scope)
        self._read(scope, index, fingerprint, waiting)
        if index.stale:
            index.reset()
            self._read(scope, index, fingerprint, waiting)

    def _read(self, scope: str, index: ScopeIndex, fingerprint: str | None, waiting: Mapping[str, Access]) -> None:
        """Take in what changed; a bar shows where a whole scope takes long to read."""
        if not index.version and index.n:
            index.reset()  # an earlier reading was interrupted
        with closing(self.rows.pages(scope, index.version, fingerprint)) as pages, ExitStack() as stack:
            bar = None
            for changes in pages:
                if changes.total >= _MANY:
                    bar = stack.enter_context(
                        tqdm(total=changes.total, desc="reading memories", unit="memory", delay=1.0, disable=None)
                    )
                index.apply(changes)
                index.touch(waiting[row.memory.id] for row in changes.rows if row.memory.id in waiting)
                if bar is not None:
                    bar.update(len(changes.rows))
        index.settle()

    def fill_vectors(self, scope: str, index: ScopeIndex, *, wait: bool = False) -> None:
        """Embed what a process without the model wrote; ``index`` is the current one and comes up to date."""
        if self.vectors.fill(scope, index, wait=wait):
            index.take_dimension(self.vectors.dimension)
            self._catch_up(scope, index)

    def check_embedder(self, *, reembed: bool) -> None:
        """Raise EmbedderMismatch if the rows hold vectors of another model, or replace them if asked to."""
        self.vectors.claim(reembed=reembed)
        if reembed:  # also where an earlier attempt was interrupted
            self.fill_every_scope()

    def fill_every_scope(self) -> None:
        """Embed whatever has no vectors, scope after scope; what is done stays done if it is interrupted."""
        for scope in self.rows.scopes():
            with self.current(scope) as index:
                self.fill_vectors(scope, index, wait=True)

    def found(self, scope: str, ids: Sequence[str]) -> list[Memory | None]:
        """The memories with these ids, with the reads that are not written down yet."""
        return [memory and self.reads.as_read(memory) for memory in self.rows.get(scope, ids)]

    def newest(self, scope: str, *, status: str | None, limit: int | None) -> list[Memory]:
        """Newest first, with the reads that are not written down yet."""
        return [self.reads.as_read(memory) for memory in self.rows.list(scope, status=status, limit=limit)]

    def seen(self, scope: str, index: ScopeIndex, accesses: Sequence[Access]) -> None:
        """Note that these memories were read; written down with the next write, or on close."""
        if not accesses:
            return
        index.touch(accesses)
        self.reads.note(scope, accesses)

    def strengthen(self, scope: str, id: str, now: float) -> None:
        """Note one more access of a memory that was said again."""
        with self.current(scope) as index:
            self.seen(scope, index, [Access(id, now, 1)])
        self.count(echoes=1)

    # -- writing -----------------------------------------------------------------------------------

    def write(self, drafts: Sequence[Draft], *, now: float) -> list[Memory]:
        """Store the drafts in one transaction and return one memory each, in order."""
        if not drafts:
            return []
        drafts = self._rated(drafts)
        embedder, vectors = self.vectors.of([draft.text for draft in drafts])
        with self._planning():
            indexes = self._all_current(draft.scope for draft in drafts)
            frequencies = {scope: Frequencies(index) for scope, index in indexes.items()}
            items = [
                self._item(draft, frequencies[draft.scope], embedder, raw, now)
                for draft, raw in zip(drafts, vectors, strict=True)
            ]
            rooms = self._rooms(items, indexes, now)
            with self.reads.taken() as accesses:
                stored = self.rows.add(items, accesses, rooms=rooms)
        self._made(rooms)
        fresh = sum(new for _, new in stored)
        self.count(remembered=fresh, strengthened=len(stored) - fresh)
        return [memory for memory, _ in stored]

    def replace(self, id: str, draft: Draft, *, now: float) -> Memory:
        """Write ``draft`` as the successor of ``id``. NotFound if the scope has no such memory."""
        (draft,) = self._rated([draft])
        embedder, (raw,) = self.vectors.of([draft.text])
        with self._planning():
            indexes = self._all_current([draft.scope])
            item = self._item(draft, Frequencies(indexes[draft.scope]), embedder, raw, now)
            rooms = self._rooms([item], indexes, now)
            stored = self.rows.supersede(draft.scope, id, item, room=rooms.get(draft.scope))
        self._made(rooms)
        return stored

    def _item(
        self, draft: Draft, frequencies: Frequencies, embedder: str | None, vectors: bytes | None, now: float
    ) -> NewMemory:
        words = terms(draft.text)
        memory = Memory(
            id=draft.id if draft.id is not None else self._ids(),
            text=draft.text,
            scope=draft.scope,
            role=draft.role,
            speaker=draft.speaker,
            session=draft.session,
            tags=draft.tags,
            importance=frequencies.importance(draft, words),
            at=now if draft.at is None else draft.at,
            created_at=now,
            last_accessed=now,
            access_count=0,
            subject=draft.subject,
            pinned=draft.pinned,
            metadata=draft.metadata,
        )
        return NewMemory(
            memory=memory,
            merge_key=draft.merge_key,
            explicit_id=draft.id is not None,
            terms=" ".join(words),
            embedder=embedder if vectors else None,
            vectors=vectors,
            source=draft.source,
            unmasked=draft.unmasked,
        )

    def _planning(self) -> AbstractContextManager[object]:
        """Held from reading the arrays to the end of the write wherever there is a budget.

        So one write of this process at a time plans and writes, and its room is planned on what is there.
        Writes of other processes at the same moment may pass a bound by as many memories, until the next write.
        """
        bounded = self.settings.max_bytes is not None or self.settings.max_memories is not None
        return self._making_room if bounded else nullcontext()

    def _all_current(self, scopes: Iterable[str]) -> dict[str, ScopeIndex]:
        """The arrays of these scopes, each brought up to date once for the whole write."""
        indexes = {}
        for scope in dict.fromkeys(scopes):
            with self.current(scope) as index:
                indexes[scope] = index
        return indexes

    def _rooms(self, items: Sequence[NewMemory], indexes: Mapping[str, ScopeIndex], now: float) -> dict[str, ScopeRoom]:
        """What makes room for these items in each scope whose budget they could pass; see ``budget.py``."""
        bound = self.settings.max_bytes
        if bound is None and self.settings.max_memories is None:
            return {}
        largest = max(map(size_of, items))
        if bound is not None and largest > bound:
            raise InvalidInput(
                f"text: expected an entry of at most {bound} bytes with its vectors, got {largest}; "
                "split it, or open the memory with a larger Settings(max_bytes=…)"
            )
        by_scope: dict[str, list[NewMemory]] = {}
        for item in items:
            by_scope.setdefault(item.memory.scope, []).append(item)
        rooms = {}
        for scope, some in by_scope.items():
            index = indexes[scope]
            with index.lock:
                if needs_room(index, some, self.settings):
                    rooms[scope] = ScopeRoom(index, self.settings, now)
        return rooms

    def _made(self, rooms: Mapping[str, ScopeRoom]) -> None:
        self.count(evicted=sum(room.evicted for room in rooms.values()))
        for scope, room in rooms.items():
            if room.erased:
                self.erased(scope, durable=False)  # nobody asked for it: it need not wait for the disk once more

    def _rated(self, drafts: Sequence[Draft]) -> Sequence[Draft]:
        """The drafts with the importance that the user's scorer gives those without; as they are if it fails."""
        score = self.settings.score_importance
        texts = [draft.text for draft in drafts if draft.importance is None]
        if score is None or not texts:
            return drafts
        try:
            values = [arguments.unit("importance", value) for value in score(texts)]
            if len(values) != len(texts):
                raise InvalidInput(f"score_importance: expected {len(texts)} numbers, got {len(values)}")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - whatever a scorer raises, memories must still be written
            self.count(importance_failures=1)
            _log.warning("importance could not be scored, it is computed from the text: %s", error)
            return drafts
        left = iter(values)
        return [draft if draft.importance is not None else replace(draft, importance=next(left)) for draft in drafts]

    def flush(self, *, wait: bool | float = True) -> None:
        """Write down the read facts that wait. Where nothing can be written they are dropped and counted.

        ``wait`` as a number: so many seconds are they worth when another writer is at work.
        """
        try:
            with self.reads.taken() as accesses:
                for scope, seen in accesses.items():
                    self.rows.touch(scope, seen, wait=wait)
        except StorageError as error:
            dropped = self.reads.drop_all()
            self.count(accesses_dropped=dropped)
            if not self.storage.read_only:
                _log.warning("the times and counts of %d reads could not be written: %s", dropped, error)

    def count(self, **events: int) -> None:
        """Count events since opening; no thread's are lost."""
        with self._lock:
            self._counts.update(events)

    def counted(self, name: str) -> int:
        """How many events of this name were counted."""
        with self._lock:
            return self._counts[name]

    def indexed(self) -> int:
        """How many memories this process holds in its indexes now."""
        with self._lock:
            return sum(len(index.position) for index in self._indexes.values())

    def forget_index(self, scope: str) -> None:
        """Drop the scope's arrays and waiting read facts from this process."""
        with self._lock:
            self._let_go(scope)
        self.reads.drop(scope)

    def after_fork_in_child(self) -> None:
        """Start with locks and arrays of our own."""
        self._lock, self._making_room = threading.Lock(), threading.Lock()
        self._indexes, self._sizes, self._held = {}, {}, 0
