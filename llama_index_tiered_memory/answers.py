"""What a model was asked and what it answered, as the request and the response of the core's cache. No cache here.

An answer is one chunk, a stream several; each is kept as what it adds to the one before. Answers come back
through a list of allowed types: a stored row can name no other class. What would not come back equal is refused.
"""

from __future__ import annotations

import copy
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any

from llama_index.core.base.llms.generic_utils import messages_to_prompt
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, ToolCallBlock
from llama_index.core.llms.llm import LLM, default_completion_to_prompt
from llama_index.core.tools import BaseTool
from pydantic import BaseModel

from llama_index_tiered_memory.convert import is_plain, to_message, to_plain
from llama_index_tiered_memory.steps import grown, step
from shared_core import InvalidInput

Answer = ChatResponse | CompletionResponse
MARK = "tiered_memory"
"""The key in an answer's ``raw`` that says it is a hit, when it was made and what it was paid with."""

_KINDS: dict[str, type[BaseModel]] = {kind.__name__: kind for kind in (ChatResponse, CompletionResponse)}
_KINDS_ELSEWHERE = {  # looked up where the model itself has loaded them
    "AnthropicChatResponse": "llama_index.llms.anthropic.base",
    "AnthropicCompletionResponse": "llama_index.llms.anthropic.base",
}
_NO_SETTING = {"api_key", "timeout", "request_timeout", "max_retries", "reuse_client"}  # they change no answer
_HELD = (str, bool, float, dict)  # private whole numbers and lists are counts and records of the calls made
_NOT_SAID = {"session_id", "usage"}  # LlamaIndex's own notes on a message; no provider is sent them
_REASONS = {"complete": "stop", "eos": "stop", "eos_token": "stop"}
_ID_KEYS = ("id", "tool_call_id", "call_id")


# Requests


def chat_request(
    llm: LLM, stream: bool, messages: Sequence[ChatMessage], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """A chat, as a plain dict that equal requests share. InvalidInput if something in it cannot be compared."""
    asked = {**_request(llm, "chat", stream, settings), "messages": [_said(message) for message in messages]}
    render: Any = llm.messages_to_prompt
    if render is not messages_to_prompt:  # a function is compared by what it makes of this request
        asked["prompt"] = render(messages)
    return asked


def completion_request(
    llm: LLM, stream: bool, prompt: str, formatted: bool, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """A completion, likewise."""
    asked = {**_request(llm, "complete", stream, settings), "prompt": prompt, "formatted": formatted}
    render: Any = llm.completion_to_prompt
    if not formatted and render is not default_completion_to_prompt:
        asked["rendered"] = render(prompt)
    return asked


def _request(llm: LLM, ask: str, stream: bool, settings: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: _compared(value) for name, value in settings.items()}
    tools = {"tools": own.pop("tools")} if "tools" in own else {}
    return {"ask": ask, "stream": stream, "model": _model(llm), "settings": own, **tools}


def _model(llm: LLM) -> dict[str, Any]:
    fields = {
        name: _compared(getattr(llm, name))
        for name, field in type(llm).model_fields.items()
        if not field.exclude and name not in _NO_SETTING
    }
    private: Mapping[str, Any] = llm.__pydantic_private__ or {}
    held = {name: value for name, value in private.items() if type(value) in _HELD and is_plain(value)}
    return {"class": _name(type(llm)), "name": model_name(llm), "fields": fields, "held": held}


def model_name(llm: LLM) -> str:
    """The name by which a model is known; that of its class where LlamaIndex knows no metadata of it."""
    try:
        return llm.metadata.model_name
    except Exception:  # noqa: BLE001  an integration raises for a model that is newer than itself, and still calls it
        return llm.class_name()


def _compared(value: Any) -> Any:
    """The setting as a value that is the same in every process; what is left as it is the core decides on."""
    if isinstance(value, LLM):
        return _model(value)
    if isinstance(value, BaseTool):
        told = value.metadata
        return {"name": told.name, "description": told.description, "parameters": told.get_parameters_dict()}
    if isinstance(value, ChatMessage):
        return _said(value)
    if isinstance(value, type):
        schema = value.model_json_schema() if issubclass(value, BaseModel) else None
        return {"class": _name(value), "schema": schema}
    if isinstance(value, FunctionType | BuiltinFunctionType):
        if getattr(value, "__closure__", None) or "<" in value.__qualname__:
            raise InvalidInput(
                f"expected settings that can be compared, got {value.__qualname__}; use a named function"
            )
        return {"function": _name(value)}
    if type(value) is dict:
        return {key: _compared(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [_compared(item) for item in value]
    return value


def _name(named: Any) -> str:
    return f"{named.__module__}.{named.__qualname__}"


def _said(message: ChatMessage) -> dict[str, Any]:
    """The message without what changes no answer: notes, and marks where a provider may keep a prefix."""
    plain = to_plain(message)
    notes = plain.pop("additional_kwargs", {})
    extra = {name: value for name, value in notes.items() if name not in _NOT_SAID}
    content = plain["content"]
    if isinstance(content, list):
        content = [block for block in content if block.get("type") != "cache"]
        if len(content) == 1 and content[0].keys() == {"type", "text"}:
            content = content[0]["text"]
    files = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in _paths(message.blocks)]
    return {**plain, "content": content, "additional_kwargs": extra, "files": files}


def _paths(blocks: Any) -> Iterator[Any]:
    """Files that a block names: the provider is sent what is in them now."""
    for block in blocks if isinstance(blocks, list) else ():
        if getattr(block, "path", None):
            yield block.path
        yield from _paths(getattr(block, "content", None))


# Answers


class Recording:
    """The chunks of one answer as they pass. ``add`` raises InvalidInput for one that would not come back equal."""

    def __init__(self) -> None:
        self._steps: list[Any] = []
        self._last: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._finish: dict[str, Any] = {}

    def add(self, answer: Answer) -> None:
        """Take the next chunk; nothing of it is kept by reference."""
        packed = _pack(answer)
        self._steps.append(step(self._last, packed))
        self._last = packed
        self._usage = _usage(packed) or self._usage
        self._finish = _finish(packed) or self._finish

    def response(self) -> dict[str, Any]:
        """All of it in the shape of a chat completion, whose message is that of the last chunk."""
        message = self._last.get("message") or {"role": "assistant", "content": self._last.get("text")}
        message = copy.deepcopy(message)
        for call in _calls(message):
            if not call.get("id"):  # some providers have none: a call goes by its tool's name then, here only
                function = call.get("function")
                call["id"] = (function if isinstance(function, dict) else call).get("name")
        choice = {"index": 0, "message": message, **self._finish}
        return {"object": "chat.completion", "choices": [choice], "usage": self._usage, "steps": list(self._steps)}


def replayed(found: Mapping[str, Any]) -> Iterator[Answer]:
    """The chunks of a served response, each a fresh object. Raises for a row that ``Recording`` did not write."""
    packed: Any = {}
    given = _call_ids(found["choices"][0]["message"])
    last: Any = {}
    for one in found["steps"]:
        last = grown(last, one)
    kept = _call_ids(last.get("message") or {})
    ids = {old: new for old, new in zip(kept, given, strict=True) if old and old != new}
    for one in found["steps"]:
        packed = grown(packed, one)
        own = copy.deepcopy(packed)
        if "message" in own and ids:
            own["message"] = _renamed(own["message"], ids)
        raw = own["raw"]
        held = raw if isinstance(raw, dict) else {} if raw is None else {"raw": raw}
        yield _unpack({**own, "raw": {**held, MARK: dict(found["cache"])}})


def _pack(answer: Answer) -> dict[str, Any]:
    name = type(answer).__name__
    if _kind(name) is not type(answer):
        raise InvalidInput(
            f"answer: expected one of {', '.join([*_KINDS, *_KINDS_ELSEWHERE])}, got {_name(type(answer))}"
        )
    packed = {"kind": name, **answer.model_dump(exclude={"message", "raw"}), "raw": _safe(answer.raw)}
    if isinstance(answer, ChatResponse):
        packed["message"] = _packed_message(answer.message)
    again = _unpack(copy.deepcopy(packed))
    for field in type(answer).model_fields:
        if field != "raw" and _weighed(getattr(again, field)) != _weighed(getattr(answer, field)):
            raise InvalidInput(f"answer: expected values that come back equal, got {field} with others")
    return packed


def _packed_message(message: ChatMessage) -> dict[str, Any]:
    plain = to_plain(message)
    own = message.additional_kwargs
    notes = {name: own[name] for name in plain.get("additional_kwargs", ()) if name in own}
    if notes and is_plain(notes):  # as they are: what is bytes stays bytes
        plain["additional_kwargs"] = copy.deepcopy(notes)
    return plain


def _weighed(value: Any) -> Any:
    """What must come back equal. A provider's objects for calls that stand in the blocks too come back as dicts."""
    if not isinstance(value, ChatMessage) or not any(isinstance(block, ToolCallBlock) for block in value.blocks):
        return value
    notes = {name: note for name, note in value.additional_kwargs.items() if name != "tool_calls"}
    return type(value), value.role, value.blocks, notes


def _unpack(packed: Mapping[str, Any]) -> Answer:
    kind = _kind(packed["kind"])
    if kind is None:
        raise InvalidInput(f"answer: expected a type that is on the list, got {packed['kind']!r}")
    fields = {name: value for name, value in packed.items() if name != "kind"}
    if "message" in fields:
        fields["message"] = to_message(fields["message"])
    made: Any = kind(**fields)
    return made  # type: ignore[no-any-return]


def _kind(name: str) -> type[BaseModel] | None:
    if name in _KINDS_ELSEWHERE:
        return getattr(sys.modules.get(_KINDS_ELSEWHERE[name]), name, None)
    return _KINDS.get(name)


def _safe(value: Any) -> Any:
    """What of a provider's own object JSON can carry: the rest is left out."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", warnings=False)
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, Mapping):
        return {key: _safe(item) for key, item in value.items() if isinstance(key, str)}
    if isinstance(value, list | tuple):
        return [_safe(item) for item in value]
    return value if isinstance(value, bool | int | float) else str(value) if isinstance(value, str) else None


def _places(packed: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Where integrations note usage and the reason to stop."""
    raw = packed["raw"] if isinstance(packed["raw"], Mapping) else {}
    choices = raw.get("choices")
    found = [
        raw, raw.get("delta"), choices[0] if isinstance(choices, list) and choices else None,
        packed.get("additional_kwargs"), (packed.get("message") or {}).get("additional_kwargs"),
    ]  # fmt: skip
    return (place for place in found if isinstance(place, Mapping))


def _usage(packed: Mapping[str, Any]) -> dict[str, Any]:
    for place in _places(packed):
        usage = place.get("usage", place)
        if isinstance(usage, Mapping) and {"prompt_tokens", "input_tokens"} & usage.keys():
            return {name: count for name, count in usage.items() if isinstance(count, int)}
    return {}


def _finish(packed: Mapping[str, Any]) -> dict[str, str]:
    for place in _places(packed):
        for name in ("finish_reason", "stop_reason", "done_reason"):
            if isinstance(place.get(name), str) and place[name]:
                reason = place[name].lower()
                return {"finish_reason": _REASONS.get(reason, reason)}
    return {}


def _calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The calls of a message, in its blocks and beside them."""
    content, beside = message.get("content"), message.get("tool_calls")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    return calls + [call for call in beside if isinstance(call, dict)] if isinstance(beside, list) else calls


def _call_ids(message: Mapping[str, Any]) -> list[Any]:
    return [call.get("id") for call in _calls(message)]


def _renamed(value: Any, ids: Mapping[Any, Any]) -> Any:
    if isinstance(value, list):
        return [_renamed(item, ids) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: ids[item] if key in _ID_KEYS and isinstance(item, str) and item in ids else _renamed(item, ids)
        for key, item in value.items()
    }
