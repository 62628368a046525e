"""One file serves both frameworks: what one agent was told, an agent of the other recalls in another process."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

FACT = "I take my coffee black."
OPEN = """
    import asyncio, sys
    from shared_core import TieredMemory
    memory = TieredMemory.open(sys.argv[1], embedder="none", default_scope="ada")
"""
LANGCHAIN_AGENT = """
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_tiered_memory import TieredMemoryMiddleware

    class Model(GenericFakeChatModel):
        def _generate(self, messages, *args, **kwargs):
            print("PROMPT", [message.text for message in messages])
            return super()._generate(messages, *args, **kwargs)

    model = Model(messages=iter([AIMessage("Noted.")]))
    agent = create_agent(model, [], middleware=[TieredMemoryMiddleware(memory)])
    agent.invoke({"messages": [("user", sys.argv[2])]}, {"configurable": {"thread_id": sys.argv[3]}})
"""
LLAMA_INDEX_AGENT = """
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import Memory
    from tests.adapters.llama_index.conftest import Scripted
    from llama_index_tiered_memory import TieredMemoryBlock

    def answer(messages):
        print("PROMPT", [message.content for message in messages])
        return ChatMessage(role="assistant", content="Noted.")

    async def main():
        block = TieredMemoryBlock(memory=memory)
        stock = Memory.from_defaults(session_id=sys.argv[3], memory_blocks=[block], insert_method="user")
        agent = FunctionAgent(llm=Scripted(respond=answer), tools=[])
        await agent.run(sys.argv[2], memory=stock)

    asyncio.run(main())
"""
CORE_TURN = """
    memory.turns.end([
        {"role": "user", "content": sys.argv[2]}, {"role": "assistant", "content": "Noted."},
    ], session=sys.argv[3])
"""
CLOSE = """
    memory.close()
"""


def in_a_process(agent, location, message, session):
    """Run one turn in a process of its own; return what the model was shown."""
    code = "".join(textwrap.dedent(part) for part in (OPEN, agent, CLOSE))
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(location), message, session],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    return out.stdout


@pytest.fixture
def langchain():
    import langchain_tiered_memory

    if "TieredMemoryMiddleware" not in getattr(langchain_tiered_memory, "__all__", ()):
        pytest.skip("the middleware is not there")
    return LANGCHAIN_AGENT


def test_a_turn_logged_by_the_core_is_recalled_by_a_llama_index_agent(tmp_path):
    in_a_process(CORE_TURN, tmp_path / "agent.db", FACT, "s1")
    shown = in_a_process(LLAMA_INDEX_AGENT, tmp_path / "agent.db", "How do I take my coffee?", "s2")
    assert FACT in shown


def test_what_a_langchain_agent_was_told_a_llama_index_agent_recalls(tmp_path, langchain):
    in_a_process(langchain, tmp_path / "agent.db", FACT, "s1")
    shown = in_a_process(LLAMA_INDEX_AGENT, tmp_path / "agent.db", "How do I take my coffee?", "s2")
    assert FACT in shown


def test_what_a_llama_index_agent_was_told_a_langchain_agent_recalls(tmp_path, langchain):
    in_a_process(LLAMA_INDEX_AGENT, tmp_path / "agent.db", FACT, "s1")
    shown = in_a_process(langchain, tmp_path / "agent.db", "How do I take my coffee?", "s2")
    assert FACT in shown


def test_both_leave_the_same_memories_for_the_same_conversation(tmp_path, langchain):
    from shared_core import TieredMemory

    left = []
    for name, agent in (("langchain", langchain), ("llama_index", LLAMA_INDEX_AGENT)):
        location = tmp_path / f"{name}.db"
        in_a_process(agent, location, FACT, "s1")
        with TieredMemory.open(location, embedder="none", default_scope="ada") as memory:
            left.append([(m.role, m.text, m.session, m.speaker, m.tags) for m in memory.long_term.list()])
    assert left[0] == left[1]
    assert len(left[0]) == 2
