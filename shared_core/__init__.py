"""The memory that agents are missing, in three tiers under one rule.

Reading order: ``memory.py`` (what opens and what is there), ``turn.py`` (how one turn runs through the
tiers), ``scoring/rule.py`` (the rule), then ``long_term/``, ``mid_term/``, ``short_term/``, ``eviction/``,
``embedding/``, ``storage/``. ``errors.py`` draws every error; ``settings.py`` lists every number a user may turn.
"""

from shared_core.embedding import Embedder
from shared_core.errors import (
    Closed,
    DuplicateId,
    EmbedderError,
    EmbedderMismatch,
    InvalidInput,
    MissingExtra,
    NotFound,
    SchemaTooNew,
    ScopeRequired,
    StorageError,
    TieredMemoryError,
    open_again,
)
from shared_core.eviction import AttentionLRUCache
from shared_core.given import check_memory
from shared_core.memory import TieredMemory
from shared_core.mid_term.context import Context
from shared_core.mid_term.values import Uncached
from shared_core.records import MISS, CheckReport, Hit, Memory, Problem, Receipt, SweepReport
from shared_core.settings import RecallWeights, Retention, Rule, Settings
from shared_core.storage.base import Blob, Storage
from shared_core.turn import Turn

__all__ = [
    "MISS",
    "AttentionLRUCache",
    "Blob",
    "CheckReport",
    "Closed",
    "Context",
    "DuplicateId",
    "Embedder",
    "EmbedderError",
    "EmbedderMismatch",
    "Hit",
    "InvalidInput",
    "Memory",
    "MissingExtra",
    "NotFound",
    "Problem",
    "RecallWeights",
    "Receipt",
    "Retention",
    "Rule",
    "SchemaTooNew",
    "ScopeRequired",
    "Settings",
    "Storage",
    "StorageError",
    "SweepReport",
    "TieredMemory",
    "TieredMemoryError",
    "Turn",
    "Uncached",
    "check_memory",
    "open_again",
]
