"""The contract for keyed bytes with expiry and tags: caches, key-value adapters. See ``base.py`` for what holds for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from shared_core.storage.bounded import BlobRoom


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

    def waiting(self, seconds: float) -> Blobs:
        """The same blobs, whose writes raise StorageError after waiting so long for another writer."""

    def get(self, scope: str, namespace: str, keys: Sequence[str], *, now: float) -> list[Blob | None]:
        """Values in order; None where absent, expired, or created after ``now``."""

    def put(self, scope: str, namespace: str, blobs: Sequence[Blob], *, durable: bool = False) -> None:
        """Insert or replace all of them in one transaction; a later duplicate key wins.

        ``durable`` waits for the disk: for what nobody could compute again.
        """

    def put_within(
        self, scope: str, namespace: str, blobs: Sequence[Blob], room: BlobRoom, *, durable: bool = False
    ) -> list[str]:
        """``put`` in a bounded namespace: one blob after another, each with what goes for it, in one transaction.

        Returns the keys that went and did not come back. What is not admitted is not stored.
        """

    def use(self, scope: str, namespace: str, reads: Mapping[str, tuple[int, float]], room: BlobRoom) -> None:
        """Note how often keys of a bounded namespace were read, and when last; one that is gone is passed over."""

    def delete(self, scope: str, namespace: str, keys: Sequence[str], *, durable: bool = False) -> int:
        """Remove these keys; return how many there were. ``durable`` as in ``put``."""

    def delete_tagged(self, scope: str | None, namespace: str, tag: str) -> int:
        """Remove every blob carrying the tag; ``scope`` None reaches every scope."""

    def keys(self, scope: str, namespace: str, *, prefix: str = "", now: float) -> list[str]:
        """Live keys with this literal prefix, in insertion order (an overwrite keeps its place)."""

    def namespaces(self, scope: str, *, prefix: str = "") -> list[str]:
        """Namespaces that hold anything, sorted."""

    def clear(self, scope: str | None, namespace: str, *, durable: bool = False) -> int:
        """Remove the whole namespace; ``scope`` None reaches every scope. ``durable`` as in ``put``."""

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
