"""``cached_llm``: a model of LlamaIndex whose answers are kept by ``memory.responses``.

What makes two requests the same, what is never kept, how long it lives: the rules of
``shared_core/mid_term/response_cache.py``. Here is the interface; a cache that fails costs a model
call and nothing else. Conversions are in ``requests.py`` and ``answers.py``, what a call goes through in ``calls.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import LLM, ToolSelection
from llama_index.core.llms.structured_llm import StructuredLLM
from llama_index.core.tools import BaseTool
from pydantic import ConfigDict, Field, model_serializer, model_validator

from llama_index_tiered_memory.attach import Scope, address, attached, checked
from llama_index_tiered_memory.calls import Asked, Calls
from llama_index_tiered_memory.requests import chat_request, completion_request, model_name
from shared_core import InvalidInput, TieredMemory

_SHARED = (  # what LlamaIndex's own methods read of a model, and set on it
    "callback_manager", "system_prompt", "messages_to_prompt", "completion_to_prompt", "output_parser",
    "pydantic_program_mode", "query_wrapper_prompt",
)  # fmt: skip


def cached_llm(llm: LLM, memory: TieredMemory, *, scope: Scope = None) -> CachedLLM:
    """The same model, with the answer to a request that was answered before replayed: no call, no wait, no cost.

    ``FunctionAgent(llm=cached_llm(llm, memory), …)``. Chats and completions, whole and streamed, sync and async, with
    and without tools; a replayed stream is chunk by chunk the one that was heard. Two requests are the same if the
    model and its settings, the tools, every keyword and all messages are (a file that a block names counts by its
    content). Of what a model holds in private attributes texts, flags, fractions and plain dicts count, nothing else:
    whole numbers and lists are where calls are counted and noted. With a lambda among the settings nothing is
    kept. The answers of one scope are never given to another. Not kept: errors, streams that were not read to their end, and answers that are truncated, refused,
    empty or would not come back equal. Equal calls at the same time make one (streams do not). On a hit
    ``raw["tiered_memory"]`` says so; ``raw`` is otherwise what JSON can carry of the provider's. A cache that cannot
    be read or written lets the model answer.

    ``structured_predict`` goes through these calls unless the model has its own, which is called as it is and not
    kept. Other attributes are the model's. Raises InvalidInput and ScopeRequired.
    """
    if isinstance(llm, TieredMemory):
        raise InvalidInput("llm: expected a model, got a TieredMemory; write cached_llm(llm, memory)")
    if isinstance(llm, StructuredLLM):  # its raw is the parsed object, which no stored row could give back
        raise InvalidInput(
            "llm: expected a model that answers in text, got a StructuredLLM; "
            "write cached_llm(llm, memory).as_structured_llm(…)"
        )
    if not isinstance(llm, LLM):
        raise InvalidInput(f"llm: expected a LlamaIndex LLM, got {type(llm).__name__}; write cached_llm(llm, memory)")
    return CachedLLM(llm=llm, memory=checked(memory, scope), scope=scope)


class CachedLLM(FunctionCallingLLM):
    """What ``cached_llm`` makes. ``to_dict`` and pickles carry the model and the memory's path, never answers."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    llm: LLM = Field(description="The model that answers what was not answered before.")
    memory: TieredMemory = Field(exclude=True, description="The memory that keeps the answers.")
    scope: Any = Field(default=None, exclude=True, description="Whose answers: a string, or a function of nothing.")

    if not TYPE_CHECKING:  # a type checker reads the fields

        def __init__(self, **fields: Any) -> None:
            super().__init__(**fields)

        def __getattr__(self, name: str) -> Any:
            """What only the model has: its name, its tokenizer, its client."""
            if name.startswith("_") or "llm" not in self.__dict__:
                return super().__getattr__(name)
            return getattr(self.__dict__["llm"], name)

        def __setattr__(self, name: str, value: Any) -> None:
            own = name.startswith("_") or name in type(self).model_fields or "llm" not in self.__dict__
            if not own and hasattr(self.llm, name):  # a setting that only the model has
                setattr(self.llm, name, value)
                return
            super().__setattr__(name, value)
            if name in _SHARED:  # Settings sets the callbacks so, and the model's own calls report to them
                setattr(self.llm, name, value)

    @model_validator(mode="before")
    @classmethod
    def _attach(cls, values: dict[str, Any]) -> dict[str, Any]:
        fields = {name: value for name, value in values.items() if name not in ("location", "class_name")}
        if isinstance(fields.get("llm"), dict):
            from llama_index.core.llms.loading import load_llm  # noqa: PLC0415  it imports every provider installed

            fields["llm"] = load_llm(fields["llm"])
        if "memory" not in fields:
            if "location" not in values:
                raise InvalidInput(
                    "expected where the memory is, got none: it was not in a file; cached_llm(llm, memory)"
                )
            fields["memory"] = attached(values["location"])
        shared = {name: getattr(fields["llm"], name) for name in _SHARED if hasattr(fields["llm"], name)}
        return {**shared, **fields}

    @model_serializer(mode="plain")
    def _dump(self) -> dict[str, Any]:
        dumped = {"llm": self.llm.to_dict(), "class_name": self.class_name()}
        try:  # what only fingerprints a component, as an ingestion pipeline does, must not fail for want of a file
            return {**address(self.memory, self.scope), **dumped}
        except InvalidInput:
            return dumped

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's dumps."""
        return "CachedLLM"

    @property
    def metadata(self) -> LLMMetadata:
        """The model's own."""
        return self.llm.metadata

    # Whole answers

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """``chat`` of the model, or the answer it gave before."""
        return self._calls.whole(self._chat(messages, kwargs), lambda: self.llm.chat(messages, **kwargs))  # type: ignore[no-any-return]

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """``achat`` of the model, or the answer it gave before."""
        return await self._calls.awhole(self._chat(messages, kwargs), lambda: self.llm.achat(messages, **kwargs))  # type: ignore[no-any-return]

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """``complete`` of the model, or the answer it gave before."""
        asked = self._completion(prompt, formatted, kwargs)
        return self._calls.whole(asked, lambda: self.llm.complete(prompt, formatted=formatted, **kwargs))  # type: ignore[no-any-return]

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """``acomplete`` of the model, or the answer it gave before."""
        asked = self._completion(prompt, formatted, kwargs)
        return await self._calls.awhole(asked, lambda: self.llm.acomplete(prompt, formatted=formatted, **kwargs))  # type: ignore[no-any-return]

    # Streams

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """``stream_chat`` of the model, or the chunks of the stream that was read to its end before."""
        asked = self._chat(messages, kwargs, stream=True)
        return self._calls.stream(asked, lambda: self.llm.stream_chat(messages, **kwargs))

    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        """``astream_chat`` of the model, or the chunks of the stream that was read to its end before."""
        asked = self._chat(messages, kwargs, stream=True)
        return await self._calls.astream(asked, lambda: self.llm.astream_chat(messages, **kwargs))

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """``stream_complete`` of the model, or the chunks of the stream that was read to its end before."""
        asked = self._completion(prompt, formatted, kwargs, stream=True)
        return self._calls.stream(asked, lambda: self.llm.stream_complete(prompt, formatted=formatted, **kwargs))

    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseAsyncGen:
        """``astream_complete`` of the model, or the chunks of the stream that was read to its end before."""
        asked = self._completion(prompt, formatted, kwargs, stream=True)
        return await self._calls.astream(
            asked, lambda: self.llm.astream_complete(prompt, formatted=formatted, **kwargs)
        )

    @property
    def _calls(self) -> Calls:
        return Calls(self.memory, self.scope)

    def _chat(self, messages: Sequence[ChatMessage], settings: dict[str, Any], *, stream: bool = False) -> Asked | None:
        return self._calls.asked(lambda: chat_request(self.llm, stream, messages, settings), model_name(self.llm))

    def _completion(
        self, prompt: str, formatted: bool, settings: dict[str, Any], *, stream: bool = False
    ) -> Asked | None:
        name = model_name(self.llm)
        return self._calls.asked(lambda: completion_request(self.llm, stream, prompt, formatted, settings), name)

    # Tools: the model says how they are put into a request and found in an answer

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        return self._caller()._prepare_chat_with_tools_compat(  # noqa: SLF001  there is no public way to ask the model
            tools, user_msg=user_msg, chat_history=chat_history, verbose=verbose,
            allow_parallel_tool_calls=allow_parallel_tool_calls, tool_required=tool_required, **kwargs,
        )  # fmt: skip

    def _validate_chat_with_tools_response(
        self, response: ChatResponse, tools: Sequence[BaseTool], allow_parallel_tool_calls: bool = False, **kwargs: Any
    ) -> ChatResponse:
        return self._caller()._validate_chat_with_tools_response(  # noqa: SLF001
            response, tools, allow_parallel_tool_calls=allow_parallel_tool_calls, **kwargs
        )

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """The model's own reading of its answer."""
        return self._caller().get_tool_calls_from_response(
            response, error_on_no_tool_call=error_on_no_tool_call, **kwargs
        )

    def _caller(self) -> FunctionCallingLLM:
        if isinstance(self.llm, FunctionCallingLLM):
            return self.llm
        raise InvalidInput(f"llm: expected a model that calls tools, got {type(self.llm).__name__}; use a ReActAgent")

    # Structured output: the model's own way, else the stock one through the calls above

    def structured_predict(self, *args: Any, **kwargs: Any) -> Any:
        """``structured_predict``."""
        return self._structured("structured_predict", super().structured_predict)(*args, **kwargs)

    async def astructured_predict(self, *args: Any, **kwargs: Any) -> Any:
        """``astructured_predict``."""
        return await self._structured("astructured_predict", super().astructured_predict)(*args, **kwargs)

    def stream_structured_predict(self, *args: Any, **kwargs: Any) -> Any:
        """``stream_structured_predict``."""
        return self._structured("stream_structured_predict", super().stream_structured_predict)(*args, **kwargs)

    async def astream_structured_predict(self, *args: Any, **kwargs: Any) -> Any:
        """``astream_structured_predict``."""
        own = self._structured("astream_structured_predict", super().astream_structured_predict)
        return await own(*args, **kwargs)

    def _structured(self, name: str, stock: Callable[..., Any]) -> Callable[..., Any]:
        if next(kind for kind in type(self.llm).__mro__ if name in vars(kind)) is LLM:
            return stock
        own: Callable[..., Any] = getattr(self.llm, name)
        return own

    # Copies

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:  # noqa: ARG002
        """A copy with these settings, each set where it is one: here, or on a copy of the model. None is deeper."""
        given = dict(update or {})
        own = {name: given.pop(name) for name in [*given] if name in type(self).model_fields}
        made = super().model_copy(update=own)
        theirs = {**given, **{name: value for name, value in own.items() if name in _SHARED}}
        if theirs:
            made.llm = made.llm.model_copy(update=theirs)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of the model is pickled: LlamaIndex deletes what cannot be pickled from the object itself.
        return _again, (self.llm.model_copy(), address(self.memory, self.scope))

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return type(self)(llm=self.llm, memory=self.memory, scope=self.scope)  # one model, however often it is copied


def _again(llm: LLM, where: dict[str, str]) -> CachedLLM:
    return cached_llm(llm, attached(where["location"]), scope=where["scope"])
