"""``cached_tools(max_tokens=)``: what a model is shown of a giant result, within the run that asked for it."""

import pytest
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.workflow import Context

from llama_index_tiered_memory import TieredAgentMemory, cached_tools
from shared_core import InvalidInput, Settings
from shared_core.text import estimate_tokens

LOG = "\n".join(f"line {n} of the log" for n in range(20_000))  # some 160 000 tokens
LIMIT = 500


def read_log(input: str) -> str:
    """Read a log."""
    return LOG


def limited(memory, tool=read_log, **options):
    (made,) = cached_tools([tool], memory, **{"max_tokens": LIMIT, **options})
    return made


class Reader(AsyncBaseTool):
    """A tool that is no FunctionTool; ``fails`` says how."""

    def __init__(self, fails=None):
        self.fails = fails
        self.output = ToolOutput(content=LOG, tool_name="read_log", raw_input={}, raw_output=LOG)

    @property
    def metadata(self):
        return ToolMetadata(name="read_log", description="Read a log.")

    def call(self, *args, **kwargs):
        if self.fails:
            raise ValueError(self.fails)
        return self.output

    async def acall(self, *args, **kwargs):
        return self.call(*args, **kwargs)


@pytest.fixture(params=["as a function", "as another tool", "with the context"])
def tool(request):
    async def with_context(ctx: Context, input: str) -> str:
        """Read a log."""
        return LOG

    return {"as a function": read_log, "as another tool": Reader(), "with the context": with_context}[request.param]


@pytest.mark.parametrize("register", [True, False])
async def test_the_blocks_hold_head_and_tail_within_the_limit_and_the_raw_output_is_whole(register, tool, memory):
    made = limited(memory, tool)
    if register:
        memory.tools.register(made.metadata.get_name())
    context = {"ctx": object()} if isinstance(made, FunctionTool) and made.requires_context else {}
    first = await made.acall(input="app.log", **context)
    again = await made.acall(input="app.log", **context)
    for output in (first, again):
        assert LIMIT * 0.9 < estimate_tokens(output.content) <= LIMIT
        assert output.content.startswith("line 0 of the log\nline 1 of")
        assert output.content.endswith("line 19999 of the log")
        assert " characters left out …]" in output.content
        assert output.raw_output == LOG


def test_what_is_kept_is_whole_so_another_limit_or_none_gets_its_own_share(memory):
    memory.tools.register("read_log")
    limited(memory).call("app.log")
    assert limited(memory, max_tokens=None).call("app.log").content == LOG
    assert estimate_tokens(limited(memory, max_tokens=2_000).call("app.log").content) > 3 * LIMIT
    assert memory.tools.stats()["hits"] == 2


def test_a_result_within_the_limit_is_the_tools_own_and_a_longer_one_is_not_changed(memory):
    reader = Reader()
    assert limited(memory, reader, max_tokens=1_000_000).call() is reader.output
    assert limited(memory, reader).call().content != LOG
    assert reader.output.content == LOG


def test_several_texts_share_the_limit_by_their_size_and_an_image_stays(memory):
    image = ImageBlock(url="https://example.com/a.png")

    def f() -> list:
        """Give a long text, an image and a short text."""
        return [TextBlock(text=LOG), image, TextBlock(text="the end of it all")]

    long, kept, short = limited(memory, f).call().blocks
    assert kept == image
    assert estimate_tokens(long.text) + estimate_tokens(short.text) <= LIMIT + 10


def test_the_settings_own_count_of_tokens_decides(open_memory):
    memory = open_memory(settings=Settings(count_tokens=lambda text: len(text.split())))
    assert 400 < len(limited(memory).call("app.log").content.split()) <= LIMIT


def test_a_tool_that_speaks_to_the_user_is_not_shortened(memory):
    assert limited(memory, FunctionTool.from_defaults(read_log, return_direct=True)).call("app.log").content == LOG


async def test_a_giant_error_is_shortened_too(memory):
    made = limited(memory, Reader(fails=LOG))
    for output in (made.call(), await made.acall()):
        assert output.is_error
        assert output.content.startswith("Encountered error: line 0")
        assert estimate_tokens(output.content) <= LIMIT


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_running_function_agent_sees_a_short_result_and_its_events_the_whole_one(streaming, memory, script):
    asked = script(lambda m: "done" if m[-1].role == "tool" else [("read_log", {"input": "app.log"})])
    agent = FunctionAgent(llm=asked.llm, tools=[limited(memory)], streaming=streaming)
    own = TieredAgentMemory(memory=memory, session_id="s1")
    handler = agent.run("What is in the log?", memory=own)
    results = [event async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
    await handler
    (result,) = results
    assert result.tool_output.raw_output == LOG
    shown = asked.prompts[-1][-1]
    assert shown.role == "tool"
    assert estimate_tokens(shown.content) <= LIMIT
    assert [m.content for m in own.get() if m.role == "tool"] == [shown.content]  # and later turns the same bytes


async def test_so_does_a_react_agent(memory, script):
    def answer(messages):
        if any((m.content or "").startswith("Observation:") for m in messages):
            return "Thought: I know.\nAnswer: done"
        return 'Thought: I look.\nAction: read_log\nAction Input: {"input": "app.log"}'

    asked = script(answer)
    await ReActAgent(llm=asked.llm, tools=[limited(memory)]).run("What is in the log?")
    assert max(estimate_tokens(m.content) for m in asked.prompts[-1] if "Observation:" in m.content) < 2_000
    assert not any(LOG[:5_000] in (m.content or "") for m in asked.prompts[-1])


async def test_without_a_limit_a_run_sees_all_of_it(memory, script):
    asked = script(lambda m: "done" if m[-1].role == "tool" else [("read_log", {"input": "app.log"})])
    await FunctionAgent(llm=asked.llm, tools=cached_tools([read_log], memory)).run("What is in the log?")
    assert asked.prompts[-1][-1] == ChatMessage(role="tool", content=LOG, additional_kwargs={"tool_call_id": "call-1"})


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "500"])
def test_a_limit_that_is_no_count_is_refused(wrong, memory):
    with pytest.raises(InvalidInput, match="max_tokens: expected"):
        limited(memory, max_tokens=wrong)


@pytest.mark.parametrize("limit", [1, 5, 20])
def test_a_tiny_limit_ends_with_the_note_alone(limit, memory):
    assert len(limited(memory, max_tokens=limit).call("app.log").content) < 60
