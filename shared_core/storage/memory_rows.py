"""The contract for the rows of long-term memory, and what goes in and out of them. See ``base.py`` for what holds for all."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from shared_core.records import Memory


@dataclass(frozen=True, slots=True)
class Source:
    """A conversation node under which a memory was written."""

    session: str
    node: str


@dataclass(frozen=True, slots=True)
class Succession:
    """A later memory took this one's place: its row (None once that was erased) and its event time."""

    row: int | None
    at: float


@dataclass(frozen=True, slots=True)
class NewMemory:
    """One write: the memory as asked for, and what the store needs to place it.

    ``merge_key`` is equal for texts that are the same memory; ``explicit_id`` says that the caller
    chose the id, and the write is then never merged. ``terms`` are the index tokens of the text,
    joined by spaces; ``vectors`` is float32 bytes of shape (windows, dimension) or None, made by the
    model named in ``embedder``. ``unmasked`` is the text as it came, where masking changed it: it is
    compared with what an explicit id holds, and never written.
    """

    memory: Memory
    merge_key: bytes
    terms: str
    explicit_id: bool = False
    embedder: str | None = None
    vectors: bytes | None = None
    source: Source | None = None
    unmasked: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One stored memory with what the index needs.

    ``row`` grows with insertion order and is never reused. ``evidence`` is NaN until there is any.
    ``vectors`` is None where no model, or another one than asked for, embedded the text.
    ``sources`` is empty when the memory was (also) written outside any conversation: it is then
    visible everywhere.
    """

    row: int
    memory: Memory
    terms: str
    evidence: float
    vectors: bytes | None
    sources: tuple[Source, ...]
    successors: tuple[Succession, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened in a scope since a version: rows to insert or replace, rows to drop.

    ``reset`` means the feed does not reach back that far: start from an empty index. ``total`` is how many
    rows the pages hold together at most, told by the first one of a scope read from its beginning (else 0).
    """

    version: int
    rows: tuple[MemoryRow, ...]
    dropped: tuple[int, ...]
    reset: bool
    total: int = 0


@dataclass(frozen=True, slots=True)
class Access:
    """Facts about reads, flushed with the next write: times in epoch seconds, a count to add."""

    id: str
    last_accessed: float
    count: int
    evidence: float | None = None


class Room(Protocol):
    """Makes room for a write in the budget of its scope; asked within the write's transaction, in order."""

    @property
    def erases(self) -> bool:
        """Whether victims are erased, or archived."""

    def make(self, item: NewMemory) -> Sequence[str]:
        """The ids to evict before this new memory is inserted."""

    def strengthened(self, memory: Memory) -> None:
        """An item merged into this one, which now is as given."""


class MemoryRows(Protocol):
    """Rows of long-term memory."""

    def version(self, scope: str) -> int:
        """The number of the scope's last change; 0 for an unknown scope. Cheap: asked on every recall."""

    def changes(self, scope: str, since: int, embedder: str | None) -> Changes:
        """Everything after version ``since``. Vectors are included only where ``embedder`` made them.

        From 0 on, archived memories are left out; later, one that was archived is a change like any other.
        """

    def pages(self, scope: str, since: int, embedder: str | None) -> Generator[Changes, None, None]:
        """``changes`` in pieces of one consistent state, so that a large scope never stands in memory twice.

        At least one. The first carries ``dropped`` and ``reset``; all but the last keep to version ``since``
        (0 with ``reset``), so that whoever stops half way begins again. To be read to its end, or closed.
        """

    def add(
        self,
        items: Sequence[NewMemory],
        accesses: Mapping[str, Sequence[Access]] = ...,
        *,
        rooms: Mapping[str, Room] | None = None,
    ) -> list[tuple[Memory, bool]]:
        """Write the items in order, in one transaction; return each stored memory and whether it is new.

        An item with a merge key equal to that of a live memory of its scope strengthens that one
        (access count + 1, times, sources, tags). An explicit id with the same text is a no-op, but an
        archived memory comes back with it; with another text it raises DuplicateId and nothing is written. Where it
        holds ``unmasked``, from before masking was on, the masked text takes its place and all else stays.

        An item with a subject supersedes the live memories of that subject; with an ``at`` before that of a
        later one it takes its place in the history instead. ``accesses`` (by scope) are flushed with it. ``rooms`` (by scope)
        says what is evicted before an item that is new is inserted.
        """

    def get(self, scope: str, ids: Sequence[str]) -> list[Memory | None]:
        """The memories with these ids, in order; None where the scope has none."""

    def list(self, scope: str, *, status: str | None, limit: int | None) -> list[Memory]:
        """Newest first; ``status`` None means every status."""

    def supersede(self, scope: str, id: str, item: NewMemory, *, room: Room | None = None) -> Memory:
        """Write ``item`` and mark ``id``, and what replaced it before, superseded at the item's time.

        One transaction. NotFound if absent.
        """

    def delete(self, scope: str, ids: Sequence[str]) -> int:
        """Erase rows, index and sources; return how many there were."""

    def set_status(self, scope: str, ids: Sequence[str], status: str) -> int:
        """Change the status of these memories; return how many changed."""

    def evict(self, scope: str, ids: Sequence[str], *, erased: bool) -> int:
        """Archive these memories, or erase them; one that is pinned by now stays. Return how many went."""

    def set_pinned(self, scope: str, id: str, pinned: bool) -> None:
        """Pin or unpin. NotFound if the scope has no such memory."""

    def touch(self, scope: str, accesses: Sequence[Access], *, wait: bool | float = True) -> None:
        """Flush read facts alone (``add`` does it along with a write).

        ``wait`` as a number: StorageError when another writer is still at work after so many seconds.
        """

    def set_vectors(self, scope: str, embedder: str, vectors: Mapping[int, bytes], *, wait: bool = True) -> None:
        """Fill in vectors by row number; rows that are gone are ignored.

        ``wait`` False raises StorageError at once while another writer is at work: readers never wait.
        """

    def scopes(self) -> Sequence[str]:
        """Every scope that holds memories, sorted by code point."""

    def embedder(self) -> tuple[str, int] | None:
        """Fingerprint and dimension of the model whose vectors the storage holds, or None."""

    def claim_embedder(self, fingerprint: str, dimension: int, *, wait: bool = True) -> tuple[str, int]:
        """Name the model if none is named yet; return the one that is. ``wait`` as in ``set_vectors``."""

    def set_embedder(self, fingerprint: str, dimension: int) -> None:
        """Name the model; vectors of another one are dropped in the same transaction."""
