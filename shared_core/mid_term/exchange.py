"""What counts in a request and in a response of a model. Pure functions over plain dicts; nothing is kept here.

Both shapes are known: Anthropic Messages (``content`` blocks with ``tool_use`` and ``tool_result``) and OpenAI
Chat Completions (``choices``, ``tool_calls``, ``tool_call_id``). Nothing given is ever changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from shared_core.mid_term.keys import canonical

MARK: Final = "cache"
"""The key under which a served response says so: ``{"hit": True, "created_at": …, "input_tokens": …, …}``."""

_NOT_ASKED: Final = frozenset(
    {"id", "usage", "usage_metadata", "cost", "total_cost", "artifact", "cache_control", MARK}
)
_RESPONSE_METADATA: Final = ("output_version", "model_provider", "container")
_REFERENCES: Final = ("tool_use_id", "tool_call_id", "tool_id")
_CALL_LISTS: Final = ("tool_calls", "invalid_tool_calls")
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
_COMPLETE: Final = frozenset({"end_turn", "stop_sequence", "tool_use", "stop", "tool_calls", "function_call"})
_TRUNCATED: Final = frozenset({"max_tokens", "length", "model_context_window_exceeded"})
_REFUSED: Final = frozenset({"refusal", "content_filter"})


def _is_call(part: Mapping[str, Any]) -> bool:
    kind = part.get("type")
    return isinstance(kind, str) and (kind.endswith("tool_use") or kind == "tool_call")


# Requests


def canonical_request(request: Mapping[str, Any]) -> str:
    """One text for all requests that ask the same. InvalidInput if a part cannot be compared by value.

    Out of each message go ``id``, usage, cost, ``artifact``, our own mark, and ``response_metadata`` but for
    what a provider reads back. Tool-call ids become ordinals, in calls and in results. ``cache_control`` goes
    too: it says where a provider may store a prefix and changes no answer. Model, system, tools, tool_choice
    and every other setting stay; dict entries have no order.
    """
    asked = {key: value for key, value in request.items() if key != "cache_control"}
    for key in ("system", "tools"):
        if isinstance(asked.get(key), list):
            asked[key] = [_unmarked(part) for part in asked[key]]
    if isinstance(asked.get("messages"), list | tuple):
        ordinals = _Ordinals()
        asked["messages"] = [_asked(message, ordinals) for message in asked["messages"]]
    return canonical(asked)


class _Ordinals:
    """Tool-call ids numbered as they come. An id that comes back in a later message is another call."""

    def __init__(self) -> None:
        self._latest: dict[str, int] = {}
        self._in_message: set[str] = set()
        self._count = 0

    def next_message(self) -> None:
        self._in_message.clear()

    def call(self, id: object) -> object:
        if not isinstance(id, str):
            return id
        if id not in self._in_message:
            self._in_message.add(id)
            self._latest[id] = self._count
            self._count += 1
        return {"$call": self._latest[id]}

    def result(self, id: object) -> object:
        return {"$call": self._latest[id]} if isinstance(id, str) and id in self._latest else self.call(id)


def _asked(message: Any, ordinals: _Ordinals) -> Any:
    if not isinstance(message, Mapping):
        return message
    ordinals.next_message()
    asked = {key: value for key, value in message.items() if key not in _NOT_ASKED}
    metadata = asked.pop("response_metadata", None)
    kept = (
        {key: metadata[key] for key in _RESPONSE_METADATA if key in metadata} if isinstance(metadata, Mapping) else {}
    )
    if kept:
        asked["response_metadata"] = kept
    if isinstance(asked.get("content"), list | tuple):
        asked["content"] = [_asked_block(block, ordinals) for block in asked["content"]]
    for key in _CALL_LISTS:
        if isinstance(asked.get(key), list | tuple):
            asked[key] = [
                {**call, "id": ordinals.call(call["id"])} if isinstance(call, Mapping) and "id" in call else call
                for call in asked[key]
            ]
    return _referring(asked, ordinals)


def _asked_block(block: Any, ordinals: _Ordinals) -> Any:
    if not isinstance(block, Mapping):
        return block
    asked = dict(_unmarked(block))
    if _is_call(asked) and "id" in asked:
        asked["id"] = ordinals.call(asked["id"])
    if isinstance(asked.get("content"), list | tuple):
        asked["content"] = [_unmarked(part) for part in asked["content"]]
    if isinstance(asked.get("caller"), Mapping):
        asked["caller"] = _referring(dict(asked["caller"]), ordinals)
    return _referring(asked, ordinals)


def _referring(part: dict[str, Any], ordinals: _Ordinals) -> dict[str, Any]:
    for key in _REFERENCES:
        if key in part:
            part[key] = ordinals.result(part[key])
    return part


def _unmarked(part: Any) -> Any:
    if isinstance(part, Mapping) and "cache_control" in part:
        return {key: value for key, value in part.items() if key != "cache_control"}
    return part


# Responses


def flaw(response: Mapping[str, Any]) -> str | None:
    """Why the response must not be given again, or None: ``"error"``, ``"truncated"``, ``"refused"``,
    ``"unfinished"`` (paused, or a reason to stop that is not known), ``"empty"``, ``"invalid_tool_calls"``.
    """
    if response.get("error") or response.get("type") == "error":
        return "error"
    reasons = [response["stop_reason"]] if "stop_reason" in response else []
    choices = response.get("choices")
    if choices is not None:
        if not isinstance(choices, list) or not choices or not all(isinstance(choice, Mapping) for choice in choices):
            return "empty"
        reasons += [choice["finish_reason"] for choice in choices if "finish_reason" in choice]
    for reason in reasons:
        if reason not in _COMPLETE:
            return "truncated" if reason in _TRUNCATED else "refused" if reason in _REFUSED else "unfinished"
    return next((found for found in map(_message_flaw, messages_of(response)) if found is not None), None)


def messages_of(response: Mapping[str, Any]) -> list[Any]:
    """The message of the response, or one for each choice."""
    choices = response.get("choices")
    if isinstance(choices, list):
        return [
            choice.get("message", {"content": choice.get("text")}) for choice in choices if isinstance(choice, Mapping)
        ]
    return [response]


def _message_flaw(message: Any) -> str | None:
    if not isinstance(message, Mapping):
        return "empty"
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    if message.get("refusal") or any(block.get("type") == "refusal" for block in blocks):
        return "refused"
    calls = [*(message.get("tool_calls") or ()), *(block for block in blocks if _is_call(block))]
    if message.get("invalid_tool_calls") or not all(_well_formed(call) for call in calls):
        return "invalid_tool_calls"
    text = content if isinstance(content, str) else "".join(str(block.get("text") or "") for block in blocks)
    other = any(block.get("type") not in _THOUGHTS and block.get("type") != "text" for block in blocks)
    substance = text.strip() or calls or other or message.get("function_call") or message.get("audio")
    return None if substance else "empty"


def _well_formed(call: Any) -> bool:
    if not isinstance(call, Mapping) or not isinstance(call.get("id"), str) or not call["id"]:
        return False
    if isinstance(call.get("custom"), Mapping):  # free text for a custom tool
        return bool(call["custom"].get("name"))
    function = call.get("function", call)
    if not isinstance(function, Mapping) or not function.get("name"):
        return False
    given = next((function[key] for key in ("input", "args", "arguments") if key in function), None)
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return False
    return isinstance(given, Mapping)


def tokens(response: Mapping[str, Any]) -> tuple[int, int]:
    """(input, output) tokens the response was paid with; cached input counts as input in both shapes."""
    usage = response.get("usage")
    if not isinstance(usage, Mapping):
        return 0, 0

    def count(key: str) -> int:
        found = usage.get(key)
        return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0

    if "prompt_tokens" in usage or "completion_tokens" in usage:
        return count("prompt_tokens"), count("completion_tokens")
    apart = count("cache_creation_input_tokens") + count("cache_read_input_tokens")
    return count("input_tokens") + apart, count("output_tokens")


def served(
    response: dict[str, Any], request: Mapping[str, Any], ids: Callable[[], str], *, created_at: float
) -> dict[str, Any]:
    """The receiver's own response, changed in place: marked, with a fresh id, and with fresh ids for the tool
    calls whose ids the request already holds (a repeated id would be taken for the same message or call). An id
    that is the tool's name, as with providers that have no ids, stays: the result is told by it.
    """
    held = set(_call_ids(request))
    if isinstance(response.get("id"), str):
        response["id"] = ids()
    for message in messages_of(response):
        if isinstance(message, dict):
            names = set(_called(message))
            own = dict.fromkeys(call for call in _ids_of(message) if call in held and call not in names)
            renamed = {call: _unheld(ids, held) for call in own}
            if response is not message and isinstance(message.get("id"), str):
                message["id"] = ids()
            _rename(message, renamed)
    spent = tokens(response)
    response[MARK] = {"hit": True, "created_at": created_at, "input_tokens": spent[0], "output_tokens": spent[1]}
    return response


def unmarked(response: Mapping[str, Any]) -> dict[str, Any]:
    """The response without our mark, for keeping."""
    return {key: value for key, value in response.items() if key != MARK}


def _unheld(ids: Callable[[], str], held: set[str]) -> str:
    while (made := ids()) in held:
        pass
    held.add(made)
    return made


def _call_ids(request: Mapping[str, Any]) -> Iterator[str]:
    messages = request.get("messages")
    for message in messages if isinstance(messages, list | tuple) else ():
        if isinstance(message, Mapping):
            yield from _ids_of(message)


def _called(message: Mapping[str, Any]) -> Iterator[Any]:
    """The names of the tools that a message calls."""
    for part, key in _places(message):
        if key == "id":
            function = part.get("function")
            yield (function if isinstance(function, Mapping) else part).get("name")


def _ids_of(message: Mapping[str, Any]) -> Iterator[str]:
    for part, key in _places(message):
        if isinstance(part.get(key), str):
            yield part[key]


def _rename(message: dict[str, Any], renamed: Mapping[str, str]) -> None:
    for part, key in _places(message):
        if isinstance(part, dict) and part.get(key) in renamed:
            part[key] = renamed[part[key]]


def _places(message: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Every (part, key) of a message that holds the id of a tool call."""
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list | tuple) else []
    callers = [block["caller"] for block in blocks if isinstance(block.get("caller"), Mapping)]
    for block in blocks:
        if _is_call(block):
            yield block, "id"
    for key in _CALL_LISTS:
        for call in message.get(key) or ():
            if isinstance(call, Mapping):
                yield call, "id"
    for part in (message, *blocks, *callers):
        for key in _REFERENCES:
            if key in part:
                yield part, key
