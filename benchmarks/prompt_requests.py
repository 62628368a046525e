"""What the request streams of ``prompt_mixes.py`` are made of: a request, and messages, tools and texts of random words."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SONNET, OPUS, HAIKU = "claude-sonnet-5", "claude-opus-5-5", "claude-haiku-4-5"


@dataclass(frozen=True)
class Request:
    """One request: epoch seconds, conversation, and the arguments of ``messages.create``."""

    at: float
    session: str
    model: str
    system: Any
    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    volatile: int | None = None


def words(rng: random.Random, count: int) -> str:
    """So many words of three to nine letters."""
    return " ".join(
        "".join(rng.choice("etaoinshrdlucmwfygpbvk") for _ in range(rng.randint(3, 9))) for _ in range(count)
    )


def toolset(rng: random.Random, count: int, described: int = 60) -> list[dict[str, Any]]:
    """Tool definitions with descriptions of so many words."""
    return [
        {
            "name": f"tool_{i:02d}",
            "description": words(rng, described),
            "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
        }
        for i in range(count)
    ]


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def called(ids: list[str], name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": i, "name": name, "input": dict(args)} for i in ids],
    }


def answered(ids: list[str], texts: list[str]) -> dict[str, Any]:
    blocks = [{"type": "tool_result", "tool_use_id": i, "content": t} for i, t in zip(ids, texts, strict=True)]
    return {"role": "user", "content": blocks}
