"""What a ranked list is worth: recall, any, and how sure the mean is. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=Hashable)


def recall_at(ranked: Sequence[Hashable], wanted: Collection[Hashable], k: int) -> float:
    """The share of ``wanted`` among the first ``k`` of ``ranked``, in [0, 1]."""
    return len(set(ranked[:k]) & set(wanted)) / len(wanted)


def any_at(ranked: Sequence[Hashable], wanted: Collection[Hashable], k: int) -> float:
    """1 if any of ``wanted`` is among the first ``k``, else 0."""
    return float(not set(wanted).isdisjoint(ranked[:k]))


def first_seen(ranked: Sequence[T]) -> list[T]:
    """Distinct values in order of their first appearance: turns' sessions as a ranking of sessions."""
    return list(dict.fromkeys(ranked))


def within_tokens(ranked: Sequence[str], texts: dict[str, str], budget: int, count: Callable[[str], int]) -> list[str]:
    """What of ``ranked`` fits a token budget: whole memories in order, one that does not fit is passed over."""
    kept = []
    for one in ranked:
        cost = count(texts[one])
        if cost <= budget:
            budget -= cost
            kept.append(one)
    return kept


def bootstrap(
    values: Sequence[float], groups: Sequence[Hashable], *, draws: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """The 95 % interval of the mean when whole groups (conversations) are drawn again, with replacement.

    Questions about one conversation stand or fall together, so drawing single questions would
    promise too much. With one group the interval is the mean itself.
    """
    names = {name: i for i, name in enumerate(dict.fromkeys(groups))}
    code: npt.NDArray[np.int64] = np.array([names[name] for name in groups])
    sums, sizes = np.bincount(code, values), np.bincount(code)
    drawn = np.random.default_rng(seed).integers(0, len(names), (draws, len(names)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))
