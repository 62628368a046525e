"""Answers of a model to exactly the same request, paid for once."""

import asyncio
import functools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared_core.errors import StorageError
from shared_core.records import MISS
from shared_core.settings import Settings
from shared_core.storage.base import Blob
from shared_core.testing import FakeClock, InMemoryBlobs
from tests.core.response_kit import anthropic, ask, cache

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


def test_where_it_cannot_be_told_what_was_forgotten_nothing_is_given_again_and_that_is_counted():
    responses = cache(generations=Broken())
    assert responses.call(ask(), lambda request: anthropic())["content"]
    assert responses.get(ask()) is MISS
    assert responses.stats()["storage_errors"] > 0


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


def test_an_answer_under_way_while_a_memory_is_forgotten_is_not_kept_whoever_asked_with_it():
    """Several may have missed; whose put comes is not said, so it counts as begun with the first of them."""
    responses = cache()
    assert [responses.get(ask()), responses.get(ask())] == [MISS, MISS]
    responses.bump("ada")
    assert responses.get(ask()) is MISS
    assert [responses.put(ask(), anthropic()) for _ in range(3)] == [False, False, False]
    assert responses.get(ask()) is MISS
    assert responses.put(ask(), anthropic()) is True  # nobody else is under way


def test_a_call_that_failed_and_put_nothing_is_not_waited_for_without_end(clock):
    responses = cache(clock)
    responses.get(ask())  # and then the model raised
    responses.bump("ada")
    responses.get(ask())
    assert responses.put(ask(), anthropic()) is False
    clock.advance(600)
    responses.get(ask())
    assert responses.put(ask(), anthropic()) is True


@pytest.mark.parametrize("forgetting", [True, False])
@pytest.mark.parametrize("answering", [True, False])
def test_a_forget_in_one_process_reaches_the_answers_of_another_whether_or_not_they_are_stored(
    open_memory, answering, forgetting
):
    """``persist_caches`` says where answers are kept, not whether a forget is heard."""
    one = open_memory(settings=Settings(persist_caches=answering))
    other = open_memory(settings=Settings(persist_caches=forgetting))
    secret = one.remember("The code is 4711.")
    one.responses.put(ask(), anthropic("4711"))
    assert one.responses.get(ask()) is not MISS
    other.forget(secret.id)
    assert one.responses.get(ask()) is MISS


async def test_the_decorated_method_of_a_provider_s_async_client_is_awaited_and_its_answer_kept():
    """Their clients hide the coroutine function behind a plain one that checks the arguments."""
    asked = []

    async def create(**request):
        asked.append(request)
        return anthropic()

    @functools.wraps(create)
    def checked(**request):
        return create(**request)

    responses = cache()
    answers = [await responses.acall(ask(), checked) for _ in range(2)]
    assert [answer["content"] for answer in answers] == [anthropic()["content"]] * 2
    assert len(asked) == 1
    assert (await responses.acall(ask("else"), lambda: create(retries=2)))["content"]  # a coroutine all the same
