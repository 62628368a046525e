"""Where a prior comes from: aged access frequency, and importance less what was forgotten."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import scoring
from shared_core.scoring.frequency import HALF_LIFE

any_float = st.floats(allow_nan=True, allow_infinity=True)


def test_a_proven_entry_starts_above_one_half_and_each_use_moves_it_towards_one():
    assert scoring.frequency_prior([0.0, 2.0, 3.0, 8.0, math.inf]) == pytest.approx([0.5, 0.75, 0.8, 0.9, 1.0])


def test_an_unproven_entry_is_worth_what_newcomers_have_been_worth_lately():
    """0.2 of the insertions brought back a ghost: 1.5 * 0.2 = 0.3, however often it was counted; never above 1/2."""
    assert scoring.frequency_prior([1.0, 9.0], [False, False], 0.2) == pytest.approx([0.3, 0.3])
    assert scoring.frequency_prior([1.0, 9.0], [False, True], 0.9) == pytest.approx([0.5, 0.9090909])


def test_regret_moves_by_one_insertion_in_about_as_many_as_are_held():
    assert scoring.moved_regret(0.0, True, 80) == pytest.approx(0.01)
    assert scoring.moved_regret(0.5, False, 80) == pytest.approx(0.495)


@given(count=any_float, proven=st.booleans(), regret=st.floats(0.0, 1.0))
def test_the_frequency_prior_is_always_a_prior(count, proven, regret):
    assert 0.0 <= scoring.frequency_prior(count, proven, regret) <= 1.0


@pytest.mark.parametrize("entries", [1, 7, 1000])
def test_a_use_weighs_half_after_half_life_accesses_per_entry(entries):
    assert 1.0 / scoring.growth(entries) ** (HALF_LIFE * entries) == pytest.approx(0.5)


def test_an_empty_container_ages_like_one_with_one_entry():
    assert scoring.growth(0) == scoring.growth(1)


@pytest.mark.parametrize(
    ("importance", "days", "accesses", "decay", "expected"),
    [
        (0.8, 0, 0, 0.5, 0.8),
        (0.8, 1, 0, 0.5, 0.4),
        (0.8, 2, 1, 0.5, 0.2),
        (0.8, 2, 2, 0.5, 0.4),
        (0.8, 4, 4, 0.5, 0.4),
        (0.8, -3, 1, 0.5, 0.8),
        (0.8, 10_000, 1, 1.0, 0.8),
        (1.0, 100, 1, 0.995, 0.995**100),
    ],
)
def test_the_forgetting_curve_by_hand(importance, days, accesses, decay, expected):
    assert scoring.effective_importance(importance, days, accesses, decay) == pytest.approx(expected)


def test_unreadable_facts_are_unrated_forgotten_and_never_accessed():
    assert scoring.effective_importance(math.nan, 0.0, 1, 0.5) == 0.5
    assert scoring.effective_importance(1.0, math.nan, 1, 0.5) == 0.0
    assert scoring.effective_importance(1.0, 1.0, math.nan, 0.5) == 0.5


@given(importance=any_float, days=any_float, accesses=any_float, decay=st.floats(0.001, 1.0))
def test_effective_importance_is_never_nan_and_stays_in_0_1(importance, days, accesses, decay):
    assert 0.0 <= scoring.effective_importance(importance, days, accesses, decay) <= 1.0


@given(
    importance=st.floats(0, 1),
    less=st.floats(0, 1),
    days=st.floats(0, 1e5),
    more_days=st.floats(0, 1e5),
    accesses=st.integers(0, 1000),
    more=st.integers(0, 1000),
    decay=st.floats(0.001, 1.0),
)
def test_it_falls_with_days_and_rises_with_importance_and_accesses(
    importance, less, days, more_days, accesses, more, decay
):
    value = scoring.effective_importance(importance, days, accesses, decay)
    assert scoring.effective_importance(importance, days + more_days, accesses, decay) <= value
    assert scoring.effective_importance(importance * less, days, accesses, decay) <= value
    assert scoring.effective_importance(importance, days, accesses + more, decay) >= value


def test_asking_twice_does_not_forget_twice():
    """The curve is computed from stored facts; nothing is written back."""
    first = scoring.effective_importance(0.9, 3.0, 1, 0.5)
    assert scoring.effective_importance(0.9, 3.0, 1, 0.5) == first == pytest.approx(0.1125)
