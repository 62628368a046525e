"""The static part of a prompt, tools and system: its boundaries and their identities. Pure.

The identity of a prefix covers what the provider keys it with: the bytes before it and the settings that
invalidate its level. The model and the scope are not in it; they choose the table it is looked up in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from shared_core.short_term.blocks import Piece, Wish, canonical, rendered
from shared_core.short_term.rules import level_settings
from shared_core.short_term.survival import Role


@dataclass(frozen=True, slots=True)
class Head:
    """Tools and system. ``tokens[b]``: tokens of the first b blocks; ``digests``: identity of each boundary by b.

    ``blocks``: how many there are; ``callers``: the caller's breakpoints, as (boundary, lifetime).
    """

    tools: tuple[Piece, ...]
    system: tuple[Piece, ...]
    tokens: tuple[int, ...]
    digests: Mapping[int, tuple[Role, bytes]]
    message_seed: bytes
    blocks: int
    callers: tuple[tuple[int, Wish], ...]

    def piece(self, block: int) -> Piece:
        """The block with this number, tools first."""
        return self.tools[block] if block < len(self.tools) else self.system[block - len(self.tools)]

    @property
    def identity(self) -> tuple[bytes, ...]:
        """What must be equal for the messages that follow to be found in the cache."""
        return (*(piece.digest for piece in self.tools), b"|", *(p.digest for p in self.system), self.message_seed)


MOST_SYSTEM_BOUNDARIES = 8


def head_of(tools: tuple[Piece, ...], system: tuple[Piece, ...], settings: Mapping[str, Any]) -> Head:
    """The head of a request; only boundaries that can take a breakpoint have an identity."""
    chain = hashlib.sha256()
    digests: dict[int, tuple[Role, bytes]] = {}
    for piece in tools:
        chain.update(piece.digest)
    last = max((b for b, piece in enumerate(tools, 1) if piece.markable), default=0)
    if last:
        digests[last] = (("tools",), chain.digest())
    chain.update(_seed(settings, "system"))
    for i, piece in enumerate(system):
        chain.update(piece.digest)
        if piece.markable and i >= len(system) - MOST_SYSTEM_BOUNDARIES:
            digests[len(tools) + i + 1] = (("system", i), chain.digest())
    tokens = tuple(accumulate((piece.tokens for piece in (*tools, *system)), initial=0))
    callers = tuple((b, piece.ttl) for b, piece in enumerate((*tools, *system), 1) if piece.ttl is not None)
    seed = _seed(settings, "system") + _seed(settings, "messages")
    return Head(tools, system, tokens, digests, seed, len(tools) + len(system), callers)


def _seed(settings: Mapping[str, Any], level: Any) -> bytes:
    named = level_settings(settings, level)
    return rendered(canonical(named)) if named else b""
