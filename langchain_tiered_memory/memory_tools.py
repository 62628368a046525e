"""``memory_tools``: memory in an agent's own hands: search, save, forget. Recall and storage are the core's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import Field

from langchain_tiered_memory import convert
from langchain_tiered_memory.owner import Named, scope_of
from shared_core import InvalidInput, StorageError, TieredMemory, check_memory


def memory_tools(memory: TieredMemory, *, scope: Named = None) -> list[BaseTool]:
    """Three tools: ``search_memory``, ``save_memory``, ``forget_memory``.

    ``scope`` is a string or a function of the run's config (``lambda config: config["configurable"]["user"]``).
    They are registered as tools that are never cached and make no cached result stale. What the model wrote and the
    memory does not take (an empty text), and a file that cannot be read, are told to the model as the tool's error.
    """
    check_memory(memory, scope)

    def search_memory(
        query: Annotated[str, Field(description="What to look for, in your own words.")],
        config: RunnableConfig,
        limit: Annotated[int, Field(description="How many memories at most.", ge=1, le=50)] = 5,
    ) -> str:
        """Search what is remembered about the user. Returns one memory a line, with the id that forget_memory takes."""
        with _told(scope_of(memory, scope, config)) as own:
            hits = memory.recall(query, k=limit, scope=own)
        return "\n".join(convert.line(hit.memory) for hit in hits) or "Nothing is remembered about that."

    def save_memory(
        text: Annotated[str, Field(description="One fact, as a sentence that can be understood on its own.")],
        config: RunnableConfig,
    ) -> str:
        """Remember a fact about the user for later conversations."""
        with _told(scope_of(memory, scope, config)) as own:
            return f"Remembered as {memory.remember(text, role='assistant', scope=own).id}."

    def forget_memory(
        ids: Annotated[list[str], Field(description="Ids that search_memory showed.")], config: RunnableConfig
    ) -> str:
        """Erase memories for good, when the user asks for it or when they are wrong."""
        with _told(scope_of(memory, scope, config)) as own:
            return f"Forgot {memory.forget(ids, scope=own)} of {len(ids)}."

    made: list[BaseTool] = []
    for fn in (search_memory, save_memory, forget_memory):
        made.append(StructuredTool.from_function(fn, handle_tool_error=True))
        memory.tools.register(fn.__name__, cacheable=False, writes=[])
    return made


@contextmanager
def _told(scope: str) -> Iterator[str]:
    try:
        yield scope
    except (InvalidInput, StorageError) as error:
        raise ToolException(str(error)) from error
