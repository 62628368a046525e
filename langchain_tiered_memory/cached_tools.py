"""``cached_tools``: the same tools, with the results of the registered ones kept by ``memory.tools``.

For tools outside ``create_agent``, and for every executor that takes a BaseTool; inside it the middleware does
the same. How a tool is cached is said with ``memory.tools.register``; here only its methods are led through.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from langchain_core.messages.tool import ToolOutputMixin
from langchain_core.runnables import ensure_config
from langchain_core.tools import BaseTool

from langchain_tiered_memory import calls
from langchain_tiered_memory.injected import default_arguments, injected_arguments
from langchain_tiered_memory.owner import Named, one_each, scope_of
from shared_core import InvalidInput, TieredMemory, check_memory

_NEVER_ARGUMENTS = frozenset({"config", "run_manager", "callbacks"})


def cached_tools(tools: Iterable[BaseTool], memory: TieredMemory, *, scope: Named = None) -> list[BaseTool]:
    """Copies of the tools, of the same type, name, schema and behaviour, whose calls go through ``memory.tools``.

    Only tools registered with ``memory.tools.register(name, …)`` are cached; the others are executed always and,
    since they may write anything, make cached results of the scope stale. Errors, commands and messages that a
    tool returns are never kept, nor is what a person answered to its ``interrupt``; a tool with injected arguments only
    if it was registered with ``key=``.
    ``scope`` is a string or a function of the run's config, called at each call. The tools given stay as they are.
    """
    tools = one_each(tools)
    check_memory(memory, scope)
    return [_cached(tool, memory, scope) for tool in tools]


def _cached(tool: BaseTool, memory: TieredMemory, scope: Named) -> BaseTool:
    if not isinstance(tool, BaseTool):
        raise InvalidInput(f"tools: expected LangChain tools, got {tool!r}; decorate a function with @tool")
    copy = tool.model_copy()
    unseen = injected_arguments(tool) | _NEVER_ARGUMENTS
    defaults = default_arguments(tool)

    def arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        named = dict(zip(tool.args, args, strict=False))  # a tool of one text gets it by position
        return {**named, **{name: value for name, value in kwargs.items() if name not in unseen}}

    @functools.wraps(tool._run)  # noqa: SLF001  the method a tool is made of; its signature says what is injected
    def run(*args: Any, **kwargs: Any) -> Any:
        if not calls.may_share(memory, tool.name, tool):
            return tool._run(*args, **kwargs)  # noqa: SLF001

        def execute() -> Any:
            return _kept(tool._run(*args, **kwargs))  # noqa: SLF001

        return calls.run(
            memory, tool.name, arguments(args, kwargs), execute,
            scope=scope_of(memory, scope, ensure_config()), defaults=defaults,
        )  # fmt: skip

    @functools.wraps(tool._arun)  # noqa: SLF001
    async def arun(*args: Any, **kwargs: Any) -> Any:
        if not calls.may_share(memory, tool.name, tool):
            return await tool._arun(*args, **kwargs)  # noqa: SLF001

        async def execute() -> Any:
            return _kept(await tool._arun(*args, **kwargs))  # noqa: SLF001

        return await calls.arun(
            memory, tool.name, arguments(args, kwargs), execute,
            scope=scope_of(memory, scope, ensure_config()), defaults=defaults,
        )  # fmt: skip

    _replace(copy, "_run", run)
    if type(tool)._arun is not BaseTool._arun:  # noqa: SLF001  the default one calls _run, in a thread
        _replace(copy, "_arun", arun)
    return copy


def _replace(tool: BaseTool, method: str, fn: Callable[..., Any]) -> None:
    # On the instance, past pydantic: the copy keeps its class, so whoever looks at the type sees the same tool.
    fn.__doc__ = inspect.getdoc(getattr(tool, method))  # of a base class's method too: a schema may show it
    object.__setattr__(tool, method, fn)


def _kept(result: Any) -> Any:
    """A result that can be handed to another call: no command, and no message that carries a call's id."""
    parts = result if isinstance(result, list) else [result]
    return calls.Apart(result) if any(isinstance(part, ToolOutputMixin) for part in parts) else result
