"""What is known of a conversation and of its scope between two requests. The state behind ``planner.py``; the lock is there."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared_core.messages import Message
from shared_core.short_term.blocks import Reader
from shared_core.short_term.choice import Entry
from shared_core.short_term.head import Head, head_of
from shared_core.short_term.rules import SETTING_LEVELS
from shared_core.short_term.survival import Odds, Role, Uses
from shared_core.short_term.tape import Tape, exact

_DIVERGENCES = 16


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


class Conversation:
    """The last request of a conversation, what is alive of it at the provider, and its own experience."""

    def __init__(self, reader: Reader, odds: Odds) -> None:
        self.tape = Tape(reader)
        self.odds = Odds(odds)
        self.head: Head | None = None
        self.live: dict[int, Entry] = {}
        self._raw_head: Any = None
        self._led = 0
        self._reader = reader

    def read_head(
        self,
        tools: Sequence[Mapping[str, Any]] | None,
        system: Any,
        leading: Sequence[Message],
        settings: Mapping[str, Any],
    ) -> tuple[Head, int]:
        """The head of a request, and how many of its blocks came as leading system messages; kept while nothing changes."""
        named = {name: settings[name] for name in SETTING_LEVELS if name in settings}
        listed = system if system is None or isinstance(system, str) else list(system)
        given = [list(tools or ()), listed, list(leading), named]
        if self.head is None or self._raw_head != given:
            read = self._reader
            led = [piece for message in leading for piece in read.system("messages", message.get("content"))]
            own = read.system("system", system)
            if led and own:
                own = tuple(replace(piece, bare=False) for piece in own)
            pieces = (*own, *(replace(piece, bare=False) for piece in led))
            head = head_of(tuple(read.tools(tools or ())), pieces, settings)
            self._raw_head, self._led = exact(given), len(led)
            return head, self._led
        return self.head, self._led
