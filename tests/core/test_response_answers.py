"""Which answers of a model are worth keeping, and what a repeated one is like."""

import copy

import pytest

from shared_core.records import MISS
from shared_core.testing import FakeClock
from tests.core.response_kit import anthropic, ask, cache, call_block, call_entry, conversation, openai

# What is worth keeping

NOT_KEPT = {
    "truncated": [anthropic(stop="max_tokens"), openai(finish="length"), anthropic(stop="model_context_window_exceeded")],
    "refused": [
        anthropic(stop="refusal"), openai(finish="content_filter"), openai(refusal="I cannot"),
        {"content": [{"type": "refusal", "refusal": "no"}]},
    ],
    "unfinished": [anthropic(stop="pause_turn"), anthropic(stop=None), openai(finish=None), anthropic(stop="something_new")],
    "empty": [
        anthropic(content=[]), anthropic("  "), openai() | {"choices": []}, {"choices": [{"message": {"content": ""}}]},
        {"choices": [{"message": {"content": None}}]}, anthropic(content=[{"type": "thinking", "thinking": "hm"}]), {},
        {"choices": [{"finish_reason": "stop"}]},
    ],
    "error": [{"type": "error", "error": {"type": "overloaded_error"}}, openai() | {"error": {"code": 500}}],
    "invalid_tool_calls": [
        openai(tool_calls=[call_entry(arguments="{broken")]), openai(tool_calls=[call_entry(arguments="[1]")]),
        openai(tool_calls=[call_entry(id="")]), anthropic(content=[call_block(input="x")], stop="tool_use"),
        openai(invalid_tool_calls=[{"id": "1"}]), anthropic(content=[call_block(name="")], stop="tool_use"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("flaw", "response"), [(flaw, one) for flaw, all_ in NOT_KEPT.items() for one in all_])
def test_an_answer_that_would_be_wrong_to_repeat_is_handed_out_and_not_kept(flaw, response):
    responses = cache()
    assert responses.call(ask(), lambda request: response) is response
    assert responses.put(ask(), response) is False
    assert responses.get(ask()) is MISS
    assert responses.stats()["not_kept"] == {flaw: 2}


@pytest.mark.parametrize("response", [
    anthropic(content=[call_block()], stop="tool_use"), openai(None, "tool_calls", tool_calls=[call_entry()]), anthropic(stop="stop_sequence"),
    {"content": "plain text"}, {"content": [{"type": "text", "text": "no reason given"}]}, {"choices": [{"text": "completion"}]},
    anthropic(content=[{"type": "thinking", "thinking": "hm", "signature": "sig=="}, {"type": "text", "text": "so"}]),
    anthropic(content=[{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}, {"type": "text", "text": "x"}]),
    openai(None, audio={"id": "a"}), openai(tool_calls=[]), openai(refusal=None),
    openai(tool_calls=[{"id": "c", "type": "custom", "custom": {"name": "run", "input": "free text"}}]),
])  # fmt: skip
def test_a_whole_answer_comes_back_whole(response):
    responses = cache()
    assert responses.put(ask(), response) is True
    found = responses.get(ask())
    found.pop("cache")
    if "id" in response:
        found["id"] = response["id"]
    assert found == response


def test_all_generations_of_one_request_are_kept_with_what_belongs_to_them():
    responses = cache()
    response = openai(n=3)
    response["choices"][2]["logprobs"] = {"content": [{"token": "a", "logprob": -0.25}]}
    responses.put(ask(n=3), response)
    assert responses.get(ask(n=3))["choices"] == response["choices"]
    response["choices"][1]["finish_reason"] = "length"
    assert responses.put(ask("other", n=3), response) is False


# A hit


def test_a_hit_says_so_with_fresh_ids_valid_counts_and_what_was_saved():
    clock = FakeClock(1000.0)
    responses = cache(clock)
    responses.put(ask(), anthropic())
    responses.put(ask("openai"), openai())
    clock.advance(5)
    one, two, three = responses.get(ask()), responses.get(ask()), responses.get(ask("openai"))
    assert one["cache"] == {"hit": True, "created_at": 1000.0, "input_tokens": 130, "output_tokens": 5}
    assert one["usage"] == anthropic()["usage"]
    assert len({"msg_1", one["id"], two["id"]}) == 3
    assert three["cache"]["input_tokens"] == 12
    stats = responses.stats()
    assert (stats["saved_input_tokens"], stats["saved_output_tokens"]) == (130 + 130 + 12, 5 + 5 + 3)


def test_a_hit_put_back_is_kept_without_its_mark():
    responses = cache()
    responses.put(ask(), anthropic())
    responses.put(ask("b"), responses.get(ask()))
    assert responses.get(ask("b"))["cache"]["created_at"] == FakeClock().now


def test_a_tool_call_whose_id_the_request_already_holds_gets_a_fresh_one_everywhere():
    """A rewound conversation asks again what it asked before: the old call must not be answered twice."""
    responses = cache()
    content = [
        call_block("toolu_1", caller={"type": "code", "tool_id": "srv_1"}), {"type": "server_tool_use", "id": "srv_1", "name": "w", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}, call_block("toolu_2"),
    ]  # fmt: skip
    holding = ask(messages=[
        {"role": "assistant", "content": [call_block("toolu_1"), {"type": "server_tool_use", "id": "srv_1", "name": "w", "input": {}}]},
    ])  # fmt: skip
    responses.put(holding, anthropic(content=content, stop="tool_use"))
    found = responses.get(holding)["content"]
    assert found[3]["id"] == "toolu_2"
    assert found[0]["id"] not in ("toolu_1", found[1]["id"])
    assert found[1]["id"] == found[2]["tool_use_id"] == found[0]["caller"]["tool_id"] != "srv_1"


def test_an_id_that_is_the_tools_name_stays_whatever_the_request_holds():
    calls = [{"id": "look", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    answer = {"choices": [{"finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": calls}}]}
    blocks = [{"type": "tool_use", "id": "look", "name": "look", "input": {}}]
    for said in (answer, {"role": "assistant", "content": blocks, "stop_reason": "tool_use"}):
        responses = cache()
        result = {"role": "tool", "tool_call_id": "look", "content": "1"}
        holding = ask(messages=[{"role": "assistant", "tool_calls": calls}, result])
        assert responses.put(holding, said)
        found = responses.get(holding)
        assert {key: found[key] for key in said} == said


def test_fresh_tool_call_ids_in_every_choice():
    responses = cache()
    holding = ask(
        messages=[
            {"role": "assistant", "tool_calls": [call_entry("call_1")]},
            {"role": "tool", "tool_call_id": "call_1"},
        ]
    )
    responses.put(holding, openai(n=2, finish="tool_calls", tool_calls=[call_entry("call_1")]))
    ids = [choice["message"]["tool_calls"][0]["id"] for choice in responses.get(holding)["choices"]]
    assert len({"call_1", *ids}) == 3


def test_an_answer_changed_by_its_receiver_is_unchanged_for_the_next():
    responses = cache()
    made = anthropic()
    responses.call(ask(), lambda request: made)
    made["content"].append("mine")
    responses.get(ask())["content"].append("mine too")
    assert responses.get(ask())["content"] == anthropic()["content"]


def test_the_request_is_never_changed():
    responses = cache()
    request = ask(messages=conversation("a", noise=1), system=[{"type": "text", "text": "s", "cache_control": {}}])
    before = copy.deepcopy(request)
    responses.put(request, anthropic(content=[call_block("toolua_1")], stop="tool_use"))
    responses.get(request)
    assert request == before
