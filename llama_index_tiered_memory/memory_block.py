"""``TieredMemoryBlock``: long-term memory for people who keep LlamaIndex's stock ``Memory``. No rules of memory.

``Memory`` shows a block its whole active history whenever an agent asks for the prompt, and hands over what it
flushes. Both are stretches of one conversation, and the core's ``turns.follow`` writes each message once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.utils import get_tokenizer
from pydantic import ConfigDict, Field, PrivateAttr

from llama_index_tiered_memory import events
from llama_index_tiered_memory.attach import OwnLock, address, attached, check_fields, scope_for
from llama_index_tiered_memory.convert import session_of, to_conversation
from shared_core import TieredMemory, TieredMemoryError, Turn
from shared_core.messages import Message, is_said, text_of

_log = logging.getLogger(__name__)
_SESSIONS = 1_000  # conversations whose present turn is kept frozen


class RecalledText(str):
    """The text of a recalled block, with the turn it was made for: ``atruncate`` needs the scores."""

    __slots__ = ("turn",)
    turn: Turn

    @classmethod
    def of(cls, turn: Turn) -> RecalledText:
        """The block of the turn."""
        text = cls(turn.block)
        text.turn = turn
        return text


class TieredMemoryBlock(BaseMemoryBlock[str]):
    """Recalls for the newest user message, and remembers the conversation from its first turn.

    ``Memory.from_defaults(memory_blocks=[TieredMemoryBlock(memory=memory)], insert_method="user")``: with the
    stock insertion into the system message every change of what is recalled would break the provider's prompt
    cache from the first byte. User and assistant texts are remembered when ``Memory`` asks for its blocks (each
    step of an agent does) and when it flushes; tool messages never. What stands in the prompt anyway is not
    recalled, and within a turn the block stays the same. One block serves any number of sessions. Reading never
    fails an agent's turn; what could not be written is kept and written with the next call. A message beyond
    ``Settings.max_text_bytes`` is neither logged nor remembered, and keeps no other out.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    name: str = Field(default="long_term_memory", description="The name/identifier of the memory block.")
    priority: int = Field(default=1, description="1, so that Memory may shorten it; 0 would forbid that.")
    memory: TieredMemory = Field(exclude=True, description="The memory that is recalled from and written to.")
    scope: Any = Field(default=None, exclude=True, description="Whose memory: a string, or a function of nothing.")
    tokenizer_fn: Callable[[str], list[Any]] = Field(default_factory=get_tokenizer, exclude=True)

    _own: Any = PrivateAttr(default_factory=OwnLock)
    _turns: dict[tuple[str, str], tuple[str, Turn]] = PrivateAttr(default_factory=dict)
    _unwritten: dict[tuple[str, str], list[Message]] = PrivateAttr(default_factory=dict)

    if not TYPE_CHECKING:  # a type checker reads the fields

        def __init__(self, *given: Any, **fields: Any) -> None:
            check_fields(type(self).__name__, given, fields)
            super().__init__(**fields)

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        return await asyncio.to_thread(self._get, list(messages or ()), block_kwargs.get("session_id"))

    async def _aput(self, messages: list[ChatMessage]) -> None:
        await asyncio.to_thread(self._put, messages)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """The block without its lowest-scored memories, whole ones only; None when nothing is left."""
        if not isinstance(content, RecalledText):
            return None
        limit = len(self.tokenizer_fn(content)) - tokens_to_truncate
        turn = content.turn.shortened(lambda block: len(self.tokenizer_fn(block)) <= limit)
        return RecalledText.of(turn) if turn.block else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), address(self.memory, self.scope), self._settings())

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return type(self)(memory=self.memory, scope=self.scope, **self._settings())  # the memories are in the file

    def _settings(self) -> dict[str, Any]:
        names = self.model_fields_set - {"memory", "scope"}
        return {name: getattr(self, name) for name in names}

    def _get(self, messages: list[ChatMessage], session: str | None) -> str:
        scope = scope_for(self.memory, self.scope)
        stretch = _without_repeat([to_conversation(message) for message in messages])
        newest = next((i for i in reversed(range(len(stretch))) if stretch[i]["role"] == "user"), None)
        if newest is None or not text_of(stretch[newest]).strip():
            return ""
        query = text_of(stretch[newest])
        if session is None:
            return RecalledText.of(self._begin(query, scope))
        nodes = self._follow(stretch, session, scope)
        with self._own.lock:
            node, turn = self._turns.get((scope, session), ("", None))
        if turn is None or not nodes or node != nodes[newest - len(stretch)]:
            turn = self._begin(query, scope, session, nodes)
            if nodes:
                self._freeze((scope, session), nodes[newest - len(stretch)], turn)
        return RecalledText.of(turn)

    def _begin(self, query: str, scope: str, session: str | None = None, shown: Sequence[str] = ()) -> Turn:
        turn = self.memory.turns.begin(query, session=session, scope=scope, shown=shown)
        events.recalled("TieredMemoryBlock", scope, turn.ids, session)
        return turn

    def _put(self, messages: list[ChatMessage]) -> None:
        scope, session = scope_for(self.memory, self.scope), session_of(messages)
        plain = [to_conversation(message) for message in messages]
        if session is not None:
            self._follow(plain, session, scope, flushed=True)
            return
        said = [message for message in plain if is_said(message) and self._fits(message)]
        self.memory.remember_many([{"text": text_of(m), "role": m["role"]} for m in said], scope=scope)

    def _follow(self, stretch: list[Message], session: str, scope: str, *, flushed: bool = False) -> list[str]:
        """Write what is new; the nodes of the stretch, or [] if nothing could be written now.

        What ``Memory`` flushed it does not show again, so that is kept here; the rest comes with the next call.
        """
        with self._own.lock:
            earlier = self._unwritten.pop((scope, session), [])
            _, turn = self._turns.get((scope, session), ("", None))
        recalled = turn.ids if turn is not None else ()
        shown = [*earlier, *stretch]
        kept = list(filter(self._fits, shown))  # what is too large today will be so tomorrow: the rest must not wait
        try:
            nodes = self.memory.turns.follow(kept, session=session, scope=scope, recalled=recalled)
            return nodes if len(kept) == len(shown) else []
        except (TieredMemoryError, OSError) as error:
            _log.warning("the conversation could not be written, it is tried again with the next call: %s", error)
            with self._own.lock:
                self._unwritten[scope, session] = [*earlier, *stretch] if flushed else earlier
            return []

    def _fits(self, message: Message) -> bool:
        return len(text_of(message).encode("utf-8", "replace")) <= self.memory.settings.max_text_bytes

    def _freeze(self, key: tuple[str, str], node: str, turn: Turn) -> None:
        with self._own.lock:
            self._turns.pop(key, None)
            self._turns[key] = (node, turn)
            while len(self._turns) > _SESSIONS:
                del self._turns[next(iter(self._turns))]


def _again(kind: type[TieredMemoryBlock], where: dict[str, str], settings: dict[str, Any]) -> TieredMemoryBlock:
    return kind(memory=attached(where["location"]), scope=where["scope"], **settings)


def _without_repeat(stretch: list[Message]) -> list[Message]:
    """Without a last user message that says what the user's message before it said.

    ``Memory.aget(input=…)`` puts the input behind the history that holds it already. A user who really says the
    same thing twice is heard when the answer to it comes along.
    """
    users = [i for i, message in enumerate(stretch) if message["role"] == "user"]
    if len(users) < 2 or users[-1] != len(stretch) - 1:
        return stretch
    return stretch[:-1] if text_of(stretch[-1]) == text_of(stretch[users[-2]]) else stretch
