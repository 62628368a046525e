"""The checks every embedder shares: what an answer must be, what a text is made into, one load for all threads."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from shared_core.embedding.base import Once, check_sha256, checked, installed, package_file, readable
from shared_core.errors import EmbedderError, InvalidInput


def test_an_answer_becomes_unit_rows_of_float32():
    """(3, 4) has length 5."""
    rows = checked([[3.0, 4.0], [0.0, -2.0]], 2, dimension=2, source="m")
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.0, -1.0]], rtol=1e-6)


def test_a_zero_row_stays_zero():
    assert checked([[0.0, 0.0]], 1, dimension=2, source="m").tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("size", [1e-300, 1e-40, 1e38, 1e300])
def test_very_large_and_very_small_numbers_keep_their_direction(size):
    np.testing.assert_allclose(checked([[3 * size, 4 * size]], 1, dimension=2, source="m"), [[0.6, 0.8]], rtol=1e-6)


@given(
    arrays(np.float64, array_shapes(min_dims=2, max_dims=2), elements=st.floats(allow_nan=False, allow_infinity=False))
)
def test_every_finite_answer_gives_lengths_of_one_or_zero(raw):
    rows = checked(raw, len(raw), dimension=raw.shape[1], source="m")
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    np.testing.assert_allclose(lengths, raw.any(axis=1).astype(float), atol=1e-6)


def test_the_callers_array_is_left_alone():
    raw = np.array([[3.0, 4.0]], dtype=np.float32)
    checked(raw, 1, dimension=2, source="m")[0, 0] = 9
    assert raw.tolist() == [[3.0, 4.0]]


def test_no_texts_give_no_rows_of_the_right_width():
    assert checked([], 0, dimension=7, source="m").shape == (0, 7)


@pytest.mark.parametrize(
    ("raw", "came"),
    [
        ([[1.0, 2.0]], r"shape \(1, 2\)"),  # one row for two texts
        ([1.0, 2.0], r"shape \(2,\)"),  # a vector where rows belong
        ([[1.0], [2.0]], r"shape \(2, 1\)"),  # another dimension
        ([[], []], r"shape \(2, 0\)"),
        (np.ones((2, 3, 2)), r"shape \(2, 3, 2\)"),  # token vectors instead of text vectors
        ([[1.0, 2.0], [float("nan"), 1.0]], "NaN or infinity in row 1"),
        ([[float("inf"), 2.0], [1.0, 1.0]], "NaN or infinity in row 0"),
        ([[1.0, 2.0], [1.0]], "list that is no array of numbers"),  # ragged
        ([["a", "b"], ["c", "d"]], "list that is no array of numbers"),
        (None, r"shape \(\)"),
        ({"data": []}, "dict that is no array of numbers"),
    ],
)
def test_anything_but_one_finite_row_a_text_is_refused_with_what_came(raw, came):
    with pytest.raises(EmbedderError, match=came) as caught:
        checked(raw, 2, dimension=2, source="my.Model")
    assert str(caught.value).startswith("my.Model: expected 2 finite vectors of 2 length")


def test_an_unknown_dimension_takes_any_width_but_none():
    assert checked([[1.0, 0.0, 0.0]], 1, dimension=None, source="m").shape == (1, 3)
    with pytest.raises(EmbedderError, match=r"shape \(1, 0\)"):
        checked([[]], 1, dimension=None, source="m")


def test_texts_are_made_fit_for_utf8_and_for_c():
    """A lone surrogate has no UTF-8 form and a NUL ends a C string; a split pair is one character."""
    assert readable(["plain", "咖啡", "\ud800x", "\ud83d\ude00", "a\0b"]) == ["plain", "咖啡", "\ufffdx", "😀", "a b"]


@given(st.text(st.characters(exclude_categories=[])))
def test_whatever_the_text_it_can_be_encoded_afterwards(text):
    (ready,) = readable([text])
    assert "\0" not in ready
    assert ready.encode().decode() == ready


def test_one_string_is_not_a_list_of_its_letters():
    with pytest.raises(InvalidInput, match=r"write embed\(\[text\]\)"):
        readable("coffee")


def test_only_strings_are_texts():
    with pytest.raises(InvalidInput, match="got NoneType"):
        readable(["a", None])


def test_a_value_is_made_once_for_all_threads():
    made = []
    start = threading.Barrier(8)
    once = Once(lambda: made.append(1) or object())
    got = []

    def ask():
        start.wait()
        got.append(once())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert len({id(value) for value in got}) == 1
    assert len(got) == 8


def test_a_failed_attempt_is_made_again():
    answers = iter([OSError("disk"), "model"])

    def make():
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    once = Once(make)
    with pytest.raises(OSError, match="disk"):
        once()
    assert once() == "model"


def test_a_file_with_other_bytes_is_refused(tmp_path):
    """The SHA-256 of no bytes starts with e3b0c442."""
    file = tmp_path / "weights.bin"
    file.write_bytes(b"")
    check_sha256(file, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    file.write_bytes(b"x")
    with pytest.raises(EmbedderError, match=r"weights.bin: expected sha256 e3b0c442.*, got 2d711642.*reinstall"):
        check_sha256(file, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")


def test_a_missing_file_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(EmbedderError, match=r"gone.bin: expected the file at .*gone.bin"):
        check_sha256(tmp_path / "gone.bin", "00")


def test_a_package_is_found_without_importing_it():
    assert installed("json", "wave")
    assert not installed("json", "no_such_package_anywhere")
    assert package_file("json", "decoder.py").is_file()
    with pytest.raises(EmbedderError, match="no_such_package_anywhere"):
        package_file("no_such_package_anywhere", "model.onnx")
