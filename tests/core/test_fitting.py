"""``turns.fit``: the window of a conversation that a framework keeps is the window of the same conversation in the log."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core import InvalidInput, Settings, TieredMemory
from shared_core.testing import FakeClock


def words(text):
    return len(text.split())


def opened():
    own = Settings(count_tokens=words, recall_tokens=0, tool_output_characters=300)
    return TieredMemory.open(":memory:", default_scope="ada", embedder="none", clock=FakeClock(), settings=own)


turns = st.lists(
    st.tuples(st.integers(1, 30), st.lists(st.integers(1, 200), max_size=3), st.integers(1, 30)),
    min_size=1,
    max_size=12,
)


def conversation(drawn):
    """Each turn: a question of some words, tool calls with outputs of some words, an answer."""
    messages = [{"role": "system", "content": "be brief"}]
    for n, (question, outputs, answer) in enumerate(drawn):
        messages.append({"role": "user", "content": "q " * question})
        for i, output in enumerate(outputs):
            id = f"{n}-{i}"
            call = {"type": "tool_use", "id": id, "name": "read", "input": {}}
            messages.append({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, call]})
            result = {"type": "tool_result", "tool_use_id": id, "content": "out " * output}
            messages.append({"role": "user", "content": [result]})
        messages.append({"role": "assistant", "content": "a " * answer})
    return [{**message, "id": f"{n:032}"} for n, message in enumerate(messages)]  # as long as those of the log


def without_handles(messages):
    """A shortened output names the message it was cut from, which has another name in the log."""
    text = [str(message) for message in messages]
    return [t.split("the whole output is message")[0] for t in text]


@given(turns, st.integers(0, 300))
@settings(max_examples=60, deadline=None)
def test_it_is_the_window_of_the_same_messages_in_the_log(drawn, limit):
    messages = conversation(drawn)
    with opened() as memory:
        memory.context("s").extend(messages)
        logged = memory.turns.window("s", limit)
        fitted = memory.turns.fit(messages, limit)
    assert without_handles(m for _, m in fitted) == without_handles(logged)
    places = [place for place, _ in fitted]
    assert places == sorted(places)
    assert all(messages[place]["role"] == message["role"] for place, message in fitted)


def test_what_is_given_is_not_changed_and_what_is_shown_whole_is_equal_to_it():
    messages = conversation([(3, [250], 3), (3, [], 3)])
    before = copy.deepcopy(messages)
    with opened() as memory:
        fitted = memory.turns.fit(messages, 10_000)
    assert messages == before
    assert [place for place, _ in fitted] == list(range(len(messages)))
    assert [message for place, message in fitted if place != 3] == [m for i, m in enumerate(messages) if i != 3]
    assert f"the whole output is message {messages[3]['id']}" in str(fitted[3][1])


def test_the_room_for_recalled_memories_is_kept_free():
    own = Settings(count_tokens=words, recall_tokens=50)
    messages = conversation([(10, [], 10)] * 6)
    with (
        TieredMemory.open(":memory:", default_scope="ada", embedder="none", settings=own) as memory,
        opened() as plain,
    ):
        assert memory.turns.fit(messages, 130) == plain.turns.fit(messages, 80) != plain.turns.fit(messages, 130)


def test_a_limit_is_a_number_of_tokens_and_windows_are_counted():
    with opened() as memory:
        with pytest.raises(InvalidInput, match="max_tokens"):
            memory.turns.fit([], -1)
        memory.turns.fit([{"role": "user", "content": "one two three"}], 1)
        found = memory.stats()["mid_term"]["context"]
    assert (found["windows"], found["over_limit"]) == (1, 1)
