"""The rule and its parts: values by hand, and the laws that hold for every input."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import scoring

shares = st.floats(0.0, 1.0)
any_float = st.floats(allow_nan=True, allow_infinity=True)


@pytest.mark.parametrize(
    ("age", "time_scale", "expected"),
    [(0, 1, 1.0), (1, 1, 0.5), (3, 1, 0.25), (300, 300, 0.5), (900, 300, 0.25), (-50, 300, 1.0)],
)
def test_recency_halves_after_one_time_scale_and_clamps_negative_ages(age, time_scale, expected):
    assert scoring.recency(age, time_scale) == expected


def test_an_unknown_or_infinite_age_is_never_fresh():
    assert scoring.recency([math.nan, math.inf, -math.inf], 300.0).tolist() == [0.0, 0.0, 1.0]


@given(age=any_float, older=st.floats(0.0, 1e12), time_scale=st.floats(1e-3, 1e9))
def test_recency_is_in_0_1_and_never_grows_with_age(age, older, time_scale):
    young, old = scoring.recency([age, age + older], time_scale)
    assert 0.0 <= old <= young <= 1.0


def test_recency_does_not_change_the_ages_it_was_given():
    ages = np.array([-1.0, math.nan, 5.0])
    scoring.recency(ages, 300.0)
    assert ages.tolist()[::2] == [-1.0, 5.0]
    assert math.isnan(ages[1])


@pytest.mark.parametrize(
    ("vector", "task", "expected"),
    [
        ([3.0, 4.0], [1.0, 0.0], 0.6),
        ([3.0, 4.0], [30.0, 40.0], 1.0),
        ([1.0, 0.0], [0.0, 1.0], 0.0),
        ([1.0, 0.0], [-1.0, 0.0], 0.0),
        ([0.0, 0.0], [1.0, 0.0], 0.0),
        ([1.0, 0.0], [0.0, 0.0], 0.0),
        ([3e38, 3e38], [1e-38, 1e-38], 1.0),
    ],
)
def test_the_cosine_is_clipped_at_zero_and_a_zero_vector_gives_zero(vector, task, expected):
    assert scoring.cosine(scoring.unit([vector]), scoring.unit(task)) == pytest.approx([expected], abs=1e-6)


def test_a_row_without_embedding_has_no_evidence_even_for_a_zero_task():
    rows = np.full((1, 3), np.nan, dtype=np.float32)
    assert math.isnan(scoring.cosine(rows, np.zeros(3, dtype=np.float32))[0])


def test_a_rows_cosine_does_not_depend_on_the_rows_around_it():
    """Equal embeddings must tie to the last bit wherever they stand."""
    rows = scoring.unit(np.random.default_rng(1).standard_normal((97, 385)))
    task = scoring.unit(np.random.default_rng(2).standard_normal(385))
    together = scoring.cosine(rows, task)
    assert [scoring.cosine(rows[i : i + 1], task)[0] for i in range(97)] == together.tolist()


def test_attention_is_the_weighted_mean_of_prior_and_evidence():
    assert scoring.attention(0.5, 0.9, 0.25) == pytest.approx(0.6)  # 0.375 + 0.225
    assert scoring.attention([0.2, 0.2], [1.0, math.nan], 0.5) == pytest.approx([0.6, 0.2])
    assert scoring.attention(0.0, 0.7, 1.0) == 0.7


@given(prior=shares, evidence=shares | st.just(math.nan), weight=shares)
def test_attention_stays_between_prior_and_evidence(prior, evidence, weight):
    other = prior if math.isnan(evidence) else evidence
    value = float(scoring.attention(prior, evidence, weight))
    assert min(prior, other) - 1e-12 <= value <= max(prior, other) + 1e-12


@given(recency=st.lists(shares, min_size=1), attention=shares, alpha=st.floats(0, 10), beta=st.floats(0, 10))
def test_the_parts_sum_to_the_score_to_the_last_bit(recency, attention, alpha, beta):
    recency = np.array(recency)
    parts = scoring.parts(recency, np.full(len(recency), attention), alpha, beta)
    assert list(parts) == ["recency", "attention"]
    score = scoring.score(recency, np.full(len(recency), attention), alpha, beta)
    assert score.tolist() == sum(parts.values()).tolist()
    assert score.tolist() == [alpha * r + beta * attention for r in recency.tolist()]
