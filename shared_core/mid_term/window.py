"""The part of a conversation that goes into the prompt: where it begins, and that it stays valid.

Pure functions of messages and token totals. Where it begins depends on nothing but the totals, so the same
point of a conversation has the same window in every process and after every rewind, without any state:

    room = the limit less the system messages;  step = STEP_SHARE * room
    a turn that begins after b tokens stays while the total is at most   room + step * floor(b / step)

All turns that begin within one step so leave at the same moment; in between the window only grows at its end,
and its prefix is the same byte for byte. A turn that is still going on at that moment stays as long as it fits
(while the total is at most b + room), and the last turn always stays, whole. System messages stand first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from shared_core import text
from shared_core.messages import Message, is_empty, paired, starts_turn, tool_calls, tool_results, without_thinking
from shared_core.storage.base import SizedNode, Tail

STEP_SHARE = 0.5
"""How much of the room is freed at once: larger is fewer breaks of the prefix, smaller a fuller window.

On 100 equal turns that need 2.9 rooms: a third reuses 90.5 % of the tokens at a mean fill of 71 %, a half
92.7 % at 65 %, two thirds 93.6 % at 59 %.
"""
OUTPUT_SHARE = 0.5
"""A tool's output takes at most this share of the limit, about."""
FEWEST_CHARACTERS = 200
"""What is left of a tool's output however small the limit: less would say nothing."""


@dataclass(frozen=True, slots=True)
class Window:
    """The messages to show, and about how many tokens they take."""

    messages: list[Message]
    tokens: int


def assemble(tail: Tail, limit: int, *, most_characters: int) -> Window:
    """The window of a path under ``limit`` tokens: system messages, then whole turns from where it begins.

    ``tail.nodes`` reach back at least to the last turn that has left (more does no harm). Once turns left, the
    thinking of messages made before that is left out whole: it was bound to a prefix that is gone. The same
    holds for what was thought before the newest system message came. Empty messages are left out, but not the
    user's last one while it waits for an answer. Without a user's message there is nothing to show but the
    system's.
    """
    systems: list[Message] = [node.body for node in tail.systems if isinstance(node.body, dict)]
    talk = [node for node in tail.nodes if not node.apart and isinstance(node.body, dict)]  # no message is no talk
    starts = [i for i, node in enumerate(talk) if starts_turn(node.body)]
    if not starts:
        return Window(systems, tail.apart)
    begins = [talk[i].total - talk[i].tokens for i in starts]
    turn, left_at = first_turn(begins, tail.total, limit - tail.apart)
    rewritten = max((node.total for node in tail.systems), default=0)  # the total when the newest system message came
    asked = next((node for node in reversed(talk) if not _is_step(node.body)), None)
    shown: list[Message] = []
    tokens = tail.apart
    for node in talk[starts[turn] :]:
        message, size = _within_share(node, int(OUTPUT_SHARE * limit), most_characters)
        before = node.total - node.tokens
        if node.total <= rewritten or (left_at is not None and before <= left_at):
            message = without_thinking(message)
        if not is_empty(message) or (node is asked and message.get("role") == "user"):
            shown.append(message)
        tokens += size
    return Window([*systems, *paired(shown)], tokens)


def first_turn(begins: Sequence[int], total: int, room: int) -> tuple[int, int | None]:
    """Which turn a window begins with, and the total at which the turn before it left (None if none did).

    ``begins``: the tokens before each turn, ascending; ``total``: those of the path. The turn that ``begins``
    starts with must have left unless it is the path's first. The last turn never leaves.
    """
    step = max(int(STEP_SHARE * room), 1)
    left_at = None
    for i, (begin, following) in enumerate(pairwise(begins)):
        stays = room + step * (begin // step)
        if following > stays:  # the turn was still going on
            stays = max(room + begin, following)
        if total <= stays:
            return i, left_at
        left_at = stays
    return len(begins) - 1, left_at


def shortened(message: Message, most_characters: int, handle: str) -> Message:
    """The message with each tool output over ``most_characters`` cut to its head and tail, naming where the rest is."""
    if message.get("role") == "tool":
        return {**message, "content": _short(message.get("content"), most_characters, handle)}
    if not tool_results(message):
        return message
    content = [
        {**block, "content": _short(block.get("content"), most_characters, handle)}
        if isinstance(block, dict) and block.get("type") == "tool_result"
        else block
        for block in message["content"]
    ]
    return {**message, "content": content}


def _is_step(message: Message) -> bool:
    """Whether it is a call of tools or a result: a turn with nothing else after its question still goes on."""
    return bool(tool_calls(message) or tool_results(message))


def _within_share(node: SizedNode, most_tokens: int, most_characters: int) -> tuple[Message, int]:
    """The node's message with its tool outputs shortened, and its tokens: no more than its share, about."""
    if not tool_results(node.body):
        return node.body, node.tokens
    if node.tokens <= most_tokens:
        return shortened(node.body, most_characters, node.id), node.tokens
    # What one token of this message takes in characters, whatever its language, it takes in the part that is left.
    characters = max(min(most_characters, len(part)) for part in _outputs(node.body))
    fewer = max(characters * most_tokens // node.tokens, FEWEST_CHARACTERS)
    return shortened(node.body, fewer, node.id), min(node.tokens, node.tokens * fewer // max(characters, 1))


def _outputs(message: Message) -> list[str]:
    """The texts of the message's tool outputs; [""] if there are none."""
    parts = [message] if message.get("role") == "tool" else message["content"]
    contents = [part.get("content") for part in parts if isinstance(part, dict)]
    return ["", *(part for content in contents for part in _texts(content))]


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list) else []
    return [block["text"] for block in blocks if _is_text(block)]


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)


def _short(content: Any, most: int, handle: str) -> Any:
    """A tool's output of at most ``most`` characters and a note; several texts share them by their lengths."""
    if isinstance(content, str):
        return text.shortened(content, most, where=f"; the whole output is message {handle}")
    length = sum(map(len, _texts(content)))
    if length <= most:
        return content
    return [
        {**block, "text": _short(block["text"], most * len(block["text"]) // length, handle)}
        if _is_text(block)
        else block
        for block in content
    ]
