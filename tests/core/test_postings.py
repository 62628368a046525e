"""Posting lists and vectors of a scope agree with a naive list, however they came in."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.long_term.matrix import Matrix
from shared_core.long_term.postings import Postings

texts = st.lists(st.lists(st.sampled_from(["a", "b", "B", "ab", "\U0001f600", "é"]), max_size=6), max_size=12)


def filled(memories, at_once, settled):
    """The first ``settled`` come with the reading of a scope, ``at_once`` a page, and the others are written later."""
    postings = Postings()
    for start in range(0, settled, at_once):
        postings.add(start, memories[start : min(start + at_once, settled)])
    postings.settle()
    for start in range(settled, len(memories), at_once):
        postings.add(start, memories[start : start + at_once])
    return postings


@given(memories=texts, at_once=st.integers(1, 5), share=st.floats(0, 1))
def test_a_term_is_found_where_it_is_said_and_as_often_whether_read_or_written(memories, at_once, share):
    postings = filled(memories, at_once, round(share * len(memories)))
    for term in ("a", "b", "B", "ab", "\U0001f600", "é", "", "aa", "\uffff"):
        said = [(i, Counter(words)[term]) for i, words in enumerate(memories) if term in words]
        positions, counts = postings.of(term)
        assert list(zip(positions.tolist(), counts.tolist(), strict=True)) == said
        assert postings.df(term) == len(said)


def test_a_term_said_very_often_counts_as_often_as_fits():
    for settled in (0, 1):
        positions, counts = filled([["x"] * 70_000], 1, settled).of("x")
        assert (positions.tolist(), counts.tolist()) == ([0], [65_535.0])


def test_a_scope_of_many_pages_is_ordered_as_one():
    memories = [[f"t{i % 7}", f"t{i % 3}", "x"] for i in range(100)]
    postings = filled(memories, 3, 100)  # more pages than are put together at a time
    for term in ("t0", "t2", "t6", "x"):
        assert postings.of(term)[0].tolist() == [i for i, words in enumerate(memories) if term in words]
    assert postings.of("t0")[1].tolist() == [2.0 if i % 21 == 0 else 1.0 for i in range(100) if not i % 7 or not i % 3]


def test_before_anything_was_read_nothing_is_found():
    assert Postings().df("a") == 0
    assert [part.tolist() for part in Postings().of("a")] == [[], []]


@given(
    owners=st.lists(st.integers(0, 4), max_size=40),
    pieces=st.integers(1, 7),
)
def test_a_position_has_the_cosine_of_its_best_vector_and_none_without_one(owners, pieces):
    vectors = np.random.default_rng(len(owners)).normal(size=(len(owners), 3)).astype(np.float32)
    matrix, query = Matrix(3), np.array([0.5, -0.25, 1.0], np.float32)
    for start in range(0, len(owners), pieces):
        some = slice(start, start + pieces)
        matrix.add(vectors[some].tobytes(), np.array(owners[some], np.int32))
    expected = [
        max((float(vectors[i] @ query) for i, one in enumerate(owners) if one == p), default=np.nan) for p in range(5)
    ]
    assert matrix.cosines(query, 5) == pytest.approx(expected, abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("room", [0, 300, 1_000])
def test_vectors_that_outgrow_their_array_are_all_there(room):
    count, dimension = 300, 200  # grown past the size from which an array gets memory of its own
    vectors = np.random.default_rng(1).normal(size=(count, dimension)).astype(np.float32)
    matrix, query = Matrix(dimension), vectors[7]
    for start in range(0, count, 50):
        owner = np.arange(start, start + 50, dtype=np.int32)
        matrix.add(vectors[start : start + 50].tobytes(), owner, room=room)
    assert matrix.cosines(query, count) == pytest.approx((vectors @ query).astype(float), rel=1e-5)
    assert matrix.nbytes == max(room, 400 if not room else count) * dimension * 4


def test_bytes_that_no_model_of_the_dimension_writes_are_no_vectors():
    matrix = Matrix(3)
    assert [matrix.windows(raw) for raw in (None, b"", b"1234", bytes(12), bytes(24))] == [0, 0, 0, 1, 2]
    assert Matrix(0).windows(bytes(12)) == 0
