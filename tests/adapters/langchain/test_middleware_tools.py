"""Tool calls of an agent: opted-in ones are paid for once, and a hit is a new message under the new call."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from typing import Annotated

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolArg, InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.types import Command, interrupt

from langchain_tiered_memory import TieredMemoryMiddleware
from tests.adapters.langchain.fakes import ScriptedModel, calling, user
from tests.adapters.langchain.tool_kit import agent_of, answers, asking, counted, twice

THREAD = {"configurable": {"thread_id": "t1"}}


def test_an_opted_in_tool_runs_once_for_equal_arguments(memory):
    weather, ran = counted()
    result = agent_of(asking("Paris", "Paris"), [weather], memory).invoke(user("?"))
    assert ran == ["Paris"]
    assert [m.content for m in answers(result)] == ["sunny in Paris"] * 2
    assert memory.stats()["mid_term"]["tools"]["hits"] == 1


def test_arguments_are_compared_exactly_and_never_by_similarity(memory):
    weather, ran = counted()
    result = agent_of(asking("Paris", "Rome", "paris"), [weather], memory).invoke(user("?"))
    assert ran == ["Paris", "Rome", "paris"]
    assert [m.content for m in answers(result)] == ["sunny in Paris", "sunny in Rome", "sunny in paris"]


def test_tools_are_not_cached_unless_asked_for(memory):
    weather, ran = counted()
    agent_of(asking("Paris", "Paris"), [weather], memory, opted=()).invoke(user("?"))
    assert ran == ["Paris", "Paris"]


def test_a_hit_answers_the_new_call_in_a_message_of_its_own(memory):
    """Two hits in one thread leave two messages: none replaces the other, and every call has its answer."""
    weather, _ = counted()
    result = agent_of(asking("Paris", "Paris", "Paris"), [weather], memory, checkpointer=InMemorySaver()).invoke(
        user("?"), THREAD
    )
    found = answers(result)
    assert [m.tool_call_id for m in found] == ["c0", "c1", "c2"]
    assert len({m.id for m in found}) == 3
    assert {m.name for m in found} == {"weather"}


def test_content_artifact_and_status_come_back_equal_and_are_never_shared(memory):
    ran = []

    @tool(response_format="content_and_artifact")
    def weather(city: str) -> tuple[list[dict], dict]:
        """The weather."""
        ran.append(city)
        return [{"type": "text", "text": "sunny"}], {"rows": [1, 2]}

    agent = agent_of(asking("Paris", "Paris", "Paris"), [weather], memory)
    first, second, third = answers(agent.invoke(user("?")))
    assert ran == ["Paris"]
    second.content[0]["text"] = "changed"
    second.artifact["rows"].append(3)
    assert (first.content, first.artifact, first.status) == (
        [{"type": "text", "text": "sunny"}],
        {"rows": [1, 2]},
        "success",
    )
    assert (third.content, third.artifact, third.status) == (first.content, first.artifact, first.status)


def test_two_scopes_never_share_a_result(memory):
    weather, ran = counted()
    for scope in ("ada", "bob"):
        ours = TieredMemoryMiddleware(memory, scope=scope, tools=["weather"])
        create_agent(asking("Paris"), [weather], middleware=[ours]).invoke(user("?"))
    assert ran == ["Paris", "Paris"]


def test_results_that_are_errors_are_not_kept(memory):
    ran = []

    @tool
    def weather(city: int) -> str:
        """The weather."""
        ran.append(city)
        return "sunny"

    model = asking("not a number", "not a number")
    result = agent_of(model, [weather], memory).invoke(user("?"))
    assert [m.status for m in answers(result)] == ["error", "error"]
    assert [m.tool_call_id for m in answers(result)] == ["c0", "c1"]
    assert memory.stats()["mid_term"]["tools"]["entries"] == 0


def test_what_a_tool_raises_is_raised_and_not_kept(memory):
    ran = []

    @tool
    def weather(city: str) -> str:
        """The weather."""
        ran.append(city)
        raise RuntimeError("no network")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no network"):
            agent_of(asking("Paris"), [weather], memory).invoke(user("?"))
    assert ran == ["Paris", "Paris"]


def test_commands_and_lists_belong_to_their_call_and_are_not_kept(memory):
    ran = []

    @tool
    def weather(city: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
        """A command."""
        ran.append(tool_call_id)
        return Command(update={"messages": [ToolMessage("sunny", tool_call_id=tool_call_id)]})

    memory.tools.register("weather", key=lambda args: args)  # the user says the arguments tell the result
    result = agent_of(asking("Paris", "Paris"), [weather], memory).invoke(user("?"))
    assert ran == ["c0", "c1"]
    assert [m.tool_call_id for m in answers(result)] == ["c0", "c1"]


def test_a_command_belongs_to_its_call_also_where_results_are_handed_out_as_they_are(memory):
    ran = []

    @tool
    def weather(city: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
        """A command."""
        ran.append(tool_call_id)
        return Command(update={"messages": [ToolMessage("sunny", tool_call_id=tool_call_id)]})

    memory.tools.register("weather", key=lambda args: args["city"], copy=False)
    result = agent_of(asking("Paris", "Paris"), [weather], memory).invoke(user("?"))
    assert ran == [m.tool_call_id for m in answers(result)] == ["c0", "c1"]


def asks_a_person(ran):
    @tool
    def weather(city: str) -> str:
        """Ask a person."""
        ran.append(city)
        return f"a person says {interrupt('look out of the window')}"

    return weather


def asks_through_a_graph(ran):
    def node(state):
        return {"said": interrupt("look out of the window")}

    inner = StateGraph(dict).add_node("ask", node).add_edge(START, "ask").compile()

    @tool
    def weather(city: str) -> str:
        """Ask a person, in a graph of its own."""
        ran.append(city)
        return f"a person says {inner.invoke({'said': None})['said']}"

    return weather


@pytest.mark.parametrize("made", [asks_a_person, asks_through_a_graph])
@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_a_person_answered_to_an_interrupt_is_not_kept(memory, made, by_id, asynchronous):
    """It is an answer to one question at one moment: the same call later asks again."""
    ran = []
    ours = TieredMemoryMiddleware(memory, tools=["weather"])
    agent = create_agent(asking("Paris", "Paris"), [made(ran)], middleware=[ours], checkpointer=InMemorySaver())
    invoke = (lambda *a: asyncio.run(agent.ainvoke(*a))) if asynchronous else agent.invoke
    found = invoke(user("?"), THREAD)
    for answer in ("rain", "snow"):
        (asked,) = found["__interrupt__"]
        assert asked.value == "look out of the window"
        found = invoke(Command(resume={asked.id: answer} if by_id else answer), THREAD)
    assert [m.content for m in answers(found)] == ["a person says rain", "a person says snow"]
    assert ran == ["Paris"] * 4
    assert memory.stats()["mid_term"]["tools"]["entries"] == 0
    assert ours.counts["answers_not_kept"] == 2


def test_of_two_interrupts_in_one_call_neither_answer_is_kept_although_only_one_came_last(memory):
    @tool
    def weather(city: str) -> str:
        """Ask two persons."""
        return f"{interrupt('sky?')} and {interrupt('wind?')}"

    agent = agent_of(asking("Paris"), [weather], memory, checkpointer=InMemorySaver())
    agent.invoke(user("?"), THREAD)
    agent.invoke(Command(resume="rain"), THREAD)
    found = agent.invoke(Command(resume="storm"), THREAD)
    assert [m.content for m in answers(found)] == ["rain and storm"]
    assert memory.stats()["mid_term"]["tools"]["entries"] == 0


def test_an_agent_that_stopped_before_its_tools_and_goes_on_keeps_their_results(memory):
    """Nobody's answer goes into them."""
    weather, ran = counted()
    agent = agent_of(
        asking("Paris", "Paris"), [weather], memory, checkpointer=InMemorySaver(), interrupt_before=["tools"]
    )
    agent.invoke(user("?"), THREAD)
    agent.invoke(None, THREAD)
    found = agent.invoke(None, THREAD)
    assert [m.content for m in answers(found)] == ["sunny in Paris"] * 2
    assert ran == ["Paris"]


def test_the_tools_of_a_run_that_goes_on_after_an_answer_are_cached(memory):
    weather, ran = counted()

    @tool
    def ask() -> str:
        """Ask a person."""
        return interrupt("which city?")

    script = [
        calling("ask", {}),
        *(calling("weather", {"city": "Paris"}, id=f"w{i}") for i in range(2)),
        AIMessage("done"),
    ]
    agent = agent_of(
        ScriptedModel(script=script), [weather, ask], memory, opted=["weather", "ask"], checkpointer=InMemorySaver()
    )
    (asked,) = agent.invoke(user("?"), THREAD)["__interrupt__"]
    found = agent.invoke(Command(resume={asked.id: "Paris"}), THREAD)
    assert [m.content for m in answers(found)] == ["Paris", "sunny in Paris", "sunny in Paris"]
    assert ran == ["Paris"]


@pytest.mark.parametrize("injected", [False, True])
def test_a_tool_that_writes_makes_stale_what_it_wrote_also_when_it_is_answered_or_injected(memory, injected):
    memory.tools.register("stock", reads="city")
    memory.tools.register("order", writes="city")
    shelf = {"n": 0}

    @tool
    def stock(city: str) -> str:
        """Read."""
        return str(shelf["n"])

    def write():
        shelf["n"] += 1
        return "ordered"

    @tool("order")
    def with_runtime(city: str, runtime: ToolRuntime) -> str:
        """Write."""
        return write()

    @tool("order")
    def with_answer(city: str) -> str:
        """Write."""
        return f"{write()} {interrupt('sure?')}"

    calls = [calling(name, {"city": "Paris"}, id=f"c{i}") for i, name in enumerate(["stock", "order", "stock"])]
    agent = agent_of(
        ScriptedModel(script=[*calls, AIMessage("done")]), [stock, with_runtime if injected else with_answer], memory,
        opted=(), checkpointer=InMemorySaver(),
    )  # fmt: skip
    found = agent.invoke(user("?"), THREAD)
    if not injected:
        found = agent.invoke(Command(resume="yes"), THREAD)
    assert [m.content for m in answers(found)][::2] == ["0", str(shelf["n"])]


def with_state(ran):
    @tool
    def weather(city: str, state: Annotated[dict, InjectedState]) -> str:
        """The weather."""
        return ran.append(city) or "sunny"

    return weather


def with_runtime(ran):
    @tool
    def weather(city: str, runtime: ToolRuntime) -> str:
        """The weather."""
        return ran.append(city) or "sunny"

    return weather


def with_call_id(ran):
    @tool
    def weather(city: str, call: Annotated[str, InjectedToolCallId]) -> str:
        """The weather."""
        return ran.append(city) or "sunny"

    return weather


def with_config(ran):
    @tool
    def weather(city: str, config: RunnableConfig) -> str:
        """The weather."""
        return ran.append(city) or "sunny"

    return weather


@pytest.mark.parametrize("made", [with_state, with_runtime, with_call_id, with_config])
def test_a_tool_with_injected_arguments_is_never_cached_without_a_key(memory, made):
    """The arguments of the call do not tell its result: another user's would be served."""
    ran = []
    agent_of(asking("Paris", "Paris"), [made(ran)], memory).invoke(user("?"))
    assert ran == ["Paris", "Paris"]
    memory.tools.register("weather", key=lambda args: args["city"])
    agent_of(asking("Paris", "Paris"), [made(ran)], memory).invoke(user("?"))
    assert ran == ["Paris", "Paris", "Paris"]


def test_a_store_or_a_custom_injected_argument_is_seen_too():
    from langchain_tiered_memory.injected import injected_arguments

    @tool
    def both(city: str, store: Annotated[object, InjectedStore()], who: Annotated[str, InjectedToolArg]) -> str:
        """Both."""
        return ""

    @tool
    def none(city: str, runtime_hours: int = 1) -> str:
        """None."""
        return ""

    assert injected_arguments(both) == {"store", "who"}
    assert injected_arguments(none) == frozenset()


def test_identical_calls_of_one_answer_run_once_and_each_gets_its_message(memory):
    """The agent runs parallel calls in threads; the first to come executes, the others wait for it."""
    ran, all_in = [], threading.Event()

    @tool
    def weather(city: str) -> str:
        """The weather."""
        ran.append(city)
        all_in.wait(0.2)
        return "sunny"

    three = AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Paris"}, "id": f"c{i}"} for i in range(3)])
    model = ScriptedModel(script=[three, AIMessage("done")])
    result = agent_of(model, [weather], memory).invoke(user("?"))
    assert ran == ["Paris"]
    assert [m.tool_call_id for m in answers(result)] == ["c0", "c1", "c2"]


async def test_identical_async_calls_run_once(memory):
    ran = []

    @tool
    async def weather(city: str) -> str:
        """The weather."""
        ran.append(city)
        await asyncio.sleep(0)
        return "sunny"

    three = AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Paris"}, "id": f"c{i}"} for i in range(3)])
    model = ScriptedModel(script=[three, calling("weather", {"city": "Paris"}, id="c3"), AIMessage("done")])
    result = await agent_of(model, [weather], memory).ainvoke(user("?"))
    assert ran == ["Paris"]
    assert [m.tool_call_id for m in answers(result)] == ["c0", "c1", "c2", "c3"]


def test_identical_parallel_calls_whose_results_cannot_be_shared_each_execute(memory):
    ran, overlap = [], threading.Event()

    @tool
    def weather(city: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
        """A command."""
        ran.append(tool_call_id)
        overlap.wait(0.2)
        return Command(update={"messages": [ToolMessage("sunny", tool_call_id=tool_call_id)]})

    memory.tools.register("weather", key=lambda args: args)
    result = agent_of(ScriptedModel(script=[twice(), AIMessage("done")]), [weather], memory).invoke(user("?"))
    assert sorted(ran) == [m.tool_call_id for m in answers(result)] == ["c0", "c1"]


def test_identical_parallel_calls_that_are_interrupted_each_ask_for_themselves(memory):
    overlap = threading.Event()

    @tool
    def weather(city: str) -> str:
        """Ask a person."""
        overlap.wait(0.2)
        return f"a person says {interrupt('look out of the window')}"

    model = ScriptedModel(script=[twice(), AIMessage("done")])
    agent = agent_of(model, [weather], memory, checkpointer=InMemorySaver())
    asked = agent.invoke(user("?"), THREAD)["__interrupt__"]
    assert len({one.id for one in asked}) == 2
    result = agent.invoke(Command(resume={one.id: "rain" for one in asked}), THREAD)
    assert [m.content for m in answers(result)] == ["a person says rain"] * 2


def test_a_write_makes_the_read_after_it_fresh_and_is_executed_each_time(memory):
    shelf = {"n": 0}

    @tool
    def stock(city: str) -> str:
        """Read."""
        return str(shelf["n"])

    @tool
    def order(city: str) -> str:
        """Write: nobody registered it, so it may change anything."""
        shelf["n"] += 1
        return "ordered"

    calls = [
        calling(name, {"city": "Paris"}, id=f"c{i}")
        for i, name in enumerate(["stock", "order", "stock", "order", "stock"])
    ]
    result = agent_of(
        ScriptedModel(script=[*calls, AIMessage("done")]), [stock, order], memory, opted=["stock"]
    ).invoke(user("?"))
    assert [m.content for m in answers(result)] == ["0", "ordered", "1", "ordered", "2"]


def test_naming_a_tool_keeps_what_was_registered_for_it(memory, clock):
    weather, ran = counted()
    memory.tools.register("weather", ttl=10.0)
    agent = agent_of(asking("Paris"), [weather], memory, opted=[weather])
    agent.invoke(user("?"))
    clock.advance(11)
    agent_of(asking("Paris"), [weather], memory).invoke(user("?"))
    assert ran == ["Paris", "Paris"]


def test_the_tool_schemas_the_model_is_bound_to_are_the_same_with_us(memory):
    weather, _ = counted()
    plain, ours = ScriptedModel(), ScriptedModel()
    create_agent(plain, [weather]).invoke({"messages": [HumanMessage("hi", id="1")]})
    agent_of(ours, [weather], memory).invoke({"messages": [HumanMessage("hi", id="1")]})
    assert plain.requests[0][1] == ours.requests[0][1]


NO_VALUES = [b'{"$zz":1}', b"{", b""]
NO_PAIRS = [b'"hello"', b"null", b"[]", b'{"$tuple":[1]}']


@pytest.mark.parametrize(
    ("format", "value"),
    [
        *(("content", value) for value in NO_VALUES),
        *(("content_and_artifact", value) for value in NO_VALUES + NO_PAIRS),
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_kept_result_that_another_hand_wrote_is_a_miss(opened, tmp_path, value, format, asynchronous):
    """Bytes that are no value; and for a tool that gives content and artifact, whatever is no pair."""
    ran = []

    @tool(response_format=format)
    def weather(city: str):
        """The weather in a city."""
        ran.append(city)
        return ("sunny", 20) if format == "content_and_artifact" else "sunny"

    agent_of(asking("Paris"), [weather], opened()).invoke(user("?"))
    with closing(sqlite3.connect(tmp_path / "memory.db")) as db, db:
        (stored,) = db.execute("SELECT value FROM blobs WHERE namespace = 'tools'").fetchone()
        db.execute("UPDATE blobs SET value = ? WHERE namespace = 'tools'", (stored.split(b"\n")[0] + b"\n" + value,))
    db.close()
    agent = agent_of(asking("Paris"), [weather], opened())
    result = asyncio.run(agent.ainvoke(user("?"))) if asynchronous else agent.invoke(user("?"))
    assert [m.content for m in answers(result)] == ["sunny"]
    assert ran == ["Paris"] * 2


def test_a_call_is_the_same_whether_or_not_the_model_writes_a_default(memory):
    """The model names the unit once and leaves it out once; either way it is forgotten by the city alone."""
    ran = []

    @tool
    def temperature(city: str, unit: str = "C") -> str:
        """The temperature in a city."""
        ran.append(unit)
        return f"20 {unit}"

    memory.tools.register("temperature")
    for args in ({"city": "Rome"}, {"city": "Rome", "unit": "C"}):
        model = ScriptedModel(script=[calling("temperature", args), AIMessage("done")])
        create_agent(model, [temperature], middleware=[TieredMemoryMiddleware(memory)]).invoke(user("?"))
    assert ran == ["C"]
    assert memory.tools.invalidate("temperature", {"city": "Rome"}) == 1


# Other middlewares that change a call or its answer on the way to the tool
