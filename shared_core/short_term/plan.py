"""What a plan is: the request to send, where its breakpoints are and why, and what the provider should bill.

Records only; ``planner.py`` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shared_core.messages import Message
from shared_core.short_term.blocks import Piece, copied
from shared_core.short_term.rules import Level, ModelRules, Ttl
from shared_core.short_term.tape import Spoken


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """One breakpoint of a request.

    ``level`` and ``index`` name the block: the tool, the system block, or the message with ``block`` in its
    content. ``position`` counts the prompt's blocks up to and with it; ``tokens`` estimates that prefix.
    ``survival`` is the probability that the next request finds it in time. ``by``: "caller", "automatic"
    (the caller's, at the request's top level), "anchor" (kept so that an earlier entry is still found), or the
    role that it marks ("tools", "system", "head", "stable", "tail", "after").
    """

    level: Level
    index: int
    block: int
    position: int
    tokens: int
    ttl: Ttl
    survival: float
    by: str


@dataclass(frozen=True, slots=True)
class Expected:
    """What the provider should bill for this request, in estimated tokens, before it was sent.

    ``cost`` is in base input tokens (a token that is not cached costs 1), ``total`` is what the request costs
    without caching. ``saving``: what the breakpoints save per request on average, if requests go on like this.
    """

    read: int
    written_5m: int
    written_1h: int
    uncached: int
    cost: float
    saving: float

    @property
    def written(self) -> int:
        """Tokens written to the cache, with either lifetime."""
        return self.written_5m + self.written_1h

    @property
    def total(self) -> int:
        """All tokens of the prompt."""
        return self.read + self.written + self.uncached


@dataclass(frozen=True, slots=True)
class Parts:
    """The canonical content a plan stands on, shared by the plans of a conversation and never handed out."""

    tools: tuple[Piece, ...]
    system: tuple[Piece, ...]
    spoken: tuple[Spoken, ...]
    given: frozenset[str]

    def pieces(self) -> list[tuple[Level, Piece]]:
        """Every block of the prompt in order, with its level."""
        return [
            *(("tools", piece) for piece in self.tools),
            *(("system", piece) for piece in self.system),
            *(("messages", piece) for spoken in self.spoken for piece in spoken.pieces),
        ]


@dataclass(frozen=True)
class Plan:
    """A planned request. ``request`` is the caller's to change; ``notes`` say what was left out and why."""

    model: str
    scope: str
    session: str | None
    breakpoints: tuple[Breakpoint, ...]
    expected: Expected
    rules: ModelRules
    notes: tuple[str, ...]
    parts: Parts = field(repr=False)
    settings: Mapping[str, Any] = field(repr=False)

    @cached_property
    def request(self) -> dict[str, Any]:
        """The keyword arguments of ``messages.create`` as plain dicts, built on first use, without the caller's objects."""
        marks: dict[tuple[Level, int], dict[int, Ttl]] = {}
        for mark in self.breakpoints:
            if mark.by != "automatic":
                marks.setdefault((mark.level, mark.index), {})[mark.block] = mark.ttl
        request: dict[str, Any] = {"model": self.model}
        if "tools" in self.parts.given:
            request["tools"] = [
                _marked(piece, marks.get(("tools", i), {}).get(0)) for i, piece in enumerate(self.parts.tools)
            ]
        if self.parts.system:
            on = {i: ttl for i in range(len(self.parts.system)) for ttl in marks.get(("system", i), {}).values()}
            request["system"] = _content(self.parts.system, on)
        request["messages"] = [
            _message(spoken, marks.get(("messages", i), _NONE)) for i, spoken in enumerate(self.parts.spoken)
        ]
        request |= {name: copied(value) for name, value in self.settings.items()}
        return request

    def _repr_html_(self) -> str:
        from shared_core.short_term.html import plan_html  # noqa: PLC0415 - only a notebook draws

        return plan_html(self)


_NONE: dict[int, Ttl] = {}


def _message(spoken: Spoken, on: Mapping[int, Ttl]) -> Message:
    message = copied(spoken.extra)
    if spoken.given:
        message["content"] = _content(spoken.pieces, on)
    return message  # type: ignore[no-any-return]


def _content(pieces: tuple[Piece, ...], on: Mapping[int, Ttl]) -> Any:
    if len(pieces) == 1 and pieces[0].bare and not on:
        return pieces[0].content["text"]
    return [_marked(piece, on.get(i)) for i, piece in enumerate(pieces)]


def _marked(piece: Piece, ttl: Ttl | None) -> dict[str, Any]:
    block: dict[str, Any] = copied(piece.content)
    if ttl is not None:
        block["cache_control"] = {"type": "ephemeral", "ttl": ttl}
    return block
