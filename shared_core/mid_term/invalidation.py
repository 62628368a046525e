"""Which cached values an event makes untrue: generations that events end. No values, no clock, no files, no lock.

Who causes events and when is ``tool_cache.py``; TTLs are compared there too. Files are in ``watch.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from shared_core.mid_term.keys import digest

Kind = Literal["tool", "call", "space", "resource"]
KINDS: Final[tuple[Kind, ...]] = ("tool", "call", "space", "resource")
_SWEEP_AT_ONCE: Final = 64
_SWEEP_LATER: Final = 8


@dataclass(frozen=True, slots=True)
class Reach:
    """What an entry hangs on: its tool, its call (name and arguments in every scope), its space, its resources."""

    tool: str
    call: str
    space: str
    scope: str
    resources: tuple[str, ...]

    def labels(self) -> Iterator[tuple[Kind, str]]:
        """Each thing an event can name to reach the entry."""
        yield "tool", self.tool
        yield "call", self.call
        yield "space", self.space
        for resource in self.resources:
            yield "resource", resource

    def counters(self) -> list[str]:
        """Names of the shared counters whose movement makes the entry untrue, in a fixed order."""
        names = []
        for kind, text in self.labels():
            names.append(counter(kind, text))
            if kind != "space":
                names.append(counter(kind, text, scope=self.scope))
            if kind == "resource":
                names.append(counter(kind, text, space=self.space))
        return names

    def tags(self) -> tuple[str, ...]:
        """Under which a stored row can be removed."""
        within = [counter("resource", resource, space=self.space) for resource in self.resources]
        return (*(counter(kind, text) for kind, text in self.labels()), *within)


def counter(kind: Kind, text: str, *, scope: str | None = None, space: str | None = None) -> str:
    """The name of a shared counter (and tag): short, whatever the texts are."""
    return "tools:" + digest(kind, text, *(("scope", scope) if scope is not None else ("space", space or "")))[:32]


At = tuple[str, str]
"""A space and a scope in it."""


@dataclass(slots=True, eq=False)
class Generation:
    """The entries that hang on one thing since its last event. The event ends it; the next entry begins another.

    Most calls and resources have one entry for ever: a set for it would be most of what an entry costs.
    """

    at: At
    keys: set[str] | tuple[str, ...] = ()
    holds: int = 0
    over: bool = False

    def add(self, key: str) -> None:
        """An entry hangs on this."""
        if isinstance(self.keys, set):
            self.keys.add(key)
        elif key not in self.keys:
            self.keys = {*self.keys, key} if self.keys else (key,)

    def discard(self, key: str) -> None:
        """The entry does no longer."""
        if isinstance(self.keys, set):
            self.keys.discard(key)
        elif key in self.keys:
            self.keys = ()

    def pop(self) -> str:
        """Any entry, which then hangs on it no longer."""
        if isinstance(self.keys, set):
            return self.keys.pop()
        (key,), self.keys = self.keys, ()
        return key


Hold = tuple[Generation, ...]
Groups = Generation | dict[At, Generation]
"""The generations of one thing in all spaces and scopes: itself if there is one, which is nearly always so."""


class Generations:
    """Who hangs on what. An event costs the same however many entries it reaches, and says how many.

    An entry holds its generations and is true while none of them is over. The count of an event is the
    number of entries still kept in the generations it ends, expired ones included. Entries that an event
    made untrue leave a few at once and a few with each later call (``sweep``); they count for that event
    alone. Not thread-safe: the cache calls it inside its lock.
    """

    def __init__(self) -> None:
        self._index: dict[Kind, dict[str, Groups]] = {kind: {} for kind in KINDS}
        self._dead: deque[Generation] = deque()

    def hold(self, reach: Reach) -> Hold:
        """Take the present generations for an execution that begins now; give them back with ``release``."""
        at = (reach.space, reach.scope)
        held = tuple(self._take(kind, text, at) for kind, text in reach.labels())
        for generation in held:
            generation.holds += 1
        return held

    def release(self, reach: Reach, held: Hold, key: str | None = None) -> bool:
        """End the hold. With a key: enter it, unless an event came meanwhile. Returns whether it is in."""
        entered = key is not None and self.true(held)
        for generation in held:
            generation.holds -= 1
            if entered and key is not None:
                generation.add(key)
        self._prune(reach)
        return entered

    def leave(self, reach: Reach, held: Hold, key: str) -> None:
        """The entry is gone from the cache."""
        for generation in held:
            generation.discard(key)
        self._prune(reach)

    @staticmethod
    def true(held: Hold) -> bool:
        """Whether no event has reached any of these generations."""
        return not any(generation.over for generation in held)

    def end(self, kind: Kind, text: str, *, scope: str | None = None, space: str | None = None) -> int:
        """The event: end the generations of this thing (in a scope, in a space, or everywhere); how many entries."""
        groups = self._index[kind].get(text)
        if groups is None:
            return 0
        if isinstance(groups, dict) and scope is not None and space is not None:
            found = groups.get((space, scope))
            chosen = [found] if found is not None else []
        else:
            chosen = [
                one
                for one in (groups.values() if isinstance(groups, dict) else (groups,))
                if (space is None or one.at[0] == space) and (scope is None or one.at[1] == scope)
            ]
        count = 0
        for generation in chosen:
            self._take_out(kind, text, generation)
            generation.over = True
            count += len(generation.keys) - self._untrue(generation)
            if generation.keys:
                self._dead.append(generation)
        return count

    def _untrue(self, generation: Generation) -> int:
        """How many of its entries an earlier event made untrue: they are still to leave."""
        found: set[str] = set()
        for dead in self._dead:
            fewer, more = sorted((generation.keys, dead.keys), key=len)
            found.update(
                fewer & more if isinstance(fewer, set) and isinstance(more, set) else (k for k in fewer if k in more)
            )
        return len(found)

    def tools(self, prefix: str) -> list[str]:
        """Names of tools with entries or executions, that start so."""
        return [text for text in self._index["tool"] if text.startswith(prefix)]

    def sweep(self, *, at_once: bool = False) -> Iterator[str]:
        """Keys of entries that events made untrue, a bounded number; the cache removes them."""
        for _ in range(_SWEEP_AT_ONCE if at_once else _SWEEP_LATER):
            while self._dead and not self._dead[0].keys:
                self._dead.popleft()
            if not self._dead:
                return
            yield self._dead[0].pop()

    def _take(self, kind: Kind, text: str, at: At) -> Generation:
        found = self._find(kind, text, at)
        if found is None:
            found = Generation(at)
            groups = self._index[kind].get(text)
            if groups is None:
                self._index[kind][text] = found
            elif isinstance(groups, dict):
                groups[at] = found
            else:
                self._index[kind][text] = {groups.at: groups, at: found}
        return found

    def _find(self, kind: Kind, text: str, at: At) -> Generation | None:
        groups = self._index[kind].get(text)
        if isinstance(groups, dict):
            return groups.get(at)
        return groups if groups is not None and groups.at == at else None

    def _take_out(self, kind: Kind, text: str, generation: Generation) -> None:
        groups = self._index[kind][text]
        if isinstance(groups, dict):
            del groups[generation.at]
        if groups is generation or not groups:
            del self._index[kind][text]

    def _prune(self, reach: Reach) -> None:
        at = (reach.space, reach.scope)
        for kind, text in reach.labels():
            generation = self._find(kind, text, at)
            if generation is not None and not generation.keys and not generation.holds:
                self._take_out(kind, text, generation)
