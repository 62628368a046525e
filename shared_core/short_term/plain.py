"""Requests that take no breakpoints: another provider's model, or messages in OpenAI shape. Canonical, clean, stateless."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from shared_core.messages import Message
from shared_core.short_term.blocks import Reader, canonical, copied
from shared_core.short_term.plan import Expected, Parts, Plan
from shared_core.short_term.rules import ModelRules, is_anthropic
from shared_core.short_term.tape import Spoken


def wants_breakpoints(model: str, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None) -> bool:
    """Whether the model takes breakpoints and the request is in the Messages API's shape."""
    return is_anthropic(model) and not _is_openai(messages, tools)


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
    spoken = []
    openai = not is_anthropic(model) or _is_openai(messages, tools)
    if openai and system is not None:
        messages = [{"role": "system", "content": system}, *messages]
        system = None
    for message in messages:
        extra = canonical({key: value for key, value in message.items() if key not in ("content", "cache_control")})
        content = message.get("content")
        if "content" in message and content is None:
            extra["content"] = None
        spoken.append(Spoken(extra, reader.content("messages", content, called_by_code=called), content is not None))
    kept = tuple(reader.tools(tools or ()))
    own = reader.content("system", system, called_by_code=called)
    total = sum(piece.tokens for piece in (*kept, *own, *(p for s in spoken for p in s.pieces)))
    parts = Parts(kept, own, tuple(spoken), frozenset({"tools"} if tools is not None else ()))
    sent = {name: copied(value) for name, value in settings.items() if name != "cache_control"}
    return Plan(model, scope, session, (), Expected(0, 0, 0, total, float(total), 0.0), rules, (), parts, sent)


def _is_openai(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None) -> bool:
    """By the roles, in C since a plan must not cost more than a glance at a long conversation; and by the tools."""
    try:
        roles = set(map(_ROLE, messages))
    except (KeyError, TypeError):
        return False  # no messages at all; reading them says what is wrong
    if roles & {"tool", "function"} or (messages and "tool_calls" in messages[-1]):
        return True
    return any(isinstance(tool, Mapping) and "function" in tool for tool in tools or ())


_ROLE = itemgetter("role")
