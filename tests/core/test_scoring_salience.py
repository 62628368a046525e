"""What salience promises: people's order of what is worth keeping, bounds, parts that add up, and a bounded cost."""

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.scoring.salience import (
    CUE_LIMIT,
    HEAD_TERMS,
    WEIGHTS,
    ScopeStatistics,
    salience,
    salience_parts,
    signals,
)
from shared_core.text import terms


def worth(text, *, role="user", statistics=None):
    return salience(text, terms(text), role=role, statistics=statistics or ScopeStatistics())


def parts(text, **more):
    return salience_parts(text, terms(text), **more)


FACTS = [
    "I moved to Lisbon last March to work at a small shipyard.",
    "My sister Ines had her second baby on 14 June.",
    "I'm allergic to peanuts and never eat shellfish.",
    "We sold the boat to a dentist from Porto two weeks ago.",
    "我上个月搬到了杭州，在一家造船厂上班。",
    "我对花生过敏，从不吃虾。",
    "我妹妹去年六月生了一个女儿。",
]
REQUESTS = [
    "Can you write a short email to the landlord?",
    "What is the capital of Portugal?",
    "Could you explain how tides work, please?",
    "Write a poem about the sea.",
    "Translate this: Ines was born in Porto on 3 May 1990 and moved to Lyon last year.",
    "能不能帮我写一封邮件？",
    "今天天气怎么样？",
    "请翻译：她一九九〇年五月生于波尔图。",
]
PLEASANTRIES = [
    "Thanks, that sounds great!",
    "Ok, got it.",
    "Wow, congrats! You must be so proud.",
    "Hi! How are you doing?",
    "好的，谢谢！",
    "哈哈，太好了，加油！",
    "你好，最近怎么样？",
]


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("empty", REQUESTS + PLEASANTRIES)
def test_a_fact_about_someone_is_worth_more_than_a_request_or_a_pleasantry(fact, empty):
    """In English, in Chinese and across them, the weakest fact stands above the strongest empty turn."""
    assert worth(fact) > 0.5 > worth(empty)


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ("I broke my left wrist yesterday.", "My left wrist is a bit sore."),
        ("We met Tomas at the station on 3 May.", "We met a man at the station."),
        ("I prefer the window seat.", "There is a window seat."),
        ("Always answer in metric units.", "The answer is in metric units."),
        ("I joined a choir in Porto. How are you?", "Should you join a choir in Porto?"),
        ("我昨天摔断了手腕。", "手腕有点酸。"),
        ("我喜欢靠窗的座位。", "那里有靠窗的座位。"),
        ("以后请用公制单位回答。", "这是公制单位的回答。"),
    ],
)
def test_what_was_done_when_by_whom_and_what_is_preferred_raise_a_statement(more, less):
    assert worth(more) > worth(less)


def test_a_question_behind_a_statement_costs_less_than_a_question_alone():
    """Clauses are judged one by one: half of the first text asks, all of the second."""
    both = signals("I moved to Lisbon. What about you?", [], role="user", statistics=ScopeStatistics())
    alone = signals("What about you?", [], role="user", statistics=ScopeStatistics())
    assert (both["question"], alone["question"]) == (0.5, 1.0)
    assert both["self"] == 1.0


def test_cues_inside_a_question_are_not_credited():
    """To ask whether one went in May tells nothing about May."""
    asked = signals("Did I go there last May?", [], role="user", statistics=ScopeStatistics())
    assert (asked["when"], asked["self"], asked["event"]) == (0.0, 0.0, 0.0)


def test_an_assistant_turn_is_worth_less_than_the_same_words_from_the_user():
    text = "The museum in Porto opened a room for Vieira in March."
    assert worth(text, role="assistant") < worth(text)


def test_a_long_assistant_turn_does_not_look_dense_by_its_length():
    """Ninety different words add no more than the first twenty-five do, and a user's plain fact stands above them."""
    words = [f"topic{'abcdefghij'[i // 10]}{'klmnopqrst'[i % 10]}" for i in range(90)]
    short, long = " ".join(words[:HEAD_TERMS]), " ".join(words)
    assert worth(long, role="assistant") == worth(short, role="assistant")
    assert worth(long, role="assistant") < worth("I moved to Lisbon last March.")


def test_an_assistant_turn_with_something_new_is_worth_more_than_its_filler():
    known = dict.fromkeys(terms("You are welcome! Let me know whether anything else would help."), 40)
    statistics = ScopeStatistics(50, known)
    new = worth("Booked flight TP1234 to Lisbon, confirmation QX7R2.", role="assistant", statistics=statistics)
    assert new > worth(
        "You are welcome! Let me know whether anything else would help.", role="assistant", statistics=statistics
    )


def test_a_first_memory_of_an_empty_scope_is_new_in_every_term():
    """With n = 0 and df = 0 the rarity is log(1.5 / 0.5) over itself: 1. Four terms give 4 / 25 and density 1."""
    found = signals(
        "granite harbour violet lantern",
        ["granit", "harbour", "violet", "lantern"],
        role="user",
        statistics=ScopeStatistics(),
    )
    assert found["information"] == pytest.approx(4 / 25)
    assert found["density"] == pytest.approx(1.0)


def test_rarity_is_worked_out_from_the_scope_of_the_memory():
    """98.5 memories' worth of odds: log(100 / 9.5) / log(100 / 0.5) = 0.4443 for a term in 9 of 98.5 memories."""
    statistics = ScopeStatistics(98, {"harbour": 9})
    found = signals("harbour", ["harbour"], role="user", statistics=statistics)
    rarity = math.log(99.5 / 9.5) / math.log(99.5 / 0.5)
    assert found["information"] == pytest.approx(rarity / 25)
    assert found["density"] == pytest.approx(rarity / 3)  # one word alone is not a dense text


def test_saying_what_the_scope_has_often_said_is_worth_less():
    text = "The harbour lantern was violet."
    often = ScopeStatistics(200, dict.fromkeys(terms(text), 150))
    rarely = ScopeStatistics(200, dict.fromkeys(terms(text), 2))
    assert worth(text, statistics=often) < worth(text, statistics=rarely) < worth(text, statistics=ScopeStatistics(200))


def test_cues_of_one_kind_stop_counting_at_the_limit():
    dates = " ".join(f"I left on {day} May." for day in range(1, 21))
    found = signals(dates, terms(dates), role="user", statistics=ScopeStatistics())
    assert found["when"] == found["number"] == found["self"] == CUE_LIMIT


def test_numbers_and_names_in_code_are_nobodys_facts():
    plain = "I cannot get this to run."
    code = "I cannot get this to run.\n```python\nWidth = 320\nHeight = 200\nreturn Width * Height\n```"
    got = signals(code, [], role="user", statistics=ScopeStatistics())
    assert got == signals(plain, [], role="user", statistics=ScopeStatistics())


def test_a_capital_at_the_start_of_a_sentence_is_not_a_name():
    found = signals("Harbours freeze. Lanterns break. We saw Ines.", [], role="user", statistics=ScopeStatistics())
    assert found["name"] == 1.0


@pytest.mark.parametrize(
    ("statement", "question"),
    [
        ("J'ai 34 ans et je travaille comme infirmier à Lyon depuis 2019.", "Comment ça va ?"),
        ("Мне 34 года, я работаю медсестрой в Казани с 2019 года.", "Как дела?"),
        ("先週、京都で古い時計を買いました。", "お元気ですか？"),
        ("عمري 34 عاما وأعمل ممرضا في حلب منذ 2019", "كيف حالك؟"),
    ],
)
def test_another_language_is_ordered_by_density_numbers_and_question_marks(statement, question):
    assert worth(statement) > worth(question)


def test_a_language_without_cue_words_still_falls_when_it_repeats_itself():
    text = "Danke, das klingt gut!"
    assert worth(text, statistics=ScopeStatistics(100, dict.fromkeys(terms(text), 60))) < worth(text)


texts = st.text(max_size=300) | st.text(alphabet="Iaé我了?？!. ,\n`'’3①٣", max_size=300)
statistics_of_a_scope = st.builds(
    ScopeStatistics,
    memories=st.integers(0, 10**9),
    document_frequency=st.dictionaries(st.text(max_size=4), st.integers(0, 10**9), max_size=5),
)


@given(texts, st.sampled_from(["user", "assistant", "tool", "", "Ada"]), statistics_of_a_scope)
def test_any_text_in_any_scope_is_a_number_in_0_to_1_and_the_same_twice(text, role, statistics):
    """Also where the counts contradict each other: more memories use a term than there are."""
    cut = terms(text)
    value = salience(text, cut, role=role, statistics=statistics)
    assert 0.0 <= value <= 1.0
    assert value == salience(text, list(cut), role=role, statistics=statistics)


@given(texts, st.sampled_from(["user", "assistant"]), statistics_of_a_scope)
def test_the_parts_are_those_of_the_table_and_their_sum_gives_the_salience(text, role, statistics):
    cut = terms(text)
    named = salience_parts(text, cut, role=role, statistics=statistics)
    assert list(named) == list(WEIGHTS)
    assert all(value == 0 or (value > 0) == (WEIGHTS[name] > 0) for name, value in named.items())
    total = sum(named.values())
    assert salience(text, cut, role=role, statistics=statistics) == pytest.approx(1 / (1 + math.exp(-total)))


@given(texts, st.lists(st.integers(0, 50), min_size=1, max_size=5))
def test_a_term_never_makes_a_text_less_rare_by_being_used_less(text, counts):
    cut = terms(text)
    levels = [salience(text, cut, statistics=ScopeStatistics(50, dict.fromkeys(cut, df))) for df in sorted(counts)]
    assert levels == sorted(levels, reverse=True)


def test_an_empty_text_has_the_lowest_worth_of_the_base_alone():
    assert parts("")["base"] == WEIGHTS["base"]
    assert worth("") == pytest.approx(1 / (1 + math.exp(-WEIGHTS["base"])))


def test_a_megabyte_is_read_no_further_than_its_head():
    """What stands far behind the head changes nothing, so the cost of a huge text is that of its head."""
    head = "I moved to Lisbon last March. " + "harbour " * 2_000
    tail = head + "Ines was born on 3 May 1990. " * 40_000
    assert len(tail) > 2**20 or sys.getsizeof(tail) > 2**20
    assert worth(head) == worth(tail)


def test_the_statistics_are_only_read():
    counts = {"harbour": 3}
    worth("The harbour froze.", statistics=ScopeStatistics(9, counts))
    assert counts == {"harbour": 3}
