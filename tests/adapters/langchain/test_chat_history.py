"""A session's messages: verbatim, of one length within a run, durable, and losing nothing to concurrent runs."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

from langchain_tiered_memory import TieredChatMessageHistory
from shared_core import InvalidInput, StorageError
from tests.adapters.langchain.fakes import ScriptedModel

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.deprecation.LangChainDeprecationWarning")
S1 = {"configurable": {"session_id": "s1"}}


def history(memory, session="s1", **given):
    return TieredChatMessageHistory(memory, session_id=session, **given)


def test_messages_of_every_kind_come_back_as_they_went_in(opened):
    said = [
        SystemMessage("Be brief.", id="0"),
        HumanMessage([{"type": "text", "text": "Rome?"}, {"type": "image", "base64": "aGk="}], name="ada"),
        AIMessage(
            [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "c1", "name": "w", "input": {}},
            ],
            tool_calls=[{"name": "w", "args": {}, "id": "c1", "type": "tool_call"}],
            usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
            response_metadata={"model": "x"},
        ),
        ToolMessage("sunny", tool_call_id="c1", artifact={"rows": [1]}, status="error"),
        ChatMessage("psst", role="narrator"),
    ]
    first = opened()
    history(first).add_messages(said)
    assert history(first).messages == said
    first.close()
    assert history(opened()).messages == said


def test_a_message_whose_usage_the_framework_broke_can_be_kept(memory):
    """A cached answer carries ``{"total_cost": 0}`` alone, which LangChain itself refuses to load."""
    broken = AIMessage("x").model_copy(update={"usage_metadata": {"total_cost": 0}})
    history(memory).add_messages([broken])
    (found,) = history(memory).messages
    assert found.usage_metadata == {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0, "total_cost": 0}


def test_messages_of_another_framework_are_read_too(memory):
    call = {"id": "c1", "type": "function", "function": {"name": "w", "arguments": '{"city": "Rome"}'}}
    memory.context("s1").extend(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
            {"role": "narrator", "content": "psst"},
        ]
    )
    assert history(memory).messages == [
        SystemMessage("Be brief."),
        HumanMessage("hi"),
        AIMessage("", tool_calls=[{"name": "w", "args": {"city": "Rome"}, "id": "c1", "type": "tool_call"}]),
        ToolMessage("sunny", tool_call_id="c1"),
        ChatMessage("psst", role="narrator"),
    ]


def test_the_list_is_the_callers_own(memory):
    ours = history(memory)
    ours.add_messages([HumanMessage("hi")])
    ours.messages.pop()
    ours.messages[0].content = "changed"
    assert ours.messages == [HumanMessage("hi")]


def test_the_length_stays_while_others_write_and_follows_ones_own_writes(memory):
    ours, other = history(memory), history(memory)
    assert ours.messages == []
    other.add_messages([HumanMessage("other")])
    assert ours.messages == []
    ours.add_messages([HumanMessage("mine")])
    assert [m.content for m in ours.messages] == ["other", "mine"]


@pytest.mark.parametrize("keyed", [False, True])
def test_three_turns_leave_the_exact_transcript(memory, keyed):
    model = ScriptedModel(script=[lambda messages: AIMessage(f"re: {messages[-1].content}")])
    if keyed:
        prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{question}")])
        keys = {"input_messages_key": "question", "history_messages_key": "history"}
        chain = RunnableWithMessageHistory(prompt | model, lambda session: history(memory, session), **keys)
    else:
        chain = RunnableWithMessageHistory(model, lambda session: history(memory, session))
    for n in range(3):
        chain.invoke({"question": f"q{n}"} if keyed else [HumanMessage(f"q{n}")], S1)
    assert [m.content for m in history(memory).messages] == ["q0", "re: q0", "q1", "re: q1", "q2", "re: q2"]
    assert [len(messages) for messages, _ in model.requests] == [1, 3, 5]


async def test_concurrent_runs_of_one_session_lose_no_message(memory):
    everyone_is_in = asyncio.Barrier(3)

    async def answer(messages):
        await everyone_is_in.wait()
        return AIMessage(f"re: {messages[-1].content}")

    chain = RunnableWithMessageHistory(RunnableLambda(lambda m: m, answer), lambda session: history(memory, session))
    await asyncio.gather(*(chain.ainvoke([HumanMessage(f"q{n}")], S1) for n in range(3)))
    found = [m.content for m in history(memory).messages]
    assert sorted(found) == ["q0", "q1", "q2", "re: q0", "re: q1", "re: q2"]
    assert all(found[found.index(f"q{n}") + 1] == f"re: q{n}" for n in range(3))


def test_writers_in_threads_lose_nothing(memory):
    ready = threading.Barrier(4)

    def write(n):
        ready.wait(5)
        for i in range(5):
            history(memory).add_messages([HumanMessage(f"{n}-{i}")])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert sorted(m.content for m in history(memory).messages) == sorted(f"{n}-{i}" for n in range(4) for i in range(5))


def test_a_write_that_fails_is_raised_and_logged(opened, caplog):
    memory = opened()
    memory.close()
    with pytest.raises(StorageError):
        history(memory).add_messages([HumanMessage("hi")])
    assert "1 messages could not be written" in caplog.text


async def test_clear_and_the_async_twins(memory):
    ours = history(memory)
    await ours.aadd_messages([HumanMessage("hi")])
    assert await ours.aget_messages() == [HumanMessage("hi")]
    assert history(memory, scope="bob").messages == []
    await ours.aclear()
    assert ours.messages == history(memory).messages == []


def test_chunks_come_back_as_chunks_and_a_class_of_ones_own_as_the_one_it_is_made_of(memory):
    class Mine(AIMessage):
        """A provider package's message."""

    chunks = [
        HumanMessageChunk("a"),
        SystemMessageChunk("b"),
        ToolMessageChunk("c", tool_call_id="1"),
        AIMessageChunk("d"),
    ]
    history(memory).add_messages([*chunks, Mine("e", response_metadata={"model": "x"})])
    assert history(memory).messages == [*chunks, AIMessage("e", response_metadata={"model": "x"})]


@pytest.mark.parametrize("wrong", [["a"], [None], HumanMessage("a"), "a"])
def test_what_is_no_list_of_messages_is_refused_whole(memory, wrong):
    with pytest.raises(InvalidInput, match=r"messages: expected LangChain messages, got .*write \[HumanMessage\(…\)\]"):
        history(memory).add_messages(wrong)
    assert history(memory).messages == []


async def test_messages_may_be_any_iterable(memory):
    history(memory).add_messages(HumanMessage(text) for text in "ab")
    await history(memory).aadd_messages(HumanMessage(text) for text in "c")
    assert [message.content for message in history(memory).messages] == ["a", "b", "c"]
