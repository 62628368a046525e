"""A bounded namespace of ``Blobs`` as the one who bounds it sees it. Facts and a protocol; no rule, no clock.

A write goes through a room, which says within the write's transaction what has to go for it. So the bounds
hold whatever several processes write at once. How often a blob was used is told in accesses: its count is of
the moment when its namespace had seen ``access`` accesses, and ages from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Use:
    """When a blob was last used (epoch seconds), how often, and at which access of its namespace that count stood.

    ``proven``: it was asked for again, or never had to compete for its place.
    """

    last_accessed: float
    count: float
    access: int
    proven: bool


@dataclass(frozen=True, slots=True)
class Held:
    """A blob that is held: its key, its size in bytes, its number in the order of insertion, its use."""

    key: str
    size: int
    order: int
    use: Use


@dataclass(frozen=True, slots=True)
class Admission:
    """What a room says of a new blob: the keys that go for it, and its use from now on."""

    victims: tuple[str, ...]
    use: Use


class Place(Protocol):
    """A namespace of one scope, seen within a write's transaction."""

    items: int
    bytes: int
    accesses: int

    def find(self, key: str) -> Held | None:
        """The blob under the key."""

    def held(self) -> list[Held]:
        """All blobs, in the order of insertion. One that was written past any room counts as never used."""


class BlobRoom(Protocol):
    """Decides what a bounded namespace keeps."""

    def admit(self, place: Place, key: str, size: int) -> Admission | None:
        """What goes for a blob of ``size`` bytes under ``key``; None: it is not stored, and an older one there goes."""

    def used(self, place: Place, held: Held, times: int, at: float) -> Use:
        """The use of a held blob after it was read ``times`` more, last at ``at``."""


NEVER_USED = Use(float("-inf"), 0.0, 0, proven=False)
"""The use of a blob that was written past any room."""


def size_of(key: str, value: bytes) -> int:
    """What a blob takes of the bound: the bytes of its key, which may be a whole text, and of its value."""
    return len(key.encode("utf-8", "surrogatepass")) + len(value)


__all__ = ["NEVER_USED", "Admission", "BlobRoom", "Held", "Place", "Use", "size_of"]
