"""Cached tools beside other middlewares: reviewers, signers, givers of tools. What is kept is what ran."""

import asyncio

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langchain_tiered_memory import TieredMemoryMiddleware
from tests.adapters.langchain.fakes import ScriptedModel, calling, user
from tests.adapters.langchain.tool_kit import answers, asking, counted


class Reviewer(HumanInTheLoopMiddleware):
    """A person decides about every call of the weather."""

    def __init__(self, **given):
        super().__init__(interrupt_on={"weather": True}, **given)


def reviewed(memory, tools, decision, thread, *, outer, model=None):
    """One question to an agent whose reviewer stands behind (``outer``) or before the memory; the last tool's answer."""
    parts = [TieredMemoryMiddleware(memory, tools=["weather"]), Reviewer()]
    agent = create_agent(
        model or asking("Rome"), tools, middleware=parts if outer else parts[::-1], checkpointer=InMemorySaver()
    )
    where = {"configurable": {"thread_id": thread}}
    agent.invoke(user("?"), where)
    return answers(agent.invoke(Command(resume={"decisions": [decision]}), where))[-1]


def edited(name, city):
    return {"type": "edit", "edited_action": {"name": name, "args": {"city": city}}}


@pytest.mark.parametrize("outer", [True, False])
def test_what_a_reviewer_made_of_a_call_is_kept_as_the_call_that_ran(memory, outer):
    """Rome is asked for four times; once Oslo runs instead, once nothing does, and Rome is still to be run, once."""
    weather, ran = counted()

    def decided(decision, thread):
        return reviewed(memory, [weather], decision, thread, outer=outer).content

    assert decided(edited("weather", "Oslo"), "t1").endswith("sunny in Oslo")
    assert "sunny" not in decided({"type": "reject", "message": "no"}, "t2")
    assert [decided({"type": "approve"}, f"t{i}") for i in (3, 4)] == ["sunny in Rome"] * 2
    assert ran == ["Oslo", "Rome"]


@pytest.mark.parametrize("outer", [True, False])
def test_a_tool_that_a_reviewer_put_in_another_ones_place_is_told_of(memory, outer):
    """The model asks to read, the reviewer has something written instead: what was read before is stale."""
    weather, ran = counted()

    @tool
    def wreck(city: str) -> str:
        """Nobody registered it, so it may change anything."""
        return f"wrecked {city}"

    assert reviewed(memory, [weather, wreck], {"type": "approve"}, "t1", outer=outer).content == "sunny in Rome"
    assert reviewed(memory, [weather, wreck], edited("wreck", "Rome"), "t2", outer=outer).content.endswith(
        "wrecked Rome"
    )
    reviewed(memory, [weather, wreck], {"type": "approve"}, "t3", outer=outer)
    assert ran == ["Rome", "Rome"]


@pytest.mark.parametrize("asynchronous", [True, False])
def test_what_another_middleware_adds_to_an_answer_is_added_to_a_kept_one_too_and_never_kept(memory, asynchronous):
    weather, ran = counted()

    class Signing(AgentMiddleware):
        def wrap_tool_call(self, request, handler):
            return self._signed(handler(request), request)

        async def awrap_tool_call(self, request, handler):
            return self._signed(await handler(request), request)

        def _signed(self, answer, request):
            return answer.model_copy(update={"content": f"{answer.content}, for {request.tool_call['id']}"})

    parts = [TieredMemoryMiddleware(memory, tools=["weather"]), Signing()]
    agent = create_agent(asking("Rome", "Rome"), [weather], middleware=parts)
    found = asyncio.run(agent.ainvoke(user("?"))) if asynchronous else agent.invoke(user("?"))
    assert [m.content for m in answers(found)] == ["sunny in Rome, for c0", "sunny in Rome, for c1"]
    assert ran == ["Rome"]


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_tool_that_only_another_middleware_has_is_run_each_time_and_makes_reads_stale(memory, asynchronous):
    weather, ran = counted()

    @tool
    def hidden(city: str) -> str:
        """Given by a middleware when it is called."""
        return f"hidden {city}"

    class Giving(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return handler(request.override(tools=[*request.tools, hidden]))

        async def awrap_model_call(self, request, handler):
            return await handler(request.override(tools=[*request.tools, hidden]))

        def wrap_tool_call(self, request, handler):
            return handler(request.override(tool=hidden) if request.tool is None else request)

        async def awrap_tool_call(self, request, handler):
            return await handler(request.override(tool=hidden) if request.tool is None else request)

    script = [calling(name, {"city": "Rome"}, id=f"c{i}") for i, name in enumerate(["weather", "hidden", "weather"])]
    agent = create_agent(
        ScriptedModel(script=[*script, AIMessage("done")]), [weather],
        middleware=[TieredMemoryMiddleware(memory, tools=["weather"]), Giving()],
    )  # fmt: skip
    found = asyncio.run(agent.ainvoke(user("?"))) if asynchronous else agent.invoke(user("?"))
    assert [m.content for m in answers(found)] == ["sunny in Rome", "hidden Rome", "sunny in Rome"]
    assert ran == ["Rome", "Rome"]
