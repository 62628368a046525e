"""Models whose tool calls have no ids (Ollama's, for one): answers are kept and a window keeps call and result together."""

from __future__ import annotations

import uuid

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, TextBlock, ToolCallBlock
from llama_index.core.llms.llm import ToolSelection

from llama_index_tiered_memory import TieredAgentMemory, cached_llm
from tests.adapters.llama_index.models import Chunked, ask

CITIES = ("Oslo", "Rome")


def in_blocks(id):
    return ChatMessage(
        role="assistant",
        blocks=[ToolCallBlock(tool_call_id=id, tool_name="weather", tool_kwargs={"city": city}) for city in CITIES],
    )


def beside(id):
    calls = [{"function": {"name": "weather", "arguments": {"city": city}}} for city in CITIES]
    own = {} if id is None else {"id": id}
    return ChatMessage(
        role="assistant", content="", additional_kwargs={"tool_calls": [{**call, **own} for call in calls]}
    )


class WithoutIds(Chunked):
    """A model that calls for the weather twice at once. Integrations make an id of none in one of three ways."""

    name_as_id: bool = False
    made_up: bool = False

    def get_tool_calls_from_response(self, response, error_on_no_tool_call=True, **_):
        calls = [(b.tool_name, b.tool_kwargs) for b in response.message.blocks if isinstance(b, ToolCallBlock)]
        listed = response.message.additional_kwargs.get("tool_calls", [])
        calls += [(call["function"]["name"], call["function"]["arguments"]) for call in listed]
        return [
            ToolSelection(
                tool_id=uuid.uuid4().hex if self.made_up else name if self.name_as_id else "",
                tool_name=name,
                tool_kwargs=arguments,
            )
            for name, arguments in calls
        ]


def model(message, **fields):
    def script(messages):
        if messages[-1].role == "tool":
            found = " and ".join(one.content for one in messages if one.role == "tool")
            yield ChatResponse(message=ChatMessage(role="assistant", content=found), delta=found)
        else:
            yield ChatResponse(message=message.model_copy(deep=True), delta="")

    return WithoutIds(script, **fields)


async def weather(city: str) -> str:
    """The weather in a city. It waits for nothing, so the results come in the order of the calls: ids tell no other."""
    return f"rain in {city}"


@pytest.mark.parametrize("make", [in_blocks, beside])
@pytest.mark.parametrize("id", [None, ""])
@pytest.mark.parametrize("how", ["chat", "achat", "stream_chat", "astream_chat"])
async def test_an_answer_is_kept_and_comes_back_as_it_was_without_ids(how, id, make, memory):
    asked = model(make(id))
    llm = cached_llm(asked, memory)
    await ask(llm, how)
    (replayed,) = await ask(llm, how)
    assert asked.calls == 1
    assert replayed.message == make(id)


def test_of_two_calls_the_one_with_an_id_gets_a_fresh_one_where_it_is_taken_and_the_other_none(memory):
    blocks = [
        ToolCallBlock(tool_call_id=id, tool_name="weather", tool_kwargs={"city": city})
        for id, city in zip(("c1", None), CITIES, strict=True)
    ]
    asked = Chunked(lambda _: iter([ChatResponse(message=ChatMessage(role="assistant", blocks=blocks))]))
    llm = cached_llm(asked, memory)

    def history(id):
        call = ToolCallBlock(tool_call_id=id, tool_name="weather", tool_kwargs={"city": "Bern"})
        result = ChatMessage(role="tool", content="sun", additional_kwargs={"tool_call_id": id})
        return [ChatMessage(content="weather?"), ChatMessage(role="assistant", blocks=[call]), result]

    llm.chat(history("c0"))
    first, second = llm.chat(history("c1")).message.blocks
    assert asked.calls == 1
    assert first.tool_call_id not in ("c0", "c1")
    assert second.tool_call_id is None


@pytest.mark.parametrize("make", [in_blocks, beside])
@pytest.mark.parametrize("integration", [{"name_as_id": True}, {"made_up": True}, {}])
@pytest.mark.parametrize("streaming", [True, False])
async def test_an_agent_that_runs_a_second_time_asks_nothing(streaming, integration, make, memory):
    asked = model(make(None), **integration)
    agent = FunctionAgent(llm=cached_llm(asked, memory), tools=[weather], streaming=streaming)
    for session in ("s1", "s2"):
        own = TieredAgentMemory(memory=memory, session_id=session, remember=False)
        assert str(await agent.run("weather?", memory=own)) == "rain in Oslo and rain in Rome"
    assert asked.calls == 2


@pytest.mark.parametrize("make", [in_blocks, beside])
@pytest.mark.parametrize("integration", [{"name_as_id": True}, {"made_up": True}, {}])
async def test_the_next_turn_sees_the_calls_and_their_results(integration, make, memory):
    """LlamaIndex writes the id that the integration made, or an empty one, into the result and not into the call."""
    agent = FunctionAgent(llm=model(make(None), **integration), tools=[weather])
    own = TieredAgentMemory(memory=memory, session_id="s1")
    await agent.run("weather?", memory=own)
    assert [message.role.value for message in own.get()] == ["user", "assistant", "tool", "tool", "assistant"]
    assert own.get() == own.get_all()


def test_a_result_that_answers_no_call_is_still_left_out(memory):
    own = TieredAgentMemory(memory=memory, session_id="s1")
    stray = ChatMessage(role="tool", content="rain", additional_kwargs={"tool_call_id": ""})
    said = ChatMessage(role="assistant", blocks=[TextBlock(text="Hello.")])
    own.put_messages([ChatMessage(content="hi"), said, stray])
    assert own.get() == [ChatMessage(content="hi"), said]
