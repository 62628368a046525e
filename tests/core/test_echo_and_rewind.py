"""What a conversation sees of memory: not what its own turn wrote, and only what lies on its current path."""

import pytest

from shared_core import NotFound, Settings, TieredMemory
from shared_core.storage.base import Source


def said(role, text):
    return {"role": role, "content": text}


def seen(memory, session=None, query="where does Ada live?", **view):
    return {hit.memory.text for hit in memory.recall(query, session=session, k=50, **view)}


def tell(memory, text, session="s", **facts):
    """Write one memory under a new node at the head of the session, as the end of a turn does."""
    node = memory.context(session).append(said("user", text))
    (kept,) = memory.long_term.remember_under(
        [({"text": text, "session": session, **facts}, Source(session, node))], scope="ada"
    )
    return kept


def test_what_a_turn_wrote_itself_is_not_recalled_to_it(memory):
    memory.remember("Ada lives in Paris.")
    written = memory.turns.end([said("user", "Where do I live?")], session="s")
    block = memory.turns.begin("Where do I live?", session="s", exclude=[item.id for item in written]).block
    assert "Paris" in block
    assert "Where do I live?" not in block


def test_the_story_of_a_rewind(memory):
    window = memory.context("s")
    tell(memory, "Ada lives in Paris.")
    before = window.snapshot()
    tell(memory, "Ada lives in Rome.")
    contradicted = window.snapshot()
    assert seen(memory, "s") == {"Ada lives in Paris.", "Ada lives in Rome."}
    window.rewind(before)
    assert seen(memory, "s") == {"Ada lives in Paris."}
    tell(memory, "Ada plays chess.")
    assert seen(memory, "s") == {"Ada lives in Paris.", "Ada plays chess."}
    window.rewind(contradicted)
    assert seen(memory, "s") == {"Ada lives in Paris.", "Ada lives in Rome."}
    window.rewind("root")
    assert seen(memory, "s") == set()


def test_the_story_of_a_rewind_through_whole_turns(open_memory):
    """Tell a fact, branch off, contradict it, rewind: the first is recalled, the second not; resumed, it is back.

    The window shows the last turn alone, so that what was told can only come from recall.
    """
    memory = open_memory(settings=Settings(recall_tokens=200))

    def turn(session, text):
        block = memory.turns.begin(text, session=session, shown_texts=[text]).block
        memory.turns.end([said("user", text), said("assistant", "I see.")], session=session)
        assert [m["content"] for m in memory.turns.window(session, 200)] == [text, "I see."]
        return block

    turn("s", "I live in Paris.")
    told = memory.context("s").snapshot()
    turn("s", "No, I live in Rome now.")
    contradicted = memory.context("s").snapshot()
    memory.context("s").rewind(told)
    assert memory.turns.window("s", 200) == [said("user", "I live in Paris."), said("assistant", "I see.")]
    block = turn("s", "Where do I live?")
    assert "Paris" in block
    assert "Rome" not in block
    memory.context("s").rewind(contradicted)
    assert memory.turns.window("s", 200)[0] == said("user", "No, I live in Rome now.")
    assert "Rome" in turn("s", "Where do I live now?")
    branch = memory.context("s").branch(told)
    block = turn(branch.session, "Do I live where?")
    assert "Paris" in block


def test_every_session_is_seen_on_its_own_path_from_anywhere(memory):
    window = memory.context("s")
    tell(memory, "Ada lives in Paris.")
    before = window.snapshot()
    tell(memory, "Ada lives in Rome.")
    window.rewind(before)
    tell(memory, "Ada works in Bern.", session="t")
    for session in (None, "s", "t", "never seen"):
        assert seen(memory, session) == {"Ada lives in Paris.", "Ada works in Bern."}


def test_a_memory_written_directly_is_seen_whatever_is_rewound(memory):
    window = memory.context("s")
    start = window.snapshot()
    tell(memory, "Ada lives in Paris.")
    memory.remember("Ada plays chess.", session="s")
    window.rewind(start)
    assert seen(memory, "s") == {"Ada plays chess."}


def test_a_merged_memory_is_seen_where_any_of_its_sources_is(memory):
    window = memory.context("s")
    start = window.snapshot()
    one = tell(memory, "Ada lives in Paris.")
    first = window.snapshot()
    window.rewind(start)
    assert seen(memory, "s") == set()
    assert tell(memory, "Ada lives in Paris.").id == one.id
    assert seen(memory, "s") == {"Ada lives in Paris."}
    window.rewind(start)
    assert seen(memory, "s") == set()
    window.rewind(first)
    assert seen(memory, "s") == {"Ada lives in Paris."}
    window.rewind(start)
    assert tell(memory, "Ada lives in Paris.", session="t").id == one.id
    assert seen(memory, "s") == {"Ada lives in Paris."}


def test_a_write_outside_any_conversation_makes_a_memory_visible_everywhere_for_good(memory):
    window = memory.context("s")
    start = window.snapshot()
    tell(memory, "Ada lives in Paris.")
    window.rewind(start)
    memory.remember("Ada lives in Paris.")
    assert seen(memory, "s") == seen(memory) == {"Ada lives in Paris."}


def test_a_branch_sees_its_past_though_the_trunk_was_rewound(memory):
    window = memory.context("s")
    start = window.snapshot()
    tell(memory, "Ada lives in Paris.")
    branch = window.branch(window.snapshot())
    window.rewind(start)
    assert seen(memory, branch.session) == {"Ada lives in Paris."}
    assert seen(memory, "s") == set()
    tell(memory, "Ada plays chess.", session=branch.session)
    assert seen(memory, branch.session) == {"Ada lives in Paris.", "Ada plays chess."}


def test_a_supersession_on_an_abandoned_path_never_happened_there(memory):
    window = memory.context("s")
    tell(memory, "Ada lives in Paris.", subject="home")
    before = window.snapshot()
    tell(memory, "Ada lives in Rome.", subject="home")
    moved = window.snapshot()
    assert seen(memory, "s") == {"Ada lives in Rome."}
    window.rewind(before)
    assert seen(memory, "s") == {"Ada lives in Paris."}
    tell(memory, "Ada lives in Oslo.", subject="home")
    assert seen(memory, "s") == {"Ada lives in Oslo."}
    window.rewind(moved)
    assert seen(memory, "s") == {"Ada lives in Rome."}
    memory.remember("Ada lives in Bern.", subject="home")
    for point in (before, moved):
        window.rewind(point)
        assert seen(memory, "s") == {"Ada lives in Bern."}


def test_forgetting_is_never_undone_by_a_rewind(memory):
    window = memory.context("s")
    kept = tell(memory, "Ada lives in Paris.")
    point = window.snapshot()
    memory.forget(kept.id)
    window.rewind("root")
    window.rewind(point)
    assert seen(memory, "s") == set()


def test_a_rewind_in_another_process_is_seen_at_once(open_memory):
    one, other = open_memory(), open_memory()
    tell(one, "Ada lives in Paris.")
    assert seen(other, "s") == {"Ada lives in Paris."}
    one.context("s").rewind("root")
    assert seen(other, "s") == set()


def test_a_window_replaced_by_another_leaves_the_old_path_like_a_rewind(memory):
    window = memory.context("s")
    tell(memory, "Ada lives in Paris.")
    point = window.snapshot()
    window.replace([said("user", "a new start")])
    assert seen(memory, "s") == set()
    window.rewind(point)
    assert seen(memory, "s") == {"Ada lives in Paris."}


@pytest.mark.parametrize("bad", ["unknown", "s", ""])
def test_a_rewind_to_an_unknown_point_is_not_found_and_moves_nothing(memory, bad):
    window = memory.context("s")
    tell(memory, "Ada lives in Paris.")
    with pytest.raises(NotFound):
        window.rewind(bad)
    assert len(window.history()) == 1


def test_a_snapshot_on_an_abandoned_path_stays_valid_after_a_restart(open_memory):
    memory = open_memory()
    window = memory.context("s")
    tell(memory, "Ada lives in Paris.")
    point = window.snapshot()
    window.rewind("root")
    memory.close()
    again = open_memory()
    again.context("s").rewind(point)
    assert seen(again, "s") == {"Ada lives in Paris."}
    assert isinstance(again, TieredMemory)


def test_an_answer_that_only_repeats_what_it_recalled_strengthens_that_memory(memory):
    coffee = memory.remember("I take my coffee black.")
    turn = memory.turns.begin("How do I take my coffee?", session="s")
    said_now = [said("user", "How do I take my coffee?"), said("assistant", "You take your coffee black.")]
    question, answer = memory.turns.end(said_now, session="s", recalled=turn.ids)
    assert answer.id == coffee.id
    assert [one.text for one in memory.long_term.list()] == [question.text, coffee.text]
    assert memory.get(coffee.id).access_count == 2  # recalled, and said again
    assert memory.context("s").history() == said_now
    assert memory.stats()["long_term"]["echoes"] == 1


@pytest.mark.parametrize(
    "answer",
    [
        "You take your coffee black, and your tea with milk since the spring.",
        "You do not take your coffee black.",
        "You take your 2 coffees black.",
    ],
)
def test_an_answer_that_says_anything_else_is_kept_whole(memory, answer):
    memory.remember("I take my coffee black.")
    turn = memory.turns.begin("coffee", session="s")
    (kept,) = memory.turns.end([said("assistant", answer)], session="s", recalled=turn.ids)
    assert kept.text == answer
    assert kept.role == "assistant"


@pytest.mark.parametrize(
    ("told", "answer"),
    [
        ("Is my passport in the blue drawer?", "Your passport is in the blue drawer."),
        ("Turn the heating on at six.", "Turn the heating off at six."),
        ("The meeting is before lunch.", "The meeting is after lunch."),
        ("Ada is over 18.", "Ada is under 18."),
        ("I was a teacher.", "You are a teacher."),
        ("I can swim.", "You could swim."),
        ("It is 5 degrees.", "It is -5 degrees."),
        ("It costs $5.", "It costs €5."),
        ("Ich mag Fisch.", "Ich mag nicht Fisch."),
    ],
)
def test_what_turns_the_meaning_round_makes_another_text_for_answers_and_for_recall(memory, told, answer):
    old = memory.remember(told)
    (kept,) = memory.turns.end([said("assistant", answer)], session="s", recalled=[old.id])
    assert kept.id != old.id
    memory.remember(answer)
    assert {told, answer} <= {hit.memory.text for hit in memory.recall(told, k=9) if hit.memory.role == "user"}


@pytest.mark.parametrize(
    ("one", "other"),
    [("I owe you 5 dollars.", "You owe me 5 dollars."), ("Can you drive?", "Can I drive?"), ("我喜欢他", "我喜欢她")],
)
def test_who_a_text_is_about_is_no_detail_where_one_speaker_says_both(memory, one, other):
    memory.remember(one)
    memory.remember(other)
    assert {hit.memory.text for hit in memory.recall(one, k=9)} == {one, other}


def test_only_what_the_turn_recalled_can_be_echoed_and_only_by_the_assistant(memory):
    coffee = memory.remember("I take my coffee black.", speaker="Ada")
    (answer,) = memory.turns.end([said("assistant", "You take your coffee black.")], session="s")
    (told,) = memory.turns.end([said("user", "I take my coffee black!")], session="s", recalled=[coffee.id])
    assert len({coffee.id, answer.id, told.id}) == 3


def test_an_echo_is_found_among_several_messages_and_the_memories_keep_their_order(memory):
    coffee = memory.remember("I take my coffee black.")
    kept = memory.turns.end(
        [said("user", "coffee?"), said("assistant", "You take your coffee black."), said("user", "Right.")],
        session="s", recalled=[coffee.id, "gone"],
    )  # fmt: skip
    assert [one.text for one in kept] == ["coffee?", "I take my coffee black.", "Right."]


def test_a_followed_conversation_does_not_store_echoes_either(memory):
    coffee = memory.remember("I take my coffee black.")
    shown = [said("user", "coffee?"), said("assistant", "You take your coffee black.")]
    assert len(memory.turns.follow(shown, session="s", recalled=[coffee.id])) == 2
    assert {one.text for one in memory.long_term.list()} == {"I take my coffee black.", "coffee?"}
