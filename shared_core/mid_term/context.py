"""The conversation of one session: an append-only log with snapshots, rewind and branches.

Messages are kept as they came. What a recall may see after a rewind is in ``long_term/view.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from shared_core import arguments
from shared_core.errors import InvalidInput, open_again
from shared_core.messages import Message, copied
from shared_core.storage.base import LogNode, Logs

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
        rewound: Callable[[str], object] | None = None,
    ) -> None:
        """``rewound`` is told the scope after a rewind: cached results that went back with it are untrue."""
        self.session = session
        self.scope = scope
        self._logs = logs
        self._clock = clock
        self._ids = ids
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

    def write(self, nodes: list[tuple[str, Message]]) -> None:
        """Append prepared nodes wherever the conversation stands."""
        while nodes and not self.log(nodes, head=self._logs.head(self.scope, self.session)):
            pass  # another writer appended meanwhile: go after it, not beside it

    def log(self, nodes: list[tuple[str, Message]], *, head: str | None) -> bool:
        """Append prepared nodes if the conversation still stands at ``head``; return whether it did."""
        return self._logs.splice(self.scope, self.session, head, nodes, self._clock(), head=head)

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
            if self._logs.splice(self.scope, self.session, stem, self.prepare(after[same:]), self._clock(), head=head):
                return before

    def replace(self, messages: Iterable[Message]) -> list[str]:
        """Start over from the root with these messages; the old path stays reachable by its snapshots."""
        nodes = self.prepare(messages)
        self._logs.replace(self.scope, self.session, nodes, self._clock())
        return [id for id, _ in nodes]

    def snapshot(self) -> str:
        """The id of the present point; valid for ``rewind`` and ``branch`` ever after."""
        return self._logs.head(self.scope, self.session) or ROOT

    def rewind(self, id: str) -> None:
        """Go back (or on) to a snapshot. Nothing is deleted. NotFound if it is none of this session's."""
        self._logs.move(self.scope, self.session, _node(id), now=self._clock())
        if self._rewound is not None:
            self._rewound(self.scope)

    def branch(self, id: str, *, session: str | None = None) -> Context:
        """A new session that shares the past up to the snapshot; its session id is ``.session``."""
        name = f"{self.session}/{self._ids()}" if session is None else session
        self._logs.branch(self.scope, self.session, _node(id), name, self._clock())
        return Context(self._logs, name, scope=self.scope, clock=self._clock, ids=self._ids, rewound=self._rewound)

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

    async def ahistory(self, *, last: int | None = None) -> list[Message]:
        """``history`` off the event loop."""
        return await asyncio.to_thread(self.history, last=last)

    async def aclear(self) -> int:
        """``clear`` off the event loop."""
        return await asyncio.to_thread(self.clear)

    __reduce__ = open_again


def _node(id: str) -> str | None:
    return None if id == ROOT else id
