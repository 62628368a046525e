"""The one rule of every tier: ``score = alpha * recency + beta * attention``. Higher is kept."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]


def parts(recency: Scores, attention: Scores, alpha: float, beta: float) -> dict[str, Scores]:
    """What each half adds to the score, in the order in which they are summed; shapes [n]."""
    return {"recency": alpha * recency, "attention": beta * attention}


def score(recency: Scores, attention: Scores, alpha: float, beta: float) -> Scores:
    """``alpha * recency + beta * attention``, shape [n]; equals the sum of ``parts`` to the last bit."""
    return alpha * recency + beta * attention
