"""The conversation of one session: an append-only log with snapshots, rewind and branches, and its window.

Messages are kept as they came. Where a window begins is in ``window.py``, what a message takes in ``sizing.py``;
what a recall may see after a rewind is in ``long_term/view.py``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from shared_core import arguments
from shared_core.errors import InvalidInput, StorageError, open_again
from shared_core.messages import Message, copied
from shared_core.mid_term.sizing import Sizing
from shared_core.mid_term.window import assemble
from shared_core.mid_term.writers import gone_back
from shared_core.storage.base import LogNode, Logs, SizedNode, Sizes, Tail

_log = logging.getLogger(__name__)

_TRIES = 5  # another writer with another counter may append between counting and reading
ROOT = "root"
"""The snapshot id of a conversation before its first message."""


class Context:
    """One session's conversation. Every call goes to the log: two processes see each other's messages."""

    def __init__(
        self,
        logs: Logs,
        session: str,
        *,
        scope: str,
        clock: Callable[[], float],
        ids: Callable[[], str],
        sizing: Sizing,
        rewound: Callable[[str], object] | None = None,
    ) -> None:
        """``rewound`` is told the scope after a rewind: cached results that went back with it are untrue."""
        self.session = session
        self.scope = scope
        self._logs = logs
        self._clock = clock
        self._ids = ids
        self._sizing = sizing
        self._rewound = rewound

    def append(self, message: Message) -> str:
        """Add one message at the head; return its node id."""
        return self.extend([message])[0]

    def extend(self, messages: Iterable[Message]) -> list[str]:
        """Add messages at the head, all or none; return their node ids. InvalidInput if one is no plain message."""
        nodes = self.prepare(messages)
        self.write(nodes)
        return [id for id, _ in nodes]

    def prepare(self, messages: Iterable[Message]) -> list[tuple[str, Message]]:
        """The nodes that ``log`` would write for these messages: an id and a copy each. Nothing is written."""
        if isinstance(messages, dict):
            raise InvalidInput("messages: expected a list of messages, got one dict; write append(message)")
        return [(self._ids(), copied(message)) for message in messages]

    def write(self, nodes: list[tuple[str, Message]], *, writer: str | None = None) -> None:
        """Append prepared nodes wherever the conversation stands. ``writer`` says who logs them (``go_back``)."""
        sizes = self._sizing.sizes(nodes)
        while nodes and not self._add(nodes, sizes, self._logs.head(self.scope, self.session), writer):
            pass  # another writer appended meanwhile: go after it, not beside it

    def log(self, nodes: list[tuple[str, Message]], *, head: str | None) -> bool:
        """Append prepared nodes if the conversation still stands at ``head``; return whether it did."""
        return self._add(nodes, self._sizing.sizes(nodes), head)

    def _add(self, nodes: list[tuple[str, Message]], sizes: Sizes, head: str | None, writer: str | None = None) -> bool:
        return self._logs.splice(
            self.scope, self.session, head, nodes, self._clock(), head=head, sizes=sizes, writer=writer
        )

    def edit(self, change: Callable[[list[Message]], Iterable[Message]]) -> list[Message]:
        """Make the conversation what ``change`` returns for it; return it as it was before.

        Atomic: if another writer comes first, ``change`` is asked again. What the change leaves out is
        erased, from the first message that differs on; a branch keeps what it shares.
        """
        while True:
            head, path = self.current()
            before = [node.body for node in path]
            after = [copied(message) for message in change([copied(message) for message in before])]
            same = 0
            while same < min(len(before), len(after)) and before[same] == after[same]:
                same += 1
            stem = path[same - 1].id if same else None
            nodes = self.prepare(after[same:])
            sizes = self._sizing.sizes(nodes)
            if self._logs.splice(self.scope, self.session, stem, nodes, self._clock(), head=head, sizes=sizes):
                return before

    def replace(self, messages: Iterable[Message]) -> list[str]:
        """Start over from the root with these messages; the old path stays reachable by its snapshots."""
        nodes = self.prepare(messages)
        self._logs.replace(self.scope, self.session, nodes, self._clock(), sizes=self._sizing.sizes(nodes))
        return [id for id, _ in nodes]

    def snapshot(self) -> str:
        """The id of the present point; valid for ``rewind`` and ``branch`` ever after."""
        return self._logs.head(self.scope, self.session) or ROOT

    def rewind(self, id: str) -> None:
        """Go back (or on) to a snapshot. Nothing is deleted. InvalidInput, NotFound if it is none of this session's."""
        self._logs.move(self.scope, self.session, _node(id), now=self._clock())
        if self._rewound is not None:
            self._rewound(self.scope)

    def written(self, writer: str | None, *, last: int) -> list[Message]:
        """The ``last`` messages of the conversation that this writer logged."""
        return [node.body for node in self._logs.written(self.scope, self.session, writer, last=last)]

    def path_to(self, id: str) -> list[LogNode]:
        """The nodes from the start to a snapshot. NotFound if it is none of this session's."""
        return self._logs.path(self.scope, self.session, _node(id))

    def go_back(
        self, stood: Callable[[Sequence[LogNode]], Sequence[LogNode] | None], mine: Callable[[LogNode], bool]
    ) -> bool:
        """``rewind`` for one of several writers (``writers.gone_back``); return whether anything moved.

        ``mine`` tells the nodes of the writer that goes back, ``stood`` makes of the current path the one where it
        was (None: nowhere). What others have logged since stays, and what is left behind stays reachable.
        """
        while True:
            head, path = self.current()
            before = stood(path)
            move = None if before is None else gone_back(path, before, mine)
            if move is None:
                return False
            copies = [(self._ids(), node.id) for node in move.carried]
            if self._logs.graft(self.scope, self.session, move.stem, copies, head=head):
                if self._rewound is not None:
                    self._rewound(self.scope)
                return True

    def branch(self, id: str, *, session: str | None = None) -> Context:
        """A new session that shares the past up to the snapshot; its session id is ``.session``."""
        name = f"{self.session}/{self._ids()}" if session is None else session
        self._logs.branch(self.scope, self.session, _node(id), name, self._clock())
        return Context(
            self._logs, name, scope=self.scope, clock=self._clock, ids=self._ids, sizing=self._sizing,
            rewound=self._rewound,
        )  # fmt: skip

    def window(self, max_tokens: int) -> list[Message]:
        """The part of the conversation to show a model: valid in either shape, within ``max_tokens``, and stable.

        System messages stand first and always stay; then whole turns, the last one always among them, beginning
        with a user's message; every tool call has its result and every result its call. While the conversation
        grows, so does the window, at its end only; older turns leave several at once. A tool output that is too
        long is shown as its head and tail with the id that ``message`` fetches it by. If the system messages and
        the last turn alone take more than ``max_tokens``, they are what is returned, and ``stats()`` counts it.
        Each message is counted once, when it is appended; the cost does not grow with the conversation.
        """
        arguments.count("max_tokens", max_tokens)
        window = assemble(self._tail(max_tokens), max_tokens, most_characters=self._sizing.most_characters)
        self._sizing.counts["windows"] += 1
        if window.tokens > max_tokens:
            self._sizing.counts["over_limit"] += 1
            _log.warning(
                "session %r: the system messages and the last turn take about %d tokens, more than the limit of %d",
                self.session, window.tokens, max_tokens,
            )  # fmt: skip
        return window.messages

    def _tail(self, limit: int) -> Tail:
        """The end of the path, after counting what another counter, or none, has counted."""
        for _ in range(_TRIES):
            tail = self._logs.tail(self.scope, self.session, self._sizing.name, limit)
            if tail is not None:
                return tail
            missing = self._logs.unsized(self.scope, self.session, self._sizing.name)
            sizes = Sizes(self._sizing.name, [size or self._sizing.size(n.id, n.body) for n, size in missing])
            try:
                self._logs.resize(self.scope, [node.id for node, _ in missing], sizes)
            except StorageError:  # a file that cannot be written
                break
        return self._counted()

    def _counted(self) -> Tail:
        """The whole path, counted for this once: where counts cannot be kept, or a damaged file lost what they hang on."""
        total = apart = 0
        nodes = []
        for node in self.current()[1]:
            size = self._sizing.size(node.id, node.body)
            total, apart = (total, apart + size.tokens) if size.apart else (total + size.tokens, apart)
            nodes.append(SizedNode(node.id, node.body, size.tokens, total, size.apart))
        return Tail(total, apart, tuple(node for node in nodes if node.apart), tuple(nodes))

    def message(self, id: str) -> Message:
        """The whole message under a node id or the handle of a shortened tool output. NotFound if there is none."""
        return copied(self._logs.node(self.scope, self.session, id).body)

    def history(self, *, last: int | None = None) -> list[Message]:
        """Every message from the start to the head, or the ``last`` ones, unchanged, as fresh copies."""
        if arguments.optional_count("last", last) is None:
            return [node.body for node in self.current()[1]]
        if last == 0:
            return []
        head = self._logs.head(self.scope, self.session)
        return [node.body for node in self._logs.path(self.scope, self.session, head, last=last)]

    def current(self) -> tuple[str | None, list[LogNode]]:
        """The head, and the nodes from the start to it, each with its message as a fresh copy."""
        return self._logs.current(self.scope, self.session)

    def clear(self) -> int:
        """Erase the session's log (what a branch still shows stays with the branch); return how many messages it held."""
        return self._logs.delete(self.scope, self.session)

    async def aappend(self, message: Message) -> str:
        """``append`` off the event loop."""
        return await asyncio.to_thread(self.append, message)

    async def aextend(self, messages: Iterable[Message]) -> list[str]:
        """``extend`` off the event loop."""
        return await asyncio.to_thread(self.extend, messages)

    async def asnapshot(self) -> str:
        """``snapshot`` off the event loop."""
        return await asyncio.to_thread(self.snapshot)

    async def arewind(self, id: str) -> None:
        """``rewind`` off the event loop."""
        await asyncio.to_thread(self.rewind, id)

    async def abranch(self, id: str, *, session: str | None = None) -> Context:
        """``branch`` off the event loop."""
        return await asyncio.to_thread(self.branch, id, session=session)

    async def awindow(self, max_tokens: int) -> list[Message]:
        """``window`` off the event loop."""
        return await asyncio.to_thread(self.window, max_tokens)

    async def amessage(self, id: str) -> Message:
        """``message`` off the event loop."""
        return await asyncio.to_thread(self.message, id)

    async def ahistory(self, *, last: int | None = None) -> list[Message]:
        """``history`` off the event loop."""
        return await asyncio.to_thread(self.history, last=last)

    async def aclear(self) -> int:
        """``clear`` off the event loop."""
        return await asyncio.to_thread(self.clear)

    __reduce__ = open_again


def _node(id: str) -> str | None:
    if not isinstance(id, str):
        raise InvalidInput(f"snapshot: expected the id that snapshot() returned, got {id!r}")
    return None if id == ROOT else id
