"""The part of a conversation that goes into the prompt: where it is cut, and that it stays valid.

Pure functions of messages and token totals. The cut depends on nothing but the totals, so the same
point of a conversation has the same window in every process, after every rewind, without any state:

    room  = the limit less the system messages
    step  = STEP_SHARE * room
    cut   = the smallest multiple of step that leaves at most room       (0 while all fits)

Between two cuts the window only grows at its end, and its prefix is the same byte for byte. It starts
at a user's message, at or after the cut, never inside a turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared_core.messages import Message, is_system, paired, starts_turn, tool_results, without_thinking

STEP_SHARE = 0.5
"""How much of the room is freed at once: larger is fewer breaks of the prefix, smaller a fuller window."""


@dataclass(frozen=True, slots=True)
class Sized:
    """A message of the path with its tokens and the running total up to and with it (system messages not counted)."""

    message: Message
    tokens: int
    total: int


@dataclass(frozen=True, slots=True)
class Cut:
    """What precedes ``after`` tokens of the path is trimmed; the cut was made when the total passed ``made_at``."""

    after: int
    made_at: int


def cut_of(total: int, room: int) -> Cut:
    """Where a path of ``total`` tokens is cut to leave at most ``room``; tokens in, tokens out."""
    if total <= room:
        return Cut(0, 0)
    step = max(int(STEP_SHARE * room), 1)
    steps = -(-(total - max(room, 0)) // step)
    return Cut(steps * step, max(room, 0) + (steps - 1) * step)


def assemble(systems: Sequence[Message], tail: Sequence[Sized], cut: Cut) -> list[Message]:
    """The window: system messages first, then whole turns after the cut; the last turn whatever it takes.

    ``tail`` holds the path's messages whose total is past the cut (more does no harm). Once something
    was trimmed, thinking older than the turn in which that happened is left out whole: it was bound to
    a prefix that is gone. Without any user message there is nothing to show but the system's.
    """
    talk = [sized for sized in tail if not is_system(sized.message)]
    starts = [i for i, sized in enumerate(talk) if starts_turn(sized.message)]
    if not starts:
        return list(systems)
    first = next((i for i in starts if talk[i].total - talk[i].tokens >= cut.after), starts[-1])
    bound = first
    if cut.after:
        crossing = next((i for i, sized in enumerate(talk) if sized.total > cut.made_at), len(talk))
        bound = max((i for i in starts if i <= crossing), default=first)
    shown = [
        without_thinking(sized.message) if first + i < bound else sized.message for i, sized in enumerate(talk[first:])
    ]
    return [*systems, *paired([message for message in shown if message.get("content") or message.get("tool_calls")])]


def shortened(message: Message, most_characters: int, handle: str) -> Message:
    """The message with each tool output over ``most_characters`` cut to its head and tail, naming where the rest is."""
    if not tool_results(message):
        return message
    if message.get("role") == "tool":
        return {**message, "content": _short(message.get("content"), most_characters, handle)}
    content = [
        {**block, "content": _short(block.get("content"), most_characters, handle)}
        if isinstance(block, dict) and block.get("type") == "tool_result"
        else block
        for block in message["content"]
    ]
    return {**message, "content": content}


def _short(content: Any, most: int, handle: str) -> Any:
    if isinstance(content, str):
        if len(content) <= most:
            return content
        head, tail = 2 * most // 3, most // 3
        gone = len(content) - head - tail
        return f"{content[:head]}\n[… {gone} characters left out; the whole output is message {handle} …]\n{content[-tail:]}"
    if isinstance(content, list):
        return [
            {**block, "text": _short(block["text"], most, handle)}
            if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
            else block
            for block in content
        ]
    return content
