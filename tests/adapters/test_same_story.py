"""One story, two frameworks, one file: the same conversation leaves the same, and each recalls what the other heard."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from shared_core import TieredMemory
from shared_core.messages import text_of
from shared_core.testing import FakeClock

pytest.importorskip("langchain.agents")
pytest.importorskip("llama_index.core")

from tests.adapters.llama_index.conftest import _stock_stores_are_closed  # noqa: F401  a fixture

FACT, QUESTION = "I take my coffee black.", "How do I take my coffee?"
ANSWERS = {
    FACT: "Noted.",
    "My sister is Zoe.": "Noted.",
    "What is the weather in Graz?": "It is sunny in Graz.",
    QUESTION: "You take your coffee black.",
    "Where do I live?": "I look that up.",
}
STORY = [
    ("s1", FACT),
    ("s1", "What is the weather in Graz?"),
    ("s2", "My sister is Zoe."),
    ("s1", FACT),
    ("s2", QUESTION),
]


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


class WithLangChain:
    """``create_agent`` with the middleware. ``prompts`` are what the model was shown, as one text each."""

    def __init__(self, memory):
        from langchain.agents import create_agent
        from langchain_core.messages import AIMessage
        from langchain_core.tools import tool
        from langgraph.checkpoint.memory import InMemorySaver

        from langchain_tiered_memory import TieredMemoryMiddleware
        from tests.adapters.langchain.fakes import ScriptedModel, calling

        def answer(messages):
            asked = next(m for m in reversed(messages) if m.type == "human").text
            text = next(text for said, text in ANSWERS.items() if asked.startswith(said))
            if "weather" in asked and messages[-1].type != "tool":
                return calling("get_weather", {"city": "Graz"})
            return AIMessage(text)

        self._model = ScriptedModel(script=[answer])
        self._agent = create_agent(
            self._model, [tool(get_weather)], middleware=[TieredMemoryMiddleware(memory)], checkpointer=InMemorySaver()
        )

    async def say(self, session, text):
        await self._agent.ainvoke(
            {"messages": [{"role": "user", "content": text}]}, {"configurable": {"thread_id": session}}
        )

    @property
    def prompts(self):
        return ["\n".join(message.text for message in messages) for messages, _ in self._model.requests]


class WithLlamaIndex:
    """``FunctionAgent`` with the agent memory."""

    def __init__(self, memory):
        from llama_index.core.agent.workflow import FunctionAgent

        from tests.adapters.llama_index.conftest import Script

        def answer(messages):
            asked = next(m for m in reversed(messages) if m.role == "user").content
            text = next(text for said, text in ANSWERS.items() if said in asked.split("\n"))
            if "weather" in asked and messages[-1].role != "tool":
                return [("get_weather", {"city": "Graz"})]
            return text

        self._memory = memory
        self._model = Script(answer)
        self._agent = FunctionAgent(llm=self._model.llm, tools=[get_weather])

    def chat(self, session):
        from llama_index_tiered_memory import TieredAgentMemory

        return TieredAgentMemory(memory=self._memory, session_id=session)

    async def say(self, session, text):
        await self._agent.run(text, memory=self.chat(session))

    @property
    def prompts(self):
        return ["\n".join(message.content or "" for message in messages) for messages in self._model.prompts]


class WithTheStockMemory(WithLlamaIndex):
    """``FunctionAgent`` with LlamaIndex's own Memory and our block in it."""

    def chat(self, session):
        from llama_index.core.memory import InsertMethod, Memory

        from llama_index_tiered_memory import TieredMemoryBlock

        blocks = [TieredMemoryBlock(memory=self._memory)]
        return Memory.from_defaults(session_id=session, memory_blocks=blocks, insert_method=InsertMethod.USER)


BOTH = [WithLangChain, WithLlamaIndex]


@pytest.fixture
def opened(tmp_path):
    """Open files on clocks of their own that stand at the same time."""
    memories = []

    def open_(name):
        clock = FakeClock()
        memory = TieredMemory.open(tmp_path / name, embedder="none", default_scope="ada", clock=clock)
        memories.append(memory)
        return memory, clock

    yield open_
    for memory in memories:
        memory.close()


async def tell(agent, clock, story=STORY):
    for session, text in story:
        clock.advance(60)
        await agent.say(session, text)


def left(memory):
    """Everything about every memory but its id, oldest first."""
    facts = (
        "role", "text", "session", "speaker", "tags", "subject", "importance", "at", "created_at", "status", "pinned",
        "metadata",
    )  # fmt: skip
    found = reversed(memory.long_term.list(status=None))
    return [{name: getattr(one, name) for name in facts} for one in found]


async def test_the_same_conversation_leaves_the_same_memories(opened):
    kept = []
    for framework in BOTH:
        memory, clock = opened(f"{framework.__name__}.db")
        await tell(framework(memory), clock)
        kept.append(left(memory))
    assert kept[0] == kept[1]
    assert [(one["role"], one["text"], one["session"]) for one in kept[0]] == [
        ("user", FACT, "s1"), ("assistant", "Noted.", "s1"),
        ("user", "What is the weather in Graz?", "s1"), ("assistant", "It is sunny in Graz.", "s1"),
        ("user", "My sister is Zoe.", "s2"),
        ("user", QUESTION, "s2"),
    ], "the last answer only repeats what was recalled"  # fmt: skip


async def test_both_log_the_same_conversation_tool_rounds_included(opened):
    logs = []
    for framework in BOTH:
        memory, clock = opened(f"{framework.__name__}.db")
        await tell(framework(memory), clock)
        logs.append(
            [(m["role"], text_of(m)) for session in memory.sessions() for m in memory.context(session).history()]
        )
    assert logs[0] == logs[1]
    assert [role for role, _ in logs[0]][:6] == ["user", "assistant", "user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("order", [BOTH, BOTH[::-1]], ids=["langchain first", "llama index first"])
async def test_told_again_by_the_other_framework_in_the_same_file_it_strengthens_and_adds_nothing(opened, order):
    memory, clock = opened("agent.db")
    await tell(order[0](memory), clock)
    before = {one.text: (one.id, one.access_count) for one in memory.long_term.list()}
    await tell(order[1](memory), clock, [(f"again {session}", text) for session, text in STORY])
    after = {one.text: (one.id, one.access_count) for one in memory.long_term.list()}
    assert {text: id for text, (id, _) in after.items()} == {text: id for text, (id, _) in before.items()}
    assert all(after[text][1] > before[text][1] for text in before)


@pytest.mark.parametrize("teller", BOTH)
@pytest.mark.parametrize("asker", [*BOTH, WithTheStockMemory])
async def test_what_one_was_told_the_other_recalls_after_a_restart(opened, teller, asker):
    memory, clock = opened("agent.db")
    await tell(teller(memory), clock, [("s1", FACT)])
    memory.close()
    memory, _ = opened("agent.db")
    agent = asker(memory)
    await agent.say("s9", QUESTION)
    assert agent.prompts[0].count(FACT) == 1
    assert agent.prompts[0].count("<recalled_memories>") == 1


@pytest.mark.parametrize("asker", [*BOTH, WithTheStockMemory])
async def test_of_a_subject_each_recalls_what_holds_now(opened, asker):
    memory, clock = opened("agent.db")
    for home in ("Rome", "Oslo"):
        clock.advance(60)
        memory.remember(f"I live in {home}.", subject="home")
    agent = asker(memory)
    await agent.say("s1", "Where do I live?")
    assert "I live in Oslo." in agent.prompts[0]
    assert "Rome" not in agent.prompts[0]


async def test_the_saving_tools_of_both_leave_the_same_and_find_what_the_other_saved(opened):
    import langchain_tiered_memory
    import llama_index_tiered_memory

    memory, _ = opened("agent.db")
    search, save, _ = langchain_tiered_memory.memory_tools(memory)
    other_search, other_save, _ = llama_index_tiered_memory.memory_tools(memory)
    save.invoke({"text": "Ada plays the cello."})
    other_save.call(text="Ada plays the cello.")
    other_save.call(text="Ada swims.")
    assert sorted(one.text for one in memory.long_term.list()) == ["Ada plays the cello.", "Ada swims."]
    assert {one.role for one in memory.long_term.list()} == {"assistant"}
    assert "cello" in other_search.call(query="cello").content
    assert "swims" in str(search.invoke({"query": "swims"}))


IN_A_PROCESS = """
    import asyncio, sys
    from shared_core import TieredMemory
    from tests.adapters import test_same_story as story

    async def main():
        with TieredMemory.open(sys.argv[1], embedder="none", default_scope="ada") as memory:
            agent = getattr(story, sys.argv[2])(memory)
            await agent.say(sys.argv[3], sys.argv[4])
            print(agent.prompts[0])

    asyncio.run(main())
"""


@pytest.mark.parametrize(("teller", "asker"), [BOTH, BOTH[::-1]])
def test_and_in_another_process(tmp_path, teller, asker):
    def run(agent, session, text):
        command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(IN_A_PROCESS)]
        given = [str(tmp_path / "agent.db"), agent.__name__, session, text]
        done = subprocess.run([*command, *given], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(teller, "s1", FACT)
    assert FACT in run(asker, "s2", QUESTION)
