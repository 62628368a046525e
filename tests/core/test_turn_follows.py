"""A turn that is ended twice, a prompt that shows its past, a conversation that goes back: the log and recall follow."""

import pytest

from shared_core import InvalidInput, TieredMemory
from shared_core.testing import FakeClock


@pytest.fixture
def memory(tmp_path):
    with TieredMemory.open(tmp_path / "m.db", default_scope="ada", embedder="none", clock=FakeClock()) as opened:
        yield opened


def message(id, text, role="user"):
    return {"role": role, "content": text, "id": id}


def said(memory):
    return [m["content"] for m in memory.context("s").history()]


def test_a_turn_ended_twice_is_logged_and_remembered_once(memory):
    turn = [message("1", "I take my coffee black."), message("2", "Noted.", "assistant")]
    assert len(memory.turns.end(turn, session="s")) == 2
    assert memory.turns.end(turn, session="s") == []
    assert said(memory) == ["I take my coffee black.", "Noted."]
    assert [m.access_count for m in memory.long_term.list()] == [0, 0]


def test_messages_without_ids_are_said_again_when_they_are_said_again(memory):
    for _ in range(2):
        memory.turns.end([{"role": "user", "content": "yes"}], session="s")
    assert said(memory) == ["yes", "yes"]


def test_texts_that_the_prompt_shows_are_not_recalled_on_top(memory):
    memory.remember("I take my coffee black.")
    memory.remember("Coffee is for the morning.")
    turn = memory.turns.begin("coffee", shown_texts=["i take  my coffee BLACK."])
    assert [hit.memory.text for hit in turn.hits] == ["Coffee is for the morning."]


def test_the_last_messages_of_a_log(memory):
    context = memory.context("s")
    context.extend([message(str(n), str(n)) for n in range(4)])
    assert [m["content"] for m in context.history(last=2)] == ["2", "3"]
    assert context.history(last=0) == []
    assert len(context.history(last=9)) == 4
    with pytest.raises(InvalidInput):
        context.history(last=-1)


def test_a_log_goes_back_to_the_last_message_that_is_still_shown(memory):
    memory.context("s").extend([message(str(n), str(n)) for n in range(4)])
    assert memory.turns.rejoin(["0", "1", "new"], session="s") is True
    assert said(memory) == ["0", "1"]
    assert memory.turns.rejoin(["0", "1"], session="s") is False


def test_a_log_goes_to_the_snapshot_it_stood_at_also_off_its_path(memory):
    context = memory.context("s")
    context.extend([message("0", "a"), message("1", "b")])
    first = context.snapshot()
    context.extend([message("2", "c")])
    second = context.snapshot()
    assert memory.turns.rejoin(["0", "1"], head=first, session="s") is True
    assert said(memory) == ["a", "b"]
    context.extend([message("3", "d")])
    assert memory.turns.rejoin(["0", "1", "2"], head=second, session="s") is True
    assert said(memory) == ["a", "b", "c"]


def test_nothing_moves_for_strangers_and_for_another_writers_messages(memory):
    context = memory.context("s")
    assert memory.turns.rejoin(["x"], session="s") is False
    context.extend([message("0", "a"), message("1", "b")])
    assert memory.turns.rejoin(["unknown"], session="s") is False
    context.extend([{"role": "user", "content": "from elsewhere"}])
    assert memory.turns.rejoin(["0", "1"], session="s") is False
    assert said(memory) == ["a", "b", "from elsewhere"]


def test_a_rewind_drops_the_results_of_tools_that_go_back_with_it(memory):
    ran = []
    memory.tools.register("board", rewinds=True)
    memory.tools.register("weather")
    context = memory.context("s")
    start = context.snapshot()
    context.append(message("0", "a"))
    for _ in range(2):
        for name in ("board", "weather"):
            memory.tools.call(name, {}, lambda name=name: ran.append(name))
        context.rewind(start)
    assert ran == ["board", "weather", "board"]


def test_what_was_said_about_a_tool_can_be_read(memory):
    memory.tools.register("weather", ttl=10.0)
    assert memory.tools.policy("weather").ttl == 10.0
    assert memory.tools.policy("unknown") is None


def test_a_cache_that_belongs_to_no_one_is_reached_by_a_forget_in_any_scope(memory):
    request = {"model": "m", "messages": [message("0", "hi")]}
    answer = {"choices": [{"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]}
    memory.responses.share("common")
    for scope in ("common", "apart"):
        memory.responses.put(request, answer, scope=scope)
        assert memory.responses.get(request, scope=scope)
    memory.forget(memory.remember("a secret", scope="bob").id, scope="bob")
    assert not memory.responses.get(request, scope="common")
    assert memory.responses.get(request, scope="apart")
