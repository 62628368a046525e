"""Hit ratios on public key traces, beside the best known policies and the offline optimum.

    python -m benchmarks.eviction_traces --data <folder>        (or TIERED_MEMORY_DATA)

Needs the extra ``bench``, whose libcachesim runs every policy but ours (FIFO, LRU, LFU, S3-FIFO, SIEVE,
W-TinyLFU, ARC, and Belady with the next access of each key). Ours is ``AttentionLRUCache`` with the
frequency prior, as the tool and response caches use it. A trace has no times: the clock moves on so
that as many accesses as there are places take one ``time_scale``.
"""

from __future__ import annotations

import argparse
import gzip
import lzma
import multiprocessing
import os
from pathlib import Path

import numpy as np
from tqdm import tqdm

from shared_core import MISS, AttentionLRUCache

TRACES = {
    "2_pools": "lirs_2_pools.trace.gz",
    "multi1": "lirs_multi1.trace.gz",
    "loop": "lirs_loop.trace.gz",
    "sprite": "lirs_sprite.trace.gz",
    "cpp": "lirs_cpp.trace.gz",
    "web07": "cache2k_web07.trace.xz",
}
SHARES = (0.01, 0.10, 0.25)
THEIRS = ("FIFO", "LRU", "LFU", "S3FIFO", "Sieve", "WTinyLFU", "ARC", "Belady")
TIME_SCALE = 300.0
NEVER = 2**62


def load(folder: Path, name: str) -> list[int]:
    """One trace as a list of keys."""
    path = folder / "cache_traces" / TRACES[name]
    if path.suffix == ".xz":
        return np.frombuffer(lzma.decompress(path.read_bytes()), ">i4").tolist()
    return [int(line) for line in gzip.decompress(path.read_bytes()).split() if line.strip().isdigit()]


def next_accesses(keys: list[int]) -> list[int]:
    """When each key is asked for again, which is all that the optimum knows more."""
    after = [NEVER] * len(keys)
    seen: dict[int, int] = {}
    for i in range(len(keys) - 1, -1, -1):
        after[i] = seen.get(keys[i], NEVER)
        seen[keys[i]] = i
    return after


def theirs(policy: str, keys: list[int], after: list[int], size: int) -> float:
    """The hit ratio of one of libcachesim's policies."""
    import libcachesim

    cache = getattr(libcachesim, policy)(cache_size=size)
    request = libcachesim.Request()
    hits = 0
    for i, key in enumerate(keys):
        request.obj_id, request.obj_size, request.clock_time, request.next_access_vtime = key, 1, i, after[i]
        hits += cache.get(request)
    return hits / len(keys)


def ours(keys: list[int], size: int) -> float:
    """The hit ratio of the rule with the frequency prior."""
    now = [0.0]
    cache = AttentionLRUCache(
        size, default_prior="frequency", time_scale=TIME_SCALE, clock=lambda: now[0], copy=None, getsizeof=lambda _: 1
    )
    hits = 0
    for key in keys:
        now[0] += TIME_SCALE / size
        if cache.get(key) is MISS:
            cache.put(key, True)
        else:
            hits += 1
    return hits / len(keys)


def row(folder: Path, name: str, share: float, sample: int | None) -> dict[str, float]:
    """Every policy's hit ratio on one trace at one size."""
    keys = load(folder, name)[:sample]
    after = next_accesses(keys)
    size = max(1, int(share * len(set(keys))))
    return {**{policy: theirs(policy, keys, after, size) for policy in THEIRS}, "ours": ours(keys, size)}


def main() -> None:
    """Print one row for each trace and size, and the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("TIERED_MEMORY_DATA"), help="folder that holds cache_traces/")
    parser.add_argument("--sample", type=int, help="only the first N accesses of each trace")
    options = parser.parse_args()
    if not options.data:
        parser.error("give the data folder with --data or TIERED_MEMORY_DATA (benchmarks/datasets.py: what lies in it)")
    columns = (*THEIRS, "ours")
    rows: list[tuple[str, float, dict[str, float]]] = []
    with multiprocessing.get_context("spawn").Pool() as pool:
        pending = [
            (name, share, pool.apply_async(row, (Path(options.data), name, share, options.sample)))
            for name in TRACES
            for share in SHARES
        ]
        for name, share, ratios in tqdm(pending, desc="traces"):
            rows.append((name, share, ratios.get()))
    print("hit ratio, %, by trace and share of its distinct keys\n")
    print(f"{'trace':<9}{'size':>5}" + "".join(f"{column:>10}" for column in columns) + f"{'ours-max(LRU,LFU)':>20}")
    for name, share, ratios in rows:
        ahead = ratios["ours"] - max(ratios["LRU"], ratios["LFU"])
        cells = "".join(f"{100 * ratios[column]:>10.1f}" for column in columns)
        print(f"{name:<9}{100 * share:>4.0f}%{cells}{100 * ahead:>+20.1f}")
    means = {column: float(np.mean([ratios[column] for _, _, ratios in rows])) for column in columns}
    worst = min(ratios["ours"] - max(ratios["LRU"], ratios["LFU"]) for _, _, ratios in rows)
    print(
        f"{'mean':<14}"
        + "".join(f"{100 * means[column]:>10.1f}" for column in columns)
        + f"{100 * worst:>+20.1f} worst"
    )
    print(
        f"\nn = {len(rows)} (6 traces, 3 sizes). S3-FIFO mean {100 * means['S3FIFO']:.2f}, ours {100 * means['ours']:.2f}."
    )
    print(
        "The formula's constants were chosen with these traces in view: a comparison of like with like, no held-out claim."
    )


if __name__ == "__main__":
    main()
