"""``cached_llm``: answers that are not kept, and a cache that fails and costs a call."""

from __future__ import annotations

import gc

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

from llama_index_tiered_memory import cached_llm
from shared_core import MISS
from tests.adapters.llama_index.models import (
    ASKS,
    STREAMS,
    Chunked,
    Flaky,
    Sdk,
    ask,
    marked,
    said,
    text,
)


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
