"""How much of each prompt a provider's prefix cache can reuse, and how full the window is, beside the stock memories.

    python -m benchmarks.prefix_stability [--data <folder>]        (or TIERED_MEMORY_DATA)

100 turns of 600 tokens (a user's message and an answer of 300 each, a token a word) under 21 000 tokens for the
conversation. A prompt is asked for after every user's message. The cache is ideal: what begins like the prompt
before it, block by block, is reused. ``reused`` is the share of the conversation's tokens in prompts 2 to 100,
``breaks`` how often not all of the conversation in the prompt before was, ``fill`` the mean of a prompt's
tokens over 21 000. A recalled block of 800 tokens that changes every turn stands in the last user's message and is
new by nature: it counts nothing, but what follows it is not reused. With data: recorded customer-service runs, each
alone and as one long conversation, and coding runs, the first 400 calls of a project in one conversation.

The second table is the time that one window takes, late and early in conversations of growing length.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared_core import Settings, TieredMemory
from shared_core.messages import count_message, is_system, starts_turn
from shared_core.text import estimate_tokens

TURNS, HALF, LIMIT, RECALLED, CALLS = 100, 300, 21_000, 800, 400
Prompt = list[tuple[str, int]]
"""The blocks of a prompt in order: the text of each, and its tokens."""


@dataclass(frozen=True, slots=True)
class Stability:
    """The figures of one memory; shares in [0, 1]."""

    reused: float
    breaks: int
    fill: float


def measured(prompts: Iterable[Prompt], limit: int) -> Stability:
    """The stability of prompts in order, under a limit of tokens."""
    before: Prompt = []
    reused = asked = breaks = 0
    fills = []
    for number, prompt in enumerate(prompts):
        tokens = sum(size for _, size in prompt)
        fills.append(tokens / limit)
        if number:
            same = next((i for i, (one, other) in enumerate(zip(before, prompt, strict=False)) if one != other), None)
            same = min(len(before), len(prompt)) if same is None else same
            reused += sum(size for _, size in prompt[:same])
            asked += tokens
            breaks += sum(size for _, size in prompt[:same]) < sum(size for _, size in before)
        before = prompt
    return Stability(reused / max(asked, 1), breaks, statistics.fmean(fills))


def words(text: str) -> int:
    return len(text.split())


def said(turn: int, role: str) -> str:
    return " ".join(f"{role}{turn}.{i}" for i in range(HALF))


def ours(recalled: bool) -> Iterator[Prompt]:
    settings = Settings(count_tokens=words, recall_tokens=RECALLED)
    with TieredMemory.open(":memory:", embedder="none", default_scope="benchmark", settings=settings) as memory:
        context = memory.context("s")
        for turn in range(TURNS):
            context.append({"role": "user", "content": said(turn, "user")})
            window = memory.turns.window("s", LIMIT + RECALLED)
            block = [_counted("recalled " * RECALLED + str(turn))] if recalled else []
            yield [*(text_block(message["content"]) for message in window), *block]
            context.append({"role": "assistant", "content": said(turn, "assistant")})


def text_block(text: str) -> tuple[str, int]:
    return text, words(text)


def llama_memory(insert: str | None) -> Iterator[Prompt]:
    import asyncio

    from llama_index.core.llms import ChatMessage
    from llama_index.core.memory import BaseMemoryBlock, InsertMethod, Memory

    turn = 0

    class Changing(BaseMemoryBlock[str]):
        name: str = "changing"

        async def _aget(self, messages: Any = None, **_: Any) -> str:
            return "recalled " * RECALLED + str(turn)

        async def _aput(self, messages: Any) -> None:
            pass

    async def prompts() -> list[Prompt]:
        nonlocal turn
        memory = Memory.from_defaults(
            session_id="s", token_limit=int(LIMIT / 0.7), chat_history_token_ratio=0.7, tokenizer_fn=str.split,
            memory_blocks=[Changing()] if insert else [], insert_method=InsertMethod(insert or "system"),
        )  # fmt: skip
        out = []
        for turn in range(TURNS):
            await memory.aput(ChatMessage(role="user", content=said(turn, "user")))
            out.append([_counted(block.text) for message in await memory.aget() for block in message.blocks])
            await memory.aput(ChatMessage(role="assistant", content=said(turn, "assistant")))
        await memory.sql_store._async_engine.dispose()  # noqa: SLF001 - it has no close
        return out

    yield from asyncio.run(prompts())


def _counted(text: str) -> tuple[str, int]:
    """A block that counts only what belongs to the conversation."""
    return text, 0 if "recalled" in text else words(text)


def llama_buffer() -> Iterator[Prompt]:
    from llama_index.core.llms import ChatMessage
    from llama_index.core.memory import ChatMemoryBuffer

    memory = ChatMemoryBuffer.from_defaults(token_limit=LIMIT, tokenizer_fn=str.split)
    for turn in range(TURNS):
        memory.put(ChatMessage(role="user", content=said(turn, "user")))
        yield [text_block(message.content or "") for message in memory.get()]
        memory.put(ChatMessage(role="assistant", content=said(turn, "assistant")))


def _langchain_tokens(messages: Any) -> int:
    return sum(words(message.text) for message in messages)


def langchain_trim() -> Iterator[Prompt]:
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, trim_messages

    messages: list[BaseMessage] = []
    for turn in range(TURNS):
        messages.append(HumanMessage(said(turn, "user")))
        kept = trim_messages(messages, max_tokens=LIMIT, token_counter=_langchain_tokens, start_on="human")
        yield [text_block(message.text) for message in kept]
        messages.append(AIMessage(said(turn, "assistant")))


def langchain_summary() -> Iterator[Prompt]:
    """The default of 20 messages kept; the summary of 300 tokens comes from a script."""
    from langchain.agents.middleware import SummarizationMiddleware
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
    from langgraph.graph.message import add_messages

    model = FakeListChatModel(responses=[said(turn, "summary") for turn in range(TURNS)])
    middleware = SummarizationMiddleware(model, trigger=("tokens", LIMIT), token_counter=_langchain_tokens)
    messages: list[BaseMessage] = []
    for turn in range(TURNS):
        messages = add_messages(messages, [HumanMessage(said(turn, "user"))])
        update = middleware.before_model({"messages": messages}, None)
        if update:
            messages = add_messages(messages, update["messages"])
        yield [text_block(message.text) for message in messages]
        messages = add_messages(messages, [AIMessage(said(turn, "assistant"))])


MEMORIES: dict[str, Callable[[], Iterator[Prompt]]] = {
    "LlamaIndex Memory": lambda: llama_memory(None),
    "  with a changing block, user": lambda: llama_memory("user"),
    "  with a changing block, system": lambda: llama_memory("system"),
    "LlamaIndex ChatMemoryBuffer": llama_buffer,
    "LangChain trim_messages": langchain_trim,
    "LangChain SummarizationMiddleware": langchain_summary,
    "ours": lambda: ours(recalled=False),
    "ours, with a changing block": lambda: ours(recalled=True),
}


def recorded(data: Path) -> Iterator[tuple[str, int, list[list[dict[str, Any]]]]]:
    """Recorded runs as conversations: a name, the limit they are read under, and each conversation's messages."""
    with gzip.open(data / "tool_calls" / "taubench_airline_trial0.json.gz", "rt", encoding="utf-8") as file:
        runs = [run["traj"] for run in json.load(file)]
    yield "customer service, each alone", 8_000, runs
    together = [runs[0][0], *(message for run in runs for message in run if not is_system(message))]
    yield "customer service, one user", LIMIT, [together]
    projects: dict[str, list[dict[str, Any]]] = {}
    begun = set()
    with gzip.open(data / "tool_calls" / "miniswe_toolcalls.jsonl.gz", "rt", encoding="utf-8") as file:
        for i, line in enumerate(file):
            call = json.loads(line)
            messages = projects.setdefault(call["repo"], [])
            if len(messages) > 2 * CALLS:
                continue
            if call["sid"] not in begun:
                begun.add(call["sid"])
                messages.append({"role": "user", "content": f"Please mend {call['sid']}."})
            block = {"type": "tool_use", "id": f"c{i}", "name": call["tool"], "input": call["args"]}
            result = {"type": "tool_result", "tool_use_id": f"c{i}", "content": str(call["result"])}
            messages += [{"role": "assistant", "content": [block]}, {"role": "user", "content": [result]}]
    yield "coding, a project each", 100_000, list(projects.values())


def windows(messages: list[dict[str, Any]], limit: int) -> Iterator[Prompt]:
    """The prompts of a recorded run: a window wherever a model was asked, that is before each of its messages."""
    with TieredMemory.open(":memory:", embedder="none", default_scope="benchmark") as memory:
        context = memory.context("s")
        for message in messages:
            if message["role"] == "assistant":
                yield [_sized(json.dumps(message)) for message in context.window(limit)]
            context.append(message)


@functools.cache
def _sized(dumped: str) -> tuple[str, int]:
    return dumped, count_message(json.loads(dumped), estimate_tokens)


def print_recorded(data: Path) -> None:
    print(f"\n{'recorded runs':34} {'limit':>7} {'reused':>7} {'breaks':>7} {'turns':>6} {'calls':>6} {'fill':>6}")
    for name, limit, conversations in recorded(data):
        figures = [measured(windows(messages, limit), limit) for messages in conversations]
        asked = sum(message["role"] == "assistant" for messages in conversations for message in messages)
        turns = sum(starts_turn(message) for messages in conversations for message in messages)
        reused = statistics.fmean(figure.reused for figure in figures)
        fill = statistics.fmean(figure.fill for figure in figures)
        breaks = sum(figure.breaks for figure in figures)
        print(f"{name:34} {limit:7} {reused:7.1%} {breaks:7} {turns:6} {asked:6} {fill:6.1%}")


def print_times() -> None:
    print(f"\n{'messages':>9} {'window at the end, ms':>22} {'rewind to the middle and window, ms':>36}")
    for length in (100, 1_000, 10_000):
        with TieredMemory.open(":memory:", embedder="none", default_scope="benchmark") as memory:
            context = memory.context("s")
            nodes = context.extend(
                {"role": ("user", "assistant")[i % 2], "content": f"{i} " + "word " * 290} for i in range(length)
            )
            late, back = [], []
            for _ in range(15):
                start = time.perf_counter()
                context.window(4_000)
                late.append(time.perf_counter() - start)
                start = time.perf_counter()
                context.rewind(nodes[length // 2])
                context.window(4_000)
                back.append(time.perf_counter() - start)
                context.rewind(nodes[-1])
        print(f"{length:9} {statistics.median(late) * 1e3:22.2f} {statistics.median(back) * 1e3:36.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("TIERED_MEMORY_DATA"))
    data = parser.parse_args().data
    print(f"{TURNS} turns of {2 * HALF} tokens, {LIMIT} for the conversation; n = {TURNS - 1} prompts after the first")
    print(f"{'memory':34} {'reused':>7} {'breaks':>7} {'fill':>6}")
    for name, prompts in MEMORIES.items():
        try:
            found = measured(prompts(), LIMIT)
        except ModuleNotFoundError as error:
            print(f"{name:34} needs {error.name}")
            continue
        print(f"{name:34} {found.reused:7.1%} {found.breaks:7} {found.fill:6.1%}")
    print("must, ours:                        >= 92 %    <= 6  >= 60 %")
    if data is not None:
        print_recorded(data)
    print_times()


if __name__ == "__main__":
    main()
