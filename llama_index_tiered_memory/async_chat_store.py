"""``TieredAsyncChatStore``: the queue of LlamaIndex's ``Memory`` over the memory's conversation log. No rules here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from pydantic import ConfigDict, Field

from llama_index_tiered_memory.attach import address, attached, check_fields, scope_for
from llama_index_tiered_memory.convert import to_message, to_plain
from shared_core import Context, InvalidInput, TieredMemory, arguments
from shared_core.messages import Message

_PREFIX = "memory_queue/"
_STATUS = "status"  # beside a message's own fields; a message without it is active


class TieredAsyncChatStore(AsyncDBChatStore):
    """Active and archived messages by key, durable when a call returns, safe for tasks, threads and processes.

    ``Memory.from_defaults(session_id="s1", chat_store=TieredAsyncChatStore(memory=memory))``. Every call is all or
    nothing. ``set_messages`` replaces everything under the key, archived messages too. ``delete_message`` takes the
    position among the active messages, from 0; out of range or negative gives None. The oldest n are counted over
    active messages. Status None means both, in the order of the conversation. Pickles by path, as TieredChatStore.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: TieredMemory = Field(exclude=True, description="The memory whose conversation log holds the queues.")
    scope: Any = Field(default=None, exclude=True, description="Whose queues; None is the memory's default scope.")

    if not TYPE_CHECKING:  # a type checker reads the fields

        def __init__(self, *given: Any, **fields: Any) -> None:
            check_fields(type(self).__name__, given, fields)
            super().__init__(**fields)

    @classmethod
    def class_name(cls) -> str:
        """The name of the class."""
        return "TieredAsyncChatStore"

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """Fresh messages of the status in order, ``limit`` of them from ``offset`` on."""
        most, start = arguments.optional_count("limit", limit), arguments.count("offset", offset or 0)
        found = await asyncio.to_thread(self._of_status, key, status)
        return [to_message(plain) for plain in found[start : None if most is None else start + most]]

    async def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        """How many messages of the status there are."""
        return len(await asyncio.to_thread(self._of_status, key, status))

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE) -> None:
        """Append a message."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Append messages; an empty list does nothing."""
        plain = [_marked(to_plain(message), status) for message in messages]
        if plain:
            await asyncio.to_thread(self._conversation(key).extend, plain)

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Make these all there is under the key."""
        plain = [_marked(to_plain(message), status) for message in messages]
        await asyncio.to_thread(self._conversation(key).edit, lambda _: plain)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Erase the active message at this position and return it, or None."""
        deleted = await self._take(key, lambda active: active[idx : idx + 1] if idx >= 0 else [])
        return deleted[0] if deleted else None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Erase the messages of the status; None erases all, and the key."""
        gone = _asked(status)
        if gone is None:
            await asyncio.to_thread(self._conversation(key).clear)
        else:
            await asyncio.to_thread(
                self._conversation(key).edit, lambda before: [m for m in before if _status(m) is not gone]
            )

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Erase the n oldest active messages and return them, oldest first."""
        return await self._take(key, lambda active: active[: max(n, 0)])

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the n oldest active messages and return them, oldest first."""
        return await self._take(key, lambda active: active[: max(n, 0)], archive=True)

    async def get_keys(self) -> list[str]:
        """The keys with messages of any status, in the order of their first one."""
        return await asyncio.to_thread(self._keys, scope_for(self.memory, self.scope))

    def _keys(self, scope: str) -> list[str]:
        logs = self.memory.storage.logs
        sessions = logs.sessions(scope, prefix=_PREFIX)
        return [one.removeprefix(_PREFIX) for one in sessions if logs.head(scope, one) is not None]

    def _conversation(self, key: str) -> Context:
        if not isinstance(key, str):
            raise InvalidInput(f"key: expected a string, got {key!r}")
        return self.memory.context(_PREFIX + key, scope=scope_for(self.memory, self.scope))

    def _of_status(self, key: str, status: MessageStatus | None) -> list[Message]:
        asked, history = _asked(status), self._conversation(key).history()
        return [message for message in history if asked is None or _status(message) is asked]

    async def _take(
        self, key: str, choose: Callable[[list[int]], list[int]], *, archive: bool = False
    ) -> list[ChatMessage]:
        """Erase (or archive) the messages at the positions chosen among those of the active ones; return them."""
        taken: list[Message] = []

        def change(before: list[Message]) -> list[Message]:
            chosen = set(choose([i for i, message in enumerate(before) if _status(message) is MessageStatus.ACTIVE]))
            taken[:] = [before[i] for i in sorted(chosen)]
            if not archive:
                return [message for i, message in enumerate(before) if i not in chosen]
            return [_marked(m, MessageStatus.ARCHIVED) if i in chosen else m for i, m in enumerate(before)]

        if await self.count_messages(key):  # an edit would make an unknown key a known one
            await asyncio.to_thread(self._conversation(key).edit, change)
        return [to_message(plain) for plain in taken]

    def __reduce__(self) -> tuple[Any, ...]:
        return _attach, (type(self), address(self.memory, self.scope))

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return type(self)(memory=self.memory, scope=self.scope)  # the messages are in the file, the same for both


def _attach(cls: type[TieredAsyncChatStore], found: dict[str, str]) -> TieredAsyncChatStore:
    return cls(memory=attached(found["location"]), scope=found["scope"])


def _status(plain: Message) -> MessageStatus:
    return MessageStatus(plain.get(_STATUS, MessageStatus.ACTIVE))


def _asked(status: MessageStatus | str | None) -> MessageStatus | None:
    """The status, also by its name."""
    try:
        return None if status is None else MessageStatus(status)
    except ValueError as error:
        names = ", ".join(one.value for one in MessageStatus)
        raise InvalidInput(f"status: expected one of {names}, or None for all, got {status!r}") from error


def _marked(plain: Message, status: MessageStatus) -> Message:
    bare = {name: value for name, value in plain.items() if name != _STATUS}
    asked = _asked(status) or MessageStatus.ACTIVE
    return bare if asked is MessageStatus.ACTIVE else {**bare, _STATUS: asked.value}
