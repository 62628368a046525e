"""The contract every backend keeps: three small protocols, all filtered by scope in the store itself.

- ``MemoryRows``: the rows of long-term memory, with a change feed from which indexes are rebuilt.
- ``Blobs``: keyed bytes with expiry and tags (caches, key-value adapters).
- ``Logs``: append-only conversation trees with content-addressed bodies.

What holds for all of them: a scope is compared code point by code point; a call is one transaction,
all or nothing; what a call returned is durable (blobs: consistent) and visible to every process; a
row that cannot be read is skipped and counted in ``unreadable``. No scoring, no clock, no ids here:
times and ids come in as arguments.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from shared_core.records import Memory

if TYPE_CHECKING:
    from shared_core.storage.upkeep import Upkeep


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
    model named in ``embedder``.
    """

    memory: Memory
    merge_key: bytes
    terms: str
    explicit_id: bool = False
    embedder: str | None = None
    vectors: bytes | None = None
    source: Source | None = None


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
        archived memory comes back with it; with another text it raises DuplicateId and nothing is written. An item with a subject
        supersedes the live memories of that subject; with an ``at`` before that of a later one it takes
        its place in the history instead. ``accesses`` (by scope) are flushed with it. ``rooms`` (by scope)
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

    def touch(self, scope: str, accesses: Sequence[Access]) -> None:
        """Flush read facts alone (``add`` does it along with a write)."""

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


@dataclass(frozen=True, slots=True)
class Blob:
    """A stored value with its facts; ``expires_at`` None means never."""

    key: str
    value: bytes
    created_at: float
    expires_at: float | None = None
    tags: tuple[str, ...] = ()


class Blobs(Protocol):
    """Keyed bytes. A namespace separates users of the table; keys are any text."""

    def get(self, scope: str, namespace: str, keys: Sequence[str], *, now: float) -> list[Blob | None]:
        """Values in order; None where absent, expired, or created after ``now``."""

    def put(self, scope: str, namespace: str, blobs: Sequence[Blob], *, durable: bool = False) -> None:
        """Insert or replace all of them in one transaction; a later duplicate key wins.

        ``durable`` waits for the disk: for what nobody could compute again.
        """

    def delete(self, scope: str, namespace: str, keys: Sequence[str], *, durable: bool = False) -> int:
        """Remove these keys; return how many there were. ``durable`` as in ``put``."""

    def delete_tagged(self, scope: str | None, namespace: str, tag: str) -> int:
        """Remove every blob carrying the tag; ``scope`` None reaches every scope."""

    def keys(self, scope: str, namespace: str, *, prefix: str = "", now: float) -> list[str]:
        """Live keys with this literal prefix, in insertion order (an overwrite keeps its place)."""

    def namespaces(self, scope: str, *, prefix: str = "") -> list[str]:
        """Namespaces that hold anything, sorted."""

    def clear(self, scope: str | None, namespace: str) -> int:
        """Remove the whole namespace; ``scope`` None reaches every scope."""

    def generation(self, scope: str) -> int:
        """A counter that ``bump`` moves: an answer built before a forget is recognised by it."""

    def bump(self, scope: str, *, durable: bool = True) -> int:
        """Move the scope's generation on and return it. Not ``durable``: where a power failure may undo it."""

    def counters(self, names: Sequence[str]) -> list[int]:
        """The shared counters with these names, in order, seen at one moment; 0 for one that never moved.

        They belong to no scope and no namespace: whoever names them makes the names unique.
        """

    def advance(self, names: Sequence[str], *, namespace: str, tags: Sequence[str], scope: str | None = None) -> int:
        """In one transaction: move each counter on by one, remove every blob of the namespace that carries
        any of the tags (``scope`` None: in every scope), and return how many blobs that were.
        """

    def trim(self, namespace: str, *, max_items: int, max_bytes: int) -> int:
        """Remove the earliest created blobs of the namespace, over all scopes, until both bounds hold.

        Bytes are those of the values. Equal times go in insertion order. Returns how many were removed.
        """


@dataclass(frozen=True, slots=True)
class LogNode:
    """One message of a conversation tree. ``depth`` is 1 for the first message of a path."""

    id: str
    parent: str | None
    depth: int
    body: Any
    created_at: float


@dataclass(frozen=True, slots=True)
class Size:
    """What a message takes: its tokens; whether they count apart (a system message's); whether a turn begins with it."""

    tokens: int
    apart: bool = False
    begins: bool = False


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of some nodes in order, and the name of the counter that counted them."""

    counter: str
    of: Sequence[Size]


@dataclass(frozen=True, slots=True)
class SizedNode:
    """A message with its tokens and the running total of its path up to and with it (those counted apart left out)."""

    id: str
    body: Any
    tokens: int
    total: int
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a session's path. ``total`` and ``apart`` are the tokens of the whole path.

    ``nodes``: in order, back to where the reading stopped; ``systems``: all that count apart, from the start on.
    """

    total: int
    apart: int
    systems: tuple[SizedNode, ...]
    nodes: tuple[SizedNode, ...]


class Logs(Protocol):
    """Append-only conversation trees, one per (scope, session), each with a movable head.

    ``sizes`` are optional wherever nodes are written, and are kept for each counter apart.
    """

    def head(self, scope: str, session: str) -> str | None:
        """The node the session stands on; None at the root or when unknown."""

    def append(
        self,
        scope: str,
        session: str,
        parent: str | None,
        nodes: Sequence[tuple[str, Any]],
        now: float,
        *,
        sizes: Sizes | None = None,
    ) -> None:
        """Add (id, JSON body) pairs as a chain under ``parent`` and move the head to the last one, atomically."""

    def move(self, scope: str, session: str, node: str | None, *, now: float) -> None:
        """Move the head. NotFound if the node is not of this session's tree."""

    def replace(
        self, scope: str, session: str, nodes: Sequence[tuple[str, Any]], now: float, *, sizes: Sizes | None = None
    ) -> None:
        """Start a new path from the root with these nodes and move the head to its end, atomically."""

    def splice(
        self,
        scope: str,
        session: str,
        after: str | None,
        nodes: Sequence[tuple[str, Any]],
        now: float,
        *,
        head: str | None,
        sizes: Sizes | None = None,
    ) -> bool:
        """Make ``nodes`` all that follows ``after`` on the session's path, atomically; what stood there is erased.

        False, and nothing done, if the head is not ``head`` any more: another writer came first. With
        ``after`` equal to ``head`` nothing is erased. A node that a branch or an abandoned path hangs on stays.
        """

    def current(self, scope: str, session: str) -> tuple[str | None, list[LogNode]]:
        """The head and the path to it, seen at one moment."""

    def path(self, scope: str, session: str, node: str | None, *, last: int | None = None) -> list[LogNode]:
        """The messages from the root to ``node`` in order (only the ``last`` ones if given)."""

    def node(self, scope: str, session: str, node: str) -> LogNode:
        """One node of the session's tree. NotFound if it is none of it."""

    def unsized(self, scope: str, session: str, counter: str) -> list[tuple[LogNode, Size | None]]:
        """The end of the current path whose running total is not known for this counter, in order; [] if all is.

        A size stands with a node that was counted already.
        """

    def resize(self, scope: str, nodes: Sequence[str], sizes: Sizes) -> None:
        """Keep the sizes of nodes, given in the order of their path; one that was erased meanwhile is passed over."""

    def tail(self, scope: str, session: str, counter: str, limit: int) -> Tail | None:
        """The current path back to a turn's beginning that ``limit`` tokens, those apart among them, do not reach.

        The beginning of the last turn is never where it stops, and without such a beginning it is the
        whole path. None where ``unsized`` has something. Its cost does not depend on the path's length.
        """

    def path_ids(self, scope: str, session: str) -> frozenset[str]:
        """The node ids on the current path of the session."""

    def rewound(self, scope: str) -> dict[str, str | None]:
        """Sessions whose tree has nodes off their current path, each with its head."""

    def branch(self, scope: str, session: str, node: str | None, new_session: str, now: float) -> None:
        """Give ``new_session`` a head at ``node``; the two share the past and nothing else.

        NotFound if the node is not of this session's tree, InvalidInput if the new session has a log.
        """

    def delete(self, scope: str, session: str) -> int:
        """Erase the session's nodes and bodies no one else uses; return how many nodes it held."""

    def sessions(self, scope: str, *, prefix: str = "") -> list[str]:
        """Sessions with a log, in order of their first message."""


class Storage(Protocol):
    """One place that holds all of it, and closes it together."""

    @property
    def memories(self) -> MemoryRows:
        """The rows of long-term memory."""

    @property
    def blobs(self) -> Blobs:
        """The keyed bytes."""

    @property
    def logs(self) -> Logs:
        """The conversation trees."""

    @property
    def upkeep(self) -> Upkeep:
        """Work on the whole of it."""

    @property
    def location(self) -> str | None:
        """Where another process opens the same storage; None when no other process can."""

    @property
    def unreadable(self) -> int:
        """How many rows could not be read since it was opened."""

    @property
    def read_only(self) -> bool:
        """True when nothing can be written."""

    def size_bytes(self) -> int:
        """Bytes the storage takes."""

    def close(self) -> None:
        """Close; idempotent."""


__all__ = [
    "Access",
    "Blob",
    "Blobs",
    "Changes",
    "LogNode",
    "Logs",
    "MemoryRow",
    "MemoryRows",
    "NewMemory",
    "Room",
    "Size",
    "SizedNode",
    "Sizes",
    "Source",
    "Storage",
    "Succession",
    "Tail",
]
