"""``TieredAgentMemory``: the ``memory=`` of LlamaIndex's agents and chat engines. No rules of memory.

The conversation is the core's log of one session, ``get`` is its window with what is recalled at the tail.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.memory import BaseMemory
from pydantic import ConfigDict, Field, PrivateAttr, model_serializer, model_validator

from llama_index_tiered_memory import events
from llama_index_tiered_memory.attach import OwnLock, address, attached, check_fields, scope_for
from llama_index_tiered_memory.convert import in_call_order, to_conversation, to_message
from shared_core import Context, InvalidInput, TieredMemory, Turn, arguments
from shared_core.messages import Message, is_empty, starts_turn, text_of, tool_calls, without_thinking

_WINDOW_SHARE = 0.75


class TieredAgentMemory(BaseMemory):
    """A conversation that is never lost, shown through a window that stays valid and stays cached, with recall.

    ``FunctionAgent(…).run("…", memory=TieredAgentMemory(memory=memory, session_id="s1"))``. What is put is durable
    when the call returns; every user and assistant text is remembered at once, for this session and all others
    of the scope. ``get`` shows system messages, then whole turns within ``token_limit`` (room for recalled memories
    is taken off first), and what is recalled for the newest user message in a block of its own at that message's
    end: it is never stored, and stays the same until the next user message. What was thought in earlier turns
    is not shown again. ``snapshot``, ``rewind`` and ``branch`` go back and aside.

    ``to_dict``, ``pickle``, ``deepcopy`` and a workflow's ``Context`` carry the file's path, the scope and the session
    id; reading them back attaches to the file again, so a memory in ``":memory:"``, or a scope that is a function,
    cannot be serialised and says so.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: TieredMemory = Field(
        exclude=True, description="The memory that holds the conversation and is recalled from."
    )
    session_id: str = Field(description="Which conversation.")
    scope: Any = Field(
        default=None, description="Whose: a string, or a function of nothing; None is the default scope."
    )
    token_limit: int = Field(default=30_000, description="Most tokens of what get returns, recalled memories included.")
    remember: bool = Field(default=True, description="False: the conversation is kept, its texts are not remembered.")

    _own: Any = PrivateAttr(default_factory=OwnLock)
    _turn: tuple[str, str, Turn] | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _attach(cls, values: Any) -> Any:
        if isinstance(values, dict) and "location" in values and "memory" not in values:
            kept = {name: value for name, value in values.items() if name not in ("location", "class_name")}
            return {"memory": attached(values["location"]), **kept}
        return values

    if not TYPE_CHECKING:  # a type checker reads the fields

        def __init__(self, *given: Any, **fields: Any) -> None:
            check_fields(type(self).__name__, given, fields)
            if "memory" in fields:
                arguments.name("session_id", fields.get("session_id"))
                arguments.count("token_limit", fields.get("token_limit", 0))
            super().__init__(**fields)

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex loads it again."""
        return "TieredAgentMemory"

    @classmethod
    def from_defaults(cls, chat_history: list[ChatMessage] | None = None, llm: Any = None, **fields: Any) -> Self:
        """The same as the constructor; with ``chat_history`` the conversation becomes that.

        With ``llm`` and no ``token_limit`` the limit is three quarters of the model's context window, as in LlamaIndex.
        """
        if llm is not None and fields.get("token_limit") is None:
            fields["token_limit"] = int(llm.metadata.context_window * _WINDOW_SHARE)
        made = cls(**fields)
        if chat_history:
            made.set(chat_history)
        return made

    @model_serializer(mode="plain")
    def _dump(self) -> dict[str, Any]:
        return {
            **address(self.memory, self.scope),
            "session_id": self.session_id,
            "token_limit": self.token_limit,
            "remember": self.remember,
            "class_name": self.class_name(),
        }

    # The window, with what is recalled

    def get(
        self, input: str | ChatMessage | None = None, initial_token_count: int | None = None, **_: Any
    ) -> list[ChatMessage]:
        """The messages for a model, fresh copies.

        ``input`` is what the user asks, where the caller puts it behind these messages itself: what is recalled
        for it then stands in a user's message at the end. ``initial_token_count`` is room that is taken already.
        """
        if input is not None and not isinstance(input, str | ChatMessage):
            raise InvalidInput(f"input: expected what the user asks, a string or a ChatMessage, got {input!r:.80}")
        scope = self._scope()
        limit = max(self.token_limit - max(int(initial_token_count or 0), 0), 0)
        window = self.memory.turns.window(self.session_id, limit, scope=scope)
        newest = max((i for i, message in enumerate(window) if starts_turn(message)), default=-1)
        asked = text_of(window[newest]) if newest >= 0 else ""
        answered = newest < 0 or (window[-1]["role"] == "assistant" and not tool_calls(window[-1]))
        query = text_of(to_conversation(input)) if isinstance(input, ChatMessage) else input
        ahead = bool(query) and (answered or query != asked)  # it is not in the log yet
        shown = [without_thinking(m) if i < newest or ahead else m for i, m in enumerate(window)]
        out = [to_message(message) for message in shown if not is_empty(message)]
        turn = self._recalled(query or asked, window, scope, fresh=ahead or not answered)
        if turn is not None and turn.block:
            if ahead:
                out.append(ChatMessage(role="user", blocks=[TextBlock(text=turn.block)]))
            else:
                blocks = out[newest - len(window)].blocks
                blocks.append(RecalledBlock.beside(blocks, turn.block))
        return out

    def _recalled(self, query: str, window: list[Message], scope: str, *, fresh: bool) -> Turn | None:
        """What was recalled for the query when it was first asked; a turn that is over recalls nothing new."""
        with self._own.lock:
            if self._turn is not None and self._turn[:2] == (scope, query):
                return self._turn[2]
        if not fresh or not query.strip():
            return None
        texts = [text_of(message) for message in window]
        turn = self.memory.turns.begin(query, session=self.session_id, scope=scope, shown_texts=texts)
        events.recalled("TieredAgentMemory", scope, turn.ids, self.session_id)
        with self._own.lock:
            self._turn = (scope, query, turn)
        return turn

    # The conversation

    def get_all(self) -> list[ChatMessage]:
        """The whole conversation, as it was put."""
        return [to_message(plain) for plain in self._conversation().history()]

    def put(self, message: ChatMessage) -> None:
        """Add one message."""
        self.put_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages, all or none; the results of parallel calls in the order of the calls."""
        with self._own.lock:
            self._write(in_call_order([to_conversation(message) for message in messages]))

    def set(self, messages: list[ChatMessage]) -> None:
        """Make the conversation these messages.

        If they share a beginning with it, up to a user's message at least, it goes back to there: what was said
        after is not recalled any more, and can be gone back to. Otherwise it starts anew, as after ``reset``.
        """
        plain = in_call_order([to_conversation(message) for message in messages])
        with self._own.lock:
            conversation = self._conversation()
            path = conversation.current()[1]
            same = 0
            while same < min(len(path), len(plain)) and path[same].body == plain[same]:
                same += 1
            if not any(map(starts_turn, plain[:same])):
                conversation.clear()
                same = 0
            elif same < len(path):
                conversation.rewind(path[same - 1].id)
            self._write(plain[same:], over=True)

    def reset(self) -> None:
        """Erase the conversation; what was remembered of it stays remembered."""
        with self._own.lock:
            self._turn = None
            self._conversation().clear()

    def _write(self, plain: list[Message], *, over: bool = False) -> None:
        if over or any(map(starts_turn, plain)):
            self._turn = None
        scope = self._scope()
        if plain and self.remember:
            recalled = self._turn[2].ids if self._turn is not None and self._turn[0] == scope else ()
            self.memory.turns.end(plain, session=self.session_id, scope=scope, recalled=recalled)
        elif plain:
            self._conversation().extend(plain)

    # Back and aside

    def snapshot(self) -> str:
        """The id of the present point of the conversation, for ``rewind`` and ``branch``."""
        return self._conversation().snapshot()

    def rewind(self, id: str) -> None:
        """Go back (or on) to a snapshot; what was remembered since is not recalled any more."""
        with self._own.lock:
            self._turn = None
            self._conversation().rewind(id)

    def branch(self, id: str, *, session_id: str | None = None) -> Self:
        """A memory of its own session that shares the past up to the snapshot."""
        branch = self._conversation().branch(id, session=session_id)
        return self._copy(branch.session)

    async def asnapshot(self) -> str:
        """``snapshot`` off the event loop."""
        return await asyncio.to_thread(self.snapshot)

    async def arewind(self, id: str) -> None:
        """``rewind`` off the event loop."""
        await asyncio.to_thread(self.rewind, id)

    async def abranch(self, id: str, *, session_id: str | None = None) -> Self:
        """``branch`` off the event loop."""
        return await asyncio.to_thread(self.branch, id, session_id=session_id)

    def _scope(self) -> str:
        return scope_for(self.memory, self.scope)

    def _conversation(self) -> Context:
        return self.memory.context(self.session_id, scope=self._scope())

    def _copy(self, session_id: str) -> Self:
        return type(self)(
            memory=self.memory, session_id=session_id, scope=self.scope, token_limit=self.token_limit,
            remember=self.remember,
        )  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_dict, (self.to_dict(),)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self._copy(self.session_id)  # the messages are in the file, the same for both


class RecalledBlock(TextBlock):
    """What was recalled, behind the user's words in their message.

    An agent with ``initial_state`` writes its state around the last text of the message, and means the words: so
    they are what a new text that holds the old one is written around.
    """

    _words: TextBlock | None = PrivateAttr(default=None)

    @classmethod
    def beside(cls, blocks: list[Any], text: str) -> RecalledBlock:
        """The block for a message of these blocks."""
        made = cls(text=text)
        made._words = next((block for block in reversed(blocks) if isinstance(block, TextBlock)), None)
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "text" and self._words is not None and isinstance(value, str) and self.text in value:
            self._words.text = value.replace(self.text, self._words.text)
        else:
            super().__setattr__(name, value)
