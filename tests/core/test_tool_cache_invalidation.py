"""A kept result is never stale: files, declared writes, unknown tools, events, time."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shared_core.testing import FakeClock, InMemoryBlobs
from tests.core.tool_cache_kit import Counted, tool_cache

OLD = 1_600_000_000


@pytest.fixture
def tools():
    cache = tool_cache()
    cache.register("read", reads="path")
    cache.register("get", reads="item")
    cache.register("list", reads=lambda args: ["orders"])
    cache.register("set", writes="item")
    return cache


def read(tools, path):
    def text_or_names(path):
        path = Path(path)
        return path.read_text() if path.is_file() else sorted(entry.name for entry in path.iterdir())

    return tools.call("read", {"path": str(path)}, text_or_names)


def get(tools, item="7", scope=None):
    """Whether the call was a hit."""
    tool = Counted(1)
    tools.call("get", {"item": item}, tool, scope=scope)
    return tool.calls == 0


# Files


def test_a_file_is_read_once_until_it_changes(tools, tmp_path):
    file = tmp_path / "f"
    file.write_text("one")
    os.utime(file, (OLD, OLD))
    assert [read(tools, file), read(tools, file)] == ["one", "one"]
    assert tools.stats()["hits"] == 1
    file.write_text("two")
    assert read(tools, file) == "two"


def test_the_first_change_after_the_first_read_is_seen(tools, tmp_path):
    """What counts is the file as it was when it was read, not when it is first checked."""
    file = tmp_path / "f"
    file.write_text("one")
    read(tools, file)
    file.write_text("two")
    assert read(tools, file) == "two"


def test_quick_edits_within_one_second_are_seen(tools, tmp_path):
    file = tmp_path / "f"
    for text in ("aa", "bb", "cc", "dd"):
        file.write_text(text)
        assert read(tools, file) == text


def test_a_file_hit_after_its_first_seconds_is_no_longer_hashed(tmp_path):
    file = tmp_path / "f"
    file.write_text("one")
    clock = FakeClock(file.stat().st_mtime + 1)
    tools = tool_cache(clock)
    tools.register("read", reads="path")
    hashes = []
    for wait in (0, 3, 0):
        clock.advance(wait)
        assert read(tools, file) == "one"
        (key,) = tools._entries._shelf.select(lambda entry: True)
        ((_, _, mark),) = tools._entries._shelf.get(key).watched
        hashes.append(mark[2] is not None)
    assert hashes == [True, True, False]


def test_a_restored_older_file_is_not_served_stale(tools, tmp_path):
    file = tmp_path / "f"
    file.write_text("new")
    read(tools, file)
    file.write_text("old")
    os.utime(file, (OLD, OLD))
    assert read(tools, file) == "old"


def test_an_edit_with_its_time_put_back_is_seen_by_its_size(tools, tmp_path):
    file = tmp_path / "f"
    file.write_text("one")
    os.utime(file, (OLD, OLD))
    read(tools, file)
    file.write_text("three")
    os.utime(file, (OLD, OLD))
    assert read(tools, file) == "three"


def test_a_deleted_file_is_not_served_from_the_cache(tools, tmp_path):
    file = tmp_path / "f"
    file.write_text("one")
    read(tools, file)
    file.unlink()
    with pytest.raises(FileNotFoundError):
        tools.call("read", {"path": str(file)}, lambda path: Path(path).read_text())


def test_a_change_during_the_reading_is_not_kept(tools, tmp_path):
    """The file is looked at before and after: a value of which nobody knows the state is handed out, not kept."""
    file = tmp_path / "f"
    file.write_text("one")

    def read_then_edited(path):
        text = Path(path).read_text()
        file.write_text("two, longer")
        return text

    assert tools.call("read", {"path": str(file)}, read_then_edited) == "one"
    assert tools.stats()["entries"] == 0
    assert read(tools, file) == "two, longer"


def test_a_directory_listing_sees_entries_come_and_go_and_change(tools, tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    assert read(tools, folder) == []
    (folder / "a").write_text("")
    assert read(tools, folder) == ["a"]
    misses = tools.stats()["misses"]["invalidated"]
    (folder / "a").write_text("edited inside")
    read(tools, folder)
    assert tools.stats()["misses"]["invalidated"] == misses + 1
    (folder / "a").unlink()
    assert read(tools, folder) == []


def test_an_answer_about_a_missing_file_goes_when_the_file_comes(tools, tmp_path):
    file = tmp_path / "f"
    assert tools.call("read", {"path": str(file)}, lambda path: "no such file") == "no such file"
    file.write_text("here")
    assert read(tools, file) == "here"


def test_a_file_that_cannot_be_looked_at_is_not_kept(tools, tmp_path, monkeypatch):
    real = os.stat

    def refused(path, **more):
        if str(path) == str(tmp_path / "f"):
            raise PermissionError(13, "no")
        return real(path, **more)

    monkeypatch.setattr(os, "stat", refused)
    tool = Counted("x")
    for _ in range(2):
        tools.call("read", {"path": str(tmp_path / "f")}, tool)
    assert tool.calls == 2


def test_tools_do_not_share_what_is_known_about_a_file(tools, tmp_path):
    """One tool re-reading a changed file must not make another tool's old result look current."""
    file = tmp_path / "f"
    file.write_text("one")
    tools.register("count", reads="path")
    tools.call("count", {"path": str(file)}, lambda path: len(Path(path).read_text()))
    file.write_text("three")
    read(tools, file)
    assert tools.call("count", {"path": str(file)}, lambda path: len(Path(path).read_text())) == 5


def test_a_file_and_a_time_to_live_combine(tmp_path):
    clock = FakeClock()
    tools = tool_cache(clock)
    tools.register("read", reads="path", ttl=60)
    file = tmp_path / "f"
    file.write_text("one")
    read(tools, file)
    clock.advance(60)
    read(tools, file)
    assert tools.stats()["misses"]["expired"] == 1


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


# Events


def test_an_event_for_one_call_reaches_it_in_every_scope_or_in_one(tools):
    for scope in ("ada", "ben"):
        get(tools, scope=scope)
        get(tools, "8", scope=scope)
    assert tools.invalidate("get", {"item": "7"}, scope="ada") == 1
    assert tools.invalidate("get", {"item": "7"}) == 1
    assert tools.invalidate("get", {"item": "7"}) == 0
    assert tools.invalidate("get", {"item": float("nan")}) == 0
    assert get(tools, "8")


def test_an_event_by_prefix_reaches_every_tool_whose_name_starts_so_in_every_scope():
    tools = tool_cache()
    for name in ("db_read", "db_list", "web", "db%"):
        tools.register(name)
        for scope in ("ada", "ben"):
            tools.call(name, {}, lambda: 1, scope=scope)
    assert tools.invalidate_prefix("db_", scope="ada") == 2
    assert tools.invalidate_prefix("db_") == 2
    assert tools.invalidate_prefix("db_") == 0
    assert tools.invalidate_prefix("") == 4


def test_an_event_for_a_resource_counts_expired_entries_too():
    clock = FakeClock()
    tools = tool_cache(clock)
    tools.register("get", reads="item", ttl=1)
    get(tools)
    clock.advance(5)
    assert tools.invalidate_resource("7") == 1
    assert tools.stats()["entries"] == 0


def test_an_entry_counts_for_one_event_only(tools):
    get(tools)
    assert tools.invalidate_resource("7") == 1
    assert tools.invalidate_prefix("get") == 0


def test_invalidated_entries_leave_a_few_at_a_time_and_are_never_served():
    tools = tool_cache()
    tools.register("get", reads=lambda args: ["all"])
    for i in range(200):
        get(tools, str(i))
    assert tools.invalidate_resource("all") == 200
    assert tools.stats()["entries"] == 200 - 64
    assert not any(get(tools, str(i)) for i in range(200))
    assert tools.stats()["entries"] == 200


def test_registering_a_tool_anew_with_other_resources_does_not_serve_what_hung_on_less(tools):
    get(tools)
    tools.register("get", reads=lambda args: [args["item"], "all"])
    assert not get(tools)


def test_a_rewind_drops_what_was_registered_to_go_with_it(tools):
    tools.register("sandbox", rewinds=True)
    for scope in ("ada", "ben"):
        tools.call("sandbox", {}, lambda: 1, scope=scope)
        get(tools, scope=scope)
    assert tools.rewound("ada") == 1
    tool = Counted(2)
    assert tools.call("sandbox", {}, tool, scope="ada") == 2
    assert tools.call("sandbox", {}, tool, scope="ben") == 1
    assert get(tools, scope="ada")


def test_a_scope_can_be_cleared(tools):
    get(tools, scope="ada")
    get(tools, scope="ben")
    assert tools.clear_scope("ada") == 1
    assert (get(tools, scope="ada"), get(tools, scope="ben")) == (False, True)
