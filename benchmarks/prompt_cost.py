"""What the planner's requests cost at the provider's rules, beside no caching, LangChain's layout and the best fixed plan.

    python -m benchmarks.prompt_cost [--data FOLDER] [--conversations 10000] [--only NAME] [--seed 0] [--warm-up 20]

Every stream of ``prompt_mixes.py`` is billed by the simulator, in base input tokens, after a warm-up of 20 requests.
The simulator counts tokens in its own way (3.7 characters each), so the planner's estimates are wrong as they are
in life. *Best fixed plan*: of every layout with at most four breakpoints on the ends of tools, system, the stable
part, the previous tail and the tail, with every order of lifetimes that is allowed, the one that turned out cheapest
on this very stream: the true probabilities, known afterwards. *LangChain*: what its middleware lays out, the ends
of tools and system and an automatic breakpoint on the last block, with 5 minutes (its default) or one hour for all.
Then 10 000 random conversations with random breakpoints of the caller's, which must never be refused, and what
planning costs beside serialising (``prompt_time.py``).
"""

from __future__ import annotations

import argparse
import os
import random
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from benchmarks import prompt_time
from benchmarks.prompt_mixes import streams
from benchmarks.prompt_requests import Request
from shared_core.settings import Settings
from shared_core.short_term import Prompts
from shared_core.short_term.rules import rules_for
from shared_core.testing.prompt_cache import BadRequest, Prompt, PromptCache, cost
from shared_core.testing.prompt_requests import conversation

WARM_UP = 20


def count(text: str) -> int:
    """The provider's tokenizer in these runs."""
    return max(1, round(len(text) / 3.7))


def provider(name: str) -> PromptCache:
    """A fresh cache; bursts run under the rule of the clouds that count every block."""
    return PromptCache(clock=lambda: 0.0, count_tokens=count, runs_are_one_position=not name.startswith("bursts"))


def arguments_of(request: Request) -> dict:
    return {
        "model": request.model, "system": request.system, "tools": request.tools, "messages": request.messages,
    }  # fmt: skip


def ours(name: str, stream: list[Request], warm_up: int = WARM_UP) -> tuple[float, Prompts]:
    """The bill of planned requests, and the planner that made them."""
    cache = provider(name)
    prompts = Prompts(settings=Settings(), clock=lambda: 0.0, scope_of=lambda scope: scope or "bench")
    total = 0.0
    for i, request in enumerate(stream):
        plan = prompts.plan(
            **arguments_of(request), session=request.session, volatile=request.volatile, now=request.at, max_tokens=1000
        )
        usage = cache.send(plan.request, now=request.at)
        prompts.record(usage, plan=plan)
        total += cost(usage, plan.rules) if i >= warm_up else 0.0
    return total, prompts


def fixed(
    name: str, stream: list[Request], read: list[Prompt], layout: list[tuple[str, str]], warm_up: int = WARM_UP
) -> float:
    """The bill of one layout: a list of (role, lifetime) in order."""
    cache = provider(name)
    before: dict[tuple[str, str], int] = {}
    total = 0.0
    for i, (request, prompt) in enumerate(zip(stream, read, strict=True)):
        tools, system = len(request.tools), len(request.tools) + 1
        tail = len(prompt.tokens)
        stable = tail - 1
        if request.volatile is not None:
            stable = system + request.volatile
        ends = {
            "tools": tools, "system": system, "anchor": before.get((request.session, request.model), 0),
            "stable": stable, "tail": tail,
        }  # fmt: skip
        marks: dict[int, str] = {}
        for role, ttl in layout:
            if 0 < ends[role] <= tail:
                marks[ends[role] - 1] = max(ttl, marks.get(ends[role] - 1, ""), key=("", "5m", "1h").index)
        ordered = sorted(marks.items())
        lowered = [
            (at, "1h" if all(t == "1h" for _, t in ordered[: k + 1]) else "5m") for k, (at, _) in enumerate(ordered)
        ]
        usage = cache.serve(replace(prompt, marks=tuple(lowered)), now=request.at)
        before[request.session, request.model] = stable if any(role == "stable" for role, _ in layout) else tail
        total += cost(usage, rules_for(request.model)) if i >= warm_up else 0.0
    return total


def layouts() -> list[list[tuple[str, str]]]:
    """Every set of at most four roles with every split into one hour first, five minutes after."""
    roles = ("tools", "system", "anchor", "stable", "tail")
    return [
        [(role, "1h" if k < split else "5m") for k, role in enumerate(chosen)]
        for size in range(5)
        for chosen in combinations(roles, size)
        for split in range(size + 1)
    ]


def langchain(ttl: str) -> list[tuple[str, str]]:
    return [("tools", ttl), ("system", ttl), ("tail", ttl)]


def bills(name: str, stream: list[Request], warm_up: int = WARM_UP) -> dict[str, float]:
    """All the columns of one row."""
    cache = provider(name)
    read = [cache.read(arguments_of(request)) for request in stream]
    mine, _ = ours(name, stream, warm_up)
    every = {tuple(layout): fixed(name, stream, read, layout, warm_up) for layout in layouts()}
    best = min(every, key=lambda layout: every[layout])
    return {
        "none": every[()], "langchain 5m": fixed(name, stream, read, langchain("5m"), warm_up),
        "langchain 1h": fixed(name, stream, read, langchain("1h"), warm_up), "best fixed": every[best], "ours": mine,
        "which": " ".join(f"{role}:{ttl}" for role, ttl in best) or "nothing",
    }  # fmt: skip


def refusals(conversations: int) -> tuple[int, int]:
    """Requests planned for random conversations with breakpoints of the caller's, and how many were refused."""
    prompts = Prompts(settings=Settings(), clock=lambda: 0.0, scope_of=lambda scope: scope or "bench")
    cache, sent, refused, now = provider(""), 0, 0, 1_700_000_000.0
    for number in range(conversations):
        rng = random.Random(number)
        for request in conversation(rng):
            now += rng.choice([1.0, 30.0, 400.0])
            plan = prompts.plan(**request, session=f"c{number}", now=now)
            sent += 1
            try:
                prompts.record(cache.send(plan.request, now=now), plan=plan)
            except BadRequest as error:
                refused += 1
                print(f"refused: {error} (conversation {number})")
    return sent, refused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("TIERED_MEMORY_DATA"))
    parser.add_argument("--conversations", type=int, default=10_000)
    parser.add_argument("--only", default="", help="only the streams whose name holds this")
    parser.add_argument("--seed", type=int, default=0, help="another draw of the seeded streams")
    parser.add_argument("--warm-up", type=int, default=WARM_UP, help="requests that are not billed at the start")
    given = parser.parse_args()
    data = Path(given.data) if given.data else None
    made = streams(data, given.seed)
    print(
        f"{'bill in base tokens':28}{'requests':>9}{'none':>12}{'langch. 5m':>12}{'langch. 1h':>12}{'best fixed':>12}"
        f"{'ours':>12}{'to best':>9}{'to l. 5m':>9}{'to l. 1h':>9}  best fixed plan"
    )
    for name, make in made.items():
        if given.only not in name:
            continue
        stream = make()
        row = bills(name, stream, given.warm_up)
        print(
            f"{name:28}{len(stream):9}{row['none']:12,.0f}{row['langchain 5m']:12,.0f}{row['langchain 1h']:12,.0f}"
            f"{row['best fixed']:12,.0f}{row['ours']:12,.0f}{row['ours'] / row['best fixed'] - 1:+9.1%}"
            f"{row['ours'] / row['langchain 5m'] - 1:+9.1%}{row['ours'] / row['langchain 1h'] - 1:+9.1%}  {row['which']}",
            flush=True,
        )
    sent, refused = refusals(given.conversations)
    print(f"\n{given.conversations} random conversations, {sent} planned requests: {refused} refused (must be 0)")
    print("\nplanning (must be at most 5 % of serialising)")
    prompt_time.report(data)


if __name__ == "__main__":
    main()
