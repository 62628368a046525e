"""How often a scope used each word so far: what the salience of a text is measured against. No formula here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from shared_core.long_term.draft import Draft
from shared_core.long_term.index import ScopeIndex
from shared_core.scoring.salience import ScopeStatistics, salience


class Frequencies(Mapping[str, int]):
    """Document frequencies of one scope while a batch is written: each text counts for the ones after it."""

    def __init__(self, index: ScopeIndex) -> None:
        self._index = index
        self._written: Counter[str] = Counter()
        self._count = index.n

    def importance(self, draft: Draft, words: Sequence[str]) -> float:
        """The writer's own rating, else the salience of the text against what the scope said so far."""
        value = draft.importance
        if value is None:
            value = salience(draft.text, words, role=draft.role, statistics=ScopeStatistics(self._count, self))
        self._written.update(set(words))
        self._count += 1
        return value

    def __getitem__(self, term: str) -> int:
        return self._index.df(term) + self._written[term]

    def __iter__(self) -> Iterator[str]:
        return iter(self._written)

    def __len__(self) -> int:
        return len(self._written)
