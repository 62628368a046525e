"""Recorded tool calls replayed through ``memory.tools``: what is served, and whether any of it is stale.

    python -m benchmarks.tool_cache --data <folder>        (or TIERED_MEMORY_DATA)

Two sets: customer-service runs with named tools (tau-bench airline) and coding runs with one shell tool
(mini-swe-agent). Every run is a scope of its own. A tool that is executed returns what was recorded at
that point, so what a cache serves instead can be compared:

- *stale*: served, and different from what was recorded at that point.
- *safely servable*: the same reading call earlier in the run, with the same recorded result, and only
  reading calls in between. In tau-bench all but book, cancel, update, send_certificate and transfer
  read; of shell lines, those that ``shell_reads.only_reads`` knows to read.
- *writes skipped*: a writing call answered from a cache instead of being executed.

Beside ours in the same run: a plain TTL cache (exact key, 600 s, no invalidation), a dict with LRU
eviction (128 calls), and no cache.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tqdm import tqdm

from benchmarks.shell_reads import only_reads
from shared_core import TieredMemory
from shared_core.testing import FakeClock

TAU_WRITES: Final = ("book", "cancel", "update", "send_certificate", "transfer")
SECONDS_A_CALL: Final = 5.0
"""Between two calls of tau-bench, which records no times."""


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded call. ``at`` in seconds."""

    tool: str
    args: dict[str, Any]
    result: str
    at: float
    reads: bool

    @property
    def key(self) -> str:
        """What makes it the same call."""
        return self.tool + json.dumps(self.args, sort_keys=True)


Run = list[Call]


# The recordings


def taubench(folder: Path) -> dict[str, Run]:
    """The customer-service runs."""
    recorded = json.loads(gzip.decompress((folder / "tool_calls" / "taubench_airline_trial0.json.gz").read_bytes()))
    runs: dict[str, Run] = {}
    for number, one in enumerate(recorded):
        results = {m["tool_call_id"]: m["content"] for m in one["traj"] if m["role"] == "tool"}
        asked = [call for m in one["traj"] for call in m.get("tool_calls") or ()]
        runs[f"tau-{number}"] = [
            Call(
                tool := call["function"]["name"],
                json.loads(call["function"]["arguments"]),
                results[call["id"]],
                SECONDS_A_CALL * i,
                not tool.startswith(TAU_WRITES),
            )
            for i, call in enumerate(call for call in asked if call["id"] in results)
        ]
    return runs


def miniswe(folder: Path) -> dict[str, Run]:
    """The coding runs. Steps without a command (the model's answer held none, or two) executed nothing."""
    runs: dict[str, Run] = defaultdict(list)
    for line in gzip.decompress((folder / "tool_calls" / "miniswe_toolcalls.jsonl.gz").read_bytes()).splitlines():
        row = json.loads(line)
        if row["args"] and row["args"].get("command"):
            command = row["args"]["command"]
            call = Call("bash", {"command": command}, row["result"], float(row["created"]), only_reads(command))
            runs[row["sid"]].append(call)
    return dict(runs)


def repeats(run: Run) -> list[bool]:
    """Which calls were made before in the run."""
    seen: set[str] = set()
    return [call.key in seen or bool(seen.add(call.key)) for call in run]


def servable(run: Run) -> list[bool]:
    """Which calls could safely have been answered with an earlier result of the run."""
    known: dict[str, set[str]] = {}
    found = []
    for call in run:
        if call.reads:
            results = known.setdefault(call.key, set())
            found.append(call.result in results)
            results.add(call.result)
        else:
            known.clear()
            found.append(False)
    return found


# The caches: each answers a call, by executing it or not

Execute = Callable[[], str]


class Nothing:
    """No cache."""

    def answer(self, _scope: str, _call: Call, execute: Execute) -> str:
        return execute()


class PlainTTL:
    """Exact key and time to live for every tool, as a decorator from the shelf does it."""

    def __init__(self, ttl: float = 600.0) -> None:
        self._ttl = ttl
        self._kept: dict[tuple[str, str], tuple[float, str]] = {}

    def answer(self, scope: str, call: Call, execute: Execute) -> str:
        kept = self._kept.get((scope, call.key))
        if kept is not None and call.at < kept[0] + self._ttl:
            return kept[1]
        result = execute()
        self._kept[scope, call.key] = (call.at, result)
        return result


class LRUDict:
    """The last calls of every tool, each run with a dict of its own."""

    def __init__(self, size: int = 128) -> None:
        self._size = size
        self._kept: dict[str, OrderedDict[str, str]] = defaultdict(OrderedDict)

    def answer(self, scope: str, call: Call, execute: Execute) -> str:
        kept = self._kept[scope]
        if call.key not in kept:
            kept[call.key] = execute()
            if len(kept) > self._size:
                kept.popitem(last=False)
        kept.move_to_end(call.key)
        return kept[call.key]


class Ours:
    """``memory.tools``, with the tools registered as their author would."""

    def __init__(self) -> None:
        self.clock = FakeClock(0.0)
        self.memory = TieredMemory.open(":memory:", embedder="none", clock=self.clock)
        weakref.finalize(self, self.memory.close)
        register_airline(self.memory)
        register_shell(self.memory)

    def answer(self, scope: str, call: Call, execute: Execute) -> str:
        self.clock.now = call.at
        name = call.tool if call.tool != "bash" else ("bash_read" if only_reads(call.args["command"]) else "bash")
        result: str = self.memory.tools.call(name, call.args, lambda **_: execute(), scope=scope)
        return result


def register_airline(memory: TieredMemory) -> None:
    """The airline's tools by name: what each reads and writes. Nothing expires; writes end what they touch."""

    def reading(tool: str, reads: Any) -> None:
        memory.tools.register(tool, ttl=None, reads=reads)

    def writing(tool: str, writes: Any) -> None:
        memory.tools.register(tool, writes=writes)

    reading("get_user_details", lambda _: ["users"])
    reading("get_reservation_details", "reservation_id")
    reading("search_direct_flight", lambda _: ["flights"])
    reading("search_onestop_flight", lambda _: ["flights"])
    for pure in ("list_all_airports", "calculate", "think"):
        reading(pure, None)
    writing("book_reservation", lambda _: ["users", "flights"])
    for change in ("cancel_reservation", "update_reservation_flights"):
        writing(change, lambda args: [args["reservation_id"], "users", "flights"])
    for change in ("update_reservation_baggages", "update_reservation_passengers"):
        writing(change, lambda args: [args["reservation_id"], "users"])
    writing("send_certificate", lambda _: ["users"])
    writing("transfer_to_human_agents", lambda _: ["the conversation"])


def register_shell(memory: TieredMemory) -> None:
    """One shell under two names that share the scope's space: what only reads is kept, all else ends the space."""
    memory.tools.register("bash_read", ttl=None)
    memory.tools.register("bash", cacheable=False)  # writes unknown: executed always, invalidates its space


# The replay


@dataclass(slots=True)
class Counts:
    """What one cache did on one set."""

    served: int = 0
    safely: int = 0
    stale: int = 0
    writes_skipped: int = 0


def replay(cache: Nothing | PlainTTL | LRUDict | Ours, runs: dict[str, Run]) -> Counts:
    """Answer every call of every run from this cache."""
    counts = Counts()
    for scope, run in runs.items():
        for call, safe in zip(run, servable(run), strict=True):
            executed = False

            def execute(call: Call = call) -> str:
                nonlocal executed
                executed = True
                return call.result

            result = cache.answer(scope, call, execute)
            if not executed:
                counts.served += 1
                counts.safely += safe
                counts.stale += result != call.result
                counts.writes_skipped += not call.reads
    return counts


def report(title: str, runs: dict[str, Run], caches: dict[str, Any]) -> Iterator[str]:
    """The table of one set, line by line."""
    calls = [call for run in runs.values() for call in run]
    repeated = sum(sum(repeats(run)) for run in runs.values())
    safe = sum(sum(servable(run)) for run in runs.values())
    yield (
        f"\n{title}: {len(runs)} runs, {len(calls)} calls, {sum(call.reads for call in calls)} of them reading, "
        f"{repeated} repeats, {safe} safely servable"
    )
    yield f"{'':<28}{'served':>8}{'of servable':>13}{'share':>8}{'stale':>8}{'writes skipped':>16}"
    for name, cache in tqdm(caches.items(), desc=title):
        found = replay(cache, runs)
        share = f"{100 * found.safely / safe:.1f}%" if safe else "-"
        yield f"{name:<28}{found.served:>8}{found.safely:>13}{share:>8}{found.stale:>8}{found.writes_skipped:>16}"
    if safe:  # the exact (Clopper-Pearson) bound where everything succeeded
        yield f"n is small: {safe} of {safe} shows a share of at least {100 * 0.05 ** (1 / safe):.0f} % at 95 % confidence."


def main() -> None:
    """Print one table for each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("TIERED_MEMORY_DATA"), help="folder that holds tool_calls/")
    parser.add_argument("--sample", type=int, help="only the first N runs of each set")
    options = parser.parse_args()
    if not options.data:
        parser.error("give the data folder with --data or TIERED_MEMORY_DATA (benchmarks/datasets.py: what lies in it)")
    lines = []
    for title, load in (("tau-bench airline", taubench), ("mini-swe-agent", miniswe)):
        runs = dict(list(load(Path(options.data)).items())[: options.sample])
        caches = {
            "no cache": Nothing(),
            "LRU dict (128)": LRUDict(),
            "plain TTL cache (600 s)": PlainTTL(),
            "ours": Ours(),
        }
        lines += report(title, runs, caches)
    print("\n".join(lines))
    print("\nTargets for ours: 0 stale, at least 95 % of the safely servable served.")
    print(
        "Served beyond the servable: a read between which and its repeat only writes to something else were declared."
    )


if __name__ == "__main__":
    main()
