"""What ``TieredMemoryBlock`` promises inside LlamaIndex's stock ``Memory``, with real agents and a scripted model."""

from __future__ import annotations

import asyncio
import contextvars

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.memory import BaseMemoryBlock, Memory
from llama_index.core.tools import FunctionTool
from llama_index.core.utils import get_tokenizer

from llama_index_tiered_memory import TieredMemoryBlock
from shared_core import ScopeRequired, Settings, StorageError

FACT = "I take my coffee black."
QUESTION = "How do I take my coffee?"
OPENING = "<recalled_memories>"


def text(content, role="user", **extra):
    return ChatMessage(role=role, content=content, additional_kwargs=extra)


def stock_memory(block, session, **options):
    return Memory.from_defaults(session_id=session, memory_blocks=[block], insert_method="user", **options)


async def active(stock):
    return await stock.sql_store.get_messages(stock.session_id)


def remembered(memory, **where):
    return sorted((found.role, found.text) for found in memory.long_term.list(**where))


def said(history):
    return [(message["role"], message["content"]) for message in history]


def prompt_text(prompt):
    return "\n".join(message.content or "" for message in prompt)


def plus(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def with_one_tool_round(messages):
    return "It is 3." if any(message.role == "tool" for message in messages) else [("plus", {"a": 1, "b": 2})]


@pytest.fixture
def block(memory):
    return TieredMemoryBlock(memory=memory)


class TestAcrossSessions:
    async def test_a_fact_told_in_one_turn_is_recalled_in_a_new_session_after_a_restart(self, open_memory, script):
        first = open_memory()
        agent = FunctionAgent(llm=script(lambda _: "Noted.").llm, tools=[])
        await agent.run(FACT, memory=stock_memory(TieredMemoryBlock(memory=first), "s1"))
        first.close()

        model = script(lambda _: "Black.")
        agent = FunctionAgent(llm=model.llm, tools=[])
        await agent.run(QUESTION, memory=stock_memory(TieredMemoryBlock(memory=open_memory()), "s2"))
        assert FACT in prompt_text(model.prompts[0])

    async def test_both_sides_are_remembered_each_once_although_the_history_is_shown_at_every_step(
        self, block, memory, script
    ):
        agent = FunctionAgent(llm=script(with_one_tool_round).llm, tools=[FunctionTool.from_defaults(plus)])
        await agent.run("What is 1 + 2?", memory=stock_memory(block, "s1"))
        assert remembered(memory) == [("assistant", "It is 3."), ("user", "What is 1 + 2?")]
        assert all(found.access_count == 0 for found in memory.long_term.list()), "written once, not strengthened"

    async def test_tool_calls_and_results_are_logged_and_never_remembered(self, block, memory, script):
        agent = FunctionAgent(llm=script(with_one_tool_round).llm, tools=[FunctionTool.from_defaults(plus)])
        await agent.run("What is 1 + 2?", memory=stock_memory(block, "s1"))
        history = memory.context("s1").history()
        assert [message["role"] for message in history] == ["user", "assistant", "tool", "assistant"]
        assert history[1]["content"][-1]["type"] == "tool_use"
        assert "3" not in [found.text for found in memory.long_term.list()]

    @pytest.mark.parametrize("turns", [3])
    async def test_many_turns_of_one_conversation_are_logged_in_order_without_repeats(
        self, block, memory, script, turns
    ):
        agent = FunctionAgent(llm=script(lambda m: f"answer {len(m)}").llm, tools=[])
        stock = stock_memory(block, "s1")
        for i in range(turns):
            await agent.run(f"question {i}", memory=stock)
        roles = [role for role, _ in said(memory.context("s1").history())]
        assert roles == ["user", "assistant"] * turns

    async def test_a_react_agent_is_remembered_too(self, block, memory, script):
        model = script(lambda _: "Thought: I can answer without tools.\nAnswer: Noted.")
        await ReActAgent(llm=model.llm, tools=[FunctionTool.from_defaults(plus)]).run(
            FACT, memory=stock_memory(block, "s1")
        )
        assert ("user", FACT) in remembered(memory)

    async def test_a_handoff_between_agents_logs_the_user_message_once(self, block, memory, script):
        def first(messages):
            return [("handoff", {"to_agent": "second", "reason": "it knows"})]

        first_agent = FunctionAgent(
            name="first", description="asks", llm=script(first).llm, tools=[], can_handoff_to=["second"]
        )
        second_agent = FunctionAgent(name="second", description="knows", llm=script(lambda _: "Black.").llm, tools=[])
        workflow = AgentWorkflow(agents=[first_agent, second_agent], root_agent="first")
        await workflow.run(user_msg=QUESTION, memory=stock_memory(block, "s1"))
        assert [role for role, _ in said(memory.context("s1").history())].count("user") == 1
        assert remembered(memory) == [("assistant", "Black."), ("user", QUESTION)]


class TestWithinATurn:
    async def test_what_the_turn_itself_said_is_not_recalled_to_it(self, block, script):
        model = script(lambda _: "Noted.")
        await FunctionAgent(llm=model.llm, tools=[]).run(FACT, memory=stock_memory(block, "s1"))
        assert OPENING not in prompt_text(model.prompts[0])

    async def test_what_stands_in_the_prompt_anyway_is_not_recalled_on_top(self, block, script):
        model = script(lambda _: "Noted.")
        stock = stock_memory(block, "s1")
        agent = FunctionAgent(llm=model.llm, tools=[])
        await agent.run(FACT, memory=stock)
        await agent.run(QUESTION, memory=stock)
        assert OPENING not in prompt_text(model.prompts[-1])

    async def test_the_block_stays_the_same_through_a_tool_loop(self, block, memory, script):
        memory.remember(FACT)
        model = script(
            lambda m: "Black." if sum(x.role == "tool" for x in m) == 2 else [("plus", {"a": 1, "b": len(m)})]
        )
        await FunctionAgent(llm=model.llm, tools=[FunctionTool.from_defaults(plus)]).run(
            QUESTION, memory=stock_memory(block, "s1")
        )
        users = [[m.content for m in prompt if m.role == "user"] for prompt in model.prompts]
        assert len(users) == 3
        assert users[0] == users[1] == users[2]
        assert FACT in users[0][0]
        assert memory.stats()["long_term"]["recalls"] == 1, "one turn, one recall"

    async def test_our_text_never_accumulates_in_stored_messages(self, block, memory, script):
        memory.remember(FACT)
        stock = stock_memory(block, "s1")
        agent = FunctionAgent(llm=script(lambda _: "Black.").llm, tools=[])
        for _ in range(3):
            await agent.run(QUESTION, memory=stock)
            await stock.aget()
        assert all(OPENING not in (message.content or "") for message in await stock.aget_all())
        assert all(OPENING not in found.text for found in memory.long_term.list())
        prompt = prompt_text(await stock.aget())
        assert prompt.count(OPENING) <= 1

    async def test_the_recalled_text_stands_before_the_users_words_in_the_last_user_message(
        self, block, memory, script
    ):
        memory.remember(FACT)
        model = script(lambda _: "Black.")
        agent = FunctionAgent(llm=model.llm, tools=[], system_prompt="Be brief.")
        await agent.run(QUESTION, memory=stock_memory(block, "s1"))
        system, user = model.prompts[0]
        assert system.content == "Be brief."
        assert user.content.index(FACT) < user.content.index(QUESTION)


class TestApart:
    async def test_one_block_serves_two_users_and_leaks_nothing(self, memory, script):
        user = contextvars.ContextVar("user")
        block = TieredMemoryBlock(memory=memory, scope=user.get)

        async def talk(who, session, message):
            user.set(who)
            model = script(lambda _: f"Noted for {who}.")
            await FunctionAgent(llm=model.llm, tools=[]).run(message, memory=stock_memory(block, session))
            return prompt_text(model.prompts[0])

        await asyncio.gather(
            *(asyncio.create_task(talk(w, f"{w}-1", f"My coffee secret is {w}-secret.")) for w in ("ada", "bob"))
        )
        ada, bob = await asyncio.gather(
            *(asyncio.create_task(talk(w, f"{w}-2", "What is my coffee secret?")) for w in ("ada", "bob"))
        )
        assert "ada-secret" in ada
        assert "bob" not in ada
        assert "bob-secret" in bob
        assert "ada" not in bob

    async def test_two_interleaved_sessions_are_logged_apart(self, block, memory):
        one, two = stock_memory(block, "one"), stock_memory(block, "two")
        for i in range(3):
            await one.aput(text(f"one {i}"))
            await two.aput(text(f"two {i}"))
            await one.aget()
            await two.aget()
        assert [content for _, content in said(memory.context("one").history())] == ["one 0", "one 1", "one 2"]
        assert [content for _, content in said(memory.context("two").history())] == ["two 0", "two 1", "two 2"]

    async def test_a_rewound_session_no_longer_recalls_what_was_said_on_the_abandoned_branch(self, block, memory):
        await block.aget([text("hello")], session_id="s1")
        before = memory.context("s1").snapshot()
        await block.aget([text("hello"), text("My code word is zebra.")], session_id="s1")
        memory.context("s1").rewind(before)
        assert "zebra" not in await block.aget([text("hello"), text("What is my code word?")], session_id="s1")

    def test_without_a_scope_and_a_default_it_refuses_to_be_made(self, open_memory):
        with pytest.raises(ScopeRequired, match="pass scope="):
            TieredMemoryBlock(memory=open_memory(default_scope=None))

    async def test_messages_of_the_caller_are_not_changed(self, block):
        messages = [text("hello", session_id="s1"), text("there", "assistant", session_id="s1")]
        before = [message.model_copy(deep=True) for message in messages]
        await block.aput(messages)
        await block.aget(messages, session_id="s1")
        assert messages == before


class TestFlushing:
    async def test_flushed_messages_that_were_seen_before_are_not_written_again(self, block, memory):
        stock = stock_memory(block, "s1", token_limit=100, token_flush_size=20)
        for i in range(12):
            await stock.aput(text(f"question number {i} about the garden and the weather"))
            await stock.aget()
            await stock.aput(text(f"answer number {i} about the garden and the weather", "assistant"))
        await stock.aget()
        history = said(memory.context("s1").history())
        assert len(await active(stock)) < 24, "it did flush"
        assert len(history) == len(set(history)) == 24
        assert history[0] == ("user", "question number 0 about the garden and the weather")
        assert len(memory.long_term.list()) == 24

    async def test_flushed_messages_that_were_never_shown_are_written(self, block, memory):
        stock = stock_memory(block, "s1", token_limit=60, token_flush_size=20)
        for i in range(10):
            await stock.aput_messages(
                [text(f"question number {i} about it"), text(f"answer number {i} to it", "assistant")]
            )
        await stock.aget()
        assert [content for _, content in said(memory.context("s1").history())] == [
            line for i in range(10) for line in (f"question number {i} about it", f"answer number {i} to it")
        ]

    async def test_what_was_flushed_is_recalled(self, block):
        stock = stock_memory(block, "s1", token_limit=200, token_flush_size=20)
        await stock.aput(text(FACT))
        for i in range(15):
            await stock.aput(text(f"other matter number {i} of the day"))
            await stock.aput(text(f"indeed number {i} of the day", "assistant"))
        await stock.aput(text(QUESTION))
        assert FACT not in [message.content for message in await active(stock)], "it was flushed"
        assert FACT in prompt_text(await stock.aget())

    async def test_putting_no_messages_does_nothing(self, block, memory):
        await block.aput([], session_id="s1")
        await block.aput([])
        assert memory.long_term.list() == []

    async def test_messages_put_by_hand_without_a_session_are_remembered_everywhere(self, block, memory):
        await block.aput([text(FACT), text("42", "tool", tool_call_id="c"), text("Noted.", "assistant")])
        assert remembered(memory) == [("assistant", "Noted."), ("user", FACT)]
        assert FACT in await block.aget([text(QUESTION)], session_id="any")

    async def test_a_session_id_that_memory_wrote_into_messages_does_not_make_them_new(self, block, memory):
        await block.aget([text(FACT)], session_id="s1")
        await block.aput([text(FACT)], from_short_term_memory=True, session_id="s1")
        assert said(memory.context("s1").history()) == [("user", FACT)]


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
        assert said(memory.context("s1").history()) == [
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
        assert [content for _, content in said(memory.context("s1").history())] == [
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
        assert said(memory.context("s1").history()) == [("user", FACT)]


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
        assert [content for _, content in said(memory.context("s1").history())] == [
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
