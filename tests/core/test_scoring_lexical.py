"""BM25 over posting lists: the written formula, worked by hand, and what holds for every input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.scoring.lexical import Posting, bm25, idf


def posting(counts: dict[int, int]) -> Posting:
    return np.array(list(counts), dtype=np.int64), np.array(list(counts.values()), dtype=np.float64)


def test_idf_of_a_word_in_one_of_four_memories_is_the_log_of_ten_thirds() -> None:
    """log(1 + (4 - 1 + 0.5) / (1 + 0.5)) = log(1 + 3.5 / 1.5) = log(10 / 3)."""
    assert float(idf(1, 4)) == pytest.approx(math.log(10 / 3))


def test_idf_stays_above_zero_for_a_word_that_every_memory_says() -> None:
    """log(1 + 0.5 / 4.5) = log(10 / 9): the textbook variant would be negative here."""
    assert float(idf(4, 4)) == pytest.approx(math.log(10 / 9))


def test_score_is_the_written_formula() -> None:
    """Lengths 2 and 6, mean 4; the word stands twice in the first memory.

    idf = log(1 + 1.5 / 1.5) = log 2; norm = 1.2 * (0.25 + 0.75 * 2 / 4) = 0.75;
    score = log 2 * 2 * 2.2 / (2 + 0.75) = 1.6 log 2.
    """
    scores = bm25([posting({0: 2})], np.array([2.0, 6.0]))
    assert scores == pytest.approx([1.6 * math.log(2), 0.0])


def test_a_word_with_half_the_weight_adds_half_the_score() -> None:
    lengths = np.array([3.0, 3.0, 3.0])
    whole = bm25([posting({1: 1})], lengths)
    assert bm25([posting({1: 1})], lengths, weights=[0.5]) == pytest.approx(whole / 2)


def test_a_rare_word_outweighs_a_common_one() -> None:
    scores = bm25([posting({0: 1}), posting({1: 1, 2: 1, 3: 1})], np.full(4, 5.0))
    assert scores[0] > scores[1] == scores[2] == scores[3] > 0


def test_of_two_memories_with_the_same_words_the_shorter_comes_first() -> None:
    scores = bm25([posting({0: 1, 1: 1})], np.array([3.0, 30.0]))
    assert scores[0] > scores[1]


def test_repeating_a_word_saturates_below_its_idf_times_k1_plus_one() -> None:
    scores = bm25([posting({0: 1}), posting({1: 10**6})], np.array([5.0, 5.0]))
    assert scores[0] < scores[1] < math.log(2) * 2.2


@pytest.mark.parametrize("postings", [[], [posting({})]])
def test_no_word_found_scores_zero(postings: list[Posting]) -> None:
    assert bm25(postings, np.array([4.0, 2.0])).tolist() == [0.0, 0.0]


def test_no_memories_give_no_scores() -> None:
    assert bm25([posting({})], np.zeros(0)).shape == (0,)


def test_memories_without_any_term_do_not_divide_by_zero() -> None:
    assert bm25([], np.zeros(3)).tolist() == [0.0, 0.0, 0.0]


@st.composite
def indexes(draw: st.DrawFn) -> tuple[list[Posting], np.ndarray]:
    n = draw(st.integers(1, 8))
    found = draw(st.lists(st.dictionaries(st.integers(0, n - 1), st.integers(1, 9)), max_size=5))
    lengths = draw(st.lists(st.integers(0, 50), min_size=n, max_size=n))
    return [posting(one) for one in found], np.array(lengths, dtype=np.float64)


@given(indexes())
def test_scores_are_finite_at_least_zero_and_zero_exactly_where_no_word_stands(
    index: tuple[list[Posting], np.ndarray],
) -> None:
    postings, lengths = index
    scores = bm25(postings, lengths)
    hit = {int(row) for rows, _ in postings for row in rows}
    assert np.isfinite(scores).all()
    assert {i for i, score in enumerate(scores) if score > 0} == hit
    assert (scores >= 0).all()


@given(indexes(), st.randoms(use_true_random=False))
def test_the_order_of_the_query_words_does_not_matter(
    index: tuple[list[Posting], np.ndarray], shuffled: object
) -> None:
    postings, lengths = index
    other = list(postings)
    shuffled.shuffle(other)  # type: ignore[attr-defined]
    assert bm25(other, lengths) == pytest.approx(bm25(postings, lengths))
