"""The contract for append-only conversation trees with content-addressed bodies. See ``base.py`` for what holds for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class LogNode:
    """One message of a conversation tree. ``depth`` is 1 for the first message of a path.

    ``writer`` is who logged it, None if nobody said; ``origin`` the node that this one repeats, if it does (``graft``).
    """

    id: str
    parent: str | None
    depth: int
    body: Any
    created_at: float
    writer: str | None = None
    origin: str | None = None

    @property
    def said(self) -> str:
        """The node that the message was first logged as, and that memories made of it name."""
        return self.origin if self.origin is not None else self.id


@dataclass(frozen=True, slots=True)
class Size:
    """What a message takes: its tokens; whether they count apart (a system message's); whether a turn begins with it."""

    tokens: int
    apart: bool = False
    begins: bool = False


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of some nodes in order, and the name of the counter that counted them."""

    counter: str
    of: Sequence[Size]


@dataclass(frozen=True, slots=True)
class SizedNode:
    """A message with its tokens and the running total of its path up to and with it (those counted apart left out)."""

    id: str
    body: Any
    tokens: int
    total: int
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a session's path. ``total`` and ``apart`` are the tokens of the whole path.

    ``nodes``: in order, back to where the reading stopped; ``systems``: all that count apart, from the start on.
    """

    total: int
    apart: int
    systems: tuple[SizedNode, ...]
    nodes: tuple[SizedNode, ...]


class Logs(Protocol):
    """Append-only conversation trees, one per (scope, session), each with a movable head.

    ``sizes`` are optional wherever nodes are written, and are kept for each counter apart.
    """

    def head(self, scope: str, session: str) -> str | None:
        """The node the session stands on; None at the root or when unknown."""

    def append(
        self,
        scope: str,
        session: str,
        parent: str | None,
        nodes: Sequence[tuple[str, Any]],
        now: float,
        *,
        sizes: Sizes | None = None,
        writer: str | None = None,
    ) -> None:
        """Add (id, JSON body) pairs as a chain under ``parent`` and move the head to the last one, atomically."""

    def move(self, scope: str, session: str, node: str | None, *, now: float) -> None:
        """Move the head. NotFound if the node is not of this session's tree."""

    def replace(
        self, scope: str, session: str, nodes: Sequence[tuple[str, Any]], now: float, *, sizes: Sizes | None = None
    ) -> None:
        """Start a new path from the root with these nodes and move the head to its end, atomically."""

    def splice(
        self,
        scope: str,
        session: str,
        after: str | None,
        nodes: Sequence[tuple[str, Any]],
        now: float,
        *,
        head: str | None,
        sizes: Sizes | None = None,
        writer: str | None = None,
    ) -> bool:
        """Make ``nodes`` all that follows ``after`` on the session's path, atomically; what stood there is erased.

        False, and nothing done, if the head is not ``head`` any more: another writer came first. With
        ``after`` equal to ``head`` nothing is erased. A node that a branch or an abandoned path hangs on stays.
        """

    def graft(
        self, scope: str, session: str, stem: str | None, copies: Sequence[tuple[str, str]], *, head: str | None
    ) -> bool:
        """Move the head to ``stem``, and after it repeat nodes given as (new id, id), atomically.

        A copy keeps body, time and writer, and names the node it repeats as its ``origin``. False, and nothing
        done, if the head is not ``head`` any more. NotFound if a node is not there.
        """

    def written(self, scope: str, session: str, writer: str | None, *, last: int) -> list[LogNode]:
        """The ``last`` nodes of this writer on the current path, in order. Its cost is that of going back to them."""

    def current(self, scope: str, session: str) -> tuple[str | None, list[LogNode]]:
        """The head and the path to it, seen at one moment."""

    def path(self, scope: str, session: str, node: str | None, *, last: int | None = None) -> list[LogNode]:
        """The messages from the root to ``node`` in order (only the ``last`` ones if given)."""

    def node(self, scope: str, session: str, node: str) -> LogNode:
        """One node of the session's tree. NotFound if it is none of it."""

    def unsized(self, scope: str, session: str, counter: str) -> list[tuple[LogNode, Size | None]]:
        """The end of the current path whose running total is not known for this counter, in order; [] if all is.

        A size stands with a node that was counted already.
        """

    def resize(self, scope: str, nodes: Sequence[str], sizes: Sizes) -> None:
        """Keep the sizes of nodes, given in the order of their path; one that was erased meanwhile is passed over."""

    def tail(self, scope: str, session: str, counter: str, limit: int) -> Tail | None:
        """The current path back to a turn's beginning that ``limit`` tokens, those apart among them, do not reach.

        The beginning of the last turn is never where it stops, and without such a beginning it is the
        whole path. None where ``unsized`` has something. Its cost does not depend on the path's length.
        """

    def path_ids(self, scope: str, session: str) -> frozenset[str]:
        """The node ids on the current path of the session, and those of the nodes that are repeated there."""

    def rewound(self, scope: str) -> dict[str, str | None]:
        """Sessions whose tree has nodes off their current path, each with its head."""

    def branch(self, scope: str, session: str, node: str | None, new_session: str, now: float) -> None:
        """Give ``new_session`` a head at ``node``; the two share the past and nothing else.

        NotFound if the node is not of this session's tree, InvalidInput if the new session has a log.
        """

    def delete(self, scope: str, session: str) -> int:
        """Erase the session's nodes and bodies no one else uses; return how many nodes it held."""

    def sessions(self, scope: str, *, prefix: str = "") -> list[str]:
        """Sessions with a log, in order of their first message."""
