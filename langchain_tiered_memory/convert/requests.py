"""What a request to a model shows: a window's messages back in LangChain's types, and a payload's blocks. No rules."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tiered_memory.convert.messages import CALL_BLOCKS, is_signed_thinking, plain, without_thinking
from shared_core.messages import tool_calls


def shown(message: BaseMessage, given: Mapping[str, Any], kept: Mapping[str, Any]) -> BaseMessage:
    """The message as a window shows it: itself, or a copy with what ``kept`` leaves of ``given``, its plain dict."""
    if given == kept:
        return message
    if not isinstance(message, AIMessage):
        return message.model_copy(update={"content": kept["content"]})
    ids = set(tool_calls(kept))
    own = message if kept.get("content") == given.get("content") else without_thinking(message)
    content = own.content
    if isinstance(content, list):
        content = [
            b for b in content if not (isinstance(b, dict) and b.get("type") in CALL_BLOCKS and b.get("id") not in ids)
        ]
    calls = [call for call in message.tool_calls if call["id"] in ids]
    return message.model_copy(update={"content": content, "tool_calls": calls})


def to_fit(message: BaseMessage, recalled: Collection[str]) -> dict[str, Any]:
    """The plain dict that a window counts: without the blocks that have these hashes, thinking named as the core does."""
    said = plain(message)
    if isinstance(said["content"], list):
        said["content"] = [
            {"type": "thinking", "thinking": block.get("reasoning", "")}
            if is_signed_thinking(block) and block["type"] == "reasoning"
            else block
            for block in said["content"]
            if message.type != "human" or not _is_one_of(recalled, block)
        ]
    return said


def place_of(messages: Sequence[Mapping[str, Any]], recalled: Collection[str]) -> int | None:
    """The index, over the blocks of all messages, of the first that has one of these hashes; None if none has."""
    for place, block in enumerate(_blocks(messages)):
        if recalled and _is_one_of(recalled, block):
            return place
    return None


def is_marked_from(payload: Mapping[str, Any], place: int) -> bool:
    """Whether a breakpoint of somebody's stands on that block of the messages or after it, an automatic one included."""
    after = list(_blocks(payload["messages"]))[place:]
    return bool(payload.get("cache_control")) or any(isinstance(b, Mapping) and b.get("cache_control") for b in after)


def asks_for_thinking(payload: Mapping[str, Any]) -> bool:
    """Whether the model was told to think, or to think when it sees fit."""
    thinking = payload.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") != "disabled"


def _blocks(messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The blocks of all messages; a text that stands alone is one."""
    found: list[Any] = []
    for message in messages:
        content = message.get("content")
        found += [content] if isinstance(content, str) else content or []
    return found


def _is_one_of(recalled: Collection[str], block: Any) -> bool:
    text = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else None
    if not isinstance(text, str) or not text.startswith("<"):  # a block opens with a tag: most texts need no hash
        return False
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest() in recalled
