"""What the adapters tell of: hits, misses, evictions and recalls, and nothing that is nobody's business."""

from __future__ import annotations

import hashlib
import json

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ToolCallBlock
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.memory import Memory
from llama_index.core.tools import FunctionTool
from pydantic import PrivateAttr

from llama_index_tiered_memory import (
    TieredAgentMemory,
    TieredEvictionEvent,
    TieredHitEvent,
    TieredMemoryBlock,
    TieredMissEvent,
    TieredRecallEvent,
    TieredRetriever,
    cached_llm,
    cached_tools,
    events,
    memory_tools,
)
from shared_core import Settings
from tests.adapters.llama_index.models import ASKS, STREAMS, Chunked, ask, text

KINDS = (TieredHitEvent, TieredMissEvent, TieredEvictionEvent, TieredRecallEvent)


class Listener(BaseEventHandler):
    """Keeps our events; raises for each, if it is told to."""

    raises: bool = False
    _heard: list = PrivateAttr(default_factory=list)

    def handle(self, event, **_):
        if isinstance(event, KINDS):
            self._heard.append(event)
        if self.raises:
            raise RuntimeError("a listener of the user's")

    def heard(self):
        """What was heard since this was last asked, by class and facts."""
        found = [(type(event), {**event.model_dump(exclude=set(BaseEvent.model_fields))}) for event in self._heard]
        self._heard.clear()
        return [(kind, {key: value for key, value in facts.items() if key != "class_name"}) for kind, facts in found]


@pytest.fixture(params=["llama_index_tiered_memory", "root"])
def listener(request):
    dispatcher = get_dispatcher(request.param)
    before = list(dispatcher.event_handlers)
    mine = Listener()
    dispatcher.add_event_handler(mine)
    yield mine
    dispatcher.event_handlers = before


def weather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


async def aweather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


MISS = (TieredMissEvent, {"cache": "tools", "name": "weather", "scope": "ada"})
HIT = (
    TieredHitEvent,
    {"cache": "tools", "name": "weather", "scope": "ada", "saved_input_tokens": 0, "saved_output_tokens": 0},
)


class Plain(FunctionTool):
    """A tool that is no FunctionTool to the adapters' eyes is wrapped in another way; this one is the usual kind."""


@pytest.mark.parametrize("tool", [FunctionTool, Plain])
async def test_a_tool_call_is_a_miss_then_hits(tool, listener, memory):
    memory.tools.register("weather")
    (cached,) = cached_tools([tool.from_defaults(weather, name="weather")], memory)
    cached.call(city="Oslo")
    cached.call("Oslo")
    await cached.acall(city="Oslo")
    assert listener.heard() == [MISS, HIT, HIT]


async def test_a_tool_that_is_never_kept_is_neither_hit_nor_miss(listener, memory):
    memory.tools.register("weather", cacheable=False)
    other = FunctionTool.from_defaults(async_fn=aweather)
    for cached in cached_tools([weather, other], memory):
        await cached.acall(city="Oslo")
    assert listener.heard() == []


def test_what_a_cache_evicts_is_told_once(listener, open_memory):
    memory = open_memory(settings=Settings(cache_items=2))
    memory.tools.register("weather")
    for (cached,) in (cached_tools([weather], memory), cached_tools([weather], memory)):
        for city in ("Oslo", "Bergen", "Tromsø"):
            cached.call(city=city + str(id(cached)))
    told = [facts for kind, facts in listener.heard() if kind is TieredEvictionEvent]
    assert {(facts["cache"], facts["scope"], tuple(facts["keys"])) for facts in told} == {("tools", None, ())}
    assert sum(facts["count"] for facts in told) == memory.tools.stats()["evictions"] == 4


@pytest.mark.parametrize("how", [*ASKS, *STREAMS])
async def test_a_models_answer_is_a_miss_then_a_hit_with_what_it_saved(how, listener, memory):
    def script(messages):
        yield ChatResponse(
            message=ChatMessage(role="assistant", content="x"), raw={"usage": {"input_tokens": 7, "output_tokens": 3}}
        )

    llm = cached_llm(Chunked(script), memory)
    told = {"cache": "responses", "name": "chunked-1", "scope": "ada"}
    await ask(llm, how)
    assert listener.heard() == [(TieredMissEvent, told)]
    await ask(llm, how)
    assert listener.heard() == [(TieredHitEvent, {**told, "saved_input_tokens": 7, "saved_output_tokens": 3})]
    for key in (object(), lambda: None):  # cannot be compared
        await ask(llm, how, key=key)
        assert listener.heard() == [(TieredMissEvent, told)]


def test_a_stream_that_was_left_was_a_miss(listener, memory):
    stream = cached_llm(Chunked(), memory).stream_chat([ChatMessage(content="hello")])
    next(stream)
    stream.close()
    assert [kind for kind, _ in listener.heard()] == [TieredMissEvent]


@pytest.mark.parametrize("how", ["chat", "stream_chat"])
async def test_evicted_answers_are_told_too(how, listener, open_memory):
    llm = cached_llm(Chunked(), open_memory(settings=Settings(cache_items=1)))
    for said in ("a", "b"):
        await ask(llm, how, said)
    assert [kind for kind, _ in listener.heard()] == [TieredMissEvent, TieredMissEvent, TieredEvictionEvent]


def test_a_key_value_store_tells_what_it_evicted_by_digest_and_nothing_if_nothing(listener):
    events.evicted("embeddings", "ada", ["a whole text", "another"])
    digests = [hashlib.sha256(key.encode()).hexdigest() for key in ("a whole text", "another")]
    told = {"cache": "kv", "name": "embeddings", "scope": "ada", "keys": digests, "count": 2}
    assert listener.heard() == [(TieredEvictionEvent, told)]
    events.evicted("embeddings", "ada", [])
    assert listener.heard() == []


# Recall


def recall(source, ids, session=None):
    return [(TieredRecallEvent, {"source": source, "scope": "ada", "ids": ids, "session": session})]


async def test_every_recall_is_told_with_the_ids_that_were_found(listener, memory):
    tea = memory.remember("Ada likes green tea.").id
    own = TieredAgentMemory(memory=memory, session_id="s1")
    own.put(ChatMessage(role="user", content="Which tea does Ada like?"))
    own.get()
    assert listener.heard() == recall("TieredAgentMemory", [tea], "s1")
    own.get()  # frozen for the turn: nothing is searched
    assert listener.heard() == []
    TieredRetriever(memory=memory, filters={"session": "s9"}).retrieve("green tea")
    (found,) = listener.heard()
    assert (found[1]["source"], found[1]["session"], tea in found[1]["ids"]) == ("TieredRetriever", "s9", True)
    await TieredRetriever(memory=memory, scope="bob").aretrieve("green tea")
    assert listener.heard() == [
        (TieredRecallEvent, {"source": "TieredRetriever", "scope": "bob", "ids": [], "session": None})
    ]
    search, *_ = memory_tools(memory)
    search.call(query="what does she like to drink")
    assert listener.heard()[0][1]["source"] == "search_memory"


async def test_the_blocks_recall_is_told(listener, memory):
    tea = memory.remember("Ada likes green tea.").id
    block = TieredMemoryBlock(memory=memory)
    stock = Memory.from_defaults(session_id="s1", memory_blocks=[block], insert_method="user")
    await stock.aput(ChatMessage(role="user", content="Which tea does Ada like?"))
    await stock.aget()
    assert listener.heard() == recall("TieredMemoryBlock", [tea], "s1")
    await block.aget([ChatMessage(role="user", content="Which tea does Ada like?")])
    assert listener.heard()[0][1]["session"] is None


# What they are


def test_they_are_events_of_llama_index_with_names_of_their_own():
    assert [kind.class_name() for kind in KINDS] == [kind.__name__ for kind in KINDS]
    made = TieredRecallEvent(source="x", scope="ada", ids=[])
    assert isinstance(made, BaseEvent)
    assert made.model_dump()["class_name"] == "TieredRecallEvent"


SECRET = "sk-do-not-tell"  # noqa: S105  nobody's


def agent_of(memory):
    def answer(messages):
        said = messages[-1]
        if said.role == "tool":
            return iter([ChatResponse(message=ChatMessage(role="assistant", content=f"done {SECRET}"), delta="")])
        block = ToolCallBlock(tool_call_id="c", tool_name="weather", tool_kwargs={"city": SECRET})
        return iter([ChatResponse(message=ChatMessage(role="assistant", blocks=[block]), delta="")])

    memory.tools.register("weather")
    memory.remember(f"The weather key is {SECRET}.", id="m1")
    tools = cached_tools([weather], memory)
    return FunctionAgent(llm=cached_llm(Chunked(answer, extra={"key": SECRET}), memory), tools=tools)


async def test_no_event_tells_an_argument_a_prompt_an_answer_or_a_memorys_text(listener, open_memory):
    memory = open_memory(settings=Settings(cache_items=1))
    agent = agent_of(memory)
    for session in ("s1", "s2"):
        own = TieredAgentMemory(memory=memory, session_id=session, remember=False)
        await agent.run(f"weather key {SECRET}", memory=own)
    told = [event.model_dump(mode="json", exclude={"tags"}) for event in listener._heard]  # a workflow writes the tags
    assert {event["class_name"] for event in told} == {kind.__name__ for kind in KINDS}
    assert SECRET not in json.dumps(told)
    assert "weather key" not in json.dumps(told)


async def test_a_listener_that_raises_fails_no_turn(listener, memory):
    listener.raises = True
    agent = agent_of(memory)
    for session in ("s1", "s2"):
        own = TieredAgentMemory(memory=memory, session_id=session, remember=False)
        assert str(await agent.run(f"weather key {SECRET}", memory=own)) == f"done {SECRET}"
    assert {kind for kind, _ in listener.heard()} == {TieredHitEvent, TieredMissEvent, TieredRecallEvent}


async def test_an_event_belongs_to_the_span_it_was_told_in(memory):
    heard = []

    class Spans(BaseEventHandler):
        def handle(self, event, **_):
            heard.extend([event.span_id] if isinstance(event, KINDS) else [])

    dispatcher = get_dispatcher("llama_index_tiered_memory")
    before = list(dispatcher.event_handlers)
    dispatcher.add_event_handler(Spans())
    try:
        await cached_llm(Chunked(text("x")), memory).achat([ChatMessage(content="hello")])
        await TieredRetriever(memory=memory).aretrieve("tea")
    finally:
        dispatcher.event_handlers = before
    assert ["CachedLLM.achat" in heard[0], "TieredRetriever" in heard[1]] == [True, True]
