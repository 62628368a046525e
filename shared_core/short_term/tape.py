"""One conversation as it was planned last: canonical messages, running totals, and how far a new request repeats it.

Following a conversation that grew costs one comparison of what is known, in C, and reading of what is new.
No decisions here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import compress
from operator import ne
from typing import Any, NamedTuple

from shared_core.errors import InvalidInput
from shared_core.messages import Message
from shared_core.short_term.blocks import Content, Inner, Reader, Wish, canonical, fields_of, is_flat, read_content
from shared_core.short_term.estimates import written

_MOST_ADDED = 64
"""So many messages from the end of a request what was said last is looked for, if it does not stand where it stood."""


class Spoken(NamedTuple):
    """One message: ``wire``, what is sent of it, canonical and never handed out, and its content taken apart.

    ``plain``: its values and its blocks hold nothing but strings. ``inner``: what is in its blocks, as in ``Content``; None
    too if something beside them is nested.
    """

    wire: Message
    content: Content
    plain: bool
    inner: Inner


class Tape:
    """The messages of one conversation. Blocks are counted over all of them, from 0.

    ``wires`` are the messages as they are sent, ``tokens`` the tokens of the first b blocks; ``foreign``: the messages that
    are in OpenAI shape. Plans keep ``wires``, ``inner`` and ``tokens`` with the length they had: these lists grow in place,
    and what is cut or changed is a new list.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._raw: list[Any] = []
        self._called_by_code: set[str] = set()
        self.wires: list[Message] = []
        self.inner: list[Inner] = []
        self.ends: list[int] = []
        self.tokens: list[int] = [0]
        self.markable: list[bool] = []
        self.callers: dict[int, Wish] = {}
        self.images: list[int] = []
        self.foreign: list[int] = []

    def __len__(self) -> int:
        return len(self.markable)

    def follow(self, messages: list[Message]) -> int:
        """Take over these messages; return how many blocks from the start are the same as before."""
        n = min(len(self._raw), len(messages))
        known = self._raw if n == len(self._raw) else self._raw[:n]
        if known != (messages if n == len(messages) else messages[:n]):
            for i in compress(range(n), map(ne, known, messages)):
                fresh = read_message(messages[i], self._called_by_code)
                same = _blocks_alike(self.wires[i], fresh.wire)
                if same is not None:
                    return self._go_on(messages, i, fresh, same)
                self._put(i, messages[i], fresh)  # only a breakpoint of the caller moved
        return self._go_on(messages, n, None, 0)

    def shared_with(self, messages: list[Message]) -> int:
        """How many messages of a request may belong to the last one: all, all but the last, or half; 0 for less.

        Or those up to the last one's end, if that stands further ahead now: a window moved on, or history was compacted.
        Looked at are the last two messages, a question and its answer, and of these the first block: others may be
        recalled anew in every turn.
        """
        n, m = len(self._raw), len(messages)
        for k in (n, n - 1, (n + 1) // 2):
            if 0 < k <= m and self._ends_alike(k, messages, k):
                return k
        ahead = range(min(m, n - 1), max(m - _MOST_ADDED, 0), -1)
        return next((k for k in ahead if self._ends_alike(n, messages, k)), 0)

    def _ends_alike(self, n: int, messages: list[Message], k: int) -> bool:
        """Whether the first n messages here end as the first k there do."""
        return all(self._begins_alike(n - back, messages[k - back]) for back in range(1, min(2, n, k) + 1))

    def _begins_alike(self, i: int, message: Any) -> bool:
        if self._raw[i] == message:
            return True
        content = message.get("content") if isinstance(message, Mapping) else None
        if not content or not isinstance(content, Sequence) or message.get("role") != self.wires[i].get("role"):
            return False
        begins = content if isinstance(content, str) else content[:1]
        return read_content("messages", begins, set()).blocks == blocks_of(self.wires[i])[:1]

    def common_with(self, messages: list[Message]) -> int:
        """How many blocks of whole messages a request has in common with the last one, from the start."""
        n = min(len(self._raw), len(messages))
        same = next(compress(range(n), map(ne, self._raw, messages)), n)
        return self.ends[same - 1] if same else 0

    def place(self, block: int) -> tuple[int, int]:
        """The message a block belongs to, and its place in it."""
        message = bisect_right(self.ends, block)
        return message, block - (self.ends[message - 1] if message else 0)

    @property
    def last(self) -> Mapping[str, Any]:
        """The last block, empty if there is none."""
        for wire in reversed(self.wires):
            blocks = blocks_of(wire)
            if blocks:
                return blocks[-1]
        return {}

    def _go_on(self, messages: Sequence[Message], i: int, fresh: Spoken | None, same: int) -> int:
        """Replace message i and what follows; ``fresh`` is message i, if it was read, with so many blocks as before."""
        start = self.ends[i - 1] if i else 0
        read = [] if fresh is None else [fresh]
        read += [read_message(message, self._called_by_code) for message in messages[i + len(read) :]]
        sizes = self._reader.tokens([block for spoken in read for block in spoken.content.blocks])
        if i < len(self.wires):
            self.wires, self.inner, self.tokens = self.wires[:i], self.inner[:i], self.tokens[: start + 1]
            del self._raw[i:], self.ends[i:], self.markable[start:]
            self.callers = {block: ttl for block, ttl in self.callers.items() if block < start}
            self.images = [block for block in self.images if block < start]
            self.foreign = [message for message in self.foreign if message < i]
        first = start
        for message, spoken in zip(messages[i:], read, strict=True):
            wire, content, _, inner = spoken
            if is_openai(wire):
                self.foreign.append(len(self._raw))
            self._raw.append(_to_compare(message, spoken))
            self.wires.append(wire)
            self.inner.append(inner)
            if content.ttls:
                self.callers |= {first + place: ttl for place, ttl in content.ttls.items()}
            if content.images:
                self.images += [first + place for place in content.images]
            self.markable += content.markable
            first = len(self.markable)
            self.ends.append(first)
        total = self.tokens[-1]
        for size in sizes:
            total += size
            self.tokens.append(total)
        return start + same

    def _put(self, i: int, message: Message, fresh: Spoken) -> None:
        start = self.ends[i - 1] if i else 0
        self._raw[i] = _to_compare(message, fresh)
        self.wires = [*self.wires[:i], fresh.wire, *self.wires[i + 1 :]]
        self.inner = [*self.inner[:i], fresh.inner, *self.inner[i + 1 :]]
        for place in range(len(fresh.content.blocks)):
            self.callers.pop(start + place, None)
        for place, ttl in fresh.content.ttls.items():
            self.callers[start + place] = ttl


def read_message(message: Any, called_by_code: set[str]) -> Spoken:
    """A message taken apart; ``called_by_code`` as in ``read_content``."""
    if type(message) is not dict and not isinstance(message, Mapping):
        message = fields_of(message) or message
    known = type(message) is dict or isinstance(message, Mapping)
    if not known or not isinstance(role := message.get("role"), str):
        raise InvalidInput(f"messages: expected dicts with 'role' and 'content', got {message!r:.200}")
    given = message.get("content")
    content = read_content("messages", given, called_by_code)
    if len(message) == 2 and "content" in message:
        wire: Message = {"role": role}
        plain, inner = content.plain, content.inner
    else:
        wire = canonical({key: value for key, value in message.items() if key != "content"})
        plain = content.plain and all(type(value) is str for value in wire.values())
        inner = content.inner if is_flat(wire) else None
    if "content" in message:
        wire["content"] = content.blocks[0]["text"] if content.bare else None if given is None else content.blocks
    return Spoken(wire, content, plain, inner)


def blocks_of(wire: Message) -> list[dict[str, Any]]:
    """The content of a canonical message as blocks; a string is one."""
    content = wire.get("content")
    return [] if content is None else [{"text": content, "type": "text"}] if isinstance(content, str) else content


def _blocks_alike(old: Message, new: Message) -> int | None:
    """How many blocks of two messages are the same from the start; None if to the provider both are the same bytes."""
    if _beside(old) != _beside(new):
        return 0
    ours, theirs = [[written(block) for block in blocks_of(wire)] for wire in (old, new)]
    if ours == theirs:
        return None
    return next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))


def _beside(wire: Message) -> str:
    return written({key: value for key, value in wire.items() if key != "content"})


def is_openai(message: Mapping[str, Any]) -> bool:
    """Whether a message says things in the shape of OpenAI's chat completions: tool calls beside the content."""
    return message.get("role") in ("tool", "function") or "tool_calls" in message


class _Exactly:
    """Equal to a number of the same type and value only: to JSON, 1, 1.0 and True are three things."""

    __slots__ = ("_kind", "_value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: float) -> None:
        self._kind = type(value)
        self._value = value

    def __eq__(self, other: object) -> bool:
        if type(other) is not self._kind:
            return False
        return other == self._value and (self._kind is not float or repr(other) == repr(self._value))


def _to_compare(message: Message, spoken: Spoken) -> Any:
    """What the same message is known by next time: what is sent of it, if that is equal and holds no numbers, else a copy.

    A comparison then touches what is serialised right after it, and the conversation is kept once less.
    """
    wire = spoken.wire
    return wire if wire == message and (spoken.plain or _all_text(wire)) else exact(message)


def _all_text(value: Any) -> bool:
    kind = type(value)
    if kind is dict or kind is list:
        for item in value.values() if kind is dict else value:
            if type(item) is not str and not _all_text(item):
                return False
        return True
    return kind is str or value is None


def exact(value: Any) -> Any:
    """A deep copy to compare with: equal to what has the same JSON, whatever the order of keys."""
    kind = type(value)
    if kind is str or value is None:
        return value
    if kind is dict or isinstance(value, Mapping):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [exact(item) for item in value]
    if isinstance(value, int | float):
        return _Exactly(value)
    if hasattr(value, "model_dump") and not isinstance(value, type):  # pydantic: compared in C, field by field
        kept = value.model_copy()
        for name, field in kept.__dict__.items():
            kept.__dict__[name] = exact(field)
        object.__setattr__(kept, "__pydantic_extra__", exact(kept.__pydantic_extra__))
        return kept
    return value
