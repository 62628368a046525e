"""What an adapter is given to stand on, checked once for all of them. No adapter's own arguments."""

from __future__ import annotations

from shared_core import arguments
from shared_core.errors import InvalidInput
from shared_core.memory import TieredMemory


def check_memory(memory: object, scope: object = None) -> TieredMemory:
    """The memory given to an adapter; InvalidInput unless it is one, and the scope a string, a function or None."""
    if not isinstance(memory, TieredMemory):
        came = f"the class {memory.__name__}" if isinstance(memory, type) else f"{memory!r:.80}"
        path = memory if isinstance(memory, str) and memory else "agent.db"
        raise InvalidInput(f"expected a TieredMemory, got {came}; write TieredMemory.open({path!r})")
    if not (scope is None or callable(scope) or (isinstance(scope, str) and scope)):
        raise InvalidInput(
            f"scope: expected a non-empty string, a function that returns one, or None, got {scope!r:.80}"
            f"{arguments.part(scope, 'scope')}"
        )
    if isinstance(scope, str):
        arguments.scope("scope", scope)
    return memory
