"""The recall score: every part worked by hand, and what holds for every input."""

from __future__ import annotations

import functools
import operator
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from shared_core.scoring.fusion import (
    ASSISTANT,
    OTHER,
    USER,
    Signals,
    conversational,
    fuse,
    match,
    share_of_best,
    standing_out,
    total,
)
from shared_core.settings import RecallWeights

NOTHING = RecallWeights(**{spec.name: 0.0 for spec in fields(RecallWeights)})
WEIGHTS = replace(NOTHING, lexical=1.0, semantic=1.0, next_neighbour=0.3, second_neighbour=0.1, session=0.5)


def signals(lexical: list[float], **others: object) -> Signals:
    return Signals(lexical=np.array(lexical, dtype=np.float64), **others)  # type: ignore[arg-type]


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_words_count_as_a_share_of_the_best_match() -> None:
    assert share_of_best(floats(0, 3, 6)).tolist() == [0.0, 0.5, 1.0]


def test_no_word_matched_is_zero_everywhere() -> None:
    assert share_of_best(floats(0, 0)).tolist() == [0.0, 0.0]


def test_meaning_counts_as_standard_deviations_above_the_others_over_five() -> None:
    """Cosines 0.1, 0.1, 0.1, 0.5: three memories around the last, all at 0.1 and so without deviation of their own.

    The usual spread counts for three more: sqrt(3 * 0.07 ** 2 / 6) = 0.0495. 0.4 above in fives of that is 1.616.
    """
    assert standing_out(floats(0.1, 0.1, 0.1, 0.5)) == pytest.approx([0, 0, 0, 0.4 / (5 * 0.07 / 2**0.5)])


def test_among_few_memories_what_differs_by_chance_hardly_stands_out() -> None:
    assert standing_out(floats(0.10, 0.12, 0.11, 0.13)).max() < 0.1


def test_among_thousands_it_is_the_plain_standard_score() -> None:
    cosines = np.random.default_rng(0).normal(0.1, 0.1, 5_000)
    plain = np.maximum(cosines - cosines.mean(), 0.0) / (5 * cosines.std())
    assert standing_out(cosines) == pytest.approx(plain, rel=0.005)


def test_a_memory_without_a_vector_neither_gains_nor_moves_the_others() -> None:
    with_gap = standing_out(floats(0.1, np.nan, 0.1, 0.1, 0.5))
    assert with_gap[1] == 0.0
    assert np.delete(with_gap, 1) == pytest.approx(standing_out(floats(0.1, 0.1, 0.1, 0.5)))


@pytest.mark.parametrize(
    "cosines", [floats(), floats(0.7), floats(0.4, 0.4), floats(np.nan, np.nan), floats(np.nan, 0.9)]
)
def test_where_nothing_can_stand_out_meaning_adds_nothing(cosines: np.ndarray) -> None:
    assert standing_out(cosines).tolist() == [0.0] * len(cosines)


def test_neighbours_in_the_session_lend_a_share_of_their_match() -> None:
    """Only the third of five memories matches: the ones beside it get 0.3 of 1, the ones beyond 0.1."""
    parts = fuse(signals([0, 0, 4, 0, 0], session=np.zeros(5, np.int64)), WEIGHTS)
    assert parts["neighbours"] == pytest.approx([0.1, 0.3, 0.0, 0.3, 0.1])


def test_a_neighbour_of_another_session_lends_nothing() -> None:
    parts = fuse(signals([0, 4, 0], session=np.array([0, 0, 1])), WEIGHTS)
    assert parts["neighbours"] == pytest.approx([0.3, 0.0, 0.0])


def test_sessions_that_were_written_at_the_same_time_keep_their_own_neighbours() -> None:
    """Sessions 0 and 1 take turns: the neighbour of the first memory is the third."""
    parts = fuse(signals([4, 0, 0, 0], session=np.array([0, 1, 0, 1])), WEIGHTS)
    assert parts["neighbours"] == pytest.approx([0.0, 0.0, 0.3, 0.0])


def test_memories_without_a_session_are_nobodys_neighbours() -> None:
    parts = fuse(signals([4, 0, 0], session=np.array([-1, -1, -1])), WEIGHTS)
    assert parts["neighbours"].tolist() == [0.0, 0.0, 0.0]
    assert parts["session"].tolist() == [0.0, 0.0, 0.0]


def test_what_one_person_notes_down_lends_nothing_to_the_next_note_and_half_to_the_session() -> None:
    """Session 0 is one voice, session 1 takes turns; each holds one match with a memory after it."""
    told = signals([4, 0, 4, 0], session=np.array([0, 0, 1, 1]), voice=np.array([7, 7, 7, 8]))
    parts = fuse(told, WEIGHTS)
    assert parts["neighbours"] == pytest.approx([0.0, 0.0, 0.0, 0.3])
    assert parts["session"] == pytest.approx([0.25, 0.25, 0.5, 0.5])


def test_a_session_is_a_conversation_as_far_as_turns_follow_those_of_others() -> None:
    """Pairs that change voice: 2 of 2, 1 of 4 (half of ALTERNATING), none of 1, and a session of one memory."""
    voice = np.array([1, 2, 1, 5, 5, 5, 6, 6, 3, 3, 9])
    assert conversational(voice, np.array([0, 3, 8, 10])) == pytest.approx([1.0, 0.5, 0.0, 0.0])


def test_a_session_lifts_all_its_memories_by_half_its_best() -> None:
    """Session 0 holds 1.0 and 0.5 far apart, session 1 nothing: its best is 1, what neighbours lend included."""
    parts = fuse(signals([4, 0, 0, 0, 2, 0], session=np.array([0, 0, 0, 0, 0, 1])), WEIGHTS)
    assert parts["session"] == pytest.approx([0.5] * 5 + [0.0])


def test_a_session_of_one_memory_matches_as_well_as_that_memory() -> None:
    parts = fuse(signals([4, 2], session=np.array([0, 1])), WEIGHTS)
    assert parts["session"] == pytest.approx([0.5, 0.25])


def test_expansion_never_lifts_words_past_a_full_match() -> None:
    """Shares 1 and 0.5 plus 0.5 and 0: the sum 1.5 is scaled to 1, so 2/3 and 1/3, then 1/3 and 0."""
    weights = replace(NOTHING, lexical=1.0, expansion=0.5)
    parts = match(signals([4, 2], expansion=floats(3, 0)), weights)
    assert parts["lexical"] == pytest.approx([2 / 3, 1 / 3])
    assert parts["expansion"] == pytest.approx([1 / 3, 0.0])


def test_expansion_finds_a_memory_that_shares_no_word_with_the_query() -> None:
    weights = replace(NOTHING, lexical=1.0, expansion=0.2)
    score = total(fuse(signals([4, 0, 0], expansion=floats(0, 3, 0)), weights))
    assert score == pytest.approx([1.0, 0.2, 0.0])


def test_what_holds_in_full_adds_its_weight() -> None:
    weights = replace(NOTHING, speaker=0.6, answers=0.35, when=0.8, recency=0.02, importance=0.25)
    yes_no = np.array([True, False])
    parts = fuse(
        signals(
            [0, 0], speaker=yes_no, answers=yes_no, when=floats(0.5, 0), recency=floats(1, 0), importance=floats(0.2, 1)
        ),
        weights,
    )
    assert {name: values.tolist() for name, values in parts.items() if name not in ("lexical", "semantic")} == {
        "speaker": [0.6, 0.0],
        "answers": [0.35, 0.0],
        "when": [0.4, 0.0],
        "recency": [0.02, 0.0],
        "importance": [0.05, 0.25],
    }


def test_a_question_is_marked_down_and_a_statement_is_exactly_zero() -> None:
    parts = fuse(signals([0, 0], question=np.array([True, False])), replace(NOTHING, question=0.12))
    assert parts["question"].tolist() == [-0.12, 0.0]
    assert not np.signbit(parts["question"][1])


def test_the_users_words_come_first_only_where_an_assistant_speaks_too() -> None:
    weights = replace(NOTHING, role=0.6)
    mixed = fuse(signals([0, 0, 0], role=np.array([USER, ASSISTANT, OTHER])), weights)
    assert mixed["role"].tolist() == [0.6, 0.0, 0.0]
    for alone in ([USER, USER], [ASSISTANT, ASSISTANT], [USER, OTHER]):
        assert "role" not in fuse(signals([0, 0], role=np.array(alone)), weights)


def test_one_memory_and_no_memory_have_a_score() -> None:
    one = signals([2.0], semantic=floats(0.3), session=np.array([0]))
    assert total(fuse(one, RecallWeights())).tolist() == [1.0]
    none = signals([], semantic=floats(), session=np.zeros(0, np.int64))
    assert total(fuse(none, RecallWeights())).shape == (0,)


def test_nothing_known_scores_zero() -> None:
    blank = signals([0, 0, 0], semantic=floats(0, 0, 0), session=np.array([0, 0, 1]), importance=floats(0, 0, 0))
    assert total(fuse(blank, RecallWeights())).tolist() == [0.0, 0.0, 0.0]


unit = st.floats(0, 1)


@st.composite
def any_signals(draw: st.DrawFn) -> Signals:
    n = draw(st.integers(1, 12))

    def of(kind: type, values: st.SearchStrategy[object]) -> object:
        return draw(st.none() | arrays(kind, n, elements=values))

    return Signals(
        lexical=draw(arrays(np.float64, n, elements=st.floats(0, 100))),
        expansion=of(np.float64, st.floats(0, 100)),
        semantic=of(np.float64, st.floats(-1, 1) | st.just(np.nan)),
        session=of(np.int64, st.integers(-1, 3)),
        voice=of(np.int64, st.integers(0, 2)),
        role=of(np.int64, st.integers(0, 2)),
        speaker=of(np.bool_, st.booleans()),
        question=of(np.bool_, st.booleans()),
        answers=of(np.bool_, st.booleans()),
        when=of(np.float64, unit),
        recency=of(np.float64, unit),
        importance=of(np.float64, unit),
    )  # type: ignore[arg-type]


@given(any_signals())
def test_every_part_is_finite_and_the_score_is_their_sum_in_dict_order(one: Signals) -> None:
    parts = fuse(one, RecallWeights())
    assert all(np.isfinite(values).all() and values.shape == one.lexical.shape for values in parts.values())
    for i, score in enumerate(total(parts)):
        assert score == functools.reduce(operator.add, (float(values[i]) for values in parts.values()))


@given(any_signals())
def test_parts_stay_in_their_bounds(one: Signals) -> None:
    weights = RecallWeights()
    for name, values in fuse(one, weights).items():
        if name == "question":
            assert ((values == 0) | (values == -weights.question)).all()
            continue
        assert (values >= 0).all()
        if name not in ("neighbours", "session", "semantic", "expansion"):
            assert (values <= getattr(weights, name) + 1e-12).all()


@given(any_signals())
def test_what_is_asked_for_does_not_change_what_was_handed_in(one: Signals) -> None:
    before = {spec.name: None if (value := getattr(one, spec.name)) is None else value.copy() for spec in fields(one)}
    fuse(one, RecallWeights())
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(one, name), value)


@given(any_signals(), st.randoms(use_true_random=False))
def test_without_sessions_the_order_of_the_memories_does_not_matter(one: Signals, shuffled: object) -> None:
    one = replace(one, session=None)
    order = list(range(len(one.lexical)))
    shuffled.shuffle(order)  # type: ignore[attr-defined]
    moved = Signals(**{s.name: None if (v := getattr(one, s.name)) is None else v[order] for s in fields(one)})
    assert total(fuse(moved, RecallWeights())) == pytest.approx(total(fuse(one, RecallWeights()))[order])


@given(any_signals())
def test_renumbering_the_sessions_changes_nothing(one: Signals) -> None:
    if one.session is not None:
        other = replace(one, session=np.where(one.session >= 0, 7 - one.session, -1))
        assert total(fuse(other, RecallWeights())) == pytest.approx(total(fuse(one, RecallWeights())))
