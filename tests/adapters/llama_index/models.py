"""A model for the tests of ``cached_llm``: it answers by a script, in chunks, and counts how often it is asked."""

from __future__ import annotations

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from pydantic import BaseModel, Field, PrivateAttr


def text(*parts):
    """A script: the text of these parts, a chunk each, whatever is asked."""

    def chunks(messages):
        said = ""
        for part in parts:
            said += part
            yield ChatResponse(message=ChatMessage(role="assistant", content=said), delta=part)

    return chunks


def calling(name, arguments, id="call-1"):
    """A script: one tool call."""

    def chunks(messages):
        block = ToolCallBlock(tool_call_id=id, tool_name=name, tool_kwargs=arguments)
        yield ChatResponse(message=ChatMessage(role="assistant", blocks=[TextBlock(text="I look."), block]), delta="")

    return chunks


class Chunked(FunctionCallingLLM):
    """A model that gives the chunks of its script; whole answers are the last chunk without its delta."""

    model: str = "chunked-1"
    temperature: float = 0.0
    extra: dict = Field(default_factory=dict)

    _script: object = PrivateAttr()
    _asked: list = PrivateAttr(default_factory=list)

    def __init__(self, script=None, **fields):
        super().__init__(**fields)
        self._script = script if script is not None else text("Hel", "lo.")

    @property
    def asked(self):
        """The messages or prompts of every call, and its keywords."""
        return self._asked

    @property
    def calls(self):
        return len(self._asked)

    @property
    def metadata(self):
        return LLMMetadata(model_name=self.model, is_chat_model=True, is_function_calling_model=True)

    def _chunks(self, messages, kwargs):
        self._asked.append((messages, kwargs))
        return self._script(messages)

    def chat(self, messages, **kwargs):
        *_, last = self._chunks(messages, kwargs)
        return last.model_copy(update={"delta": None})

    async def achat(self, messages, **kwargs):
        return self.chat(messages, **kwargs)

    def stream_chat(self, messages, **kwargs):
        return self._chunks(messages, kwargs)

    async def astream_chat(self, messages, **kwargs):
        chunks = self._chunks(messages, kwargs)

        async def given():
            for chunk in chunks:
                yield chunk

        return given()

    def _completions(self, prompt, kwargs):
        for chunk in self._chunks(prompt, kwargs):
            yield CompletionResponse(text=chunk.message.content or "", delta=chunk.delta, raw=chunk.raw)

    def complete(self, prompt, formatted=False, **kwargs):
        *_, last = self._completions(prompt, kwargs)
        return last.model_copy(update={"delta": None})

    async def acomplete(self, prompt, formatted=False, **kwargs):
        return self.complete(prompt, **kwargs)

    def stream_complete(self, prompt, formatted=False, **kwargs):
        return self._completions(prompt, kwargs)

    async def astream_complete(self, prompt, formatted=False, **kwargs):
        async def given():
            for chunk in self._completions(prompt, kwargs):
                yield chunk

        return given()

    def _prepare_chat_with_tools(
        self, tools, user_msg=None, chat_history=None, verbose=False, allow_parallel_tool_calls=False,
        tool_required=False, **kwargs,
    ):  # fmt: skip
        said = [ChatMessage(content=user_msg)] if isinstance(user_msg, str) else [user_msg] if user_msg else []
        named = [tool.metadata.to_openai_tool() for tool in tools]
        choice = "required" if tool_required else "auto"
        return {"messages": [*(chat_history or []), *said], "tools": named, "tool_choice": choice, **kwargs}

    def get_tool_calls_from_response(self, response, error_on_no_tool_call=True, **_):
        return [
            ToolSelection(tool_id=block.tool_call_id, tool_name=block.tool_name, tool_kwargs=block.tool_kwargs)
            for block in response.message.blocks
            if isinstance(block, ToolCallBlock)
        ]


ASKS = ("chat", "achat", "complete", "acomplete")
STREAMS = ("stream_chat", "astream_chat", "stream_complete", "astream_complete")


async def ask(llm, how, said="hello", **kwargs):
    """What the model answers when it is asked this way: a list of chunks, one for a whole answer."""
    given = [ChatMessage(content=said)] if "chat" in how else said
    found = getattr(llm, how)(given, **kwargs)
    if how.startswith("a"):
        found = await found
    if how.startswith("stream"):
        return list(found)
    if how.startswith("astream"):
        return [chunk async for chunk in found]
    return [found]


def marked(chunk):
    """Whether it says that it was kept."""
    return isinstance(chunk.raw, dict) and chunk.raw.get("tiered_memory", {}).get("hit") is True


class Sdk(BaseModel):
    """A provider's own response object."""

    id: str = "msg_1"
    usage: dict = {"input_tokens": 7, "output_tokens": 3}
    stop_reason: str = "end_turn"


class Flaky(Chunked):
    """A model whose line goes dead after the first chunk."""

    def _chunks(self, messages, kwargs):
        chunks = super()._chunks(messages, kwargs)

        def given():
            yield next(chunks)
            raise ConnectionError("the line is dead")

        return given()


def said(*blocks):
    """A script: one chunk of these blocks, whatever is asked."""
    return lambda messages: iter([ChatResponse(message=ChatMessage(role="assistant", blocks=list(blocks)))])


def weather(city: str) -> str:
    """The weather in a city."""
    return city
