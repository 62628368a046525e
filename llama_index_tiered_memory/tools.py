"""``cached_tools``: LlamaIndex tools whose results are kept by ``memory.tools``.

How a tool is cached is said with ``memory.tools.register``; here its call is led through, and outputs converted.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from llama_index.core.base.llms.types import TextBlock
from llama_index.core.tools import AsyncBaseTool, BaseTool, FunctionTool, ToolMetadata, ToolOutput, adapt_to_async_tool
from workflows.runtime.types.results import DeleteWaiter, StepWorkerStateContextVar, WaitingForEvent

from llama_index_tiered_memory import events
from llama_index_tiered_memory.attach import Scope, checked, scope_for
from llama_index_tiered_memory.convert import is_output, to_output, to_plain_output
from shared_core import InvalidInput, TieredMemory, Uncached, arguments
from shared_core.text import within_tokens


def cached_tools(
    tools: Iterable[BaseTool | Callable[..., Any]],
    memory: TieredMemory,
    *,
    scope: Scope = None,
    max_tokens: int | None = None,
) -> list[Any]:  # of AsyncBaseTool; agents take lists of a union, and a list of one kind is none to a type checker
    """The same tools, with the results of those registered with ``memory.tools.register(name, …)`` kept.

    The others are executed always and, since they may write anything, make cached results of the scope stale.
    A FunctionTool stays one: context, partial parameters, callbacks and ``return_direct`` work as before (what a
    callback made of the result is what is kept). Positional and named arguments make one key, defaults filled in,
    the workflow context left out; a tool that takes the context depends on more than its arguments and is kept only
    if registered with ``key=``, a function of the arguments. Exceptions, error outputs, waits for an event and what was made
    of such an event are never kept. A hit gives a fresh output with this call's own input. The tools given stay as they are.

    ``max_tokens`` bounds what a model is shown of a result, about: of longer text the output's blocks hold the head and
    the tail, while ``raw_output`` and what is kept stay whole. An agent's memory cannot do that within a run. A tool
    with ``return_direct`` speaks to the user: it is not shortened.
    """
    if isinstance(tools, TieredMemory):
        raise InvalidInput("tools: expected a list of tools, got a TieredMemory; write cached_tools(tools, memory)")
    if isinstance(tools, str | BaseTool) or not isinstance(tools, Iterable):
        raise InvalidInput(f"tools: expected a list of tools, got {tools!r:.80}; write [tool] for one")
    if max_tokens is not None and arguments.count("max_tokens", max_tokens) < 1:
        raise InvalidInput("max_tokens: expected a whole number of 1 or more, or None for no bound, got 0")
    bound = _Cache(checked(memory, scope), scope, max_tokens)
    return [_cached(tool, bound) for tool in tools]


def _cached(tool: BaseTool | Callable[..., Any], cache: _Cache) -> AsyncBaseTool:
    if not isinstance(tool, BaseTool):
        if not callable(tool):
            raise InvalidInput(f"tools: expected tools or functions, got {tool!r}")
        tool = FunctionTool.from_defaults(tool)
    if not isinstance(tool, FunctionTool):
        return _CachedTool(tool, cache)
    kind: type[FunctionTool] = _CachedFunctionTool
    if type(tool) is not FunctionTool:  # a subclass of the user's keeps its own methods
        kind = type(f"Cached{type(tool).__name__}", (_CachedFunctionTool, type(tool)), {})
    copy = kind.__new__(kind)
    copy.__dict__.update(tool.__dict__, _cache=cache)
    return copy


@dataclass(frozen=True, slots=True)
class _Raised:
    """An exception that belongs to the run it was raised in: no other caller may receive it."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class _Cache:
    """Leads a tool's calls through ``memory.tools``."""

    memory: TieredMemory
    scope: Scope
    max_tokens: int | None = None

    def shown(self, output: ToolOutput, told: ToolMetadata) -> ToolOutput:
        """The output as a model is to see it: the same object, or a copy with shorter texts."""
        if self.max_tokens is None or (told.return_direct and not output.is_error):
            return output
        texts = [block.text for block in output.blocks if isinstance(block, TextBlock)]
        short = within_tokens(texts, self.max_tokens, self.memory.long_term.count_tokens)
        if short == texts:
            return output
        shorter = iter(short)
        blocks = [TextBlock(text=next(shorter)) if isinstance(block, TextBlock) else block for block in output.blocks]
        return output.model_copy(update={"blocks": blocks})

    def call(
        self,
        name: str,
        args: Mapping[str, Any],
        run: Callable[[], ToolOutput],
        raw_input: dict[str, Any],
        defaults: Mapping[str, Any] | None = None,
    ) -> ToolOutput:
        """The kept output, or that of ``run``."""
        own: list[ToolOutput] = []

        def execute(**_: Any) -> Any:
            answered = _answers()
            try:
                own.append(run())
            except WaitingForEvent as error:
                return Uncached(_Raised(error), alone=True)
            return _kept(own[0], answered=_answers() > answered)

        scope = self._owner()
        value = self.memory.tools.call(
            name, args, execute, scope=scope, form="llama_index", readable=is_output, defaults=defaults
        )
        self._tell(name, scope, executed=bool(own))
        return _given(value, own, raw_input)

    async def acall(
        self,
        name: str,
        args: Mapping[str, Any],
        run: Callable[[], Any],
        raw_input: dict[str, Any],
        defaults: Mapping[str, Any] | None = None,
    ) -> ToolOutput:
        """The kept output, or that of awaiting ``run()``."""
        own: list[ToolOutput] = []

        async def execute(**_: Any) -> Any:
            answered = _answers()
            try:
                own.append(await run())
            except WaitingForEvent as error:
                return Uncached(_Raised(error), alone=True)
            return _kept(own[0], answered=_answers() > answered)

        scope = self._owner()
        value = await self.memory.tools.acall(
            name, args, execute, scope=scope, form="llama_index", readable=is_output, defaults=defaults
        )
        self._tell(name, scope, executed=bool(own))
        return _given(value, own, raw_input)

    def _tell(self, name: str, scope: str, *, executed: bool) -> None:
        policy = self.memory.tools.policy(name)
        if policy is None or not policy.cacheable:
            return
        if executed:
            events.missed("tools", name, scope)
            events.made_room("tools", self.memory)
        else:
            events.hit("tools", name, scope)

    def keeps(self, name: str) -> bool:
        """Whether a tool that depends on more than its arguments may be led through."""
        policy = self.memory.tools.policy(name)
        return policy is None or not policy.cacheable or policy.key is not None

    def _owner(self) -> str:
        return scope_for(self.memory, self.scope)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # one cache, however often an agent copies its tools


def _kept(output: ToolOutput, *, answered: bool) -> Any:
    return Uncached(None, alone=True) if output.is_error or answered else to_plain_output(output)


def _answers() -> int:
    """How many events this step of a workflow has waited for and got: a person's answer, most likely."""
    step = StepWorkerStateContextVar.get(None)
    return 0 if step is None else sum(isinstance(one, DeleteWaiter) for one in step.returns.return_values)


def _given(value: Any, own: list[ToolOutput], raw_input: dict[str, Any]) -> ToolOutput:
    if isinstance(value, _Raised):
        raise value.error
    return own[0] if own else to_output(value, raw_input)


class _CachedFunctionTool(FunctionTool):
    """A FunctionTool, so that agents go on injecting their context into it."""

    _cache: _Cache

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """``FunctionTool.call`` through the cache."""
        name, run = self.metadata.get_name(), super().call
        if self.requires_context and not self._cache.keeps(name):
            return self._cache.shown(run(*args, **kwargs), self.metadata)
        named, raw_input = self._named(args, kwargs)
        output = self._cache.call(name, named, lambda: run(*args, **kwargs), raw_input, self._defaults())
        return self._cache.shown(output, self.metadata)

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """``FunctionTool.acall`` through the cache."""
        name, run = self.metadata.get_name(), super().acall
        if self.requires_context and not self._cache.keeps(name):
            return self._cache.shown(await run(*args, **kwargs), self.metadata)
        named, raw_input = self._named(args, kwargs)
        output = await self._cache.acall(name, named, lambda: run(*args, **kwargs), raw_input, self._defaults())
        return self._cache.shown(output, self.metadata)

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments by name, complete and without the context; and the input as an output reports it."""
        given = {**self._given(), **kwargs}
        reported = {name: value for name, value in given.items() if name != self.ctx_param_name}
        raw_input = {"args": args, "kwargs": reported}
        signature = inspect.signature(self.real_fn)
        try:
            bound = signature.bind(*args, **given)
        except TypeError:  # the call itself will say what is wrong
            return {"*args": args, **reported}, raw_input
        return self._complete(bound), raw_input

    def _defaults(self) -> dict[str, Any]:
        """What is filled in for a call that names nothing."""
        try:
            return self._complete(inspect.signature(self.real_fn).bind_partial(**self._given()))
        except TypeError:  # as above
            return {}

    def _given(self) -> dict[str, Any]:
        return {**getattr(self, "_field_defaults", {}), **self.partial_params}  # older releases have none

    def _complete(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        bound.apply_defaults()
        named = dict(bound.arguments)
        for name, parameter in bound.signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                named |= named.pop(name)
        return {name: value for name, value in named.items() if name != self.ctx_param_name}


class _CachedTool(AsyncBaseTool):
    """Any other tool. An exception becomes an error output: LlamaIndex would run a tool that raises a second time."""

    def __init__(self, tool: BaseTool, cache: _Cache) -> None:
        self._given = tool
        self._tool = adapt_to_async_tool(tool)
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        """What only the tool has: the query engine of one, which sub-question and router engines ask for."""
        if name.startswith("__") or "_given" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._given, name)

    @property
    def metadata(self) -> ToolMetadata:
        """The tool's own."""
        return self._tool.metadata

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """The tool's call through the cache."""
        named = self._named(args, kwargs)
        try:
            output = self._cache.call(
                self.metadata.get_name(),
                named,
                lambda: self._tool.call(*args, **kwargs),
                {"args": args, "kwargs": kwargs},
            )
            return self._cache.shown(output, self.metadata)
        except WaitingForEvent:
            raise
        except Exception as error:  # noqa: BLE001  whatever the tool raises
            return self._failed(error, named)

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """The tool's acall through the cache."""
        named = self._named(args, kwargs)
        try:
            output = await self._cache.acall(
                self.metadata.get_name(),
                named,
                lambda: self._tool.acall(*args, **kwargs),
                {"args": args, "kwargs": kwargs},
            )
            return self._cache.shown(output, self.metadata)
        except (WaitingForEvent, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001
            return self._failed(error, named)

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = list(self.metadata.get_parameters_dict().get("properties", {}))
        if len(args) > len(names):
            return {"*args": args, **kwargs}
        return {**dict(zip(names, args, strict=False)), **kwargs}

    def _failed(self, error: Exception, named: dict[str, Any]) -> ToolOutput:
        output = ToolOutput(
            content=f"Encountered error: {error}", tool_name=self.metadata.get_name(), raw_input=named,
            raw_output=str(error), is_error=True,
        )  # fmt: skip
        output._exception = error  # noqa: SLF001  older releases do not take it in the constructor
        return self._cache.shown(output, self.metadata)
