"""The contract for what is done to a storage as a whole: copy memories out and in, erase a scope, check, mend.

The fourth protocol beside those of ``base.py``, under the same promises: a call is one transaction, a
scope is compared code point by code point, what cannot be read is skipped and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from shared_core.records import Memory, Problem
from shared_core.storage.base import Source

TermsOf = Callable[[str], str]
"""The index terms of a text, joined by spaces."""


@dataclass(frozen=True, slots=True)
class Successor:
    """What took a memory's place: its id (None once it was erased), and when."""

    id: str | None
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeMemory:
    """One memory with everything that is known of it, so that nothing is lost on the way into another storage.

    ``everywhere``: it was (also) written outside any conversation. ``evidence`` None: never read with a
    vector. ``vectors`` are float32 bytes (windows, dimension) made by the model named in ``embedder``.
    """

    memory: Memory
    merge_key: bytes
    terms: str
    everywhere: bool = True
    evidence: float | None = None
    sources: tuple[Source, ...] = ()
    successors: tuple[Successor, ...] = ()
    embedder: str | None = None
    vectors: bytes | None = None


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased with a scope; ``blobs`` by namespace; ``left`` are rows that still carry the scope.

    ``inner`` are the scopes that were erased with it. Their vectors, messages and blobs are counted too, their
    memories are not: those are texts of what is counted as blobs.
    """

    memories: int
    vectors: int
    messages: int
    blobs: Mapping[str, int] = field(default_factory=dict)
    left: int = 0
    inner: tuple[str, ...] = ()


class Upkeep(Protocol):
    """Work on the whole of a storage."""

    def whole(self, scope: str) -> Iterator[WholeMemory]:
        """Every memory of the scope, of every status, in insertion order, as of one moment."""

    def restore(self, items: Sequence[WholeMemory]) -> int:
        """Write memories as they are, all or none; return how many were not there before.

        One whose id is there with the same text is left as it is; with another text DuplicateId is raised.
        Of a subject that was there already, the latest event stays current.
        """

    def erase_scope(self, scope: str, *, within: str | None = None) -> Erased:
        """Erase all content of the scope: memories, index, vectors, logs, blobs of every namespace.

        And that of every scope whose name begins with ``within``, in the same transaction, whatever it holds.
        What stays is a few numbers under the scope's name, moved on: from them every process sees that what
        it holds of the scope is no more.
        """

    def check(self, terms_of: TermsOf) -> tuple[int, list[Problem]]:
        """How many memories there are, and what is wrong. Changes nothing."""

    def mend(self, terms_of: TermsOf) -> int:
        """Make the index of every memory agree with its text; drop vectors that no model wrote; give free room back.

        Returns how many index rows changed.
        """
