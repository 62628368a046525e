"""Several writers in the log of one session: each goes back alone, and nobody's live turns are lost to recall."""

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core import TieredMemory
from shared_core.mid_term.writers import Move, gone_back
from shared_core.storage.base import LogNode
from shared_core.storage.sqlite.schema import APPLICATION_ID, MIGRATIONS
from shared_core.testing import FakeClock


@pytest.fixture
def memory(tmp_path):
    with TieredMemory.open(tmp_path / "m.db", default_scope="ada", embedder="none", clock=FakeClock()) as opened:
        yield opened


class Writer:
    """A conversation of its own on session "s": what it shows, and where the log stood after each of its turns."""

    def __init__(self, memory, key):
        self.memory, self.key, self.shown, self.head = memory, key, [], None

    def say(self, text):
        """One turn, as an adapter takes it; a mark to go back to."""
        before = (list(self.shown), self.head)
        self.memory.turns.rejoin(self.shown, head=self.head, session="s", writer=self.key)
        turn = [{"role": "user", "content": text, "id": text}]
        self.memory.turns.end(turn, session="s", writer=self.key)
        self.shown.append(text)
        self.head = self.memory.context("s").snapshot()
        return before

    def mark(self):
        return list(self.shown), self.head

    def go(self, mark):
        self.shown, self.head = list(mark[0]), mark[1]


def said(memory):
    return [m["content"] for m in memory.context("s").history()]


def recalled(memory):
    return {hit.memory.text for hit in memory.recall("", session="s", k=1000)}


def test_two_writers_leave_each_others_messages_where_they_are(memory):
    a, b = Writer(memory, "a"), Writer(memory, "b")
    for writer, text in [(a, "cat"), (b, "dog"), (a, "bird"), (b, "fish"), (a, "cow")]:
        writer.say(text)
    assert said(memory) == ["cat", "dog", "bird", "fish", "cow"]
    assert memory.storage.logs.rewound("ada") == {}
    assert recalled(memory) == {"cat", "dog", "bird", "fish", "cow"}


def test_who_goes_back_leaves_only_its_own_later_messages(memory):
    a, b = Writer(memory, "a"), Writer(memory, "b")
    a.say("cat")
    first = a.mark()
    for writer, text in [(b, "dog"), (a, "bird"), (b, "fish"), (a, "cow")]:
        writer.say(text)
    a.go(first)
    a.say("hen")
    assert said(memory) == ["cat", "dog", "fish", "hen"]
    assert recalled(memory) == {"cat", "dog", "fish", "hen"}


def test_what_was_left_behind_comes_back_when_it_is_taken_up_again_and_the_others_stay(memory):
    a, b = Writer(memory, "a"), Writer(memory, "b")
    a.say("cat")
    first = a.mark()
    b.say("dog")
    a.say("bird")
    second = a.mark()
    a.go(first)
    a.say("hen")
    b.say("fish")
    a.go(second)
    a.say("owl")
    assert said(memory) == ["cat", "dog", "bird", "fish", "owl"]
    assert recalled(memory) == {"cat", "dog", "bird", "fish", "owl"}


def test_each_goes_back_though_the_other_has_gone_back_before(memory):
    a, b = Writer(memory, "a"), Writer(memory, "b")
    a.say("cat")
    first = a.mark()
    b.say("dog")
    one = b.mark()
    a.say("bird")
    b.say("fish")
    a.go(first)
    a.say("hen")  # "fish" is repeated after "dog" now, and "dog" stands where it stood
    b.go(one)
    b.say("crab")
    a.say("owl")
    assert said(memory) == ["cat", "dog", "hen", "crab", "owl"]
    assert recalled(memory) == {"cat", "dog", "hen", "crab", "owl"}


def test_a_message_that_is_repeated_for_another_who_went_back_is_no_new_message(memory):
    """Ended again, found by the handle it had, and sized once more for the window."""
    a, b = Writer(memory, "a"), Writer(memory, "b")
    a.say("cat")
    first = a.mark()
    a.say("bird")
    b.say("dog")
    handle = memory.context("s").snapshot()
    a.go(first)
    a.say("hen")
    memory.turns.end([{"role": "user", "content": "dog", "id": "dog"}], session="s", writer="b")
    assert said(memory) == ["cat", "dog", "hen"]
    assert memory.context("s").message(handle)["content"] == "dog"
    assert [m["content"] for m in memory.context("s").window(1000)] == ["cat", "dog", "hen"]
    memory.context("s").rewind(handle)
    assert said(memory) == ["cat", "bird", "dog"]


def test_messages_that_nobody_signed_are_never_left_behind_by_one_who_signs(memory):
    a = Writer(memory, "a")
    a.say("cat")
    first = a.mark()
    a.say("bird")
    memory.turns.end([{"role": "user", "content": "from elsewhere", "id": "x"}], session="s")
    a.go(first)
    a.say("hen")
    assert said(memory) == ["cat", "from elsewhere", "hen"]


def test_what_one_agent_hands_on_to_the_next_is_logged_once(memory):
    turn = [{"role": "user", "content": "hello", "id": "1"}, {"role": "assistant", "content": "hi", "id": "2"}]
    memory.turns.end(turn, session="s", writer="a")
    memory.turns.end([*turn, {"role": "assistant", "content": "hi too", "id": "3"}], session="s", writer="b")
    assert said(memory) == ["hello", "hi", "hi too"]


def test_an_id_that_comes_again_with_another_text_is_another_message(memory):
    for text in ("first", "second"):
        memory.turns.end([{"role": "user", "content": text, "id": "1"}], session="s", writer="a")
    assert said(memory) == ["first", "second"]


def test_a_file_from_before_there_were_writers_opens_and_nothing_in_it_is_left_behind(tmp_path):
    db = sqlite3.connect(tmp_path / "old.db")
    for statement in MIGRATIONS[0]:
        db.execute(statement)
    db.execute("INSERT INTO bodies VALUES ('ada', x'01', ?)", ('{"role": "user", "content": "old", "id": "old"}',))
    db.execute(
        "INSERT INTO nodes (scope, id, session, depth, hash, created_at) VALUES ('ada', 'n', 's', 1, x'01', 0.0)"
    )
    db.execute("INSERT INTO heads (scope, session, node) VALUES ('ada', 's', 'n')")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute("PRAGMA user_version = 1")
    db.commit()
    db.close()
    with TieredMemory.open(tmp_path / "old.db", default_scope="ada", embedder="none") as memory:
        a = Writer(memory, "a")
        start = a.say("cat")
        a.say("bird")
        a.go(([*start[0], "cat"], None))
        a.say("hen")
        assert said(memory) == ["old", "cat", "hen"]
        assert memory.check().ok


def node(id, writer, origin=None):
    return LogNode(id, None, 1, {}, 0.0, writer, origin)


@pytest.mark.parametrize(
    ("path", "stood", "move"),
    [
        ("a1 b1 a2", "a1 b1 a2", None),  # it is there
        ("a1 a2 b1", "a1 a2", None),  # the others went on
        ("a1 a2", "a1", Move("a1", ())),
        ("a1 a2", "", Move(None, ())),
        ("a1 b1 a2 b2", "a1", Move("b1", ("b2",))),  # as far as the paths agree nothing is repeated
        ("a1 b1 a3 b2", "a1 b1 a2", Move("a2", ("b2",))),
        ("a1 b2", "a1 b1 a2", Move("a1", ("a2", "b2"))),  # b1 was left behind by its own writer
    ],
)
def test_where_a_log_goes_on_after_one_of_two_went_back(path, stood, move):
    path, stood = ([node(id, id[0]) for id in given.split()] for given in (path, stood))
    found = gone_back(path, stood, lambda one: one.writer == "a")
    assert (found and Move(found.stem, tuple(one.id for one in found.carried))) == move


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), max_size=14))
def test_the_log_holds_of_each_writer_what_it_shows_whatever_the_others_did(steps):
    """A step is (who, n): n = 0 is a new turn, another goes back (or on) to the n-th last point it was at first."""
    with TieredMemory.open(":memory:", default_scope="ada", embedder="none", clock=FakeClock()) as memory:
        writers = {key: Writer(memory, key) for key in "abc"}
        marks = {key: [] for key in "abc"}
        for number, (who, back) in enumerate(steps):
            writer = writers[who]
            if back and marks[who]:
                writer.go(marks[who][-min(back, len(marks[who]))])
            writer.say(f"{who} {number}")
            marks[who].append(writer.mark())
            shown = {text for one in writers.values() for text in one.shown}
            # One that went back is followed when it says something: all the others stand where they stood.
            assert {text for text in said(memory) if text[0] == who} == set(writer.shown)
            assert set(said(memory)) == shown
            assert recalled(memory) == shown
            for one in writers.values():
                assert [text for text in said(memory) if text[0] == one.key] == one.shown
