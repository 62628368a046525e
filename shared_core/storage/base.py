"""The contract every backend keeps: a storage of three small protocols, all filtered by scope in the store itself.

- ``MemoryRows`` (``memory_rows.py``): the rows of long-term memory, with a change feed from which indexes are rebuilt.
- ``Blobs`` (``blobs.py``): keyed bytes with expiry and tags (caches, key-value adapters).
- ``Logs`` (``logs.py``): append-only conversation trees with content-addressed bodies.

What holds for all of them: a scope is compared code point by code point; a call is one transaction,
all or nothing (on a full disk a delete may go in pieces); what a call returned is durable (blobs:
consistent) and visible to every process; a row that cannot be read is skipped and counted in
``unreadable``. No scoring, no clock, no ids here: times and ids come in as arguments. The names of all
three are imported from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from shared_core.storage.blobs import Blob, Blobs
from shared_core.storage.logs import LogNode, Logs, Size, SizedNode, Sizes, Tail
from shared_core.storage.memory_rows import (
    Access,
    Changes,
    MemoryRow,
    MemoryRows,
    NewMemory,
    Room,
    Source,
    Succession,
)

if TYPE_CHECKING:
    from shared_core.storage.upkeep import Upkeep


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
