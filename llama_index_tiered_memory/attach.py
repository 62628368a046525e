"""Whose memory a component works on, and how a copy of the component in another process finds it again.

A component that is serialised carries an address (the file's path and a scope), never messages or values.
Reading it attaches to a memory on that file that this process has open already, else opens the file.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from shared_core import Closed, InvalidInput, ScopeRequired, TieredMemory, check_memory
from shared_core.forks import renew_in_child

Scope = str | Callable[[], str] | None
"""A scope, or a function without arguments that tells it at each call (from a context variable, say)."""


class OwnLock:
    """A lock that a forked child has anew, unlocked: ``with own.lock``. The thread that held it is not there."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        renew_in_child(self)

    def after_fork_in_child(self) -> None:
        """A lock of our own."""
        self.lock = threading.Lock()


_open: weakref.WeakValueDictionary[str, TieredMemory] = weakref.WeakValueDictionary()
_own = OwnLock()


def scope_for(memory: TieredMemory, scope: Scope, *, fallback: str | None = None) -> str:
    """The scope of a call. ``fallback`` stands in when neither a scope nor a default was given."""
    if scope is None and memory.default_scope is None and fallback is not None:
        return fallback
    if not callable(scope):
        return memory.scope_of(scope)
    found = scope()
    if found is None:  # a request without a user must not read the default user's memory
        raise ScopeRequired("scope: expected the scope= function to return a string, got None; whose memory is it?")
    return memory.scope_of(found)


def checked(memory: Any, scope: Scope, *, fallback: str | None = None) -> TieredMemory:
    """The memory, noted for later copies; InvalidInput or ScopeRequired if the component could not work on it."""
    found = check_memory(memory, scope)
    if not callable(scope):
        scope_for(found, scope, fallback=fallback)
    if found.storage.location is not None:
        with _own.lock:
            _open[found.storage.location] = found
    return found


def check_fields(name: str, given: tuple[Any, ...], fields: dict[str, Any]) -> None:
    """What a pydantic component is made of, looked at before pydantic, which would wrap the error."""
    if given:
        raise InvalidInput(f"{name}: expected keywords, got {given[0]!r:.80}; write {name}(memory=memory)")
    if "memory" in fields:
        checked(fields["memory"], fields.get("scope"))


def address(memory: TieredMemory, scope: Scope, *, fallback: str | None = None) -> dict[str, str]:
    """Where the component's memory lives: ``location`` and ``scope``. InvalidInput if no one could go there."""
    if memory.storage.location is None:
        raise InvalidInput(
            "expected a memory in a file to serialise, got one in ':memory:'; TieredMemory.open('agent.db')"
        )
    if callable(scope):
        raise InvalidInput("expected a scope that is a string to serialise, got a function; pass scope='…'")
    return {"location": memory.storage.location, "scope": scope_for(memory, scope, fallback=fallback)}


def attached(location: str) -> TieredMemory:
    """The memory on this file: the one this process has open, else opened now (words only, closed when unused)."""
    with _own.lock:
        memory = _open.get(location)
        if memory is not None and not _is_closed(memory):
            return memory
        # Without a model no vector can be of the wrong one; an agent's own memory, opened first, is preferred above.
        memory = TieredMemory.open(location, embedder="none")
        weakref.finalize(memory, memory.storage.close)
        _open[location] = memory
        return memory


def _is_closed(memory: TieredMemory) -> bool:
    try:
        memory.storage.size_bytes()
    except Closed:
        return True
    return False
