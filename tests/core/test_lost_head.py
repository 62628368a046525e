"""A session whose last row is gone, or was edited by hand: it goes on from the newest message that is left."""

import sqlite3

import pytest


def edit(path, statement):
    db = sqlite3.connect(path)
    db.execute(statement)
    db.commit()
    db.close()


def said(context):
    return [message["content"] for message in context.history()]


def message(text, role="user"):
    return {"role": role, "content": text}


LOST = {
    "the row": ("DELETE FROM nodes WHERE row = (SELECT max(row) FROM nodes)", ["one", "two"]),
    "the place": ("UPDATE heads SET node = 'nobody'", ["one", "two", "three"]),
}


@pytest.fixture(params=LOST)
def left(request, open_memory, tmp_path):
    """A memory with a session that stands nowhere, and what is left of its messages."""
    with open_memory() as memory:
        memory.context("s").extend([message("one"), message("two", "assistant"), message("three")])
    statement, texts = LOST[request.param]
    edit(tmp_path / "memory.db", statement)
    return open_memory(), texts


def test_it_is_read_as_far_as_it_is_there_and_counted(left):
    memory, texts = left
    context = memory.context("s")
    assert said(context) == texts
    assert [m["content"] for m in context.window(1000)] == texts
    assert memory.stats()["long_term"]["unreadable_rows"] > 0


def test_what_is_appended_goes_on_from_there(left):
    memory, texts = left
    context = memory.context("s")
    context.append(message("four"))
    memory.turns.end([message("five")], session="s")
    assert said(context) == [*texts, "four", "five"]
    assert memory.rebuild_index().ok
    assert [hit.memory.text for hit in memory.recall("five", session="s")] == ["five"]


def test_it_can_be_edited_rewound_and_branched(left):
    memory, texts = left
    context = memory.context("s")
    here = context.snapshot()
    assert said(context.branch(here)) == texts
    context.edit(lambda before: [*before[:1], message("else")])
    assert said(context) == ["one", "else"]
    context.append(message("more"))
    assert said(context) == ["one", "else", "more"]


def test_a_session_of_which_nothing_is_left_begins_anew(open_memory, tmp_path):
    with open_memory() as memory:
        memory.context("s").append(message("one"))
    edit(tmp_path / "memory.db", "DELETE FROM nodes")
    context = open_memory().context("s")
    assert (said(context), context.window(100)) == ([], [])
    context.append(message("two"))
    assert said(context) == ["two"]


def test_a_branch_that_lost_its_own_messages_goes_on_from_where_it_began(open_memory, tmp_path):
    with open_memory() as memory:
        context = memory.context("s")
        context.append(message("one"))
        branch = context.branch(context.snapshot(), session="b")
        branch.append(message("two"))
        context.append(message("three"))
    edit(tmp_path / "memory.db", "DELETE FROM nodes WHERE session = 'b'")
    branch = open_memory().context("b")
    branch.append(message("four"))
    assert said(branch) == ["one", "four"]
