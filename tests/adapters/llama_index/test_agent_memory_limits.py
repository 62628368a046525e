"""What a window of ``TieredAgentMemory`` costs and counts: long conversations, large calls and outputs, no input."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ThinkingBlock, ToolCallBlock
from llama_index.core.llms.mock import MockLLM
from llama_index.core.memory import ChatMemoryBuffer

from llama_index_tiered_memory import TieredAgentMemory
from shared_core import Settings
from shared_core.messages import text_of


def user(text):
    return ChatMessage(role="user", content=text)


def said(text):
    return ChatMessage(role="assistant", content=text)


def test_a_long_conversation_is_counted_once_and_not_at_every_get(open_memory):
    """1 000 messages of 200 000 tokens: a second look, in a process that opens the file anew, counts nothing again."""
    counted = []

    def words(text):
        counted.append(text)
        return len(text.split())

    memory = open_memory(settings=Settings(count_tokens=words))
    TieredAgentMemory(memory=memory, session_id="s", remember=False).put_messages(
        [m for i in range(500) for m in (user(f"q{i} " + "w " * 199), said(f"a{i} " + "w " * 199))]
    )
    memory.close()
    kept = TieredAgentMemory(
        memory=open_memory(settings=Settings(count_tokens=words)), session_id="s", remember=False, token_limit=20_000
    )
    counted.clear()
    first = kept.get()
    assert len(counted) < 50
    counted.clear()
    assert kept.get() == first
    assert len(counted) < 50
    assert 50 < len(first) < 110


def test_a_limit_that_nobody_gave_is_three_quarters_of_the_models_window_as_in_llama_index(memory):
    model = MockLLM(max_tokens=10)  # with a window of 3 900 tokens
    made = TieredAgentMemory.from_defaults(llm=model, memory=memory, session_id="s")
    assert made.token_limit == ChatMemoryBuffer.from_defaults(llm=model).token_limit == 2925
    given = TieredAgentMemory.from_defaults(llm=model, memory=memory, session_id="s", token_limit=100)
    assert given.token_limit == 100
    assert TieredAgentMemory.from_defaults(memory=memory, session_id="s").token_limit == 30_000


@pytest.mark.parametrize(
    "block",
    [
        ToolCallBlock(tool_call_id="c", tool_name="f", tool_kwargs={"q": "word " * 3_000}),
        ThinkingBlock(content="word " * 3_000),
    ],
    ids=["a tool call's arguments", "thinking"],
)
def test_what_stands_in_a_block_that_is_no_text_is_counted_too(open_memory, block):
    memory = open_memory(settings=Settings(recall_tokens=0))
    kept = TieredAgentMemory(memory=memory, session_id="s", token_limit=3_500)
    filler = [m for i in range(5) for m in (user(f"q{i} " + "word " * 200), said("a"))]
    results = [ChatMessage(role="tool", content="r", additional_kwargs={"tool_call_id": "c"})]
    called = ChatMessage(role="assistant", blocks=[block])
    kept.put_messages(
        [*filler, user("last"), called, *(results if isinstance(block, ToolCallBlock) else []), said("x")]
    )
    assert kept.get()[0].content == "last", "the large block leaves room for nothing before"


async def test_a_giant_output_of_a_tool_stands_shortened_in_later_turns_and_whole_in_the_log(memory, script):
    giant = "line of the report\n" * 20_000

    def report(name: str) -> str:
        """A report."""
        return giant

    model = script(lambda m: [("report", {"name": "x"})] if m[-1].content == "report" else "Done.")
    agent = FunctionAgent(llm=model.llm, tools=[report])
    kept = TieredAgentMemory(memory=memory, session_id="s", token_limit=30_000)
    await agent.run("report", memory=kept)
    await agent.run("and now?", memory=kept)
    (shown,) = [message for message in model.prompts[-1] if message.role == "tool"]
    assert len(shown.content) < 30_000
    assert shown.content.startswith("line of the report")
    (whole,) = [plain for plain in memory.context("s").history() if plain["role"] == "tool"]
    assert text_of(whole) == giant


async def test_putting_no_messages_does_nothing(memory):
    kept = TieredAgentMemory(memory=memory, session_id="s")
    kept.put_messages([])
    await kept.aput_messages([])
    kept.set([])
    assert kept.get() == kept.get_all() == []
    assert memory.sessions() == []


async def test_messages_put_together_stay_together_whoever_else_puts(memory):
    kept = TieredAgentMemory(memory=memory, session_id="s")
    await asyncio.gather(*(kept.aput_messages([user(f"q{i}"), said(f"a{i}")]) for i in range(30)))
    found = [message.content for message in kept.get_all()]
    assert all(answer == "a" + question[1:] for question, answer in zip(found[::2], found[1::2], strict=True))


def test_a_scope_that_is_given_comes_before_the_default_one(memory):
    TieredAgentMemory(memory=memory, session_id="s", scope="bob").put(user("bob's"))
    TieredAgentMemory(memory=memory, session_id="s").put(user("ada's"))
    assert [one.text for one in memory.long_term.list(scope="bob")] == ["bob's"]
    assert [one.text for one in memory.long_term.list(scope="ada")] == ["ada's"]
