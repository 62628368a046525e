"""What callers hand to a plan besides plain dicts: the SDK's own objects, iterators, breakpoints in odd places, bad values."""

import copy
import json
from collections import OrderedDict, UserDict
from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import get_args, get_type_hints

import pytest

from shared_core.errors import InvalidInput
from shared_core.settings import Settings
from shared_core.short_term import Prompts
from shared_core.short_term.rules import MARKABLE_KINDS
from shared_core.testing import FakeClock
from shared_core.testing.prompt_cache import BadRequest, PromptCache

MODEL = "claude-sonnet-5"
LONG = "word " * 2000
MARK = {"type": "ephemeral"}
NO_KINDS_OF_OUR_OWN = {"thinking", "redacted_thinking", "fallback", "mcp_tool_listing"}


def new():
    return Prompts(settings=Settings(), clock=FakeClock(), scope_of=lambda _: "ada")


@pytest.fixture
def prompts():
    return new()


def user(content):
    return {"role": "user", "content": content}


def plan(prompts, messages, **more):
    return prompts.plan(**{"model": MODEL, "system": LONG, "session": "s", **more}, messages=messages)


def sent(request):
    return json.dumps(request, ensure_ascii=False)


# A refused request


@pytest.mark.parametrize("wrong", [{"messages": [user("Hi"), user(7)]}, {"messages": [user("Hi"), 7]}])
def test_a_refused_request_leaves_the_head_of_the_next_one_alone(prompts, wrong):
    """The head was read before the messages were refused; it was not sent, and the next request sends its own."""
    plan(prompts, [user("Hi")], system="old " + LONG, tools=[{"name": "a"}])
    with pytest.raises(InvalidInput, match="messages: expected"):
        plan(prompts, system="new " + LONG, tools=[{"name": "b"}], **wrong)
    for system, tool in (("new ", "b"), ("old ", "a")):
        request = plan(prompts, [user("Hi")], system=system + LONG, tools=[{"name": tool}]).request
        assert request["system"][0]["text"].startswith(system)
        assert request["tools"][0]["name"] == tool


# The SDK's objects


def answer():
    anthropic = pytest.importorskip("anthropic")
    content = [
        {"type": "thinking", "thinking": "because", "signature": "s"},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"b": 1, "a": [True, None]}},
        {"type": "of_tomorrow", "held": {"n": 1}},
    ]
    return anthropic.types.Message.construct(content=content)  # as the SDK does with what came, known to it or not


def as_dicts(blocks):
    return [block.to_dict(mode="json") for block in blocks]


def test_the_sdk_s_blocks_are_taken_as_they_came_and_sent_as_dicts(prompts):
    """``messages.append({"role": "assistant", "content": response.content})``, as the provider's pages do it."""
    found = answer().content
    request = plan(prompts, [user("Hi"), {"role": "assistant", "content": found}]).request
    assert sent(request) == sent(plan(new(), [user("Hi"), {"role": "assistant", "content": as_dicts(found)}]).request)
    assert all(type(block) is dict for block in request["messages"][1]["content"])


def test_the_sdk_s_blocks_are_the_same_prefix_as_the_dicts_made_of_them(prompts):
    """A conversation that was stored and loaded in between goes on where it was."""
    found = answer().content
    first = plan(prompts, [user("Hi"), {"role": "assistant", "content": found}, user("And?")])
    again = plan(prompts, [user("Hi"), {"role": "assistant", "content": as_dicts(found)}, user("And?"), user("So?")])
    assert again.expected.read == first.breakpoints[-1].tokens


@pytest.mark.parametrize(
    ("edit", "now"),
    [
        (lambda blocks: setattr(blocks[1], "text", "[cleared]"), "[cleared]"),
        (lambda blocks: blocks[2].input.update(b=2), '"b": 2'),
        (lambda blocks: blocks[2].input.update(b=True), '"b": true'),
        (lambda blocks: blocks[2].input["a"].append("x"), '"x"'),
        (lambda blocks: blocks[3].held.update(n=2), '"n": 2'),
    ],
)
def test_a_change_inside_an_object_of_the_sdk_s_is_seen(prompts, edit, now):
    """An object is compared by what it holds, as a dict is: neither one and True nor a list that grew are the same."""
    found = answer().content
    messages = [user("Hi"), {"role": "assistant", "content": found}, user("And?")]
    before = plan(prompts, messages)
    assert now not in sent(before.request["messages"])
    edit(found)
    after = plan(prompts, messages)
    assert now in sent(after.request["messages"])
    assert now not in sent(before.request["messages"])


def test_objects_that_did_not_change_are_not_read_again(prompts, monkeypatch):
    """They are compared, as dicts are."""
    messages = [user("Hi"), {"role": "assistant", "content": answer().content}]
    plan(prompts, messages)
    monkeypatch.setattr("shared_core.short_term.tape.read_message", None)
    assert plan(prompts, messages).expected.read > 0


def test_another_provider_s_answers_are_taken_as_they_came(prompts):
    """OpenAI's SDK answers with objects too, and its users append them to their messages as they are."""
    pydantic = pytest.importorskip("pydantic")
    made = pydantic.create_model("Answer", role=(str, ...), content=(str | None, None), refusal=(str | None, None))
    request = plan(prompts, [user("Hi"), made(role="assistant", content="Hello")], model="gpt-5").request
    assert request["messages"][2] == {"content": "Hello", "role": "assistant"}


# Iterators, other mappings, values


def test_iterators_are_read_once_and_sent_whole(prompts):
    """The SDK takes iterables everywhere, so a plan does."""
    given = plan(
        prompts,
        (user({"type": "text", "text": text} for text in "ab") for _ in range(2)),
        system=({"type": "text", "text": text} for text in "cd"),
        tools=({"name": name} for name in "fe"),
    ).request
    assert [tool["name"] for tool in given["tools"]] == ["e", "f"]
    assert [block["text"] for block in given["system"]] == ["c", "d"]
    assert [[block["text"] for block in message["content"]] for message in given["messages"]] == [["a", "b"]] * 2


@pytest.mark.parametrize("kind", [OrderedDict, UserDict, MappingProxyType])
def test_any_mapping_is_a_message_a_block_and_a_tool(prompts, kind):
    block = kind({"type": "text", "text": "Hi", "cache_control": MARK})
    tool = kind({"name": "a", "input_schema": kind({"type": "object"})})
    messages = [kind({"role": "user", "content": (block,)})]
    request = plan(prompts, messages, tools=[tool]).request
    assert request["messages"][0]["content"][0]["text"] == "Hi"
    assert type(request["messages"][0]) is dict
    assert type(request["tools"][0]["input_schema"]) is dict
    assert plan(prompts, messages, tools=[tool]).expected.read > 0


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        ("é\ud800", "é\ud800"),
        (10**3999, 10**3999),
        (1e300, 1e300),
        (datetime(2026, 10, 24, 9, 30, tzinfo=UTC), "2026-10-24T09:30:00+00:00"),
        (date(2026, 10, 24), "2026-10-24"),
        ((1, (2,)), [1, [2]]),
    ],
)
def test_what_the_sdk_would_send_is_sent(prompts, value, wire):
    """Dates as the SDK writes them, tuples as lists, text with half a character as it is."""
    call = {"type": "tool_use", "id": "t", "name": "n", "input": {"v": value}}
    request = plan(prompts, [{"role": "assistant", "content": [call]}]).request
    assert request["messages"][0]["content"][0]["input"] == {"v": wire}


@pytest.mark.parametrize(
    "value", [float("nan"), float("-inf"), 10**4000, -(10**5000), Decimal("1.5"), b"x", {"x"}, {1: 2}], ids=type
)
def test_what_json_cannot_carry_is_named_and_nothing_is_remembered_of_it(prompts, value):
    """Never a ValueError out of the depths of the JSON encoder."""
    plan(prompts, [user("Hi")])
    call = {"type": "tool_use", "id": "t", "name": "n", "input": {"v": value}}
    with pytest.raises(InvalidInput, match="request: expected"):
        plan(prompts, [user("Hi"), {"role": "assistant", "content": [call]}])
    assert plan(prompts, [user("Hi"), user("So?")]).expected.read > 0


@pytest.mark.parametrize("name", ["messages", "tools", "system"])
@pytest.mark.parametrize("value", [5, b"x", {"type": "text"}, [5]])
def test_an_argument_of_the_wrong_kind_is_named(prompts, name, value):
    with pytest.raises(InvalidInput, match=f"{name}: expected"):
        prompts.plan(**{"model": MODEL, "messages": [user("Hi")], name: value})


def test_content_that_is_none_or_empty_is_sent_as_it_is(prompts):
    """Whether that is allowed is the provider's to say."""
    messages = [user(None), user([]), user(""), user([{"type": "text", "text": ""}])]
    assert plan(prompts, messages).request["messages"] == messages


# Breakpoints in odd places


INNER = {"type": "text", "text": "x", "cache_control": MARK}
DOCUMENT = {"type": "document", "source": {"type": "content", "content": [INNER]}, "citations": {"enabled": True}}
SEARCHED = {"type": "search_result", "source": "s", "title": "t", "content": [INNER]}
FETCHED = {
    "type": "web_fetch_tool_result",
    "tool_use_id": "w",
    "content": {"type": "web_fetch_result", "url": "u", "content": {**DOCUMENT, "cache_control": MARK}},
}
ADDED = {
    "type": "tool_addition",
    "tool": {"type": "tool_definition", "definition": {"name": "n", "cache_control": MARK}},
}
NESTED = {
    "text in a result": {"type": "tool_result", "tool_use_id": "t", "content": [INNER]},
    "text in a document": DOCUMENT,
    "text in a search result": SEARCHED,
    "search result in a result": {"type": "tool_result", "tool_use_id": "t", "content": [SEARCHED]},
    "document in a result": {"type": "tool_result", "tool_use_id": "t", "content": [DOCUMENT]},
    "document that was fetched": FETCHED,
    "tool in a message": ADDED,
}


@pytest.mark.parametrize("name", NESTED)
def test_a_breakpoint_deep_inside_a_block_counts_for_the_whole_block(prompts, name):
    """Wherever it is, it takes one of four places at the provider: none is left where no plan counts it."""
    block = copy.deepcopy(NESTED[name])
    asked = plan(prompts, [user([block, {"type": "text", "text": LONG}])])
    assert [mark.by for mark in asked.breakpoints] == ["system", "caller", "tail"]
    assert sent(asked.request).count("cache_control") == 3
    assert block == NESTED[name]
    assert "cache_control" not in sent(plan(prompts, [user([block])], model="gpt-5").request)


def test_what_a_tool_is_asked_is_no_breakpoint_whatever_it_is_called(prompts):
    """``input`` is the caller's own."""
    asked = {"cache_control": MARK, "content": [{"cache_control": MARK}], "source": {"cache_control": "no-store"}}
    call = {"type": "tool_use", "id": "t", "name": "n", "input": asked}
    made = plan(prompts, [{"role": "assistant", "content": [call]}])
    assert made.request["messages"][0]["content"][0]["input"] == asked
    assert made.notes == ()


def test_of_many_nested_breakpoints_at_most_four_are_left(prompts):
    """Eight in nested places and the automatic one: the provider would count nine."""
    cache = PromptCache(clock=FakeClock())
    blocks = [*NESTED.values(), {"type": "text", "text": LONG, "cache_control": MARK}]
    request = {"model": MODEL, "system": LONG, "messages": [user(blocks)], "cache_control": MARK}
    with pytest.raises(BadRequest):
        cache.send(request)
    made = plan(prompts, [user(blocks)], cache_control=MARK)
    cache.send(made.request)
    assert 0 < [mark.by for mark in made.breakpoints].count("caller") <= len(made.breakpoints) <= 4


@pytest.mark.parametrize(
    ("mark", "kept"),
    [
        (None, None),
        ({"type": "ephemeral", "ttl": None}, "5m"),
        ({"type": "ephemeral", "ttl": "30m"}, "?"),
        ({"type": "forever"}, "?"),
        ({}, "?"),
        ("ephemeral", "?"),
    ],
)
def test_a_breakpoint_of_no_known_kind_is_left_out_and_told_of(prompts, mark, kept):
    """A missing lifetime is five minutes, None is no breakpoint; all else the provider would refuse."""
    tool = {"name": "a", "description": LONG, "cache_control": mark}
    messages = [user([{"type": "text", "text": LONG, "cache_control": mark}]), user("So?")]
    made = plan(prompts, messages, tools=[tool], cache_control=mark)
    assert [m.by in ("caller", "automatic") for m in made.breakpoints].count(True) == (3 if kept == "5m" else 0)
    assert len(made.notes) == (3 if kept == "?" else 0)
    assert all("was left out: its cache_control is not" in note for note in made.notes)
    PromptCache(clock=FakeClock()).send(made.request)


def kinds(union, *, marked):
    """The kinds of block of a union of the SDK's types that take ``cache_control``, or do not."""
    found = set()
    for block in get_args(union):
        fields = getattr(block, "__annotations__", {})
        if hasattr(block, "__total__") and "type" in fields and ("cache_control" in fields) == marked:
            found |= set(get_args(get_type_hints(block)["type"]))
    return found


def test_the_kinds_that_take_a_breakpoint_are_the_sdk_s():
    """Today's types, those under beta too; what is in no message but in a tool's result is marked by the result."""
    types = pytest.importorskip("anthropic.types")
    beta = pytest.importorskip("anthropic.types.beta")
    unions = (types.ContentBlockParam, beta.BetaContentBlockParam)
    taking, refusing = (set().union(*(kinds(union, marked=marked) for union in unions)) for marked in (True, False))
    assert len(taking) > 10
    assert taking <= MARKABLE_KINDS
    assert not refusing & MARKABLE_KINDS
    assert refusing <= NO_KINDS_OF_OUR_OWN


CODE = {"type": "code_execution_20260120", "tool_id": "srv"}


@pytest.mark.parametrize(
    "blocks",
    [
        [{"type": "tool_use", "id": "t", "name": "n", "input": {}, "caller": CODE}],
        [{"type": "server_tool_use", "id": "t", "name": "web_search", "input": {}, "caller": CODE}],
        [
            {"type": "server_tool_use", "id": "t", "name": "web_search", "input": {}, "caller": CODE},
            {"type": "web_search_tool_result", "tool_use_id": "t", "content": []},
        ],
        [{"type": "web_fetch_tool_result", "tool_use_id": "t", "caller": CODE, "content": {}}],
    ],
)
def test_what_code_called_and_what_it_got_take_no_breakpoint(prompts, blocks):
    """Of the server's tools as of the caller's; a block that only lacks an id is not taken for one of them."""
    made = plan(prompts, [{"role": "assistant", "content": blocks}])
    assert [mark.by for mark in made.breakpoints] == ["system"]
    told = [*blocks, {"type": "container_upload", "file_id": "f"}]
    assert plan(prompts, [{"role": "assistant", "content": told}]).breakpoints[-1].level == "messages"
    marked = [{**block, "cache_control": MARK} for block in blocks]
    asked = {"model": MODEL, "messages": [{"role": "assistant", "content": [*blocks[:-1], marked[-1]]}]}
    with pytest.raises(BadRequest, match="not allowed"):
        PromptCache(clock=FakeClock()).send(asked)


# Edits in place, forks, threads


def test_a_result_cleared_in_place_and_a_breakpoint_moved_in_place_are_seen(prompts):
    """Context editing as agents do it: the old result becomes a stub in the very dict that was sent."""
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": LONG}]}
    messages = [user("Hi"), user([result]), user("So?"), user("And?")]
    before = plan(prompts, messages)
    result["content"][0]["cache_control"] = MARK
    moved = plan(prompts, messages)
    assert "caller" in [mark.by for mark in moved.breakpoints]
    assert moved.expected.read == before.breakpoints[-1].tokens
    del result["content"][0]["cache_control"]
    messages[3]["content"] = [{"type": "text", "text": "And?", "cache_control": MARK}]
    assert [mark.position for mark in plan(prompts, messages).breakpoints if mark.by == "caller"] == [5]
    result["content"] = "[cleared]"
    cleared = plan(prompts, messages)
    assert cleared.request["messages"][1]["content"][0]["content"] == "[cleared]"
    assert cleared.expected.read == cleared.breakpoints[0].tokens  # the system alone
    assert before.request["messages"][1]["content"][0]["content"][0]["text"] == LONG


def test_tools_of_openai_s_shape_are_in_order_of_name_too(prompts):
    """Their name is inside ``function``; a description that changes must not move a tool."""
    tools = [{"type": "function", "function": {"name": name, "description": name * n}} for n, name in enumerate("cab")]
    request = plan(prompts, [user("Hi")], tools=tools, model="gpt-5").request
    assert [tool["function"]["name"] for tool in request["tools"]] == ["a", "b", "c"]
