"""Which memories of a scope a recall may see: status, filters, conversation path, supersession, time.

Masks over an index. No scores here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from shared_core.long_term.index import Mask, ScopeIndex
from shared_core.records import Memory
from shared_core.storage.base import Logs, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a recall asks to see. ``tags`` any-of; ``since <= at < until``; ``as_of`` sees ``at <= as_of``.

    ``session`` is a viewpoint, not a filter: that session is seen on its current path, every other
    one on its own. ``shown`` are the marks (``shown.py``) of what the reader has before it already. ``where`` looks at each
    memory that passed the rest; it is the recall that calls it, with the stored rows.
    """

    session: str | None = None
    tags: tuple[str, ...] | None = None
    since: float | None = None
    until: float | None = None
    as_of: float | None = None
    exclude: tuple[str, ...] = ()
    shown: frozenset[bytes] = frozenset()
    where: Callable[[Memory], bool] | None = None


def visible(index: ScopeIndex, view: View, scope: str, logs: Logs) -> Mask:
    """The memories of ``index`` that ``view`` may see, shape [n]."""
    on_path = _on_path(index, view.session, scope, logs)
    seen: Mask = index.mask("live") & index.mask("active") & on_path
    at = index.floats("at")
    if view.since is not None:
        seen &= at >= view.since
    if view.until is not None:
        seen &= at < view.until
    if view.as_of is not None:
        seen &= at <= view.as_of
    if view.tags is not None:
        seen &= _at(index.n, {position for tag in view.tags for position in index.tags.get(tag, ())})
    for id in view.exclude:
        position = index.position.get(id)
        if position is not None:
            seen[position] = False
    return _without_superseded(index, seen, on_path, view.as_of)


def _without_superseded(index: ScopeIndex, seen: Mask, on_path: Mask, as_of: float | None) -> Mask:
    """Drop memories that a later one has replaced, as far as that later one can itself be seen."""
    if not index.successors:
        return seen
    positions, successors, at = index.successions()
    rows = index.ints("row")
    found = np.minimum(np.searchsorted(rows, successors), index.n - 1)
    # One that was erased or archived cannot come back by a rewind: what it replaced stays replaced.
    there = (rows[found] == successors) & index.mask("live")[found]
    gone = ~there | on_path[found]
    if as_of is not None:
        gone &= at <= as_of
    seen[positions[gone]] = False
    return seen


def _on_path(index: ScopeIndex, session: str | None, scope: str, logs: Logs) -> Mask:
    """Which memories lie on a current path. Only sessions that were ever rewound need a look."""
    seen: Mask = np.ones(index.n, np.bool_)
    if not index.sources:
        return seen
    rewound = logs.rewound(scope)
    if not rewound:
        return seen
    paths = _Lazily(lambda name: logs.path_ids(scope, name))
    for position in {position for name in rewound for position in index.written_under.get(name, ())}:
        sources = index.sources.get(position, ())
        seen[position] = not sources or any(_reached(source, session, rewound, paths) for source in sources)
    return seen


def _reached(source: Source, session: str | None, rewound: Iterable[str], paths: _Lazily) -> bool:
    if source.session not in rewound or source.node in paths(source.session):
        return True
    return session is not None and session != source.session and source.node in paths(session)


class _Lazily:
    """A function of a name whose answers are kept for the length of one recall."""

    def __init__(self, ask: Callable[[str], frozenset[str]]) -> None:
        self._ask = ask
        self._known: dict[str, frozenset[str]] = {}

    def __call__(self, name: str) -> frozenset[str]:
        if name not in self._known:
            self._known[name] = self._ask(name)
        return self._known[name]


def _at(n: int, positions: Iterable[int]) -> Mask:
    mask: Mask = np.zeros(n, np.bool_)
    mask[list(positions)] = True
    return mask
