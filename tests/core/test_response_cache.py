"""Answers of a model to exactly the same request, paid for once."""

import asyncio
import copy
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared_core.errors import InvalidInput, StorageError
from shared_core.mid_term.response_cache import ResponseCache
from shared_core.records import MISS
from shared_core.settings import Settings
from shared_core.storage.base import Blob
from shared_core.testing import FakeClock, InMemoryBlobs
from tests.core.tool_cache_kit import no_default, scope_of


def cache(clock=None, blobs=None, ttl=86_400.0, scope_of=scope_of, **settings):
    numbers = itertools.count(1)
    return ResponseCache(
        settings=Settings(**settings), clock=clock or FakeClock(), blobs=blobs, scope_of=scope_of, ttl=ttl,
        ids=lambda: f"fresh{next(numbers)}",
    )  # fmt: skip


def ask(text="hi", **more):
    return {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": text}], **more}


def anthropic(text="hello", stop="end_turn", content=None, **more):
    content = [{"type": "text", "text": text}] if content is None else content
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": stop,
        "usage": usage,
        **more,
    }


def openai(text="hello", finish="stop", n=1, **message):
    choices = [
        {
            "index": i,
            "finish_reason": finish,
            "message": {"role": "assistant", "content": text and f"{text} {i}", **message},
        }
        for i in range(n)
    ]
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": choices, "usage": usage}


def call_block(id="toolu_1", **more):
    return {"type": "tool_use", "id": id, "name": "get", "input": {"a": 1}, **more}


def call_entry(id="call_1", arguments='{"a": 1}'):
    return {"id": id, "type": "function", "function": {"name": "get", "arguments": arguments}}


# The same request


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


def conversation(prefix, *, noise):
    """A turn with a tool call and its result, in both shapes, as two runs would produce it."""
    n = f"{prefix}_{noise}"
    return [
        {"role": "user", "content": "go", "id": f"u{n}"},
        {
            "role": "assistant", "id": f"msg{n}", "content": [call_block(f"toolu{n}"), call_block(f"toolu{n}b")],
            "usage": {"input_tokens": len(n)}, "usage_metadata": {"total_cost": 0}, "cost": len(n), "cache": {"hit": True},
            "response_metadata": {"request_id": n, "model_provider": "p", "output_version": "v1"},
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": f"toolu{n}b", "content": "second"},
                {"type": "tool_result", "tool_use_id": f"toolu{n}", "content": "first", "cache_control": {"type": "ephemeral"}},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [call_entry(f"call{n}")]},
        {"role": "tool", "tool_call_id": f"call{n}", "content": "third", "artifact": {"n": n}},
    ]  # fmt: skip


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


# Time, bounds, forgetting


def test_answers_expire_and_one_from_the_future_has_expired():
    clock = FakeClock()
    responses = cache(clock, ttl=60)
    responses.put(ask(), anthropic())
    clock.advance(59)
    assert responses.get(ask()) is not MISS
    clock.advance(1)
    assert responses.get(ask()) is MISS
    assert responses.stats()["misses"]["expired"] == 1
    responses.put(ask(), anthropic())
    clock.advance(-10)
    assert responses.get(ask()) is MISS


def test_a_time_to_live_of_zero_keeps_nothing_and_nonsense_is_refused():
    responses = cache(ttl=0)
    assert responses.put(ask(), anthropic()) is False
    with pytest.raises(ValueError, match="ttl"):
        cache(ttl=-1)


def test_entries_and_bytes_stay_within_their_bounds():
    responses = cache(cache_items=3, cache_bytes=10_000)
    for i in range(10):
        responses.put(ask(str(i)), anthropic("x" * 500))
        assert responses.stats()["entries"] <= 3
        assert responses.stats()["bytes"] <= 10_000
    assert responses.put(ask("big"), anthropic("x" * 3000)) is False
    assert responses.stats()["evictions"] == 7


@pytest.mark.parametrize("shared", [True, False])
def test_forgetting_a_memory_of_the_scope_makes_older_answers_misses(shared):
    blobs = InMemoryBlobs() if shared else None
    responses = cache(blobs=blobs)
    responses.put(ask(), anthropic(), scope="ada")
    responses.put(ask(), anthropic(), scope="ben")
    responses.bump("ada")
    assert responses.get(ask(), scope="ada") is MISS
    assert responses.get(ask(), scope="ben") is not MISS
    assert responses.stats()["misses"]["invalidated"] == 1


def test_an_answer_under_way_while_a_memory_is_forgotten_is_not_kept():
    responses = cache(blobs=InMemoryBlobs())

    def forgotten_meanwhile(request):
        responses.bump("ada")
        return anthropic()

    responses.call(ask(), forgotten_meanwhile)
    assert responses.get(ask()) is MISS  # and so it is for the two halves of a call
    responses.bump("ada")
    assert responses.put(ask(), anthropic()) is False
    assert responses.get(ask()) is MISS


def test_clearing_a_scope_forgets_its_answers_in_every_process():
    blobs = InMemoryBlobs()
    one, two = cache(blobs=blobs), cache(blobs=blobs)
    one.put(ask(), anthropic())
    assert two.get(ask()) is not MISS
    assert one.clear_scope("ada") == 1
    assert (one.get(ask()), two.get(ask()), cache(blobs=blobs).get(ask())) == (MISS, MISS, MISS)


# Rows


def test_another_process_finds_the_answer():
    blobs, clock = InMemoryBlobs(), FakeClock()
    cache(clock, blobs).put(ask(), anthropic())
    found = cache(clock, blobs).get(ask())
    assert (found["content"], found["cache"]["hit"]) == (anthropic()["content"], True)


class Broken(InMemoryBlobs):
    """Raises whatever is asked."""

    def __getattribute__(self, name):
        if not name.startswith("_"):
            raise StorageError("disk full")
        return super().__getattribute__(name)


async def test_a_storage_that_fails_loses_no_paid_answer():
    responses = cache(blobs=Broken())
    assert responses.call(ask(), lambda request: anthropic())["content"]
    assert responses.get(ask()) is MISS
    assert responses.put(ask(), anthropic()) is False
    assert (await responses.acall(ask(), lambda request: anthropic()))["content"]
    assert responses.stats()["storage_errors"] > 0


@pytest.mark.parametrize(
    "poison", [b"", b"{}\n", b'{"generation":0}\n"text"', b'{"generation":0}\n{"$set":[[]]}', b'{"generation":"0"}\n{}']
)
def test_a_poisoned_row_is_a_miss(poison):
    blobs, clock = InMemoryBlobs(), FakeClock()
    cache(clock, blobs).put(ask(), anthropic())
    (key,) = blobs.keys("ada", "responses", now=clock())
    blobs.put("ada", "responses", [Blob(key, poison, clock())])
    assert cache(clock, blobs).get(ask()) is MISS


def test_fifty_writers_of_one_answer_leave_one_row():
    blobs, clock = InMemoryBlobs(), FakeClock()
    responses = cache(clock, blobs)
    with ThreadPoolExecutor(8) as pool:
        assert all(one.result(20) for one in [pool.submit(responses.put, ask(), anthropic()) for _ in range(50)])
    assert len(blobs.keys("ada", "responses", now=clock())) == 1


# At once


def test_threads_that_ask_the_same_at_once_pay_once_and_share_no_id():
    responses, go, asked = cache(), threading.Event(), []

    def model(request):
        asked.append(1)
        assert go.wait(20)
        return anthropic()

    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(responses.call, ask(), model) for _ in range(5)]
        while not asked or next(iter(responses._flights._flights.values())).waiters < 5:
            threading.Event().wait(0.001)
        go.set()
        got = [one.result(20) for one in waiting]
    assert len(asked) == 1
    assert len({one["id"] for one in got}) == 5
    assert sorted("cache" in one for one in got) == [False, True, True, True, True]
    assert responses.stats()["joined"] == 4


async def test_tasks_that_ask_the_same_at_once_pay_once():
    responses, asked = cache(), []

    async def model(request):
        asked.append(1)
        await asyncio.sleep(0)
        return anthropic()

    got = await asyncio.gather(*(responses.acall(ask(), model) for _ in range(20)))
    assert (len(asked), len({one["id"] for one in got})) == (1, 20)
    await responses.aput(ask("b"), anthropic())
    assert await responses.aget(ask("b")) is not MISS


def test_a_failed_call_is_not_kept_and_the_next_one_asks_again():
    responses = cache()

    def down(request):
        raise ConnectionError("503")

    with pytest.raises(ConnectionError):
        responses.call(ask(), down)
    assert responses.call(ask(), lambda request: anthropic())["id"] == "msg_1"


@pytest.mark.parametrize("model", [
    lambda request: anthropic(request["messages"][0]["content"]),
    lambda: anthropic("hi"),
    lambda **request: anthropic(request["messages"][0]["content"]),
    lambda *, model, messages, max_tokens: anthropic(messages[0]["content"]),
])  # fmt: skip
def test_the_model_takes_the_request_as_keywords_as_one_argument_or_not_at_all(model):
    assert cache().call(ask("hi"), model)["content"][0]["text"] == "hi"
