"""Messages as plain dicts, in Anthropic or OpenAI shape: their text, their tool calls and results, their tokens.

No trimming and no storage here. A message is ``{"role": …, "content": str | list of blocks | None, …}``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from shared_core.errors import InvalidInput

Message = dict[str, Any]

IMAGE_TOKENS = 1_600
"""What an image is taken to cost: as much as one of 1 568 pixels a side with Anthropic, more than with OpenAI."""
_CHARACTERS_A_TOKEN_OF_A_FILE = 32  # a page of a PDF is some 100 000 characters of base64 and some 3 000 tokens


def copied(message: object) -> Message:
    """A deep copy of a message that JSON can carry; InvalidInput if it is no dict with a role, or holds other types."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise InvalidInput(f"message: expected a dict with 'role' and 'content', got {message!r:.200}")
    try:
        copy: Message = json.loads(json.dumps(dict(message)))
    except (TypeError, ValueError, RecursionError) as error:
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


def already_logged(log: Sequence[Message], stretch: Sequence[Message]) -> tuple[int, int]:
    """Where a stretch of the conversation, up to its present end, meets the log: (start, count).

    The first ``count`` messages of the stretch are ``log[start : start + count]``; the others are new. A stretch
    that lies whole in the log brings nothing new (its last occurrence counts); otherwise the longest beginning
    of the stretch that ends the log is known. Messages have no ids here, so equality decides.
    """
    for start in range(len(log) - len(stretch), -1, -1):
        if log[start : start + len(stretch)] == stretch:
            return start, len(stretch)
    for count in range(min(len(log), len(stretch)), 0, -1):
        if log[len(log) - count :] == stretch[:count]:
            return len(log) - count, count
    return len(log), 0


def is_said(message: Mapping[str, Any]) -> bool:
    """Whether a person or the model said it: a user or assistant message with text, not a tool's result."""
    return message.get("role") in ("user", "assistant") and bool(text_of(message).strip())


def is_system(message: Mapping[str, Any]) -> bool:
    """Whether the message instructs rather than takes part: it stays first and is never trimmed."""
    return message.get("role") in ("system", "developer")


def tool_calls(message: Mapping[str, Any]) -> list[str]:
    """The ids of the tool calls that an assistant message makes, each once, in order, in either shape.

    A call without an id goes by the tool's name, and so does its result: some providers have no ids.
    """
    if message.get("role") != "assistant":
        return []
    blocks = [_call_id(block) for block in _blocks(message) if block.get("type") == "tool_use"]
    # Some writers put a call in both places.
    return list(dict.fromkeys(blocks + [_call_id(call) for call in _listed(message)]))


def tool_results(message: Mapping[str, Any]) -> list[str]:
    """The ids of the tool calls that a message answers, in order, in either shape."""
    if message.get("role") == "tool":
        return [str(message.get("tool_call_id"))]
    if message.get("role") != "user":
        return []
    return [str(block.get("tool_use_id")) for block in _blocks(message) if block.get("type") == "tool_result"]


def starts_turn(message: Mapping[str, Any]) -> bool:
    """Whether a user speaks here: a user message with content that answers no tool call."""
    return message.get("role") == "user" and bool(message.get("content")) and not tool_results(message)


def is_empty(message: Mapping[str, Any]) -> bool:
    """Whether nothing is in it, neither content nor a call nor a result: providers refuse such a message."""
    return not (message.get("content") or tool_calls(message) or tool_results(message))


def without_thinking(message: Message) -> Message:
    """The message without its thinking blocks; the very same object if it has none."""
    kept = [block for block in _content(message) if not _is_thinking(block)]
    if len(kept) == len(_content(message)):
        return message
    return {**message, "content": kept}


def count_message(message: Mapping[str, Any], count: Callable[[str], int]) -> int:
    """The tokens of a message: one call of ``count`` with all its text, and a constant for each image or file.

    The text is everything a provider reads: what is said, thought, called (names, and arguments as JSON)
    and answered. Base64 is not text: an image costs ``IMAGE_TOKENS``, another file that or more, by its size.
    """
    texts: list[str] = []
    tokens = sum(_rendered(message.get("content"), texts))
    texts += [str(message[name]) for name in ("name", "tool_call_id", "refusal") if message.get(name)]
    listed = message.get("tool_calls")
    calls = listed if isinstance(listed, list | tuple) else [listed]  # what is no list is counted as what it is
    for call in filter(None, [*calls, message.get("function_call")]):
        texts.append(call if isinstance(call, str) else _json(call))
    return tokens + count("\n".join(texts))


def _rendered(content: Any, texts: list[str]) -> Iterator[int]:
    """Add the text of content or blocks to ``texts``; yield the tokens of what is no text."""
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, str):
            texts.append(block)
        if not isinstance(block, Mapping):
            continue
        kind = str(block.get("type"))
        if kind == "text":
            texts.append(str(block.get("text", "")))
        elif kind == "thinking":
            texts.append(str(block.get("thinking") or block.get("content") or ""))
        elif kind == "redacted_thinking":  # thinking that only the provider can read
            yield len(str(block.get("data", ""))) // 4
        elif kind == "tool_use":
            texts.append(f"{block.get('id')} {block.get('name')} {_json(block.get('input'))}")
        elif kind == "tool_result":
            texts.append(str(block.get("tool_use_id")))
            yield from _rendered(block.get("content"), texts)
        elif "image" in kind:
            yield IMAGE_TOKENS
        else:
            text = _json(block)
            if kind in _FILES and not _is_text_source(block):
                yield max(IMAGE_TOKENS, len(text) // _CHARACTERS_A_TOKEN_OF_A_FILE)
            else:  # no kind that is known here: all of it, rather too much than too little
                texts.append(text)


_FILES = frozenset({"document", "file", "input_file", "audio", "input_audio", "video"})


def _is_text_source(block: Mapping[str, Any]) -> bool:
    source = block.get("source")
    return isinstance(source, Mapping) and source.get("type") in ("text", "content")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def paired(messages: Sequence[Message]) -> list[Message]:
    """The messages with every tool call answered and every result called for; what is not is left out.

    The results of a call stand in the messages right after it. Calls at the very end that still wait for a
    result are left out with all that belongs to them, so that they come in whole, once the last result is
    there. Elsewhere a call without a result, a result without a call and a second result for one call are
    removed, and with them the thinking of that message (it is bound to its whole); a message left empty
    goes too. Others pass as they are. Calls of one id beside each other (some providers give the tool's name for
    one) have a result each. A call without an id is answered by a result under its tool's name, or by the next one
    that has no id either, or one that no call has (some frameworks make one up), unless it names another tool.
    """
    out: list[Message] = []
    at = 0
    while at < len(messages):
        calls = _call_counts(messages[at])
        end = at + 1
        while calls and end < len(messages) and tool_results(messages[end]):
            end += 1
        group = messages[at + 1 if calls else at : end]
        answers = [id for message in group for id in tool_results(message)]
        left = kept = calls & Counter(answers)
        strays = [(id, _name_of(message)) for message in group for id in tool_results(message) if id not in calls]
        for tool in (_call_counts(messages[at], _has_no_id) - kept).elements():
            found = next((stray for stray in strays if stray[1] in (tool, None)), None)
            if found is not None:
                strays.remove(found)
                kept, left = kept + Counter([tool]), left + Counter([found[0]])
        if end == len(messages) and kept != calls and not any(map(text_of, map(_of_user, group))):
            return out
        if calls:
            out += _keeping(messages[at], calls=kept, results=Counter())
        for message in group:
            out += _keeping(message, calls=Counter(), results=left) if tool_results(message) else [message]
            left = left - Counter(tool_results(message))
        at = end
    return out


def _of_user(message: Message) -> Message:
    """The message if a user's words may stand beside its results, else one without words."""
    return message if message.get("role") == "user" else {}


def _call_counts(message: Message, such: Callable[[Mapping[str, Any]], bool] = lambda _: True) -> Counter[str]:
    """How many such calls an assistant message makes under each id; one that stands in both places is one."""
    if message.get("role") != "assistant":
        return Counter()
    blocks = Counter(_call_id(block) for block in _blocks(message) if block.get("type") == "tool_use" and such(block))
    return blocks | Counter(_call_id(call) for call in _listed(message) if such(call))


def _name_of(result: Message) -> str | None:
    """The tool that a result says it comes from, if it does."""
    name = result.get("name") if result.get("role") == "tool" else None
    return str(name) if name else None


def _has_no_id(call: Mapping[str, Any]) -> bool:
    return call.get("id") in (None, "")


def _call_id(call: Mapping[str, Any]) -> str:
    if not _has_no_id(call):
        return str(call["id"])
    function = call.get("function")
    return str((function if isinstance(function, Mapping) else call).get("name"))


def _keeping(message: Message, *, calls: Counter[str], results: Counter[str]) -> list[Message]:
    """The message with at most so many tool calls and results of each id; none if nothing is left."""
    if _call_counts(message) == calls and Counter(tool_results(message)) <= results:
        return [message]
    if message.get("role") == "tool":
        return []
    left, left_beside = {"tool_use": calls.copy(), "tool_result": results.copy()}, calls.copy()
    content: list[Any] = []
    for block in _content(message):
        kind = block.get("type") if isinstance(block, Mapping) else None
        id = str(block.get("tool_use_id")) if kind == "tool_result" else _call_id(block) if kind else ""
        if _is_thinking(block) or (kind in left and not _taken(left[kind], id)):
            continue
        content.append(block)
    kept: Message = {**message}
    if isinstance(message.get("content"), list):
        kept["content"] = content
    if "tool_calls" in message:
        listed = [call for call in _listed(message) if _taken(left_beside, _call_id(call))]
        kept.pop("tool_calls")
        if listed:
            kept["tool_calls"] = listed
    return [kept] if kept.get("content") or kept.get("tool_calls") else []


def _taken(left: Counter[str], id: str) -> bool:
    """Take one of this id, if any is left."""
    if left[id] <= 0:
        return False
    left[id] -= 1
    return True


def _listed(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The calls beside the content (OpenAI shape); what is no call is none."""
    listed = message.get("tool_calls")
    return [call for call in listed if isinstance(call, Mapping)] if isinstance(listed, list | tuple) else []


def _content(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [block for block in _content(message) if isinstance(block, Mapping)]


def _is_thinking(block: object) -> bool:
    return isinstance(block, Mapping) and block.get("type") in ("thinking", "redacted_thinking")
