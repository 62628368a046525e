"""What a get, a put and a victim cost, as ratios to a plain dict, beside cachetools and diskcache.

    python -m benchmarks.throughput [--sample N]        (needs the extra "bench"; no data)

Every ratio is against a plain dict timed in the same fresh process, before and after, and is the median
of several processes. Keys are 64 hex digits; values are distinct 100-byte strings made beforehand, so
that bytes an entry are bookkeeping alone. Times are processor time of the thread: other load on the
machine counts less, and diskcache's waiting for the disk does not count at all, which favours it.

The dict is driven in two ways. By its bare statements (``d[key]``, ``d[key] = value``): the strictest
baseline there is, and the one the targets are held against. And by calls (``d.get(key)``,
``d.__setitem__(key, value)``): like for like, since every cache here is called. Both are printed.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import multiprocessing
import os
import random
import shutil
import statistics
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from tqdm import tqdm

Pairs = list[tuple[str, bytes]]
Figures = dict[str, float]

SIZES: Final = (100, 100_000)
OPERATIONS: Final = 100_000
DISK_OPERATIONS: Final = 2_000
DIMENSIONS: Final = 384
PASSES: Final = 7


# The contenders. All hold at most ``size`` entries, except dict and diskcache, which have no such bound


def ours(size: int, **options: Any) -> Any:
    """Our container: both its ``copy`` and its ``getsizeof`` are the defaults unless options say otherwise."""
    from shared_core import AttentionLRUCache

    return AttentionLRUCache(size, **options)


def cachetools(kind: str, size: int) -> Any:
    """One of cachetools' caches, not locked, as it comes."""
    import cachetools

    if kind == "TLRU":
        return cachetools.TLRUCache(size, ttu=lambda _key, _value, now: now + 600)
    return cachetools.LRUCache(size) if kind == "LRU" else cachetools.TTLCache(size, ttl=600)


def diskcache(_size: int) -> Any:
    """The library diskcache as it comes, in a folder of its own."""
    import diskcache

    return diskcache.Cache(tempfile.mkdtemp(prefix="throughput-"))


class LockedDict:
    """The least that a thread-safe cache written in Python does a call: a lock, a clock and a dict, no bound."""

    def __init__(self, _size: int) -> None:
        self._kept: dict[str, tuple[float, bytes]] = {}
        self._acquire, self._release = (lock := threading.Lock()).acquire, lock.release
        self._clock = time.time

    def put(self, key: str, value: bytes) -> None:
        now = self._clock()
        self._acquire()
        try:
            self._kept[key] = (now, value)
        finally:
            self._release()

    def get(self, key: str) -> bytes | None:
        self._clock()
        self._acquire()
        try:
            found = self._kept.get(key)
        finally:
            self._release()
        return None if found is None else found[1]


CONTENDERS: Final[dict[str, Callable[[int], Any]]] = {
    "dict": lambda _: {},
    "locked dict with a clock": LockedDict,
    "ours": ours,
    "ours, frequency prior": partial(ours, default_prior="frequency"),
    "ours, items and bytes": partial(ours, max_bytes=10**9),
    "ours, no copy, size 1": partial(ours, copy=None, getsizeof=lambda _: 1),
    "cachetools LRU": partial(cachetools, "LRU"),
    "cachetools TTL": partial(cachetools, "TTL"),
    "cachetools TLRU": partial(cachetools, "TLRU"),
    "diskcache": diskcache,
}


def fill(cache: Any, pairs: Iterable[tuple[str, bytes]]) -> None:
    """Put every pair, in the way the cache's own documentation shows."""
    if hasattr(cache, "put"):
        put = cache.put
        for key, value in pairs:
            put(key, value)
    else:
        for key, value in pairs:
            cache[key] = value


def read(cache: Any, keys: Iterable[str]) -> None:
    """Get every key; all are there."""
    if hasattr(cache, "put"):
        get = cache.get
        for key in keys:
            get(key)
    else:
        for key in keys:
            cache[key]


def fill_by_calls(plain: dict[str, bytes], pairs: Iterable[tuple[str, bytes]]) -> None:
    """Put every pair into a dict as one puts it into a cache: by a call."""
    put = plain.__setitem__
    for key, value in pairs:
        put(key, value)


def read_by_calls(plain: dict[str, bytes], keys: Iterable[str]) -> None:
    """Get every key out of a dict as one gets it out of a cache: by a call."""
    get = plain.get
    for key in keys:
        get(key)


# What one fresh process measures


def material(count: int, seed: int = 0) -> Pairs:
    """Distinct keys of 64 hex digits with distinct 100-byte values."""
    return [(hashlib.sha256(f"{seed}:{i}".encode()).hexdigest(), b"%0100d" % i) for i in range(count)]


def seconds(run: Callable[[], None]) -> float:
    """Processor time of this thread."""
    gc.collect()
    start = time.thread_time()
    run()
    return time.thread_time() - start


def operations(name: str, size: int, sample: int) -> Figures:
    """Ratios to the dict of put, get and put with eviction, and bytes an entry, for one contender and size."""
    make = CONTENDERS[name]
    first, second = material(size, 0), material(size, 1)
    wanted = [key for key, _ in first]
    random.Random(1).shuffle(wanted)
    rounds = max(1, sample // size)
    bounded = name.startswith(("ours", "cachetools"))
    if name == "diskcache":
        return disk_operations(first, second[:DISK_OPERATIONS], wanted[:DISK_OPERATIONS])
    plain = [{} for _ in range(2 * rounds)]
    before, after = plain[:rounds], plain[rounds:]
    caches = [make(size) for _ in range(rounds)]

    found: Figures = {}

    def measure(name: str, step: Callable[[Any], None], called: Callable[[Any], None], *, anew: bool = False) -> None:
        """How many times as long a dict takes; ``anew``: with empty dicts."""
        dicts = [[{} for _ in before], [{} for _ in after]] if anew else [before, after]
        start = seconds(lambda: [step(one) for one in dicts[0]])
        own = seconds(lambda: [step(one) for one in caches])
        end = seconds(lambda: [step(one) for one in dicts[1]])
        if name != "get":
            dicts = [[{} for _ in before], [{} for _ in after]]
        by_calls = seconds(lambda: [called(one) for one in dicts[0]]) + seconds(
            lambda: [called(one) for one in dicts[1]]
        )
        found[name], found[f"{name}_called"] = (start + end) / 2 / own, by_calls / 2 / own

    measure("put", lambda one: fill(one, first), lambda one: fill_by_calls(one, first))
    measure("get", lambda one: read(one, wanted), lambda one: read_by_calls(one, wanted))
    if bounded:  # a dict never evicts: the baseline is its plain put, into an empty one
        measure("put_evict", lambda one: fill(one, second), lambda one: fill_by_calls(one, second), anew=True)
    else:
        found["put_evict"] = found["put_evict_called"] = float("nan")
    for one in (caches, before, after, plain):
        one.clear()
    tracemalloc.start()
    held = tracemalloc.get_traced_memory()[0]
    cache = make(size)  # what an empty cache takes is part of the bookkeeping
    fill(cache, first)
    found["bytes"] = (tracemalloc.get_traced_memory()[0] - held) / size
    fill(cache, second)
    found["bytes_full"] = (tracemalloc.get_traced_memory()[0] - held) / size if bounded else float("nan")
    tracemalloc.stop()
    return found


def disk_operations(first: Pairs, more: Pairs, wanted: list[str]) -> Figures:
    """The same for diskcache, on a part of the entries: it commits every put by itself."""
    cache = diskcache(len(first))
    try:
        with cache.transact():
            fill(cache, first)
        plain = dict(first)
        put, get = seconds(lambda: fill(cache, more)), seconds(lambda: read(cache, wanted))
        return {
            "put": seconds(lambda: fill(plain, more)) / put,
            "get": seconds(lambda: read(plain, wanted)) / get,
            "put_called": seconds(lambda: fill_by_calls(plain, more)) / put,
            "get_called": seconds(lambda: read_by_calls(plain, wanted)) / get,
            "put_evict": float("nan"),
            "put_evict_called": float("nan"),
            "bytes": float("nan"),
            "bytes_full": float("nan"),
        }
    finally:
        cache.close()
        shutil.rmtree(cache.directory)


def victim(size: int) -> Figures:
    """What a victim costs when the cache makes room, and its share of the bare partition, in microseconds."""
    import numpy as np

    pairs = material(3 * size)
    now = [0.0]
    cache = ours(size, clock=lambda: now[0])
    for i, (key, value) in enumerate(pairs[:size]):
        now[0] = i / 100
        cache.put(key, value, prior=(i * 7919 % 1000) / 1000)
    count = max(1, size // 100)
    passes, bare = [], []
    waiting = iter(pairs[size:])
    for _ in range(PASSES):
        key, value = next(waiting)
        scores = cache._held._room.keep_score(cache._held.table.slots.entries(now[0])).copy()  # noqa: SLF001  how fast it goes depends on them
        passes.append(seconds(lambda key=key, value=value: cache.put(key, value)) / count)
        fill(cache, [next(waiting) for _ in range(size - len(cache))])
        bare.append(seconds(lambda scores=scores: np.argpartition(scores, count)[:count]) / count)
    return {"ours": 1e6 * statistics.median(passes), "bare": 1e6 * statistics.median(bare)}


def restamp(size: int) -> Figures:
    """Stamping every entry with a task vector at the next eviction, and the bare product, in milliseconds.

    The stamping is an evicting put after ``attend`` less one without: the two only differ in it.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((size, DIMENSIONS), dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    cache = ours(size)
    pairs = material(3 * size)
    for (key, value), row in zip(pairs[:size], matrix, strict=True):
        cache.put(key, value, embedding=row)
    waiting = iter(pairs[size:])
    plain, stamped, bare = [], [], []
    for _ in range(PASSES):
        task = rng.standard_normal(DIMENSIONS, dtype=np.float32)
        for times, attend in ((plain, False), (stamped, True)):
            fill(cache, [next(waiting) for _ in range(size - len(cache))])
            key, value = next(waiting)

            def evict(key: str = key, value: bytes = value, task: Any = task if attend else None) -> None:
                if task is not None:
                    cache.attend(task)
                cache.put(key, value)

            times.append(seconds(evict))
        bare.append(seconds(lambda task=task: matrix @ task))
    own = statistics.median(stamped) - statistics.median(plain)
    return {"ours": 1e3 * own, "bare": 1e3 * statistics.median(bare)}


# The whole run


def median(runs: list[Figures]) -> Figures:
    """The median of each figure."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="not used: the keys are made here")
    parser.add_argument("--sample", type=int, default=OPERATIONS, help="entries of the larger cache (100000)")
    parser.add_argument("--processes", type=int, default=5, help="fresh processes a figure (5)")
    parser.add_argument("--only", help="only contenders whose name holds this")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # one thread on either side
    sizes = (SIZES[0], min(SIZES[1], options.sample))
    names = [name for name in CONTENDERS if not options.only or options.only in name]
    tasks = [(operations, (name, size, options.sample)) for name in names for size in sizes]
    tasks += [(victim, (sizes[1],)), (restamp, (sizes[1],))]
    found: dict[Any, list[Figures]] = {}
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for task, arguments in tqdm([task for _ in range(options.processes) for task in tasks], desc="processes"):
            found.setdefault((task, arguments), []).append(pool.apply(task, arguments))
    print(
        f"ratios to a plain dict, medians of {options.processes} fresh processes; {options.sample} operations a figure\n"
    )
    print(f"{'':<34}{'statement: d[key] = value, d[key]':^36}{'call: __setitem__, get':^30}")
    print(f"{'':<26}{'entries':>8}" + f"{'put':>9}{'get':>9}{'put+evict':>12}" * 2 + f"{'bytes':>8}{'bytes, full':>13}")
    for name in names:
        for size in sizes:
            at = median(found[operations, (name, size, options.sample)])
            ratios = "".join(
                f"{at[f'put{way}']:>9.3f}{at[f'get{way}']:>9.3f}{at[f'put_evict{way}']:>12.3f}"
                for way in ("", "_called")
            )
            print(f"{name:<26}{size:>8}{ratios}{at['bytes']:>8.0f}{at['bytes_full']:>13.0f}")
    print("\nTargets, held against the statements: get at least 0.15, put at least 0.10; at most 300 bytes an entry")
    print("beside value and embedding. A dict's statement costs 20 to 40 ns at 100 entries; the call that a cache")
    print(
        "needs, a clock and a lock (the locked dict) come to more than a get may cost: ours takes no lock for a hit, nor"
    )
    print("for a put of a new key where only entries are bounded and values need neither copy nor measure.")
    print("bytes: after filling; bytes, full: after as many evictions again (the frequency prior then keeps ghosts).")
    print("ours is thread-safe, copies values in and out and measures them (the defaults); cachetools does neither.")
    print(f"diskcache: {DISK_OPERATIONS} operations on a filled cache, each put a commit; it has no bound on entries.")
    for task, unit, what, limit in (
        (victim, "us", "a victim against its share of a bare argpartition", 3),
        (restamp, "ms", f"restamping {DIMENSIONS} dimensions against a bare matrix product", 2),
    ):
        at = median(found[task, (sizes[1],)])
        ratio = statistics.median(run["ours"] / run["bare"] for run in found[task, (sizes[1],)])
        print(
            f"\n{what}, {sizes[1]} entries: {at['ours']:.2f} {unit} / {at['bare']:.2f} {unit} = {ratio:.2f} (at most {limit})"
        )


if __name__ == "__main__":
    main()
