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

    ``match = lexical * share of the best BM25 + semantic * standard scores above the mean / SEMANTIC_SIGMAS``

    is what a memory says for itself, in about [0, lexical + semantic]. Its conversation adds to it: a
    share of the match of the memories one and two places away in its session, and a share of how well
    the session matches as a whole (the mean of its ``SESSION_BEST`` best, own neighbours counted).
    The other parts are a weight times a signal in [0, 1]; ``question`` is taken off, not added.
    Scores order memories within one call; they are not comparable between queries.
    """
    n = len(signals.lexical)
    parts: dict[str, Floats] = {
        "lexical": _weighed(weights.lexical, share_of_best(signals.lexical)),
        "semantic": _weighed(weights.semantic, standing_out(signals.semantic, n)),
    }
    if signals.session is not None and n > 1:
        match = parts["lexical"] + parts["semantic"]
        order, code = _by_session(signals.session)
        lent = np.zeros(n)
        lent[order] = _neighbours(match[order], code, weights.next_neighbour, weights.second_neighbour)
        parts["neighbours"] = lent
        whole = np.zeros(n)
        whole[order] = _weighed(weights.session, _session_best((match + lent)[order], code))
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


def standing_out(semantic: Floats | None, n: int) -> Floats:
    """How far each cosine stands out above the mean, in standard deviations / SEMANTIC_SIGMAS. Shape [n], at least 0.

    Models differ in where their cosines lie and how widely they spread; standard scores do not. A
    memory below the mean, or without a vector, gets 0. With fewer than two vectors, or when all are
    alike, nothing stands out.
    """
    out = np.zeros(n)
    if semantic is None:
        return out
    known = ~np.isnan(semantic)
    values = semantic if known.all() else semantic[known]
    if len(values) < 2:
        return out
    spread = float(values.std())
    if spread <= 1e-9:
        return out
    out[known] = np.maximum(values - values.mean(), 0.0) / (spread * SEMANTIC_SIGMAS)
    return out


def _by_session(session: Ints) -> tuple[Ints, Ints]:
    """Positions of the memories that have a session, grouped by it in conversation order, and their codes."""
    order = np.argsort(session, kind="stable")
    code = session[order]
    first = int(np.searchsorted(code, 0))
    return order[first:], code[first:]


def _neighbours(match: Floats, code: Ints, first: float, second: float) -> Floats:
    """What the memories one and two places away in the same session lend. Grouped by session, Shape [m]."""
    lent = np.zeros(len(match))
    for distance, share in ((1, first), (2, second)):
        if share and len(match) > distance:
            together = (code[distance:] == code[:-distance]) * share
            lent[distance:] += together * match[:-distance]
            lent[:-distance] += together * match[distance:]
    return lent


def _session_best(match: Floats, code: Ints) -> Floats:
    """The mean of the SESSION_BEST best of each session, for each of its memories. Grouped by session, Shape [m]."""
    if not len(match):
        return match
    starts = np.flatnonzero(np.r_[True, code[1:] != code[:-1]])
    sizes = np.diff(np.r_[starts, len(code)])
    group = np.repeat(np.arange(len(starts)), sizes)
    left = match.copy()
    best = np.zeros(len(starts))
    for _ in range(SESSION_BEST):
        top = np.maximum.reduceat(left, starts)
        best += np.where(np.isfinite(top), top, 0.0)
        holders = np.flatnonzero(left == top[group])
        first = np.r_[True, group[holders][1:] != group[holders][:-1]]
        left[holders[first]] = -np.inf
    mean: Floats = best / np.minimum(sizes, SESSION_BEST)
    return mean[group]


def _weighed(weight: float, signal: npt.NDArray[np.float64] | Bools) -> Floats:
    return np.multiply(signal, weight, dtype=np.float64)
