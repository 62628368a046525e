"""What every adapter is made of is checked when it is made, and a slip is an error."""

import asyncio

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.storage.chat_store.loading import load_chat_store
from llama_index.core.tools import FunctionTool

from llama_index_tiered_memory import (
    TieredAgentMemory,
    TieredAsyncChatStore,
    TieredChatStore,
    TieredKVStore,
    TieredMemoryBlock,
    TieredRetriever,
    cached_llm,
    cached_tools,
    memory_tools,
)
from shared_core import InvalidInput
from tests.adapters.llama_index.models import Chunked

FIELDS = {
    "chat store": TieredChatStore,
    "async chat store": TieredAsyncChatStore,
    "memory block": TieredMemoryBlock,
    "agent memory": TieredAgentMemory,
}
REQUIRED = {TieredAgentMemory: {"session_id": "s"}}
MAKE = {
    **{
        name: lambda memory, kind=kind, **given: kind(memory=memory, **REQUIRED.get(kind, {}), **given)
        for name, kind in FIELDS.items()
    },
    "retriever": lambda memory, **given: TieredRetriever(memory=memory, **given),
    "kv store": TieredKVStore,
    "cached tools": lambda memory, **given: cached_tools([], memory, **given),
    "memory tools": memory_tools,
    "cached llm": lambda memory, **given: cached_llm(Chunked(), memory, **given),
}


WORDS = r"^message: expected a ChatMessage, got 'hello'; write ChatMessage\(role='user', content=…\)$"


def test_words_are_no_message(memory):
    """LlamaIndex's own stores and buffers take them and fail whoever reads them later."""
    chat = TieredAgentMemory(memory=memory, session_id="s")
    store = TieredChatStore(memory=memory)
    for put in (
        lambda: chat.put("hello"),
        lambda: chat.put_messages(["hello"]),
        lambda: chat.set(["hello"]),
        lambda: store.add_message("k", "hello"),
        lambda: store.set_messages("k", ["hello"]),
        lambda: asyncio.run(TieredAsyncChatStore(memory=memory).add_message("k", "hello")),
    ):
        with pytest.raises(InvalidInput, match=WORDS):
            put()
    assert chat.get_all() == []
    assert store.get_keys() == []


@pytest.mark.parametrize("wrong", [5, ["hello"], {"role": "user"}])
def test_what_the_user_asks_is_a_text_or_a_message(wrong, memory):
    with pytest.raises(InvalidInput, match=r"^input: expected what the user asks, a string or a ChatMessage, got "):
        TieredAgentMemory(memory=memory, session_id="s").get(input=wrong)


@pytest.mark.parametrize("wrong", [[1], None, "text", 5])
def test_a_value_that_is_no_dict_is_refused_when_it_is_put_and_not_lost(wrong, memory):
    store = TieredKVStore(memory)
    store.put("k", {"v": 1})
    with pytest.raises(InvalidInput, match=r"^val: expected a dict that JSON can carry, got "):
        store.put("k", wrong)
    assert store.get("k") == {"v": 1}


@pytest.mark.parametrize("wrong", [5, None, b"k"])
def test_keys_and_collections_are_strings(wrong, memory):
    store = TieredKVStore(memory)
    for call in (lambda: store.put(wrong, {}), lambda: store.get(wrong), lambda: store.delete(wrong)):
        with pytest.raises(InvalidInput, match=r"^key: expected a string, got "):
            call()
    for call in (lambda: store.put("k", {}, wrong), lambda: store.get_all(wrong), lambda: store.delete_all(wrong)):
        with pytest.raises(InvalidInput, match=r"^collection: expected a string, got "):
            call()
    with pytest.raises(InvalidInput, match=r"^key: expected a string, got "):
        asyncio.run(TieredAsyncChatStore(memory=memory).add_message(wrong, ChatMessage(content="hello")))


def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_a_path_is_no_memory_and_a_number_no_scope(make, memory):
    with pytest.raises(InvalidInput, match=r"^expected a TieredMemory, got 'x.db'; write TieredMemory.open\('x.db'\)$"):
        make("x.db")
    with pytest.raises(
        InvalidInput, match=r"^scope: expected a non-empty string, a function that returns one, or None"
    ):
        make(memory, scope=7)
    with pytest.raises(InvalidInput, match=r"U\+001F"):  # a name that could be that of an adapter's own scope
        make(memory, scope="ada\x1flanggraph.store")
    make(memory, scope="ada")


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_a_keyword_that_is_misspelt_is_an_error(make, memory):
    with pytest.raises((TypeError, ValueError), match="scoop"):
        make(memory, scoop="ada")


@pytest.mark.parametrize("kind", FIELDS.values(), ids=FIELDS)
def test_a_memory_by_position_is_answered_with_the_keyword(kind, memory):
    with pytest.raises(
        InvalidInput, match=rf"{kind.__name__}: expected keywords, .*write {kind.__name__}\(memory=memory"
    ):
        kind(memory)


def test_the_class_name_that_llama_index_writes_is_no_unknown_keyword(memory):
    written = TieredChatStore(memory=memory, scope="ada").to_dict()
    assert written["class_name"] == "TieredChatStore"
    assert TieredChatStore.from_dict(written).scope == "ada"
    written = TieredAgentMemory(memory=memory, session_id="s", scope="ada").to_dict()
    assert written["class_name"] == "TieredAgentMemory"
    assert TieredAgentMemory.from_dict(written).session_id == "s"


def test_a_chat_store_that_was_written_down_is_read_back(memory):
    store = TieredChatStore(memory=memory, scope="ada")
    assert load_chat_store(store.to_dict()).get_keys() == []
    buffer = ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key="k", token_limit=1_000)
    assert ChatMemoryBuffer.from_dict(buffer.to_dict()).chat_store.scope == "ada"


def test_the_stock_memory_takes_the_block(memory):
    block = TieredMemoryBlock(memory=memory)
    assert Memory.from_defaults(session_id="s", memory_blocks=[block]).memory_blocks == [block]


@pytest.mark.parametrize("wrong", [weather, FunctionTool.from_defaults(weather), "weather", None])
def test_one_tool_in_the_place_of_a_list_is_refused(wrong, memory):
    with pytest.raises(InvalidInput, match=r"tools: expected a list of tools, .*write \[tool\] for one"):
        cached_tools(wrong, memory)


def test_swapped_arguments_are_recognised(memory):
    with pytest.raises(InvalidInput, match=r"got a TieredMemory; write cached_tools\(tools, memory\)"):
        cached_tools(memory, [weather])
