"""``TieredChainMemory``: the ``memory=`` of a classic chain: the recent messages, and beside them what is recalled.

A bridge for existing chains (LangChain removes this interface in 2.0); new agents take
``TieredMemoryMiddleware``. The only file that imports langchain_classic.
"""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING, Any, Final

from langchain_classic.base_memory import BaseMemory
from langchain_classic.memory.utils import get_prompt_input_key
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, get_buffer_string
from pydantic import ConfigDict, Field, PrivateAttr, SkipValidation

from langchain_tiered_memory import convert
from langchain_tiered_memory.owner import Named, check_fields, scope_of
from shared_core import TieredMemory

_TURNS: Final = 100  # that may be under way; what an older one recalled is not known any more when it ends


class TieredChainMemory(BaseMemory):
    """A conversation of one session: its last ``window`` messages, and after them what recall finds for the input.

    The variable ``memory_key`` is a string, or a list of messages with ``return_messages``: the recent messages,
    then the recalled block (a message of the user's, never a system message; last, so that the start of the prompt
    stays as it was). Recall does not repeat what the window holds. ``input_key`` and ``output_key`` name what is
    said when a chain has several. ``save_context`` logs both texts and remembers them, an answer that only repeats
    what was recalled for it as that memory, strengthened; ``clear`` erases the
    conversation and keeps the memories (``memory.forget`` is for those). ``scope`` is a string or a function
    without arguments.
    """

    model_config = ConfigDict(extra="forbid")

    memory: SkipValidation[TieredMemory] = Field(exclude=True)
    session_id: str
    scope: SkipValidation[Named] = Field(default=None, exclude=True)
    memory_key: str = "history"
    input_key: str | None = None
    output_key: str | None = None
    return_messages: bool = False
    human_prefix: str = "Human"
    ai_prefix: str = "AI"
    window: int = Field(default=20, ge=0)
    recall: bool = True
    _begun: dict[tuple[str, str], tuple[str, ...]] = PrivateAttr(default_factory=dict)

    if not TYPE_CHECKING:  # a type checker reads the fields

        def __init__(self, *given: Any, **fields: Any) -> None:
            check_fields(type(self).__name__, given, fields)
            super().__init__(**fields)

    @property
    def memory_variables(self) -> list[str]:
        """The one variable it fills."""
        return [self.memory_key]

    def load_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """What a prompt shows of the past: ``{memory_key: str}``, or ``{memory_key: [messages]}``."""
        scope = scope_of(self.memory, self.scope)
        logged = self.memory.context(self.session_id, scope=scope).history(last=self.window)
        recent = [message for message in map(convert.message, logged) if _said(message)]
        block = self._recalled(inputs, recent, scope)
        if self.return_messages:
            return {self.memory_key: [*recent, *([HumanMessage(content=block)] if block else [])]}
        buffer = get_buffer_string(recent, human_prefix=self.human_prefix, ai_prefix=self.ai_prefix)
        return {self.memory_key: "\n".join(part for part in (buffer, block) if part)}

    def save_context(self, inputs: dict[str, Any], outputs: dict[str, str]) -> None:
        """Log what was said and answered, and remember it. ValueError if the keys do not tell which texts."""
        said, answered = inputs[self._input_key(inputs)], outputs[self._output_key(outputs)]
        turn = [HumanMessage(content=convert.content(said)), AIMessage(content=convert.content(answered))]
        scope = scope_of(self.memory, self.scope)
        self.memory.turns.end(
            [convert.plain(message) for message in turn],
            session=self.session_id,
            scope=scope,
            recalled=self._begun.pop((scope, turn[0].text), ()),
        )

    def clear(self) -> None:
        """Erase the conversation of the session."""
        self.memory.context(self.session_id, scope=scope_of(self.memory, self.scope)).clear()

    async def aload_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """``load_memory_variables`` off the event loop."""
        return await asyncio.to_thread(self.load_memory_variables, inputs)

    async def asave_context(self, inputs: dict[str, Any], outputs: dict[str, str]) -> None:
        """``save_context`` off the event loop."""
        await asyncio.to_thread(self.save_context, inputs, outputs)

    async def aclear(self) -> None:
        """``clear`` off the event loop."""
        await asyncio.to_thread(self.clear)

    def _recalled(self, inputs: dict[str, Any], recent: list[BaseMessage], scope: str) -> str:
        try:
            query = HumanMessage(content=convert.content(inputs[self._input_key(inputs)])).text
        except (KeyError, ValueError):  # asked without an input, or with several: save_context says what is missing
            return ""
        if not self.recall or not query.strip():
            return ""
        shown = [message.text for message in recent]
        turn = self.memory.turns.begin(query, session=self.session_id, scope=scope, shown_texts=shown)
        self._begun[scope, query] = turn.ids  # until the answer comes: one that only repeats them is no new memory
        while len(self._begun) > _TURNS:
            self._begun.pop(next(iter(self._begun)), None)
        return turn.block

    def _input_key(self, inputs: dict[str, Any]) -> str:
        return self.input_key if self.input_key is not None else get_prompt_input_key(inputs, self.memory_variables)

    def _output_key(self, outputs: dict[str, Any]) -> str:
        """As upstream: the only key, else "output" with a warning, else a ValueError that names the keys."""
        if self.output_key is not None:
            return self.output_key
        if len(outputs) == 1:
            return next(iter(outputs))
        if "output" not in outputs:
            raise ValueError(
                f"Got multiple output keys: {list(outputs)}, cannot determine which to store in memory; set output_key='…'"
            )
        warnings.warn(
            f"{type(self).__name__} got the output keys {list(outputs)} and takes 'output'; set output_key='…' for another",
            stacklevel=4,
        )
        return "output"


def _said(message: BaseMessage) -> bool:
    """Whether it is a person's or the model's, an empty one too; not a bare call of tools, which says nothing."""
    called = isinstance(message, AIMessage) and bool(message.tool_calls)
    return isinstance(message, HumanMessage | AIMessage) and (bool(message.text) or not called)
