"""A cached tool behaves as the tool it was made of: LlamaIndex's own rules for tools, asked of both."""

import asyncio
from typing import Annotated

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import TextBlock
from llama_index.core.tools import FunctionTool, ToolOutput
from llama_index.core.tools.calling import acall_tool, call_tool
from llama_index.core.workflow import Context
from pydantic import BaseModel

from llama_index_tiered_memory import cached_tools


@pytest.fixture(params=["stock", "cached", "cached a second time", "ours but not registered"])
def made(request, memory):
    """Turn a FunctionTool into the one to ask; "a second time" asks once before, so that the answer is a kept one."""

    def make(tool, asked=None):
        if request.param == "stock":
            return tool
        (out,) = cached_tools([tool], memory)
        if "registered" not in request.param:
            memory.tools.register(out.metadata.get_name())
        if "second" in request.param and asked is not None:
            out.call(**asked)
        return out

    return make


def of(fn, **options):
    return FunctionTool.from_defaults(fn, **options)


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


async def aadd(a: int, b: int = 2) -> int:
    """Add two numbers, later."""
    await asyncio.sleep(0)
    return a + b


class Place(BaseModel):
    name: str


class TestItsFace:
    def test_name_description_and_schema_are_the_functions(self, made):
        tool = made(of(add))
        assert tool.metadata.name == "add"
        assert "Add two numbers." in tool.metadata.description
        assert sorted(tool.metadata.get_parameters_dict()["properties"]) == ["a", "b"]
        assert tool.metadata.get_parameters_dict()["required"] == ["a"]
        assert tool.metadata.to_openai_tool()["function"]["name"] == "add"

    def test_a_name_of_its_own_and_annotations_are_kept(self, made):
        def find(city: Annotated[str, "where to look"]) -> str:
            """Find."""
            return city

        tool = made(of(find, name="find_city", description="Finds."))
        assert (tool.metadata.name, tool.metadata.description) == ("find_city", "Finds.")
        assert tool.metadata.get_parameters_dict()["properties"]["city"]["description"] == "where to look"

    def test_it_is_a_function_tool_and_can_be_called(self, made):
        tool = made(of(add))
        assert isinstance(tool, FunctionTool)
        assert tool.real_fn is add


class TestItsCalls:
    def test_a_call_gives_an_output_with_content_name_input_and_raw_value(self, made):
        output = made(of(add), {"a": 1}).call(a=1)
        assert isinstance(output, ToolOutput)
        assert (output.content, output.tool_name, output.raw_output, output.is_error) == ("3", "add", 3, False)
        assert output.raw_input["kwargs"]["a"] == 1
        assert str(output) == "3"

    def test_it_is_called_by_position_too(self, made):
        assert made(of(add), {"a": 4}).call(4).raw_output == 6
        assert made(of(add), {"a": 4, "b": 1})(4, 1).raw_output == 5

    async def test_a_plain_function_is_awaited_in_a_thread(self, made):
        assert (await made(of(add), {"a": 1}).acall(a=1)).raw_output == 3

    async def test_a_coroutine_function_is_awaited(self, made):
        tool = made(FunctionTool.from_defaults(async_fn=aadd))
        assert (await tool.acall(a=1)).raw_output == 3

    def test_a_coroutine_function_can_be_called_without_a_loop(self, made):
        assert made(FunctionTool.from_defaults(async_fn=aadd)).call(a=1).raw_output == 3

    def test_a_tool_output_that_the_function_made_itself_is_what_comes(self, made):
        def own(a: int) -> ToolOutput:
            """Own."""
            return ToolOutput(content="mine", tool_name="own", raw_input={}, raw_output=a)

        assert made(of(own), {"a": 1}).call(a=1).content == "mine"

    def test_blocks_that_the_function_returns_are_its_content(self, made):
        def blocks(a: int) -> list[TextBlock]:
            """Blocks."""
            return [TextBlock(text="one"), TextBlock(text=str(a))]

        assert [block.text for block in made(of(blocks), {"a": 2}).call(a=2).blocks] == ["one", "2"]

    def test_partial_parameters_are_filled_in_and_can_be_overridden(self, made):
        tool = made(of(add, partial_params={"b": 10}), {"a": 1})
        assert tool.call(a=1).raw_output == 11
        assert tool.call(a=1, b=1).raw_output == 2

    def test_a_callback_has_the_last_word(self, made):
        tool = made(of(add, callback=lambda result: f"<{result}>"), {"a": 1})
        assert tool.call(a=1).content == "<3>"

    def test_a_model_as_an_argument_arrives_as_it_was_given(self, made):
        def visit(place: Place) -> str:
            """Visit."""
            return place.name

        assert made(of(visit), {"place": Place(name="Graz")}).call(place=Place(name="Graz")).content == "Graz"


class TestItsFailures:
    @pytest.fixture
    def failing(self):
        runs = []

        def fail(a: int, b: int = 0) -> str:  # of one argument, older releases run it twice by this hand
            """Fail."""
            runs.append(a)
            raise ValueError("no")

        return of(fail), runs

    def test_what_it_raises_is_raised(self, made, failing):
        with pytest.raises(ValueError, match="no"):
            made(failing[0]).call(a=1)

    async def test_called_by_an_agents_hand_it_runs_once_and_is_an_error_output(self, made, failing):
        tool, runs = failing
        tool = made(tool)
        output, also = call_tool(tool, {"a": 1}), await acall_tool(tool, {"a": 1})
        assert output.is_error
        assert also.is_error
        assert "no" in output.content
        assert len(runs) == 2

    def test_a_wrong_argument_is_a_type_error(self, made):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            made(of(add)).call(a=1, c=2)


class TestInAnAgent:
    async def test_the_context_is_injected_and_can_be_written(self, made, script):
        async def note(ctx: Context, text: str) -> str:
            """Note."""
            await ctx.store.set("noted", text)
            return "noted"

        model = script(lambda m: "Done." if m[-1].role == "tool" else [("note", {"text": "hello"})])
        agent = FunctionAgent(llm=model.llm, tools=[made(FunctionTool.from_defaults(async_fn=note))])
        context = Context(agent)
        await agent.run("note it", ctx=context)
        assert await context.store.get("noted") == "hello"

    async def test_return_direct_ends_the_run(self, made, script):
        model = script(lambda m: [("add", {"a": 1})])
        agent = FunctionAgent(llm=model.llm, tools=[made(of(add, return_direct=True))])
        assert str(await agent.run("add")) == "3"
        assert len(model.prompts) == 1

    async def test_the_events_of_a_run_name_the_call_and_its_result(self, made, script):
        from llama_index.core.agent.workflow import ToolCallResult

        model = script(lambda m: "Done." if m[-1].role == "tool" else [("add", {"a": 1})])
        handler = FunctionAgent(llm=model.llm, tools=[made(of(add))]).run("add")
        results = [event async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
        await handler
        assert [(one.tool_name, one.tool_kwargs, one.tool_output.content) for one in results] == [
            ("add", {"a": 1}, "3")
        ]
