"""Messages to plain dicts and back. A stored dict can name no class but those on the list."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    SystemMessageChunk,
    ToolCall,
    ToolMessage,
    ToolMessageChunk,
)

from shared_core import InvalidInput

_ROLES = {
    "human": "user", "HumanMessageChunk": "user", "ai": "assistant", "AIMessageChunk": "assistant", "system": "system",
    "SystemMessageChunk": "system", "tool": "tool", "ToolMessageChunk": "tool",
}  # fmt: skip
CALL_BLOCKS = ("tool_use", "tool_call", "tool_call_chunk", "input_json_delta")
_MESSAGES: dict[str, type[BaseMessage]] = {
    kind.__name__: kind
    for kind in (
        AIMessage,
        AIMessageChunk,
        HumanMessage,
        HumanMessageChunk,
        SystemMessage,
        SystemMessageChunk,
        ToolMessage,
        ToolMessageChunk,
        FunctionMessage,
        FunctionMessageChunk,
        ChatMessage,
        ChatMessageChunk,
    )
}


def plain(message: BaseMessage) -> dict[str, Any]:
    """The message as a plain dict in OpenAI shape: role, content, id, tool calls, tool call id, name.

    Tool calls stand in ``tool_calls`` alone; blocks that repeat them are left out of the content.
    """
    role = message.role if isinstance(message, ChatMessage) else _ROLES.get(message.type, message.type)
    out: dict[str, Any] = {"role": role, "content": jsonable(_said(message))}
    if message.id is not None:
        out["id"] = message.id
    if message.name is not None:
        out["name"] = message.name
    if isinstance(message, AIMessage) and message.tool_calls:
        out["tool_calls"] = [call_of(call) for call in message.tool_calls]
    if isinstance(message, ToolMessage):
        out["tool_call_id"] = message.tool_call_id
        if message.status != "success":
            out["status"] = message.status
    return out


def _said(message: BaseMessage) -> Any:
    if not isinstance(message.content, list) or not getattr(message, "tool_calls", None):
        return message.content
    return [b for b in message.content if not (isinstance(b, dict) and b.get("type") in CALL_BLOCKS)]


def call_of(call: Mapping[str, Any]) -> dict[str, Any]:
    """A tool call in OpenAI shape, its arguments as JSON with sorted keys."""
    arguments = json.dumps(jsonable(call.get("args")), sort_keys=True)
    return {"id": call.get("id"), "type": "function", "function": {"name": call.get("name"), "arguments": arguments}}


def message(said: Mapping[str, Any]) -> BaseMessage:
    """A LangChain message from a plain dict in OpenAI shape."""
    held = {"content": content(said.get("content") or ""), "id": said.get("id"), "name": said.get("name")}
    match said["role"]:
        case "user":
            return HumanMessage(**held)
        case "assistant":
            return AIMessage(**held, tool_calls=[_lc_call(call) for call in said.get("tool_calls") or []])
        case "system":
            return SystemMessage(**held)
        case "tool":
            return ToolMessage(
                **held, tool_call_id=said.get("tool_call_id") or "", status=said.get("status") or "success"
            )
        case role:
            return ChatMessage(**held, role=role)


def logged(said: BaseMessage) -> dict[str, Any]:
    """The plain dict of a message, and beside it the message itself, so that ``verbatim`` gives it back whole.

    One of a class of the user's own comes back as the class of LangChain's that it is made of, as from every history.
    InvalidInput for what is no message.
    """
    if not isinstance(said, BaseMessage):
        raise InvalidInput(f"messages: expected LangChain messages, got {said!r:.80}; write [HumanMessage(…)]")
    kind = next((kind.__name__ for kind in type(said).__mro__ if _MESSAGES.get(kind.__name__) is kind), None)
    packed = pack_message(said) if kind is None else {"kind": kind, "fields": said.model_dump()}
    return {**plain(said), "langchain": jsonable(packed)}


def verbatim(said: Mapping[str, Any]) -> BaseMessage:
    """The message that ``logged`` wrote down, or one made from a plain dict that someone else did."""
    return unpack_message(said["langchain"]) if "langchain" in said else message(said)


def _lc_call(call: Mapping[str, Any]) -> ToolCall:
    called = call.get("function") or {}
    arguments = called.get("arguments")
    arguments = json.loads(arguments or "{}") if isinstance(arguments, str | None) else arguments
    return ToolCall(name=called.get("name") or "", args=arguments, id=call.get("id"), type="tool_call")


def content(value: Any) -> Any:
    """What a message can hold: text and lists of blocks as they are, a message's own content, else its text."""
    if isinstance(value, BaseMessage):
        return value.content
    return value if isinstance(value, str | list) else str(value)


def jsonable(value: Any) -> Any:
    """A copy that JSON can carry; what it cannot carry is replaced by its text."""
    return value if type(value) is str else json.loads(json.dumps(value, default=str))


def with_block(message: BaseMessage, block: str) -> BaseMessage:
    """A copy of the message that ends with one more text block; the message itself stays as it is."""
    before = [{"type": "text", "text": message.content}] if isinstance(message.content, str) else list(message.content)
    return message.model_copy(update={"content": [*before, {"type": "text", "text": block}]})


def thinks(message: BaseMessage) -> bool:
    """Whether the message holds thinking that its provider signed: it is bound to the bytes that stood before it."""
    return isinstance(message, AIMessage) and any(map(is_signed_thinking, message.content))


def without_thinking(message: BaseMessage) -> BaseMessage:
    """The message without signed thinking, in a copy; the very same object if it has none."""
    if not thinks(message):
        return message
    return message.model_copy(update={"content": [b for b in message.content if not is_signed_thinking(b)]})


def is_void(message: BaseMessage) -> bool:
    """Whether nothing is left in a model's message, neither content nor a call: providers refuse it."""
    return isinstance(message, AIMessage) and not message.content and not message.tool_calls


def is_signed_thinking(block: Any) -> bool:
    """Whether a content block is thinking that its provider signed."""
    if not isinstance(block, dict):
        return False
    kind = block.get("type")
    # In LangChain's own shape of content, thinking is a reasoning block with the signature among its extras.
    return kind in ("thinking", "redacted_thinking") or (
        kind == "reasoning" and isinstance(block.get("extras"), dict) and "signature" in block["extras"]
    )


def pack_message(message: BaseMessage) -> dict[str, Any]:
    """A message as data with the name of its class; InvalidInput for a class that is not on the allow-list."""
    kind = type(message).__name__
    if _MESSAGES.get(kind) is not type(message):
        raise InvalidInput(f"message: expected one of {', '.join(_MESSAGES)}, got {type(message).__qualname__}")
    return {"kind": kind, "fields": message.model_dump()}


def unpack_message(packed: Mapping[str, Any]) -> BaseMessage:
    """The message again: a new object of a class on the allow-list."""
    fields = dict(packed["fields"])
    usage = fields.get("usage_metadata")
    if isinstance(usage, dict):  # a cached answer of LangChain's own carries a cost and nothing else
        fields["usage_metadata"] = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0, **usage}
    return _MESSAGES[packed["kind"]](**fields)
