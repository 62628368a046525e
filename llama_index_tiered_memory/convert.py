"""Every conversion between LlamaIndex's types and plain JSON values. No storage, no rules.

A plain message is ``{"role", "content", …}`` as the core reads it: a text is a string or a block
``{"type": "text"}``, a tool call is ``{"type": "tool_use", "id", "name", "input"}``, any other block keeps
its fields under its type. ``to_message(to_plain(message)) == message`` for every block type.
"""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from llama_index.core.base.llms.types import (
    AudioBlock,
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import ToolOutput
from pydantic import BaseModel, ValidationError

from shared_core import Hit, InvalidInput, Memory
from shared_core.messages import Message, tool_calls, tool_results

_BLOCKS: dict[str, type[BaseModel]] = {
    block.model_fields["block_type"].default: block
    for block in (
        TextBlock, ImageBlock, AudioBlock, VideoBlock, DocumentBlock, CachePoint, CitableBlock, CitationBlock,
        ThinkingBlock, ToolCallBlock,
    )
}  # fmt: skip
_CALL = {"tool_call_id": "id", "tool_name": "name", "tool_kwargs": "input"}
_CALL_BACK = {plain: own for own, plain in _CALL.items()}
_PLAIN = (type(None), bool, int, float, str, bytes, bytearray, date, datetime, time, timedelta, Decimal, UUID)
_BINARY = {"image", "audio", "video", "data"}
_LIFTED = ("tool_call_id", "tool_calls")  # where OpenAI's shape, and so the core, looks for them
_SAID_BY = {"chatbot": "assistant", "model": "assistant"}


def to_plain(message: ChatMessage) -> dict[str, Any]:
    """The message as a plain dict that ``to_message`` turns back. InvalidInput if something in it is no JSON."""
    if not isinstance(message, ChatMessage):
        raise InvalidInput(
            f"message: expected a ChatMessage, got {message!r:.80}; write ChatMessage(role='user', content=…)"
        )
    try:
        dumped = _with_infinities(message.model_dump(mode="json"), message.model_dump())
    except ValueError as error:  # PydanticSerializationError is one
        raise InvalidInput(f"message: expected values that JSON can carry, got {error}") from error
    extra = dumped["additional_kwargs"]
    blocks = dumped["blocks"]
    only_text = len(blocks) == 1 and blocks[0].keys() == {"block_type", "text"}
    plain = {"role": dumped["role"], "content": blocks[0]["text"] if only_text else [_plain_block(b) for b in blocks]}
    plain |= {name: extra.pop(name) for name in _LIFTED if name in extra}
    return plain | {"additional_kwargs": extra} if extra else plain


def _with_infinities(dumped: Any, given: Any) -> Any:
    """The JSON dump with the floats that pydantic writes as null: infinite ones and NaN (log probabilities)."""
    if dumped is None and isinstance(given, float):
        return given
    if isinstance(dumped, dict) and isinstance(given, dict):
        return {key: _with_infinities(value, given.get(key)) for key, value in dumped.items()}
    if isinstance(dumped, list) and isinstance(given, list | tuple) and len(dumped) == len(given):
        return [_with_infinities(value, origin) for value, origin in zip(dumped, given, strict=True)]
    return dumped


def to_message(plain: dict[str, Any]) -> ChatMessage:
    """The message that ``to_plain`` made the dict from; also reads plain messages of other writers."""
    content = plain.get("content")
    blocks = [TextBlock(text=content)] if isinstance(content, str) else [_block(block) for block in content or ()]
    message = ChatMessage(role=plain["role"], blocks=blocks)
    # Not through the constructor: it would read the images of an old message a second time.
    message.additional_kwargs = {
        **plain.get("additional_kwargs", {}),
        **{name: plain[name] for name in _LIFTED if name in plain},
    }
    return message


def to_conversation(message: ChatMessage) -> dict[str, Any]:
    """The message for the conversation log: as ``to_plain``, without the session id that ``Memory`` writes into it."""
    plain = to_plain(message)
    extra = {name: value for name, value in plain.pop("additional_kwargs", {}).items() if name != "session_id"}
    plain["role"] = _SAID_BY.get(plain["role"], plain["role"])
    return plain | {"additional_kwargs": extra} if extra else plain


def session_of(messages: list[ChatMessage]) -> str | None:
    """The session id that ``Memory`` wrote into these messages, if it did."""
    found = (message.additional_kwargs.get("session_id") for message in messages)
    return next((session for session in found if isinstance(session, str) and session), None)


def in_call_order(messages: list[Message]) -> list[Message]:
    """Plain messages with the results after a call in the order of its calls: an agent lists them as they finish."""
    out: list[Message] = []
    order: list[str] = []
    for message in messages:
        results = tool_results(message)
        if results and order:
            at = len(out)
            while tool_results(out[at - 1]) and _place(order, out[at - 1]) > _place(order, message):
                at -= 1
            out.insert(at, message)
            continue
        order = tool_calls(message)
        out.append(message)
    return out


def _place(order: list[str], message: Message) -> int:
    id = tool_results(message)[0]
    return order.index(id) if id in order else len(order)


def _plain_block(block: dict[str, Any]) -> dict[str, Any]:
    kind = block.pop("block_type")
    if kind == "tool_call":
        return {"type": "tool_use", **{_CALL.get(name, name): value for name, value in block.items()}}
    return {"type": kind, **block}


def _block(plain: Any) -> Any:
    if isinstance(plain, str):
        return TextBlock(text=plain)
    fields = {name: value for name, value in plain.items() if name != "type"}
    kind = plain.get("type")
    if kind == "tool_use":
        kind, fields = "tool_call", {_CALL_BACK.get(name, name): value for name, value in fields.items()}
    block = _BLOCKS.get(kind)
    if block is None:
        return TextBlock(text=json.dumps(plain, ensure_ascii=False))
    try:
        made = block.model_validate(fields)
    except ValidationError:
        made = block.model_construct(**fields)  # it was valid when written: a file it names may be gone
    for name in _BINARY & fields.keys():
        if isinstance(fields[name], str):  # base64 as it was stored: the constructor may encode it once more
            setattr(made, name, fields[name].encode())
    return made


class TextInstead(str):
    """Stands in a stored output for a raw value that could not be stored: the output's text."""

    __slots__ = ()


def to_plain_output(output: ToolOutput) -> dict[str, Any]:
    """A tool's output as plain values, without its input; a raw output of no plain type is left out."""
    plain: dict[str, Any] = {
        "tool_name": output.tool_name,
        "blocks": [block.model_dump(mode="json") for block in output.blocks],
    }
    return plain | {"raw_output": output.raw_output} if is_plain(output.raw_output) else plain


def to_output(plain: dict[str, Any], raw_input: dict[str, Any]) -> ToolOutput:
    """The output that ``to_plain_output`` made the dict from; ``raw_output`` is a TextInstead where it was left out."""
    blocks: list[Any] = [_BLOCKS[block["block_type"]].model_validate(block) for block in plain["blocks"]]
    output = ToolOutput(tool_name=plain["tool_name"], blocks=blocks, raw_input=raw_input)
    output.raw_output = plain["raw_output"] if "raw_output" in plain else TextInstead(output.content)
    return output


def is_output(plain: Any) -> bool:
    """Whether ``to_output`` can read the value: a stored row may be damaged, or of a release that wrote it otherwise."""
    try:
        return isinstance(to_output(plain, {}).tool_name, str)
    except (KeyError, TypeError, ValueError, AttributeError):  # a ValidationError is a ValueError
        return False


def is_plain(value: Any) -> bool:
    """Whether the core's typed JSON carries the value unchanged."""
    if type(value) in (list, tuple, set, frozenset):
        return all(is_plain(item) for item in value)
    if type(value) is dict:
        return all(is_plain(key) and is_plain(item) for key, item in value.items())
    return type(value) in _PLAIN


def to_node(hit: Hit) -> NodeWithScore:
    """A recalled memory as a retrieved node; its facts are metadata, kept out of what is embedded or shown."""
    memory = hit.memory
    metadata = {**metadata_of(memory), "parts": dict(hit.parts)}
    node = TextNode(
        id_=memory.id, text=memory.text, metadata=metadata, excluded_llm_metadata_keys=list(metadata),
        excluded_embed_metadata_keys=list(metadata),
    )  # fmt: skip
    return NodeWithScore(node=node, score=hit.score)


def metadata_of(memory: Memory) -> dict[str, Any]:
    """A memory's own metadata and its facts, as its node shows them and as filters see them."""
    facts: dict[str, Any] = {
        "role": memory.role, "speaker": memory.speaker, "session": memory.session, "tags": list(memory.tags),
        "at": memory.at, "importance": memory.importance, "subject": memory.subject,
    }  # fmt: skip
    return {**memory.metadata, **{name: value for name, value in facts.items() if value not in (None, [])}}


def to_json_value(value: dict[str, Any]) -> bytes:
    """A key-value store's value as JSON bytes; floats come back exactly. InvalidInput for what JSON cannot carry."""
    if not isinstance(value, dict):
        raise InvalidInput(f"val: expected a dict that JSON can carry, got {value!r:.80}; write {{'value': …}}")
    try:
        return json.dumps(value, default=_numbers, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"val: expected a dict that JSON can carry, got {error}; convert it first") from error


def _numbers(value: Any) -> Any:
    if hasattr(value, "tolist"):  # a numpy array or number from an embedding model
        return value.tolist()
    raise TypeError(f"a {type(value).__name__}")


_ESCAPED = "\x00json:"


def to_key(key: str) -> str:
    """A key that UTF-8 can carry, one to one: a lone surrogate is written as JSON writes it."""
    if not isinstance(key, str):
        raise InvalidInput(f"key: expected a string, got {key!r:.80}; write str(key)")
    try:
        key.encode()
    except UnicodeEncodeError:
        return _ESCAPED + json.dumps(key)
    return _ESCAPED + json.dumps(key) if key.startswith(_ESCAPED) else key


def from_key(stored: str) -> str:
    """The key that ``to_key`` was given."""
    return str(json.loads(stored.removeprefix(_ESCAPED))) if stored.startswith(_ESCAPED) else stored
