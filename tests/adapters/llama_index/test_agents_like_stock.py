"""Agents and chat engines with LlamaIndex's own memories and with ours: the same runs, the same conversations."""

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.chat_engine import ContextChatEngine, SimpleChatEngine
from llama_index.core.memory import ChatMemoryBuffer, InsertMethod, Memory
from llama_index.core.workflow import Context

from llama_index_tiered_memory import TieredAgentMemory, TieredChatStore, TieredMemoryBlock, TieredRetriever


def plus(a: int, b: int) -> int:
    """Add."""
    return a + b


def with_a_tool_round(messages):
    return "It is 3." if messages[-1].role == "tool" else [("plus", {"a": 1, "b": 2})]


KINDS = {
    "stock memory": lambda _: Memory.from_defaults(session_id="s"),
    "stock buffer": lambda _: ChatMemoryBuffer.from_defaults(token_limit=30_000),
    "agent memory": lambda memory: TieredAgentMemory(memory=memory, session_id="s"),
    "stock memory with our block": lambda memory: Memory.from_defaults(
        session_id="s", memory_blocks=[TieredMemoryBlock(memory=memory)], insert_method=InsertMethod.USER
    ),
    "stock buffer over our store": lambda memory: ChatMemoryBuffer.from_defaults(
        chat_store=TieredChatStore(memory=memory), chat_store_key="s", token_limit=30_000
    ),
}


@pytest.fixture(params=KINDS)
def kept(request, memory):
    return KINDS[request.param](memory)


def roles(messages):
    return [message.role.value for message in messages]


def shown(prompt):
    """What a model was shown as (role, the first text)."""
    return [(m.role.value, next((b.text for b in m.blocks if isinstance(b, TextBlock)), None)) for m in prompt]


class TestAgents:
    async def test_a_run_with_a_tool_stores_question_call_result_and_answer(self, kept, script):
        agent = FunctionAgent(llm=script(with_a_tool_round).llm, tools=[plus])
        assert str(await agent.run("1 + 2?", memory=kept)) == "It is 3."
        stored = await kept.aget_all()
        assert roles(stored) == ["user", "assistant", "tool", "assistant"]
        assert [stored[0].content, stored[2].content, stored[3].content] == ["1 + 2?", "3", "It is 3."]

    async def test_the_next_run_is_shown_the_whole_conversation(self, kept, script):
        model = script(with_a_tool_round)
        agent = FunctionAgent(llm=model.llm, tools=[plus], system_prompt="Be kind.")
        await agent.run("1 + 2?", memory=kept)
        await agent.run("again", memory=kept)
        assert [text for _, text in shown(model.prompts[2])][-1] == "again"
        assert roles(model.prompts[2]) == ["system", "user", "assistant", "tool", "assistant", "user"]

    async def test_without_streaming_it_is_the_same(self, kept, script):
        agent = FunctionAgent(llm=script(with_a_tool_round).llm, tools=[plus], streaming=False)
        await agent.run("1 + 2?", memory=kept)
        assert roles(await kept.aget_all()) == ["user", "assistant", "tool", "assistant"]

    async def test_a_context_that_is_used_again_goes_on(self, kept, script):
        model = script(lambda _: "Noted.")
        agent = FunctionAgent(llm=model.llm, tools=[])
        context = Context(agent)
        for text in ("one", "two"):
            await agent.run(text, memory=kept, ctx=context)
        assert [text for _, text in shown(model.prompts[1])] == ["one", "Noted.", "two"]

    async def test_a_given_history_becomes_the_conversation(self, kept, script):
        await kept.aput(ChatMessage(role="user", content="before"))
        history = [ChatMessage(role="user", content="hello"), ChatMessage(role="assistant", content="hi")]
        agent = FunctionAgent(llm=script(lambda _: "Noted.").llm, tools=[])
        await agent.run("one", chat_history=history, memory=kept)
        assert [message.content for message in await kept.aget_all()][-4:] == ["hello", "hi", "one", "Noted."]

    async def test_a_model_that_fails_leaves_the_question_and_the_next_run_works(self, kept, script):
        failing = [True]

        def answer(_):
            if failing:
                failing.clear()
                raise ValueError("overloaded")
            return "Noted."

        model = script(answer)
        agent = FunctionAgent(llm=model.llm, tools=[])
        with pytest.raises(ValueError, match="overloaded"):
            await agent.run("one", memory=kept)
        assert str(await agent.run("two", memory=kept)) == "Noted."
        assert [message.content for message in await kept.aget_all()] == ["one", "two", "Noted."]

    async def test_too_many_rounds_are_an_error_and_the_next_run_works(self, kept, script):
        asked = []

        def answer(messages):
            asked.append(messages)
            return [("plus", {"a": 1, "b": 2})] if len(asked) < 4 else "Done."

        agent = FunctionAgent(llm=script(answer).llm, tools=[plus])
        with pytest.raises(Exception, match="iterations"):
            await agent.run("one", memory=kept, max_iterations=2)
        asked += [[]] * 4
        assert str(await agent.run("two", memory=kept)) == "Done."
        assert (await kept.aget_all())[-1].content == "Done."

    async def test_a_react_agent_runs_its_tool_and_answers(self, kept, script):
        def answer(messages):
            if "Observation" in (messages[-1].content or ""):
                return "Thought: I can answer without using any more tools.\nAnswer: It is 3."
            return 'Thought: I need a tool.\nAction: plus\nAction Input: {"a": 1, "b": 2}'

        agent = ReActAgent(llm=script(answer).llm, tools=[plus])
        assert str(await agent.run("1 + 2?", memory=kept)) == "It is 3."
        stored = await kept.aget_all()
        assert (roles(stored)[0], stored[0].content) == ("user", "1 + 2?")
        assert "It is 3." in stored[-1].content

    async def test_a_handoff_shows_the_second_agent_the_question(self, kept, script):
        first = script(lambda m: "?" if m[-1].role == "tool" else [("handoff", {"to_agent": "two", "reason": "r"})])
        second = script(lambda _: "Done.")
        workflow = AgentWorkflow(
            agents=[
                FunctionAgent(name="one", description="d", llm=first.llm, tools=[plus], can_handoff_to=["two"]),
                FunctionAgent(name="two", description="d", llm=second.llm, tools=[plus]),
            ],
            root_agent="one",
        )
        assert str(await workflow.run(user_msg="help", memory=kept)) == "Done."
        assert ("user", "help") in [(m.role.value, m.content.split("\n")[-1]) for m in second.prompts[0] if m.content]
        stored = await kept.aget_all()
        assert stored[-1].content == "Done."
        assert sum(message.content == "help" for message in stored) == 1


class TestChatEngines:
    def test_a_simple_engine_goes_on_and_starts_anew(self, kept, script):
        model = script(lambda m: f"re {m[-1].content}")
        engine = SimpleChatEngine.from_defaults(llm=model.llm, memory=kept)
        assert engine.chat("one").response == "re one"
        assert "".join(engine.stream_chat("two").response_gen) == "re two"
        assert [text for _, text in shown(model.prompts[1])] == ["one", "re one", "two"]
        engine.reset()
        assert kept.get_all() == []

    async def test_it_does_the_same_async(self, kept, script):
        engine = SimpleChatEngine.from_defaults(llm=script(lambda _: "Noted.").llm, memory=kept)
        await engine.achat("one")
        assert [message.content for message in await kept.aget_all()] == ["one", "Noted."]

    def test_an_engine_with_a_retriever_stores_the_users_words_and_not_what_was_retrieved(self, kept, memory, script):
        memory.remember("The garden has a pond.", scope="garden")
        model = script(lambda _: "A pond.")
        engine = ContextChatEngine.from_defaults(
            retriever=TieredRetriever(memory=memory, scope="garden"), llm=model.llm, memory=kept
        )
        engine.chat("What has the garden?")
        assert "The garden has a pond." in model.prompts[0][0].content
        assert [message.content for message in kept.get_all()] == ["What has the garden?", "A pond."]
