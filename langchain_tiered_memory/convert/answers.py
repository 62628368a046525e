"""What a model was asked and what it answered, as the request and the response of the core's cache.

Generations come back through a list of allowed types: a stored row can name no other class.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, Generation, GenerationChunk

from langchain_tiered_memory.convert.messages import (
    CALL_BLOCKS,
    call_of,
    jsonable,
    pack_message,
    plain,
    unpack_message,
)
from shared_core import InvalidInput

_PROMPT_ROLES = {
    "HumanMessage": "user", "HumanMessageChunk": "user", "AIMessage": "assistant", "AIMessageChunk": "assistant",
    "SystemMessage": "system", "ToolMessage": "tool",
}  # fmt: skip
_REASONS = {"complete": "stop", "eos": "stop", "eos_token": "stop"}
_GENERATIONS: dict[str, type[Generation]] = {
    kind.__name__: kind for kind in (Generation, GenerationChunk, ChatGeneration, ChatGenerationChunk)
}


# Requests of the response cache


def request(prompt: str, llm_string: str) -> dict[str, Any]:
    """What a model was asked, as a plain dict: the messages of a chat prompt or a bare prompt, and the settings.

    ``prompt`` is what LangChain hands to a cache: the JSON of the messages, or a plain text. ``llm_string``
    names the model with its settings, bound tools and stop words; it stands for all of them as it is.
    """
    messages = _prompt_messages(prompt)
    if messages is None:
        return {"model": llm_string, "prompt": prompt}
    return {"model": llm_string, "messages": messages}


def _prompt_messages(prompt: str) -> list[dict[str, Any]] | None:
    if not prompt.startswith("["):
        return None
    try:
        found = json.loads(prompt)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or not all(_is_constructor(item) for item in found):
        return None
    return [_prompt_message(item["id"][-1], dict(item["kwargs"])) for item in found]


def _is_constructor(item: Any) -> bool:
    return (
        isinstance(item, dict) and item.get("lc") == 1 and item.get("type") == "constructor"
        and isinstance(item.get("id"), list) and bool(item["id"]) and isinstance(item.get("kwargs"), dict)
    )  # fmt: skip


def _prompt_message(kind: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    for name in ("type", "artifact"):  # the class says it; the model never sees it
        kwargs.pop(name, None)
    calls = kwargs.pop("tool_calls", None) or []
    message = {"role": kwargs.pop("role", None) or _PROMPT_ROLES.get(kind, kind), **kwargs}
    if calls:
        message["tool_calls"] = [call_of(call) for call in calls]
        message["additional_kwargs"] = {
            key: value for key, value in (kwargs.get("additional_kwargs") or {}).items() if key != "tool_calls"
        }
        if isinstance(kwargs.get("content"), list):
            message["content"] = [_settled(block) for block in kwargs["content"]]
    return message


def _settled(block: Any) -> Any:
    """A block that repeats a tool call keeps its place and loses the rest: ``tool_calls`` has it."""
    if isinstance(block, dict) and block.get("type") in CALL_BLOCKS:
        return {key: block[key] for key in ("type", "name", "cache_control") if key in block}
    return block


# Responses of the response cache


def response(generations: Sequence[Generation]) -> dict[str, Any]:
    """What a model answered, in the shape of a chat completion: one choice a generation, in order.

    Each choice carries the generation itself as plain data, serialised alone. InvalidInput if one is of a
    type that is not on the allow-list or would not load again.
    """
    choices = []
    for index, generation in enumerate(generations):
        packed = pack(generation)
        unpack(packed)
        choice = {"index": index, "message": _answer(generation), "generation": packed}
        choices.append({**choice, **_finish(generation)})
    return {"object": "chat.completion", "choices": choices, "usage": _usage(generations)}


def generations(found: Mapping[str, Any]) -> list[Generation]:
    """Fresh generations from a stored response, each message with an id of its own. Raises for a row that is none."""
    made = []
    for choice in found["choices"]:
        generation = unpack(choice["generation"])
        if isinstance(generation, ChatGeneration):
            generation.message = _fresh(generation.message, choice.get("message") or {}, found)
        made.append(generation)
    return made


def pack(generation: Generation) -> dict[str, Any]:
    """A generation as plain data. InvalidInput for a type that is not on the allow-list, or holds what JSON cannot carry."""
    kind = type(generation).__name__
    if _GENERATIONS.get(kind) is not type(generation):
        raise InvalidInput(
            f"generation: expected one of {', '.join(_GENERATIONS)}, got {type(generation).__qualname__}"
        )
    packed: dict[str, Any] = {"kind": kind, "generation_info": generation.generation_info}
    if isinstance(generation, ChatGeneration):
        packed["message"] = pack_message(generation.message)
    else:
        packed["text"] = generation.text
    try:
        own: dict[str, Any] = json.loads(json.dumps(packed))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"generation: expected values that JSON can carry, got {error}") from error
    return own


def unpack(packed: Mapping[str, Any]) -> Generation:
    """The generation again: a new object. Raises for data that ``pack`` did not write."""
    kind = _GENERATIONS[packed["kind"]]
    info = packed["generation_info"]
    if issubclass(kind, ChatGeneration):
        return kind(message=unpack_message(packed["message"]), generation_info=info)
    return kind(text=packed["text"], generation_info=info)


def _answer(generation: Generation) -> dict[str, Any]:
    if not isinstance(generation, ChatGeneration):
        return {"role": "assistant", "content": generation.text}
    answer = plain(generation.message)
    invalid = getattr(generation.message, "invalid_tool_calls", None)
    if invalid:
        answer["invalid_tool_calls"] = jsonable(invalid)
    return answer


def _finish(generation: Generation) -> dict[str, str]:
    """Why the model stopped, if it said so, in the words of the two shapes that the core knows."""
    places = [generation.generation_info or {}]
    if isinstance(generation, ChatGeneration):
        places.append(generation.message.response_metadata)
    for place in places:
        for name in ("finish_reason", "stop_reason", "done_reason"):
            if isinstance(place.get(name), str) and place[name]:
                reason = place[name].lower()
                return {"finish_reason": _REASONS.get(reason, reason)}
    return {}


def _usage(generations: Sequence[Generation]) -> dict[str, int]:
    for generation in generations:
        usage = getattr(getattr(generation, "message", None), "usage_metadata", None)
        if usage:
            given, made = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
            return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
    return {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def _fresh(message: BaseMessage, answer: Mapping[str, Any], found: Mapping[str, Any]) -> BaseMessage:
    """The stored message as an answer of its own: a new id, the tool-call ids of the core, valid token counts."""
    update: dict[str, Any] = {"id": f"lc_run--{uuid.uuid4()}"}
    if isinstance(message, AIMessage):
        if message.usage_metadata is None:
            update["usage_metadata"] = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
        if found.get("cache"):
            update["response_metadata"] = {**message.response_metadata, "cache": found["cache"]}
        update |= _renamed_calls(message, answer)
    return message.model_copy(update=update)


def _renamed_calls(message: AIMessage, answer: Mapping[str, Any]) -> dict[str, Any]:
    given = [call.get("id") for call in answer.get("tool_calls") or []]
    ids = {call["id"]: new for call, new in zip(message.tool_calls, given, strict=False) if call["id"] and new}
    if all(old == new for old, new in ids.items()):
        return {}
    return {name: _renamed(getattr(message, name), ids) for name in ("tool_calls", "content", "additional_kwargs")}


def _renamed(value: Any, ids: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_renamed(item, ids) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: ids[item]
        if key in ("id", "call_id", "tool_call_id") and isinstance(item, str) and item in ids
        else _renamed(item, ids)
        for key, item in value.items()
    }
