"""What our middleware adds to an agent of ``create_agent``: time a model call, and the longest stall of the event loop.

    python -m benchmarks.agent_overhead [--memories 10000] [--turns 40]

One agent, a scripted model that answers at once and calls a tool once a turn, so two model calls a turn. The same
turns go through the agent without our middleware and with it, one after the other in turn, so that a busy
machine slows all alike; medians over turns. Embedding is a table look-up here, and its time is taken off. ``first turn``
is apart: it reads the scope of the file. The stall is how much later than asked a timer of one millisecond
fires at worst while turns run on the loop; ``bare`` shows what the framework and the machine do by themselves.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from tqdm import tqdm

from benchmarks.recall_cost import MadeUp, turns
from langchain_tiered_memory import TieredMemoryMiddleware
from shared_core import TieredMemory
from shared_core.embedding.base import Vectors

CALLS = 2
"""Model calls a turn."""
TICK = 0.001
"""Seconds the timer asks for."""


class Timed(MadeUp):
    """The made-up embedder, which knows how long it was at work."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Shape [len(texts), 384]."""
        start = time.perf_counter()
        vectors = super().embed(texts, query=query)
        self.seconds += time.perf_counter() - start
        return vectors


class OneTool(BaseChatModel):
    """Calls ``look`` after every message of the user's, and answers after its result."""

    @property
    def _llm_type(self) -> str:
        return "one-tool"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        number = len(messages)
        call = {"name": "look", "args": {"number": number}, "id": f"call_{number}", "type": "tool_call"}
        answered = isinstance(messages[-1], ToolMessage)
        message = AIMessage(f"Seen {number}.") if answered else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def look(number: int) -> str:
    """Look at a number."""
    return f"number {number}"


AGENTS: dict[str, dict[str, Any] | None] = {
    "bare": None,
    "recall": {"remember": False},
    "recall, cached tool": {"remember": False, "tools": ["look"]},
    "recall, cached tool, remember": {"tools": ["look"]},
}


def agent_of(memory: TieredMemory, options: dict[str, Any] | None) -> Any:
    """The agent with the middleware of these options, or without."""
    middleware = () if options is None else (TieredMemoryMiddleware(memory, **options),)
    return create_agent(OneTool(), [look], middleware=middleware, checkpointer=InMemorySaver())


def said(number: int, thread: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A turn's input and its config."""
    text = turns(1, seed=1_000 + number)[0]["text"]
    return {"messages": [HumanMessage(str(text))]}, {"configurable": {"thread_id": thread}}


def added(memory: TieredMemory, embedder: Timed, count: int) -> None:
    """Time a turn, in turn for every agent, and print what each adds to the bare one a model call."""
    agents = {name: agent_of(memory, options) for name, options in AGENTS.items()}
    seconds: dict[str, list[float]] = {name: [] for name in agents}
    for number in tqdm(range(count), desc="turns", leave=False):
        for name, agent in agents.items():
            given = said(number, f"sync {name}")
            before, start = embedder.seconds, time.perf_counter()
            agent.invoke(*given)
            seconds[name].append(time.perf_counter() - start - (embedder.seconds - before))
    bare = statistics.median(seconds["bare"][1:])
    print(f"{'':34}{'a turn':>10}{'added a model call':>20}{'first turn':>12}")
    for name, taken in seconds.items():
        turn = statistics.median(taken[1:])
        print(f"{name:34}{turn * 1e3:7.2f} ms{(turn - bare) / CALLS * 1e3:17.2f} ms{taken[0] * 1e3:9.1f} ms")


async def stalls(memory: TieredMemory, count: int) -> None:
    """Print the longest stall of the loop while turns run on it, each agent by itself."""
    print(f"\n{'':34}{'longest stall of the loop':>26}{'99 %':>12}")
    for name, options in AGENTS.items():
        agent, late = agent_of(memory, options), list[float]()
        over = asyncio.Event()
        timer = asyncio.create_task(tick(late, over))
        for number in range(count):
            await agent.ainvoke(*said(number, f"async {name}"))
        over.set()
        await timer
        late.sort()
        print(f"{name:34}{late[-1] * 1e3:23.2f} ms{late[int(len(late) * 0.99)] * 1e3:9.2f} ms")


async def tick(late: list[float], over: asyncio.Event) -> None:
    """Ask for a timer again and again; keep how much later than asked it fires, in seconds."""
    while not over.is_set():
        start = time.perf_counter()
        await asyncio.sleep(TICK)
        late.append(time.perf_counter() - start - TICK)


def main() -> None:
    """Fill a file and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=40)
    asked = parser.parse_args()
    embedder = Timed()
    with (
        tempfile.TemporaryDirectory() as folder,
        TieredMemory.open(Path(folder) / "agent.db", embedder=embedder, default_scope="bench") as memory,
    ):
        memory.remember_many(turns(asked.memories))
        print(f"{asked.memories} memories, {asked.turns} turns of {CALLS} model calls, times without embedding\n")
        added(memory, embedder, asked.turns)
        asyncio.run(stalls(memory, asked.turns))


if __name__ == "__main__":
    main()
