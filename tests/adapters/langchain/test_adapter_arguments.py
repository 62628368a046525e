"""What every adapter is made of is checked when it is made, and a slip is an error."""

import copy
import logging
import pickle

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from langchain_tiered_memory import (
    TieredByteStore,
    TieredChainMemory,
    TieredChatMessageHistory,
    TieredLLMCache,
    TieredMemoryMiddleware,
    TieredNodeCache,
    TieredPromptPlanMiddleware,
    TieredRecallMiddleware,
    TieredResponseCacheMiddleware,
    TieredRetriever,
    TieredStore,
    TieredToolCacheMiddleware,
    cached_tools,
    memory_tools,
)
from shared_core import InvalidInput
from tests.adapters.langchain.fakes import ScriptedModel, calling, user

MAKE = {
    "middleware": TieredMemoryMiddleware,
    "recall middleware": TieredRecallMiddleware,
    "tool cache middleware": TieredToolCacheMiddleware,
    "response cache middleware": TieredResponseCacheMiddleware,
    "prompt plan middleware": TieredPromptPlanMiddleware,
    "llm cache": TieredLLMCache,
    "node cache": TieredNodeCache,
    "byte store": TieredByteStore,
    "store": TieredStore,
    "history": lambda memory, **given: TieredChatMessageHistory(memory, session_id="s", **given),
    "chain memory": lambda memory, **given: TieredChainMemory(memory=memory, session_id="s", **given),
    "retriever": lambda memory, **given: TieredRetriever(memory=memory, **given),
    "cached tools": lambda memory, **given: cached_tools([], memory, **given),
    "memory tools": memory_tools,
}


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@tool
def now() -> str:
    """The time."""
    return "12:00"


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_a_path_is_no_memory_and_a_number_no_scope(make, memory):
    with pytest.raises(InvalidInput, match=r"^expected a TieredMemory, got 'x.db'; write TieredMemory.open\('x.db'\)$"):
        make("x.db")
    with pytest.raises(
        InvalidInput, match=r"^scope: expected a non-empty string, a function that returns one, or None"
    ):
        make(memory, scope=7)
    make(memory, scope="ada")


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_a_keyword_that_is_misspelt_is_an_error(make, memory):
    with pytest.raises((TypeError, ValueError), match="scoop"):
        make(memory, scoop="ada")


@pytest.mark.parametrize("kind", [TieredChainMemory, TieredRetriever])
def test_a_memory_by_position_is_answered_with_the_keyword(kind, memory):
    with pytest.raises(
        InvalidInput, match=rf"{kind.__name__}: expected keywords, .*write {kind.__name__}\(memory=memory"
    ):
        kind(memory)


@pytest.mark.parametrize("name", ["middleware", "llm cache", "node cache", "byte store", "store", "history"])
@pytest.mark.parametrize("carry", [pickle.dumps, copy.deepcopy])
def test_what_holds_the_file_says_to_open_it_again(name, carry, memory):
    with pytest.raises(TypeError, match=r"open the file again in the child: TieredMemory.open\(path\)"):
        carry(MAKE[name](memory))


@pytest.mark.parametrize("wrong", [weather, "weather", None])
def test_one_tool_in_the_place_of_a_list_is_refused(wrong, memory):
    with pytest.raises(InvalidInput, match=r"tools: expected a list of tools, .*write \[tool\] for one"):
        cached_tools(wrong, memory)


def test_swapped_arguments_are_recognised(memory):
    with pytest.raises(InvalidInput, match=r"got a TieredMemory; write cached_tools\(tools, memory\)"):
        cached_tools(memory, [weather])


def ask(memory, opted, model=None):
    model = model or ScriptedModel(script=[AIMessage("done")])
    agent = create_agent(model, [weather, now], middleware=[TieredMemoryMiddleware(memory, tools=opted)])
    for _ in range(2):
        agent.invoke(user("?"))


def test_a_name_in_tools_that_the_agent_does_not_have_is_warned_about_once(memory, caplog):
    ask(memory, ["wether"])
    assert [r.getMessage() for r in caplog.records] == ["tools=: the agent has no tool 'wether', it has now, weather"]
    assert caplog.records[0].levelno == logging.WARNING


def test_names_that_are_there_are_not(memory, caplog):
    ask(memory, ["weather", now])
    assert not caplog.records


def test_a_tool_nobody_opted_in_is_named_when_it_costs_results(memory, caplog):
    script = [calling("weather", {"city": "Graz"}, id="a"), calling("now", {}, id="b"), AIMessage("done")]
    ask(memory, ["weather"], ScriptedModel(script=script))
    assert ["now" in r.getMessage() for r in caplog.records] == [True]
    assert memory.stats()["mid_term"]["tools"]["bypassed_tools"] == {"now": 1}


def test_a_plain_function_among_the_middlewares_tools_is_answered_with_its_name(memory):
    """``create_agent`` takes functions; the middleware is told names."""

    def get_weather(city):
        return city

    with pytest.raises(
        InvalidInput, match=r"^tools: expected names or LangChain tools, got <function .*'get_weather'$"
    ):
        TieredMemoryMiddleware(memory, tools=[get_weather])
