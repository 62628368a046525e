"""What a scope's arrays say about a query: the signals that ``scoring/fusion.py`` weighs."""

from __future__ import annotations

import numpy as np

from shared_core.long_term.decaying import effective
from shared_core.long_term.index import Floats, Ints, ScopeIndex
from shared_core.long_term.query import Query, analyse, closeness
from shared_core.scoring import recency
from shared_core.scoring.fusion import Signals
from shared_core.scoring.lexical import bm25
from shared_core.settings import Settings


def signals_of(
    index: ScopeIndex, positions: Ints, query: str, cosines: Floats | None, *, settings: Settings, now: float
) -> Signals:
    """The signals of the memories at ``positions`` (sorted, Shape [n]) for a query; each array Shape [n].

    ``cosines`` has Shape [n] too, or is None without a model. Word statistics are those of these memories.
    """
    read = analyse(query, speakers=index.speakers, now=now, zone=settings.zone)
    return Signals(
        lexical=words_match(index, positions, read),
        semantic=cosines,
        session=index.ints("session")[positions] if index.sessions else None,
        role=index.ints("role")[positions],
        speaker=_said_by(index, positions, read),
        question=index.mask("question")[positions],
        answers=index.mask("tells_time")[positions] if read.asks_time else None,
        when=closeness(index.floats("at")[positions], read.spans) if read.spans else None,
        recency=recency(now - index.floats("last_accessed")[positions], settings.long_term.time_scale),
        importance=effective(index, settings.decay, now)[positions],
    )


def words_match(index: ScopeIndex, positions: Ints, read: Query) -> Floats:
    """BM25 of the query's terms, Shape [n]."""
    among = None if len(positions) == index.n else positions
    return bm25(index.postings(read.terms, among), index.floats("length")[positions])


def _said_by(index: ScopeIndex, positions: Ints, read: Query) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    if not read.speakers:
        return None
    codes = [index.speakers[speaker] for speaker in read.speakers]
    return np.isin(index.ints("speaker")[positions], codes)
