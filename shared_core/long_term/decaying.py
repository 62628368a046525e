"""Effective importance of a scope's memories at one moment."""

from __future__ import annotations

from shared_core.long_term.index import Floats, ScopeIndex
from shared_core.scoring import effective_importance
from shared_core.settings import DAY_SECONDS


def effective(index: ScopeIndex, decay: float, now: float) -> Floats:
    """Importance less what the forgetting curve took since the last access, shape [n]; see ``scoring/decay.py``."""
    days = (now - index.floats("last_accessed")) / DAY_SECONDS
    return effective_importance(index.floats("importance"), days, index.floats("access_count"), decay)
