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
