"""Pure functions over arrays: what each part of a score is. Nothing here keeps, reads or evicts.

Read in this order: ``rule`` (the one formula), ``recency`` and ``attention`` (its two halves), then
where a prior comes from: ``frequency`` (nobody rated it: how often it was used lately) and ``decay``
(a rating, less what was forgotten since).
"""

from shared_core.scoring.attention import attention, cosine, unit
from shared_core.scoring.decay import effective_importance
from shared_core.scoring.frequency import frequency_prior, growth, moved_regret
from shared_core.scoring.recency import recency
from shared_core.scoring.rule import parts, score

__all__ = [
    "attention",
    "cosine",
    "effective_importance",
    "frequency_prior",
    "growth",
    "moved_regret",
    "parts",
    "recency",
    "score",
    "unit",
]
