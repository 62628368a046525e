"""What ``TieredMemoryBlock`` promises inside LlamaIndex's stock ``Memory``, with real agents and a scripted model."""

from __future__ import annotations

import asyncio
import contextvars

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.tools import FunctionTool

from llama_index_tiered_memory import TieredMemoryBlock
from shared_core import ScopeRequired
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


async def active(stock):
    return await stock.sql_store.get_messages(stock.session_id)


def plus(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def with_one_tool_round(messages):
    return "It is 3." if any(message.role == "tool" for message in messages) else [("plus", {"a": 1, "b": 2})]


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
        roles = [role for role, _ in spoken(memory.context("s1").history())]
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
        assert [role for role, _ in spoken(memory.context("s1").history())].count("user") == 1
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
        assert [content for _, content in spoken(memory.context("one").history())] == ["one 0", "one 1", "one 2"]
        assert [content for _, content in spoken(memory.context("two").history())] == ["two 0", "two 1", "two 2"]

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
        history = spoken(memory.context("s1").history())
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
        assert [content for _, content in spoken(memory.context("s1").history())] == [
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
        assert spoken(memory.context("s1").history()) == [("user", FACT)]
