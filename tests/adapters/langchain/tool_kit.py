"""A tool that counts its runs, and agents that ask for it: what the tests of cached tools share."""

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool

from langchain_tiered_memory import TieredMemoryMiddleware
from tests.adapters.langchain.fakes import ScriptedModel, calling


def counted(answer="sunny in {city}"):
    """A tool and the list of its executions."""
    ran = []

    @tool
    def weather(city: str) -> str:
        """The weather in a city."""
        ran.append(city)
        return answer.format(city=city)

    return weather, ran


def asking(*cities, name="weather"):
    """A model that calls the tool once per turn of the loop, then answers."""
    return ScriptedModel(
        script=[*(calling(name, {"city": c}, id=f"c{i}") for i, c in enumerate(cities)), AIMessage("done")]
    )


def twice():
    """An answer with two identical calls."""
    return AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Paris"}, "id": f"c{i}"} for i in range(2)])


def answers(result):
    return [m for m in result["messages"] if isinstance(m, ToolMessage)]


def agent_of(model, tools, memory, *, opted=("weather",), **given):
    return create_agent(model, tools, middleware=[TieredMemoryMiddleware(memory, tools=opted)], **given)
