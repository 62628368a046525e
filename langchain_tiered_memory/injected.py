"""Which arguments a tool gets that the model does not write: state, store, runtime, config, call id; and defaults."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg
from langchain_core.utils.pydantic import get_fields
from pydantic_core import PydanticUndefined

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


def default_arguments(tool: BaseTool | None) -> dict[str, Any]:
    """What the tool's schema fills in for arguments that the model leaves out; nothing where it is a JSON schema."""
    if tool is None or isinstance(tool.args_schema, dict):
        return {}
    shown: Any = tool.tool_call_schema
    return {name: field.default for name, field in get_fields(shown).items() if _is_filled_in(field)}


def _is_filled_in(field: Any) -> bool:
    """Whether a field has a default that is the same each time, in a model of pydantic 1 or 2."""
    return (
        field.default is not PydanticUndefined
        and field.default_factory is None
        and not getattr(field, "required", False)
    )


def _beyond_the_models_schema(tool: BaseTool) -> set[str]:
    shown: Any = tool.tool_call_schema
    if isinstance(shown, dict) or isinstance(tool.args_schema, dict):  # a JSON schema is all the model's
        return set()
    whole: Any = tool.get_input_schema()
    return set(get_fields(whole)) - set(get_fields(shown))


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
