"""Messages as plain dicts, in Anthropic or OpenAI shape: reading their text, and copying them.

No trimming and no storage here. A message is ``{"role": …, "content": str | list of blocks | None, …}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from shared_core.errors import InvalidInput

Message = dict[str, Any]


def copied(message: object) -> Message:
    """A deep copy of a message that JSON can carry; InvalidInput if it is no dict with a role, or holds other types."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise InvalidInput(f"message: expected a dict with 'role' and 'content', got {message!r:.200}")
    try:
        copy: Message = json.loads(json.dumps(dict(message)))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"message: expected values that JSON can carry, got {error}; convert them first") from error
    return copy


def text_of(message: Mapping[str, Any]) -> str:
    """What the message says: its text blocks joined by line breaks; "" for tool calls, results, images, thinking."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (
        block if isinstance(block, str) else block.get("text", "")
        for block in content
        if isinstance(block, str) or (isinstance(block, Mapping) and block.get("type") == "text")
    )
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def is_said(message: Mapping[str, Any]) -> bool:
    """Whether a person or the model said it: a user or assistant message with text, not a tool's result."""
    return message.get("role") in ("user", "assistant") and bool(text_of(message).strip())


def is_system(message: Mapping[str, Any]) -> bool:
    """Whether the message instructs rather than takes part: it stays first and is never trimmed."""
    return message.get("role") in ("system", "developer")


def tool_calls(message: Mapping[str, Any]) -> list[str]:
    """The ids of the tool calls that an assistant message makes, in order, in either shape."""
    if message.get("role") != "assistant":
        return []
    blocks = [str(block.get("id")) for block in _blocks(message) if block.get("type") == "tool_use"]
    listed = message.get("tool_calls") or []
    return blocks + [str(call.get("id")) for call in listed if isinstance(call, Mapping)]


def tool_results(message: Mapping[str, Any]) -> list[str]:
    """The ids of the tool calls that a message answers, in order, in either shape."""
    if message.get("role") == "tool":
        return [str(message.get("tool_call_id"))]
    if message.get("role") != "user":
        return []
    return [str(block.get("tool_use_id")) for block in _blocks(message) if block.get("type") == "tool_result"]


def starts_turn(message: Mapping[str, Any]) -> bool:
    """Whether a user speaks here: a user message that answers no tool call."""
    return message.get("role") == "user" and not tool_results(message)


def without_thinking(message: Message) -> Message:
    """The message without its thinking blocks; the very same object if it has none."""
    kept = [block for block in _content(message) if not _is_thinking(block)]
    if len(kept) == len(_content(message)):
        return message
    return {**message, "content": kept}


def paired(messages: Sequence[Message]) -> list[Message]:
    """The messages with every tool call answered and every result called for; what is not is left out.

    The results of a call stand in the messages right after it. A call without a result, a result
    without a call and a second result for one call are removed, and with them the thinking of that
    message (it is bound to its whole); a message left empty goes too. Others pass as they are.
    """
    out: list[Message] = []
    at = 0
    while at < len(messages):
        calls = tool_calls(messages[at])
        end = at + 1
        while calls and end < len(messages) and tool_results(messages[end]):
            end += 1
        answered = [id for message in messages[at + 1 : end] for id in tool_results(message)]
        kept = {id for id in calls if id in answered}
        if calls:
            out += _keeping(messages[at], calls=kept, results=set())
        left = set(kept)
        for message in messages[at + 1 if calls else at : end]:
            out += _keeping(message, calls=set(), results=left) if tool_results(message) else [message]
            left -= set(tool_results(message))
        at = end
    return out


def _keeping(message: Message, *, calls: set[str], results: set[str]) -> list[Message]:
    """The message with only these tool calls and results, each once; none if nothing is left."""
    if set(tool_calls(message)) == calls and _each_once(tool_results(message), results):
        return [message]
    if message.get("role") == "tool":
        return []
    seen: set[str] = set()
    content: list[Any] = []
    for block in _content(message):
        kind = block.get("type") if isinstance(block, Mapping) else None
        id = str(block.get("tool_use_id") if kind == "tool_result" else block.get("id")) if kind else ""
        wanted = calls if kind == "tool_use" else results if kind == "tool_result" else None
        if _is_thinking(block) or (wanted is not None and (id not in wanted or id in seen)):
            continue
        seen.add(id if wanted is not None else "")
        content.append(block)
    kept: Message = {**message}
    if isinstance(message.get("content"), list):
        kept["content"] = content
    if "tool_calls" in message:
        listed = [call for call in message["tool_calls"] or [] if str(call.get("id")) in calls]
        kept.pop("tool_calls")
        if listed:
            kept["tool_calls"] = listed
    return [kept] if kept.get("content") or kept.get("tool_calls") else []


def _each_once(found: Sequence[str], wanted: set[str]) -> bool:
    return len(set(found)) == len(found) and set(found) <= wanted


def _content(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [block for block in _content(message) if isinstance(block, Mapping)]


def _is_thinking(block: object) -> bool:
    return isinstance(block, Mapping) and block.get("type") in ("thinking", "redacted_thinking")
