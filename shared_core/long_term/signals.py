"""What a scope's arrays say about a query: the signals that ``scoring/fusion.py`` weighs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from shared_core.long_term.decaying import effective
from shared_core.long_term.index import Floats, Ints, Mask, ScopeIndex
from shared_core.long_term.query import EXPANSION_MEMORIES, Query, expansion
from shared_core.long_term.query import closeness as time_closeness
from shared_core.scoring import recency
from shared_core.scoring.fusion import Signals, match, total
from shared_core.scoring.lexical import bm25
from shared_core.settings import Settings
from shared_core.text import terms

_READ = 20_000  # characters of each of the best matches, in which what they share with others must be found
TextsOf = Callable[[Sequence[str]], Sequence[str]]
"""The texts of memories by id, in order; "" for one that cannot be read."""


def signals_of(
    index: ScopeIndex,
    positions: Ints,
    read: Query,
    cosines: Floats | None,
    *,
    texts_of: TextsOf,
    settings: Settings,
    now: float,
) -> Signals:
    """The signals of the memories at ``positions`` (sorted, Shape [n]) for a query; each array Shape [n].

    ``cosines`` has Shape [n] too, or is None without a model. Word statistics are those of these memories.
    """
    where = index.where(positions)
    signals = Signals(
        lexical=words_match(index, positions, dict(zip(read.terms, read.weights, strict=True))),
        semantic=cosines,
        session=index.ints("session")[where] if index.sessions else None,
        voice=(index.ints("speaker") * 4 + index.ints("role"))[where] if index.sessions else None,
        role=index.ints("role")[where],
        speaker=_said_by(index, positions, read),
        question=index.mask("question")[where],
        answers=index.mask("tells_time")[where] if read.asks_time else None,
        when=time_closeness(index.floats("at")[where], read.spans) if read.spans else None,
        recency=recency(now - index.floats("last_accessed")[where], settings.recall_time_scale),
        importance=effective(index, settings.decay, now)[where],
    )
    return _expanded(index, positions, read, signals, texts_of, settings)


def words_match(index: ScopeIndex, positions: Ints, weights: Mapping[str, float]) -> Floats:
    """BM25 of these terms, each counting its weight; Shape [n]."""
    among = None if len(positions) == index.n else positions
    lengths = index.floats("length")[index.where(positions)]
    return bm25(index.postings(list(weights), among), lengths, weights=list(weights.values()))


def _expanded(
    index: ScopeIndex, positions: Ints, read: Query, signals: Signals, texts_of: TextsOf, settings: Settings
) -> Signals:
    """The signals with a second look by words that the best matches share (``query.expansion``)."""
    if not settings.recall.expansion:
        return signals
    own = total(match(signals, settings.recall))
    best = _best(own, EXPANSION_MEMORIES)
    said = [terms(text[:_READ]) for text in texts_of([index.ids[positions[i]] for i in best])]
    words = expansion(read, zip((float(own[i]) for i in best), said, strict=True), df=index.df, n=len(positions))
    return replace(signals, expansion=words_match(index, positions, words)) if words else signals


def _best(own: Floats, count: int) -> list[int]:
    """Indexes of the ``count`` highest above 0, the first of equals first; some passes are cheaper than a sort."""
    left, best = own.copy(), []
    for _ in range(min(count, len(own))):
        i = int(np.argmax(left))
        if left[i] <= 0.0:
            break
        best.append(i)
        left[i] = 0.0
    return best


def _said_by(index: ScopeIndex, positions: Ints, read: Query) -> Mask | None:
    if not read.speakers:
        return None
    codes = [index.speakers[speaker] for speaker in read.speakers]
    return np.isin(index.ints("speaker")[positions], codes)
