"""Reading a query: who is named, which time is meant, what is asked. Fixed now: Wednesday 15 May 2024, 15:30."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.long_term.query import (
    EXPANSION_TERMS,
    LEAD_WEIGHT,
    Query,
    analyse,
    asks_time,
    closeness,
    expansion,
    sentences,
    speakers_named,
    tells_time,
)
from shared_core.long_term.times import YEARS_BACK, spans
from shared_core.text import UNSPACED_CHARACTER, UNSPACED_PAIR, is_question, terms

NOW = datetime(2024, 5, 15, 15, 30, tzinfo=UTC).timestamp()


def days(text: str, *, now: float = NOW) -> list[tuple[str, str]]:
    """The spans as first and last-but-open days, UTC."""
    return [
        (f"{datetime.fromtimestamp(since, UTC):%Y-%m-%d}", f"{datetime.fromtimestamp(until, UTC):%Y-%m-%d}")
        for since, until in spans(text, now=now)
    ]


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("what did she do yesterday?", "2024-05-14", "2024-05-15"),
        ("the day before yesterday", "2024-05-13", "2024-05-14"),
        ("what happened last week", "2024-05-06", "2024-05-13"),
        ("this week", "2024-05-13", "2024-05-20"),
        ("last weekend", "2024-05-11", "2024-05-13"),
        ("last month", "2024-04-01", "2024-05-01"),
        ("last year", "2023-01-01", "2024-01-01"),
        ("last Friday", "2024-05-10", "2024-05-11"),
        ("last Wednesday", "2024-05-08", "2024-05-09"),
        ("five days ago", "2024-05-10", "2024-05-11"),
        ("three weeks ago", "2024-04-21", "2024-04-28"),
        ("in May 2023", "2023-05-01", "2023-06-01"),
        ("in May, 2023", "2023-05-01", "2023-06-01"),
        ("by May 7, 2023", "2023-05-07", "2023-05-08"),
        ("on 7 May 2023", "2023-05-07", "2023-05-08"),
        ("on May 7th, 2023", "2023-05-07", "2023-05-08"),
        ("2023-07-09", "2023-07-09", "2023-07-10"),
        ("summer of 2022", "2022-06-01", "2022-09-01"),
        ("in 2022", "2022-01-01", "2023-01-01"),
        ("昨天我说了什么", "2024-05-14", "2024-05-15"),
        ("前天", "2024-05-13", "2024-05-14"),
        ("上周", "2024-05-06", "2024-05-13"),
        ("上上周", "2024-04-29", "2024-05-06"),
        ("上周五", "2024-05-10", "2024-05-11"),
        ("上个月", "2024-04-01", "2024-05-01"),
        ("去年", "2023-01-01", "2024-01-01"),
        ("前年", "2022-01-01", "2023-01-01"),
        ("三天前", "2024-05-12", "2024-05-13"),
        ("2023年5月7日", "2023-05-07", "2023-05-08"),
        ("2023年5月", "2023-05-01", "2023-06-01"),
        ("2023年", "2023-01-01", "2024-01-01"),
    ],
)
def test_a_time_is_read_as_its_days(text: str, since: str, until: str) -> None:
    assert days(text) == [(since, until)]


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("tomorrow", "2024-05-16", "2024-05-17"),
        ("next Friday", "2024-05-17", "2024-05-18"),
        ("next Wednesday", "2024-05-22", "2024-05-23"),
        ("next month", "2024-06-01", "2024-07-01"),
        ("明天", "2024-05-16", "2024-05-17"),
        ("大后天", "2024-05-18", "2024-05-19"),
        ("大前天", "2024-05-12", "2024-05-13"),
        ("下周三", "2024-05-22", "2024-05-23"),
        ("下下周", "2024-05-27", "2024-06-03"),
        ("下个月", "2024-06-01", "2024-07-01"),
        ("¿Qué hice ayer?", "2024-05-14", "2024-05-15"),
        ("¿qué pasó la semana pasada?", "2024-05-06", "2024-05-13"),
        ("el viernes pasado", "2024-05-10", "2024-05-11"),
        ("hace tres semanas", "2024-04-21", "2024-04-28"),
        ("el 7 de mayo de 2023", "2023-05-07", "2023-05-08"),
        ("en 2022", "2022-01-01", "2023-01-01"),
        ("qu'ai-je fait hier ? je ne sais plus", "2024-05-14", "2024-05-15"),
        ("avant-hier", "2024-05-13", "2024-05-14"),
        ("il y a deux jours", "2024-05-13", "2024-05-14"),
        ("en août 2022", "2022-08-01", "2022-09-01"),
        ("was war letzten Freitag?", "2024-05-10", "2024-05-11"),
        ("vor einem Monat", "2024-03-31", "2024-04-30"),
        ("im März 2023", "2023-03-01", "2023-04-01"),
        ("übermorgen", "2024-05-17", "2024-05-18"),
        ("due giorni fa", "2024-05-13", "2024-05-14"),
        ("há 3 dias", "2024-05-12", "2024-05-13"),
        ("一昨日", "2024-05-13", "2024-05-14"),
        ("先週の金曜日", "2024-05-10", "2024-05-11"),
        ("2週間前", "2024-04-28", "2024-05-05"),
        ("지난주", "2024-05-06", "2024-05-13"),
        ("3일 전", "2024-05-12", "2024-05-13"),
    ],
)
def test_days_to_come_and_other_languages_are_read_too(text: str, since: str, until: str) -> None:
    assert days(text) == [(since, until)]


@pytest.mark.parametrize(
    "text", ["Was ist hier passiert?", "Guten Morgen!", "por la mañana", "a mai tai", "life on mars"]
)
def test_a_word_that_means_a_time_in_another_language_alone_is_none(text: str) -> None:
    assert days(text) == []


def test_pieces_of_an_unspaced_script_do_not_outweigh_the_number_beside_them() -> None:
    """Seven pieces of a four-character word weigh 4 / 4 + 3 / 2 = 2.5, the number 1."""
    read = analyse("电话号码5551234", now=NOW)
    weights = dict(zip(read.terms, read.weights, strict=True))
    assert weights.pop("5551234") == 1.0
    assert set(weights.values()) == {UNSPACED_PAIR, UNSPACED_CHARACTER}
    assert sum(weights.values()) == 2.5


@pytest.mark.parametrize("text", ["in June", "during june", "六月", "6月"])
def test_a_month_without_its_year_is_that_month_of_every_recent_year_that_has_begun(text: str) -> None:
    found = days(text)
    assert found[0] == ("2023-06-01", "2023-07-01")
    assert len(found) == YEARS_BACK - 1  # June 2024 has not begun


def test_leap_day_without_its_year_is_found_in_leap_years_only() -> None:
    assert days("on February 29")[:2] == [("2024-02-29", "2024-03-01"), ("2020-02-29", "2020-03-01")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "may I ask?",
        "I march on",
        "in 3 steps",
        "February 31 2023",
        "2023-13-01",
        "第13月",
        "in 2025",
        "0月",
        "99天",
    ],
)
def test_what_is_no_time_in_the_past_is_passed_over(text: str) -> None:
    assert days(text) == []


def test_yesterday_is_the_day_before_in_the_zone_of_the_one_who_asks() -> None:
    """At 23:30 UTC it is 07:30 of the next day in Shanghai, so yesterday began 31.5 hours ago."""
    now = datetime(2024, 5, 15, 23, 30, tzinfo=UTC).timestamp()
    ((since, until),) = spans("yesterday", now=now, zone=ZoneInfo("Asia/Shanghai"))
    assert now - since == 31.5 * 3600
    assert until - since == 24 * 3600


def test_a_day_on_which_the_clocks_change_is_as_long_as_it_was() -> None:
    """Berlin lost an hour on 31 March 2024."""
    ((since, until),) = spans("31 March 2024", now=NOW, zone=ZoneInfo("Europe/Berlin"))
    assert until - since == 23 * 3600


@given(
    st.text(max_size=60) | st.from_regex(r"(in|last|on) (\d{1,4} )?(may|june|week|\d+) ?(ago|\d{1,5})?", fullmatch=True)
)
def test_any_text_gives_ordered_spans_that_have_begun(text: str) -> None:
    for since, until in spans(text, now=NOW):
        assert since < until
        assert since <= NOW


def test_a_memory_inside_a_span_fits_fully_and_outside_by_its_distance() -> None:
    """A span of 10 seconds: inside 1; 10 s away 1 / (1 + 1) = 0.5; 30 s away 0.25."""
    at = np.array([105.0, 100.0, 90.0, 120.0, 140.0])
    assert closeness(at, [(100.0, 110.0)]) == pytest.approx([1, 1, 0.5, 0.5, 0.25])


def test_of_several_spans_the_nearest_counts_and_without_any_nothing_does() -> None:
    at = np.array([5.0, 25.0])
    assert closeness(at, [(0.0, 10.0), (20.0, 30.0)]).tolist() == [1.0, 1.0]
    assert closeness(at, []).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What did Caroline say?", {"Caroline"}),
        ("What is Caroline's favourite?", {"Caroline"}),
        ("when did anna travel", {"Anna Smith"}),
        ("What did Will buy?", {"Will"}),
        ("What will they buy?", set()),
        ("Will they buy?", set()),
        ("what did caroline tell me when I left?", {"Caroline"}),
        ("李雷喜欢什么？", {"李雷"}),
        ("Anna and Caroline", {"Anna Smith", "Caroline"}),
        ("Carolines", set()),
    ],
)
def test_a_speaker_is_named_by_a_word_of_the_name(text: str, named: set[str]) -> None:
    assert speakers_named(text, ["Caroline", "Anna Smith", "Will", "李雷"]) == named


def test_the_name_of_a_speaker_is_no_search_term_but_that_of_another_person_is() -> None:
    read = analyse("Did Caroline meet Bob?", speakers=["Caroline"], now=NOW)
    assert read.terms == ("meet", "bob")
    assert read.speakers == {"Caroline"}


def test_a_query_of_a_speakers_name_alone_still_searches_for_it() -> None:
    assert analyse("Caroline?", speakers=["Caroline"], now=NOW).terms == ("carolin",)


def test_words_before_the_last_sentence_count_less_and_the_last_one_decides() -> None:
    read = analyse("I love hiking. Which boots for hiking?", now=NOW)
    assert dict(zip(read.terms, read.weights, strict=True)) == {"hike": 1.0, "boot": 1.0, "love": LEAD_WEIGHT}
    read = analyse("今天天气真好。我真正想问的是：我的手机怎么样？", now=NOW)
    weights = dict(zip(read.terms, read.weights, strict=True))
    assert weights["手机"] == UNSPACED_PAIR
    assert weights["天气"] == LEAD_WEIGHT * UNSPACED_PAIR
    assert read.spans == ()


def test_words_about_remembering_itself_count_less() -> None:
    read = analyse("List the books I mentioned", now=NOW)
    assert dict(zip(read.terms, read.weights, strict=True)) == {
        "list": LEAD_WEIGHT,
        "book": 1.0,
        "mention": LEAD_WEIGHT,
    }


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two? Three", ["One.", "Two?", "Three"]),
        ("At 19:00 on 3.5 miles", ["At 19:00 on 3.5 miles"]),
        ("好。真的？是", ["好。", "真的？", "是"]),
        ("  ", []),
    ],
)
def test_sentences_end_at_marks_not_inside_numbers(text: str, parts: list[str]) -> None:
    assert sentences(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        "When did it start?",
        "How long was it?",
        "what year was that",
        "什么时候去的",
        "活动时间是什么？",
        "¿Cuándo fue?",
        "Wann war das?",
        "いつですか",
    ],
)
def test_a_question_for_a_time_is_seen(text: str) -> None:
    assert asks_time(text)


@pytest.mark.parametrize("text", ["Who came?", "How many?", "谁来了", "持续时间更长的活动"])
def test_another_question_is_not_taken_for_one(text: str) -> None:
    assert not asks_time(text)


@pytest.mark.parametrize(
    "text",
    [
        "We went last week",
        "on Friday",
        "at 7 pm",
        "in 2019",
        "昨天去了",
        "晚上七点",
        "两年",
        "ayer fuimos",
        "gestern Abend",
        "先週行った",
        "어제 갔어",
    ],
)
def test_a_text_with_a_time_tells_one(text: str) -> None:
    assert tells_time(text, terms(text))


@pytest.mark.parametrize("text", ["It was fun", "I may come", "很好吃"])
def test_a_text_without_one_does_not(text: str) -> None:
    assert not tells_time(text, terms(text))


PIECES = ("day", "days", "Monday's", "3days", "Recently", "x", "été", "last", "lasting", "the", "10pm", "天", "_week_")


@given(st.lists(st.sampled_from(PIECES)))
def test_the_quick_look_at_the_terms_of_a_text_misses_no_time(words: list[str]) -> None:
    text = " ".join(words)
    closely = tells_time(text, ["day"])  # a time word among the terms: the text itself is read
    assert tells_time(text, terms(text)) == closely


def test_a_question_is_told_by_its_end() -> None:
    assert is_question("Really? Did you go?")
    assert is_question('She asked "why?"')
    assert is_question("你去了吗")
    assert not is_question("Did you? I went.")


DF = {"park": 30, "harbour": 2, "view": 2, "once": 1, "x": 5}


def test_the_word_that_two_good_matches_share_is_worth_most() -> None:
    """Among 300 memories both words are equally rare, in memories of 4 terms.

    Harbour stands in both: (1 + 0.5) / sqrt 4 against 1 / sqrt 4, so view counts 2/3. Left out: park
    (asked), once (in one memory only), x (one character).
    """
    read = Query(("park",), (1.0,))
    best = [(1.0, ["park", "harbour", "view", "once"]), (0.5, ["park", "harbour", "x", "x"])]
    assert expansion(read, best, df=DF.__getitem__, n=300) == pytest.approx({"harbour": 1.0, "view": 2 / 3})


def test_a_word_in_more_than_a_tenth_of_the_memories_is_too_common() -> None:
    assert expansion(Query((), ()), [(1.0, ["park", "view"])], df=DF.__getitem__, n=200) == {"view": 1.0}


def test_memories_that_do_not_match_teach_nothing() -> None:
    assert expansion(Query((), ()), [(0.0, ["view"])], df=DF.__getitem__, n=300) == {}


@given(
    st.lists(
        st.tuples(st.just(0.0) | st.floats(0.001, 3), st.lists(st.text("abcd", min_size=1, max_size=3), max_size=40)),
        max_size=5,
    )
)
def test_expansion_is_bounded_and_never_repeats_the_query(best: list[tuple[float, list[str]]]) -> None:
    found = expansion(Query(("ab",), (1.0,)), best, df=len, n=100)
    assert len(found) <= EXPANSION_TERMS
    assert "ab" not in found
    assert all(0 < value <= 1 for value in found.values())


@given(st.text(max_size=200))
def test_any_query_can_be_read(text: str) -> None:
    read = analyse(text, speakers=["Ann", "李雷", ""], now=NOW)
    assert len(read.terms) == len(read.weights) == len(set(read.terms))
    assert all(0 < weight <= 1 for weight in read.weights)
