"""Agents on a model with ``cached_llm``: the same run costs nothing the second time, and nobody hears another's answer."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole, ToolCallBlock
from llama_index.core.llms import mock
from llama_index.core.tools import FunctionTool

from llama_index_tiered_memory import TieredAgentMemory, cached_llm, cached_tools
from tests.adapters.llama_index.models import Chunked

RUNS = """
    import asyncio, json, sys
    from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
    from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
    from llama_index.core.llms.mock import MockFunctionCallingLLM
    from llama_index_tiered_memory import TieredAgentMemory, cached_llm
    from shared_core import TieredMemory

    path, session, remember = sys.argv[1], sys.argv[2], sys.argv[3] == "remember"
    calls = []

    def weather(city: str) -> str:
        "The weather in a city."
        return f"rain in {city}"

    def answer(messages, **_):
        calls.append(len(messages))
        said = messages[-1]
        if any("You are designed to help" in (m.content or "") for m in messages):  # a ReActAgent
            done = any((m.content or "").startswith("Observation:") for m in messages)
            use = 'Thought: I look.\\nAction: weather\\nAction Input: {"city": "Oslo"}'
            return ChatMessage(role="assistant", content="Thought: done.\\nAnswer: It rains." if done else use)
        if said.role == "tool" and "rain" in (said.content or ""):
            return ChatMessage(role="assistant", content="It rains in Oslo.")
        if any("You greet" in (m.content or "") for m in messages):
            name, arguments = "handoff", {"to_agent": "forecaster", "reason": "weather"}
        else:
            name, arguments = "weather", {"city": "Oslo"}
        block = ToolCallBlock(tool_call_id=f"call-{len(calls)}-{session}", tool_name=name, tool_kwargs=arguments)
        return ChatMessage(role="assistant", blocks=[block])

    def agents(llm, streaming):
        forecaster = dict(name="forecaster", description="Knows the weather.", tools=[weather], llm=llm,
                          streaming=streaming, system_prompt="You know the weather.")
        greeter = FunctionAgent(name="greeter", description="Greets.", llm=llm, streaming=streaming,
                                system_prompt="You greet.", can_handoff_to=["forecaster"])
        yield FunctionAgent(**forecaster)
        yield ReActAgent(**forecaster)
        yield AgentWorkflow(agents=[greeter, FunctionAgent(**forecaster)], root_agent="greeter")

    async def main():
        memory = TieredMemory.open(path, default_scope="ada", embedder="none")
        llm = cached_llm(MockFunctionCallingLLM(response_generator=answer, is_chat_model=True), memory)
        out = []
        for streaming in (True, False):
            for place, agent in enumerate(agents(llm, streaming)):
                calls.clear()
                own = TieredAgentMemory(memory=memory, session_id=f"{session}-{place}-{streaming}", remember=remember)
                handler = agent.run("What is the weather in Oslo?", memory=own)
                deltas = [event.delta async for event in handler.stream_events() if hasattr(event, "delta")]
                out.append([str(await handler), "".join(deltas), len(own.get_all()), len(calls)])
        memory.close()
        print(json.dumps(out))

    asyncio.run(main())
"""


def run(path, session, remember="forget"):
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(RUNS), str(path), session, remember],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


@pytest.mark.skipif(not hasattr(mock, "MockFunctionCallingLLM"), reason="this LlamaIndex has no MockFunctionCallingLLM")
def test_a_second_identical_run_in_a_fresh_process_asks_the_model_nothing(tmp_path):
    """FunctionAgent, ReActAgent and AgentWorkflow; streaming, then not. The conversation and the deltas are the same."""
    first = run(tmp_path / "agent.db", "monday")
    second = run(tmp_path / "agent.db", "tuesday")
    assert [calls for *_, calls in first] == [2, 2, 3, 2, 2, 3]
    assert [calls for *_, calls in second] == [0] * 6
    assert [heard for *heard, _ in second] == [heard for *heard, _ in first]
    assert [answer for answer, *_ in first] == ["It rains in Oslo.", "It rains.", "It rains in Oslo."] * 2


def answering(answer):
    """A model whose answer is a function of the messages, whole and streamed."""
    return Chunked(lambda messages: iter([ChatResponse(message=answer(messages), delta="")]))


def repeating():
    """A model that says what the last user said, and the prompts it was asked."""
    asked = []

    def answer(messages):
        asked.append([message.content for message in messages])
        said = [message.content for message in messages if message.role == MessageRole.USER]
        return ChatMessage(role="assistant", content=f"You said: {said[-1]}")

    return answering(answer), asked


@pytest.mark.parametrize("streaming", [True, False])
async def test_two_sessions_interleaved_share_nothing(streaming, memory):
    """What one session said is in no prompt and no answer of the other, and its repeats are its own."""
    model, asked = repeating()
    agent = FunctionAgent(llm=cached_llm(model, memory), streaming=streaming)
    own = {name: TieredAgentMemory(memory=memory, session_id=name, remember=False) for name in ("ada", "bob")}
    for turn in range(3):
        runs = [agent.run(f"{name} asks {turn}", memory=own[name]) for name in own]
        assert [str(found) for found in await asyncio.gather(*runs)] == [
            f"You said: {name} asks {turn}" for name in own
        ]
    assert len(asked) == 6
    for prompt in asked:
        assert len({name for name in own for said in prompt if name in said}) == 1


@pytest.mark.parametrize("streaming", [True, False])
async def test_two_scopes_share_nothing(streaming, memory):
    model, asked = repeating()
    for scope in ("ada", "bob", "ada", "bob"):
        agent = FunctionAgent(llm=cached_llm(model, memory, scope=scope), streaming=streaming)
        session = f"{scope}-{len(asked)}"
        own = TieredAgentMemory(memory=memory, scope=scope, session_id=session, remember=False)
        assert str(await agent.run("hello", memory=own)) == "You said: hello"
    assert len(asked) == 2


async def test_an_agent_with_cached_tools_and_a_cached_model_does_nothing_twice(memory):
    looked = []

    def weather(city: str) -> str:
        """The weather in a city."""
        looked.append(city)
        return f"rain in {city}"

    asked = []

    def answer(messages):
        asked.append(messages)
        if messages[-1].role == MessageRole.TOOL:
            return ChatMessage(role="assistant", content=messages[-1].content)
        blocks = [ToolCallBlock(tool_call_id=f"c{len(asked)}", tool_name="weather", tool_kwargs={"city": "Oslo"})]
        return ChatMessage(role="assistant", blocks=blocks)

    memory.tools.register("weather")
    llm = cached_llm(answering(answer), memory)
    agent = FunctionAgent(llm=llm, tools=cached_tools([FunctionTool.from_defaults(weather)], memory))
    for session in ("s1", "s2"):
        own = TieredAgentMemory(memory=memory, session_id=session, remember=False)
        assert str(await agent.run("weather?", memory=own)) == "rain in Oslo"
    assert (len(asked), looked) == (2, ["Oslo"])


async def test_parallel_tools_that_finish_in_another_order_cost_no_other_answer(memory):
    """An agent lists the results as they come; which tool was quicker today changes nothing that was asked."""
    finished = []

    async def look(place: int) -> str:
        """Look at a place."""
        await gates[turns[place]].wait()
        gates[turns[place] + 1].set()
        finished.append(place)
        return f"saw {place}"

    asked = []

    def answer(messages):
        asked.append(messages)
        if messages[-1].role == MessageRole.TOOL:
            return ChatMessage(role="assistant", content="done")
        calls = [
            ToolCallBlock(tool_call_id=f"c{i}-{len(finished)}", tool_name="look", tool_kwargs={"place": i})
            for i in range(3)
        ]
        return ChatMessage(role="assistant", blocks=calls)

    agent = FunctionAgent(llm=cached_llm(answering(answer), memory), tools=[look])
    for turns in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        gates = [asyncio.Event() for _ in range(4)]
        gates[0].set()
        own = TieredAgentMemory(memory=memory, session_id=str(turns), remember=False)
        assert str(await agent.run("look", memory=own)) == "done"
    assert finished == [0, 1, 2, 2, 1, 0, 2, 0, 1]
    assert len(asked) == 2


async def test_a_hit_is_seen_in_the_agents_output(memory):
    model, _ = repeating()
    agent = FunctionAgent(llm=cached_llm(model, memory), streaming=False)
    first = await agent.run("hello", memory=TieredAgentMemory(memory=memory, session_id="s1", remember=False))
    second = await agent.run("hello", memory=TieredAgentMemory(memory=memory, session_id="s2", remember=False))
    assert "tiered_memory" not in (first.raw or {})
    assert second.raw["tiered_memory"]["hit"] is True


async def test_a_function_agent_refuses_a_model_that_calls_no_tools_as_it_does_without_the_cache(memory):
    agent = FunctionAgent(llm=cached_llm(mock.MockLLM(), memory))
    with pytest.raises(ValueError, match="LLM must be a FunctionCallingLLM"):
        await agent.run("hello")
