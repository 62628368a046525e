"""When two writes are the same memory, and what becomes of it then."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core import TieredMemory
from shared_core.storage.base import Source
from shared_core.text import near_identical, signature


def test_the_same_text_strengthens_the_live_memory(memory, clock):
    first = memory.remember("I like tea.", tags=["x"], metadata={"a": 1})
    clock.advance(60)
    again = memory.remember("  i LIKE\n tea. ", tags=["y"], metadata={"b": 2})
    assert (again.id, again.text, again.created_at, again.at) == (first.id, "I like tea.", first.created_at, first.at)
    assert (again.access_count, again.last_accessed) == (1, clock.now)
    assert (again.tags, again.metadata) == (("x", "y"), {"a": 1, "b": 2})
    assert memory.long_term.list() == [again]


@pytest.mark.parametrize("other", [{"scope": "bob"}, {"role": "assistant"}, {"speaker": "Bob"}, {"id": "own"}])
def test_another_scope_role_speaker_or_an_id_of_its_own_is_another_memory(memory, other):
    first = memory.remember("I like tea.")
    assert memory.remember("I like tea.", **other).id != first.id
    assert memory.get(first.id).access_count == 0


def test_width_and_case_are_folded_and_accents_and_punctuation_are_not(memory):
    first = memory.remember("Ｔｅａ")
    assert memory.remember("tea").id == first.id
    assert memory.remember("téa").id != first.id
    assert memory.remember("tea!").id != first.id


def test_every_session_it_was_said_in_is_kept_and_a_write_outside_one_shows_it_everywhere(memory):
    tier = memory.long_term
    for session, node in (("s", "n1"), ("t", "n2")):
        tier.remember_under([({"text": "tea", "session": session}, Source(session, node))], scope="ada")

    def sources():
        with tier._store.current("ada") as index:
            return set(index.sources.get(0, ()))

    assert sources() == {Source("s", "n1"), Source("t", "n2")}
    memory.remember("tea")
    assert sources() == set()
    tier.remember_under([({"text": "tea"}, Source("u", "n3"))], scope="ada")
    assert sources() == set()


def test_a_replayed_message_is_counted_once(memory):
    item = ({"text": "tea"}, Source("s", "n1"))
    for _ in range(3):
        (kept,) = memory.long_term.remember_under([item], scope="ada")
    assert kept.access_count == 0


def test_a_memory_with_an_id_of_its_own_is_found_by_a_write_without_one(memory):
    memory.remember("I like tea.", id="own")
    assert memory.remember("I like tea.").id == "own"


def test_many_writers_of_one_text_leave_one_memory(open_memory):
    one, other = open_memory(), open_memory()
    for _ in range(3):
        one.remember("tea")
        other.remember("tea")
    assert [(kept.text, kept.access_count) for kept in one.long_term.list()] == [("tea", 5)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["tea", "Tea", "TEA ", "wine", "ｗｉｎｅ", "café", "cafe"]), max_size=8))
def test_writing_one_by_one_or_all_at_once_is_the_same(texts):
    def kept(write):
        with TieredMemory.open(":memory:", embedder="none", default_scope="a", clock=lambda: 1.0) as memory:
            write(memory)
            return [(item.text, item.access_count) for item in memory.long_term.list()]

    assert kept(lambda memory: [memory.remember(text) for text in texts]) == kept(
        lambda memory: memory.remember_many([{"text": text} for text in texts])
    )


@given(st.text(max_size=60), st.text(max_size=60))
def test_being_near_identical_is_mutual_and_holds_for_oneself(one, other):
    assert near_identical(signature(one), signature(one))
    assert near_identical(signature(one), signature(other)) == near_identical(signature(other), signature(one))


LONG = "word " * 3 + " ".join(f"thing{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(120))


@pytest.mark.parametrize(
    ("change", "same"),
    [("", True), (" again", True), (" 5", False), (" not", False), (" seven", False), (" 三", False), (" 不", False)],
)
def test_long_texts_may_differ_in_a_word_but_not_in_a_number_or_a_negation(change, same):
    assert near_identical(signature(LONG), signature(LONG + change)) is same


def test_texts_longer_than_a_book_chapter_are_not_compared_word_by_word(open_memory):
    """They would take longer to compare than to read: both are shown, though one word in 20 000 differs."""
    memory = open_memory()
    texts = {f"{'some words of it ' * 5_000}{end}" for end in ("here", "there")}
    for text in texts:
        memory.remember(text)
    assert {hit.memory.text for hit in memory.recall("words", k=9)} == texts


def test_short_texts_that_differ_in_a_word_are_not_near_identical():
    assert not near_identical(signature("Ada likes green tea"), signature("Ada likes black tea"))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("The field has 10² rows.", "The field has 102 rows.", False),
        ("Take 1½ cups.", "Take 11⁄2 cups.", False),
        ("Step 1① is done.", "Step 11 is done.", False),
        ("CO₂ rises.", "CO2 rises.", True),
        ("Donau\u00addampf\u200bschiff", "Donaudampfschiff", True),
        ("Cafe\u0301", "ＣＡＦÉ", True),
        ("می\u200cخواهم", "میخواهم", False),  # what joins no letters is written for a reason
    ],
)
def test_a_raised_number_is_none_of_the_digits_before_it_and_what_nobody_sees_makes_no_other_text(
    open_memory, one, other, same
):
    memory = open_memory()
    assert (memory.remember(one).id == memory.remember(other).id) is same
    assert len(memory.recall(one, k=9)) == (1 if same else 2)
    assert memory.recall(other, k=1)[0].parts["lexical"] == 1.0
