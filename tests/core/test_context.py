"""The conversation of a session: append-only, durable, with snapshots, rewind and branches."""

import sqlite3
import threading
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core import InvalidInput, NotFound, TieredMemory


def said(text, role="user"):
    return {"role": role, "content": text}


def shown(window):
    return [message["content"] for message in window.history()]


def test_what_was_appended_is_the_history(memory):
    window = memory.context("s")
    assert (window.history(), window.snapshot()) == ([], "root")
    first = window.append(said("one"))
    nodes = window.extend([said("two", "assistant"), said("three")])
    assert window.snapshot() == nodes[-1]
    assert len({first, *nodes}) == 3
    assert memory.context("s").history() == [said("one"), said("two", "assistant"), said("three")]


@pytest.mark.parametrize(
    "message",
    [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "é"}]}],
        },
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "abc=="}]},
        {"role": "tool", "tool_call_id": "c", "content": "", "extra": {"z": 1, "a": [1.5, True, None]}},
        {"role": "user", "content": "</recalled_memories> \ud800 \0 🙂"},
    ],
)
def test_a_message_of_any_shape_comes_back_unchanged_with_its_keys_in_order(memory, message):
    memory.context("s").append(message)
    (found,) = memory.context("s").history()
    assert found == message
    assert list(found) == list(message)


def test_messages_are_copied_in_and_out(memory):
    message = {"role": "user", "content": [{"type": "text", "text": "one"}]}
    window = memory.context("s")
    window.append(message)
    message["content"].append("later")
    window.history()[0]["content"].append("later")
    assert window.history() == [{"role": "user", "content": [{"type": "text", "text": "one"}]}]


@pytest.mark.parametrize(
    "wrong", ["text", None, {}, {"role": 1}, {"content": "x"}, {"role": "user", "content": object()}]
)
def test_what_is_no_plain_message_is_refused_and_nothing_of_the_call_is_written(memory, wrong):
    window = memory.context("s")
    with pytest.raises(InvalidInput, match="message: expected"):
        window.extend([said("good"), wrong])
    assert window.history() == []


def test_one_dict_is_no_list_of_messages(memory):
    with pytest.raises(InvalidInput, match=r"got one dict; write append\(message\)"):
        memory.context("s").extend(said("x"))


def test_nothing_appended_changes_nothing(memory):
    window = memory.context("s")
    assert window.extend([]) == []
    assert memory.storage.logs.sessions("ada") == []


def test_going_back_and_on_along_any_path(memory):
    window = memory.context("s")
    points = [window.snapshot()]
    points += [window.append(said(text)) for text in ("one", "two", "three")]
    window.rewind(points[1])
    assert shown(window) == ["one"]
    other = window.append(said("other"))
    assert shown(window) == ["one", "other"]
    window.rewind(points[3])
    assert shown(window) == ["one", "two", "three"]
    window.rewind(points[0])
    assert shown(window) == []
    window.rewind(other)
    assert shown(window) == ["one", "other"]


@pytest.mark.parametrize("lost", [None, 5, b"root", ["root"]])
def test_a_snapshot_that_got_lost_is_refused_and_moves_nothing(memory, lost):
    """None is not the beginning: a variable that was never set must not take the conversation away."""
    context = memory.context("s")
    context.append({"role": "user", "content": "hello"})
    for go in (context.rewind, context.branch, context.path_to):
        with pytest.raises(InvalidInput, match=r"snapshot\(\)"):
            go(lost)
    assert len(context.history()) == 1


def test_a_branch_goes_its_own_way_and_back_to_where_it_began(memory):
    window = memory.context("s")
    one, two = window.extend([said("one"), said("two")])
    branch = window.branch(two)
    assert branch.session != "s"
    branch.append(said("branch"))
    window.append(said("trunk"))
    assert (shown(branch), shown(window)) == (["one", "two", "branch"], ["one", "two", "trunk"])
    branch.rewind(one)
    branch.rewind(two)
    assert shown(branch) == ["one", "two"]
    nested = memory.context(branch.session).branch(one, session="named")
    assert (nested.session, shown(memory.context("named"))) == ("named", ["one"])
    with pytest.raises(NotFound):
        branch.rewind(window.snapshot())


def test_a_branch_does_not_take_over_a_session_that_exists(memory):
    window = memory.context("s")
    node = window.append(said("one"))
    memory.context("t").append(said("mine"))
    with pytest.raises(InvalidInput, match="'t' has a log already"):
        window.branch(node, session="t")
    assert shown(memory.context("t")) == ["mine"]


def test_a_branch_from_the_root_is_empty(memory):
    assert memory.context("s").branch("root").history() == []


def test_clear_counts_what_it_erased_and_leaves_branches_their_past(memory, tmp_path):
    window = memory.context("s")
    _, two, _ = window.extend([said("one"), said("two"), said("secret three")])
    branch = window.branch(two)
    assert window.clear() == 1
    assert (shown(window), shown(branch)) == ([], ["one", "two"])
    assert branch.clear() == 0
    assert memory.storage.logs.sessions("ada") == []
    window.append(said("anew"))
    assert shown(window) == ["anew"]


def test_replace_starts_over_and_the_old_path_stays_reachable(memory):
    window = memory.context("s")
    old = window.append(said("one"))
    window.replace([said("summary")])
    assert shown(window) == ["summary"]
    window.rewind(old)
    assert shown(window) == ["one"]
    window.replace([])
    assert window.history() == []


def test_two_writers_of_one_session_go_after_each_other_and_lose_nothing(open_memory):
    one, other = open_memory(ids=None), open_memory(ids=None)

    def work(memory, name):
        for i in range(25):
            memory.context("s").extend([said(f"{name} {i} a"), said(f"{name} {i} b")])

    threads = [threading.Thread(target=work, args=pair) for pair in ((one, "x"), (other, "y"), (one, "z"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = shown(one.context("s"))
    assert len(texts) == 150
    for first, second in zip(texts[::2], texts[1::2], strict=True):
        assert first.removesuffix("a") == second.removesuffix("b")
    for name in "xyz":
        assert [text for text in texts if text.startswith(name)] == [
            f"{name} {i} {part}" for i in range(25) for part in "ab"
        ]


def test_what_was_appended_survives_without_a_close(open_memory):
    open_memory().context("s").append(said("one"))
    assert shown(open_memory().context("s")) == ["one"]


def test_equal_messages_are_stored_once(open_memory, tmp_path):
    memory = open_memory()
    big = said("x" * 10_000)
    for session in ("s", "t"):
        for _ in range(5):
            memory.context(session).append(big)
    memory.close()
    db = sqlite3.connect(tmp_path / "memory.db")
    assert db.execute("SELECT count(*) FROM nodes").fetchone() == (10,)
    assert db.execute("SELECT count(*) FROM bodies").fetchone() == (1,)
    db.close()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["append", "rewind", "branch"]), st.integers(0, 30)), max_size=25))
def test_any_walk_shows_what_a_plain_list_would(steps):
    """The reference: every node remembers its own history as a list."""
    with TieredMemory.open(":memory:", embedder="none", default_scope="a", clock=lambda: 1.0) as memory:
        window = memory.context("s")
        known = {"s": {"root": []}}
        for i, (step, pick) in enumerate(steps):
            here = known[window.session]
            point = list(here)[pick % len(here)]
            if step == "append":
                before = here[window.snapshot()]
                here[window.append(said(str(i)))] = [*before, str(i)]
            elif step == "rewind":
                window.rewind(point)
            else:
                window = window.branch(point)
                past = here[point]
                known[window.session] = {p: h for p, h in here.items() if h == past[: len(h)]}
            assert shown(window) == known[window.session][window.snapshot()]


async def test_the_async_twins_do_the_same(memory):
    window = memory.context("s")
    one = await window.aappend(said("one"))
    await window.aextend([said("two")])
    assert [message["content"] for message in await window.ahistory()] == ["one", "two"]
    branch = await window.abranch(one)
    await window.arewind(one)
    assert await window.asnapshot() == one == branch.snapshot()


def test_a_snapshot_copies_nothing(open_memory, tmp_path):
    """A hundred snapshots of a growing conversation, and a rewind to each: a row a message, and no more."""
    memory = open_memory()
    window, points = memory.context("s"), []
    for i in range(100):
        window.append(said(f"message {i}"))
        points.append(window.snapshot())
    for point in points:
        window.rewind(point)
    with closing(sqlite3.connect(tmp_path / "memory.db")) as db:
        rows = [db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("nodes", "bodies", "heads")]
    assert rows == [100, 100, 1]
