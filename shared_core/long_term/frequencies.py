"""How often a scope used each word so far: what the salience of a text is measured against. No formula here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from shared_core.long_term.draft import Draft
from shared_core.long_term.index import ScopeIndex
from shared_core.scoring.salience import ScopeStatistics, salience


class Frequencies(Mapping[str, int]):
    """Document frequencies of a scope while a batch is written: each text counts for the ones after it."""

    def __init__(self, current: Callable[[str], AbstractContextManager[ScopeIndex]]) -> None:
        self._current = current
        self._scope: str | None = None
        self._index: ScopeIndex | None = None
        self._written: Counter[str] = Counter()
        self._count = 0

    def importance(self, draft: Draft, words: Sequence[str]) -> float:
        """The writer's own rating, else the salience of the text against what the scope said so far."""
        if draft.scope != self._scope:
            with self._current(draft.scope) as index:
                self._scope, self._index, self._written, self._count = draft.scope, index, Counter(), index.n
        value = draft.importance
        if value is None:
            value = salience(draft.text, words, role=draft.role, statistics=ScopeStatistics(self._count, self))
        self._written.update(set(words))
        self._count += 1
        return value

    def __getitem__(self, term: str) -> int:
        known = self._index.df(term) if self._index is not None else 0
        return known + self._written[term]

    def __iter__(self) -> Iterator[str]:
        return iter(self._written)

    def __len__(self) -> int:
        return len(self._written)
