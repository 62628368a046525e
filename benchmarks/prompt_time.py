"""What planning a request costs beside serialising it, at 1 000 blocks of several sizes.

    python -m benchmarks.prompt_time [--data FOLDER] [--rounds 41]

A conversation of 1 000 messages, one block each, grows by two messages a round; in every round it is planned, built,
and serialised, in turn, so all meet the processor's caches as the others left them. Shown is the least processor time
of all rounds: what other programs do to the caches is not meant. *Plan, same objects*: the caller's list grew. *Plan,
read anew*: every message is another object (from storage, or converted). *Sendable* is the planned request for a client
that takes it to bytes, *request* the copy that is the caller's to change. *First plan* reads a conversation of 1 000
blocks nobody planned before. Both ways of serialising are shown: a bare ``json.dumps``, and the ``anthropic`` SDK from
its call to a body in bytes. The target is 5 % of the first.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.prompt_mixes import miniswe
from benchmarks.prompt_requests import SONNET, answered, called, said, toolset, words
from shared_core.settings import Settings
from shared_core.short_term import Prompts

BLOCKS = 1000


def of_size(least: int, most: int) -> Callable[[int], list[dict]]:
    """A maker of so many messages with one block of between so many characters."""

    def make(count: int) -> list[dict]:
        rng = random.Random(least)
        text = words(rng, 20_000)
        texts = [text[at : at + rng.randint(least, most)] for at in (rng.randrange(60_000) for _ in range(count + 4))]
        out = []
        for i in range(0, count, 4):
            out += [said("user", texts[i]), called([f"c{i}"], "look", {"query": texts[i + 1]})]
            out += [answered([f"c{i}"], [texts[i + 2]]), said("assistant", texts[i + 3])]
        return out[:count]

    return make


def recorded(data: Path) -> Callable[[int], list[dict]]:
    """A maker of messages from the recorded coding-agent runs, one run after the other."""

    def make(count: int) -> list[dict]:
        last = {request.session: request.messages for request in miniswe(data)}
        return [message for messages in last.values() for message in messages][:count]

    return make


def timed(call: Callable[[], object]) -> tuple[float, object]:
    start = time.thread_time()
    out = call()
    return time.thread_time() - start, out


def measured(messages: list[dict], rounds: int) -> dict[str, float]:
    """Least seconds of each step."""
    rng = random.Random(5)
    head = {"model": SONNET, "system": words(rng, 700), "tools": toolset(rng, 4), "max_tokens": 1000}
    found: dict[str, list[float]] = {}
    for name in ("plan, same objects", "plan, read anew"):
        now = [0.0]
        prompts = Prompts(settings=Settings(), clock=lambda now=now: now[0], scope_of=lambda scope: scope or "bench")
        for n in range(BLOCKS, BLOCKS + 2 * rounds, 2):
            given = messages[:n] if name.endswith("objects") else json.loads(json.dumps(messages[:n]))
            arguments, now[0] = {**head, "messages": given, "session": "s"}, 1.7e9 + 20.0 * n
            step = name if n > BLOCKS else "first plan of a session"
            seconds, plan = timed(lambda prompts=prompts, arguments=arguments: prompts.plan(**arguments))
            found.setdefault(step, []).append(seconds)
            found.setdefault("sendable", []).append(timed(lambda plan=plan: plan.sendable)[0])
            found.setdefault("json.dumps", []).append(timed(lambda plan=plan: json.dumps(plan.sendable))[0])
            found.setdefault("request", []).append(timed(lambda plan=plan: plan.request)[0])
    return {name: min(values) for name, values in found.items()} | {"the SDK": sdk_seconds(plan.request)}


def sdk_seconds(request: dict) -> float:
    """The least time from ``messages.create`` to a body in bytes, over 15 calls that are not sent; NaN without the SDK."""
    try:
        import anthropic

        try:
            import httpx2 as httpx
        except ImportError:
            import httpx
    except ImportError:
        return math.nan
    reached: list[float] = []

    def answer(sent: httpx.Request) -> httpx.Response:
        reached.append(time.thread_time())
        return httpx.Response(400, json={"type": "error", "error": {"type": "x", "message": str(len(sent.content))}})

    taken = []
    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        client = anthropic.Anthropic(api_key="none", max_retries=0, http_client=http)
        for _ in range(15):
            start = time.thread_time()
            with contextlib.suppress(anthropic.BadRequestError):
                client.messages.create(**request)
            taken.append(reached[-1] - start)
    return min(taken)


def report(data: Path | None, rounds: int = 41) -> None:
    """Print the table."""
    kinds = {"100 characters a block": of_size(100, 100), "500 to 1 000 characters": of_size(500, 1000)}
    kinds |= {"3 000 to 5 000 characters": of_size(3000, 5000)}
    if data is not None:
        kinds["recorded agent runs"] = recorded(data)
    names = ("first plan of a session", "plan, same objects", "plan, read anew", "sendable", "request")
    print(f"{'at 1 000 blocks of':28}{'bytes':>10}  {'':24}{'us':>8}{'of json.dumps':>15}{'of the SDK':>12}")
    for kind, make in kinds.items():
        messages = make(BLOCKS + 2 * rounds + 4)
        row = measured(messages, rounds)
        for name in (*names, "json.dumps", "the SDK"):
            shares = f"{row[name] / row['json.dumps']:15.1%}{row[name] / row['the SDK']:12.1%}"
            size = f"{len(json.dumps(messages[:BLOCKS])):10,}" if name == names[0] else " " * 10
            print(f"{kind if name == names[0] else '':28}{size}  {name:24}{row[name] * 1e6:8,.0f}{shares}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("TIERED_MEMORY_DATA"))
    parser.add_argument("--rounds", type=int, default=41)
    given = parser.parse_args()
    report(Path(given.data) if given.data else None, given.rounds)
