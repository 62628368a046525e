"""Whom a call belongs to and which conversation it is part of. No storage, no conversion."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from langchain_core.tools import BaseTool
from langgraph.config import get_config

from langchain_tiered_memory import turn_note
from shared_core import InvalidInput, ScopeRequired, TieredMemory, check_memory

Named = str | Callable[..., str | None] | None
"""A name, a function that finds it, or None for the default."""

T = TypeVar("T")


def one_each(tools: Iterable[T]) -> Iterable[T]:
    """The tools of a list; InvalidInput for one tool, which would be taken apart, and for a memory in their place."""
    if isinstance(tools, TieredMemory):
        raise InvalidInput("tools: expected a list of tools, got a TieredMemory; write cached_tools(tools, memory)")
    if isinstance(tools, str | BaseTool) or not isinstance(tools, Iterable):
        raise InvalidInput(f"tools: expected a list of tools, got {tools!r:.80}; write [tool] for one")
    return tools


def check_fields(name: str, given: tuple[Any, ...], fields: dict[str, Any]) -> None:
    """What a pydantic component is made of, looked at before pydantic, which would wrap the error."""
    if given:
        raise InvalidInput(f"{name}: expected keywords, got {given[0]!r:.80}; write {name}(memory=memory)")
    if "memory" in fields:
        check_memory(fields["memory"], fields.get("scope"))


def scope_of(memory: TieredMemory, scope: Named, *given: Any, fallback: str | None = None) -> str:
    """The scope of a call: ``scope`` itself, or what the function makes of what the framework gave.

    None means the memory's default scope, else ``fallback``. A function that finds nobody raises
    ScopeRequired: a request without a user must not read the default user's memory. What it raises itself comes
    with a note of what it was called with.
    """
    if callable(scope):
        try:
            found = _at_once("scope", scope(*given))
        except Exception as error:
            error.add_note(
                f"the scope= function was called with {type(given[0]).__name__ if given else 'nothing'}: "
                "middleware gives it the runtime, tools the config of the run (a dict), everything else nothing"
            )
            raise
        if found is None:
            raise ScopeRequired("scope: expected the scope= function to return a string, got None; whose memory is it?")
        return memory.scope_of(found)
    if scope is None and memory.default_scope is None and fallback is not None:
        return fallback
    return memory.scope_of(scope)


def check_session(session: object) -> None:
    """InvalidInput for a session that is neither a name, nor a function that finds it, nor None."""
    if session is not None and not callable(session) and not isinstance(session, str):
        raise InvalidInput(f"session: expected a string, a function of the runtime or None, got {session!r}")


def session_of(session: Named, runtime: Any) -> str:
    """The conversation of a run: as given, else the thread id; a run without a thread is a conversation of its own."""
    found: Any = _at_once("session", session(runtime)) if callable(session) else session
    if found is None:
        found = _thread_id(runtime)
    return uuid.uuid4().hex if found is None else str(found)


def _at_once(what: str, found: Any) -> Any:
    if inspect.isawaitable(found):
        if inspect.iscoroutine(found):
            found.close()
        raise InvalidInput(
            f"{what}: expected the {what}= function to return a string, got {type(found).__name__}; "
            "write def instead of async def"
        )
    return found


def _name(middleware: Any) -> str:
    return str(middleware._name)  # noqa: SLF001


given_name = property(_name, doc="The name the agent knows it by; two of one name are refused by ``create_agent``.")
"""The ``name`` of every middleware here."""


class Owner:
    """Whose the calls of a middleware are: as the turn's note says that stands under its name, else as it was given."""

    def __init__(self, memory: TieredMemory, name: str, *, scope: Named = None, session: Named = None) -> None:
        self._memory, self._name = memory, name
        self._scope, self._session = scope, session

    def scope(self, state: Any, runtime: Any) -> str:
        """The scope of a call."""
        note = turn_note.note_of(state, self._name)
        return str(note["scope"]) if note is not None else scope_of(self._memory, self._scope, runtime)

    def session(self, state: Any, runtime: Any) -> str | None:
        """The conversation that goes on from run to run; None if neither a session nor a thread names it."""
        if self._session is None and _thread_id(runtime) is None:
            return None
        note = turn_note.note_of(state, self._name)
        return str(note["session"]) if note is not None else session_of(self._session, runtime)


def writer_of(name: str, runtime: Any, *, new: bool = False) -> str:
    """What tells a middleware of this name from those of other agents on the same thread, run after run.

    A run without a checkpointer has no run before it to go back to: it is a writer of its own. So is the first run of
    a thread (``new``: its state holds no note yet), since other agents may have a thread of that id and begin with the
    same message. An agent that is a node is told by its place in the graph.
    """
    try:
        config = get_config()
    except RuntimeError:  # outside a run
        config = {}
    if (config.get("configurable") or {}).get("__pregel_checkpointer", ...) is None:
        return uuid.uuid4().hex
    info = getattr(runtime, "execution_info", None)
    places = str(getattr(info, "checkpoint_ns", None) or "").split("|")[:-1]  # the last is the hook's own
    if new and not places and not goes_back(config):
        return uuid.uuid4().hex
    return "|".join([name, *(place.partition(":")[0] for place in places)])


def goes_back(config: Mapping[str, Any]) -> bool:
    """Whether a run was told a checkpoint to start from."""
    return bool((config.get("metadata") or {}).get("checkpoint_id"))


def _thread_id(runtime: Any) -> Any:
    info = getattr(runtime, "execution_info", None)
    found = getattr(info, "thread_id", None)
    if found is not None:
        return found
    try:
        config = get_config()
    except RuntimeError:  # outside a run
        return None
    return (config.get("configurable") or {}).get("thread_id")
