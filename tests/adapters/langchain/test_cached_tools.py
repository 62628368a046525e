"""The same tools with their results kept: name, schema and behaviour as before, for every kind of BaseTool."""

import asyncio
from typing import Annotated

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, Tool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import Command, interrupt
from pydantic import v1

from langchain_tiered_memory import cached_tools
from shared_core import InvalidInput, ScopeRequired
from tests.adapters.langchain.fakes import ScriptedModel, calling, user

RAN: list = []


@pytest.fixture(autouse=True)
def _fresh():
    RAN.clear()


@tool
def weather(city: str, unit: str = "C") -> str:
    """The weather in a city."""
    RAN.append(city)
    return f"sunny in {city}, 20 {unit}"


class Subclass(BaseTool):
    """A tool written as a class."""

    name: str = "weather"
    description: str = "The weather in a city."
    place: str = "here"

    def _run(self, city: str, run_manager=None) -> str:
        RAN.append(city)
        return f"sunny in {city}, seen from {self.place}"


def kept(given, memory, **register):
    memory.tools.register(given.name, **register)
    (made,) = cached_tools([given], memory)
    return made


@pytest.mark.parametrize(
    "given",
    [
        weather,
        StructuredTool.from_function(
            lambda city: RAN.append(city) or f"sunny in {city}", name="weather", description="d"
        ),
        Tool(name="weather", description="d", func=lambda city: RAN.append(city) or f"sunny in {city}"),
        Subclass(),
    ],
    ids=["decorated", "structured", "one text", "subclass"],
)
def test_every_kind_of_tool_keeps_its_face_and_runs_once(memory, given):
    made = kept(given, memory)
    assert type(made) is type(given)
    assert (made.name, made.description, made.args) == (given.name, given.description, given.args)
    assert made.tool_call_schema.model_json_schema() == given.tool_call_schema.model_json_schema()
    first = made.invoke({"city": "Paris"})
    assert first == made.invoke({"city": "Paris"}) == given.invoke({"city": "Paris"})
    assert RAN == ["Paris", "Paris"]  # once by ours, once by the tool itself, which is as it was


def test_a_call_with_an_id_gives_a_tool_message_of_its_own(memory):
    made = kept(weather, memory)
    one, two = (
        made.invoke({"name": "weather", "args": {"city": "Rome"}, "id": id, "type": "tool_call"}) for id in ("a", "b")
    )
    assert RAN == ["Rome"]
    assert isinstance(one, ToolMessage)
    assert (one.tool_call_id, two.tool_call_id) == ("a", "b")
    assert one.content == two.content
    assert one is not two


def test_a_default_said_or_left_out_is_the_same_call(memory):
    made = kept(weather, memory)
    made.invoke({"city": "Rome"})
    made.invoke({"unit": "C", "city": "Rome"})
    made.invoke({"city": "Rome", "unit": "F"})
    assert RAN == ["Rome", "Rome"]


def test_content_and_artifact_are_kept_together_and_handed_out_as_copies(memory):
    @tool(response_format="content_and_artifact")
    def weather(city: str) -> tuple[str, list]:
        """The weather."""
        RAN.append(city)
        return "sunny", [1]

    made = kept(weather, memory)
    call = {"name": "weather", "args": {"city": "Rome"}, "id": "a", "type": "tool_call"}
    first = made.invoke(call)
    first.artifact.append(2)
    again = made.invoke(call)
    assert RAN == ["Rome"]
    assert (again.content, again.artifact) == ("sunny", [1])


async def test_an_async_tool_stays_async_and_runs_once_for_parallel_calls(memory):
    @tool
    async def weather(city: str) -> str:
        """The weather."""
        RAN.append(city)
        await asyncio.sleep(0)
        return "sunny"

    made = kept(weather, memory)
    assert made.coroutine is not None
    assert await asyncio.gather(*(made.ainvoke({"city": "Rome"}) for _ in range(3))) == ["sunny"] * 3
    assert RAN == ["Rome"]


async def test_a_sync_tool_awaited_is_cached_too(memory):
    made = kept(weather, memory)
    assert await made.ainvoke({"city": "Rome"}) == await made.ainvoke({"city": "Rome"}) == "sunny in Rome, 20 C"
    assert made.invoke({"city": "Rome"}) == "sunny in Rome, 20 C"
    assert RAN == ["Rome"]


async def test_a_class_with_both_methods_shares_one_entry(memory):
    class Both(Subclass):
        async def _arun(self, city: str) -> str:
            RAN.append(f"async {city}")
            return "sunny"

    made = kept(Both(), memory)
    assert await made.ainvoke({"city": "Rome"}) == "sunny"
    assert made.invoke({"city": "Rome"}) == "sunny"
    assert RAN == ["async Rome"]


def test_a_tool_nobody_registered_runs_each_time_and_makes_reads_stale(memory):
    @tool
    def move(city: str) -> str:
        """Change something."""
        return "moved"

    memory.tools.register("weather")
    read, write = cached_tools([weather, move], memory)
    read.invoke({"city": "Rome"})
    write.invoke({"city": "Rome"})
    read.invoke({"city": "Rome"})
    assert RAN == ["Rome", "Rome"]


def test_errors_reach_the_caller_as_before_and_are_not_kept(memory):
    @tool
    def weather(city: str) -> str:
        """The weather."""
        RAN.append(city)
        raise ToolException("closed")

    weather.handle_tool_error = True
    made = kept(weather, memory)
    call = {"name": "weather", "args": {"city": "Rome"}, "id": "a", "type": "tool_call"}
    assert [made.invoke(call).status for _ in range(2)] == ["error", "error"]
    assert RAN == ["Rome", "Rome"]


def test_a_command_and_an_interrupt_belong_to_their_run(memory):
    @tool
    def weather(city: str) -> Command:
        """A command."""
        RAN.append(city)
        return Command(update={"seen": city})

    made = kept(weather, memory)
    assert made.invoke({"city": "Rome"}) == made.invoke({"city": "Rome"}) == Command(update={"seen": "Rome"})
    assert RAN == ["Rome", "Rome"]

    @tool
    def asked(city: str) -> str:
        """Ask a person."""
        return f"a person says {interrupt('look')}"

    model = ScriptedModel(script=[calling("asked", {"city": "Rome"}), AIMessage("done")])
    agent = create_agent(model, [kept(asked, memory)], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    assert agent.invoke(user("?"), config)["__interrupt__"][0].value == "look"
    assert agent.invoke(Command(resume="rain"), config)["messages"][2].content == "a person says rain"


def test_injected_arguments_reach_the_tool_and_never_the_key(memory):
    @tool
    def whose(city: str, state: Annotated[dict, InjectedState]) -> str:
        """Whose."""
        RAN.append(len(state["messages"]))
        return f"{len(state['messages'])} messages"

    made = kept(whose, memory)
    model = ScriptedModel(
        script=[calling("whose", {"city": "x"}), calling("whose", {"city": "x"}, id="c2"), AIMessage("done")]
    )
    out = create_agent(model, [made]).invoke(user("?"))
    assert [m.content for m in out["messages"] if isinstance(m, ToolMessage)] == ["2 messages", "4 messages"]
    memory.tools.register("whose", key=lambda args: args)
    model = ScriptedModel(script=model.script)
    out = create_agent(model, [made]).invoke(user("?"))
    assert [m.content for m in out["messages"] if isinstance(m, ToolMessage)] == ["2 messages", "2 messages"]


def test_a_tool_that_reads_the_config_is_not_cached_without_a_key(memory):
    class Configured(Subclass):
        def _run(self, city: str, config: RunnableConfig) -> str:
            RAN.append(config["configurable"]["user"])
            return RAN[-1]

    made = kept(Configured(), memory)
    answers = [made.invoke({"city": "Rome"}, {"configurable": {"user": name}}) for name in ("ada", "bob")]
    assert answers == ["ada", "bob"]


def test_scopes_keep_apart_and_a_scope_can_be_found_at_each_call(opened):
    memory = opened(default_scope=None)
    memory.tools.register("weather")
    (made,) = cached_tools([weather], memory, scope=lambda config: config["configurable"]["user"])
    for name in ("ada", "bob", "ada"):
        made.invoke({"city": "Rome"}, {"configurable": {"user": name}})
    assert RAN == ["Rome", "Rome"]
    (ownerless,) = cached_tools([weather], memory)
    with pytest.raises(ScopeRequired):
        ownerless.invoke({"city": "Rome"})


def test_what_is_no_tool_is_refused(memory):
    with pytest.raises(InvalidInput, match="decorate a function with @tool"):
        cached_tools([lambda city: city], memory)


@pytest.mark.filterwarnings("ignore::langchain_core._api.deprecation.LangChainDeprecationWarning")
def test_it_works_in_the_classic_agent_executor_with_chain_memory(memory):
    from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
    from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

    from langchain_tiered_memory import TieredChainMemory

    prompt = ChatPromptTemplate.from_messages(
        [MessagesPlaceholder("history"), ("human", "{input}"), MessagesPlaceholder("agent_scratchpad")]
    )
    model = ScriptedModel(
        script=[
            calling("weather", {"city": "Rome"}),
            AIMessage("Sunny."),
            calling("weather", {"city": "Rome"}),
            AIMessage("Still."),
        ]
    )
    made = [kept(weather, memory)]
    executor = AgentExecutor(
        agent=create_tool_calling_agent(model, made, prompt),
        tools=made,
        memory=TieredChainMemory(memory=memory, session_id="s", return_messages=True, input_key="input"),
    )
    assert executor.invoke({"input": "Rome?"})["output"] == "Sunny."
    assert executor.invoke({"input": "And now?"})["output"] == "Still."
    assert RAN == ["Rome"]
    assert [m["content"] for m in memory.context("s").history()] == ["Rome?", "Sunny.", "And now?", "Still."]


class Plainest(BaseTool):
    """A tool whose method has no docstring: a schema shows the base class's."""

    name: str = "weather"
    description: str = "The weather in a city."

    def _run(self, city: str) -> str:
        return city


def test_the_full_schema_of_a_tool_that_is_a_class_is_the_same_to_the_word(memory):
    (ours,) = cached_tools([Plainest()], memory)
    assert ours.get_input_schema().model_json_schema() == Plainest().get_input_schema().model_json_schema()


def test_in_a_graph_of_ones_own_what_a_person_answered_is_not_kept(memory):
    @tool
    def ask(question: str) -> str:
        """Ask a person."""
        return interrupt(question)

    memory.tools.register("ask")
    graph = StateGraph(MessagesState).add_node("tools", ToolNode(cached_tools([ask], memory))).add_edge(START, "tools")
    app = graph.compile(checkpointer=InMemorySaver())
    for answer in ("rain", "snow"):
        thread = {"configurable": {"thread_id": answer}}
        assert app.invoke({"messages": [calling("ask", {"question": "sky?"})]}, thread)["__interrupt__"]
        assert app.invoke(Command(resume=answer), thread)["messages"][-1].content == answer


def test_a_call_is_forgotten_by_what_it_named_though_the_tool_fills_in_more(memory):
    made = kept(weather, memory)
    assert made.invoke({"city": "Rome"}) == made.invoke({"city": "Rome", "unit": "C"}) == "sunny in Rome, 20 C"
    assert memory.tools.invalidate("weather", {"city": "Rome"}) == 1
    made.invoke({"city": "Rome"})
    assert RAN == ["Rome", "Rome"]


def test_a_tool_whose_arguments_are_a_model_of_pydantic_1_is_kept_like_any_other(memory):
    class Place(v1.BaseModel):
        city: str
        unit: str = "C"

    given = StructuredTool.from_function(
        lambda city, unit: RAN.append(city) or f"{city} {unit}", name="place", description="d", args_schema=Place
    )
    made = kept(given, memory)
    assert [made.invoke({"city": "Rome"}) for _ in range(2)] == ["Rome C"] * 2
    assert (RAN, memory.tools.invalidate("place", {"city": "Rome"})) == (["Rome"], 1)
