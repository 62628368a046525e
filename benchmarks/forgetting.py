"""Forgetting: the share of the questions' evidence still held when only part of a conversation may stay.

    python -m benchmarks.forgetting --data <folder>        (or TIERED_MEMORY_DATA)

Every turn is remembered, nothing is read, and a sweep keeps 10, 25 or 50 %. The mean is over questions.
Ours is the product with its default ``Settings``: "at once" remembers the whole conversation now (an
import), so that the prior decides; "dated" remembers each turn at its own time and sweeps at the last,
so that the forgetting curve and recency have their say. R@10 is what recall then finds of the evidence.
Nothing is fitted on the conversation measured. At the end, what a write costs at the bound of a budget
against one in a scope without a bound (``--cost`` prints that alone and needs no data).
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks.streams import DAY_SECONDS, Conversation, conversations, take_data
from shared_core import Settings, TieredMemory
from shared_core.eviction.policies import Entries, named
from shared_core.settings import Rule
from shared_core.testing import FakeClock

SHARES = (0.10, 0.25, 0.50)
BASELINES = ("lru", "lfu", "fifo", "random", "longest text")
MUST = {"locomo": (0.36, 0.66, 0.90), "beam": (0.15, 0.40, 0.86)}
SCOPE = "benchmark"


def baseline(conversation: Conversation, policy: str, share: float, seed: int) -> np.ndarray:
    """The share of each question's evidence that the policy keeps; shape [questions]."""
    n = len(conversation.turns)
    if policy == "longest text":
        scores = np.array([len(turn.text) for turn in conversation.turns], dtype=float)
    else:
        facts = Entries(
            now=conversation.turns[-1].at,
            last_accessed=np.array([turn.at for turn in conversation.turns]),
            inserted=np.arange(n),
            access_count=np.ones(n),
            prior=np.full(n, 0.5),
            evidence=np.full(n, np.nan),
        )
        scores = named(policy, rule=Rule(), rng=np.random.default_rng(seed))(facts)
    lowest_first = np.lexsort((np.arange(n), scores))  # ties: the oldest goes first
    kept = {str(turn) for turn in lowest_first[n - round(share * n) :]}
    return np.array([found(question.evidence, kept) for question in conversation.questions])


def ours(
    conversation: Conversation, share: float, *, settings: Settings, dated: bool, embedder: str
) -> tuple[np.ndarray, np.ndarray]:
    """The share of each question's evidence that a sweep keeps, and that recall at 10 finds; shapes [questions]."""
    clock = FakeClock(conversation.turns[-1].at)
    items = [
        {
            "text": turn.text,
            "role": turn.role,
            "speaker": turn.speaker,
            "session": turn.session,
            "at": turn.at,
            "id": str(i),
        }
        for i, turn in enumerate(conversation.turns)
    ]
    with TieredMemory.open(
        ":memory:", embedder=embedder, default_scope=SCOPE, settings=settings, clock=clock
    ) as memory:
        if dated:
            for item, turn in zip(items, conversation.turns, strict=True):
                clock.now = turn.at
                memory.remember(**item)
        else:
            memory.remember_many(items)
        memory.sweep(max_memories=round(share * len(items)))
        kept = {one.id for one in memory.long_term.list()}
        there = [found(question.evidence, kept) for question in conversation.questions]
        recalled = [
            found(question.evidence, {hit.memory.id for hit in memory.recall(question.text, k=10)})
            for question in conversation.questions
        ]
    return np.array(there), np.array(recalled)


def found(evidence: tuple[int, ...], ids: set[str]) -> float:
    """The share of the evidence turns whose ids are among these."""
    return float(np.mean([str(turn) in ids for turn in evidence]))


def interval(by_conversation: list[np.ndarray], seed: int = 0) -> str:
    """A 95 % bootstrap interval of the mean, conversations drawn with replacement."""
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, len(by_conversation), (2_000, len(by_conversation)))
    sums, sizes = np.array([x.sum() for x in by_conversation]), np.array([len(x) for x in by_conversation])
    low, high = np.percentile(sums[draws].sum(1) / sizes[draws].sum(1), [2.5, 97.5])
    return f"[{low:.2f}, {high:.2f}]"


def report(name: str, data: Path, settings: Settings, embedder: str) -> None:
    sets = conversations(name, data)
    turns, asked = sum(len(c.turns) for c in sets), sum(len(c.questions) for c in sets)
    print(f"\n{name}: {len(sets)} conversations, {turns} turns, {asked} questions with evidence")
    print(f"{'kept':<24}" + "".join(f"{share:>8.0%}" for share in SHARES))
    for policy in BASELINES:
        cells = [[baseline(c, policy, share, seed) for seed, c in enumerate(sets)] for share in SHARES]
        row(policy, cells)
    for label, dated in (("ours, written at once", False), ("ours, dated", True)):
        both = [[ours(c, s, settings=settings, dated=dated, embedder=embedder) for c in sets] for s in SHARES]
        cells = [[there for there, _ in cell] for cell in both]
        row(label, cells, "  " + " ".join(interval(cell) for cell in cells))
        row("    R@10 afterwards", [[recalled for _, recalled in cell] for cell in both])
    print(f"{'must reach':<24}" + "".join(f"{goal:>8.2f}" for goal in MUST[name]))


def row(label: str, cells: list[list[np.ndarray]], more: str = "") -> None:
    """Print one line: the mean over questions under each share."""
    print(f"{label:<24}" + "".join(f"{np.concatenate(cell).mean():>8.3f}" for cell in cells) + more, flush=True)


def cost(bound: int, victims: Literal["archive", "delete"] = "archive", *, rounds: int = 4) -> None:
    """Milliseconds of a durable write at the bound and of one without a bound, in turns on two files."""
    with tempfile.TemporaryDirectory() as folder:
        at = _opened(Path(folder) / "at.db", Settings(max_memories=bound, victims=victims))
        below = _opened(Path(folder) / "below.db", Settings())
        each = max(bound // 2, 200)  # whole rounds of evictions, and the index read anew, are in the figure
        spent: dict[str, list[tuple[float, float]]] = {"at": [], "below": []}
        with at, below:
            for memory in (at, below):
                memory.remember_many([{"text": text(i), "id": str(i)} for i in range(bound)])
            for one in range(rounds):
                numbers = range(bound + one * each, bound + (one + 1) * each)
                for name, memory in (("at", at), ("below", below)):
                    start, cpu = time.perf_counter(), time.process_time()
                    for i in numbers:
                        memory.remember(text(i), id=str(i))
                    spent[name].append(((time.perf_counter() - start) / each, (time.process_time() - cpu) / each))
            kept = len(at.long_term.list())
        (at_ms, at_cpu), (below_ms, below_cpu) = (1e3 * np.median(spent[name], axis=0) for name in ("at", "below"))
        print(
            f"{bound:>8} memories ({kept} kept, {victims}): {at_ms:.2f} ms a write at the bound, {below_ms:.2f} ms without one, "
            f"ratio {at_ms / below_ms:.2f}; of processor time {at_cpu:.2f} and {below_cpu:.2f} ms, "
            f"ratio {at_cpu / below_cpu:.2f} (must be at most 1.5)",
            flush=True,
        )


def _opened(path: Path, settings: Settings) -> TieredMemory:
    return TieredMemory.open(path, embedder="none", default_scope=SCOPE, settings=settings)


def text(i: int) -> str:
    """A short text that no other number gives."""
    return f"On day {i} we talked about topic {i % 97} and place {i * 7919 % 1009}, and agreed on {i % 13} steps."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cost", action="store_true", help="only what a write costs")
    take_data(parser, needed=False)
    default = Settings()
    parser.add_argument("--embedder", default="none", help="for R@10; one of shared_core.embedding.NAMES")
    parser.add_argument("--alpha", type=float, default=default.long_term.alpha)
    parser.add_argument("--days", type=float, default=default.long_term.time_scale / DAY_SECONDS, help="time scale")
    parser.add_argument("--decay", type=float, default=default.decay)
    given = parser.parse_args()
    if not given.cost:
        held(given, default)
    print("\ncost of a write")
    for bound in (10, 30, 100, 1_000, 3_000):
        cost(bound)
    cost(100, "delete")


def held(given: argparse.Namespace, default: Settings) -> None:
    rule = Rule(alpha=given.alpha, beta=1.0 - given.alpha, time_scale=given.days * DAY_SECONDS)
    settings = dataclasses.replace(default, long_term=rule, decay=given.decay)
    print(f"alpha {rule.alpha:g}, beta {rule.beta:g}, time scale {given.days:g} days, decay {given.decay:g} a day")
    if given.data is None:
        raise SystemExit(
            "No data: pass --data <folder>, or set TIERED_MEMORY_DATA (benchmarks/datasets.py: what lies in it)"
        )
    for name in MUST:
        report(name, given.data, settings, given.embedder)


if __name__ == "__main__":
    main()
