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

USUAL_SPREAD = 0.07
"""The standard deviation of cosines before any was seen: what few memories show by chance is drawn towards it."""

USUAL_COUNT = 3
"""How many memories that expectation counts for. Among hundreds it no longer tells."""

ALTERNATING = 0.5
"""A session in which at least this share of the turns follows one of somebody else is a conversation in full."""

NOTES = 0.5
"""What a session that is no conversation lends its memories, as a share of what a conversation does: one
person's notes of a day have the person in common, and seldom the matter."""

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
    - ``voice``: a code of who says it, of any kind; None takes every session for a conversation.
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
    voice: Ints | None = None
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
    session adds to it: a share of the match of the memories one and two places away, as far as the session
    is a conversation (``conversational``: turns answer each other, while what one person notes down
    stands for itself), and a share of how well the session matches as a whole (its best memory, what
    neighbours lend included; NOTES of that share where nobody answers anybody).
    The other parts are a weight times a signal in [0, 1]; ``question`` is taken off, not added.
    Scores order memories within one call; they are not comparable between queries.
    """
    n = len(signals.lexical)
    parts = match(signals, weights)
    if signals.session is not None and n > 1:
        own = total(parts)
        order, code = _by_session(signals.session)
        starts = np.flatnonzero(np.r_[True, code[1:] != code[:-1]]) if len(code) else np.zeros(0, np.int64)
        sizes = np.diff(np.r_[starts, len(code)])
        lent, whole = np.zeros(n), np.zeros(n)
        if len(code):
            talk = np.ones(len(starts)) if signals.voice is None else conversational(signals.voice[order], starts)
            gift = _neighbours(own[order], code, weights.next_neighbour, weights.second_neighbour)
            lent[order] = gift * np.repeat(talk, sizes)
            best = np.maximum.reduceat((own + lent)[order], starts)
            whole[order] = _weighed(weights.session, np.repeat(best * (NOTES + (1.0 - NOTES) * talk), sizes))
        parts["neighbours"], parts["session"] = lent, whole
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
    """The score: the parts added one after another in dict order. Shape [n].

    ``sum(hit.parts.values())`` is that too, or one rounding nearer to it (Python's own sum compensates since 3.12).
    """
    score = np.zeros(len(next(iter(parts.values()))))
    for part in parts.values():
        score = score + part
    return score


def share_of_best(lexical: Floats) -> Floats:
    """BM25 as a share of the best one, in [0, 1]; all 0 when no word matched. Shape [n]."""
    best = float(lexical.max(initial=0.0))
    return np.divide(lexical, best, dtype=np.float64) if best > 0.0 else np.zeros(len(lexical))


def standing_out(semantic: Floats) -> Floats:
    """How far each cosine stands out above the others, in standard deviations / SEMANTIC_SIGMAS. Shape [n], at least 0.

    Models differ in where their cosines lie and how widely they spread; standard scores do not. Each
    memory is compared with the mean of the others, and their squared deviations from it are joined by
    USUAL_COUNT times the square of USUAL_SPREAD: among four memories one can stand out, and chance cannot.
    A memory below the mean of the others, or without a vector (NaN), gets 0, and so does a single one.
    """
    known = ~np.isnan(semantic)
    count = int(np.count_nonzero(known))
    if count < 2:
        return np.zeros(len(semantic))
    values = semantic if count == len(semantic) else np.where(known, semantic, 0.0)
    mean = float(values.sum()) / count
    away = values - mean if count == len(semantic) else np.where(known, values - mean, 0.0)
    squares = np.square(away)
    share = count / (count - 1)
    others = np.maximum(float(squares.sum()) - share * squares, 0.0)
    spread = np.sqrt((others + USUAL_COUNT * USUAL_SPREAD**2) / (count - 1 + USUAL_COUNT))
    return np.maximum(share * away, 0.0) / (SEMANTIC_SIGMAS * spread)


def conversational(voice: Ints, starts: Ints) -> Floats:
    """How far each session is a conversation, in [0, 1]: turns that follow somebody else's, of ALTERNATING. Shape [s].

    ``voice``: who speaks, grouped by session in order, Shape [m]; ``starts``: where the s sessions begin.
    """
    changes = np.r_[False, voice[1:] != voice[:-1]]
    changes[starts] = False
    sizes = np.diff(np.r_[starts, len(voice)])
    share = np.add.reduceat(changes.astype(np.float64), starts) / np.maximum(sizes - 1, 1)
    capped: Floats = np.minimum(share / ALTERNATING, 1.0)
    return capped


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


def _weighed(weight: float, signal: npt.NDArray[np.float64] | Bools) -> Floats:
    return np.multiply(signal, weight, dtype=np.float64)
