"""``TieredAgentMemory``: window, recall and snapshots in one, as LlamaIndex's agents and chat engines use them."""

import asyncio
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock, ThinkingBlock, ToolCallBlock
from llama_index.core.tools import FunctionTool

from llama_index_tiered_memory import TieredAgentMemory
from shared_core import Settings, TieredMemory
from tests.adapters.llama_index.shared import FACT, OPENING, QUESTION, blocks, said, texts, user
from tests.core.conversations import conversations, faults


def calling(*ids):
    blocks = [ToolCallBlock(tool_call_id=id, tool_name="f", tool_kwargs={"q": id}) for id in ids]
    return ChatMessage(role="assistant", blocks=blocks)


def answering(id):
    return ChatMessage(role="tool", content=id, additional_kwargs={"tool_call_id": id})


def plus(a: int, b: int) -> int:
    """Add."""
    return a + b


def with_one_tool_round(messages):
    return "It is 3." if messages[-1].role == "tool" else [("plus", {"a": 1, "b": 2})]


class TestAcrossSessions:
    async def test_a_fact_told_in_one_turn_is_recalled_in_a_new_session_after_a_restart(self, open_memory, script):
        first = open_memory()
        agent = FunctionAgent(llm=script(lambda _: "Noted.").llm, tools=[])
        await agent.run(FACT, memory=TieredAgentMemory(memory=first, session_id="s1"))
        first.close()

        model = script(lambda _: "Black.")
        agent = FunctionAgent(llm=model.llm, tools=[], system_prompt="Be kind.")
        await agent.run(QUESTION, memory=TieredAgentMemory(memory=open_memory(), session_id="s2"))
        (prompt,) = model.prompts
        assert [message.role for message in prompt] == ["system", "user"]
        assert prompt[-1].blocks[0].text == QUESTION
        assert FACT in prompt[-1].blocks[1].text

    async def test_a_conversation_goes_on_after_a_restart_by_its_session_id(self, open_memory, script):
        first = open_memory()
        await FunctionAgent(llm=script(lambda _: "Noted.").llm, tools=[]).run(
            FACT, memory=TieredAgentMemory(memory=first, session_id="s1")
        )
        first.close()
        model = script(lambda _: "Black.")
        again = TieredAgentMemory(memory=open_memory(), session_id="s1")
        await FunctionAgent(llm=model.llm, tools=[]).run(QUESTION, memory=again)
        assert texts(model.prompts[0]) == [FACT, "Noted.", QUESTION]
        assert texts(again.get_all()) == [FACT, "Noted.", QUESTION, "Black."]
        assert blocks(model.prompts[0]) == [], "what the window shows is not recalled on top"

    async def test_two_sessions_and_scopes_interleaved_share_no_messages(self, memory, script):
        agent = FunctionAgent(llm=script(lambda m: f"re {m[-1].blocks[0].text}").llm, tools=[])
        mine = {
            name: TieredAgentMemory(memory=memory, session_id="s", scope=name) for name in ("anna", "boris", "chloe")
        }
        for i in range(3):
            await asyncio.gather(*(agent.run(f"{name} {i}", memory=kept) for name, kept in mine.items()))
        for name, kept in mine.items():
            assert texts(kept.get_all()) == [t for i in range(3) for t in (f"{name} {i}", f"re {name} {i}")]
            assert all(name in found.text for found in memory.long_term.list(scope=name))

    def test_nothing_is_remembered_if_that_is_asked_and_the_conversation_is_kept(self, memory):
        kept = TieredAgentMemory(memory=memory, session_id="s1", remember=False)
        kept.put(user(FACT))
        assert memory.long_term.list() == []
        assert texts(kept.get_all()) == [FACT]


class TestWithinATurn:
    async def test_the_recalled_block_stands_at_the_users_message_and_stays_the_same_through_tool_rounds(
        self, memory, script
    ):
        memory.remember("Ada adds 1 and 2 often.")
        model = script(with_one_tool_round)
        kept = TieredAgentMemory(memory=memory, session_id="s1")
        await FunctionAgent(llm=model.llm, tools=[FunctionTool.from_defaults(plus)]).run(
            "What is 1 and 2?", memory=kept
        )
        one, two = model.prompts
        assert two[: len(one)] == one
        assert [i for i, _ in blocks(two)] == [0]
        assert OPENING not in str(kept.get_all())
        assert [m.role for m in kept.get_all()] == ["user", "assistant", "tool", "assistant"]
        assert sorted(m.text for m in memory.long_term.list()) == [
            "Ada adds 1 and 2 often.", "It is 3.", "What is 1 and 2?",
        ]  # fmt: skip

    def test_an_answer_that_only_repeats_what_was_recalled_strengthens_that_memory(self, agent_memory, memory):
        fact = memory.remember("Ada takes her coffee black and hot.", role="assistant")
        agent_memory.put(user("How does Ada take her coffee?"))
        assert blocks(agent_memory.get())
        before = memory.get(fact.id).access_count
        agent_memory.put(said("Ada takes her coffee black and hot"))
        assert {one.text for one in memory.long_term.list()} == {fact.text, "How does Ada take her coffee?"}
        assert memory.get(fact.id).access_count > before

    def test_a_new_turn_recalls_anew_though_it_asks_the_same(self, agent_memory, memory):
        agent_memory.put(user(QUESTION))
        assert blocks(agent_memory.get()) == []
        memory.remember(FACT)
        assert blocks(agent_memory.get()) == [], "frozen within the turn"
        agent_memory.put_messages([said("?"), user(QUESTION)])
        ((at, text),) = blocks(agent_memory.get())
        assert at == 2
        assert FACT in text

    def test_a_turn_that_is_over_recalls_nothing_new(self, memory, agent_memory):
        memory.remember(FACT)
        agent_memory.put_messages([user(QUESTION), said("Black.")])
        assert texts(agent_memory.get()) == [QUESTION, "Black."]

    def test_a_question_that_is_not_put_yet_is_recalled_for_at_the_end(self, memory, agent_memory):
        memory.remember(FACT)
        agent_memory.put_messages([user("Hello"), said("Hi.")])
        for asked in (QUESTION, user(QUESTION)):
            found = agent_memory.get(input=asked)
            assert texts(found[:-1]) == ["Hello", "Hi."]
            assert found[-1].role == "user"
            assert [at for at, _ in blocks(found)] == [2]
        assert [at for at, _ in blocks(TieredAgentMemory(memory=memory, session_id="new").get(QUESTION))] == [0]

    async def test_the_question_that_an_agent_repeats_is_the_one_in_the_log(self, memory, agent_memory):
        memory.remember(FACT)
        agent_memory.put(user(QUESTION))
        assert await agent_memory.aget(input=QUESTION) == agent_memory.get()
        agent_memory.put_messages([calling("c1"), answering("c1")])  # as a handoff does
        assert [at for at, _ in blocks(agent_memory.get(input=QUESTION))] == [0]

    async def test_a_handoff_between_agents_keeps_the_turn(self, memory, agent_memory, script):
        memory.remember(FACT)
        one, two = (
            script(lambda _: [("handoff", {"to_agent": "second", "reason": "knows"})]),
            script(lambda _: "Black."),
        )
        first = FunctionAgent(name="first", description="asks", llm=one.llm, tools=[], can_handoff_to=["second"])
        second = FunctionAgent(name="second", description="knows", llm=two.llm, tools=[])
        await AgentWorkflow(agents=[first, second], root_agent="first").run(user_msg=QUESTION, memory=agent_memory)
        assert blocks(one.prompts[0]) == blocks(two.prompts[0]) != []
        assert texts(agent_memory.get_all())[0] == QUESTION

    async def test_a_react_agent_is_remembered_too(self, agent_memory, memory, script):
        model = script(lambda _: "Thought: I can answer without tools.\nAnswer: Noted.")
        await ReActAgent(llm=model.llm, tools=[FunctionTool.from_defaults(plus)]).run(FACT, memory=agent_memory)
        assert FACT in [found.text for found in memory.long_term.list()]

    async def test_a_state_prompt_never_reaches_what_is_stored(self, agent_memory, memory, script):
        memory.remember(FACT)
        workflow = AgentWorkflow(
            agents=[FunctionAgent(llm=script(lambda _: "Black.").llm, tools=[])], initial_state={"mood": "good"}
        )
        await workflow.run(user_msg=QUESTION, memory=agent_memory)
        assert texts(agent_memory.get_all()) == [QUESTION, "Black."]

    def test_what_was_thought_in_earlier_turns_is_shown_no_more_and_kept(self, agent_memory):
        def thought(text):
            signed = ThinkingBlock(content="hm", additional_information={"signature": "s=="})
            return ChatMessage(role="assistant", blocks=[signed, TextBlock(text=text)])

        agent_memory.put_messages([user("one"), thought("a"), user("two"), thought("b")])
        assert agent_memory.get() == [user("one"), said("a"), user("two"), thought("b")]
        assert agent_memory.get_all() == [user("one"), thought("a"), user("two"), thought("b")]


class TestTheWindow:
    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(conversations(shape="openai", damaged=True), st.integers(0, 400), st.integers(0, 500))
    def test_a_prompt_is_valid_at_every_limit(self, messages, limit, initial):
        with TieredMemory.open(":memory:", embedder="none", default_scope="a") as memory:
            kept = TieredAgentMemory(memory=memory, session_id="s", token_limit=limit)
            memory.context("s").extend(messages)
            shown = kept.get(initial_token_count=initial)
            assert faults([_openai(message) for message in shown]) == []

    @pytest.mark.parametrize("taken", [0, 10, 10_000, 10**9])
    def test_a_large_initial_token_count_leaves_system_and_the_last_turn(self, agent_memory, taken):
        system = ChatMessage(role="system", content="Be kind.")
        agent_memory.put_messages([system, *(m for i in range(2000) for m in (user(f"q{i} w w w"), said(f"a{i}")))])
        found = agent_memory.get(initial_token_count=taken)
        assert found[0] == system
        assert texts(found[-2:]) == ["q1999 w w w", "a1999"]
        assert (len(found) == 3) == (taken == 10**9)

    def test_no_attribute_makes_an_engine_count_for_it(self, agent_memory):
        assert not hasattr(agent_memory, "tokenizer_fn")
        assert bool(agent_memory)

    def test_parallel_results_are_stored_in_the_order_of_their_calls(self, agent_memory):
        agent_memory.put(user("q"))
        mixed = [calling("a", "b", "c"), *map(answering, "cab"), calling("d", "e"), *map(answering, "ed"), said("x")]
        agent_memory.put_messages(mixed)
        results = [m.additional_kwargs["tool_call_id"] for m in agent_memory.get_all() if m.role == "tool"]
        assert results == ["a", "b", "c", "d", "e"]
        assert agent_memory.get() == agent_memory.get_all()

    def test_what_is_handed_out_is_a_copy(self, agent_memory):
        agent_memory.put(user("one"))
        for found in (agent_memory.get(), agent_memory.get_all()):
            found[0].blocks[0].text = "changed"
            found[0].additional_kwargs["x"] = 1
        assert agent_memory.get() == agent_memory.get_all() == [user("one")]

    def test_images_do_not_cost_their_base64(self, open_memory):
        memory = open_memory(settings=Settings(recall_tokens=0))
        kept = TieredAgentMemory(memory=memory, session_id="s", token_limit=10_000)
        image = ImageBlock(image=b"A" * 200_000, image_mimetype="image/png")
        kept.put_messages([user("one"), said("1"), ChatMessage(role="user", blocks=[TextBlock(text="two"), image])])
        assert len(kept.get()) == 3

    async def test_the_prompts_of_a_run_of_100_turns_can_be_cached(self, open_memory, script):
        """At least 92 % of the conversation's tokens begin like the prompt before; the window steps 6 times at most."""
        size = 300
        memory = open_memory(settings=Settings(count_tokens=lambda text: len(text.split())))
        for i in range(20):
            memory.remember(f"word{i} is a fact about word{i + 1} " + "w " * 40)
        model = script(lambda m: f"answer{len(m)} " + "a " * (size - 1))
        agent = FunctionAgent(llm=model.llm, tools=[])
        kept = TieredAgentMemory(memory=memory, session_id="s", token_limit=21_800)
        for i in range(100):
            await agent.run(f"question{i} word{i % 20} " + "q " * (size - 2), memory=kept)
        prompts = [[b.text for m in prompt for b in m.blocks if OPENING not in b.text] for prompt in model.prompts]
        reused = asked = breaks = 0
        for before, after in itertools.pairwise(prompts):
            same = next(
                (i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), len(before)
            )
            reused, asked, breaks = reused + size * same, asked + size * len(after), breaks + (same < len(before))
        assert len(prompts) == 100
        assert sum(bool(blocks(prompt)) for prompt in model.prompts) > 90
        assert reused / asked >= 0.92
        assert breaks <= 6


def _openai(message):
    plain = {"role": message.role.value, "content": message.content}
    calls = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    listed = [{"id": block.tool_call_id} for block in calls] or message.additional_kwargs.get("tool_calls")
    return {**plain, "tool_calls": listed, "tool_call_id": message.additional_kwargs.get("tool_call_id")}
