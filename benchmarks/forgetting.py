"""Forgetting: the share of the questions' evidence still held when only part of a conversation may stay.

    python -m benchmarks.forgetting --data <folder>        (or TIERED_MEMORY_DATA)

Every turn is written to long-term memory, nothing is read, and a sweep keeps 10, 25 or 50 %. The mean
is over questions. "At once" writes the whole conversation on one day (an import), so that the prior
decides; "dated" writes each turn on its own day and sweeps on the last, so that the forgetting curve
and recency have their say. The rule and its constants are those of ``Settings()``; nothing is fitted
on the conversation measured.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import numpy as np

from benchmarks.streams import DAY_SECONDS, Conversation, conversations, take_data
from shared_core import scoring
from shared_core.eviction.policies import Entries, named
from shared_core.scoring.salience import ScopeStatistics, salience
from shared_core.settings import Rule, Settings
from shared_core.text import terms

SHARES = (0.10, 0.25, 0.50)
MUST = {"locomo": (0.36, 0.66, 0.90), "beam": (0.15, 0.40, 0.86)}


def priors(conversation: Conversation) -> np.ndarray:
    """The salience of every turn against what its scope had said before it; shape [turns]."""
    counts: dict[str, int] = {}
    found = []
    for n, turn in enumerate(conversation.turns):
        cut = terms(turn.text)
        found.append(salience(turn.text, cut, role=turn.role, statistics=ScopeStatistics(n, counts)))
        for term in set(cut):
            counts[term] = counts.get(term, 0) + 1
    return np.array(found)


def keep_scores(
    conversation: Conversation, policy: str, *, settings: Settings, dated: bool, seed: int = 0
) -> np.ndarray:
    """What the policy scores each turn at the end of the conversation, higher is kept; shape [turns]."""
    n = len(conversation.turns)
    if policy == "longest":
        return np.array([len(turn.text) for turn in conversation.turns], dtype=float)
    now = conversation.turns[-1].at
    at = np.array([turn.at for turn in conversation.turns]) if dated else now - 1e-3 * np.arange(n)[::-1]
    prior = np.full(n, 0.5)
    if policy == "attention_lru":
        prior = scoring.effective_importance(priors(conversation), (now - at) / DAY_SECONDS, 1, settings.decay)
    entries = Entries(
        now=now,
        last_accessed=at,
        inserted=np.arange(n),
        access_count=np.ones(n),
        prior=prior,
        evidence=np.full(n, np.nan),
    )
    return named(policy, rule=settings.long_term, rng=np.random.default_rng(seed))(entries)


def held(conversation: Conversation, scores: np.ndarray, share: float) -> np.ndarray:
    """The share of each question's evidence among the best ``share`` of the turns; shape [questions]."""
    n = len(scores)
    lowest_first = np.lexsort((np.arange(n), scores))  # ties: the oldest goes first
    kept = np.zeros(n, dtype=bool)
    kept[lowest_first[n - round(share * n) :]] = True
    return np.array([kept[list(question.evidence)].mean() for question in conversation.questions])


def interval(by_conversation: list[np.ndarray], seed: int = 0) -> tuple[float, float]:
    """A 95 % bootstrap interval of the mean, conversations drawn with replacement."""
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, len(by_conversation), (2_000, len(by_conversation)))
    sums, sizes = np.array([x.sum() for x in by_conversation]), np.array([len(x) for x in by_conversation])
    low, high = np.percentile(sums[draws].sum(1) / sizes[draws].sum(1), [2.5, 97.5])
    return float(low), float(high)


def report(name: str, data: Path, settings: Settings) -> None:
    sets = conversations(name, data)
    turns, asked = sum(len(c.turns) for c in sets), sum(len(c.questions) for c in sets)
    print(f"\n{name}: {len(sets)} conversations, {turns} turns, {asked} questions with evidence")
    print(f"{'kept':<24}" + "".join(f"{share:>8.0%}" for share in SHARES))
    rows = [("lru", "lru", True), ("lfu", "lfu", True), ("fifo", "fifo", True), ("random", "random", True)]
    rows += [("longest text", "longest", True)]
    rows += [("ours, written at once", "attention_lru", False), ("ours, dated", "attention_lru", True)]
    for label, policy, dated in rows:
        scores = [keep_scores(c, policy, settings=settings, dated=dated, seed=i) for i, c in enumerate(sets)]
        cells = [[held(c, s, share) for c, s in zip(sets, scores, strict=True)] for share in SHARES]
        line = "".join(f"{np.concatenate(cell).mean():>8.3f}" for cell in cells)
        print(f"{label:<24}{line}" + ("  " + spans(cells) if policy == "attention_lru" else ""))
    print(f"{'must reach':<24}" + "".join(f"{goal:>8.2f}" for goal in MUST[name]))


def spans(cells: list[list[np.ndarray]]) -> str:
    return " ".join("[{:.2f}, {:.2f}]".format(*interval(cell)) for cell in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    take_data(parser)
    default = Settings()
    parser.add_argument("--alpha", type=float, default=default.long_term.alpha)
    parser.add_argument("--days", type=float, default=default.long_term.time_scale / DAY_SECONDS, help="time scale")
    parser.add_argument("--decay", type=float, default=default.decay)
    given = parser.parse_args()
    rule = Rule(alpha=given.alpha, beta=1.0 - given.alpha, time_scale=given.days * DAY_SECONDS)
    settings = dataclasses.replace(default, long_term=rule, decay=given.decay)
    print(f"alpha {rule.alpha:g}, beta {rule.beta:g}, time scale {given.days:g} days, decay {given.decay:g} a day")
    for name in MUST:
        report(name, given.data, settings)


if __name__ == "__main__":
    main()
