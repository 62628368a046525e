"""The parts of the middleware, each a middleware of its own: alone, together in any order, and as the one made of them."""

import asyncio
import itertools
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tiered_memory import (
    TieredMemoryMiddleware,
    TieredPromptPlanMiddleware,
    TieredRecallMiddleware,
    TieredResponseCacheMiddleware,
    TieredToolCacheMiddleware,
    TieredWindowMiddleware,
)
from shared_core import InvalidInput, ScopeRequired
from tests.adapters.langchain.fakes import ScriptedModel, calling, user

THREAD = {"configurable": {"thread_id": "t1"}}


def parts_of(memory):
    return [
        TieredRecallMiddleware(memory),
        TieredToolCacheMiddleware(memory, ["weather"]),
        TieredWindowMiddleware(memory, 5_000),
        TieredResponseCacheMiddleware(memory),
        TieredPromptPlanMiddleware(memory),
    ]


def counted():
    ran = []

    @tool
    def weather(city: str) -> str:
        """The weather in a city."""
        ran.append(city)
        return f"sunny in {city}"

    return weather, ran


def asking(city="Rome"):
    return ScriptedModel(script=[calling("weather", {"city": city}), AIMessage("done")])


def run(memory, middleware, model):
    weather, ran = counted()
    agent = create_agent(
        model, [weather], system_prompt="Be brief.", middleware=middleware, checkpointer=InMemorySaver()
    )
    out = agent.invoke({"messages": [HumanMessage("How do I like Rome?", id="1")]}, THREAD)
    shown = [(m.type, m.content, getattr(m, "tool_call_id", None)) for m in out["messages"]]
    return shown, ran, [[(m.type, m.content) for m in messages] for messages, _ in model.requests], out.keys()


def test_the_one_and_its_parts_together_do_the_same(opened):
    both = []
    for name, make in [
        (
            "one.db",
            lambda memory: [TieredMemoryMiddleware(memory, tools=["weather"], response_cache=True, window=5_000)],
        ),
        ("parts.db", parts_of),
    ]:
        memory = opened(name)
        memory.remember("I like Rome in spring.")
        first = run(memory, make(memory), asking())
        both.append((first, memory.context("t1").history()))
        assert "I like Rome in spring." in str(first[2][0])
    assert both[0][0] == both[1][0]
    assert [m["content"] for m in both[0][1]] == [m["content"] for m in both[1][1]]


@pytest.mark.parametrize("order", list(itertools.permutations(range(5)))[::12])
def test_in_every_order_the_parts_recall_reuse_and_answer(memory, order):
    memory.remember("I like Rome in spring.")
    parts = parts_of(memory)
    shown, ran, requests, _ = run(memory, [parts[i] for i in order], asking())
    assert [kind for kind, *_ in shown] == ["human", "ai", "tool", "ai"]
    assert ran == ["Rome"]
    assert all("I like Rome in spring." in str(request) for request in requests)
    assert [m["role"] for m in memory.context("t1").history()] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("which", range(5))
def test_alone_with_nothing_to_do_a_part_leaves_the_run_as_it_is_without_it(memory, which):
    plain, ours = asking(), asking()
    without = run(memory, [], plain)
    with_it = run(memory, [parts_of(memory)[which]], ours)
    assert with_it == without


def test_tools_are_cached_without_anything_else(memory):
    weather, ran = counted()
    ours = TieredToolCacheMiddleware(memory, [weather])
    for _ in range(2):
        create_agent(asking(), [weather], middleware=[ours]).invoke(user("?"))
    assert ran == ["Rome"]
    assert memory.long_term.list() == []


async def test_parallel_identical_calls_execute_once(memory):
    """As separate tasks of one step, asynchronous and not."""
    running, gate = threading.Event(), threading.Event()
    ran = []

    @tool
    def weather(city: str) -> str:
        """The weather in a city."""
        ran.append(city)
        running.set()
        gate.wait(5)
        return "sunny"

    def agent():
        twice = AIMessage(
            "", tool_calls=[{"name": "weather", "args": {"city": "Rome"}, "id": f"c{i}", "type": "tool_call"} for i in range(3)]
        )  # fmt: skip
        return create_agent(
            ScriptedModel(script=[twice, AIMessage("done")]), [weather],
            middleware=[TieredToolCacheMiddleware(memory, ["weather"])],
        )  # fmt: skip

    async def let_go():
        await asyncio.to_thread(running.wait, 5)
        gate.set()

    out, _ = await asyncio.gather(agent().ainvoke(user("?")), let_go())
    assert ran == ["Rome"]
    assert [m.content for m in out["messages"] if m.type == "tool"] == ["sunny"] * 3
    memory.tools.invalidate("weather", {"city": "Rome"})
    assert [m.content for m in agent().invoke(user("?"))["messages"] if m.type == "tool"] == ["sunny"] * 3
    assert ran == ["Rome"] * 2


def test_two_users_interleaved_from_threads_share_no_answer_no_result_and_no_memory(opened):
    @dataclass
    class Who:
        user_id: str

    memory = opened(default_scope=None)
    for who, word in (("ada", "apple"), ("bob", "pear")):
        memory.remember(f"My secret word is {word}.", scope=who)
    ran = []

    @tool
    def secret(of: str) -> str:
        """A secret."""
        ran.append(of)
        return f"secret {len(ran)}"

    def answer(messages):
        if messages[-1].type == "tool":
            return AIMessage(f"{messages[0].content[-1]['text']} {messages[-1].content}")
        return calling("secret", {"of": "mine"})

    ours = TieredMemoryMiddleware(
        memory, scope=lambda runtime: runtime.context.user_id, tools=["secret"], response_cache=True, window=5_000,
        remember=False,
    )  # fmt: skip
    agent = create_agent(ScriptedModel(script=[answer]), [secret], middleware=[ours], context_schema=Who)

    def ask(turn):
        who = ("ada", "bob")[turn % 2]
        out = agent.invoke(user("What is my secret word?"), context=Who(who))
        return who, out["messages"][-1].content

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, range(16)))
    assert len(ran) == 2
    said = {who: {answer for w, answer in answers if w == who} for who in ("ada", "bob")}
    assert [len(found) for found in said.values()] == [1, 1]
    assert said["ada"] != said["bob"]
    assert all("pear" not in answer for answer in said["ada"])
    assert all("apple" not in answer for answer in said["bob"])


async def test_the_loop_turns_while_the_storage_is_held_by_another_writer(memory, tmp_path):
    """A hook that waited on the loop would keep this test from letting the storage go, and the write would fail."""
    weather, ran = counted()
    ours = TieredMemoryMiddleware(memory, tools=["weather"], response_cache=True, window=5_000, on_write_error="raise")
    agent = create_agent(asking(), [weather], middleware=[ours], checkpointer=InMemorySaver())
    memory.remember("I like Rome in spring.")
    other = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    turn = asyncio.ensure_future(agent.ainvoke(user("How do I like Rome?"), THREAD))
    for _ in range(200):
        await asyncio.sleep(0.001)
    assert not turn.done()  # it waits for the storage, and we do not wait for it
    other.execute("ROLLBACK")
    other.close()
    out = await turn
    assert out["messages"][-1].content == "done"
    assert ran == ["Rome"]
    assert ours.counts["write_failures"] == 0
    assert [m["role"] for m in memory.context("t1").history()] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize(
    "make",
    [
        TieredRecallMiddleware,
        TieredToolCacheMiddleware,
        TieredResponseCacheMiddleware,
        TieredPromptPlanMiddleware,
        lambda memory, **given: TieredWindowMiddleware(memory, 100, **given),
    ],
    ids=["recall", "tools", "responses", "plan", "window"],
)
def test_every_part_can_be_named_and_says_what_is_wrong(memory, make):
    assert make(memory, name="mine").name == "mine"
    with pytest.raises(InvalidInput, match="expected a TieredMemory"):
        make("memory.db")


@pytest.mark.parametrize("flag", ["plan_prompts", "response_cache", "remember"])
def test_a_switch_is_on_or_off_and_nothing_else(memory, flag):
    with pytest.raises(InvalidInput, match=f"^{flag}: expected True or False, got 'yes'"):
        TieredMemoryMiddleware(memory, **{flag: "yes"})


def test_a_part_without_an_owner_is_refused_when_it_is_used(opened):
    memory = opened(default_scope=None)
    for part in (TieredRecallMiddleware(memory), TieredResponseCacheMiddleware(memory)):
        with pytest.raises(ScopeRequired):
            create_agent(ScriptedModel(), [], middleware=[part]).invoke(user("hi"))


def test_the_owner_and_the_conversation_are_asked_for_once_a_turn(memory):
    asked = []

    def owner(runtime):
        asked.append("scope")
        return "ada"

    def conversation(runtime):
        asked.append("session")
        return "s1"

    weather, _ = counted()
    ours = TieredMemoryMiddleware(
        memory, scope=owner, session=conversation, tools=["weather"], response_cache=True, window=5_000
    )
    create_agent(asking(), [weather], middleware=[ours]).invoke(user("?"))
    assert asked == ["scope", "session"]
