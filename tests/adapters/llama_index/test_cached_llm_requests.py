"""``cached_llm``: what makes two requests the same, and whose they are."""

from __future__ import annotations

import math

import pytest
from llama_index.core.base.llms.types import (
    CacheControl,
    CachePoint,
    ChatMessage,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel

from llama_index_tiered_memory import cached_llm
from shared_core import InvalidInput, ScopeRequired
from tests.adapters.llama_index.models import (
    Chunked,
    Flaky,
    Sdk,
    ask,
    marked,
    text,
    weather,
)

PIXEL = b"\x89PNG\r\n\x1a\n"


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
