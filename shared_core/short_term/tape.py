"""One conversation as it was planned last: canonical messages, running totals, and how far a new request repeats it.

Following a conversation that grew costs one comparison of what is known, in C, and reading of what is new.
No decisions here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared_core.errors import InvalidInput
from shared_core.messages import Message
from shared_core.short_term.blocks import Piece, Reader, canonical
from shared_core.short_term.rules import Ttl


@dataclass(frozen=True, slots=True)
class Spoken:
    """One message: its pieces, and its other keys (the role and whatever the API may add), canonical.

    ``given``: it had content, if only an empty list. ``wire`` is the message made of these, never handed out.
    """

    extra: dict[str, Any]
    pieces: tuple[Piece, ...]
    given: bool = True
    wire: Message = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "wire", self.with_content([piece.content for piece in self.pieces]))

    def with_content(self, blocks: list[Any], *, as_list: bool = False) -> Message:
        """The message with these blocks for content; one that came as a plain string goes as one, unless ``as_list``."""
        message = dict(self.extra)
        if self.given:
            bare = len(blocks) == 1 and self.pieces[0].bare and not as_list
            message["content"] = blocks[0]["text"] if bare else blocks
        return message

    def same_as(self, other: Spoken) -> bool:
        """Whether both are the same bytes to the provider; breakpoints do not matter."""
        return (
            len(self.pieces) == len(other.pieces)
            and all(a.digest == b.digest for a, b in zip(self.pieces, other.pieces, strict=True))
            and self.extra == other.extra
        )


class Tape:
    """The messages of one conversation. Blocks are counted over all of them, from 0.

    ``foreign``: the messages that are in OpenAI shape. Plans keep ``spoken`` and ``wires`` with the length they had:
    these lists grow in place, and what is cut or changed is a new list.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._raw: list[Any] = []
        self._called_by_code: set[str] = set()
        self.spoken: list[Spoken] = []
        self.wires: list[Message] = []
        self.ends: list[int] = []
        self.tokens: list[int] = [0]
        self.markable: list[bool] = []
        self.callers: dict[int, Ttl] = {}
        self.images: list[int] = []
        self.foreign: list[int] = []

    def __len__(self) -> int:
        return len(self.markable)

    def follow(self, messages: list[Message]) -> int:
        """Take over these messages; return how many blocks from the start are the same as before."""
        i = n = min(len(self._raw), len(messages))
        known = self._raw if n == len(self._raw) else self._raw[:n]
        if known != (messages if n == len(messages) else messages[:n]):
            for i in range(n):
                if self._raw[i] == messages[i]:
                    continue
                fresh = self._read(messages[i])
                if not fresh.same_as(self.spoken[i]):
                    return self._go_on(messages, i, fresh)
                self._put(i, messages[i], fresh)  # only a breakpoint of the caller moved
            i = n
        return self._go_on(messages, i, None)

    def place(self, block: int) -> tuple[int, int]:
        """The message a block belongs to, and its place in it."""
        message = bisect_right(self.ends, block)
        return message, block - (self.ends[message - 1] if message else 0)

    def piece(self, block: int) -> Piece:
        """The block itself."""
        message, place = self.place(block)
        return self.spoken[message].pieces[place]

    def _go_on(self, messages: Sequence[Message], i: int, fresh: Spoken | None) -> int:
        """Replace what follows message i; ``fresh`` is message i, already read, if it differs from the known one."""
        start = self.ends[i - 1] if i else 0
        same = start
        if fresh is not None and fresh.extra == self.spoken[i].extra:
            for new, old in zip(fresh.pieces, self.spoken[i].pieces, strict=False):
                if new.digest != old.digest:
                    break
                same += 1
        if i < len(self.spoken):
            self.spoken, self.wires = self.spoken[:i], self.wires[:i]
            del self._raw[i:], self.ends[i:], self.tokens[start + 1 :], self.markable[start:]
            self.callers = {block: ttl for block, ttl in self.callers.items() if block < start}
            self.images = [block for block in self.images if block < start]
            self.foreign = [message for message in self.foreign if message < i]
        for message in messages[i:]:
            spoken = fresh if fresh is not None else self._read(message)
            fresh = None
            if is_openai(message):
                self.foreign.append(len(self.spoken))
            self._raw.append(_to_compare(message, spoken.wire))
            self.spoken.append(spoken)
            self.wires.append(spoken.wire)
            for piece in spoken.pieces:
                if piece.ttl is not None:
                    self.callers[len(self.markable)] = piece.ttl
                if piece.image:
                    self.images.append(len(self.markable))
                self.markable.append(piece.markable)
                self.tokens.append(self.tokens[-1] + piece.tokens)
            self.ends.append(len(self.markable))
        return same

    def _put(self, i: int, message: Message, fresh: Spoken) -> None:
        start = self.ends[i - 1] if i else 0
        self._raw[i] = _to_compare(message, fresh.wire)
        self.spoken = [*self.spoken[:i], fresh, *self.spoken[i + 1 :]]
        self.wires = [*self.wires[:i], fresh.wire, *self.wires[i + 1 :]]
        for place, piece in enumerate(fresh.pieces):
            self.callers.pop(start + place, None)
            if piece.ttl is not None:
                self.callers[start + place] = piece.ttl

    def _read(self, message: Any) -> Spoken:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise InvalidInput(f"messages: expected dicts with 'role' and 'content', got {message!r:.200}")
        extra = canonical({key: value for key, value in message.items() if key != "content"})
        pieces = self._reader.content("messages", message.get("content"), called_by_code=self._called_by_code)
        return Spoken(extra, pieces, message.get("content") is not None)


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


def _to_compare(message: Message, wire: Message) -> Any:
    """What the same message is known by next time: what is sent of it, if that is equal and holds no numbers, else a copy.

    A comparison then touches what is serialised right after it, and the conversation is kept once less.
    """
    return wire if wire == message and _all_text(wire) else exact(message)


def _all_text(value: Any) -> bool:
    kind = type(value)
    if kind is str or value is None:
        return True
    if kind is dict:
        return all(type(item) is str or _all_text(item) for item in value.values())
    return kind is list and all(map(_all_text, value))


def exact(value: Any) -> Any:
    """A deep copy to compare with: equal to what has the same JSON, whatever the order of keys."""
    kind = type(value)
    if kind is str or value is None:
        return value
    if kind is dict or isinstance(value, Mapping):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [exact(item) for item in value]
    return _Exactly(value) if isinstance(value, int | float) else value
