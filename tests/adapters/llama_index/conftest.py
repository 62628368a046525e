"""What the LlamaIndex tests share: memories in real files, and a model that answers by a script."""

from __future__ import annotations

import pytest
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

from shared_core import TieredMemory
from shared_core.testing import FakeClock


class Script:
    """A model that says what ``answer(messages)`` returns: a text, or tool calls as (name, arguments) pairs.

    ``prompts`` are the messages of every call as the model saw them, copied at that moment.
    """

    def __init__(self, answer):
        self.prompts = []
        self._answer = answer
        self._ids = 0
        self.llm = MockFunctionCallingLLM(response_generator=self._respond)

    def _respond(self, messages, **_):
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
