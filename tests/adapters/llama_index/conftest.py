"""What the LlamaIndex tests share: memories in real files, and a model that answers by a script."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from llama_index_tiered_memory import TieredAgentMemory, TieredChatStore, TieredMemoryBlock
from shared_core import TieredMemory
from shared_core.testing import FakeClock
from tests.adapters.llama_index.shared import Counted


class Scripted(FunctionCallingLLM):
    """A function-calling model, whole and streamed, whose answers come from a function of the messages."""

    respond: Any

    @property
    def metadata(self):
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True, model_name="scripted")

    def chat(self, messages, **_):
        return ChatResponse(message=self.respond(messages))

    async def achat(self, messages, **_):
        return self.chat(messages)

    def stream_chat(self, messages, **_):
        message = self.respond(messages)
        yield ChatResponse(message=message, delta=message.content or "")

    async def astream_chat(self, messages, **_):
        async def chunks():
            for chunk in self.stream_chat(messages):
                yield chunk

        return chunks()

    def complete(self, prompt, formatted=False, **_):
        return CompletionResponse(text=self.respond([ChatMessage(content=prompt)]).content)

    async def acomplete(self, prompt, formatted=False, **_):
        return self.complete(prompt)

    def stream_complete(self, prompt, formatted=False, **_):
        yield self.complete(prompt)

    async def astream_complete(self, prompt, formatted=False, **_):
        async def chunks():
            yield self.complete(prompt)

        return chunks()

    def _prepare_chat_with_tools(self, tools, user_msg=None, chat_history=None, **_):
        asked = [ChatMessage(content=user_msg)] if isinstance(user_msg, str) else [user_msg] if user_msg else []
        return {"messages": [*(chat_history or []), *asked]}

    def get_tool_calls_from_response(self, response, error_on_no_tool_call=True, **_):
        return [
            ToolSelection(tool_id=block.tool_call_id, tool_name=block.tool_name, tool_kwargs=block.tool_kwargs)
            for block in response.message.blocks
            if isinstance(block, ToolCallBlock)
        ]


class Script:
    """A model that says what ``answer(messages)`` returns: a text, or tool calls as (name, arguments) pairs.

    ``prompts`` are the messages of every call as the model saw them, copied at that moment.
    """

    def __init__(self, answer):
        self.prompts = []
        self._answer = answer
        self._ids = 0
        self.llm = Scripted(respond=self._respond)

    def _respond(self, messages):
        self.prompts.append([message.model_copy(deep=True) for message in messages])
        said = self._answer(messages)
        if isinstance(said, str):
            return ChatMessage(role="assistant", blocks=[TextBlock(text=said)])
        blocks = []
        for name, arguments in said:
            self._ids += 1
            blocks.append(ToolCallBlock(tool_call_id=f"call-{self._ids}", tool_name=name, tool_kwargs=arguments))
        return ChatMessage(role="assistant", blocks=blocks)


@pytest.fixture
def script():
    return Script


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def open_memory(tmp_path, clock):
    """Open a memory in a file of this test; all are closed at its end. Words only, so that nothing is downloaded."""
    opened = []

    def opener(name="agent.db", **options):
        options = {"embedder": "none", "default_scope": "ada", "clock": clock, **options}
        memory = TieredMemory.open(tmp_path / name if name != ":memory:" else name, **options)
        opened.append(memory)
        return memory

    yield opener
    for memory in opened:
        memory.close()


@pytest.fixture
def memory(open_memory):
    return open_memory()


@pytest.fixture(autouse=True)
def _stock_stores_are_closed(monkeypatch):
    """LlamaIndex's own Memory never closes its database, and what is left open fails these tests."""
    made = []
    make = SQLAlchemyChatStore.__init__

    def noted(self, *args, **fields):
        make(self, *args, **fields)
        made.append(self)

    monkeypatch.setattr(SQLAlchemyChatStore, "__init__", noted)
    yield
    loop = asyncio.new_event_loop()
    for engine in filter(None, (store._async_engine for store in made)):
        loop.run_until_complete(engine.dispose())
    loop.close()


@pytest.fixture
def agent_memory(memory):
    return TieredAgentMemory(memory=memory, session_id="s1")


@pytest.fixture
def counted():
    return Counted()


@pytest.fixture
def store(memory):
    return TieredChatStore(memory=memory)


@pytest.fixture
def block(memory):
    return TieredMemoryBlock(memory=memory)
