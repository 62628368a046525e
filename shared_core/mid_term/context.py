"""The conversation of one session: an append-only log with snapshots, rewind and branches.

Messages are kept as they came. What a recall may see after a rewind is in ``long_term/view.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from shared_core.errors import InvalidInput
from shared_core.messages import Message, copied
from shared_core.storage.base import Logs

ROOT = "root"
"""The snapshot id of a conversation before its first message."""


class Context:
    """One session's conversation. Every call goes to the log: two processes see each other's messages."""

    def __init__(
        self, logs: Logs, session: str, *, scope: str, clock: Callable[[], float], ids: Callable[[], str]
    ) -> None:
        self.session = session
        self.scope = scope
        self._logs = logs
        self._clock = clock
        self._ids = ids

    def append(self, message: Message) -> str:
        """Add one message at the head; return its node id."""
        return self.extend([message])[0]

    def extend(self, messages: Iterable[Message]) -> list[str]:
        """Add messages at the head, all or none; return their node ids. InvalidInput if one is no plain message."""
        nodes = self._nodes(messages)
        if nodes:
            self._logs.append(self.scope, self.session, self._logs.head(self.scope, self.session), nodes, self._clock())
        return [id for id, _ in nodes]

    def replace(self, messages: Iterable[Message]) -> list[str]:
        """Start over from the root with these messages; the old path stays reachable by its snapshots."""
        nodes = self._nodes(messages)
        self._logs.replace(self.scope, self.session, nodes, self._clock())
        return [id for id, _ in nodes]

    def _nodes(self, messages: Iterable[Message]) -> list[tuple[str, Any]]:
        if isinstance(messages, dict):
            raise InvalidInput("messages: expected a list of messages, got one dict; write append(message)")
        return [(self._ids(), copied(message)) for message in messages]

    def snapshot(self) -> str:
        """The id of the present point; valid for ``rewind`` and ``branch`` ever after."""
        return self._logs.head(self.scope, self.session) or ROOT

    def rewind(self, id: str) -> None:
        """Go back (or on) to a snapshot. Nothing is deleted. NotFound if it is none of this session's."""
        self._logs.move(self.scope, self.session, _node(id), now=self._clock())

    def branch(self, id: str, *, session: str | None = None) -> Context:
        """A new session that shares the past up to the snapshot; its session id is ``.session``."""
        name = f"{self.session}/{self._ids()}" if session is None else session
        self._logs.branch(self.scope, self.session, _node(id), name, self._clock())
        return Context(self._logs, name, scope=self.scope, clock=self._clock, ids=self._ids)

    def history(self) -> list[Message]:
        """Every message from the start to the head, unchanged, as fresh copies."""
        return [
            node.body for node in self._logs.path(self.scope, self.session, self._logs.head(self.scope, self.session))
        ]

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

    async def ahistory(self) -> list[Message]:
        """``history`` off the event loop."""
        return await asyncio.to_thread(self.history)


def _node(id: str) -> str | None:
    return None if id == ROOT else id
