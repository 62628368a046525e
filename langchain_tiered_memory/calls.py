"""Tool calls through ``memory.tools``: what must not be kept or shared passes through it untouched. No keys here."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp

from langchain_tiered_memory.owner import goes_back
from shared_core import TieredMemory, Uncached

_log = logging.getLogger(__name__)
_FORM = "langchain.run"  # what a tool's own method gives, before LangChain makes a message of it


@dataclass(frozen=True, slots=True)
class _Interrupted:
    """How a run was broken off: it belongs to that run, and is no failure that equal calls share."""

    error: GraphBubbleUp


def may_share(memory: TieredMemory, name: str, injected: frozenset[str], counts: Counter[str] | None = None) -> bool:
    """Whether the arguments tell the result, or else nothing is kept anyway.

    They do not where a tool with ``injected`` ones depends on more, unless a ``key=`` says what, nor where a person's
    answer to an interrupt goes into it: that is counted (``answers_not_kept``).
    """
    policy = memory.tools.policy(name)
    if policy is None or not policy.kept:
        return True
    if _is_answered():
        if counts is not None:
            counts["answers_not_kept"] += 1
        return False
    if policy.key is not None:
        return True
    if injected:
        _log.warning(
            "tool %r takes %s, which the model does not write: executed, never cached; "
            "register it with key=, a function of the arguments, if those tell the result",
            name, ", ".join(sorted(injected)),
        )  # fmt: skip
    return not injected


def _goes_back(memory: TieredMemory, name: str) -> bool:
    """Whether the tool's state goes back with the application, and this run was told a checkpoint to start from.

    In the midst of a turn no hook tells of that, and how far the run has come since cannot be told: so each call asks.
    """
    policy = memory.tools.policy(name)
    return policy is not None and policy.rewinds and goes_back(_config())


def _config() -> RunnableConfig:
    try:
        return get_config()
    except RuntimeError:  # outside a graph
        return {}


def _is_answered() -> bool:
    """Whether this step of a graph was interrupted and goes on now with an answer, for itself or for a graph in it."""
    told = _config().get("configurable") or {}
    if not told.get("__pregel_resuming"):
        return False
    pad = told.get("__pregel_scratchpad")
    return bool(told.get("__pregel_resume_map") or (pad and (pad.resume or pad.get_null_resume(False) is not None)))


def run(
    memory: TieredMemory,
    name: str,
    args: Mapping[str, Any],
    fn: Callable[[], Any],
    *,
    scope: str,
    defaults: Mapping[str, Any],
    readable: Callable[[Any], bool] | None = None,
) -> Any:
    """The kept result of the call, or that of ``fn``. Interrupts leave as they came."""

    def guarded(**_: Any) -> Any:
        try:
            return fn()
        except GraphBubbleUp as error:
            return Uncached(_Interrupted(error), alone=True)

    if _goes_back(memory, name):
        memory.tools.rewound(scope)
    kept = memory.tools.call(name, args, guarded, scope=scope, form=_FORM, defaults=defaults, readable=readable)
    return _opened(kept)


async def arun(
    memory: TieredMemory,
    name: str,
    args: Mapping[str, Any],
    fn: Callable[[], Awaitable[Any]],
    *,
    scope: str,
    defaults: Mapping[str, Any],
    readable: Callable[[Any], bool] | None = None,
) -> Any:
    """``run`` for a coroutine function."""

    async def guarded(**_: Any) -> Any:
        try:
            return await fn()
        except GraphBubbleUp as error:
            return Uncached(_Interrupted(error), alone=True)

    if _goes_back(memory, name):
        await asyncio.to_thread(memory.tools.rewound, scope)
    kept = await memory.tools.acall(name, args, guarded, scope=scope, form=_FORM, defaults=defaults, readable=readable)
    return _opened(kept)


def _opened(value: Any) -> Any:
    if isinstance(value, _Interrupted):
        raise value.error
    return value
