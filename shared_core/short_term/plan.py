"""What a plan is: the request to send, where its breakpoints are and why, and what the provider should bill.

Records only; ``planner.py`` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shared_core.messages import Message
from shared_core.short_term.blocks import Inner, Piece, copied
from shared_core.short_term.rules import Level, ModelRules, Ttl
from shared_core.short_term.tape import blocks_of


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

    ``wires`` are the messages as they are sent without breakpoints, ``inner`` is what their blocks hold (see ``Content``).
    ``tokens[b]``: tokens of the first b of their blocks. These may have grown since; the first
    ``count`` messages with their ``blocks`` are this plan's. Building a plan copies none.
    """

    tools: tuple[Piece, ...]
    system: tuple[Piece, ...]
    wires: Sequence[Message]
    inner: Sequence[Inner]
    tokens: Sequence[int]
    count: int
    blocks: int
    tools_given: bool

    @property
    def estimated(self) -> int:
        """The tokens of the whole prompt as estimated, before earlier usage corrected them."""
        return sum(piece.tokens for piece in (*self.tools, *self.system)) + self.tokens[self.blocks]

    def sizes(self) -> list[tuple[Level, int]]:
        """Every block of the prompt in order: its level and its tokens."""
        return [
            *(("tools", piece.tokens) for piece in self.tools),
            *(("system", piece.tokens) for piece in self.system),
            *(("messages", self.tokens[b + 1] - self.tokens[b]) for b in range(self.blocks)),
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
        messages = shared["messages"]
        request: dict[str, Any] = copied({name: value for name, value in shared.items() if name != "messages"})
        copies = _copies(messages, self.parts.inner)
        for mark in self.breakpoints:
            if mark.level == "messages" and mark.by != "automatic":
                copies[mark.index] = copied(messages[mark.index])
        request["messages"] = copies
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
                _marked(piece.content, on.get(("tools", i), _NONE).get(0)) for i, piece in enumerate(parts.tools)
            ]
        if parts.system:
            ttls = [on.get(("system", i), _NONE).get(0) for i in range(len(parts.system))]
            bare = len(ttls) == 1 and parts.system[0].bare and ttls[0] is None
            blocks = [_marked(piece.content, ttl) for piece, ttl in zip(parts.system, ttls, strict=True)]
            request["system"] = blocks[0]["text"] if bare else blocks
        messages = list(parts.wires[: parts.count])
        for (level, i), ttls_of in on.items():
            if level == "messages":
                content = [_marked(block, ttls_of.get(place)) for place, block in enumerate(blocks_of(messages[i]))]
                messages[i] = {**messages[i], "content": content}
        request["messages"] = messages
        return {**request, **self.settings}

    def _repr_html_(self) -> str:
        from shared_core.short_term.html import plan_html  # noqa: PLC0415 - only a notebook draws

        return plan_html(self)


_NONE: dict[int, Ttl] = {}


def _marked(block: dict[str, Any], ttl: Ttl | None) -> dict[str, Any]:
    """The block itself, or with a breakpoint a copy of its top."""
    return block if ttl is None else {**block, "cache_control": {"type": "ephemeral", "ttl": ttl}}


def _copies(wires: Sequence[Message], inners: Sequence[Inner]) -> list[Message]:
    """Deep copies of canonical messages; ``inners``, which may go on, spares most of them the search for what is in them."""
    copies = [*map(dict.copy, wires)]
    for message, inner in zip(copies, inners):  # noqa: B905
        if inner is None:
            message.update(copied(message))
            continue
        content = message.get("content")
        if type(content) is list:
            blocks = message["content"] = [content[0].copy()] if len(content) == 1 else [*map(dict.copy, content)]
            for place, key in inner:
                blocks[place][key] = blocks[place][key].copy()
    return copies
