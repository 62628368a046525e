"""What ``cached_tools`` promises: the tools behave as before, and registered ones run once for one call."""

import asyncio
import copy
import dataclasses
import datetime as dt
import threading
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.llms.mock import MockLLM
from llama_index.core.tools import AsyncBaseTool, FunctionTool, QueryEngineTool, ToolMetadata, ToolOutput, calling
from llama_index.core.tools.calling import acall_tool, call_tool
from llama_index.core.workflow import Context
from pydantic import Field

from llama_index_tiered_memory import cached_tools
from llama_index_tiered_memory.convert import TextInstead
from shared_core import InvalidInput, ScopeRequired


class Counted:
    """A tool's function, and how often it ran with what."""

    def __init__(self):
        self.calls = []

    def lookup(self, city: str, unit: str = "C") -> str:
        """Look up the weather."""
        self.calls.append((city, unit))
        return f"{city} 20{unit}"


@pytest.fixture
def counted():
    return Counted()


def cached(memory, tool, *, register: dict[str, Any] | None = None, **options):
    (out,) = cached_tools([tool], memory, **options)
    if register is not None:
        memory.tools.register(out.metadata.get_name(), **register)
    return out


class TestOneCallOneExecution:
    def test_the_same_call_runs_once(self, memory, counted):
        tool = cached(memory, counted.lookup, register={})
        first, second = tool.call(city="Rome"), tool.call(city="Rome")
        assert first.content == second.content == "Rome 20C"
        assert counted.calls == [("Rome", "C")]

    def test_positional_named_and_default_arguments_make_one_key(self, memory, counted):
        tool = cached(memory, counted.lookup, register={})
        for output in (
            tool("Rome"),
            tool("Rome", "C"),
            tool(city="Rome"),
            tool(unit="C", city="Rome"),
            tool.call("Rome"),
        ):
            assert output.content == "Rome 20C"
        assert len(counted.calls) == 1

    def test_other_arguments_are_another_call(self, memory, counted):
        tool = cached(memory, counted.lookup, register={})
        assert [tool(city="Rome").content, tool(city="Oslo").content, tool(city="Rome", unit="F").content] == [
            "Rome 20C", "Oslo 20C", "Rome 20F",
        ]  # fmt: skip

    async def test_the_async_and_the_sync_call_share_a_result(self, memory, counted):
        tool = cached(memory, counted.lookup, register={})
        assert (await tool.acall(city="Rome")).content == tool.call(city="Rome").content
        assert len(counted.calls) == 1

    async def test_identical_calls_at_once_execute_once(self, memory):
        runs = []

        async def slow(q: str) -> str:
            """Search."""
            runs.append(q)
            await asyncio.sleep(0.05)
            return f"found {q}"

        tool = cached(memory, FunctionTool.from_defaults(async_fn=slow), register={})
        outputs = await asyncio.gather(*(tool.acall(q="x") for _ in range(6)))
        assert [output.content for output in outputs] == ["found x"] * 6
        assert runs == ["x"]
        assert len({id(output) for output in outputs}) == 6

    def test_identical_calls_of_threads_at_once_execute_once(self, memory):
        runs, gate, outputs = [], threading.Event(), []

        def slow(q: str) -> str:
            """Search."""
            runs.append(q)
            gate.wait(5)
            return f"found {q}"

        tool = cached(memory, slow, register={})
        threads = [threading.Thread(target=lambda: outputs.append(tool.call(q="x").content)) for _ in range(4)]
        for thread in threads:
            thread.start()
        gate.set()
        for thread in threads:
            thread.join()
        assert outputs == ["found x"] * 4
        assert runs == ["x"]

    async def test_an_agent_that_asks_twice_pays_once(self, memory, counted, script):
        tool = cached(memory, counted.lookup, register={})
        for _ in range(2):
            model = script(lambda m: "20 degrees." if m[-1].role == "tool" else [("lookup", {"city": "Rome"})])
            result = await FunctionAgent(llm=model.llm, tools=[tool]).run("The weather in Rome?")
            assert str(result) == "20 degrees."
            assert model.prompts[-1][-1].content == "Rome 20C"
        assert len(counted.calls) == 1

    def test_another_process_finds_the_result_in_the_file(self, open_memory, counted):
        cached(open_memory(), counted.lookup, register={}).call(city="Rome")
        other = cached(open_memory(), counted.lookup, register={})
        assert other.call(city="Rome").content == "Rome 20C"
        assert len(counted.calls) == 1

    def test_a_result_expires(self, memory, counted, clock):
        tool = cached(memory, counted.lookup, register={"ttl": 60})
        tool(city="Rome")
        clock.advance(61)
        tool(city="Rome")
        assert len(counted.calls) == 2

    def test_a_declared_argument_is_watched_although_it_is_given_by_position(self, memory, tmp_path):
        path = tmp_path / "a.txt"
        path.write_text("old")

        def read(path: str) -> str:
            """Read a file."""
            with Path(path).open() as file:
                return file.read()

        tool = cached(memory, read, register={"reads": "path"})
        assert tool(str(path)).content == "old"
        path.write_text("new")
        assert tool(path=str(path)).content == "new"


class TestOnlyWhatWasRegistered:
    def test_a_tool_that_nobody_registered_runs_every_time(self, memory, counted):
        tool = cached(memory, counted.lookup)
        tool(city="Rome"), tool(city="Rome")
        assert len(counted.calls) == 2

    def test_a_tool_that_nobody_registered_may_write_so_what_was_cached_is_stale_after_it(self, memory, counted):
        tool = cached(memory, counted.lookup, register={})

        def act(x: int) -> str:
            """Do something."""
            return "done"

        other = cached(memory, act)
        tool(city="Rome")
        other(x=1)
        tool(city="Rome")
        assert len(counted.calls) == 2

    def test_a_tool_registered_later_is_cached_from_then_on(self, memory, counted):
        tool = cached(memory, counted.lookup)
        memory.tools.register("lookup")
        tool(city="Rome"), tool(city="Rome")
        assert len(counted.calls) == 1


class TestFailures:
    @pytest.mark.skipif(
        not hasattr(calling, "_function_tool_accepts_kwargs"),
        reason="this release itself runs a tool that raises twice",
    )
    @pytest.mark.parametrize("registered", [None, {}])
    async def test_an_exception_runs_the_tool_once_and_is_not_kept(self, memory, registered):
        runs = []

        def broken(q: str) -> str:
            """Fail."""
            runs.append(q)
            raise ValueError(f"no {q}")

        tool = cached(memory, broken, register=registered)
        with pytest.raises(ValueError, match="no x"):
            tool.call(q="x")
        output = await acall_tool(tool, {"q": "x"})
        assert output.is_error
        assert call_tool(tool, {"q": "x"}).is_error
        assert runs == ["x"] * 3, "once for each of the three calls"

    def test_an_error_output_is_handed_out_and_not_kept(self, memory):
        runs = []

        def sick(q: str) -> str:
            """Answer with an error."""
            runs.append(q)
            return "sick"

        def mark(result):
            return ToolOutput(content="is an error", tool_name="sick", raw_input={}, raw_output=result, is_error=True)

        tool = cached(memory, FunctionTool.from_defaults(sick, callback=mark), register={})
        for _ in range(2):
            output = tool(q="x")
            assert output.is_error
            assert output.content == "is an error"
        assert runs == ["x", "x"]

    def test_a_call_with_wrong_arguments_says_what_the_function_says(self, memory, counted):
        tool = cached(memory, counted.lookup, register={})
        with pytest.raises(TypeError, match="unexpected keyword argument 'town'"):
            tool(town="Rome")
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'city'"):
            tool()

    async def test_a_wait_for_an_event_passes_through_and_is_not_kept(self, memory):
        from workflows.runtime.types.results import WaitingForEvent

        def ask(q: str) -> str:
            """Ask a person."""
            raise WaitingForEvent.__new__(WaitingForEvent)

        tool = cached(memory, ask, register={})
        for call in (lambda: tool.call(q="x"), lambda: asyncio.run(tool.acall(q="x"))):
            with pytest.raises(WaitingForEvent):
                await asyncio.to_thread(call)
        assert memory.stats()["mid_term"]["tools"]["entries"] == 0


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


class TestScopes:
    def test_two_scopes_never_share_a_result(self, memory, counted):
        memory.tools.register("lookup")
        for scope in ("ada", "bob", "ada"):
            cached(memory, counted.lookup, scope=scope)(city="Rome")
        assert len(counted.calls) == 2

    async def test_a_function_tells_the_scope_at_each_call(self, memory, counted):
        now = ["ada"]
        tool = cached(memory, counted.lookup, register={}, scope=lambda: now[0])
        tool(city="Rome")
        now[0] = "bob"
        await tool.acall(city="Rome")
        assert len(counted.calls) == 2

    def test_a_function_that_finds_nobody_is_an_error_and_not_the_default_user(self, memory, counted):
        tool = cached(memory, counted.lookup, register={}, scope=lambda: None)
        with pytest.raises(ScopeRequired, match="got None; whose memory is it"):
            tool(city="Rome")
        assert counted.calls == []

    def test_without_a_scope_and_a_default_it_refuses(self, open_memory, counted):
        with pytest.raises(ScopeRequired):
            cached_tools([counted.lookup], open_memory(default_scope=None))

    def test_something_that_is_no_tool_is_refused(self, memory):
        with pytest.raises(InvalidInput, match="tools: expected tools or functions, got 3"):
            cached_tools([3], memory)


async def test_cached_tools_work_across_a_handoff(memory, counted, script):
    tool = cached(memory, counted.lookup, register={})
    asking = script(
        lambda m: (
            [("handoff", {"to_agent": "second", "reason": "r"})]
            if m[-1].role == "tool"
            else [("lookup", {"city": "Rome"})]
        )
    )
    knowing = script(lambda m: "20C." if m[-1].content == "Rome 20C" else [("lookup", {"city": "Rome"})])
    workflow = AgentWorkflow(
        agents=[
            FunctionAgent(name="first", description="asks", llm=asking.llm, tools=[tool], can_handoff_to=["second"]),
            FunctionAgent(name="second", description="knows", llm=knowing.llm, tools=[tool]),
        ],
        root_agent="first",
    )
    assert str(await workflow.run(user_msg="Rome?")) == "20C."
    assert len(counted.calls) == 1
