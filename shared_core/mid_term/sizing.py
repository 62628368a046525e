"""What messages take in a prompt: each counted once, by a counter that has a name.

No cut here (``window.py``) and no rows (``storage``).
"""

from __future__ import annotations

import functools
import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from shared_core.messages import Message, count_message, is_system, starts_turn
from shared_core.mid_term.window import shortened
from shared_core.settings import Settings
from shared_core.storage.base import Size, Sizes
from shared_core.text import counted_tokens, estimate_tokens

_log = logging.getLogger(__name__)
MESSAGE_TOKENS = 4
"""What the estimate adds for a message's frame (its role, its end); a counter of the user's own counts as it likes."""


class Sizing:
    """Counts messages as a window shows them, long tool outputs shortened. ``counts``: windows, and what went wrong."""

    def __init__(self, settings: Settings) -> None:
        own = settings.count_tokens
        self.most_characters = settings.tool_output_characters
        self.name = f"{'estimate' if own is None else counter_name(own)}/{self.most_characters}"
        self.counts: Counter[str] = Counter(windows=0, over_limit=0, count_failures=0)
        self._own = own

    def sizes(self, nodes: Iterable[tuple[str, Message]]) -> Sizes:
        """The sizes of messages under their node ids, one count each."""
        return Sizes(self.name, [self.size(id, message) for id, message in nodes])

    def size(self, id: str, message: Any) -> Size:
        """The size of one message; what is no message (a row that cannot be read) has none."""
        if not isinstance(message, dict):
            return Size(0)
        shown = shortened(message, self.most_characters, id)
        return Size(self._count(shown), apart=is_system(message), begins=starts_turn(message))

    def _count(self, message: Message) -> int:
        own = self._own
        if own is not None:
            try:
                return count_message(message, lambda text: counted_tokens(own(text)))
            except Exception as error:  # noqa: BLE001 - a tokenizer of any origin must not cost a message
                self.counts["count_failures"] += 1
                _log.warning("Settings.count_tokens failed, the tokens of a message are estimated: %r", error)
        return count_message(message, estimate_tokens) + MESSAGE_TOKENS


def counter_name(count: Callable[..., Any]) -> str:
    """A name under which a counter's counts are kept: where it comes from, and a digest of its constants.

    The same in every process. Two counters that differ only in an object they hold (not in a number, a text
    or a name of it) have the same name.
    """
    parts: list[object] = []
    while isinstance(count, functools.partial):
        parts += [_plain(value) for value in (*count.args, *sorted(count.keywords.items()))]
        count = count.func
    function = getattr(count, "__func__", count)
    parts += [_plain(getattr(count, "__self__", None))]
    code = getattr(function, "__code__", None)
    if code is not None:
        parts += [*code.co_names, *map(_plain, code.co_consts), *map(_plain, function.__defaults__ or ())]
        for cell in function.__closure__ or ():
            try:
                parts.append(_plain(cell.cell_contents))
            except ValueError:  # a cell that is empty yet
                parts.append("")
    origin = function if hasattr(function, "__qualname__") else type(function)
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    return f"{getattr(origin, '__module__', None)}.{origin.__qualname__}:{digest}"


def _plain(value: Any) -> str:
    """What is the same for equal values in every process."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if isinstance(value, tuple):
        return repr([_plain(part) for part in value])
    name = getattr(value, "__qualname__", None) or getattr(value, "name", None) or getattr(value, "co_name", None)
    return f"{type(value).__qualname__}:{name if isinstance(name, str) else ''}"
