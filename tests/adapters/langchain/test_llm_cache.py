"""The model cache through real chat models and agents: what hits, what never does, and that it costs nothing to fail."""

import asyncio
import json
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from langchain.agents import create_agent
from langchain_core.globals import set_llm_cache
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, Generation
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from langchain_tiered_memory import TieredLLMCache
from shared_core import ScopeRequired
from tests.adapters.langchain.fakes import ScriptedLLM, ScriptedModel, calling, user

USAGE = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}


@pytest.fixture
def cache(memory):
    return TieredLLMCache(memory)


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def test_the_same_question_is_paid_for_once(cache):
    model = ScriptedModel(script=[AIMessage("first"), AIMessage("second")], cache=cache)
    assert [model.invoke("hi").content, model.invoke("hi").content, model.invoke("ho").content] == [
        "first",
        "first",
        "second",
    ]


def test_the_same_conversation_under_new_message_ids_hits(cache):
    model = ScriptedModel(cache=cache)
    for n in range(2):
        model.invoke([HumanMessage("a", id=f"{n}-1"), AIMessage("b", id=f"{n}-2"), HumanMessage("c", id=f"{n}-3")])
    assert model.calls == 1


def test_a_tool_agent_run_twice_over_two_turns_makes_no_new_model_call(cache):
    """Fresh ids, fresh tool-call ids, token costs that drift into the history: none of it makes another request."""
    script = [
        calling("weather", {"city": "Paris"}, usage_metadata=USAGE), AIMessage("Sunny.", usage_metadata=USAGE),
        calling("weather", {"city": "Rome"}, id="c2"), AIMessage("Sunny too."),
    ]  # fmt: skip
    model = ScriptedModel(script=script, cache=cache)
    transcripts = []
    for run in range(3):
        agent = create_agent(model, [weather], checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": str(run)}}
        agent.invoke(user("Paris?"), config)
        transcripts.append([m.content for m in agent.invoke(user("And Rome?"), config)["messages"]])
        assert model.calls == 4
    assert transcripts[0] == transcripts[1] == transcripts[2]


def test_a_second_process_makes_no_model_call(opened, tmp_path):
    first = opened()
    ScriptedModel(cache=TieredLLMCache(first)).invoke("hi")
    first.close()
    code = f"""
from langchain_tiered_memory import TieredLLMCache
from shared_core import TieredMemory
from shared_core.testing import FakeClock
from tests.adapters.langchain.fakes import ScriptedModel
memory = TieredMemory.open({str(tmp_path / "memory.db")!r}, default_scope="ada", embedder="none", clock=FakeClock())
model = ScriptedModel(cache=TieredLLMCache(memory))
print(model.invoke("hi").content, model.calls)
memory.close()
"""
    root = Path(__file__).parents[3]
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert out.stdout == "ok 0\n"


def test_two_temperatures_two_models_two_tool_sets_and_two_tool_choices_never_share(cache):
    asked = []
    for model, bound in [
        (ScriptedModel(cache=cache), {}),
        (ScriptedModel(cache=cache, temperature=1.0), {}),
        (ScriptedModel(cache=cache, model="other"), {}),
        (ScriptedModel(cache=cache), {"tools": [weather]}),
        (ScriptedModel(cache=cache), {"tools": [weather], "tool_choice": "any"}),
        (ScriptedModel(cache=cache), {"stop": ["x"]}),
        (ScriptedModel(cache=cache), {"response_format": {"type": "json_object"}}),
    ]:
        tools = bound.pop("tools", None)
        ready = model.bind_tools(tools, **bound) if tools else model.bind(**bound)
        ready.invoke("hi")
        ready.invoke("hi")
        asked.append(model.calls)
    assert asked == [1] * 7


def test_permuted_keys_of_a_tool_call_are_the_same_request(cache):
    model = ScriptedModel(cache=cache)
    for args in ({"city": "Paris", "unit": "C"}, {"unit": "C", "city": "Paris"}):
        model.invoke([HumanMessage("?"), calling("weather", args), ToolMessage("sunny", tool_call_id="c1")])
    assert model.calls == 1


def test_what_a_provider_wrote_about_its_answer_is_no_part_of_the_next_request(cache):
    model = ScriptedModel(cache=cache)
    for request_id in ("r1", "r2"):
        answer = AIMessage("b", response_metadata={"request_id": request_id, "took": request_id})
        model.invoke([HumanMessage("a"), answer, HumanMessage("c")])
    assert model.calls == 1
    model.invoke([HumanMessage("a"), AIMessage("b", response_metadata={"container": {"id": "x"}}), HumanMessage("c")])
    assert model.calls == 2


def test_all_generations_come_back_in_order_with_their_information(cache):
    model = ScriptedModel(n=3, script=[[AIMessage("a"), AIMessage("b"), AIMessage("c")]], cache=cache)
    first, second = (model.generate([[HumanMessage("hi")]]).generations[0] for _ in range(2))
    assert model.calls == 1
    assert [g.text for g in second] == ["a", "b", "c"]
    assert [g.generation_info for g in first] == [g.generation_info for g in second]
    assert second[0].generation_info == {"finish_reason": "stop", "logprobs": [0.5]}


def test_tool_calls_thinking_blocks_and_signatures_come_back_whole(cache):
    content = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Let me look."}]
    answer = AIMessage(
        content, tool_calls=[{"name": "weather", "args": {"city": "Rome", "lc": 1}, "id": "c1", "type": "tool_call"}]
    )
    model = ScriptedModel(script=[answer], cache=cache)
    model.invoke("hi")
    again = model.invoke("hi")
    assert (again.content, again.tool_calls) == (answer.content, answer.tool_calls)


def test_a_hit_is_a_message_of_its_own_with_an_id_of_its_own(cache):
    """Two nodes that ask the same leave two messages in the graph's state: neither replaces the other."""
    model = ScriptedModel(cache=cache)

    def ask(state):
        return {"messages": [model.invoke("hi")]}

    graph = StateGraph(MessagesState).add_node("one", ask).add_node("two", ask)
    result = graph.add_edge(START, "one").add_edge("one", "two").compile().invoke(user("go"))
    assert model.calls == 1
    assert [m.content for m in result["messages"]] == ["go", "ok", "ok"]
    assert len({m.id for m in result["messages"]}) == 3


def test_one_agents_name_never_shows_in_anothers_answer(cache):
    model = ScriptedModel(cache=cache)
    named = create_agent(model, [], name="agentA").invoke({"messages": [HumanMessage("hi", id="1")]})
    unnamed = create_agent(model, []).invoke({"messages": [HumanMessage("hi", id="1")]})
    assert model.calls == 1
    assert named["messages"][-1].name == "agentA"
    assert unnamed["messages"][-1].name is None


def test_changing_a_returned_answer_changes_no_later_one(cache):
    stored = [ChatGeneration(message=AIMessage([{"type": "text", "text": "a"}]), generation_info={"n": [1]})]
    cache.update("p", "m", stored)
    stored[0].message.content[0]["text"] = "changed before"
    first = cache.lookup("p", "m")
    first[0].message.content[0]["text"] = "changed after"
    first[0].generation_info["n"].append(2)
    first.append("x")
    (again,) = cache.lookup("p", "m")
    assert isinstance(cache.lookup("p", "m"), list)
    assert again.message.content == [{"type": "text", "text": "a"}]
    assert again.generation_info == {"n": [1]}


def test_an_answer_without_usage_stays_valid_after_the_framework_zeroed_its_cost(cache):
    model = ScriptedModel(cache=cache)
    model.invoke("hi")
    hit = model.invoke("hi")
    assert hit.usage_metadata == {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0, "total_cost": 0}
    assert AIMessage(**hit.model_dump()) == hit
    model = ScriptedModel(script=[AIMessage("x", usage_metadata=USAGE)], cache=cache)
    model.invoke("ho")
    assert model.invoke("ho").usage_metadata == {**USAGE, "total_cost": 0}


def test_a_hit_says_that_it_is_one_and_what_it_saved_is_counted_apart(cache, memory):
    model = ScriptedModel(script=[AIMessage("x", usage_metadata=USAGE)], cache=cache)
    assert "cache" not in model.invoke("hi").response_metadata
    assert model.invoke("hi").response_metadata["cache"]["hit"] is True
    counted = memory.stats()["mid_term"]["responses"]
    assert (counted["hits"], counted["saved_input_tokens"], counted["saved_output_tokens"]) == (1, 7, 3)


@pytest.mark.parametrize(
    "answer",
    [
        AIMessage("cut o", response_metadata={"finish_reason": "length"}),
        AIMessage("cut o", response_metadata={"stop_reason": "max_tokens"}),
        AIMessage("I cannot", response_metadata={"stop_reason": "refusal"}),
        AIMessage("…", response_metadata={"finish_reason": "content_filter"}),
        AIMessage(""),
        AIMessage("x", invalid_tool_calls=[{"name": "f", "args": "{", "id": "1", "error": "no JSON"}]),
    ],
    ids=["length", "max_tokens", "refusal", "filter", "empty", "invalid call"],
)
def test_answers_that_are_cut_refused_empty_or_broken_are_not_kept(cache, answer):
    cache.update("p", "m", [ChatGeneration(message=answer)])
    assert cache.lookup("p", "m") is None


def test_a_structured_answer_with_a_parsed_object_comes_back_as_data(cache):
    class City(BaseModel):
        name: str

    cache.update("p", "m", [ChatGeneration(message=AIMessage("{}", additional_kwargs={"parsed": City(name="Rome")}))])
    (hit,) = cache.lookup("p", "m")
    assert hit.message.additional_kwargs["parsed"] == {"name": "Rome"}


def test_an_answer_that_would_not_load_again_is_not_stored(cache):
    class Own(AIMessage):
        pass

    class OwnGeneration(Generation):
        pass

    for generation in (
        ChatGeneration(message=Own("x")),
        OwnGeneration(text="x"),
        ChatGeneration(message=AIMessage("x", response_metadata={"raw": b"\x00\xff"})),
    ):
        cache.update("p", "m", [generation])
        assert cache.lookup("p", "m") is None
    assert cache.counts["update_failures"] == 3


def test_a_poisoned_row_is_a_miss_and_runs_nothing(cache, opened, tmp_path, clock):
    """Rows another hand wrote: other classes, executable forms, broken bytes."""
    cache.update("p", "m", [ChatGeneration(message=AIMessage("good"))])
    with closing(sqlite3.connect(tmp_path / "memory.db")) as db, db:
        (value,) = db.execute("SELECT value FROM blobs").fetchone()
    hostile = [
        value.replace(b'"AIMessage"', b'"Popen"'),
        value.replace(b'"ChatGeneration"', b'"OwnGeneration"'),
        value.replace(b'"good"', b'{"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {}}'),
        value[: len(value) // 2],
        b"\x80\x04cos\nsystem\n.",
        b"",
    ]
    for row in hostile:
        assert row != value
        with closing(sqlite3.connect(tmp_path / "memory.db")) as db, db:
            db.execute("UPDATE blobs SET value = ? WHERE namespace NOT LIKE 'tools%'", (row,))
        assert TieredLLMCache(opened()).lookup("p", "m") is None


def test_a_cache_that_cannot_read_or_write_lets_the_model_answer(opened, tmp_path, caplog):
    memory = opened()
    cache = TieredLLMCache(memory)
    model = ScriptedModel(cache=cache)
    memory.close()
    assert model.invoke("hi").content == "ok"
    assert model.invoke("hi").content == "ok"
    assert model.calls == 2


def test_fifty_concurrent_updates_of_one_key_leave_one_row(cache, tmp_path):
    async def all_at_once():
        generation = [ChatGeneration(message=AIMessage("x"))]
        await asyncio.gather(*(cache.aupdate("p", "m", generation) for _ in range(50)))

    asyncio.run(all_at_once())
    assert cache.counts == {}
    assert cache.lookup("p", "m")[0].text == "x"
    with closing(sqlite3.connect(tmp_path / "memory.db")) as db, db:
        assert db.execute("SELECT count(*) FROM blobs").fetchone() == (1,)


def test_clear_is_durable(opened):
    memory = opened()
    cache = TieredLLMCache(memory)
    cache.update("p", "m", [Generation(text="x")])
    cache.clear()
    assert cache.lookup("p", "m") is None
    memory.close()
    assert TieredLLMCache(opened()).lookup("p", "m") is None


def test_sync_and_async_agree(cache):
    async def run():
        for n in range(8):
            update = [Generation(text=str(n), generation_info={"n": n})]
            if n % 2:
                await cache.aupdate(f"p{n}", "m", update)
            else:
                cache.update(f"p{n}", "m", update)
        for n in range(10):
            assert cache.lookup(f"p{n}", "m") == await cache.alookup(f"p{n}", "m")
            assert (cache.lookup(f"p{n}", "m") is None) == (n >= 8)
        await cache.aclear()
        assert cache.lookup("p0", "m") is None

    asyncio.run(run())


async def test_the_loop_turns_while_the_file_is_held(cache, memory):
    """Another writer holds the file: the update waits in a thread, and the loop goes on and lets the writer go."""
    held, release = threading.Event(), threading.Event()

    def hold():
        with memory.storage._connections.write():
            held.set()
            assert release.wait(5)

    writer = asyncio.get_running_loop().run_in_executor(None, hold)
    await asyncio.to_thread(held.wait, 5)
    update = asyncio.ensure_future(cache.aupdate("p", "m", [Generation(text="x")]))
    await asyncio.sleep(0)
    assert not update.done()
    release.set()
    await asyncio.gather(writer, update)
    assert (await cache.alookup("p", "m"))[0].text == "x"


def test_scopes_keep_apart_and_the_class_name_stands_in_for_none(opened):
    memory = opened(default_scope=None)
    whose = ["ada"]
    moving = TieredLLMCache(memory, scope=lambda: whose[0])
    moving.update("p", "m", [Generation(text="ada's")])
    whose[0] = "bob"
    assert moving.lookup("p", "m") is None
    assert TieredLLMCache(memory, scope="ada").lookup("p", "m")[0].text == "ada's"
    common = TieredLLMCache(memory)
    common.update("p", "m", [Generation(text="common")])
    assert TieredLLMCache(memory, scope="TieredLLMCache").lookup("p", "m")[0].text == "common"
    with pytest.raises(ScopeRequired):
        TieredLLMCache(memory, scope=lambda: None).lookup("p", "m")


def test_an_answer_is_not_given_again_after_a_memory_was_forgotten(opened):
    """In the scope of the memory; and, for the cache that belongs to no one, in whatever scope it was."""
    memory = opened(default_scope=None)
    own, others, common = (TieredLLMCache(memory, scope=s) for s in ("ada", "bob", None))
    for cache in (own, others, common):
        cache.update("p", "m", [Generation(text="x")])
    memory.forget(memory.remember("I take my coffee black.", scope="ada").id, scope="ada")
    assert own.lookup("p", "m") is None
    assert common.lookup("p", "m") is None
    assert others.lookup("p", "m") is not None


def test_a_plain_text_model_and_a_prompt_that_looks_like_json_are_taken_as_text(cache):
    model = ScriptedLLM(cache=cache)
    for prompt in ("hi", "[1, 2]", '[{"lc": 1}]', "[not json", "[]"):
        assert model.invoke(prompt) == model.invoke(prompt)
    assert model.count == 5


def test_a_custom_plain_text_model_tells_temperatures_apart(cache):
    assert ScriptedLLM(cache=cache).invoke("hi") == "answer 1"
    other = ScriptedLLM(cache=cache, temperature=1.0)
    other.invoke("hi")
    assert other.count == 1


def test_a_global_cache_serves_every_model(memory):
    set_llm_cache(TieredLLMCache(memory))
    try:
        model = ScriptedModel()
        model.invoke("hi")
        model.invoke("hi")
        assert model.calls == 1
    finally:
        set_llm_cache(None)


def test_today_a_models_own_stream_neither_asks_nor_fills_the_cache(cache):
    """Upstream's choice, pinned: ``.stream()`` passes any BaseCache by. A streamed agent does use it (below)."""
    model = GenericFakeChatModel(messages=iter([AIMessage("one"), AIMessage("two"), AIMessage("three")]), cache=cache)
    assert "".join(chunk.content for chunk in model.stream("hi")) == "one"
    assert "".join(chunk.content for chunk in model.stream("hi")) == "two"
    assert cache.lookup(dumps([HumanMessage("hi")]), model._get_llm_string()) is None


def test_a_streamed_agent_uses_the_cache_and_a_hit_arrives_whole(cache):
    model = ScriptedModel(script=[AIMessage("a long answer")], cache=cache)
    agent = create_agent(model, [])
    for _ in range(2):
        chunks = [chunk for chunk, _ in agent.stream(user("hi"), stream_mode="messages")]
        assert "".join(chunk.content for chunk in chunks) == "a long answer"
    assert model.calls == 1


def test_the_stored_row_is_plain_json(cache, tmp_path):
    cache.update("p", "m", [ChatGeneration(message=AIMessage("x"))])
    with closing(sqlite3.connect(tmp_path / "memory.db")) as db, db:
        (value,) = db.execute("SELECT value FROM blobs").fetchone()
    assert b"AIMessage" in value
    for part in value.splitlines():
        json.loads(part)
