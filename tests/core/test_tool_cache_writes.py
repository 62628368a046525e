"""Tools that write, and tools that nobody registered: always executed, and reads after them are fresh."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared_core.testing import InMemoryBlobs
from tests.core.tool_cache_kit import Counted, get, shelf, tool_cache


@pytest.fixture
def tools():
    return shelf()


# Declared writes


def test_a_write_is_always_executed_and_makes_matching_reads_fresh(tools):
    write = Counted("done")
    assert not get(tools)
    assert not get(tools, "8")
    for _ in range(2):
        tools.call("set", {"item": "7"}, write)
    assert write.calls == 2
    assert not get(tools, "7")
    assert get(tools, "8")


def test_a_write_that_raises_makes_matching_reads_fresh_all_the_same(tools):
    get(tools)
    with pytest.raises(ZeroDivisionError):
        tools.call("set", {"item": "7"}, lambda item: 1 / 0)
    assert not get(tools)


def test_a_resource_is_matched_across_tools_by_its_text(tools):
    tools.register("cancel", writes=lambda args: ["orders", f"order-{args['n']}"])
    count = Counted(3)
    tools.call("list", {}, count)
    tools.call("cancel", {"n": 1}, lambda n: n)
    tools.call("list", {}, count)
    assert count.calls == 2


def test_a_read_that_began_before_a_write_ended_is_not_kept(tools):
    def read_while_written(item):
        tools.call("set", {"item": item}, lambda item: None)
        return "old"

    assert tools.call("get", {"item": "7"}, read_while_written) == "old"
    assert not get(tools)


@pytest.mark.parametrize("by", ["this process", "another process"])
def test_whoever_waits_for_an_overtaken_read_gets_a_fresh_one(by):
    """A call made after the write must not be served by an execution from before it."""
    blobs = InMemoryBlobs()
    tools, other = tool_cache(blobs=blobs), tool_cache(blobs=blobs)
    for one in (tools, other):
        one.register("get", reads="item")
        one.register("set", writes="item")
    reading, written = threading.Event(), threading.Event()
    answers = iter(["old", "new"])

    def slow(item):
        answer = next(answers)
        if answer == "old":
            reading.set()
            assert written.wait(20)
        return answer

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(tools.call, "get", {"item": "7"}, slow)
        assert reading.wait(20)
        (tools if by == "this process" else other).call("set", {"item": "7"}, lambda item: None)
        second = pool.submit(tools.call, "get", {"item": "7"}, slow)
        while next(iter(tools._calls._flights._flights.values())).waiters < 2:
            threading.Event().wait(0.001)
        written.set()
        assert (first.result(20), second.result(20)) == ("old", "new")


@pytest.mark.parametrize("spec", ["nothing", "gone", lambda args: 1 / 0, lambda args: [object()]])
def test_a_write_that_cannot_say_what_it_writes_makes_its_whole_space_fresh(tools, spec):
    tools.register("update", writes=spec)
    get(tools)
    tools.call("update", {"nothing": None}, lambda nothing: None)
    assert not get(tools)


@pytest.mark.parametrize("args", [{"item": None}, {}])
def test_a_read_that_cannot_say_what_it_reads_is_not_kept(tools, args):
    tool = Counted(1)
    for _ in range(2):
        tools.call("get", args, tool)
    assert tool.calls == 2


def test_a_tool_that_writes_nothing_invalidates_nothing(tools):
    tools.register("note", cacheable=False, writes=[])
    note = Counted(1)
    get(tools)
    for _ in range(2):
        tools.call("note", {}, note)
    assert note.calls == 2
    assert get(tools)


# Unknown tools


@pytest.mark.parametrize("register", [False, True])
def test_an_unknown_tool_runs_every_time_and_reads_after_it_are_fresh(tools, register):
    if register:
        tools.register("book", cacheable=False)
    book = Counted("booked")
    get(tools)
    get(tools, scope="ben")
    for _ in range(2):
        tools.call("book", {"seat": 1}, book)
    assert book.calls == 2
    assert not get(tools)
    assert get(tools, scope="ben")  # another scope's space


def test_an_unknown_tool_that_raises_makes_its_space_fresh_all_the_same(tools):
    get(tools)
    with pytest.raises(ZeroDivisionError):
        tools.call("book", {}, lambda: 1 / 0)
    assert not get(tools)


def test_two_bookings_at_once_are_two_bookings(tools):
    both = threading.Barrier(2, timeout=20)
    ran = []

    def book():
        both.wait()  # would break if the second waited for the first
        ran.append(1)

    threads = [threading.Thread(target=tools.call, args=("book", {}, book)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert ran == [1, 1]


async def test_an_unknown_tool_that_is_cancelled_makes_its_space_fresh(tools):
    get(tools)
    started = asyncio.Event()

    async def book():
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(tools.acall("book", {}, book))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not get(tools)


async def test_a_write_in_a_thread_that_outlives_its_cancelled_caller_makes_its_space_fresh_when_it_ends(tools):
    started, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def book():
        loop.call_soon_threadsafe(started.set)
        assert go.wait(20)

    task = asyncio.create_task(tools.acall("book", {}, book))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    get(tools)
    assert get(tools)
    threads = [one for one in threading.enumerate() if one.name.startswith("tiered-memory")]
    go.set()
    for one in threads:
        one.join(20)
    assert not get(tools)


async def test_a_plain_function_that_gives_a_coroutine_has_written_when_that_has_ended(tools):
    async def book():
        get(tools)
        return "booked"

    hidden = lambda: book()  # noqa: E731, PLW0108  not recognisable as a coroutine function
    assert await tools.acall("book", {}, hidden) == "booked"
    assert not get(tools)


def test_an_unknown_tool_of_a_named_space_reaches_that_space_in_every_scope_and_no_other():
    tools = tool_cache()
    tools.register("get", reads="item")
    tools.register("crm_get", reads="item", space="crm")
    tools.register("crm_call", cacheable=False, space="crm")
    crm = Counted(1)
    get(tools)
    tools.call("crm_get", {"item": "7"}, crm, scope="ben")
    tools.call("crm_call", {}, lambda: None, scope="ada")
    tools.call("crm_get", {"item": "7"}, crm, scope="ben")
    assert crm.calls == 2
    assert get(tools)
