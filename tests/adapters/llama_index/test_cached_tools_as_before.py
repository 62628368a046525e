"""What ``cached_tools`` promises: the tools behave as before, their outputs too, and tools of every kind."""

import copy
import dataclasses
import datetime as dt

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.llms.mock import MockLLM
from llama_index.core.tools import AsyncBaseTool, FunctionTool, QueryEngineTool, ToolMetadata, ToolOutput
from llama_index.core.tools.calling import acall_tool, call_tool
from llama_index.core.workflow import Context
from pydantic import Field

from llama_index_tiered_memory import cached_tools
from llama_index_tiered_memory.convert import TextInstead
from tests.adapters.llama_index.shared import cached


class TestTheToolStaysTheTool:
    def test_the_given_tool_is_untouched_and_the_cached_one_looks_the_same(self, memory, counted):
        given = FunctionTool.from_defaults(counted.lookup, return_direct=True)
        tool = cached(memory, given, register={})
        given.call(city="Rome"), given.call(city="Rome")
        assert len(counted.calls) == 2
        assert isinstance(tool, FunctionTool)
        assert tool.metadata is given.metadata
        assert tool.metadata.return_direct
        assert tool.real_fn == given.real_fn

    def test_partial_parameters_are_part_of_the_call(self, memory, counted):
        memory.tools.register("lookup")
        c, f = cached_tools(
            [FunctionTool.from_defaults(counted.lookup, partial_params={"unit": unit}) for unit in "CF"], memory
        )
        assert [c(city="Rome").content, f(city="Rome").content, c(city="Rome").content] == [
            "Rome 20C",
            "Rome 20F",
            "Rome 20C",
        ]
        assert len(counted.calls) == 2

    @pytest.mark.skipif(
        not hasattr(FunctionTool.from_defaults(len, name="f", description="d"), "_field_defaults"),
        reason="this release passes the field itself",
    )
    def test_defaults_given_as_pydantic_fields_are_filled_in(self, memory):
        runs = []

        def find(q: str, limit: int = Field(default=3, description="how many")) -> str:
            """Find."""
            runs.append((q, limit))
            return f"{q} {limit}"

        tool = cached(memory, find, register={})
        assert tool(q="a").content == tool(q="a", limit=3).content == "a 3"
        assert runs == [("a", 3)]

    def test_extra_named_arguments_are_told_apart(self, memory):
        def anything(**facts: str) -> str:
            """Anything."""
            return str(sorted(facts.items()))

        tool = cached(memory, anything, register={})
        assert tool(a="1").content != tool(b="1").content
        assert tool(a="1", b="2").content == tool(b="2", a="1").content

    def test_what_the_callback_made_of_a_result_is_what_is_kept(self, memory, counted):
        tool = cached(memory, FunctionTool.from_defaults(counted.lookup, callback=lambda raw: f"<{raw}>"), register={})
        assert [tool(city="Rome").content, tool(city="Rome").content] == ["<Rome 20C>"] * 2
        assert len(counted.calls) == 1

    async def test_an_async_callback_works(self, memory, counted):
        async def callback(raw):
            return f"<{raw}>"

        tool = cached(memory, FunctionTool.from_defaults(counted.lookup, async_callback=callback), register={})
        assert [(await tool.acall(city="Rome")).content for _ in range(2)] == ["<Rome 20C>"] * 2

    async def test_return_direct_ends_the_run_with_the_tools_words(self, memory, counted, script):
        tool = cached(memory, FunctionTool.from_defaults(counted.lookup, return_direct=True), register={})
        for _ in range(2):
            model = script(lambda m: [("lookup", {"city": "Rome"})])
            assert str(await FunctionAgent(llm=model.llm, tools=[tool]).run("Rome?")) == "Rome 20C"
        assert len(counted.calls) == 1

    async def test_a_subclass_of_function_tool_keeps_its_own_methods(self, memory, counted):
        class Shouting(FunctionTool):
            def call(self, *args, **kwargs):
                output = super().call(*args, **kwargs)
                output.content = output.content.upper()
                return output

        tool = cached(memory, Shouting.from_defaults(counted.lookup), register={})
        assert isinstance(tool, Shouting)
        assert [tool(city="Rome").content, tool(city="Rome").content] == ["ROME 20C"] * 2
        assert len(counted.calls) == 1

    def test_a_copied_tool_uses_the_same_cache(self, memory):
        def lookup(city: str) -> str:
            """Look up."""
            return city

        tool = cached(memory, lookup, register={})
        tool(city="Rome")
        copy.deepcopy(tool)(city="Rome")
        assert memory.stats()["mid_term"]["tools"]["hits"] == 1


class TestWorkflowContext:
    @staticmethod
    def counting():
        runs = []

        async def note(ctx: Context, q: str) -> str:
            """Note in the run's state."""
            runs.append(q)
            await ctx.store.set("noted", q)
            return f"noted {q} by a run"

        return note, runs

    async def run_twice(self, tool, script):
        for _ in range(2):
            model = script(lambda m: "Done." if m[-1].role == "tool" else [("note", {"q": "x"})])
            agent = FunctionAgent(llm=model.llm, tools=[tool])
            context = Context(agent)
            await agent.run("Note x", ctx=context)
            yield model.prompts[-1][-1].content, await context.store.get("noted", default=None)

    async def test_a_tool_that_takes_the_context_gets_it_and_is_executed_always(self, memory, script):
        note, runs = self.counting()
        tool = cached(memory, note, register={})
        assert [out async for out in self.run_twice(tool, script)] == [("noted x by a run", "x")] * 2
        assert runs == ["x", "x"]

    async def test_with_an_explicit_key_it_is_kept_and_the_context_is_no_part_of_the_key(self, memory, script):
        note, runs = self.counting()
        tool = cached(memory, note, register={"key": lambda args: args})
        assert [out async for out in self.run_twice(tool, script)] == [
            ("noted x by a run", "x"),
            ("noted x by a run", None),
        ]
        assert runs == ["x"]

    async def test_an_unregistered_tool_with_the_context_works(self, memory, script):
        note, _runs = self.counting()
        tool = cached(memory, note)
        assert [out async for out in self.run_twice(tool, script)] == [("noted x by a run", "x")] * 2

    async def test_without_the_context_it_says_what_function_tool_says(self, memory):
        note, _ = self.counting()
        tool = cached(memory, note, register={"key": lambda args: args})
        with pytest.raises(ValueError, match="Context is required for this tool"):
            await tool.acall(q="x")


@dataclasses.dataclass
class Report:
    body: str


class TestOutputs:
    @pytest.mark.parametrize(
        "raw",
        [None, False, "", 0, [], {}, 1.5, "好", b"\x00", (1, (2,)), {1, 2}, {"deep": [{"x": None}]},
         dt.datetime(2024, 1, 2, tzinfo=dt.UTC)],
        ids=repr,
    )  # fmt: skip
    def test_a_raw_output_of_a_plain_type_comes_back_equal_and_of_the_same_type(self, memory, raw):
        def give(q: str):
            """Give."""
            return raw

        tool = cached(memory, FunctionTool.from_defaults(give), register={})
        first, second = tool(q="x"), tool(q="x")
        assert second == first
        assert type(second.raw_output) is type(raw)
        assert memory.stats()["mid_term"]["tools"]["hits"] == 1

    def test_a_raw_output_of_another_type_is_given_once_and_marked_by_its_text_afterwards(self, memory):
        def give(q: str):
            """Give."""
            return Report("ready")

        tool = cached(memory, FunctionTool.from_defaults(give), register={})
        first, second = tool(q="x"), tool(q="x")
        assert first.raw_output == Report("ready")
        assert isinstance(second.raw_output, TextInstead)
        assert second.raw_output == second.content == first.content

    def test_blocks_that_are_no_text_come_back_equal(self, memory):
        def picture(q: str):
            """Show."""
            return [TextBlock(text="see"), ImageBlock(url="https://example.org/a.png")]

        tool = cached(memory, FunctionTool.from_defaults(picture), register={})
        first, second = tool(q="x"), tool(q="x")
        assert [block.model_dump() for block in second.blocks] == [block.model_dump() for block in first.blocks]
        assert memory.stats()["mid_term"]["tools"]["hits"] == 1

    def test_changing_an_output_changes_nothing_kept(self, memory):
        def give(q: str):
            """Give."""
            return {"list": [1]}

        tool = cached(memory, FunctionTool.from_defaults(give), register={})
        for _ in range(3):
            output = tool(q="x")
            assert output.raw_output == {"list": [1]}
            assert output.content == "{'list': [1]}"
            output.raw_output["list"].append(2)
            output.blocks[0].text = "changed"

    def test_a_hit_reports_the_input_of_its_own_call(self, memory, counted):
        tool = cached(memory, counted.lookup, register={})
        tool("Rome")
        assert tool(city="Rome").raw_input == {"args": (), "kwargs": {"city": "Rome"}}
        assert tool("Rome").raw_input == {"args": ("Rome",), "kwargs": {}}

    async def test_a_cached_output_can_go_into_a_chat_message(self, memory, counted):
        tool = cached(memory, counted.lookup, register={})
        for _ in range(2):
            message = ChatMessage(role="tool", blocks=(await tool.acall(city="Rome")).blocks)
            assert message.content == "Rome 20C"


class Single(AsyncBaseTool):
    """A tool that is no FunctionTool, takes one argument by position or name, and counts its runs."""

    def __init__(self, fail=False):
        self.runs = []
        self.fail = fail

    @property
    def metadata(self):
        return ToolMetadata(name="single", description="d")

    def call(self, input):
        self.runs.append(input)
        if self.fail:
            raise ValueError("it failed")
        return ToolOutput(content=f"got {input}", tool_name="single", raw_input={"input": input}, raw_output=input)

    async def acall(self, input):
        return self.call(input)


class TestOtherTools:
    async def test_they_are_cached_by_position_and_name_alike(self, memory):
        given = Single()
        tool = cached(memory, given, register={})
        outputs = [
            tool("x"),
            tool(input="x"),
            await tool.acall("x"),
            await tool.acall(input="x"),
            call_tool(tool, {"input": "x"}),
        ]
        assert {output.content for output in outputs} == {"got x"}
        assert given.runs == ["x"]

    async def test_one_that_raises_runs_once_where_llama_index_would_run_it_twice(self, memory):
        plain, given = Single(fail=True), Single(fail=True)
        call_tool(plain, {"input": "x"})
        assert plain.runs == ["x", "x"], "what happens without us"
        tool = cached(memory, given, register={})
        for output in (call_tool(tool, {"input": "x"}), await acall_tool(tool, {"input": "x"})):
            assert output.is_error
            assert output.content == "Encountered error: it failed"
            assert str(output._exception) == "it failed"
        assert given.runs == ["x", "x"], "once for each of the two calls"

    def test_a_query_engine_tool_is_cached(self, memory):
        from llama_index.core.query_engine import CustomQueryEngine

        runs = []

        class Engine(CustomQueryEngine):
            def custom_query(self, query_str: str) -> str:
                runs.append(query_str)
                return f"answer to {query_str}"

        tool = cached(memory, QueryEngineTool.from_defaults(Engine(), name="ask", description="d"), register={})
        assert tool("q").content == tool(input="q").content == "answer to q"
        assert runs == ["q"]

    def test_what_only_the_tool_has_is_found_so_a_router_can_choose_among_cached_query_engines(self, memory):
        from llama_index.core.query_engine import CustomQueryEngine, RouterQueryEngine
        from llama_index.core.selectors import LLMSingleSelector

        class Engine(CustomQueryEngine):
            def custom_query(self, query_str: str) -> str:
                return f"answer to {query_str}"

        engine = Engine()
        tool = cached(memory, QueryEngineTool.from_defaults(engine, name="ask", description="d"))
        assert tool.query_engine is engine
        assert copy.deepcopy(tool).query_engine.custom_query("q") == "answer to q"
        router = RouterQueryEngine.from_defaults(
            [tool], llm=MockLLM(), selector=LLMSingleSelector.from_defaults(MockLLM())
        )
        assert router._query_engines == [engine]
        with pytest.raises(AttributeError):
            _ = tool.no_such_thing
