"""``TieredChatMessageHistory``: a session's messages, verbatim. It logs and nothing else: no recall, no window."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage

from langchain_tiered_memory import convert
from langchain_tiered_memory.owner import Named, scope_of
from shared_core import Context, TieredMemory, check_memory, open_again

_log = logging.getLogger(__name__)


class TieredChatMessageHistory(BaseChatMessageHistory):
    """For ``RunnableWithMessageHistory``: ``lambda session: TieredChatMessageHistory(memory, session_id=session)``.

    Messages come back as they went in, of any of LangChain's classes. ``messages`` is read once and stays as it is
    until this object writes: a run compares its length at its end with that at its beginning, and what another run
    of the session wrote meanwhile must not make it drop its own user's message. So make a new one per run, as
    above; then concurrent runs lose nothing. A write that fails is logged and raised (LangChain swallows what a
    run's end raises). LangChain removes this interface in 2.0; agents take ``TieredMemoryMiddleware``.
    """

    def __init__(self, memory: TieredMemory, *, session_id: str, scope: Named = None) -> None:
        self._memory = check_memory(memory, scope)
        self._session_id = session_id
        self._scope = scope
        self._seen: list[BaseMessage] | None = None

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The messages from the first to the last, in a list of the caller's own."""
        if self._seen is None:
            self._seen = [convert.verbatim(message) for message in self._context().history()]
        return [message.model_copy(deep=True) for message in self._seen]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append the messages, all or none; what other runs appended stays."""
        messages = list(messages)
        try:
            self._context().extend([convert.logged(message) for message in messages])
        except Exception:
            _log.exception("session %r: %d messages could not be written", self._session_id, len(messages))
            raise
        self._seen = None

    def clear(self) -> None:
        """Erase the session's messages."""
        self._context().clear()
        self._seen = None

    async def aget_messages(self) -> list[BaseMessage]:
        """``messages`` off the event loop."""
        return await asyncio.to_thread(lambda: self.messages)

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """``add_messages`` off the event loop."""
        await asyncio.to_thread(self.add_messages, list(messages))

    async def aclear(self) -> None:
        """``clear`` off the event loop."""
        await asyncio.to_thread(self.clear)

    __reduce__ = open_again

    def _context(self) -> Context:
        return self._memory.context(self._session_id, scope=scope_of(self._memory, self._scope))
