"""``cached_tools``: the same tools, with the results of the registered ones kept by ``memory.tools``.

For tools outside ``create_agent``, and for every executor that takes a BaseTool; inside it the middleware does
the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from langchain_core.tools import BaseTool

from langchain_tiered_memory.owner import Named, one_each
from langchain_tiered_memory.tool_copies import cached
from shared_core import InvalidInput, TieredMemory, check_memory


def cached_tools(tools: Iterable[BaseTool], memory: TieredMemory, *, scope: Named = None) -> list[BaseTool]:
    """Copies of the tools, of the same type, name, schema and behaviour, whose calls go through ``memory.tools``.

    Only tools registered with ``memory.tools.register(name, …)`` are cached; the others are executed always and,
    since they may write anything, make cached results of the scope stale. Errors, commands and messages that a
    tool returns are never kept, nor is what a person answered to its ``interrupt``; a tool with injected arguments only
    if it was registered with ``key=``.
    ``scope`` is a string or a function of the run's config, called at each call. The tools given stay as they are.
    """
    tools = list(one_each(tools))
    check_memory(memory, scope)
    for tool in tools:
        if not isinstance(tool, BaseTool):
            raise InvalidInput(f"tools: expected LangChain tools, got {tool!r}; decorate a function with @tool")
    return [cached(tool, memory, scope) for tool in tools]
