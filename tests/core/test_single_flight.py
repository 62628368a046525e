"""One execution for identical calls at the same moment."""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared_core.mid_term.flight import Again, Alone, Value
from shared_core.mid_term.single_flight import SingleFlight
from shared_core.records import MISS

WAIT = 20  # seconds after which a test that hangs is a failure


class Cache:
    """The smallest user of SingleFlight: a dict."""

    def __init__(self, patience=None):
        self.flights = SingleFlight(patience=patience)
        self.kept = {}
        self.executions = 0
        self.lock = threading.Lock()

    def _done(self, key, value):
        with self.lock:
            self.executions += 1
        self.kept[key] = value
        return value, Value(value)

    def call(self, key, fn):
        return self.flights.serve(
            key, lambda: self.kept.get(key, MISS), lambda: self._done(key, fn()), lambda shared: shared
        )

    async def acall(self, key, fn):
        async def look():
            return self.kept.get(key, MISS)

        async def lead():
            return self._done(key, await fn())

        return await self.flights.aserve(key, look, lead, lambda shared: shared, hop=False)

    async def acall_plain(self, key, fn):
        async def look():
            return self.kept.get(key, MISS)

        return await self.flights.aserve(key, look, lambda: self._done(key, fn()), lambda shared: shared, hop=True)

    async def followers(self, key, n):
        """Until n callers wait for the key's flight."""
        while key not in self.flights._flights or self.flights._flights[key].waiters < n:  # noqa: ASYNC110  nothing announces a follower
            await asyncio.sleep(0.001)

    def followers_blocking(self, key, n):
        while key not in self.flights._flights or self.flights._flights[key].waiters < n:
            threading.Event().wait(0.001)


@pytest.fixture
def cache():
    return Cache()


def test_eight_threads_that_ask_at_once_cause_one_execution(cache):
    go = threading.Event()

    def slow():
        assert go.wait(WAIT)
        return "answer"

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(cache.call, "k", slow) for _ in range(8)]
        cache.followers_blocking("k", 8)
        go.set()
        assert [one.result(WAIT) for one in asked] == ["answer"] * 8
    assert cache.executions == 1
    assert len(cache.flights) == 0


async def test_fifty_tasks_that_ask_at_once_cause_one_execution(cache):
    go = asyncio.Event()

    async def slow():
        await go.wait()
        return "answer"

    asked = [asyncio.create_task(cache.acall("k", slow)) for _ in range(50)]
    await cache.followers("k", 50)
    go.set()
    assert await asyncio.gather(*asked) == ["answer"] * 50
    assert cache.executions == 1
    assert len(cache.flights) == 0


async def test_tasks_and_more_threads_than_the_pool_has_share_one_execution(cache):
    """Followers that block every thread of the loop's pool must not take the one their leader needs."""
    pool_size = 3
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(pool_size))
    go = threading.Event()

    def slow():
        assert go.wait(WAIT)
        return "answer"

    tasks = [asyncio.create_task(cache.acall_plain("k", slow)) for _ in range(5)]
    threads = [asyncio.create_task(asyncio.to_thread(cache.call, "k", slow)) for _ in range(10)]
    await cache.followers("k", 5 + pool_size)
    go.set()
    assert await asyncio.wait_for(asyncio.gather(*tasks, *threads), WAIT) == ["answer"] * 15
    assert cache.executions == 1


def test_two_event_loops_share_one_execution(cache):
    go = threading.Event()

    async def slow():
        while not go.is_set():  # noqa: ASYNC110  set from another thread
            await asyncio.sleep(0.001)
        return "answer"

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(asyncio.run, cache.acall("k", slow)) for _ in range(4)]
        cache.followers_blocking("k", 4)
        go.set()
        assert [one.result(WAIT) for one in asked] == ["answer"] * 4
    assert cache.executions == 1


@pytest.mark.parametrize("follows", [True, False])
async def test_a_cancelled_leader_does_not_cancel_its_followers(cache, follows):
    go = asyncio.Event()
    cancelled_inside = []

    async def slow():
        try:
            await go.wait()
        except asyncio.CancelledError:
            cancelled_inside.append(True)
            raise
        return "answer"

    leader = asyncio.create_task(cache.acall("k", slow))
    await cache.followers("k", 1)
    follower = asyncio.create_task(cache.acall("k", slow)) if follows else None
    if follows:
        await cache.followers("k", 2)
    leader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leader
    if follower is not None:
        go.set()
        assert await follower == "answer"
        assert (cache.executions, cancelled_inside) == (1, [])
    else:  # nobody waits any more: the execution is stopped, no key leaks, the next call starts afresh
        assert len(cache.flights) == 0
        go.set()
        assert await cache.acall("k", slow) == "answer"
        assert cancelled_inside == [True]


async def test_a_cancelled_follower_disturbs_nobody(cache):
    go = asyncio.Event()

    async def slow():
        await go.wait()
        return "answer"

    tasks = [asyncio.create_task(cache.acall("k", slow)) for _ in range(3)]
    await cache.followers("k", 3)
    tasks[1].cancel()
    go.set()
    first, second, third = await asyncio.gather(*tasks, return_exceptions=True)
    assert (first, type(second), third) == ("answer", asyncio.CancelledError, "answer")
    assert cache.executions == 1


async def test_a_cancelled_leader_whose_plain_function_runs_in_a_thread_still_serves_its_followers(cache):
    go = threading.Event()

    def slow():
        assert go.wait(WAIT)
        return "answer"

    leader = asyncio.create_task(cache.acall_plain("k", slow))
    await cache.followers("k", 1)
    follower = asyncio.create_task(cache.acall_plain("k", slow))
    await cache.followers("k", 2)
    leader.cancel()
    go.set()
    assert await follower == "answer"
    assert cache.executions == 1


def test_an_exception_reaches_all_waiters_and_the_next_call_tries_again(cache):
    go = threading.Event()

    def broken():
        assert go.wait(WAIT)
        raise StopIteration("gone")  # the one exception that a future refuses to carry

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(cache.call, "k", broken) for _ in range(4)]
        cache.followers_blocking("k", 4)
        go.set()
        errors = [one.exception(WAIT) for one in asked]
    assert [type(error) for error in errors] == [StopIteration] * 4
    assert cache.call("k", lambda: "well again") == "well again"


async def test_an_exception_in_a_coroutine_reaches_all_waiters(cache):
    async def broken():
        await asyncio.sleep(0)
        raise KeyError("gone")

    asked = [asyncio.create_task(cache.acall("k", broken)) for _ in range(4)]
    errors = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(error) for error in errors] == [KeyError] * 4
    assert len(cache.flights) == 0


def test_an_interrupted_leader_lets_a_follower_take_over(cache):
    """KeyboardInterrupt is the leader's alone: the others still want their answer."""
    go = threading.Event()
    ran = []

    def first_is_interrupted():
        ran.append(True)
        if len(ran) == 1:
            assert go.wait(WAIT)
            raise KeyboardInterrupt
        return "answer"

    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(cache.call, "k", first_is_interrupted) for _ in range(3)]
        cache.followers_blocking("k", 3)
        go.set()
        found = [one.exception(WAIT) or one.result() for one in asked]
    assert sorted(type(one).__name__ for one in found) == ["KeyboardInterrupt", "str", "str"]


def test_a_function_that_calls_itself_with_the_same_key_does_not_wait_for_itself(cache):
    def outer():
        return "outer " + cache.call("k", lambda: "inner")

    assert cache.call("k", outer) == "outer inner"


async def test_a_coroutine_that_calls_itself_with_the_same_key_does_not_wait_for_itself(cache):
    async def inner():
        return "inner"

    async def outer():
        in_task = await asyncio.create_task(cache.acall("k", inner))
        in_thread = await asyncio.to_thread(cache.call, "k", lambda: "thread")
        blocking = cache.call("k", lambda: "blocking")
        return [in_task, in_thread, blocking]

    got = await asyncio.wait_for(cache.acall("k", outer), WAIT)
    assert got[0] == "inner"


async def test_a_blocking_call_on_the_leaders_own_loop_executes_by_itself(cache):
    go = asyncio.Event()

    async def slow():
        await go.wait()
        return "led"

    leader = asyncio.create_task(cache.acall("k", slow))
    await cache.followers("k", 1)
    fresh = contextvars.Context().run(cache.call, "k", lambda: "alone")  # blocking here would stop the loop for good
    assert fresh == "alone"
    go.set()
    assert await leader == "led"


def test_two_executions_that_need_each_other_do_not_wait_for_each_other(cache):
    both = threading.Barrier(2, timeout=WAIT)

    def needs(other, own):
        def run():
            both.wait()
            return own + cache.call(other, lambda: "!")

        return run

    with ThreadPoolExecutor(2) as pool:
        a = pool.submit(cache.call, "a", needs("b", "A"))
        b = pool.submit(cache.call, "b", needs("a", "B"))
        assert a.result(WAIT).startswith("A")
        assert b.result(WAIT).startswith("B")


def test_a_loop_that_was_closed_over_its_execution_does_not_hold_the_key(cache):
    """A framework that runs each call in a loop of its own and gives up on it must not block the next call."""

    async def never():
        await asyncio.Event().wait()

    loop = asyncio.new_event_loop()
    task = loop.create_task(cache.acall("k", never))
    loop.run_until_complete(asyncio.sleep(0.01))
    assert len(cache.flights) == 1
    waits = ThreadPoolExecutor(1).submit(cache.call, "k", lambda: "taken over")
    assert waits.result(WAIT) == "taken over"
    task.cancel()
    loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(loop), return_exceptions=True))
    loop.close()
    assert cache.call("k", lambda: "no") == "taken over"


def test_what_cannot_be_shared_is_executed_by_each():
    flights, made, go = SingleFlight(patience=None), [], threading.Event()

    def lead():
        assert go.wait(WAIT)
        made.append(object())
        return made[-1], Alone()

    def ask():
        return flights.serve("k", lambda: MISS, lead, lambda shared: shared)

    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(ask) for _ in range(3)]
        while "k" not in flights._flights or flights._flights["k"].waiters < 3:
            threading.Event().wait(0.001)
        go.set()
        assert len({id(one.result(WAIT)) for one in asked}) == 3


def test_a_follower_of_an_overtaken_execution_asks_anew():
    flights, outcomes, go = (
        SingleFlight(patience=None),
        iter([("old", Again()), ("new", Value("new"))]),
        threading.Event(),
    )

    def lead():
        assert go.wait(WAIT)
        return next(outcomes)

    def ask():
        return flights.serve("k", lambda: MISS, lead, lambda shared: shared)

    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ask) for _ in range(2)]
        while "k" not in flights._flights or flights._flights["k"].waiters < 2:
            threading.Event().wait(0.001)
        go.set()
        assert sorted(one.result(WAIT) for one in asked) == ["new", "old"]


async def test_where_no_thread_can_be_started_nobody_is_left_waiting(cache, monkeypatch):
    def full(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", full)
        with pytest.raises(RuntimeError, match="new thread"):
            await cache.acall_plain("k", lambda: 1)
    assert await asyncio.wait_for(cache.acall_plain("k", lambda: 2), WAIT) == 2


# Waiting without end


def test_a_function_that_calls_itself_through_a_bare_thread_pool_is_executed_beside_itself():
    """No context comes along, so the inner call cannot know whose it is: it waits, and then no longer."""
    cache = Cache(patience=0.01)

    def outer():
        with ThreadPoolExecutor(1) as pool:
            return "outer " + pool.submit(cache.call, "k", lambda: "inner").result(WAIT)

    assert cache.call("k", outer) == "outer inner"
    assert (cache.executions, cache.flights.given_up, len(cache.flights)) == (2, 1, 0)


async def test_a_coroutine_that_calls_itself_through_a_bare_thread_pool_is_executed_beside_itself():
    cache = Cache(patience=0.01)

    async def inner():
        return "inner"

    async def outer():
        def fresh():
            return asyncio.run(cache.acall("k", inner))

        return "outer " + await asyncio.get_running_loop().run_in_executor(None, fresh)

    assert await asyncio.wait_for(cache.acall("k", outer), WAIT) == "outer inner"
    assert (cache.executions, cache.flights.given_up, len(cache.flights)) == (2, 1, 0)


def test_of_many_that_wait_in_vain_one_executes_and_the_others_wait_for_that_one():
    """Three inner calls: the first that gives up leads anew, and what it found serves the two others."""
    cache = Cache(patience=0.05)
    three = threading.Barrier(3, timeout=WAIT)

    def inner():
        three.wait()
        return cache.call("k", lambda: "inner")

    def outer():
        with ThreadPoolExecutor(3) as pool:
            return [one.result(WAIT) for one in [pool.submit(inner) for _ in range(3)]]

    assert cache.call("k", outer) == ["inner"] * 3
    assert (cache.executions, cache.flights.given_up) == (2, 1)


def test_a_leader_that_was_given_up_still_answers_its_own_caller_and_spoils_nothing():
    cache, go = Cache(patience=0.01), threading.Event()

    def slow():
        assert go.wait(WAIT)
        return "slow"

    with ThreadPoolExecutor(1) as pool:
        leader = pool.submit(cache.call, "k", slow)
        cache.followers_blocking("k", 1)
        assert cache.call("k", lambda: "quick") == "quick"
        go.set()
        assert leader.result(WAIT) == "slow"
    assert len(cache.flights) == 0
