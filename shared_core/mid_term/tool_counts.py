"""What is counted about tool calls beside the cache: repeats, executions that are never kept, and one warning a name."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import Any, Final

from shared_core.forks import renew_in_child

_COUNTED_CALLS: Final = 10_000
_SHOWN_REPEATS: Final = 10
_NAMED_TOOLS: Final = 1_000  # a model may make names up without end
_OTHERS: Final = "…"
_log = logging.getLogger(__name__)


class ToolCounts:
    """Thread-safe, and bounded whatever names and arguments a model makes up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._repeats: dict[tuple[str, str], tuple[str, str, int]] = {}  # (tool, arguments, count), latest last
        self._bypassed: Counter[str] = Counter()
        self._warned: set[str] = set()
        self._after_close = 0
        renew_in_child(self)

    def after_fork_in_child(self) -> None:
        """A lock of our own."""
        self._lock = threading.Lock()

    def called(self, call: tuple[str, str], name: str, text: str) -> None:
        """A call, by its key and scope, with its arguments as ``text``."""
        with self._lock:
            _, _, count = self._repeats.pop(call, ("", "", 0))
            self._repeats[call] = (name, text[:200], count + 1)
            if len(self._repeats) > _COUNTED_CALLS:
                del self._repeats[next(iter(self._repeats))]

    def clear_scope(self, scope: str) -> None:
        """Forget which calls the scope made."""
        with self._lock:
            self._repeats = {call: seen for call, seen in self._repeats.items() if call[1] != scope}

    def bypassed(self, name: str) -> None:
        """An execution of a tool that is never kept."""
        with self._lock:
            known = name in self._bypassed or len(self._bypassed) < _NAMED_TOOLS
            self._bypassed[name if known else _OTHERS] += 1

    def after_close(self) -> None:
        """An execution of a tool after its memory was closed."""
        with self._lock:
            self._after_close += 1

    def made_stale(self, name: str, results: int) -> None:
        """A tool that nobody registered made results stale: its user may not know the price."""
        if self._first(name):
            _log.warning(
                "tool %r is not registered, so it may have written anything: %d cached results of its scope are stale; "
                "if it writes nothing, say memory.tools.register(%r, cacheable=False, writes=[])", name, results, name,
            )  # fmt: skip

    def unclear(self, name: str, why: str) -> None:
        """A result cannot be kept, since nobody can tell what it was read from; ``why`` is "" if that may well be."""
        if why and self._first(name):
            _log.warning(
                "tool %r: a result was not kept, it cannot be told what it was read from; reads: %s", name, why
            )

    def has_no_key(self, name: str, error: Exception) -> None:
        """A call of a cached tool cannot be told from others: it may be an argument nobody thought of."""
        if self._first(name):
            _log.warning("tool %r is executed without the cache: %s", name, error)

    def _first(self, name: str) -> bool:
        """Whether the name was not warned about yet: once is enough."""
        with self._lock:
            if name in self._warned or len(self._warned) >= _NAMED_TOOLS:
                return False
            self._warned.add(name)
            return True

    def stats(self) -> dict[str, Any]:
        """The counts since the start; see ``ToolCache.stats``."""
        with self._lock:
            most = sorted(self._repeats.items(), key=lambda seen: -seen[1][2])[:_SHOWN_REPEATS]
            bypassed, after_close = dict(self._bypassed), self._after_close
        return {
            "bypassed": sum(bypassed.values()),
            "bypassed_tools": bypassed,
            "after_close": after_close,
            "repeats": [
                {"tool": tool, "arguments": text, "scope": scope, "count": count}
                for (_, scope), (tool, text, count) in most
                if count > 1
            ],
        }
