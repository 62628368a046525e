"""The window by hand: where it begins, what is shortened, what is counted, what it costs."""

import sqlite3
from contextlib import closing

import pytest

from shared_core import Context, InvalidInput, NotFound, Settings, StorageError
from shared_core.messages import without_thinking
from shared_core.mid_term.sizing import Sizing, counter_name
from shared_core.mid_term.window import first_turn
from shared_core.text import estimate_tokens


def words(text):
    return len(text.split())


def said(text, role="user"):
    return {"role": role, "content": text}


def turn(n, size=10):
    """A turn of ``size`` words in two messages."""
    return [said(f"u{n} " + "w " * (size // 2 - 1)), said(f"a{n} " + "w " * (size - size // 2 - 1), "assistant")]


def names(window):
    return [message["content"].split()[0] for message in window]


@pytest.fixture
def counted(open_memory):
    return open_memory(settings=Settings(count_tokens=words, recall_tokens=20))


@pytest.mark.parametrize(
    ("begins", "total", "first", "left_at"),
    [
        ([0, 30, 60, 90], 100, 0, None),  # room 100, a step is 50: all fits
        ([0, 30, 60, 90], 101, 2, 100),  # those that began in [0, 50) leave at 100
        ([0, 30, 60, 90, 120], 150, 2, 100),
        ([0, 30, 60, 90, 120], 151, 4, 150),  # [50, 100) leave at 150
        ([0, 50], 101, 1, 100),  # 50 begins the second step
        ([0, 49], 101, 1, 100),  # and the last turn stays whatever it takes
        ([0], 1000, 0, None),
        ([0, 10], 1000, 1, 100),
        ([0, 10, 105], 110, 1, 100),  # at 100 the turn from 10 on was still going on: it stays while it fits
        ([0, 10, 105], 111, 2, 110),
        ([0, 10, 140], 141, 2, 140),  # it did not fit any more when the next one began
        ([0, 10, 60, 105], 106, 2, 100),  # one that had ended leaves with its step
    ],
)
def test_turns_leave_by_steps_of_half_the_room(begins, total, first, left_at):
    assert first_turn(begins, total, 100) == (first, left_at)


@pytest.mark.parametrize("room", [0, -30, 1])
def test_without_room_only_the_last_turn_is_left(room):
    assert first_turn([0, 10, 20], 30, room)[0] == 2
    assert first_turn([0, 10, 20], 21, room)[0] == 2


def test_a_window_of_a_growing_conversation(counted):
    """Turns of 10 words under 40: at 41 words those that began in the first 20 leave, at 61 the next ones."""
    context = counted.context("s")
    shown = []
    for n in range(7):
        context.extend(turn(n))
        shown.append(names(context.window(40))[::2])
    assert shown == [
        ["u0"], ["u0", "u1"], ["u0", "u1", "u2"], ["u0", "u1", "u2", "u3"], ["u2", "u3", "u4"], ["u2", "u3", "u4", "u5"],
        ["u4", "u5", "u6"],
    ]  # fmt: skip


def test_system_messages_stand_first_wherever_they_were_said_and_stay_under_any_pressure(counted):
    context = counted.context("s")
    context.extend([said("be kind", "system"), *turn(0), said("be brief", "developer"), *turn(1), *turn(2)])
    assert names(context.window(24)) == ["be", "be", "u1", "a1", "u2", "a2"]
    assert names(context.window(0)) == ["be", "be", "u2", "a2"]
    context.rewind(context.append(said("and wise", "system")))
    assert [m["content"] for m in context.window(10_000)][:3] == ["be kind", "be brief", "and wise"]
    counted.context("t").append(said("alone", "system"))
    assert names(counted.context("t").window(100)) == ["alone"]


def test_what_exceeds_the_limit_alone_is_returned_counted_and_logged(counted, caplog):
    context = counted.context("s")
    context.extend([*turn(0), *turn(1, 50)])
    assert names(context.window(49)) == ["u1", "a1"]
    assert counted.stats()["mid_term"]["context"] == {"windows": 1, "over_limit": 1, "count_failures": 0}
    assert "'s': the system messages and the last turn take about 50 tokens, more than the limit of 49" in caplog.text
    assert names(context.window(50)) == ["u1", "a1"]
    assert counted.stats()["mid_term"]["context"]["over_limit"] == 1


@pytest.mark.parametrize("limit", [-1, 1.5, "9", None, True])
def test_a_limit_is_a_whole_number(memory, limit):
    with pytest.raises(InvalidInput, match="max_tokens: expected"):
        memory.context("s").window(limit)
    with pytest.raises(InvalidInput, match="max_tokens: expected"):
        memory.turns.window("s", limit)


def test_an_empty_conversation_has_an_empty_window(memory):
    assert memory.context("s").window(100) == []
    memory.context("s").append(said("hello", "assistant"))
    assert memory.context("s").window(100) == [], "the first message a model reads is a user's"


def test_empty_messages_are_not_shown(memory):
    context = memory.context("s")
    context.extend([said("q"), said("", "assistant"), said(None, "assistant"), said(""), said("a", "assistant")])
    assert context.window(1000) == [said("q"), said("a", "assistant")]


def test_the_room_for_recalled_memories_is_taken_off_first_whatever_is_recalled(counted):
    context = counted.context("s")
    for n in range(9):
        counted.turns.end(turn(n), session="s")
        assert counted.turns.window("s", 60) == context.window(40)
    assert len(counted.turns.begin("u1 w", session="s").hits) > 0
    assert counted.turns.window("s", 60) == context.window(40)
    assert names(counted.turns.window("s", 0)) == ["u8", "a8"], "less room than the reserve is none"


def test_a_long_tool_output_is_shown_by_its_ends_and_fetched_whole(open_memory):
    memory = open_memory(settings=Settings(tool_output_characters=300))
    output = "".join(f"line {i:04}\n" for i in range(1000))
    shapes = [
        [said("q"), {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f"}}]},
         {"role": "tool", "tool_call_id": "c", "content": output}],
        [said("q"), {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": output}]}],
        [said("q"), {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [
             {"type": "text", "text": output[:5000]}, {"type": "image", "source": {}}, {"type": "text", "text": output[5000:]}]}]}],
    ]  # fmt: skip
    for i, messages in enumerate(shapes):
        context = memory.context(f"s{i}")
        *_, node = context.extend(messages)
        shown = context.window(10_000)[-1]
        text = str(shown)
        assert len(text) < 700
        assert "line 0000" in text
        assert "line 0999" in text
        assert f"characters left out; the whole output is message {node} …]" in text
        assert context.message(node) == messages[-1]
        assert context.history() == messages
        assert context.window(10_000)[-1] == shown
        assert ("'image'" in text) == (i == 2)


def test_a_tool_output_takes_at_most_half_the_limit_in_any_language(open_memory):
    memory = open_memory()
    for i, word in enumerate(("tea and wine ", "茶和酒很好")):
        context = memory.context(f"s{i}")
        context.extend([
            said("q"), {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f"}}]},
            {"role": "tool", "tool_call_id": "c", "content": word * 1400},
        ])  # fmt: skip
        shown = context.window(4_000)[-1]["content"]
        assert estimate_tokens(context.history()[-1]["content"]) > 4_000
        assert 1_950 < estimate_tokens(shown) < 2_050
    assert memory.stats()["mid_term"]["context"]["over_limit"] == 0


def test_what_is_said_is_never_shortened(open_memory):
    context = open_memory(settings=Settings(tool_output_characters=1)).context("s")
    context.extend([said("w " * 5000), said("w " * 5000, "assistant")])
    assert context.window(10) == context.history()


def test_a_message_is_found_on_any_path_of_its_session_and_on_no_other(memory):
    context = memory.context("s")
    first = context.append(said("one"))
    left = context.append(said("two"))
    context.rewind(first)
    assert context.message(left) == said("two")
    assert context.branch(first).message(first) == said("one")
    for other in (context.branch(first), memory.context("t"), memory.context("s", scope="bob")):
        with pytest.raises(NotFound):
            other.message(left)
    with pytest.raises(NotFound):
        context.message("nobody")


def test_an_abandoned_branch_can_be_taken_up_again_and_left_again(counted):
    context = counted.context("s")
    nodes = [context.extend(turn(n))[-1] for n in range(6)]
    there = context.window(40)
    context.rewind(nodes[1])
    here = context.window(40)
    assert names(here) == ["u0", "a0", "u1", "a1"]
    context.extend(turn(7))
    beside = (context.snapshot(), context.window(40))
    context.rewind(nodes[5])
    assert context.window(40) == there
    context.rewind(nodes[1])
    assert context.window(40) == here
    context.rewind(beside[0])
    assert context.window(40) == beside[1]
    assert names(beside[1])[-2:] == ["u7", "a7"]


def test_another_process_shows_the_same_window_and_counts_nothing(open_memory):
    asked = []

    def counter(text):
        asked.append(text)
        return words(text)

    for memory in (open_memory(settings=Settings(count_tokens=counter)) for _ in range(2)):
        context = memory.context("s")
        if not asked:
            for n in range(20):
                context.extend(turn(n))
            first = context.window(55)
        assert context.window(55) == first
    assert len(asked) == 40


def test_another_counter_counts_each_message_once_more_and_the_first_keeps_its_counts(open_memory):
    asked = {"words": 0, "letters": 0}

    def count_words(text):
        asked["words"] += 1
        return words(text)

    def count_letters(text):
        asked["letters"] += 1
        return len(text)

    one = open_memory(settings=Settings(count_tokens=count_words)).context("s")
    other = open_memory(settings=Settings(count_tokens=count_letters)).context("s")
    for n in range(5):
        one.extend(turn(n))
        other.extend(turn(n))
    for _ in range(3):
        assert names(one.window(20)) == ["u4", "a4", "u4", "a4"]
        assert names(other.window(50)) == ["u4", "a4", "u4", "a4"]
    assert asked == {"words": 20, "letters": 20}


def test_a_counter_is_known_by_where_it_comes_from_and_what_it_holds():
    def made(factor):
        return lambda text: factor * len(text)

    assert counter_name(made(1)) == counter_name(made(1))
    assert counter_name(made(1)) != counter_name(made(2))
    assert counter_name(words) != counter_name(len)
    assert counter_name(words) == counter_name(words)


@pytest.mark.parametrize("lost", ["bodies WHERE body LIKE '%two%'", "nodes WHERE depth = 2"])
def test_a_log_that_lost_a_message_still_has_a_window(open_memory, tmp_path, lost):
    memory = open_memory()
    memory.context("s").extend([said("one"), said("two"), said("three"), said("four", "assistant")])
    db = sqlite3.connect(tmp_path / "memory.db")
    db.execute("DELETE FROM sizes")
    db.execute(f"DELETE FROM {lost}")
    db.commit()
    db.close()
    assert names(memory.context("s").window(1000))[-2:] == ["three", "four"]


@pytest.mark.parametrize("failure", [ValueError("no"), "not a number", -1, float("nan")])
def test_a_counter_that_fails_costs_no_message(open_memory, failure):
    def counter(_text):
        if isinstance(failure, Exception):
            raise failure
        return failure

    memory = open_memory(settings=Settings(count_tokens=counter))
    memory.context("s").append(said("hello"))
    assert memory.context("s").window(100) == [said("hello")]
    assert memory.stats()["mid_term"]["context"]["count_failures"] == 1


def test_snapshots_of_a_growing_conversation_cost_a_row_each(open_memory, tmp_path):
    """400 snapshots of a conversation of 400 messages; a copy each would be 80 200 messages."""
    memory = open_memory()
    context = memory.context("s")
    snapshots = []
    for n in range(400):
        context.append(said(f"message {n} " + "w " * 100))
        snapshots.append(context.snapshot())
        context.window(2_000)
    for snapshot in snapshots[::40]:
        context.branch(snapshot)
        context.rewind(snapshot)
    memory.close()
    db = sqlite3.connect(tmp_path / "memory.db")
    rows = {
        table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("nodes", "bodies", "sizes", "heads")
    }
    assert rows == {"nodes": 400, "bodies": 400, "sizes": 400, "heads": 11}
    db.close()


def test_what_is_erased_takes_its_sizes_along(open_memory, tmp_path):
    memory = open_memory()
    memory.context("s").extend([said("one"), said("two")])
    memory.context("s").edit(lambda before: before[:1])
    memory.context("t").append(said("three"))
    memory.context("t").clear()
    memory.close()
    db = sqlite3.connect(tmp_path / "memory.db")
    assert db.execute("SELECT count(*) FROM sizes").fetchone() == (1,)
    db.close()


def test_a_window_reads_the_end_of_the_log_and_not_the_rest(counted, tmp_path):
    """A message before the window that cannot be read any more is not missed."""
    context = counted.context("s")
    for n in range(60):
        context.extend(turn(n))
    window = context.window(40)
    db = sqlite3.connect(tmp_path / "memory.db")
    db.execute("UPDATE bodies SET body = '{' WHERE hash IN (SELECT hash FROM nodes ORDER BY row LIMIT 100)")
    db.commit()
    db.close()
    assert context.window(40) == window
    assert counted.stats()["long_term"]["unreadable_rows"] == 0


def test_messages_that_cannot_be_read_are_left_out_of_a_window_and_counted(open_memory, tmp_path):
    memory = open_memory()
    memory.context("s").extend([said("one"), said("two", "assistant"), said("three"), said("four", "assistant")])
    db = sqlite3.connect(tmp_path / "memory.db")
    db.execute("UPDATE bodies SET body = '{' WHERE body LIKE '%two%'")
    db.execute("DELETE FROM sizes")
    db.commit()
    db.close()
    assert names(memory.context("s").window(1000)) == ["one", "three", "four"]
    assert memory.stats()["long_term"]["unreadable_rows"] > 0


class ReadOnly:
    """The logs of a file that can only be read."""

    def __init__(self, logs):
        self._logs = logs

    def __getattr__(self, name):
        return getattr(self._logs, name)

    def resize(self, *_):
        raise StorageError("read-only")


def test_a_file_that_can_only_be_read_has_windows_too(open_memory):
    """What another counter left uncounted is counted for this once."""
    written = open_memory().context("s")
    for n in range(30):
        written.extend(turn(n))
    memory = open_memory(settings=Settings(count_tokens=words))
    context = Context(
        ReadOnly(memory.storage.logs), "s", scope="ada", clock=lambda: 0.0, ids=str, sizing=Sizing(memory.settings)
    )
    shown = context.window(35)
    assert names(shown)[-2:] == ["u29", "a29"]
    assert shown == memory.context("s").window(35)


def test_a_thought_is_kept_until_the_prompt_before_it_changes(counted):
    context = counted.context("s")
    thought = {"type": "thinking", "thinking": "hm " * 3, "signature": "sig"}
    answers = []
    for n in range(5):
        answers.append(said([thought, {"type": "text", "text": f"a{n} b"}], "assistant"))
        context.extend([said(f"u{n} " + "w " * 4), answers[-1]])
        if n == 3:
            assert context.window(40)[1::2] == answers
    # with the 41st word, a user's, the turns of the first 20 left, and what was thought before that with them
    assert context.window(40)[1::2] == [*(without_thinking(m) for m in answers[2:4]), answers[4]]
    context.extend([said("u5 " + "w " * 4), answers[0]])
    assert context.window(40)[1::2] == [*(without_thinking(m) for m in answers[2:4]), answers[4], answers[0]]


async def test_the_async_twins_do_the_same(counted):
    context = counted.context("s")
    node = await context.aappend(said("one"))
    assert await context.awindow(100) == [said("one")] == await counted.turns.awindow("s", 120)
    assert await context.amessage(node) == said("one")


@pytest.mark.parametrize("body", ["7", "[]", "null", '"x"', '{"content": 1}'])
def test_a_body_that_another_hand_wrote_is_passed_over(open_memory, tmp_path, body):
    with open_memory() as memory:
        memory.context("s").extend([{"role": "user", "content": "one"}, {"role": "user", "content": "two"}])
    with closing(sqlite3.connect(tmp_path / "memory.db")) as db:
        db.execute("UPDATE bodies SET body = ? WHERE body LIKE '%one%'", (body,))
        db.execute("DELETE FROM sizes")
        db.commit()
    assert [m.get("content") for m in open_memory().context("s").window(1000)][-1] == "two"
