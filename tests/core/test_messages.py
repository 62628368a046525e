"""Plain messages: their calls and results in both shapes, what pairs, and what they cost."""

import pytest

from shared_core.messages import (
    IMAGE_TOKENS,
    count_message,
    is_empty,
    paired,
    starts_turn,
    tool_calls,
    tool_results,
    without_thinking,
)
from shared_core.text import estimate_tokens

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s=="}


def user(text):
    return {"role": "user", "content": text}


def said(text):
    return {"role": "assistant", "content": text}


def use(*ids, before=()):
    blocks = [{"type": "tool_use", "id": id, "name": "f", "input": {}} for id in ids]
    return {"role": "assistant", "content": [*before, *blocks]}


def result(*ids, after=()):
    return {
        "role": "user",
        "content": [*({"type": "tool_result", "tool_use_id": id, "content": id} for id in ids), *after],
    }


def call(*ids, content=None):
    calls = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def tool(id):
    return {"role": "tool", "tool_call_id": id, "content": id}


def text(words):
    return {"type": "text", "text": words}


def test_calls_and_results_are_read_in_both_shapes():
    assert tool_calls(use("a", "b")) == tool_calls(call("a", "b")) == ["a", "b"]
    assert tool_results(result("a", "b")) == ["a", "b"]
    assert tool_results(tool("a")) == ["a"]
    assert tool_calls(user("x")) == tool_results(said("x")) == tool_results(user("x")) == []


def test_a_call_that_is_written_in_both_places_is_one():
    assert tool_calls({**use("a"), "tool_calls": call("a")["tool_calls"]}) == ["a"]


def test_a_turn_starts_where_a_user_says_something():
    assert starts_turn(user("hi"))
    assert starts_turn(user([text("hi")]))
    for message in (user(""), user([]), said("hi"), result("a"), result("a", after=[text("hi")]), tool("a")):
        assert not starts_turn(message)


def test_a_tool_that_answers_nothing_has_answered():
    assert not is_empty({"role": "tool", "tool_call_id": "a", "content": ""})
    assert not is_empty(call("a"))
    assert is_empty(said(None))
    assert is_empty(user([]))


def test_thinking_is_left_out_and_what_has_none_is_the_same_object():
    redacted = {"type": "redacted_thinking", "data": "x"}
    assert without_thinking(said([THOUGHT, redacted, text("hi")])) == said([text("hi")])
    for message in (said("hi"), said([text("hi")]), user("hi")):
        assert without_thinking(message) is message


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param([user("q"), use("a", "b", before=[THOUGHT]), result("a", "b"), said("x")], None, id="whole"),
        pytest.param([user("q"), use("a", "b"), result("a"), result("b")], None, id="results in messages of their own"),
        pytest.param([user("q"), call("a", "b"), tool("b"), tool("a"), said("x")], None, id="in another order"),
        pytest.param([user("q"), use("a"), result("a", after=[text("and?")])], None, id="with words beside it"),
        pytest.param([user("q"), use("a"), result("a"), user("q"), use("a"), result("a")], None, id="an id used again"),
        pytest.param([tool("a"), user("q")], [user("q")], id="a result of no call"),
        pytest.param([result("a", after=[text("hi")])], [user([text("hi")])], id="and the words beside it stay"),
        pytest.param([user("q"), use("a", "b"), result("a"), user("r")], [user("q"), use("a"), result("a"), user("r")], id="one of two never came"),
        pytest.param([user("q"), call("a", "b"), tool("a"), user("r")], [user("q"), call("a"), tool("a"), user("r")], id="one of two, openai"),
        pytest.param([user("q"), call("a", content="wait"), user("r")], [user("q"), said("wait"), user("r")], id="its words stay"),
        pytest.param([user("q"), use("a", before=[THOUGHT]), user("r")], [user("q"), user("r")], id="nothing of it is left"),
        pytest.param([user("q"), use("a", "b", before=[THOUGHT]), result("a"), user("r")], [user("q"), use("a"), result("a"), user("r")], id="altered, so its thinking goes"),
        pytest.param([user("q"), use("a"), result("a"), result("a")], [user("q"), use("a"), result("a")], id="a second result"),
        pytest.param([user("q"), call("a"), tool("a"), tool("x"), said("y")], [user("q"), call("a"), tool("a"), said("y")], id="a stranger among them"),
        pytest.param([user("q"), use("a", "b", before=[text("wait")]), result("a")], [user("q")], id="still waiting, so all of it waits"),
        pytest.param([user("q"), call("a")], [user("q")], id="not answered yet"),
        pytest.param([user("q"), use("a", "b"), result("a", after=[text("go on")])], [user("q"), use("a"), result("a", after=[text("go on")])], id="the user went on"),
        pytest.param([user("q"), said("a"), tool("a")], [user("q"), said("a")], id="at the end"),
        pytest.param([user("q"), call("f", "f"), tool("f"), tool("f"), said("x")], None, id="two calls of one id"),
        pytest.param([user("q"), use("f", "f", "g"), result("f", "f", "g")], None, id="two calls of one id in blocks"),
        pytest.param([user("q"), call("f", "f"), tool("f"), tool("f"), tool("f"), user("r")], [user("q"), call("f", "f"), tool("f"), tool("f"), user("r")], id="and a third result"),
        pytest.param([user("q"), call("f", "f"), tool("f"), user("r")], [user("q"), call("f"), tool("f"), user("r")], id="one of two of one id never came"),
        pytest.param([user("q"), use("f", "f"), result("f"), user("r")], [user("q"), use("f"), result("f"), user("r")], id="nor in blocks"),
        pytest.param([user("q"), call("f", "f"), tool("f")], [user("q")], id="two of one id, still waiting"),
        pytest.param([user("q"), use(None, None), tool("f"), tool("f"), said("x")], None, id="calls without an id go by the name"),
        pytest.param([user("q"), call(None), tool("f"), said("x")], None, id="beside the content too"),
        pytest.param([user("q"), call(None), {**tool("u1"), "name": "g"}, said("x")], [user("q"), said("x")], id="by no result of another tool"),
        pytest.param([user("q"), call(None, None), tool("u1"), tool("u2"), said("x")], None, id="the results have ids that somebody made up"),
        pytest.param([user("q"), use("", ""), result("u1", "u2"), said("x")], None, id="made up, in blocks"),
        pytest.param([user("q"), call("a", None), {**tool("u1"), "name": "f"}, tool("a"), said("x")], None, id="one made up beside one of the model's"),
        pytest.param([user("q"), call(None), tool("u1"), tool("u2"), said("x")], [user("q"), call(None), tool("u1"), said("x")], id="one call has one result, the first"),
        pytest.param([user("q"), call(None), {**tool("u1"), "name": "g"}, {**tool("u2"), "name": "f"}, said("x")], [user("q"), call(None), {**tool("u2"), "name": "f"}, said("x")], id="the name says which"),
        pytest.param([user("q"), call(None, None), tool("u1")], [user("q")], id="made up, and one still waiting"),
        pytest.param([user("q"), call(None), user("r"), tool("u1")], [user("q"), user("r")], id="not beyond the user's next words"),
        pytest.param([user("q"), use(None, None), tool(""), tool(None), said("x")], None, id="nor has the result an id"),
        pytest.param([user("q"), call("", ""), tool(""), tool(""), tool(""), said("x")], [user("q"), call("", ""), tool(""), tool(""), said("x")], id="an empty id is none, and one result each"),
        pytest.param([user("q"), call("a", None), tool(""), tool("a"), said("x")], None, id="one call has an id and one has none"),
        pytest.param([user("q"), use(None, None), result(""), user("r")], [user("q"), use(None), result(""), user("r")], id="one of two without an id never came"),
        pytest.param([user("q"), call("a"), tool(""), user("r")], [user("q"), user("r")], id="a call with an id is not answered by a result without one"),
        pytest.param([user("q"), {**use("f", "f"), "tool_calls": call("f", "f")["tool_calls"]}, tool("f"), tool("f")], None, id="each in both places"),
    ],
)  # fmt: skip
def test_what_is_not_paired_is_left_out(given, kept):
    assert paired(given) == (given if kept is None else kept)


def words(text):
    return len(text.split())


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (user("three words here"), 3),
        (user([text("three words"), text("here")]), 3),
        (said(None), 0),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "find", "input": {"q": "tea and wine"}}]}, 6),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [text("two words")]}]}, 3),
        ({"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]}, 7),
        ({"role": "tool", "tool_call_id": "c1", "content": "two words"}, 3),
        (said([THOUGHT, text("yes")]), 2),
        (said([{"type": "thinking", "content": "three words here"}]), 3),
        (user([{"type": "image", "source": {"type": "base64", "data": "A" * 100_000}}, text("look here")]), IMAGE_TOKENS + 2),
        (user([{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}]), IMAGE_TOKENS),
        (user([{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "image", "source": {}}]}]), IMAGE_TOKENS + 1),
        (user([{"type": "document", "source": {"type": "base64", "data": ""}}]), IMAGE_TOKENS),
        (user([{"type": "document", "source": {"type": "text", "data": "one two three"}}]), 9),
        (said([{"type": "redacted_thinking", "data": "x" * 400}]), 100),
    ],
)  # fmt: skip
def test_a_message_costs_what_it_says_calls_and_shows(message, tokens):
    assert count_message(message, words) == tokens


def test_a_file_costs_by_its_size():
    page, book = (
        count_message(user([{"type": "document", "source": {"type": "base64", "data": "A" * size}}]), words)
        for size in (10_000, 3_200_000)
    )
    assert page == IMAGE_TOKENS
    assert book == pytest.approx(100_000, rel=0.001)


def test_the_estimate_does_not_undercount_arguments_or_chinese():
    """By hand: each Chinese character is three bytes, two tokens; a key and its value cost their marks too."""
    arguments = {"question": "茶和酒", "limit": 10}
    message = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": arguments}]}
    assert count_message(message, estimate_tokens) >= 3 * 2 + 2 + 1 + 1 + 8
    assert count_message(user("茶和酒"), estimate_tokens) == 6


def test_a_message_is_one_call_of_the_counter():
    asked = []
    message = {**use("a", "b", before=[THOUGHT, text("x"), text("y")]), "tool_calls": call("c")["tool_calls"]}
    count_message(message, lambda text: asked.append(text) or 1)
    assert len(asked) == 1


ODD = [None, 7, 0, True, "x", 1.5, {}, {"id": 7}, [7], [None], [{"id": None}], [{"type": ["x"]}], [{"type": "tool_use"}],
       [{"type": "tool_result", "tool_use_id": {"a": 1}, "content": 7}], [{"type": "text", "text": 7}]]  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("field", ["content", "tool_calls", "tool_call_id", "id", "name"])
def test_what_is_no_call_and_no_content_is_passed_over_and_never_an_error(field, odd):
    hostile = {"role": "assistant", "content": "hi", field: odd}
    after = [{"role": "tool", "tool_call_id": "c", "content": odd}, {"role": "user", "content": "go on"}]
    assert paired([hostile, *after])[-1] == {"role": "user", "content": "go on"}
    assert count_message(hostile, len) >= 0
    assert tool_results({**hostile, "role": "user"}) is not None


def test_calls_that_are_no_list_leave_the_message_as_it_is():
    assert paired([{"role": "assistant", "content": "hi", "tool_calls": 7}]) == [
        {"role": "assistant", "content": "hi", "tool_calls": 7}
    ]
