"""``cached_llm``: what was answered before is replayed, whole and as a stream, and nothing else is."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.llms.types import (
    CacheControl,
    CachePoint,
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    DocumentBlock,
    ImageBlock,
    LogProb,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.llms.mock import MockLLM
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel

from llama_index_tiered_memory import cached_llm
from llama_index_tiered_memory.steps import grown, step
from shared_core import MISS, InvalidInput, ScopeRequired, Settings
from tests.adapters.llama_index.models import ASKS, STREAMS, Chunked, ask, calling, text

PIXEL = b"\x89PNG\r\n\x1a\n"


def bare(chunk):
    """A chunk without our mark."""
    raw = {name: value for name, value in (chunk.raw or {}).items() if name != "tiered_memory"}
    return chunk.model_copy(update={"raw": raw})


def marked(chunk):
    return isinstance(chunk.raw, dict) and chunk.raw.get("tiered_memory", {}).get("hit") is True


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


class Sdk(BaseModel):
    """A provider's own response object."""

    id: str = "msg_1"
    usage: dict = {"input_tokens": 7, "output_tokens": 3}
    stop_reason: str = "end_turn"


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


# What is not kept


class Flaky(Chunked):
    def _chunks(self, messages, kwargs):
        chunks = super()._chunks(messages, kwargs)

        def given():
            yield next(chunks)
            raise ConnectionError("the line is dead")

        return given()


@pytest.mark.parametrize("how", [*ASKS, *STREAMS])
async def test_an_error_is_the_callers_and_is_not_kept(how, memory):
    model = Flaky()
    llm = cached_llm(model, memory)
    for _ in range(2):
        with pytest.raises(ConnectionError, match="the line is dead"):
            await ask(llm, how)
    assert model.calls == 2


@pytest.mark.parametrize("how", ["stream_chat", "stream_complete"])
async def test_a_stream_that_was_left_is_not_kept_and_the_models_stream_is_closed(how, memory):
    closed = []

    def script(messages):
        try:
            yield from text("a", "b", "c")(messages)
        finally:
            closed.append(True)

    model = Chunked(script)
    llm = cached_llm(model, memory)
    stream = getattr(llm, how)([ChatMessage(content="hello")] if "chat" in how else "hello")
    assert next(stream).delta == "a"
    stream.close()
    gc.collect()
    assert closed == [True]
    assert len(await ask(llm, how)) == 3
    assert model.calls == 2


@pytest.mark.parametrize("how", ["astream_chat", "astream_complete"])
async def test_an_async_stream_that_was_left_is_not_kept(how, memory):
    model = Chunked(text("a", "b", "c"))
    llm = cached_llm(model, memory)
    stream = await getattr(llm, how)([ChatMessage(content="hello")] if "chat" in how else "hello")
    assert (await anext(stream)).delta == "a"
    await stream.aclose()
    assert len(await ask(llm, how)) == 3
    assert model.calls == 2


def ending(**raw):
    def script(messages):
        yield ChatResponse(message=ChatMessage(role="assistant", content="half of"), raw=raw)

    return script


def said(*blocks):
    return lambda messages: iter([ChatResponse(message=ChatMessage(role="assistant", blocks=list(blocks)))])


@pytest.mark.parametrize(
    "script",
    [
        ending(stop_reason="max_tokens"), ending(choices=[{"finish_reason": "length"}]), ending(done_reason="length"),
        ending(stop_reason="refusal"), ending(finish_reason="CONTENT_FILTER"), ending(stop_reason="pause_turn"),
        said(), said(TextBlock(text=" ")), said(ThinkingBlock(content="hm")),
        said(ToolCallBlock(tool_call_id="c", tool_name="f", tool_kwargs='{"cut": ')),
        said(ToolCallBlock(tool_call_id=None, tool_name="", tool_kwargs={})),
    ],
)  # fmt: skip
@pytest.mark.parametrize("how", ["chat", "astream_chat"])
async def test_an_answer_that_is_cut_refused_empty_or_malformed_is_not_kept(how, script, memory):
    model = Chunked(script)
    llm = cached_llm(model, memory)
    assert not any(map(marked, [*await ask(llm, how), *await ask(llm, how)]))
    assert model.calls == 2


class Own(ChatResponse):
    """An answer of a type that no one allowed."""


@pytest.mark.parametrize(
    "answer",
    [
        Own(message=ChatMessage(role="assistant", content="x")),
        ChatResponse(message=ChatMessage(role="assistant", content="x", additional_kwargs={"tool_calls": [Sdk()]})),
        ChatResponse(message=ChatMessage(role="assistant", content="x"), additional_kwargs={"sdk": Sdk()}),
    ],
    ids=["another type", "an object in the message", "an object beside it"],
)
@pytest.mark.parametrize("how", ["chat", "achat", "stream_chat", "astream_chat"])
async def test_an_answer_that_would_come_back_as_another_is_not_kept(how, answer, memory):
    model = Chunked(lambda messages: iter([answer]))
    llm = cached_llm(model, memory)
    for _ in range(2):
        (found,) = await ask(llm, how)
        assert type(found) is type(answer)
        assert found.message == answer.message
    assert model.calls == 2


async def test_a_stream_without_chunks_is_no_answer(memory):
    model = Chunked(lambda messages: iter([]))
    llm = cached_llm(model, memory)
    assert [await ask(llm, how) for how in ("stream_chat", "astream_chat")] == [[], []]
    assert model.calls == 2


# What makes two requests the same


def weather(city: str) -> str:
    """The weather in a city."""
    return city


def rain(city: str) -> str:
    """Whether it rains in a city."""
    return city


class Form(BaseModel):
    name: str


def image(data=PIXEL, **fields):
    return ImageBlock(image=data, **fields)


SAID = {
    "text": [TextBlock(text="a")],
    "other text": [TextBlock(text="b")],
    "two texts": [TextBlock(text="a"), TextBlock(text="")],
    "thought": [ThinkingBlock(content="a")],
    "image": [image()],
    "other image": [image(PIXEL + b"1")],
    "image in detail": [image(detail="high")],
    "document": [DocumentBlock(data=b"a", document_mimetype="text/plain", title="t")],
    "call": [ToolCallBlock(tool_call_id="1", tool_name="f", tool_kwargs={"a": 1})],
    "call with a float": [ToolCallBlock(tool_call_id="1", tool_name="f", tool_kwargs={"a": 1.0})],
}


def test_every_block_of_a_message_counts(memory):
    model = Chunked()
    llm = cached_llm(model, memory)
    for blocks in SAID.values():
        for role in ("user", "assistant"):
            llm.chat([ChatMessage(role=role, blocks=blocks)])
            llm.chat([ChatMessage(role=role, blocks=[block.model_copy(deep=True) for block in blocks])])
    assert model.calls == 2 * len(SAID)


KEYWORDS = [
    {}, {"temperature": 0.5}, {"temperature": 1}, {"temperature": 1.0}, {"tool_choice": "auto"},
    {"tool_choice": {"type": "any"}}, {"tools": []}, {"tools": [{"name": "weather"}]},
    {"tools": [FunctionTool.from_defaults(weather)]}, {"tools": [FunctionTool.from_defaults(rain)]},
    {"stop": ["a", "b"]}, {"stop": ["ab"]}, {"response_format": Form}, {"response_format": Sdk},
    {"key": weather}, {"key": rain},
]  # fmt: skip


def test_every_keyword_counts(memory):
    model = Chunked()
    llm = cached_llm(model, memory)
    for keywords in [*KEYWORDS, *KEYWORDS]:
        llm.chat([ChatMessage(content="a")], **keywords)
    assert model.calls == len(KEYWORDS)


async def test_every_setting_of_the_model_and_every_way_of_asking_counts(memory):
    made = [
        Chunked(), Chunked(model="chunked-2"), Chunked(temperature=0.5), Chunked(extra={"top_p": 0.1}),
        Flaky(text("x")), Chunked(messages_to_prompt=lambda messages: "all the same"),
    ]  # fmt: skip
    for how in ("chat", "stream_chat", "complete", "stream_complete"):
        for model in made[:4]:
            assert not any(map(marked, await ask(cached_llm(model, memory), how)))
    with pytest.raises(ConnectionError):
        cached_llm(made[4], memory).chat([ChatMessage(content="hello")])
    assert not marked(cached_llm(made[5], memory).chat([ChatMessage(content="hello")]))
    model = Chunked()
    model.temperature = 0.5  # counts as it is when the model is asked
    assert marked(cached_llm(model, memory).chat([ChatMessage(content="hello")]))


async def test_what_changes_no_answer_does_not_count(memory):
    model = Chunked()
    llm = cached_llm(model, memory)
    llm.chat([ChatMessage(content="a", additional_kwargs={"session_id": "s1"})])  # the stock Memory writes it there
    assert marked(llm.chat([ChatMessage(content="a", additional_kwargs={"session_id": "s2"})]))
    point = CachePoint(cache_control=CacheControl(type="ephemeral", ttl="5m"))
    assert marked(llm.chat([ChatMessage(blocks=[TextBlock(text="a"), point])]))


def test_a_file_that_a_block_names_counts_by_what_is_in_it_now(memory, tmp_path):
    path = tmp_path / "page.txt"
    model = Chunked()
    llm = cached_llm(model, memory)
    for content in ("one", "two", "one"):
        path.write_text(content)
        llm.chat([ChatMessage(blocks=[ImageBlock(path=path, image_mimetype="image/png")])])
    assert model.calls == 2


@pytest.mark.parametrize("keywords", [{"key": lambda: 1}, {"key": object()}, {"x": math.nan}])
@pytest.mark.parametrize("how", ["chat", "astream_chat"])
async def test_a_request_that_cannot_be_compared_goes_to_the_model(how, keywords, memory):
    model = Chunked()
    llm = cached_llm(model, memory)
    assert not any(map(marked, [*await ask(llm, how, **keywords), *await ask(llm, how, **keywords)]))
    assert model.calls == 2


# Whose it is


@pytest.mark.parametrize("how", ["chat", "achat", "stream_chat", "astream_chat"])
async def test_two_scopes_share_nothing(how, memory):
    model = Chunked()
    for scope in ("ada", "bob", "ada"):
        await ask(cached_llm(model, memory, scope=scope), how)
    assert model.calls == 2
    who = ["carl"]
    llm = cached_llm(model, memory, scope=lambda: who[0])
    await ask(llm, how)
    who[0] = "bob"
    assert all(map(marked, await ask(llm, how)))
    who[0] = None
    with pytest.raises(ScopeRequired):
        await ask(llm, how)
    assert model.calls == 3


def test_what_it_is_made_of_is_checked(memory, open_memory):
    with pytest.raises(InvalidInput, match=r"got a TieredMemory; write cached_llm\(llm, memory\)"):
        cached_llm(memory, Chunked())
    with pytest.raises(InvalidInput, match=r"expected a LlamaIndex LLM, got str"):
        cached_llm("gpt", memory)
    with pytest.raises(InvalidInput, match=r"write cached_llm\(llm, memory\).as_structured_llm"):
        cached_llm(Chunked().as_structured_llm(Form), memory)
    with pytest.raises(ScopeRequired):
        cached_llm(Chunked(), open_memory("none.db", default_scope=None))


async def test_a_forgotten_memory_takes_the_answers_of_its_scope_along(memory):
    model = Chunked()
    llm = cached_llm(model, memory)
    kept = memory.remember("Ada likes tea.")
    await ask(llm, "stream_chat")
    memory.forget(kept.id)
    await ask(llm, "stream_chat")
    assert model.calls == 2


# A cache that fails costs a call


@pytest.mark.parametrize("how", [*ASKS, *STREAMS])
async def test_when_the_memory_is_closed_the_model_answers(how, open_memory):
    memory = open_memory()
    model = Chunked()
    llm = cached_llm(model, memory)
    await ask(llm, how)
    memory.close()
    assert (await ask(llm, how))[-1].delta == (await ask(Chunked(), how))[-1].delta
    assert model.calls == 2


@pytest.mark.parametrize("how", ["chat", "achat", "stream_chat", "astream_chat"])
async def test_a_row_that_is_no_answer_is_a_miss(how, memory):
    class Recorder(Chunked):
        pass

    model = Recorder()
    llm = cached_llm(model, memory)
    put = []
    keep = memory.responses.put
    memory.responses.put = lambda request, response, **kw: put.append((request, kw)) or keep(request, response, **kw)
    await ask(llm, "stream_chat")
    memory.responses.put = keep
    ((request, where),) = put
    request = {**request, "stream": "stream" in how}
    whole = {"object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}}]}
    for wrong in (
        {}, {"steps": [["?"]]}, {"steps": [["=", {"kind": "Popen", "raw": None}]]},
        {"steps": [["=", {"kind": "ChatResponse", "raw": None, "message": 7}]]},
    ):  # fmt: skip
        memory.responses.put(request, {**whole, **wrong}, **where)
        assert memory.responses.get(request, **where) is not MISS
        before = model.calls
        assert "".join(chunk.message.content for chunk in await ask(llm, how)).endswith("Hello.")
        assert model.calls == before + 1
        assert all(map(marked, await ask(llm, how)))  # and its place is taken by one that is


async def test_a_model_that_llama_index_knows_no_metadata_of_is_cached_too(memory):
    class New(Chunked):
        @property
        def metadata(self):
            raise ValueError("Unknown model 'new'. Please provide a valid one.")

    model = New(model="new")
    for how in ("chat", "astream_chat"):
        llm = cached_llm(model, memory)
        await ask(llm, how)
        assert all(map(marked, await ask(llm, how)))
    assert not marked(cached_llm(New(model="newer"), memory).chat([ChatMessage(content="hello")]))


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


# The law of the steps

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN, PLAIN)
def test_a_value_and_the_step_from_it_make_the_next_and_leave_it_as_it_is(before, after):
    kept = repr(before)
    found = grown(before, step(before, after))
    assert found == after
    assert type(found) is type(after)
    assert repr(before) == kept
    assert step(after, after) == []
