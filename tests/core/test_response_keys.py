"""Which two requests to a model are the same request."""

import copy

import pytest

from shared_core.errors import InvalidInput
from shared_core.records import MISS
from tests.core.response_kit import anthropic, ask, cache, call_entry, conversation, openai
from tests.core.tool_cache_kit import no_default


@pytest.mark.parametrize("make", [anthropic, openai])
def test_a_request_is_paid_for_once(make):
    responses = cache()
    asked = []
    first = responses.call(ask(), lambda request: asked.append(1) or make())
    second = responses.call(ask(), lambda request: asked.append(1) or make())
    assert len(asked) == 1
    assert "cache" not in first
    assert second["cache"]["hit"] is True
    del second["cache"]
    assert {**second, "id": first["id"]} == first


def test_get_and_put_are_the_two_halves_of_call():
    responses = cache()
    assert responses.get(ask()) is MISS
    assert responses.put(ask(), anthropic()) is True
    assert responses.get(ask())["content"] == anthropic()["content"]


@pytest.mark.parametrize(("one", "other"), [
    (ask(), ask(model="n")), (ask(), ask(temperature=0.0)), (ask(temperature=0.0), ask(temperature=1.0)),
    (ask(), ask(tools=[{"name": "get"}])), (ask(tools=[{"name": "get"}]), ask(tools=[{"name": "set"}])),
    (ask(tool_choice="auto"), ask(tool_choice="any")), (ask(), ask(response_format={"type": "json_object"})),
    (ask(), ask(system="You are terse.")), (ask(), ask("hi ")), (ask(max_tokens=1), ask(max_tokens=2)), (ask(), ask(stop=["x"])),
    (ask(messages=[{"role": "user", "content": "a", "name": "x"}]), ask(messages=[{"role": "user", "content": "a", "name": "y"}])),
])  # fmt: skip
def test_whatever_could_change_the_answer_is_part_of_the_key(one, other):
    responses = cache()
    responses.put(one, anthropic())
    assert responses.get(other) is MISS


def test_the_whole_conversation_is_part_of_the_key_so_that_a_tool_loop_ends():
    responses = cache()
    user = {"role": "user", "content": "again?"}
    responses.put(ask(messages=[user]), anthropic())
    assert responses.get(ask(messages=[user, {"role": "assistant", "content": "yes"}, user])) is MISS


def test_the_same_conversation_with_other_ids_and_other_costs_hits():
    """Two runs of one agent differ in message ids, tool-call ids, usage and marks, and ask the same."""
    responses = cache()
    responses.put(ask(messages=conversation("a", noise=1)), anthropic())
    assert responses.get(ask(messages=conversation("b", noise=22))) is not MISS


def test_an_id_that_comes_back_in_a_later_turn_is_another_call():
    """A replayed answer may repeat an id; a run with ids of its own asks the same."""

    def turns(first, second):
        return [
            part
            for call in (first, second)
            for part in (
                {"role": "assistant", "tool_calls": [call_entry(call)]},
                {"role": "tool", "tool_call_id": call, "content": "x"},
            )
        ]

    responses = cache()
    responses.put(ask(messages=turns("call_1", "call_1")), anthropic())
    assert responses.get(ask(messages=turns("call_8", "call_9"))) is not MISS


def test_a_result_that_answers_another_call_is_another_request():
    responses = cache()
    one = conversation("a", noise=1)
    responses.put(ask(messages=one), anthropic())
    swapped = copy.deepcopy(one)
    results = swapped[2]["content"]
    results[0]["tool_use_id"], results[1]["tool_use_id"] = results[1]["tool_use_id"], results[0]["tool_use_id"]
    assert responses.get(ask(messages=swapped)) is MISS


def test_what_a_provider_reads_back_from_the_metadata_counts():
    responses = cache()
    with_container = [{"role": "assistant", "content": "a", "response_metadata": {"container": {"id": "c1"}}}]
    other = [{"role": "assistant", "content": "a", "response_metadata": {"container": {"id": "c2"}}}]
    responses.put(ask(messages=with_container), anthropic())
    assert responses.get(ask(messages=other)) is MISS


def test_keys_of_dicts_have_no_order_and_their_names_no_meaning_inside_a_tools_own_arguments():
    responses = cache()
    block = {"type": "tool_use", "id": "t", "name": "get", "input": {"cache_control": 1, "id": "x", "b": 2}}
    responses.put(ask(messages=[{"role": "assistant", "content": [block]}]), anthropic())
    permuted = {"input": {"b": 2, "id": "x", "cache_control": 1}, "name": "get", "id": "t", "type": "tool_use"}
    assert responses.get(ask(messages=[{"content": [permuted], "role": "assistant"}])) is not MISS
    permuted["input"]["id"] = "y"
    assert responses.get(ask(messages=[{"content": [permuted], "role": "assistant"}])) is MISS


def test_a_moved_cache_marker_asks_the_same():
    responses = cache()
    mark = {"cache_control": {"type": "ephemeral"}}
    responses.put(ask(system=[{"type": "text", "text": "s"}], tools=[{"name": "get"}]), anthropic())
    assert (
        responses.get(ask(system=[{"type": "text", "text": "s", **mark}], tools=[{"name": "get", **mark}], **mark))
        is not MISS
    )


def test_a_request_that_cannot_be_compared_is_executed_and_counted():
    responses = cache()
    for _ in range(2):
        assert responses.call(ask(timeout=object()), lambda request: anthropic())["content"]
    assert responses.stats()["misses"]["uncacheable"] == 2
    assert responses.put(ask(timeout=object()), anthropic()) is False
    with pytest.raises(InvalidInput, match="expected the request as a dict"):
        responses.get("hello")


def test_scopes_never_share_and_a_missing_one_is_refused():
    responses = cache()
    responses.put(ask(), anthropic(), scope="ada")
    assert responses.get(ask(), scope="ben") is MISS
    with pytest.raises(InvalidInput):
        cache(scope_of=no_default).get(ask())
