"""Explanations: the first byte that differs, what is lost with it, and what is volatile where it should not be."""

import copy
import operator
import random

import pytest

from shared_core.errors import InvalidInput
from shared_core.settings import Settings
from shared_core.short_term import Prompts
from shared_core.short_term.explain import explain
from shared_core.testing import FakeClock
from shared_core.testing.prompt_cache import PromptCache
from shared_core.testing.prompt_requests import conversation


def request(system="Be kind.", tools=(), messages=None, **more):
    return {
        "model": "claude-sonnet-5",
        "system": system,
        "tools": list(tools),
        "messages": messages if messages is not None else [{"role": "user", "content": "Hi"}],
        **more,
    }


def tool(name, text="does it"):
    return {"name": name, "description": text, "input_schema": {"type": "object"}}


def test_a_request_that_only_grew_lost_nothing():
    """Every byte of the earlier one is a prefix of the later one."""
    before = request()
    after = request(messages=[*before["messages"], {"role": "assistant", "content": "Hello"}])
    found = explain(after, before)
    assert (found.byte, found.level, found.invalidates) == (None, None, ())
    assert found.kept_bytes == len('{"text":"Be kind.","type":"text"}') + len('user:{"text":"Hi","type":"text"}')


def test_the_first_byte_that_differs_is_counted_over_tools_system_and_messages():
    """The system's text begins at byte 9 of its block and changes at its fourth letter."""
    found = explain(request(system="Be mild."), request(system="Be kind."))
    assert found.byte == len('{"text":"Be ')
    assert (found.level, found.path) == ("system", "system[0]")
    assert found.invalidates == ("system", "messages")
    assert "kind" in found.before
    assert "mild" in found.after
    assert str(found).startswith("byte 12, in system[0]")


def test_a_changed_tool_loses_everything():
    """The bytes before it stay."""
    found = explain(request(tools=[tool("a"), tool("b", "new")]), request(tools=[tool("a"), tool("b", "old")]))
    assert found.path == "tools[1] (b)"
    assert found.invalidates == ("tools", "system", "messages")


@pytest.mark.parametrize(
    ("now", "was"), [([tool("a"), tool("b")], [tool("a")]), ([tool("a")], [tool("a"), tool("b")]), ([tool("a")], [])]
)
def test_a_tool_that_joins_or_leaves_loses_the_tools(now, was):
    """Where one list ends earlier, the next level's first byte stands against the tool."""
    found = explain(request(tools=now), request(tools=was))
    assert found.level == "tools"
    assert found.invalidates == ("tools", "system", "messages")


def test_tools_in_another_order_are_named():
    """The advice is to sort them."""
    found = explain(request(tools=[tool("b"), tool("a")]), request(tools=[tool("a"), tool("b")]))
    assert found.level == "tools"
    assert any("another order" in warning for warning in found.warnings)


def test_an_edited_message_loses_what_follows_it():
    """Only the messages, from that byte on."""
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    found = explain(request(messages=[turns[0], {**turns[1], "content": "Hullo"}]), request(messages=turns))
    assert (found.level, found.path, found.invalidates) == ("messages", "messages[1].content[0]", ("messages",))


@pytest.mark.parametrize(
    ("setting", "level"),
    [("tool_choice", "messages"), ("thinking", "messages"), ("speed", "system"), ("model", "model")],
)
def test_a_changed_setting_is_named_with_the_level_it_loses(setting, level):
    """No byte differs, the prefix is lost all the same."""
    found = explain(request(**{setting: "other"}), request(**{setting: "one"}))
    assert (found.byte, found.level, found.path) == (None, level, setting)
    assert "messages" in found.invalidates


def test_keys_order_and_breakpoints_do_not_differ():
    """Only content does."""
    marked = [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]
    found = explain(request(messages=[{"role": "user", "content": marked}]), request())
    assert found.level is None


def call(**asked):
    return [{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": asked}]}]


@pytest.mark.parametrize(
    ("now", "was", "level", "path"),
    [
        ({"messages": call(a=1, b=2)}, {"messages": call(b=2, a=1)}, "messages", "messages[0].content[0]"),
        (
            {"tools": [{"name": "a", "input_schema": {"type": "object", "properties": {}}}]},
            {"tools": [{"name": "a", "input_schema": {"properties": {}, "type": "object"}}]},
            "tools",
            "tools[0] (a)",
        ),
    ],
)
def test_keys_of_a_tool_s_input_and_definition_in_another_order_are_named(now, was, level, path):
    """The provider reads them as they were sent; of a plan they are always in one order."""
    found = explain(request(**now), request(**was))
    assert (found.byte, found.level, found.path) == (None, level, path)
    assert found.warnings == (f"{path}: the same keys came in another order; sort them (a plan does)",)
    prompts = Prompts(settings=Settings(), clock=FakeClock(), scope_of=lambda _: "ada")
    plans = [prompts.plan(**request(**one), session="s") for one in (was, now)]
    assert explain(plans[1], plans[0]).level is None


@pytest.mark.parametrize("with_picture_last", [True, False])
def test_the_first_picture_and_the_last_to_leave_lose_the_messages(with_picture_last):
    """Wherever they stand; the system is kept."""
    turns = [{"role": "user", "content": "Hi"}]
    seen = [*turns, {"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}]
    old, new = (turns, seen) if with_picture_last else (seen, turns)
    found = explain(request(messages=new), request(messages=old))
    assert (found.byte, found.level, found.path, found.invalidates) == (None, "messages", "pictures", ("messages",))
    assert explain(request(messages=seen), request(messages=seen)).level is None


def test_a_setting_is_compared_as_it_is_sent():
    """The order of its keys is not, one and True are two things."""
    one, other, third = {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": True, "b": 2}
    assert explain(request(output_config=one), request(output_config=other)).level is None
    assert explain(request(output_config=one), request(output_config=third)).path == "output_config"


@pytest.mark.parametrize("seed", range(60))
def test_what_is_said_to_be_lost_is_what_the_simulator_loses(seed):
    """Of random conversations as they came: something is lost exactly if a prefix that both have is not the same."""
    cache, prev = PromptCache(clock=FakeClock()), None
    for given in conversation(random.Random(seed)):
        asked = copy.deepcopy(without_marks({**given, "volatile": None}))
        asked["tools"] = [tool for tool in asked.get("tools", []) if "defer_loading" not in tool]
        if prev is not None:
            before, after = cache.read(prev).keys, cache.read(asked).keys
            assert (explain(asked, prev).level is not None) == any(map(operator.ne, before, after))
        prev = asked


def without_marks(value):
    if isinstance(value, dict):
        return {name: without_marks(item) for name, item in value.items() if name != "cache_control"}
    return [without_marks(item) for item in value] if isinstance(value, list) else value


def test_half_a_character_is_compared_and_shown_as_far_as_it_can_be():
    """In a text as in a role: what was cut out of a stream is no reason to fail."""
    old = {**request(system="a \ud800 b"), "messages": [{"role": "user\ud800", "content": "x"}]}
    assert explain(old, old).level is None
    assert explain(request(system="a \ud800 c"), old).path == "system[0]"


@pytest.mark.parametrize("more", [{"tools": 5}, {"tools": [5]}, {"messages": [5]}, {"system": 5}])
def test_a_request_of_the_wrong_shape_is_named(more):
    with pytest.raises(InvalidInput, match=f"{next(iter(more))}: expected"):
        explain({**request(), **more})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("Today is 2026-10-17 14:03:22.", "a clock"),
        ("It is 14:03:22 now.", "a clock"),
        ("Time: 1760709802", "a clock"),
        ("Session 3f2b8c1a-9d4e-4f6a-8b7c-0a1b2c3d4e5f", "a random id"),
        ("Trace 9f86d081884c7d659a2feaa0c55ad015", "a random id"),
        ("<Tool object at 0x7f3a2c1b9d30>", "an object's address"),
    ],
)
def test_volatile_text_in_the_system_is_found(text, what):
    """With one request, and with the two that prove it changes."""
    assert what in explain(request(system=text)).warnings[0]


@pytest.mark.parametrize(
    "text", ["Released on 2026-10-17.", "Call 0800 123456.", "Use port 8080 at 10:30.", "deadbeef"]
)
def test_what_does_not_change_every_turn_is_not_blamed(text):
    """A date, a phone number, a time of day in minutes."""
    assert explain(request(system=text)).warnings == ()


def test_seconds_in_the_system_are_blamed_with_the_byte_where_they_differ():
    """Two renders of one template, a second apart."""
    found = explain(request(system="Now: 14:03:23. Be kind."), request(system="Now: 14:03:22. Be kind."))
    assert found.byte == len('{"text":"Now: 14:03:2')
    assert found.warnings == ("system[0]: a clock changes from request to request; move it behind the stable part",)


def test_what_is_no_request_is_refused():
    """A plan or a dict with messages."""
    with pytest.raises(InvalidInput, match="expected a plan or a dict with 'messages'"):
        explain({"model": "m"})


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("It is 14:03.", "It is 14:04.", "a clock"),
        ("Today is 2026-10-01.", "Today is 2026-10-02.", "a date"),
        ("Today is October 5, 2026.", "Today is October 6, 2026.", "a date"),
        ("Session req_01ABCxyz789.", "Session req_01ABDxyz789.", "a random id"),
    ],
)
def test_what_may_be_constant_is_named_only_once_it_changed(before, after, what):
    """Alone, an hour may be the office hours and a date a version; between two requests there is no doubt."""
    assert explain(request(before)).warnings == ()
    assert explain(request(after), request(before)).warnings == (
        f"system[0]: {what} changes from request to request; move it behind the stable part",
    )


def test_a_clock_that_stands_still_is_not_blamed_for_a_change_beside_it():
    """The opening hours are the same in both."""
    assert explain(request("Open 09:00 to 17:00. Kind."), request("Open 09:00 to 17:00. Kin.")).warnings == ()


def test_words_in_another_order_are_told_of():
    """A set or a dict that was printed as it came."""
    found = explain(request("Facts: b, a, c"), request("Facts: a, b, c"))
    assert found.warnings == ("system[0]: the same words came in another order; sort what it is made of",)
