"""The request streams that ``prompt_cost.py`` bills: recorded agent runs and seeded mixes. No billing here.

A stream is a list of ``Request`` in order of time. Texts of the seeded mixes are made of random words; those of
the recorded runs are read from the data folder and never printed.
"""

from __future__ import annotations

import gzip
import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.prompt_requests import HAIKU, OPUS, SONNET, Request, answered, called, said, toolset, words

# -- recorded ----------------------------------------------------------------------------------------


def miniswe(data: Path, runs: int = 60) -> list[Request]:
    """Coding-agent runs with their recorded times, several at once; the task and the system text are stand-ins."""
    rng = random.Random(1)
    rows: dict[str, list[dict[str, Any]]] = {}
    with gzip.open(data / "tool_calls" / "miniswe_toolcalls.jsonl.gz", "rt") as lines:
        for line in lines:
            row = json.loads(line)
            if row["sid"] not in rows and len(rows) == runs:
                break
            rows.setdefault(row["sid"], []).append(row)
    system, tools = words(rng, 700), toolset(rng, 1, 120)
    out = []
    for sid, run in rows.items():
        messages = [said("user", words(rng, 250))]
        for row in sorted(run, key=lambda row: row["i"]):
            out.append(Request(float(row["created"]), sid, SONNET, system, tools, list(messages)))
            id = f"{sid}-{row['i']}"
            messages += [called([id], row["tool"], row["args"] or {}), answered([id], [row["result"] or "(no output)"])]
    return sorted(out, key=lambda request: request.at)


def taubench(data: Path, seed: int = 0) -> list[Request]:
    """Customer-service runs with their real messages; tools take seconds, people half a minute to some minutes."""
    rng = random.Random(2 + 100 * seed)
    with gzip.open(data / "tool_calls" / "taubench_airline_trial0.json.gz", "rt") as file:
        runs = json.load(file)
    tools = toolset(rng, 14, 50)
    out = []
    start = 1_700_000_000.0
    for number, run in enumerate(runs):
        at = start = start + rng.expovariate(1 / 120)
        messages: list[dict[str, Any]] = []
        for message in run["traj"][1:]:
            content = message.get("content") or ""
            if message["role"] == "assistant":
                out.append(Request(at, f"run-{number}", SONNET, run["traj"][0]["content"], tools, list(messages)))
                calls = message.get("tool_calls") or []
                blocks = [{"type": "text", "text": content}] if content else []
                blocks += [
                    {"type": "tool_use", "id": c["id"], "name": c["function"]["name"],
                     "input": json.loads(c["function"]["arguments"])}
                    for c in calls
                ]  # fmt: skip
                messages.append({"role": "assistant", "content": blocks})
                at += rng.uniform(2, 8) if calls else min(rng.lognormvariate(math.log(60), 1.0), 1500)
            elif message["role"] == "tool":
                messages.append(answered([message["tool_call_id"]], [content]))
            else:
                messages.append(said("user", content))
    return sorted(out, key=lambda request: request.at)


# -- seeded ------------------------------------------------------------------------------------------


def _chat(
    seed: int,
    *,
    sessions: int,
    turns: int,
    pause: Callable[[random.Random], float],
    model: str = SONNET,
    system_words: int = 1500,
    tools: int = 10,
) -> Iterator[Request]:
    rng = random.Random(seed)
    system, kit = words(rng, system_words), toolset(rng, tools)
    for session in range(sessions):
        at = 1_700_000_000.0 + session * rng.uniform(0, 4000)
        messages: list[dict[str, Any]] = []
        for _ in range(turns):
            messages.append(said("user", words(rng, rng.randint(20, 120))))
            yield Request(at, f"chat-{session}", model, system, kit, list(messages))
            messages.append(said("assistant", words(rng, rng.randint(60, 300))))
            at += pause(rng)


def pauses(seed: int = 0) -> list[Request]:
    """People who answer after 1 to 30 minutes (log-uniform)."""
    gap = lambda rng: math.exp(rng.uniform(math.log(60), math.log(1800)))  # noqa: E731
    return sorted(_chat(3 + 100 * seed, sessions=10, turns=40, pause=gap), key=lambda request: request.at)


def long_pauses(seed: int = 0) -> list[Request]:
    """Half of the answers come within a minute, half after 10 minutes to 3 hours."""
    gap = lambda rng: rng.uniform(10, 60) if rng.random() < 0.5 else rng.uniform(600, 10_800)  # noqa: E731
    return sorted(_chat(4 + 100 * seed, sessions=6, turns=60, pause=gap), key=lambda request: request.at)


def bursts(seed: int = 0) -> list[Request]:
    """Every turn of the model calls 25 tools at once, so 50 blocks lie between two requests."""
    rng = random.Random(5 + 100 * seed)
    system, kit = words(rng, 800), toolset(rng, 12)
    out = []
    for session in range(8):
        at = 1_700_000_000.0 + session * 1500.0
        messages = [said("user", words(rng, 80))]
        for step in range(14):
            out.append(Request(at, f"burst-{session}", SONNET, system, kit, list(messages)))
            ids = [f"c{session}-{step}-{i}" for i in range(25)]
            messages += [called(ids, "tool_03", {"query": words(rng, 3)})]
            messages += [answered(ids, [words(rng, rng.randint(10, 60)) for _ in ids])]
            at += rng.uniform(5, 40)
    return out


def recalled(seed: int = 0, *, declared: bool) -> list[Request]:
    """A recalled block at the tail that is another in every turn, frozen within its turn; some turns call tools."""
    rng = random.Random(6 + 100 * seed)
    system, kit = words(rng, 900), toolset(rng, 8)
    out = []
    for session in range(8):
        at = 1_700_000_000.0 + session * 700.0
        history: list[dict[str, Any]] = []
        for turn in range(25):
            asked = words(rng, rng.randint(20, 80))
            block = "<recalled>" + words(rng, 350) + "</recalled>"
            blocks = sum(len(message["content"]) for message in history)
            opened = {"role": "user", "content": [{"type": "text", "text": asked}, {"type": "text", "text": block}]}
            loop: list[dict[str, Any]] = []
            for step in range(rng.choice([1, 1, 3])):
                out.append(
                    Request(at, f"recall-{session}", SONNET, system, kit, [*history, opened, *loop],
                            blocks + 1 if declared else None)
                )  # fmt: skip
                id = f"r{session}-{turn}-{step}"
                loop += [called([id], "tool_01", {"query": words(rng, 4)}), answered([id], [words(rng, 120)])]
                at += rng.uniform(3, 10)
            history += [said("user", asked), *loop[:-2], said("assistant", words(rng, 150))]
            at += rng.uniform(20, 200)
    return sorted(out, key=lambda request: request.at)


def changing_tools(seed: int = 0) -> list[Request]:
    """A tool joins or leaves every dozen requests."""
    rng = random.Random(7 + 100 * seed)
    system, kit = words(rng, 1500), toolset(rng, 16)
    out = []
    for session in range(8):
        at = 1_700_000_000.0 + session * 900.0
        messages: list[dict[str, Any]] = []
        present = kit[:10]
        for turn in range(36):
            if turn % 12 == 11:
                present = sorted(rng.sample(kit, rng.randint(8, 12)), key=lambda tool: tool["name"])
            messages.append(said("user", words(rng, 60)))
            out.append(Request(at, f"tools-{session}", SONNET, system, present, list(messages)))
            messages.append(said("assistant", words(rng, 150)))
            at += rng.uniform(20, 200)
    return sorted(out, key=lambda request: request.at)


def two_models(seed: int = 0) -> list[Request]:
    """One conversation, answered by one model or the other at random."""
    rng = random.Random(8 + 100 * seed)
    base = _chat(8 + 100 * seed, sessions=6, turns=50, pause=lambda rng: rng.uniform(10, 280))
    requests = [
        Request(r.at, r.session, OPUS if rng.random() < 0.3 else SONNET, r.system, r.tools, r.messages) for r in base
    ]
    return sorted(requests, key=lambda request: request.at)


def short(seed: int = 0) -> list[Request]:
    """Prompts that never reach the model's minimum."""
    return sorted(
        _chat(
            9 + 100 * seed,
            sessions=40,
            turns=6,
            pause=lambda rng: rng.uniform(5, 60),
            model=HAIKU,
            system_words=150,
            tools=3,
        ),
        key=lambda request: request.at,
    )


def single(seed: int = 0) -> list[Request]:
    """Every request is the only one of its conversation, with a system text of its own and one shared tool set."""
    rng = random.Random(10 + 100 * seed)
    kit = toolset(rng, 20)
    return [
        Request(
            1_700_000_000.0 + 45.0 * i, f"single-{i}", SONNET, words(rng, 1200), kit, [said("user", words(rng, 400))]
        )
        for i in range(150)
    ]


def window(seed: int = 0) -> list[Request]:
    """Of every conversation only the last eleven messages are sent; people answer after a minute or so."""
    gap = lambda rng: min(rng.lognormvariate(math.log(70), 1.0), 2000)  # noqa: E731
    base = sorted(_chat(11 + 100 * seed, sessions=6, turns=45, pause=gap), key=lambda request: request.at)
    return [replace(request, messages=request.messages[-11:]) for request in base]


def branches(seed: int = 0) -> list[Request]:
    """People edit an earlier question (one turn in eight), ask for another answer (one in seven), or send twice (one in ten)."""
    rng = random.Random(12 + 100 * seed)
    system, kit = words(rng, 1200), toolset(rng, 8)
    out = []
    for session in range(6):
        at = 1_700_000_000.0 + session * rng.uniform(0, 2000)
        messages: list[dict[str, Any]] = []
        for _ in range(45):
            chance = rng.random()
            if chance < 0.12 and len(messages) > 4:
                messages = messages[: 2 * rng.randint(1, len(messages) // 2 - 1)]
            elif chance < 0.27:
                messages = messages[:-2]
            messages = [*messages, said("user", words(rng, rng.randint(20, 200)))]
            for _ in range(1 if rng.random() < 0.9 else 2):
                out.append(Request(at, f"branch-{session}", SONNET, system, kit, messages))
                at += rng.uniform(2, 30)
            messages = [*messages, said("assistant", words(rng, rng.randint(60, 400)))]
            at += min(rng.lognormvariate(math.log(80), 1.0), 2000)
    return sorted(out, key=lambda request: request.at)


def support(seed: int = 0) -> list[Request]:
    """200 conversations of one to four questions about one long system text, one every two minutes and a half."""
    rng = random.Random(13 + 100 * seed)
    system, kit = words(rng, 5000), toolset(rng, 5)
    out = []
    start = 1_700_000_000.0
    for session in range(200):
        at = start = start + rng.expovariate(1 / 150)
        messages: list[dict[str, Any]] = []
        for _ in range(rng.choice([1, 1, 2, 2, 3, 4])):
            messages = [*messages, said("user", words(rng, rng.randint(10, 80)))]
            out.append(Request(at, f"support-{session}", HAIKU, system, kit, messages))
            messages = [*messages, said("assistant", words(rng, rng.randint(30, 200)))]
            at += min(rng.lognormvariate(math.log(90), 1.0), 3000)
    return sorted(out, key=lambda request: request.at)


def streams(data: Path | None, seed: int = 0) -> dict[str, Callable[[], list[Request]]]:
    """Every mix by name; the recorded ones only with a data folder."""
    seeded: dict[str, Callable[[], list[Request]]] = {
        "pauses of 1-30 minutes": lambda: pauses(seed),
        "pauses of seconds or hours": lambda: long_pauses(seed),
        "bursts of 25 tools": lambda: bursts(seed),
        "recalled block, declared": lambda: recalled(seed, declared=True),
        "recalled block, undeclared": lambda: recalled(seed, declared=False),
        "changing tool set": lambda: changing_tools(seed),
        "two models": lambda: two_models(seed),
        "below the minimum": lambda: short(seed),
        "one request each": lambda: single(seed),
        "window of eleven messages": lambda: window(seed),
        "branches and retries": lambda: branches(seed),
        "200 short conversations": lambda: support(seed),
    }
    if data is None:
        return seeded
    return {
        "mini-swe, recorded gaps": lambda: miniswe(data),
        "tau-bench, seeded gaps": lambda: taubench(data, seed),
        **seeded,
    }
