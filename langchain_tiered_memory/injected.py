"""Which arguments a tool gets that the model does not write: state, store, runtime, config, call id. Nothing else."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg

_TYPES = ("RunnableConfig", "ToolRuntime")


def injected_arguments(tool: BaseTool) -> frozenset[str]:
    """Names of the arguments that are injected when the tool runs; they stand in no tool call.

    What the tool's full schema has beyond the model's schema, and, because a schema may not show them,
    parameters of its functions that are annotated as injected, as a ``ToolRuntime`` or as a
    ``RunnableConfig``. What a function takes from context variables cannot be seen by anyone.
    """
    found = _beyond_the_models_schema(tool)
    for fn in _functions(tool):
        found |= {name for name, kind in _annotations(fn).items() if _is_injected(kind)}
    return frozenset(found)


def _beyond_the_models_schema(tool: BaseTool) -> set[str]:
    shown: Any = tool.tool_call_schema
    if isinstance(shown, dict) or isinstance(tool.args_schema, dict):  # a JSON schema is all the model's
        return set()
    whole: Any = tool.get_input_schema()
    return set(whole.model_fields) - set(shown.model_fields)


def _functions(tool: BaseTool) -> list[Callable[..., Any]]:
    given = [fn for fn in (getattr(tool, "func", None), getattr(tool, "coroutine", None)) if fn is not None]
    return given or [tool._run, tool._arun]  # noqa: SLF001  what a subclass of BaseTool overrides


def _annotations(fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(fn, include_extras=True)
    except Exception:  # noqa: BLE001  one name that cannot be resolved must not hide the others
        return {name: p.annotation for name, p in inspect.signature(fn).parameters.items()}


def _is_injected(kind: Any) -> bool:
    if isinstance(kind, str):
        return any(name in kind for name in _TYPES) or "Injected" in kind
    parts = [kind, typing.get_origin(kind), *typing.get_args(kind), *getattr(kind, "__metadata__", ())]
    return any(_marks(part) for part in parts)


def _marks(part: Any) -> bool:
    if part is RunnableConfig or isinstance(part, InjectedToolArg):
        return True
    origin = typing.get_origin(part) or part
    return isinstance(origin, type) and (issubclass(origin, InjectedToolArg) or origin.__name__ in _TYPES)
