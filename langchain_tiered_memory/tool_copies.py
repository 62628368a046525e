"""A tool as a copy whose results are kept by ``memory.tools``: same class, name, schema and behaviour. No keys here.

How a tool is cached is said with ``memory.tools.register``; here only its methods are led through.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

from langchain_core.messages.tool import ToolOutputMixin
from langchain_core.runnables import ensure_config
from langchain_core.tools import BaseTool

from langchain_tiered_memory import calls
from langchain_tiered_memory.injected import default_arguments, injected_arguments
from langchain_tiered_memory.owner import Named, scope_of
from shared_core import TieredMemory, Uncached

_NEVER_ARGUMENTS = frozenset({"config", "run_manager", "callbacks"})


def cached(tool: BaseTool, memory: TieredMemory, scope: Named, counts: Counter[str] | None = None) -> BaseTool:
    """The copy of one tool; ``counts`` as in ``calls.may_share``."""
    copy = tool.model_copy()
    injected = injected_arguments(tool)
    unseen = injected | _NEVER_ARGUMENTS
    defaults = default_arguments(tool)
    readable = _is_pair if tool.response_format == "content_and_artifact" else None

    def arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        named = dict(zip(tool.args, args, strict=False))  # a tool of one text gets it by position
        return {**named, **{name: value for name, value in kwargs.items() if name not in unseen}}

    @functools.wraps(tool._run)  # noqa: SLF001  the method a tool is made of; its signature says what is injected
    def run(*args: Any, **kwargs: Any) -> Any:
        if not calls.may_share(memory, tool.name, injected, counts):
            return tool._run(*args, **kwargs)  # noqa: SLF001

        def execute() -> Any:
            return _kept(tool._run(*args, **kwargs))  # noqa: SLF001

        return calls.run(
            memory, tool.name, arguments(args, kwargs), execute,
            scope=scope_of(memory, scope, ensure_config()), defaults=defaults, readable=readable,
        )  # fmt: skip

    @functools.wraps(tool._arun)  # noqa: SLF001
    async def arun(*args: Any, **kwargs: Any) -> Any:
        if not calls.may_share(memory, tool.name, injected, counts):
            return await tool._arun(*args, **kwargs)  # noqa: SLF001

        async def execute() -> Any:
            return _kept(await tool._arun(*args, **kwargs))  # noqa: SLF001

        return await calls.arun(
            memory, tool.name, arguments(args, kwargs), execute,
            scope=scope_of(memory, scope, ensure_config()), defaults=defaults, readable=readable,
        )  # fmt: skip

    _replace(copy, "_run", run)
    if type(tool)._arun is not BaseTool._arun:  # noqa: SLF001  the default one calls _run, in a thread
        _replace(copy, "_arun", arun)
    return copy


def _replace(tool: BaseTool, method: str, fn: Callable[..., Any]) -> None:
    # On the instance, past pydantic: the copy keeps its class, so whoever looks at the type sees the same tool.
    if fn.__doc__ is None:  # a schema may show that of a base class's method
        fn.__doc__ = inspect.getdoc(getattr(tool, method))
    object.__setattr__(tool, method, fn)


def _is_pair(result: Any) -> bool:
    """Whether a kept result is content and artifact: a damaged row may be anything."""
    return isinstance(result, tuple) and len(result) == 2


def _kept(result: Any) -> Any:
    """A result that can be handed to another call: no command, and no message that carries a call's id."""
    parts = result if isinstance(result, list) else [result]
    return Uncached(result, alone=True) if any(isinstance(part, ToolOutputMixin) for part in parts) else result
