"""The window of a conversation that somebody else keeps: the rule of ``window.py`` on messages that are handed in.

No log and no rows: each call gets the whole conversation. What a message takes is counted once and kept by its digest.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence

from shared_core.messages import Message
from shared_core.mid_term.sizing import Sizing
from shared_core.mid_term.window import assemble
from shared_core.storage.base import Size, SizedNode, Tail

_log = logging.getLogger(__name__)
_MOST_SIZES = 65_536
_PLACE = "\x1fplace"
"""The key under which a message carries its place through the window; it says nothing to anyone and is taken out."""


class Fitting:
    """Fits conversations into a number of tokens. Two threads may ask at once: the worst is to count twice."""

    def __init__(self, sizing: Sizing) -> None:
        self._sizing = sizing
        self._sizes: dict[bytes, Size] = {}

    def window(self, messages: Sequence[Message], max_tokens: int) -> list[tuple[int, Message]]:
        """What to show of the messages: the place of each among those given, and the message, shortened if it has to be.

        The rule is ``Context.window``'s; the handle of a shortened tool output is the message's own ``"id"``, or its
        place. A conversation of which it would show nothing (no user speaks in it) is shown whole, as it came.
        Messages are plain dicts, in either shape, that JSON can carry; they are not changed.
        """
        tail = self._tail(messages)
        window = assemble(tail, max_tokens, most_characters=self._sizing.most_characters)
        self._sizing.counts["windows"] += 1
        if len(window.messages) == len(tail.systems) < len(tail.nodes):
            return list(enumerate(messages))  # a request without a message is refused
        if window.tokens > max_tokens:
            self._sizing.counts["over_limit"] += 1
            _log.warning(
                "the system messages and the last turn take about %d tokens, more than the limit of %d",
                window.tokens, max_tokens,
            )  # fmt: skip
        return [
            (message[_PLACE], {key: value for key, value in message.items() if key != _PLACE})
            for message in window.messages
        ]

    def _tail(self, messages: Sequence[Message]) -> Tail:
        total = apart = 0
        nodes = []
        for place, message in enumerate(messages):
            handle = str(message.get("id") or place)
            size = self._size(handle, message)
            total, apart = (total, apart + size.tokens) if size.apart else (total + size.tokens, apart)
            nodes.append(SizedNode(handle, {**message, _PLACE: place}, size.tokens, total, size.apart))
        return Tail(total, apart, tuple(node for node in nodes if node.apart), tuple(nodes))

    def _size(self, handle: str, message: Message) -> Size:
        digest = hashlib.sha256(json.dumps(message, sort_keys=True).encode()).digest()
        known = self._sizes.get(digest)
        if known is None:
            known = self._sizing.size(handle, message)
            if len(self._sizes) >= _MOST_SIZES:
                self._sizes.clear()
            self._sizes[digest] = known
        return known
