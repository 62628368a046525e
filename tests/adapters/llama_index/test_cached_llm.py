"""``cached_llm``: what was answered before is replayed, whole and as a stream, one call for equal ones at once."""

from __future__ import annotations

import asyncio
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LogProb,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.llms.mock import MockLLM
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel

from llama_index_tiered_memory import cached_llm
from shared_core import InvalidInput, Settings
from tests.adapters.llama_index.models import (
    ASKS,
    STREAMS,
    Chunked,
    Sdk,
    ask,
    calling,
    marked,
    text,
    weather,
)


def bare(chunk):
    """A chunk without our mark."""
    raw = {name: value for name, value in (chunk.raw or {}).items() if name != "tiered_memory"}
    return chunk.model_copy(update={"raw": raw})


# What is replayed


@pytest.mark.parametrize("how", [*ASKS, *STREAMS])
async def test_an_equal_request_is_answered_once(how, memory):
    model = Chunked()
    llm = cached_llm(model, memory)
    first, second = await ask(llm, how), await ask(llm, how)
    assert model.calls == 1
    assert [bare(chunk) for chunk in second] == [bare(chunk) for chunk in first]
    assert [type(chunk) for chunk in second] == [type(chunk) for chunk in first]
    assert all(map(marked, second))
    assert not any(map(marked, first))


@pytest.mark.parametrize("how", [*ASKS, *STREAMS])
async def test_the_answer_is_there_after_a_restart(how, open_memory):
    before = open_memory()
    first = await ask(cached_llm(Chunked(), before), how)
    before.close()
    model = Chunked()
    second = await ask(cached_llm(model, open_memory()), how)
    assert model.calls == 0
    assert [bare(chunk) for chunk in second] == [bare(chunk) for chunk in first]


@pytest.mark.parametrize("how", [how for how in (*ASKS, *STREAMS) if not how.startswith("a")])
async def test_the_async_call_shares_the_answers_of_the_sync_one(how, memory):
    model = Chunked()
    llm = cached_llm(model, memory)
    await ask(llm, how)
    assert all(map(marked, await ask(llm, "a" + how)))
    assert model.calls == 1


def everything(messages):
    """A stream with all that a chunk can hold: thoughts, a call whose arguments grow, log probabilities, raw objects."""
    thought = ThinkingBlock(content="Hm", additional_information={"signature": "sig"})
    blocks = [thought]
    for delta in ("Let ", "me ", "see. ", ""):
        blocks = [thought, TextBlock(text=(blocks[-1].text if len(blocks) > 1 else "") + delta)]
        yield ChatResponse(
            message=ChatMessage(role="assistant", blocks=blocks, additional_kwargs={"stop_reason": None}),
            delta=delta, raw=None, logprobs=[[LogProb(token=delta, logprob=-math.inf, bytes=[1])]],
            additional_kwargs={"thinking_delta": "Hm"},
        )  # fmt: skip
    for partial in ({}, {"city": "Os"}, {"city": "Oslo", "days": [1, 2.5, None, True]}):
        call = ToolCallBlock(tool_call_id="t1", tool_name="weather", tool_kwargs=partial)
        yield ChatResponse(
            message=ChatMessage(role="assistant", blocks=[*blocks, call], additional_kwargs={"stop_reason": "tool_use"}),
            delta="", raw={"event": Sdk(), "type": "delta"},
        )  # fmt: skip
    yield ChatResponse(message=ChatMessage(role="assistant", blocks=[*blocks, call]), delta="", raw=Sdk())


@pytest.mark.parametrize("how", ["stream_chat", "astream_chat"])
async def test_a_replayed_stream_is_chunk_by_chunk_the_one_that_was_heard(how, memory):
    model = Chunked(everything)
    llm = cached_llm(model, memory)
    heard, replayed = await ask(llm, how), await ask(llm, how)
    assert model.calls == 1
    assert len(replayed) == len(heard) == 8
    for old, new in zip(heard, replayed, strict=True):
        assert (new.message, new.delta, new.logprobs, new.additional_kwargs) == (
            old.message, old.delta, old.logprobs, old.additional_kwargs,
        )  # fmt: skip
    assert {key: value for key, value in replayed[-1].raw.items() if key != "tiered_memory"} == Sdk().model_dump()
    assert replayed[-2].raw["event"] == Sdk().model_dump()
    assert replayed[0].raw.keys() == {"tiered_memory"}


class SdkFunction(BaseModel):
    name: str
    arguments: str


class SdkCall(BaseModel):
    """A call as OpenAI's model keeps it beside the blocks."""

    id: str
    function: SdkFunction
    type: str = "function"


def as_openai_does(messages):
    """A stream whose calls stand in the blocks, with growing arguments, and as the SDK's own objects beside them."""
    said = ""
    calls = [SdkCall(id="call_1", function=SdkFunction(name="weather", arguments=""))]
    for delta in ('{"ci', 'ty": "Os', 'lo"}'):
        said += delta
        calls[0].function.arguments = said
        block = ToolCallBlock(tool_call_id="call_1", tool_name="weather", tool_kwargs=said)
        message = ChatMessage(role="assistant", blocks=[block], additional_kwargs={"tool_calls": calls})
        yield ChatResponse(message=message, delta="", raw=Sdk(stop_reason="tool_calls"))


@pytest.mark.parametrize("how", ["chat", "achat", "stream_chat", "astream_chat"])
async def test_calls_that_a_provider_keeps_as_its_own_objects_too_come_back_with_plain_ones(how, memory):
    model = Chunked(as_openai_does)
    llm = cached_llm(model, memory)
    heard = await ask(llm, how)
    blocks = [chunk.message.model_copy(deep=True).blocks for chunk in heard]
    replayed = await ask(llm, how)
    assert model.calls == 1
    assert [chunk.message.blocks for chunk in replayed] == blocks
    assert replayed[-1].message.additional_kwargs["tool_calls"] == [
        {"id": "call_1", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}, "type": "function"}
    ]
    history = [ChatMessage(content="hello"), heard[-1].message]  # and both make the same next request
    again = [ChatMessage(content="hello"), replayed[-1].message]
    llm.chat(history)
    assert marked(llm.chat(again))


async def test_a_providers_bytes_come_back_as_bytes(open_memory):
    def script(messages):
        notes = {"thought_signatures": [b"\x00\xff", None]}
        yield ChatResponse(message=ChatMessage(role="assistant", content="x", additional_kwargs=notes))

    memory = open_memory()
    await ask(cached_llm(Chunked(script), memory), "chat")
    memory.close()
    (answer,) = await ask(cached_llm(Chunked(), open_memory()), "chat")
    assert answer.message.additional_kwargs == {"thought_signatures": [b"\x00\xff", None]}


async def test_a_hit_says_in_raw_when_it_was_made_and_what_it_was_paid_with(memory, clock):
    llm = cached_llm(Chunked(everything), memory)
    made = clock()
    await ask(llm, "stream_chat")
    clock.advance(60)
    (*_, last) = await ask(llm, "stream_chat")
    assert last.raw["tiered_memory"] == {"hit": True, "created_at": made, "input_tokens": 7, "output_tokens": 3}
    assert memory.responses.stats()["saved_input_tokens"] == 7


async def test_a_raw_that_is_no_dict_stays_beside_the_mark(memory):
    def script(messages):
        yield ChatResponse(message=ChatMessage(role="assistant", content="x"), raw=["a", {1}, "b"])

    llm = cached_llm(Chunked(script), memory)
    await ask(llm, "chat")
    assert (await ask(llm, "chat"))[0].raw["raw"] == ["a", None, "b"]


async def test_who_changes_an_answer_changes_no_other(memory):
    llm = cached_llm(Chunked(calling("weather", {"city": {"name": "Oslo"}})), memory)
    for _ in range(3):
        (answer,) = await ask(llm, "chat")
        assert answer.message.blocks[1].tool_kwargs == {"city": {"name": "Oslo"}}
        answer.message.blocks[1].tool_kwargs["city"]["name"] = "Bergen"
        answer.message.blocks[0].text = "changed"
    for _ in range(3):
        for chunk in await ask(llm, "stream_chat"):
            assert chunk.message.blocks[0].text == "I look."
            chunk.message.blocks[0].text = "changed"


async def test_a_stream_grows_by_what_it_says_and_not_by_all_of_it_each_time(open_memory):
    memory = open_memory(":memory:")
    await ask(cached_llm(Chunked(text(*["word "] * 400)), memory), "stream_chat")
    assert memory.responses.stats()["bytes"] < 400 * 100  # 400 cumulative texts alone would be 400 000 bytes


async def test_a_call_gets_a_fresh_id_where_the_conversation_already_holds_its_id(memory):
    llm = cached_llm(Chunked(calling("weather", {"city": "Oslo"}, id="c1")), memory)

    def history(id):
        call = ToolCallBlock(tool_call_id=id, tool_name="weather", tool_kwargs={"city": "Oslo"})
        result = ChatMessage(role="tool", content="rain", additional_kwargs={"tool_call_id": id})
        return [ChatMessage(content="weather?"), ChatMessage(role="assistant", blocks=[call]), result]

    llm.chat(history("c0"))
    again = llm.chat(history("c0"))
    assert again.message.blocks[1].tool_call_id == "c1"
    held = llm.chat(history("c1"))  # the same request: ids are only names for calls
    assert marked(held)
    assert held.message.blocks[1].tool_call_id not in ("c0", "c1")


# Together


def test_equal_calls_at_the_same_time_make_one(memory):
    begun = threading.Event()

    def script(messages):
        begun.wait(5)
        yield from text("one")(messages)

    model = Chunked(script)
    llm = cached_llm(model, memory)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(llm.chat, [ChatMessage(content="hello")]) for _ in range(4)]
        begun.set()
        assert {found.result(10).message.content for found in asked} == {"one"}
    assert model.calls == 1


async def test_equal_async_calls_at_the_same_time_make_one(memory):
    class Slow(Chunked):
        async def achat(self, messages, **kwargs):
            await asyncio.sleep(0)
            return self.chat(messages, **kwargs)

    model = Slow()
    llm = cached_llm(model, memory)
    found = await asyncio.gather(*(llm.achat([ChatMessage(content="hello")]) for _ in range(5)))
    assert model.calls == 1
    assert sum(map(marked, found)) == 4
    assert len({id(answer.message) for answer in found}) == 5


@pytest.mark.parametrize("how", ["stream_chat", "astream_chat"])
async def test_equal_streams_at_the_same_time_each_ask_and_none_waits(how, memory):
    model = Chunked()
    llm = cached_llm(model, memory)
    both = await asyncio.gather(ask(llm, how), ask(llm, how))
    assert [bare(chunk) for chunk in both[0]] == [bare(chunk) for chunk in both[1]]
    assert model.calls <= 2


def test_a_bounded_cache_forgets_and_the_model_is_asked_again(open_memory):
    memory = open_memory(settings=Settings(cache_items=1))
    model = Chunked()
    llm = cached_llm(model, memory)
    for said in ("a", "b", "a"):
        llm.chat([ChatMessage(content=said)])
    assert model.calls == 3


# A plain model


async def test_a_model_that_calls_no_tools_is_cached_too(memory):
    llm = cached_llm(MockLLM(max_tokens=3), memory)
    for how in (*ASKS, *STREAMS):
        first, second = await ask(llm, how), await ask(llm, how)
        assert [bare(chunk) for chunk in second] == [bare(chunk) for chunk in first]
        assert all(map(marked, second))
    with pytest.raises(InvalidInput, match="expected a model that calls tools, got MockLLM; use a ReActAgent"):
        llm.chat_with_tools([FunctionTool.from_defaults(weather)], user_msg="hello")


def test_a_completion_has_the_type_of_a_completion(memory):
    llm = cached_llm(Chunked(), memory)
    assert [type(llm.complete("a")) for _ in range(2)] == [CompletionResponse] * 2
