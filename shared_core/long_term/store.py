"""Writing memories, keeping each scope's arrays current, and what is known of reads.

Owns the indexes, the embedder and the read facts that wait for the next write. No recall score
(``recall.py``), no eviction (``lifecycle.py``), no SQL (``storage/``).
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from tqdm import tqdm

from shared_core.embedding import Embedder, Vectors
from shared_core.errors import EmbedderMismatch, StorageError
from shared_core.long_term.draft import Draft
from shared_core.long_term.index import ScopeIndex
from shared_core.records import Memory
from shared_core.scoring.salience import ScopeStatistics, salience
from shared_core.settings import Settings
from shared_core.storage.base import Access, NewMemory, Storage
from shared_core.text import terms, windows

_log = logging.getLogger(__name__)
_BATCH = 256  # texts embedded between two commits, so that an interrupted fill goes on where it stopped


class MemoryStore:
    """The memories of every scope of one storage. Thread-safe."""

    def __init__(
        self,
        storage: Storage,
        embedder: Embedder | None,
        *,
        settings: Settings,
        ids: Callable[[], str],
    ) -> None:
        self.storage = storage
        self.rows = storage.memories
        self.embedder = embedder
        self.settings = settings
        self._ids = ids
        self._lock = threading.Lock()
        self._indexes: dict[str, ScopeIndex] = {}
        self._pending: dict[str, dict[str, Access]] = {}
        self.counts: Counter[str] = Counter()

    # -- the model ---------------------------------------------------------------------------------

    def check_embedder(self, *, reembed: bool) -> None:
        """Raise EmbedderMismatch if the rows hold vectors of another model, or replace them if asked to."""
        stored, embedder = self.rows.embedder(), self.embedder
        if stored is None or embedder is None or stored[0] == embedder.fingerprint:
            return
        if not reembed:
            raise EmbedderMismatch(_mismatch(stored[0], embedder.fingerprint))
        self.rows.set_embedder(embedder.fingerprint, embedder.dimension)
        for scope in self.rows.scopes():
            with self.current(scope) as index:
                self.fill_vectors(scope, index)

    def embed_query(self, text: str) -> np.ndarray[tuple[int], np.dtype[np.float32]] | None:
        """The query's vector, or None when there is no model or it failed (counted: recall goes on by words)."""
        if self.embedder is None or not text.strip():
            return None
        vectors = self._embed([text], query=True)
        return None if vectors is None else vectors[0]

    def _embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors | None:
        embedder = self.embedder
        if embedder is None or not texts:
            return None
        try:
            return embedder.embed(texts, query=query)
        except Exception as error:  # noqa: BLE001 - whatever a model raises, memories must still be written and read
            self.counts["embedding_failures"] += 1
            _log.warning("embedding failed, going on without vectors: %s: %s", type(error).__name__, error)
            return None

    def _vectors_of(self, texts: Sequence[str]) -> tuple[str | None, list[bytes | None]]:
        """Fingerprint and float32 bytes (windows, dimension) for each text; None where there is no vector."""
        if self.embedder is None or not texts or not self._model_is_ours():
            return None, [None] * len(texts)
        cut = [windows(text, most=self.settings.max_windows) for text in texts]
        vectors = self._embed([window for some in cut for window in some])
        if vectors is None:
            return None, [None] * len(texts)
        out: list[bytes | None] = []
        start = 0
        for some in cut:
            out.append(vectors[start : start + len(some)].tobytes())
            start += len(some)
        return self.embedder.fingerprint, out

    def _model_is_ours(self) -> bool:
        """Whether the rows take this model's vectors: another process may have changed the model meanwhile."""
        if self.embedder is None or self.storage.read_only:
            return False
        stored = self.rows.claim_embedder(self.embedder.fingerprint, self.embedder.dimension)
        if stored[0] != self.embedder.fingerprint:
            self.counts["foreign_model"] += 1
            _log.warning("%s", _mismatch(stored[0], self.embedder.fingerprint))
            return False
        return True

    def fill_vectors(self, scope: str, index: ScopeIndex) -> None:
        """Embed the memories that a process without the model wrote; a bar shows when there are many."""
        if self.embedder is None or self.storage.read_only:
            return
        missing = np.flatnonzero(index.mask("live") & index.mask("active") & (index.column("windows") == 0))
        if not len(missing) or not self._model_is_ours():
            return
        with tqdm(
            total=len(missing), desc="embedding memories", unit="memory", disable=None if len(missing) > 200 else True
        ) as bar:
            for start in range(0, len(missing), _BATCH):
                positions = missing[start : start + _BATCH]
                found = self.rows.get(scope, [index.ids[p] for p in positions])
                pairs = [(int(index.column("row")[p]), m.text) for p, m in zip(positions, found, strict=True) if m]
                fingerprint, vectors = self._vectors_of([text for _, text in pairs])
                if fingerprint is None:
                    return
                filled = {row: raw for (row, _), raw in zip(pairs, vectors, strict=True) if raw}
                self.rows.set_vectors(scope, fingerprint, filled)
                bar.update(len(positions))
        self._catch_up(scope, index)

    # -- reading -----------------------------------------------------------------------------------

    @contextmanager
    def current(self, scope: str) -> Iterator[ScopeIndex]:
        """The scope's arrays, up to date with every committed write of every process, locked for the block."""
        with self._lock:
            index = self._indexes.get(scope)
            if index is None:
                index = self._indexes[scope] = ScopeIndex(self.embedder.dimension if self.embedder else 0)
        with index.lock:
            self._catch_up(scope, index)
            yield index

    def _catch_up(self, scope: str, index: ScopeIndex) -> None:
        if self.rows.version(scope) == index.version:
            return
        changes = self.rows.changes(scope, index.version, self.embedder.fingerprint if self.embedder else None)
        index.apply(changes)
        with self._lock:
            waiting = dict(self._pending.get(scope, {}))
        index.touch(waiting[row.memory.id] for row in changes.rows if row.memory.id in waiting)

    def seen(self, scope: str, index: ScopeIndex, accesses: Sequence[Access]) -> None:
        """Note that these memories were read; written down with the next write, or on close."""
        index.touch(accesses)
        with self._lock:
            waiting = self._pending.setdefault(scope, {})
            for access in accesses:
                earlier = waiting.get(access.id)
                waiting[access.id] = access if earlier is None else _joined(earlier, access)

    # -- writing -----------------------------------------------------------------------------------

    def write(self, drafts: Sequence[Draft], *, now: float) -> list[Memory]:
        """Store the drafts in one transaction and return one memory each, in order."""
        if not drafts:
            return []
        fingerprint, vectors = self._vectors_of([draft.text for draft in drafts])
        frequencies = _Frequencies(self)
        items = []
        for draft, raw in zip(drafts, vectors, strict=True):
            words = terms(draft.text)
            items.append(
                NewMemory(
                    memory=Memory(
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
                    ),
                    merge_key=draft.merge_key,
                    explicit_id=draft.id is not None,
                    terms=" ".join(words),
                    embedder=fingerprint if raw else None,
                    vectors=raw,
                    source=draft.source,
                )  # fmt: skip
            )
        with self._flushing() as accesses:
            stored = self.rows.add(items, accesses)
        for _, new in stored:
            self.counts["remembered" if new else "strengthened"] += 1
        return [memory for memory, _ in stored]

    def replace(self, id: str, draft: Draft, *, now: float) -> Memory:
        """Write ``draft`` as the successor of ``id``. NotFound if the scope has no such memory."""
        fingerprint, (raw,) = self._vectors_of([draft.text])
        words = terms(draft.text)
        memory = Memory(
            id=self._ids(), text=draft.text, scope=draft.scope, role=draft.role, speaker=draft.speaker,
            session=draft.session, tags=draft.tags, importance=_Frequencies(self).importance(draft, words),
            at=now if draft.at is None else draft.at, created_at=now, last_accessed=now, access_count=0,
            subject=draft.subject, pinned=draft.pinned, metadata=draft.metadata,
        )  # fmt: skip
        item = NewMemory(
            memory=memory, merge_key=draft.merge_key, explicit_id=True, terms=" ".join(words),
            embedder=fingerprint if raw else None, vectors=raw, source=draft.source,
        )  # fmt: skip
        return self.rows.supersede(draft.scope, id, item)

    def flush(self) -> None:
        """Write down the read facts that wait. Where nothing can be written they are dropped and counted."""
        try:
            with self._flushing() as accesses:
                for scope, seen in accesses.items():
                    self.rows.touch(scope, seen)
        except StorageError as error:
            with self._lock:
                dropped = sum(len(waiting) for waiting in self._pending.values())
                self._pending.clear()
            self.counts["accesses_dropped"] += dropped
            if not self.storage.read_only:
                _log.warning("the times and counts of %d reads could not be written: %s", dropped, error)

    @contextmanager
    def _flushing(self) -> Iterator[Mapping[str, Sequence[Access]]]:
        """The waiting read facts; they wait on if the block raises."""
        with self._lock:
            taken, self._pending = self._pending, {}
        try:
            yield {scope: list(waiting.values()) for scope, waiting in taken.items()}
        except BaseException:
            with self._lock:
                for scope, waiting in taken.items():
                    newer = self._pending.setdefault(scope, {})
                    for id, access in waiting.items():
                        newer[id] = _joined(access, newer[id]) if id in newer else access
            raise

    def forget_index(self, scope: str) -> None:
        """Drop the scope's arrays and waiting read facts from this process."""
        with self._lock:
            self._indexes.pop(scope, None)
            self._pending.pop(scope, None)


class _Frequencies(Mapping[str, int]):
    """Document frequencies of a scope while a batch is written: each text counts for the ones after it."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._scope: str | None = None
        self._index: ScopeIndex | None = None
        self._written: Counter[str] = Counter()
        self._count = 0

    def importance(self, draft: Draft, words: Sequence[str]) -> float:
        """The writer's own rating, else the salience of the text against what the scope said so far."""
        if draft.scope != self._scope:
            with self._store.current(draft.scope) as index:
                self._scope, self._index, self._written, self._count = draft.scope, index, Counter(), index.n
        value = draft.importance
        if value is None:
            value = salience(draft.text, words, role=draft.role, statistics=ScopeStatistics(self._count, self))
        self._written.update(set(words))
        self._count += 1
        return value

    def __getitem__(self, term: str) -> int:
        known = self._index.df(term) if self._index is not None else 0
        return known + self._written[term]

    def get(self, term: str, default: int | None = 0) -> int:  # type: ignore[override]
        return self[term]

    def __iter__(self) -> Iterator[str]:
        return iter(self._written)

    def __len__(self) -> int:
        return len(self._written)


def _joined(first: Access, then: Access) -> Access:
    return Access(
        first.id,
        max(first.last_accessed, then.last_accessed),
        first.count + then.count,
        first.evidence if then.evidence is None else then.evidence,
    )


def _mismatch(stored: str, given: str) -> str:
    return (
        f"the stored vectors were made by {stored!r}, the embedder given is {given!r}; open with that model, "
        "or pass reembed=True to make every vector anew"
    )
