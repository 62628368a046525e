"""Awaited calls: the same answers, without blocking the loop."""

import asyncio
import functools
import threading

import pytest

from shared_core.errors import InvalidInput
from tests.core.tool_cache_kit import tool_cache


@pytest.fixture
def tools():
    cache = tool_cache()
    cache.register("search")
    return cache


async def test_a_coroutine_function_and_a_plain_one_can_both_be_awaited(tools):
    ran = []

    async def slow(q):
        ran.append(q)
        await asyncio.sleep(0)
        return [q]

    def plain(q):
        ran.append(threading.current_thread() is threading.main_thread())
        return [q]

    tools.register("plain")
    for _ in range(2):
        assert await tools.acall("search", {"q": 1}, slow) == [1]
        assert await tools.acall("plain", {"q": 2}, plain) == [2]
    assert ran == [1, False]
    assert tools.call("plain", {"q": 2}, plain) == [2]
    hidden = lambda q: slow(q)  # noqa: E731, PLW0108  not recognisable as a coroutine function
    assert await tools.acall("search", {"q": 3}, hidden) == [3]


async def test_a_wrapped_coroutine_function_stays_one(tools):
    ran = []

    @tools.wrap
    async def fetch(url, timeout=5):  # noqa: ASYNC109
        ran.append(url)
        return {"url": url}

    assert asyncio.iscoroutinefunction(fetch)
    assert await fetch("u") == await fetch(url="u", timeout=5) == {"url": "u"}
    assert ran == ["u"]


def test_a_coroutine_function_given_to_the_blocking_call_is_refused_with_advice(tools):
    async def slow():
        return 1

    with pytest.raises(InvalidInput, match="use acall"):
        tools.call("search", {}, slow)


async def test_a_hit_in_memory_takes_no_thread(tools, monkeypatch):
    async def slow():
        return 1

    await tools.acall("search", {}, slow)
    monkeypatch.setattr(threading.Thread, "start", lambda self: pytest.fail("a thread was started"))
    assert await tools.acall("search", {}, slow) == 1


async def test_a_plain_tool_that_raises_stop_iteration_hangs_nobody(tools):
    tools.register("write", cacheable=False)

    def stopping(q):
        raise StopIteration(q)

    for name in ("write", "search"):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await asyncio.wait_for(tools.acall(name, {"q": 1}, stopping), 10)


async def test_a_coroutine_function_behind_a_plain_decorator_is_awaited_on_the_loop_and_kept(tools):
    executed = []

    def checked(fn):
        @functools.wraps(fn)
        def outer(*args, **kwargs):
            return fn(*args, **kwargs)

        return outer

    @checked
    async def search(q):
        executed.append((q, threading.current_thread() is threading.main_thread()))
        return [q]

    assert [await tools.acall("search", {"q": 1}, search) for _ in range(2)] == [[1], [1]]
    assert executed == [(1, True)]
