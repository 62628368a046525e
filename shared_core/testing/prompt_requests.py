"""Random conversations with breakpoints of the caller's in every place, allowed or not: what a planner must survive.

Deterministic for a seed. Nothing is sent and nothing checked here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

MODELS = (
    "claude-sonnet-5",
    "claude-opus-4-6",
    "claude-fable-5-1",
    "claude-unheard-of-9",
    "anthropic.claude-sonnet-4-6",
)
_WORDS = [
    "amber",
    "basil",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "harbor",
    "indigo",
    "juniper",
    "kelp",
    "lagoon",
    "meadow",
    "nectar",
]

_PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


def conversation(rng: random.Random, requests: int = 4) -> Iterator[dict[str, Any]]:
    """The arguments of ``plan`` for each request of one conversation that grows, is edited (in place too), cut, and changes
    its tools.
    """
    model = rng.choice(MODELS)
    tools = [_tool(rng, i) for i in range(rng.randint(0, 6))]
    system: Any = rng.choice([None, _text(rng), [_block(rng, _text(rng)) for _ in range(rng.randint(1, 5))]])
    messages: list[dict[str, Any]] = []
    for number in range(requests):
        messages = [*messages, *_turn(rng, number)]
        if rng.random() < 0.1:
            messages = messages[1:]
        if rng.random() < 0.1:
            tools = rng.sample(tools, len(tools))
        if rng.random() < 0.1:
            tools = [*tools, _tool(rng, 10 + number)]
        if rng.random() < 0.1:
            messages[rng.randrange(len(messages))] = _said(rng)
        if rng.random() < 0.1:
            messages[rng.randrange(len(messages))]["content"] = rng.choice(["[cleared]", _text(rng, 20)])
        request: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": 100}
        if tools:
            request["tools"] = tools
        if system is not None:
            request["system"] = system
        if rng.random() < 0.3:
            request["cache_control"] = _mark(rng)
        if rng.random() < 0.2:
            request["thinking"] = {"type": "enabled", "budget_tokens": rng.choice([1024, 2048])}
        if rng.random() < 0.3:
            blocks = sum(1 if isinstance(m["content"], str) else len(m["content"]) for m in messages)
            request["volatile"] = rng.randint(0, blocks)
        yield request


def _turn(rng: random.Random, number: int) -> list[dict[str, Any]]:
    turn = [_said(rng)]
    for step in range(rng.choice([0, 0, 1, 2])):
        ids = [f"t{number}-{step}-{i}" for i in range(rng.choice([1, 1, 2, 25]))]
        by_code = rng.random() < 0.2
        calls: list[dict[str, Any]] = []
        if rng.random() < 0.4:
            calls.append(_block(rng, "", kind="thinking", thinking="because", signature="s"))
        if rng.random() < 0.2:
            calls.append(_block(rng, "", kind="redacted_thinking", data="x"))
        for id in ids:
            call: dict[str, Any] = {
                "type": "tool_use",
                "id": id,
                "name": "tool_0",
                "input": {"q": _text(rng, 3), "n": step},
            }
            if by_code:
                call["caller"] = {"type": "code_execution_20250825", "tool_id": "srv"}
            calls.append(_maybe_marked(rng, call))
        results = [
            _maybe_marked(rng, {"type": "tool_result", "tool_use_id": id, "content": _result(rng)}) for id in ids
        ]
        turn += [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
    return [*turn, {"role": "assistant", "content": rng.choice([_text(rng), [_block(rng, _text(rng))]])}, _said(rng)]


def _said(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.3:
        return {"role": "user", "content": _text(rng)}
    blocks = [_block(rng, _text(rng)) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.3:
        blocks += _rare(rng)
    if rng.random() < 0.1:
        blocks.append(_block(rng, "  "))
    if rng.random() < 0.1:
        blocks.append(_maybe_marked(rng, _PICTURE))
    return {"role": "user", "content": blocks}


def _result(rng: random.Random) -> Any:
    return rng.choice([_text(rng), [_block(rng, _text(rng, 20)), _block(rng, "end")], _rare(rng)[:1]])


def _rare(rng: random.Random) -> list[dict[str, Any]]:
    """Blocks that few requests hold: documents, search results, server tools, what has others inside."""
    inside = [_block(rng, _text(rng, 20)), _block(rng, "end")]
    document = {"type": "document", "source": {"type": "content", "content": inside}, "citations": {"enabled": True}}
    fetched = {"type": "web_fetch_result", "url": "u", "content": _maybe_marked(rng, document)}
    by_code = {"caller": {"type": "code_execution_20260120", "tool_id": "srv"}} if rng.random() < 0.3 else {}
    id = f"srv{rng.randrange(1000)}"
    blocks: list[dict[str, Any]] = rng.choice(
        [
            [document],
            [{"type": "document", "source": {"type": "content", "content": [_PICTURE]}}],
            [{"type": "search_result", "source": "s", "title": "t", "content": inside}],
            [
                {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "q"}, **by_code},
                {"type": "web_search_tool_result", "tool_use_id": id, "content": []},
            ],
            [{"type": "web_fetch_tool_result", "tool_use_id": id, "content": fetched, **by_code}],
            [
                {"type": "mcp_tool_use", "id": id, "name": "n", "server_name": "s", "input": {}},
                {"type": "mcp_tool_result", "tool_use_id": id, "content": inside},
            ],
            [
                {
                    "type": "tool_search_tool_result",
                    "tool_use_id": id,
                    "content": {"type": "tool_search_tool_search_result"},
                }
            ],
            [{"type": "container_upload", "file_id": "f"}],
            [{"type": "compaction", "content": _text(rng)}],
            [{"type": "of_tomorrow", "content": inside}],
        ]
    )
    return [_maybe_marked(rng, block) for block in blocks]


def _tool(rng: random.Random, i: int) -> dict[str, Any]:
    tool = {"name": f"tool_{i}", "description": _text(rng), "input_schema": {"type": "object", "properties": {}}}
    if rng.random() < 0.2:
        return {**tool, "defer_loading": True}
    return _maybe_marked(rng, tool)


def _block(rng: random.Random, text: str, *, kind: str = "text", **fields: str) -> dict[str, Any]:
    return _maybe_marked(rng, {"type": kind, **({"text": text} if kind == "text" else fields)})


def _maybe_marked(rng: random.Random, block: dict[str, Any]) -> dict[str, Any]:
    return {**block, "cache_control": _mark(rng)} if rng.random() < 0.12 else block


def _mark(rng: random.Random) -> dict[str, Any]:
    return rng.choice(
        [
            {"type": "ephemeral"},
            {"type": "ephemeral", "ttl": "5m"},
            {"type": "ephemeral", "ttl": "1h"},
            {"type": "forever"},
        ]
    )


def _text(rng: random.Random, most: int = 900) -> str:
    return " ".join(rng.choices(_WORDS, k=rng.choice([1, 5, 40, most])))
