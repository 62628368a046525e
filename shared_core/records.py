"""The records that users get back: frozen, plain, and safe to keep. No rules, no I/O.

Times are epoch seconds UTC, sizes are bytes. Dicts inside a record are the receiver's own copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from textwrap import shorten
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

    def __repr__(self) -> str:
        """One line: a list of hits is read at a prompt. Every field of the memory is in ``hit.memory``."""
        parts = " ".join(f"{name} {part:+.3f}" for name, part in self.parts.items() if part)
        said_by, text = self.memory.speaker or self.memory.role, shorten(self.memory.text, 80, placeholder=" …")
        return f"<Hit {self.score:.3f} {said_by}: {text!r} = {parts}; id {self.memory.id}>"

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

    def _repr_html_(self) -> str:
        """A table for a notebook; every text is escaped."""
        names = list(dict.fromkeys(name for hit in self.victims for name in hit.parts))
        head = "".join(f"<th>{escape(name)}</th>" for name in ("id", "text", "status", *names, "score"))
        rows = "".join(
            f"<tr><td>{escape(hit.memory.id)}</td><td>{escape(shorten(hit.memory.text, 80, placeholder=' …'))}</td>"
            f"<td>{escape(hit.memory.status)}</td>"
            + "".join(f"<td>{hit.parts.get(name, 0.0):.3f}</td>" for name in names)
            + f"<td><b>{hit.score:.3f}</b></td></tr>"
            for hit in self.victims
        )
        said = f"{len(self.victims)} {'would go' if self.dry_run else 'evicted'}, lowest score first; {self.kept} kept"
        return f"<p>{said}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


@dataclass(frozen=True, slots=True)
class Receipt:
    """What ``forget_scope`` erased, counted in the transaction that erased it.

    ``memories`` of every status, ``vectors`` (memories that had any), ``messages`` of conversation logs,
    ``tool_results`` and ``responses`` from the caches, ``blobs`` of key-value adapters. ``left`` counts the rows
    that still carry the scope afterwards, in every table that holds content: 0, or something is wrong.
    """

    scope: str
    at: float
    memories: int
    vectors: int
    messages: int
    tool_results: int
    responses: int
    blobs: int
    left: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of damage: what it is in words, how many rows have it, and the ids of the first few."""

    kind: str
    count: int
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What ``check`` looked at and found wrong; ``ok`` when it found nothing."""

    memories: int
    problems: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems
