"""What stays when a bound is reached: policies score, ``victims`` chooses, the cache runs both.

Read in this order: ``policies`` (the keep-score functions and their contract), ``victims`` (the exact
lowest, with ties), ``cache`` (the container), and only then what carries it: ``slots`` (the arrays),
``values`` (copies and sizes), ``arguments`` (checks).
"""

from shared_core.eviction.cache import AttentionLRUCache
from shared_core.eviction.policies import Entries, KeepScore, attention_lru, fifo, lfu, lru, shuffle
from shared_core.eviction.values import copy_value, deep_size
from shared_core.eviction.victims import victims

__all__ = [
    "AttentionLRUCache",
    "Entries",
    "KeepScore",
    "attention_lru",
    "copy_value",
    "deep_size",
    "fifo",
    "lfu",
    "lru",
    "shuffle",
    "victims",
]
