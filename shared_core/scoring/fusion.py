"""The recall score: what speaks for each memory of a scope, weighed and added up, part by part.

Pure functions of arrays. Reading the query lives in ``long_term/query.py``; storage, clocks and models elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shared_core.settings import RecallWeights

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

SEMANTIC_SIGMAS = 5.0
"""A cosine this many standard deviations above the scope's mean counts as a full match."""

SESSION_BEST = 2
"""A session matches as a whole as well as the mean of its best this many memories."""

USER, ASSISTANT, OTHER = 0, 1, 2
"""Role codes of ``Signals.role``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What is known of the n memories of one scope for one query; arrays of Shape [n] in conversation order.

    Only ``lexical`` must be there; None elsewhere means that nothing is known, and costs nothing.

    - ``lexical``: BM25, at least 0.
    - ``expansion``: BM25 of words that the best matches have in common and the query lacks, at least 0.
    - ``semantic``: cosine with the query, the best window of a long text; NaN where a memory has no vector.
    - ``session``: a code per session, -1 without one. Sessions may be interleaved.
    - ``role``: ``USER``, ``ASSISTANT`` or ``OTHER``.
    - ``speaker``: said by someone the query names.
    - ``question``: ends by asking something, so it seldom holds the answer.
    - ``answers``: holds the kind of thing that the query asks for (a time for "when").
    - ``when``: how well its time fits the time that the query names, in [0, 1].
    - ``recency``, ``importance``: in [0, 1].
    """

    lexical: Floats
    expansion: Floats | None = None
    semantic: Floats | None = None
    session: Ints | None = None
    role: Ints | None = None
    speaker: Bools | None = None
    question: Bools | None = None
    answers: Bools | None = None
    when: Floats | None = None
    recency: Floats | None = None
    importance: Floats | None = None


def fuse(signals: Signals, weights: RecallWeights) -> dict[str, Floats]:
    """The parts of every memory's score, Shape [n] each; their sum in dict order is the score. Never NaN.

    What a memory says for itself, its match, is the sum of ``lexical``, ``expansion`` and ``semantic``:
    BM25 as a share of the scope's best (expansion adds ``weights.expansion`` of its own share, and both
    are scaled down together where they pass 1), and how far its cosine stands out from the scope's. Its
    conversation adds to it: a share of the match of the memories one and two places away in its
    session, and a share of how well the session matches as a whole (the mean of its ``SESSION_BEST``
    best, what neighbours lend included).
    The other parts are a weight times a signal in [0, 1]; ``question`` is taken off, not added.
    Scores order memories within one call; they are not comparable between queries.
    """
    n = len(signals.lexical)
    parts = match(signals, weights)
    if signals.session is not None and n > 1:
        own = total(parts)
        order, code = _by_session(signals.session)
        lent = np.zeros(n)
        lent[order] = _neighbours(own[order], code, weights.next_neighbour, weights.second_neighbour)
        parts["neighbours"] = lent
        whole = np.zeros(n)
        whole[order] = _weighed(weights.session, _session_best((own + lent)[order], code))
        parts["session"] = whole
    if signals.speaker is not None:
        parts["speaker"] = _weighed(weights.speaker, signals.speaker)
    if signals.role is not None:
        user = signals.role == USER
        if user.any() and (signals.role == ASSISTANT).any():
            parts["role"] = _weighed(weights.role, user)
    if signals.question is not None:
        parts["question"] = 0.0 - _weighed(weights.question, signals.question)  # 0, not -0, where it tells
    if signals.answers is not None:
        parts["answers"] = _weighed(weights.answers, signals.answers)
    if signals.when is not None:
        parts["when"] = _weighed(weights.when, signals.when)
    if signals.recency is not None:
        parts["recency"] = _weighed(weights.recency, signals.recency)
    if signals.importance is not None:
        parts["importance"] = _weighed(weights.importance, signals.importance)
    return parts


def match(signals: Signals, weights: RecallWeights) -> dict[str, Floats]:
    """What each memory says for itself: the first parts of ``fuse``, from words and meaning alone. Shape [n] each."""
    words = share_of_best(signals.lexical)
    parts = {"lexical": _weighed(weights.lexical, words)}
    if signals.expansion is not None:
        more = _weighed(weights.expansion, share_of_best(signals.expansion))
        scale = weights.lexical / max(float((words + more).max(initial=0.0)), 1.0)
        parts = {"lexical": _weighed(scale, words), "expansion": _weighed(scale, more)}
    if signals.semantic is not None:
        parts["semantic"] = _weighed(weights.semantic, standing_out(signals.semantic))
    return parts


def total(parts: dict[str, Floats]) -> Floats:
    """The score: the parts added in dict order, as ``sum(hit.parts.values())`` adds them. Shape [n]."""
    score = np.zeros(len(next(iter(parts.values()))))
    for part in parts.values():
        score = score + part
    return score


def share_of_best(lexical: Floats) -> Floats:
    """BM25 as a share of the best one, in [0, 1]; all 0 when no word matched. Shape [n]."""
    best = float(lexical.max(initial=0.0))
    return np.divide(lexical, best, dtype=np.float64) if best > 0.0 else np.zeros(len(lexical))


def standing_out(semantic: Floats) -> Floats:
    """How far each cosine stands out above the mean, in standard deviations / SEMANTIC_SIGMAS. Shape [n], at least 0.

    Models differ in where their cosines lie and how widely they spread; standard scores do not. A
    memory below the mean, or without a vector (NaN), gets 0. When all are alike nothing stands out.
    """
    known = ~np.isnan(semantic)
    count = int(np.count_nonzero(known))
    if count < 2:
        return np.zeros(len(semantic))
    values = semantic if count == len(semantic) else np.where(known, semantic, 0.0)
    mean = float(values.sum()) / count
    spread = float(np.sqrt(np.square(values - mean, where=known, out=np.zeros(len(values))).sum() / count))
    if spread <= 1e-9:
        return np.zeros(len(semantic))
    above = np.maximum(values - mean, 0.0) / (spread * SEMANTIC_SIGMAS)
    return above if count == len(semantic) else np.where(known, above, 0.0)


def _by_session(session: Ints) -> tuple[Ints, Ints]:
    """Positions of the memories that have a session, grouped by it in conversation order, and their codes."""
    order = np.argsort(session, kind="stable")
    code = session[order]
    first = int(np.searchsorted(code, 0))
    return order[first:], code[first:]


def _neighbours(own: Floats, code: Ints, first: float, second: float) -> Floats:
    """What the memories one and two places away in the same session lend. Grouped by session, Shape [m]."""
    lent = np.zeros(len(own))
    for distance, share in ((1, first), (2, second)):
        if share and len(own) > distance:
            together = (code[distance:] == code[:-distance]) * share
            lent[distance:] += together * own[:-distance]
            lent[:-distance] += together * own[distance:]
    return lent


def _session_best(own: Floats, code: Ints) -> Floats:
    """The mean of the SESSION_BEST best of each session, for each of its memories. Grouped by session, Shape [m]."""
    if not len(own):
        return own
    starts = np.flatnonzero(np.r_[True, code[1:] != code[:-1]])
    sizes = np.diff(np.r_[starts, len(code)])
    left = own.copy()
    best = np.zeros(len(starts))
    for place in range(SESSION_BEST):
        top = np.maximum.reduceat(left, starts)
        best += np.where(np.isfinite(top), top, 0.0)
        if place + 1 < SESSION_BEST:  # take one of the best out of each session, not every one that equals it
            holders = np.flatnonzero(left == np.repeat(top, sizes))
            of = code[holders]
            left[holders[np.r_[True, of[1:] != of[:-1]]]] = -np.inf
    mean: Floats = np.repeat(best / np.minimum(sizes, SESSION_BEST), sizes)
    return mean


def _weighed(weight: float, signal: npt.NDArray[np.float64] | Bools) -> Floats:
    return np.multiply(signal, weight, dtype=np.float64)
