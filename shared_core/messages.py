"""Messages as plain dicts, in Anthropic or OpenAI shape: reading their text, and copying them.

No trimming and no storage here. A message is ``{"role": …, "content": str | list of blocks | None, …}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
