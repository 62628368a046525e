"""The records that users get back: frozen, plain, and safe to keep. No rules, no I/O.

Times are epoch seconds UTC, sizes are bytes. Dicts inside a record are the receiver's own copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final, final


@final
class _Miss:
    """The one value that means "not in the cache"; falsy, and never equal to a cached value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISS"

    def __bool__(self) -> bool:
        return False

    def __copy__(self) -> _Miss:
        return self

    def __deepcopy__(self, memo: object) -> _Miss:
        return self

    def __reduce__(self) -> str:
        return "MISS"


MISS: Final = _Miss()
"""Returned by caches when nothing is there. ``None``, ``False``, ``""``, ``0`` and ``[]`` are values."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One long-term memory of one scope.

    ``at`` is when the thing happened, ``created_at`` when it was written; both epoch seconds UTC.
    ``importance`` is in [0, 1] as given by the writer or computed from the text. ``status`` is
    ``"active"``, ``"superseded"`` or ``"archived"``.
    """

    id: str
    text: str
    scope: str
    role: str = "user"
    speaker: str | None = None
    session: str | None = None
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    at: float = 0.0
    created_at: float = 0.0
    last_accessed: float = 0.0
    access_count: int = 0
    subject: str | None = None
    pinned: bool = False
    status: str = "active"
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory with why it came: ``score == sum(parts.values())``, summed in dict order."""

    memory: Memory
    score: float
    parts: Mapping[str, float]

    def _repr_html_(self) -> str:
        """What a notebook shows: the text, and a bar for each part that is not 0, to the scale of the largest."""
        widest = max((abs(part) for part in self.parts.values()), default=0.0) or 1.0
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td style='text-align:right'>{part:.3f}</td><td><div style='height:0.8em;"
            f"width:{abs(part) / widest * 10:.2f}em;background:{'#4c78a8' if part > 0 else '#e45756'}'></div></td></tr>"
            for name, part in self.parts.items()
            if part
        )
        said_by = escape(self.memory.speaker or self.memory.role)
        return f"<div><b>{self.score:.3f}</b> {said_by}: {escape(self.memory.text)}<table>{rows}</table></div>"


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What a sweep evicted (lowest score first) and how many memories stayed."""

    victims: tuple[Hit, ...]
    kept: int
    dry_run: bool = False
