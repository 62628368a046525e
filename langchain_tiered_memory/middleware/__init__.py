"""What ``create_agent(middleware=[…])`` takes: the memory as one middleware, and each part of it as its own.

``memory.py`` is the one that does it all, made of the others and of nothing else: ``recall.py`` (what a turn recalls
and remembers), ``tools.py``, ``window.py``, ``responses.py``, ``plan.py``. No rules here: they are in ``shared_core``.
"""

from langchain_tiered_memory.middleware.memory import TieredMemoryMiddleware
from langchain_tiered_memory.middleware.plan import TieredPromptPlanMiddleware
from langchain_tiered_memory.middleware.recall import TieredRecallMiddleware
from langchain_tiered_memory.middleware.responses import TieredResponseCacheMiddleware
from langchain_tiered_memory.middleware.tools import TieredToolCacheMiddleware
from langchain_tiered_memory.middleware.window import TieredWindowMiddleware

__all__ = [
    "TieredMemoryMiddleware",
    "TieredPromptPlanMiddleware",
    "TieredRecallMiddleware",
    "TieredResponseCacheMiddleware",
    "TieredToolCacheMiddleware",
    "TieredWindowMiddleware",
]
