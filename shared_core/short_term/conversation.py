"""What is known of a conversation and of its scope between two requests. The state behind ``planner.py``; the lock is there."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from shared_core.messages import Message
from shared_core.short_term.blocks import Reader
from shared_core.short_term.choice import Entry
from shared_core.short_term.head import Head, head_of
from shared_core.short_term.rules import SETTING_LEVELS
from shared_core.short_term.survival import Odds, Role, Uses
from shared_core.short_term.tape import Tape, exact

_DIVERGENCES = 16
_MOST_CONVERSATIONS = 256
_MOST_ALIKE = 16
"""So many conversations that go by one name are told apart."""
Name = tuple[str, str, Hashable]
"""Scope, model, and session or opening."""


class Shared:
    """What the conversations of one scope and model have in common: experience, open uses, entries of heads.

    ``family``: the experience of each model of the scope, this one's among them; the others' is where it starts from.
    """

    def __init__(self, model: str, family: dict[str, Odds]) -> None:
        self.family = family
        self.odds = family[model] = Odds(siblings=family)
        self.uses = Uses()
        self.live: OrderedDict[bytes, Entry] = OrderedDict()
        self.divergences: deque[Role] = deque(maxlen=_DIVERGENCES)
        self.growth = 0.0


class Origin(NamedTuple):
    """What a new conversation has in common with one of its name: the head, so many blocks, what is alive within them."""

    head: Head
    depth: int
    live: dict[int, Entry]


class Conversation:
    """The last request of a conversation, what is alive of it at the provider, and its own experience."""

    def __init__(self, reader: Reader, odds: Odds) -> None:
        self.tape = Tape(reader)
        self.odds = Odds(odds)
        self.head: Head | None = None
        self.live: dict[int, Entry] = {}
        self.origin: Origin | None = None
        self._read: tuple[Any, Head, int] | None = None
        self._reader = reader

    def read_head(
        self,
        tools: Sequence[Mapping[str, Any]] | None,
        system: Any,
        leading: Sequence[Message],
        settings: Mapping[str, Any],
    ) -> tuple[Head, int]:
        """The head of a request, and how many of its blocks came as leading system messages; kept while nothing changes.

        Read is not sent: ``head`` stays the last request's until the messages are taken over, which may be refused.
        """
        named = {name: settings[name] for name in SETTING_LEVELS if name in settings}
        listed = system if system is None or isinstance(system, str) else list(system)
        given = [list(tools or ()), listed, list(leading), named]
        if self._read is None or self._read[0] != given:
            read = self._reader
            led = [piece for message in leading for piece in read.system("messages", message.get("content"))]
            own = read.system("system", system)
            if led and own:
                own = tuple(replace(piece, bare=False) for piece in own)
            pieces = (*own, *(replace(piece, bare=False) for piece in led))
            head = head_of(tuple(read.tools(tools or ())), pieces, settings)
            self._read = exact(given), head, len(led)
        return self._read[1:]


class Talks:
    """The conversations that are followed: of all names together the last 256, of one name the last 16.

    An agent and its sub-agents share a session, branches of a conversation too, and half the world begins with hello.
    """

    def __init__(self) -> None:
        self._table: OrderedDict[tuple[Name, int], Conversation] = OrderedDict()

    def find(
        self, name: Name, messages: list[Message], make: Callable[[], Conversation]
    ) -> tuple[Hashable, Conversation]:
        """The conversation of this name that shares most with the request (``Tape.shared_with``).

        Where none shares enough, a new one, which knows of what it shares with another. What it goes by comes with it.
        """
        best, most, free = None, 0, None
        others: list[Conversation] = []
        for number in range(_MOST_ALIKE):
            talk = self._table.get((name, number))
            if talk is None or talk.head is None:
                free = number if free is None else free
                continue
            others.append(talk)
            shared = talk.tape.shared_with(messages)
            if shared > most:
                best, most = number, shared
            if most and most >= len(messages) - 2:  # a turn adds two messages: no other one shares more
                break
        if best is not None:
            key = (name, best)
        else:
            key = (name, free) if free is not None else next(key for key in self._table if key[0] == name)
            self._table[key] = made = make()
            made.origin = _origin(others, messages)
        self._table.move_to_end(key)
        if len(self._table) > _MOST_CONVERSATIONS:
            self._table.popitem(last=False)
        return key, self._table[key]

    def forget(self, scope: str) -> int:
        """Forget the conversations of a scope; return how many there were."""
        gone = [key for key in self._table if key[0][0] == scope]
        for key in gone:
            del self._table[key]
        return len(gone)


def _origin(others: Sequence[Conversation], messages: list[Message]) -> Origin | None:
    depths = [talk.tape.common_with(messages) for talk in others]
    depth = max(depths, default=0)
    other = others[depths.index(depth)] if depth else None
    if other is None or other.head is None or other.tape.images:  # a picture anywhere loses all messages
        return None
    return Origin(other.head, depth, {d: entry for d, entry in other.live.items() if d <= depth})
