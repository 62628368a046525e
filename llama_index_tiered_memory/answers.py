"""What a model answered, as the response of the core's cache. No cache here; what was asked is in ``requests.py``.

An answer is one chunk, a stream several; each is kept as what it adds to the one before. Answers come back
through a list of allowed types: a stored row can name no other class. What would not come back equal is refused.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, ToolCallBlock
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
_REASONS = {"complete": "stop", "eos": "stop", "eos_token": "stop"}
_ID_KEYS = ("id", "tool_call_id", "call_id")


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
        known = ", ".join([*_KINDS, *_KINDS_ELSEWHERE])
        raise InvalidInput(f"answer: expected one of {known}, got {type(answer).__module__}.{name}")
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
