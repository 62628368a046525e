"""``TieredMemoryBlock`` when something fails, is shortened, or is not what one expects."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.memory import BaseMemoryBlock, Memory
from llama_index.core.utils import get_tokenizer

from llama_index_tiered_memory import TieredMemoryBlock
from shared_core import Settings, StorageError
from tests.adapters.llama_index.shared import (
    FACT,
    OPENING,
    QUESTION,
    prompt_text,
    remembered,
    spoken,
    stock_memory,
    text,
)


class Failing(BaseMemoryBlock[str]):
    """A sibling that fails when messages are flushed to it."""

    name: str = "failing"

    async def _aget(self, messages=None, **_):
        return ""

    async def _aput(self, messages):
        raise RuntimeError("the sibling failed")


class TestFailures:
    async def test_a_failing_sibling_loses_and_doubles_nothing_of_ours(self, block, memory):
        stock = Memory.from_defaults(
            session_id="s1", memory_blocks=[block, Failing()], insert_method="user", token_limit=60, token_flush_size=20
        )
        failures = 0
        for i in range(10):
            try:
                await stock.aput(text(f"question number {i} about the garden"))
            except RuntimeError:
                failures += 1
        await stock.aget()
        assert failures
        assert spoken(memory.context("s1").history()) == [
            ("user", f"question number {i} about the garden") for i in range(10)
        ]

    async def test_what_could_not_be_written_is_written_once_with_the_next_call(self, block, memory, monkeypatch):
        with monkeypatch.context() as broken:

            def full(*_, **__):
                raise StorageError("the disk is full")

            broken.setattr(memory.storage.memories, "add", full)
            await block.aput([text("flushed one"), text("flushed two", "assistant")], session_id="s1")
            assert await block.aget([text("still there")], session_id="s1") == ""
        await block.aget([text("still there")], session_id="s1")
        await block.aget([text("still there")], session_id="s1")
        assert [content for _, content in spoken(memory.context("s1").history())] == [
            "flushed one",
            "flushed two",
            "still there",
        ]
        assert len(memory.long_term.list()) == 3

    async def test_a_storage_that_cannot_be_read_gives_a_turn_without_memories(self, block, memory, script):
        memory.remember(FACT)
        memory.close()
        model = script(lambda _: "I do not know.")
        result = await FunctionAgent(llm=model.llm, tools=[]).run(QUESTION, memory=stock_memory(block, "s1"))
        assert str(result) == "I do not know."

    async def test_a_failure_between_remembering_and_logging_is_made_good_without_duplicates(
        self, block, memory, monkeypatch
    ):
        with monkeypatch.context() as broken:

            def fail(*_, **__):
                raise StorageError("it stopped here")

            broken.setattr(memory.storage.logs, "splice", fail)
            await block.aget([text(FACT)], session_id="s1")
        await block.aget([text(FACT)], session_id="s1")
        assert remembered(memory) == [("user", FACT)]
        assert spoken(memory.context("s1").history()) == [("user", FACT)]


class TestTruncation:
    @pytest.fixture
    def recalled(self, memory, block):
        for i in range(6):
            memory.remember(f"Coffee fact number {i}: " + "coffee " * (6 - i))
        return asyncio.run(block.aget([text("coffee")], session_id="s1"))

    async def test_the_lowest_scores_go_first_and_only_whole_memories(self, block, memory):
        for i in range(6):
            memory.remember(f"Coffee fact number {i}.", importance=i / 10)
        content = await block.aget([text("coffee fact")], session_id="s1")
        lowest_first = [hit.memory.text for hit in sorted(content.turn.hits, key=lambda hit: hit.score)]
        count = get_tokenizer()
        cut = await block.atruncate(content, 20)
        assert len(count(content)) - len(count(cut)) >= 20
        gone = [fact for fact in lowest_first if fact not in cut]
        assert gone == lowest_first[: len(gone)]
        assert 0 < len(gone) < 6
        assert cut.startswith(OPENING)
        assert cut.endswith("</recalled_memories>")

    async def test_a_pinned_memory_is_the_last_to_go(self, block, memory):
        pinned = memory.remember("Coffee fact pinned.", importance=0.0, pinned=True)
        for i in range(4):
            memory.remember(f"Coffee fact number {i}.", importance=1.0)
        content = await block.aget([text("coffee fact")], session_id="s1")
        limit = len(get_tokenizer()(content))
        cut = await block.atruncate(content, limit // 2)
        assert pinned.text in cut

    async def test_nothing_is_left_when_all_must_go(self, block, memory):
        memory.remember(FACT)
        content = await block.aget([text(QUESTION)], session_id="s1")
        assert await block.atruncate(content, 10_000) is None

    async def test_content_that_is_not_ours_is_dropped_whole(self, block):
        assert await block.atruncate("some text", 1) is None
        assert await block.atruncate([], 1) is None

    async def test_memory_shortens_the_block_instead_of_passing_its_limit(self, block, memory):
        for i in range(8):
            memory.remember(f"Coffee fact number {i}, with a few more words to make it longer.")
        stock = stock_memory(block, "s1", token_limit=150)
        await stock.aput(text("Tell me about coffee facts."))
        prompt = await stock.aget()
        assert 1 <= prompt_text(prompt).count("Coffee fact number") < 8


class TestDefaults:
    def test_its_name_is_fit_for_the_tag_that_memory_writes_around_it(self, block):
        assert block.name == "long_term_memory"
        assert block.priority == 1, "0 would forbid shortening it"

    async def test_without_messages_there_is_nothing_to_recall(self, block):
        assert await block.aget() == ""
        assert await block.aget([], session_id="s1") == ""
        assert await block.aget([ChatMessage(role="user", blocks=[])], session_id="s1") == ""

    async def test_an_image_beside_the_text_does_not_make_the_repeated_input_a_new_message(self, block, memory):
        from llama_index.core.base.llms.types import ImageBlock

        seen = ChatMessage(
            role="user", blocks=[TextBlock(text="what is this?"), ImageBlock(url="https://example.org/a.png")]
        )
        await block.aget([seen], session_id="s1")
        await block.aget([seen, text("what is this?")], session_id="s1")
        answer = text("A tree.", "assistant")
        await block.aget([seen, answer], session_id="s1")
        assert [message["role"] for message in memory.context("s1").history()] == ["user", "assistant"]

    async def test_a_user_who_says_the_same_twice_is_logged_twice(self, block, memory):
        turns = [text("yes"), text("And the second?", "assistant"), text("yes"), text("Good.", "assistant")]
        for end in range(1, 5):
            await block.aget(turns[:end], session_id="s1")
        assert [content for _, content in spoken(memory.context("s1").history())] == [
            "yes",
            "And the second?",
            "yes",
            "Good.",
        ]

    async def test_assistant_messages_with_calls_and_words_remember_the_words(self, block, memory):
        spoken = ChatMessage(role="assistant", blocks=[
            TextBlock(text="Let me look that up."), ToolCallBlock(tool_call_id="c", tool_name="f", tool_kwargs={}),
        ])  # fmt: skip
        await block.aget([text("find it"), spoken], session_id="s1")
        assert ("assistant", "Let me look that up.") in remembered(memory)


async def test_a_message_too_large_to_remember_keeps_no_other_out(open_memory):
    memory = open_memory(settings=Settings(max_text_bytes=20))
    block = TieredMemoryBlock(memory=memory)
    history = [text("x" * 21)]
    assert await block.aget(history, session_id="s") == ""
    history += [text("Papayas are ripe.", "assistant"), text("I like guava.")]
    await block.aget(history, session_id="s")
    await block.aput(history)
    await block.aget([text("I like durian.")], session_id="s")
    assert {told for _, told in remembered(memory)} == {"Papayas are ripe.", "I like guava.", "I like durian."}
