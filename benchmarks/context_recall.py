"""Context recall: whether what a question needs is still in the cache when it is asked.

    python -m benchmarks.context_recall --data <folder>        (or TIERED_MEMORY_DATA) [--embedder static]

The turns of a conversation stream, one every ten seconds, into a cache of 10, 25 or 50 % of them. Each
question comes after a turn drawn at random from its last evidence turn to the end (five seeds), and
touches the five resident turns nearest to it. Counted are the share of its evidence still there, before
the touch; the mean cosine of the five turns with the question (semantic consistency); and the time of a
question. "Cosine alone" is the rule without a prior: attention is the evidence, 0 until the first touch.
The priors are the salience of each turn when it comes; nothing is fitted on the conversation measured.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.streams import Conversation, conversations, take_data
from shared_core.embedding import Embedder, open_embedder
from shared_core.eviction.cache import AttentionLRUCache
from shared_core.scoring.salience import ScopeStatistics, salience
from shared_core.text import terms, windows

SHARES = (0.10, 0.25, 0.50)
SECONDS_BETWEEN_TURNS = 10.0
NEAREST = 5
POLICIES: Mapping[str, Mapping[str, Any]] = {
    "random": {"policy": "random"},
    "fifo": {"policy": "fifo"},
    "lru": {"policy": "lru"},
    "cosine alone": {"evidence_weight": 1.0, "default_prior": 0.0},
    "ours": {},
}
GOALS = {"locomo": "must reach 0.48 / 0.79 / 0.95", "beam": "must reach 1.5 times lru at 25 %"}


class Clock:
    """Time that stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def priors(conversation: Conversation) -> np.ndarray:
    """The salience of every turn against what its conversation had said before it; shape [turns]."""
    counts: dict[str, int] = {}
    worth = []
    for n, turn in enumerate(conversation.turns):
        cut = terms(turn.text)
        worth.append(salience(turn.text, cut, role=turn.role, statistics=ScopeStatistics(n, counts)))
        for term in set(cut):
            counts[term] = counts.get(term, 0) + 1
    return np.array(worth)


def replay(
    conversation: Conversation,
    vectors: np.ndarray,
    questions: np.ndarray,
    prior: np.ndarray | None,
    *,
    share: float,
    seed: int,
    **policy: Any,
) -> np.ndarray:
    """Rows of (share of evidence there, mean cosine of the nearest, seconds), shape [questions, 3]."""
    clock = Clock()
    n = len(conversation.turns)
    cache = AttentionLRUCache(round(share * n), clock=clock, seed=seed, copy=None, **policy)
    rng = np.random.default_rng(seed)
    asked_after = [int(rng.integers(question.evidence[-1], n)) for question in conversation.questions]
    due = [np.flatnonzero(np.array(asked_after) == i) for i in range(n)]
    rows = []
    for i in range(n):
        clock.now = i * SECONDS_BETWEEN_TURNS
        cache.put(i, i, embedding=vectors[i], prior=None if prior is None else float(prior[i]))
        for question in due[i]:
            resident = np.array(cache.keys())
            there = np.isin(conversation.questions[question].evidence, resident).mean()
            start = time.perf_counter()
            cosines = vectors[resident] @ questions[question]
            nearest = np.argsort(-cosines, kind="stable")[:NEAREST]
            for turn in resident[nearest]:
                cache.get(int(turn), query_vector=questions[question])
            rows.append((there, cosines[nearest].mean(), time.perf_counter() - start))
    return np.array(rows)


def report(name: str, data: Path, embedder: Embedder, seeds: int) -> None:
    sets = conversations(name, data)
    # A long turn is embedded by its first window: what the turn is about stands there.
    vectors = [np.asarray(embedder.embed([windows(turn.text)[0] for turn in c.turns])) for c in sets]
    questions = [np.asarray(embedder.embed([q.text for q in c.questions], query=True)) for c in sets]
    worth = [priors(c) for c in sets]
    asked = sum(len(c.questions) for c in sets)
    print(f"\n{name}: {len(sets)} conversations, {asked} questions, {seeds} seeds; {GOALS[name]}")
    print(f"{'evidence there':<16}" + "".join(f"{share:>8.0%}" for share in SHARES) + "   consistency   ms a question")
    for label, policy in POLICIES.items():
        cells = [
            np.concatenate(
                [
                    replay(c, v, q, p if label == "ours" else None, share=share, seed=seed, **policy)
                    for c, v, q, p in zip(sets, vectors, questions, worth, strict=True)
                    for seed in range(seeds)
                ]
            )
            for share in SHARES
        ]
        line = "".join(f"{cell[:, 0].mean():>8.3f}" for cell in cells)
        every = np.concatenate(cells)
        print(f"{label:<16}{line}{every[:, 1].mean():>14.3f}{1e3 * every[:, 2].mean():>16.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    take_data(parser)
    parser.add_argument("--embedder", default="minilm", help="one of shared_core.embedding.NAMES, with vectors")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    embedder = open_embedder(given.embedder)
    if embedder is None:
        parser.error("--embedder: expected a model with vectors, got 'none'; say minilm or static")
    for name in GOALS:
        report(name, given.data, embedder, given.seeds)


if __name__ == "__main__":
    main()
