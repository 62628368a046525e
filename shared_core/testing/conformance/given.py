"""What the suites write with: a moment, names that are easily confused, a memory. No test here."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

from shared_core.records import Memory
from shared_core.storage.base import NewMemory, Source

NOW = 1_000.0
ODD_NAMES = (
    "a",
    "A",
    "a ",
    "ab",
    "a\0",
    "a\0b",
    "а",
    "é",
    "e\u0301",
    "%",
    "_",
    "a%",
    "🙂",
    "'; DROP TABLE memories; --",
)
"""Names that are prefixes, case variants, look-alikes or wildcards of each other: each is its own."""


def new_memory(
    text: str,
    *,
    id: str,
    scope: str = "a",
    at: float = NOW,
    created_at: float = NOW,
    source: Source | None = None,
    explicit: bool = False,
    vectors: list[float] | None = None,
    embedder: str = "m",
    **facts: Any,
) -> NewMemory:
    """One write of a memory whose merge key is its text and subject; ``vectors`` are the floats of one vector."""
    memory = Memory(id=id, text=text, scope=scope, at=at, created_at=created_at, last_accessed=created_at, **facts)
    return NewMemory(
        memory=memory,
        merge_key=json.dumps([text, memory.subject]).encode(),
        terms=" ".join(text.lower().split()),
        explicit_id=explicit,
        embedder=None if vectors is None else embedder,
        vectors=None if vectors is None else struct.pack(f"<{len(vectors)}f", *vectors),
        source=source,
    )


def raises(kind: type[Exception], call: Callable[[], object]) -> str:
    """Call it, expect this error, and return the error's text."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"expected {kind.__name__}, nothing was raised")
