"""What recall and remember cost beside the least that anybody could do, as ratios of one run; embedding excluded.

    python -m benchmarks.recall_cost [--memories 100000] [--folder <where the files may be written>]

One scope of made-up chat turns, each with a random unit vector of 384 numbers. The yardsticks: a numpy
scan of the same matrix with the eight best picked, and an INSERT of the same row, vector and terms included,
into a plain SQLite table (WAL, synchronous=FULL, one transaction each). Medians, taken in turn so
that a busy machine slows both alike.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from shared_core import TieredMemory
from shared_core.embedding.base import Vectors

DIMENSION = 384
WORDS = 30_000
BATCH = 10_000
ROUNDS = 30


class MadeUp:
    """Random unit vectors from a pool, chosen by the text: what an embedder gives, at no cost."""

    fingerprint = "made-up/384"
    dimension = DIMENSION

    def __init__(self) -> None:
        pool = np.random.default_rng(1).normal(size=(4096, DIMENSION)).astype(np.float32)
        self._pool = pool / np.linalg.norm(pool, axis=1, keepdims=True)

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Shape [len(texts), 384]."""
        del query
        rows = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=2).digest()) % 4096 for text in texts]
        return self._pool[rows]


def turns(count: int, *, seed: int = 0) -> list[dict[str, object]]:
    """Chat turns of 6 to 30 words whose frequencies fall as in speech (Zipf), twenty turns a session."""
    draw = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, WORDS + 1)
    words = [f"w{i:x}".translate(str.maketrans("0123456789", "ghijklmnop")) for i in range(WORDS)]
    lengths = draw.integers(6, 31, count)
    picked = draw.choice(WORDS, int(lengths.sum()), p=weights / weights.sum())
    ends = np.cumsum(lengths)
    return [
        {
            "text": " ".join(words[j] for j in picked[end - size : end]) + ("?" if i % 7 == 0 else "."),
            "role": "assistant" if i % 2 else "user",
            "session": f"s{(seed, i // 20)}",
        }
        for i, (end, size) in enumerate(zip(ends, lengths, strict=True))
    ]


def fill(path: Path, count: int) -> None:
    """Write the turns into a new file."""
    items = turns(count)
    with TieredMemory.open(path, embedder=MadeUp(), default_scope="bench") as memory:
        for start in range(0, count, BATCH):
            memory.remember_many(items[start : start + BATCH])
        memory.remember_many(turns(50, seed=5), scope="small")


def timed(rounds: int, *tasks: Callable[[int], object]) -> list[float]:
    """The median milliseconds of each task, run in turn."""
    spent: list[list[float]] = [[] for _ in tasks]
    for i in range(rounds):
        for times, task in zip(spent, tasks, strict=True):
            began = time.perf_counter()
            task(i)
            times.append((time.perf_counter() - began) * 1e3)
    return [statistics.median(times) for times in spent]


def recall_beside_scan(memory: TieredMemory, count: int) -> tuple[float, float]:
    """Milliseconds of a recall, and of the scan of a matrix of the same size."""
    model = MadeUp()
    matrix = model.embed([str(i) for i in range(count)])
    queries = [" ".join(str(turn["text"]).split()[:8]) for turn in turns(ROUNDS + 3, seed=9)]

    def scan(i: int) -> object:
        scores = matrix @ model.embed([queries[i]])[0]
        return np.argpartition(-scores, 8)[:8]

    for i in range(ROUNDS, ROUNDS + 3):
        memory.recall(queries[i])
        scan(i)
    recall, bare = timed(ROUNDS, lambda i: memory.recall(queries[i]), scan)
    return recall, bare


def remember_beside_insert(memories: Sequence[TieredMemory], folder: Path) -> list[float]:
    """Milliseconds of a remember in each of these, and of the insert of the same row with the same durability."""
    model, items = MadeUp(), turns(ROUNDS * 3 + 2, seed=7)
    db = sqlite3.connect(folder / "bare.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE memories (row INTEGER PRIMARY KEY, text, role, session, at, terms, vector)")

    def insert(i: int) -> None:
        item = items[i]
        vector = model.embed([str(item["text"])]).tobytes()
        db.execute("BEGIN IMMEDIATE")
        db.execute(
            "INSERT INTO memories (text, role, session, at, terms, vector) VALUES (?, ?, ?, ?, ?, ?)",
            (item["text"], item["role"], item["session"], time.time(), item["text"], vector),
        )
        db.execute("COMMIT")

    def remembering(memory: TieredMemory) -> Callable[[int], object]:
        memory.remember(**items[-1])  # type: ignore[arg-type]
        return lambda i: memory.remember(**items[i])  # type: ignore[arg-type]

    spent = timed(ROUNDS * 3, *map(remembering, memories), insert)
    db.close()
    return spent


def resident() -> int:
    """Bytes of this process in memory, from /proc (Linux)."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def loaded(path: Path) -> None:
    """In a process of its own: open, recall once, and print seconds and bytes as JSON."""
    with TieredMemory.open(path, embedder=MadeUp(), default_scope="bench") as memory:
        memory.recall("wh wi", scope="small")  # what any recall needs: modules, a stemmer, a connection
        before, began = resident(), time.perf_counter()
        memory.recall("wha wib wjc")
        print(json.dumps({"seconds": time.perf_counter() - began, "bytes": resident() - before}))


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="a folder on the disk to measure; default: a temporary one")
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.load:
        loaded(args.load)
        return
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder, memories = Path(name), []
        for count in (args.memories // 10, args.memories):
            path = folder / f"{count}.db"
            began = time.perf_counter()
            fill(path, count)
            print(f"{count} memories: written in {time.perf_counter() - began:.1f} s", flush=True)
            command = [sys.executable, "-m", "benchmarks.recall_cost", "--load", str(path)]
            first = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            each, vector = first["bytes"] / count, 4 * DIMENSION
            print(f"  first recall of a process  {first['seconds']:9.2f} s")
            print(f"  resident bytes a memory    {each:9.0f}     vector {vector}     {each / vector:5.2f} x")
            memory = TieredMemory.open(path, embedder=MadeUp(), default_scope="bench")
            memories.append(memory)
            memory.recall("wh")
            ours, bare = recall_beside_scan(memory, count)
            print(
                f"  recall                     {ours:9.2f} ms  bare scan {bare:9.2f} ms  {ours / bare:5.2f} x",
                flush=True,
            )
        small, large, bare = remember_beside_insert(memories, folder)
        print(f"remember at {args.memories}: {large:.2f} ms  bare insert {bare:.2f} ms  {large / bare:.2f} x")
        print(f"remember at {args.memories // 10}: {small:.2f} ms; the larger beside it: {large / small:.2f} x")
        for memory in memories:
            memory.close()


if __name__ == "__main__":
    main()
