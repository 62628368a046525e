"""``TieredChatStore``: LlamaIndex's chat history interface over the memory's conversation log. No rules here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store.base import BaseChatStore
from llama_index.core.storage.chat_store.loading import RECOGNIZED_CHAT_STORES
from pydantic import ConfigDict, Field, model_serializer, model_validator

from llama_index_tiered_memory.attach import address, attached, check_fields, scope_for
from llama_index_tiered_memory.convert import to_message, to_plain
from shared_core import Context, InvalidInput, TieredMemory
from shared_core.messages import Message

_PREFIX = "chat_store/"


class TieredChatStore(BaseChatStore):
    """Chat histories by key, durable when a call returns, safe for threads and processes.

    ``TieredChatStore(memory=memory)``. A history is the conversation ``chat_store/<key>`` of the memory:
    adding appends to it, and what is deleted or replaced is erased. Positions count from 0; one that is out of
    range or negative deletes nothing and gives None. ``to_dict``, ``pickle`` and the buffers built on it carry
    the file's path and the scope, not messages: reading them back attaches to the file again, so a memory in
    ``":memory:"``, or a scope that is a function, cannot be serialised and says so.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: TieredMemory = Field(exclude=True, description="The memory whose conversation log holds the histories.")
    scope: Any = Field(default=None, description="Whose histories; None is the memory's default scope.")

    @model_validator(mode="before")
    @classmethod
    def _attach(cls, values: Any) -> Any:
        if isinstance(values, dict) and "location" in values and "memory" not in values:
            return {"memory": attached(values["location"]), "scope": values.get("scope")}
        return values

    if not TYPE_CHECKING:  # a type checker reads the fields

        def __init__(self, *given: Any, **fields: Any) -> None:
            check_fields(type(self).__name__, given, fields)
            super().__init__(**fields)

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex loads it again."""
        return "TieredChatStore"

    @model_serializer(mode="plain")
    def custom_model_dump(self) -> dict[str, Any]:  # type: ignore[override]
        """The address of the histories: class name, location and scope."""
        return {**address(self.memory, self.scope), "class_name": self.class_name()}

    def _conversation(self, key: str) -> Context:
        if not isinstance(key, str):
            raise InvalidInput(f"key: expected a string, got {key!r}")
        return self.memory.context(_PREFIX + key, scope=scope_for(self.memory, self.scope))

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Replace the history, all or nothing."""
        plain = [to_plain(message) for message in messages]
        self._conversation(key).edit(lambda _: plain)

    def get_messages(self, key: str, **_: Any) -> list[ChatMessage]:
        """The history as fresh messages; [] for an unknown key."""
        return [to_message(plain) for plain in self._conversation(key).history()]

    def add_message(self, key: str, message: ChatMessage, idx: int | None = None) -> None:
        """Append the message, or insert it before position ``idx`` (at the end if that is past it)."""
        plain = to_plain(message)
        if idx is None:
            self._conversation(key).append(plain)
            return
        if isinstance(idx, bool) or not isinstance(idx, int) or idx < 0:
            raise InvalidInput(f"idx: expected a position of 0 or more, got {idx!r}")
        self._conversation(key).edit(lambda before: [*before[:idx], plain, *before[idx:]])

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Erase the history and its key; return what it held, None for an unknown key."""
        conversation = self._conversation(key)
        if key not in self.get_keys():
            return None
        before = conversation.edit(lambda _: [])
        conversation.clear()
        return [to_message(plain) for plain in before]

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Erase the message at position ``idx`` and return it; None if there is none."""
        return self._delete(key, lambda count: idx if 0 <= idx < count else None)

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Erase the last message and return it; None if there is none."""
        return self._delete(key, lambda count: count - 1 if count else None)

    def _delete(self, key: str, choose: Any) -> ChatMessage | None:
        deleted: list[Message] = []

        def without(before: list[Message]) -> list[Message]:
            at = choose(len(before))
            deleted[:] = [] if at is None else [before[at]]
            return before if at is None else before[:at] + before[at + 1 :]

        if key not in self.get_keys():
            return None
        self._conversation(key).edit(without)
        return to_message(deleted[0]) if deleted else None

    def get_keys(self) -> list[str]:
        """The keys with a history, in the order of their first message."""
        sessions = self.memory.storage.logs.sessions(scope_for(self.memory, self.scope), prefix=_PREFIX)
        return [session.removeprefix(_PREFIX) for session in sessions]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_dict, (self.to_dict(),)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return type(self)(memory=self.memory, scope=self.scope)  # the messages are in the file, the same for both


RECOGNIZED_CHAT_STORES[TieredChatStore.class_name()] = TieredChatStore  # type: ignore[assignment]
