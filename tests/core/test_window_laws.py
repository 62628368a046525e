"""What holds for every window of every conversation at every limit, in Anthropic and in OpenAI shape."""

import itertools
import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared_core import Settings, TieredMemory
from shared_core.messages import count_message
from tests.core.conversations import calls_of, conversations, faults, results_of, thoughts_of

LIMITS = st.integers(0, 400)


def count(text):
    return len(text.split())


def open_memory(count_tokens=count, **options):
    numbers = itertools.count()
    return TieredMemory.open(
        ":memory:", embedder="none", default_scope="a", clock=lambda: 1.0, ids=lambda: f"n{next(numbers)}",
        settings=Settings(count_tokens=count_tokens, **options),
    )  # fmt: skip


def tokens(messages):
    return sum(count_message(message, count) for message in messages)


def is_system(message):
    return message["role"] in ("system", "developer")


def last_turn(messages):
    talk = [message for message in messages if not is_system(message)]
    start = max((i for i, m in enumerate(talk) if m["role"] == "user" and not results_of(m)), default=len(talk))
    return talk[start:]


def windows(messages, limit):
    """The window after every message, each from the log as it then stood."""
    with open_memory() as memory:
        context = memory.context("s")
        for message in messages:
            context.append(message)
            yield context.window(limit)


@settings(max_examples=150, deadline=None)
@given(conversations(), LIMITS)
def test_a_window_is_valid_at_every_step_and_limit(messages, limit):
    for window in windows(messages, limit):
        assert faults(window) == []


@settings(max_examples=150, deadline=None)
@given(conversations(damaged=True), LIMITS)
def test_a_window_is_valid_whatever_is_missing_from_the_log_or_stands_there_twice(messages, limit):
    with open_memory() as memory:
        memory.context("s").extend(messages)
        assert faults(memory.context("s").window(limit)) == []


@settings(max_examples=150, deadline=None)
@given(conversations(), LIMITS)
def test_a_window_keeps_within_the_limit_unless_system_and_last_turn_alone_exceed_it(messages, limit):
    for i, window in enumerate(windows(messages, limit), 1):
        past = messages[:i]
        systems = [message for message in past if is_system(message)]
        assert [m for m in window if is_system(m)] == systems
        if tokens(window) > limit:
            assert tokens([*systems, *last_turn(past)]) > limit
            assert [m for m in window if not is_system(m)] == last_turn(window)


@settings(max_examples=150, deadline=None)
@given(conversations(), LIMITS)
def test_a_window_is_an_end_of_the_conversation_without_gaps(messages, limit):
    """Nothing is reordered, altered or left out in the middle, but thinking and calls that still wait."""
    plain = [without_thoughts(message) for message in messages if not is_system(message)]
    with open_memory() as memory:
        memory.context("s").extend(messages)
        shown = [without_thoughts(m) for m in memory.context("s").window(limit) if not is_system(m)]
    assert shown == plain[len(plain) - len(shown) :]
    assert shown


def without_thoughts(message):
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": [block for block in content if block["type"] != "thinking"]}


@settings(max_examples=200, deadline=None)
@given(conversations(systems=False), LIMITS)
def test_between_steps_a_window_only_grows_at_its_end(messages, limit):
    """Where the first message stays the same, the earlier window is a prefix of the later one, byte for byte."""
    for before, after in itertools.pairwise(windows(messages, limit)):
        if before and after[0] == before[0]:
            assert json.dumps(after).startswith(json.dumps(before)[:-1])


@settings(max_examples=200, deadline=None)
@given(conversations(systems=False, shape="anthropic"), LIMITS)
def test_a_thought_stands_behind_the_very_prompt_it_was_made_for_or_is_left_out_whole(messages, limit):
    """What a model thought is signed over what it had read: under another prefix a provider may refuse it."""
    made_for = {}
    prompt = []
    for message, window in zip(messages, windows(messages, limit), strict=True):
        for thought in thoughts_of(message):
            made_for[thought["signature"]] = prompt
        prompt = window
        for i, shown in enumerate(window):
            for thought in thoughts_of(shown):
                assert thought["thinking"] in thought["signature"] or thought["thinking"].startswith("hm")
                assert window[:i] == made_for[thought["signature"]]


@settings(max_examples=100, deadline=None)
@given(conversations(shape="anthropic"), LIMITS)
def test_thinking_from_before_a_new_system_message_is_left_out(messages, limit):
    with open_memory() as memory:
        memory.context("s").extend([*messages, {"role": "system", "content": "new"}])
        assert not any(map(thoughts_of, memory.context("s").window(limit)))


@settings(max_examples=100, deadline=None)
@given(conversations(), LIMITS)
def test_parallel_calls_stay_together_and_in_order(messages, limit):
    groups = [calls_of(message) for message in messages if calls_of(message)]
    for window in windows(messages, limit):
        assert all(calls_of(message) in groups for message in window if calls_of(message))


@settings(max_examples=60, deadline=None)
@given(conversations(), LIMITS, st.data())
def test_the_same_point_has_the_same_window_after_any_rewind_in_any_order_of_writing(messages, limit, data):
    with open_memory() as memory:
        context = memory.context("s")
        seen = [("root", []), *((context.append(message), context.window(limit)) for message in messages)]
        for node, window in data.draw(st.lists(st.sampled_from(seen), max_size=5)):
            context.rewind(node)
            assert context.window(limit) == window
            assert context.branch(node).window(limit) == window
    with open_memory() as memory:
        memory.context("s").extend(messages)
        assert memory.context("s").window(limit) == seen[-1][1]


@settings(max_examples=100, deadline=None)
@given(conversations(damaged=True), LIMITS)
@example([{"role": "user", "content": ""}, {"role": "assistant", "content": "hi"}], 5)
@example([{"role": "user", "content": "a"}, {"role": "user", "content": []}, {"role": "assistant", "content": None}], 0)
def test_reading_the_end_of_the_log_gives_what_reading_all_of_it_would(messages, limit):
    with open_memory() as memory:
        context = memory.context("s")
        context.extend(messages)
        found = context.window(limit)
        whole = type(context).window
        context._tail = lambda _: context._counted()
        assert whole(context, limit) == found
        assert faults(found) == []


@settings(max_examples=60, deadline=None)
@given(conversations(damaged=True), st.lists(LIMITS, max_size=4))
def test_each_message_is_counted_once_whatever_is_asked(messages, limits):
    asked = []
    with open_memory(lambda text: asked.append(text) or count(text)) as memory:
        context = memory.context("s")
        half = len(messages) // 2
        middle = context.extend(messages[:half])
        for limit in limits:
            context.window(limit)
        context.extend(messages[half:])
        for limit in limits:
            context.window(limit)
            context.rewind(middle[-1] if middle else "root")
            memory.turns.window("s", limit)
    assert len(asked) == len(messages)
