"""Several writers in one log, each of which may go back without the others. Pure: nodes in, a plan out.

Every message may carry the key of its writer (an agent on a thread, say). The log stays one path: whoever goes
back leaves its own later messages behind, and those of the others, which are still said, follow where it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shared_core.storage.base import LogNode


@dataclass(frozen=True, slots=True)
class Move:
    """Where a log goes on: at ``stem`` (None is the root), after which the nodes of ``carried`` are repeated."""

    stem: str | None
    carried: tuple[LogNode, ...]


def gone_back(path: Sequence[LogNode], stood: Sequence[LogNode], mine: Callable[[LogNode], bool]) -> Move | None:
    """The move that takes a writer from the current ``path`` back (or on) to where it ``stood``; None if it is there.

    Both go from the root on. Afterwards the log holds of the writer exactly what it held there, and of the others
    exactly what it holds now: those of both first, in the order of ``stood``, then the others' later ones. It
    shares as much as it can with either path, so that as little as possible is repeated.
    """
    if [node.said for node in path if mine(node)] == [node.said for node in stood if mine(node)]:
        return None
    others = {node.said for node in path if not mine(node)}
    kept = [node for node in stood if mine(node) or node.said in others]
    there = {node.said for node in kept}
    wanted = [*kept, *(node for node in path if not mine(node) and node.said not in there)]
    shared = max(_shared(wanted, path), _shared(wanted, stood))
    return Move(wanted[shared - 1].id if shared else None, tuple(wanted[shared:]))


def _shared(wanted: Sequence[LogNode], path: Sequence[LogNode]) -> int:
    """How many nodes they begin with together."""
    pairs = enumerate(zip(wanted, path, strict=False))
    return next((i for i, (one, other) in pairs if one.id != other.id), min(len(wanted), len(path)))
