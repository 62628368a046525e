"""What a plan is: the request to send, where its breakpoints are and why, and what the provider should bill.

Records only; ``planner.py`` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shared_core.messages import Message
from shared_core.short_term.blocks import Piece, block_copy, copied
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
    """The canonical content a plan stands on, shared by the plans of a conversation and never handed out.

    ``log`` and ``wires`` may have grown since; the first ``count`` of each are this plan's. Building a plan copies neither.
    """

    tools: tuple[Piece, ...]
    system: tuple[Piece, ...]
    log: Sequence[Spoken]
    wires: Sequence[Message]
    count: int
    tools_given: bool

    @property
    def spoken(self) -> Sequence[Spoken]:
        """The messages of this plan."""
        return self.log[: self.count]

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
        shared = self.sendable
        request: dict[str, Any] = copied({name: value for name, value in shared.items() if name != "messages"})
        marked = {mark.index for mark in self.breakpoints if mark.level == "messages"}
        request["messages"] = [
            copied(shared["messages"][i])
            if i in marked
            else spoken.with_content([block_copy(piece) for piece in spoken.pieces])
            for i, spoken in enumerate(self.parts.spoken)
        ]
        return {name: request[name] for name in shared}

    @cached_property
    def sendable(self) -> dict[str, Any]:
        """``request`` without the copying: to send or to serialise, never to change.

        Only what carries a breakpoint is this plan's own; the rest belongs to the conversation, and a change in it
        would go into every later request. A client that takes its arguments to bytes needs no copy of them.
        """
        parts = self.parts
        on: dict[tuple[Level, int], dict[int, Ttl]] = {}
        for mark in self.breakpoints:
            if mark.by != "automatic":
                on.setdefault((mark.level, mark.index), {})[mark.block] = mark.ttl
        request: dict[str, Any] = {"model": self.model}
        if parts.tools_given:
            request["tools"] = [
                _marked(piece, on.get(("tools", i), _NONE).get(0)) for i, piece in enumerate(parts.tools)
            ]
        if parts.system:
            ttls = [on.get(("system", i), _NONE).get(0) for i in range(len(parts.system))]
            bare = len(ttls) == 1 and parts.system[0].bare and ttls[0] is None
            blocks = [_marked(piece, ttl) for piece, ttl in zip(parts.system, ttls, strict=True)]
            request["system"] = blocks[0]["text"] if bare else blocks
        messages = list(parts.wires[: parts.count])
        for (level, i), ttls_of in on.items():
            if level == "messages":
                spoken = parts.log[i]
                content = [_marked(piece, ttls_of.get(place)) for place, piece in enumerate(spoken.pieces)]
                messages[i] = spoken.with_content(content, as_list=True)
        request["messages"] = messages
        return {**request, **self.settings}

    def _repr_html_(self) -> str:
        from shared_core.short_term.html import plan_html  # noqa: PLC0415 - only a notebook draws

        return plan_html(self)


_NONE: dict[int, Ttl] = {}


def _marked(piece: Piece, ttl: Ttl | None) -> dict[str, Any]:
    """The block itself, or with a breakpoint a copy of its top."""
    if ttl is None:
        return piece.content  # type: ignore[no-any-return]
    return {**piece.content, "cache_control": {"type": "ephemeral", "ttl": ttl}}
