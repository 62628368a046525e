"""Requests that take no breakpoints: another provider's model, or messages in OpenAI shape. Canonical, clean, stateless."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from shared_core.errors import InvalidInput
from shared_core.messages import Message
from shared_core.short_term.blocks import Reader, canonical, copied, fields_of, read_content
from shared_core.short_term.plan import Expected, Parts, Plan
from shared_core.short_term.rules import ModelRules, is_anthropic
from shared_core.short_term.tape import is_openai


def plain_plan(
    *,
    model: str,
    messages: Sequence[Message],
    system: Any,
    tools: Sequence[Mapping[str, Any]] | None,
    session: str | None,
    scope: str,
    settings: Mapping[str, Any],
    rules: ModelRules,
    reader: Reader,
) -> Plan:
    """A plan without breakpoints: tools and keys in a stable order, every ``cache_control`` taken out.

    In OpenAI shape a ``system`` that was given becomes the first message, since that API has no such argument.
    """
    called: set[str] = set()
    wires: list[Message] = []
    sizes: list[int] = []
    messages = [*messages]
    if system is not None and (
        not is_anthropic(model) or any(isinstance(m, Mapping) and is_openai(m) for m in messages)
    ):
        messages = [{"role": "system", "content": system}, *messages]
        system = None
    for message in messages:
        said = message if isinstance(message, Mapping) else fields_of(message)
        if said is None:
            raise InvalidInput(f"messages: expected dicts with 'role' and 'content', got {message!r:.200}")
        given = said.get("content")
        content = read_content("messages", given, called)
        wire = canonical({key: value for key, value in said.items() if key not in ("content", "cache_control")})
        if "content" in said:
            wire["content"] = given if content.bare or given is None else content.blocks
        wires.append(wire)
        sizes += reader.tokens(content.blocks)
    kept, own = tuple(reader.tools(tools or ())), reader.system("system", system)
    tokens = [*accumulate(sizes, initial=0)]
    total = sum(piece.tokens for piece in (*kept, *own)) + tokens[-1]
    parts = Parts(kept, own, wires, [None] * len(wires), tokens, len(wires), len(sizes), tools is not None)
    sent = {name: copied(value) for name, value in settings.items() if name != "cache_control"}
    return Plan(model, scope, session, (), Expected(0, 0, 0, total, float(total), 0.0), rules, (), parts, sent)
