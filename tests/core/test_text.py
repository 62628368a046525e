"""Text: index terms, what is the same, windows, and an estimate of tokens that errs on the high side."""

import re
import threading
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import text as t

SOME = st.text(max_size=200)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I am drinking coffees", ["drink", "coffe"]),
        ("Running, runs!", ["run", "run"]),
        ("the and of", []),
        ("don't stop", ["stop"]),
        ("Ada's book", ["ada", "book"]),
        ("café ＣＡＦＥ Café", ["cafe", "cafe", "cafe"]),
        ("喝咖啡", ["喝", "咖", "啡", "喝咖", "咖啡"]),
        ("我的", ["我的"]),
        ("买2杯tea", ["买", "2", "2杯", "杯", "tea"]),
        ("3月5日的", ["3", "3月", "月", "5", "5日", "日"]),
        ("2的 2 杯", ["2", "2", "杯"]),
        ("room 007, at 08:30, 0 left", ["room", "7", "8", "30", "0", "left"]),
        ("三千人", ["3000", "3000人", "人"]),
        ("le café de la gare", ["cafe", "la", "gare"]),
        ("", []),
        ("🙂 !!", []),
        ("snake_case", ["snake", "case"]),
    ],
)
def test_terms_are_stems_and_cjk_characters_and_pairs(text, expected):
    assert t.terms(text) == expected


def test_a_date_is_found_however_its_numbers_are_padded():
    assert t.terms("生日是03月07日") == t.terms("生日是3月7日")
    assert t.terms("on 03/07") == t.terms("on 3/7")


@pytest.mark.parametrize(
    ("said", "digits"),
    [
        ("二十三岁", "23岁"),
        ("十点", "10点"),
        ("二〇二四年", "2024年"),
        ("两个", "2个"),
        ("一万二千人", "12000人"),
        ("三百零五块", "305块"),
        ("千人", "1000人"),
    ],
)
def test_a_chinese_numeral_before_what_it_counts_is_found_by_its_digits(said, digits):
    assert t.terms(said) == t.terms(digits)


def test_a_numeral_that_counts_nothing_is_a_word():
    assert t.terms("一起") == ["一", "起", "一起"]


@given(SOME)
def test_terms_have_no_white_space_and_depend_on_nothing_but_the_text(text):
    found = t.terms(text)
    assert found == t.terms(text)
    assert " ".join(found).split() == found


@given(SOME)
def test_folding_again_changes_nothing_that_terms_see(text):
    assert t.terms(t.fold(text)) == t.terms(text) or unicodedata.normalize("NFKC", text) != text


def test_the_stemmer_is_safe_among_threads():
    words = [f"{a}{b}ing" for a in "bcdfghklmnprstw" for b in ("alk", "ush", "est", "ork")]
    t._stem.cache_clear()
    expected = {word: t._stem(word) for word in words}
    wrong = []

    def work():
        for _ in range(20):
            t._stem.cache_clear()
            wrong.extend(word for word in words if t._stem(word) != expected[word])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@given(SOME)
def test_normalised_is_settled_at_once_for_case_and_space(text):
    assert t.normalised(f"  {text}\n") == t.normalised(text)


def test_normalised_keeps_what_makes_another_text():
    assert t.normalised("A  b") == t.normalised("a\tB") == "a b"
    assert t.normalised("a b") != t.normalised("ab")


@given(SOME)
def test_without_surrogates_utf8_carries_the_text_and_other_text_is_unchanged(text):
    t.without_surrogates(text + "\ud800").encode()
    assert t.without_surrogates(text) == text


@given(st.text(st.sampled_from("ab \n咖"), max_size=5_000), st.integers(1, 40))
def test_windows_cover_the_text_in_order_within_their_number(text, most):
    cut = t.windows(text, size=100, overlap=20, most=most)
    assert 1 <= len(cut) <= most
    assert all(len(piece) <= 100 for piece in cut)
    assert all(piece in text for piece in cut)
    if len(text) <= 100:
        assert cut == [text]
    if len(cut) < most and text:
        assert text.startswith(cut[0])
        assert text.endswith(cut[-1].rstrip("\0"))


def test_a_long_text_has_its_end_in_a_window():
    text = "start " + "filler " * 2_000 + "end"
    cut = t.windows(text, most=4)
    assert len(cut) == 4
    assert cut[0].startswith("start")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello", 1),
        ("hello world", 2),
        ("internationalisation", 4),
        ("1234567", 3),
        ("a\n\nb", 3),
        ("咖啡", 4),
        ("🙂", 2),
    ],
)
def test_the_estimate_of_tokens_by_hand(text, tokens):
    assert t.estimate_tokens(text) == tokens


KINDS = st.text(st.sampled_from("abcdefXYZ 012345\n\t_.,-\x1c\x85\xa0é߿ࠀ中　😀\ud800"), max_size=60)


@given(KINDS | st.text(max_size=60) | st.builds(lambda one, times: one * times, KINDS, st.integers(2, 30)))
def test_the_estimate_of_tokens_is_one_for_each_match(text):
    """The rule as a regular expression: five letters, three digits, a run of breaks, a mark; one more for a wide character."""
    found = re.findall(r"[A-Za-z]{1,5}|[0-9]{1,3}|\n+|[^\sA-Za-z0-9]", text)
    assert t.estimate_tokens(text) == len(found) + sum(one > "\u07ff" for one in found)


@given(SOME, SOME)
def test_two_lines_cost_at_most_their_sum_and_the_break(one, other):
    assert t.estimate_tokens(f"{one}\n{other}") <= t.estimate_tokens(one) + t.estimate_tokens(other) + 1
    assert t.estimate_tokens(one) <= t.estimate_tokens(one + other)


@given(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=50))
def test_text_that_shows_costs_something(text):
    assert t.estimate_tokens(text) >= 1


def test_function_words_of_other_languages_leave_english_words_and_names_alone():
    """In German and French mit, bin, für and pour say nothing; MIT, a bin, fur and pouring do in English."""
    assert t.terms("MIT bin fur pour") == ["mit", "bin", "fur", "pour"]


def test_texts_over_a_bound_of_tokens_give_up_the_same_share_each_and_stay_as_they_are_below_it():
    """Counted a token a character: 900 and 300 in a bound of 400 may keep 300 and 100; 1 200 fit in 1 200."""
    texts = ["a" * 900, "b" * 300]
    first, second = t.within_tokens(texts, 400, len)
    assert 200 < len(first) <= 300
    assert 50 < len(second) <= 100
    assert "characters left out" in first
    assert t.within_tokens(texts, 1200, len) == texts
