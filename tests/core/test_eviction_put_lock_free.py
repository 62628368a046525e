"""A new key takes no lock while there is room: whatever others do in the middle of it, no slot and no bound is lost."""

import sys
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

from shared_core.eviction import AttentionLRUCache
from shared_core.eviction.victims import _lowest
from shared_core.records import MISS
from tests.core.eviction_kit import in_order


def in_another_thread(run, *arguments):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(run, *arguments).result(10)


def interrupted_put(cache, key, value, step, intrude):
    """``cache.put`` with ``intrude()`` called before its ``step``-th line; its answer and whether it got there.

    Lines that it carries out with the lock do not count.
    """
    code, seen, failed = AttentionLRUCache.put.__code__, [0], []

    def trace(frame, event, _argument):
        if frame.f_code is not code:
            return None
        if event == "line" and not cache._changes.lock._is_owned():
            seen[0] += 1
            if seen[0] > step:
                sys.settrace(None)
                try:
                    intrude()
                except Exception as error:  # noqa: BLE001  the put might take it for its own
                    failed.append(error)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        stored = cache.put(key, value)
    finally:
        sys.settrace(before)
    assert failed == []
    return stored, seen[0] > step


def others(cache, count):
    for i in range(count):
        assert cache.put(f"other-{i}", f"other-{i}")


def put_the_same(cache):
    assert cache.put("k", "theirs")


def put_and_delete_the_same(cache):
    put_the_same(cache)
    cache.delete("k")  # may be gone already, where the put that goes on holds the only slot


def clear_and_refill(cache):
    cache.clear()
    others(cache, 3)


def evict(cache):
    others(cache, 10)


def grow(cache):
    others(cache, 300 if len(cache) > 10 else 10)


def put_a_key_with_code_of_its_own(cache):
    assert cache.put(("a", 1), "other")


def put_with_a_prior(cache):
    assert cache.put("other", "other", prior=0.25)


def put_what_must_be_copied(cache):
    assert cache.put("other", ["other"])


def break_off_a_put(cache):
    """In the middle of a put of its own, after a slot was taken: the cache is mended then."""

    def stop():
        raise KeyboardInterrupt

    for step in range(25):
        with suppress(KeyboardInterrupt):
            interrupted_put(cache, "another", "another", step, stop)
        cache.delete("another")


INTRUDERS = [
    put_the_same,
    put_and_delete_the_same,
    AttentionLRUCache.clear,
    clear_and_refill,
    evict,
    grow,
    put_a_key_with_code_of_its_own,
    put_with_a_prior,
    put_what_must_be_copied,
    AttentionLRUCache.after_fork_in_child,
]


@pytest.mark.parametrize("intrude", INTRUDERS)
@pytest.mark.parametrize(("bound", "place"), [(1, 0), (3, 2), (10_000, 128)], ids=["one", "last", "second growth"])
def test_a_put_interrupted_at_any_line_stores_its_value_or_loses_it_whole(intrude, bound, place):
    """Another thread does its work between any two lines of the put; then a third fills the cache up."""
    step, reached = 0, True
    while reached:
        cache = AttentionLRUCache(bound)
        for i in range(place):
            cache.put(f"before-{i}", "before")
        stored, reached = interrupted_put(cache, "k", "own", step, partial(in_another_thread, intrude, cache))
        assert stored
        in_order(cache, bound)
        assert cache.get("k") in ("own", "theirs", MISS)
        if (
            bound > 10
            and intrude is not AttentionLRUCache.clear
            and intrude is not AttentionLRUCache.after_fork_in_child
        ):
            assert cache.get("k") in ("own", "theirs") or intrude in (put_and_delete_the_same, clear_and_refill)
        assert all(cache.get(f"other-{i}") in (f"other-{i}", MISS) for i in range(10))
        for i in range(2 * min(bound, 10)):
            assert cache.put(f"later-{i}", "later")
        in_order(cache, bound)
        assert len(cache) >= min(bound, 10)
        step += 1
    assert step > 12


def test_a_put_interrupted_while_another_threads_put_is_broken_off_comes_again():
    """Mending makes the table anew, and leaves puts on their way behind: they notice, and are made with the lock."""
    step, reached = 0, True
    while reached:
        cache = AttentionLRUCache(3)
        stored, reached = interrupted_put(cache, "k", "own", step, partial(in_another_thread, break_off_a_put, cache))
        assert stored
        in_order(cache, 3)
        assert cache.get("k") == "own"
        step += 1  # each step breaks off a put at each of its own lines
    assert step > 12


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_put_broken_off_at_any_line_takes_no_slot_for_good(place):
    """As Ctrl-C does."""

    def stop():
        raise KeyboardInterrupt

    step, reached = 0, True
    while reached:
        cache = AttentionLRUCache(3)
        for i in range(place):
            cache.put(f"before-{i}", "before")
        cache.pin("before-0")
        with suppress(KeyboardInterrupt):
            _, reached = interrupted_put(cache, "k", "own", step, stop)
        in_order(cache, 3)
        assert cache.get("k") in ("own", MISS)
        assert place == 0 or cache.get("before-0") == "before"
        for i in range(5):
            assert cache.put(f"later-{i}", "later")
        assert len(cache) == 3
        assert place == 0 or cache.get("before-0") == "before"
        in_order(cache, 3)
        step += 1
    assert step > 12


class BrokenOff(deque):
    """A queue of free slots where Ctrl-C comes just after a slot was taken, and before anybody noted which."""

    def popleft(self):
        super().popleft()
        raise KeyboardInterrupt


def test_a_put_broken_off_before_it_knows_its_slot_takes_none_for_good():
    cache = AttentionLRUCache(3)
    cache.put("a", 1)
    held = cache._held
    held.table.slots.free = BrokenOff(held.table.slots.free)
    held._replaced()
    cache._changes.opened = cache._changes.offered
    with pytest.raises(KeyboardInterrupt):
        cache.put("k", 1)
    in_order(cache, 3)
    assert cache.keys() == ["a"]
    for key in "bc":
        assert cache.put(key, 1)
    assert cache.keys() == ["a", "b", "c"]


def test_reads_in_the_middle_of_an_eviction_leave_no_full_cache_without_a_victim():
    """All instants move on between any two lines of the choice; the LRU's scores are these very instants."""
    code = _lowest.__code__
    cache = AttentionLRUCache(4, policy="lru")

    def trace(frame, event, _argument):
        if frame.f_code is code and event == "line":
            in_another_thread(lambda: [cache.get(f"key-{i}") for i in range(4)])
        return trace if frame.f_code is code or event == "call" else None

    for i in range(4):
        cache.put(f"key-{i}", i)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert cache.put("new", 4)
    finally:
        sys.settrace(before)
    assert cache.keys() == ["key-1", "key-2", "key-3", "new"]


class Collides:
    """A key that is compared with "k", maybe several times, and does something of its own the first time."""

    def __init__(self, act):
        self.act = act

    def __hash__(self):
        return hash("k")

    def __eq__(self, other):
        act, self.act = self.act, list
        act()
        return False


@pytest.mark.parametrize(
    "change",
    [AttentionLRUCache.delete, AttentionLRUCache.pin, partial(AttentionLRUCache.get, query_vector=[1.0])],
    ids=["delete", "pin", "get"],
)
def test_a_put_asked_for_inside_a_change_waits_for_it_too(change):
    """So that a delete and a put of one thread keep their order."""
    cache, answers = AttentionLRUCache(5), []
    cache.put("k", 1)
    cache.put("a", 1)
    held = []

    def act():
        answers.extend([cache.delete("a"), cache.put("a", 2), cache.delete("b"), cache.put("b", 2)])
        held.extend(cache.keys())

    change(cache, Collides(act))
    assert answers == [True] * 4
    assert held == ["k", "a"]
    assert cache.keys() == ["k", "a", "b"]
    assert cache.get("a") == 2


def test_a_new_key_is_put_while_another_thread_holds_the_lock():
    cache = AttentionLRUCache(5, clock=iter(range(1, 100)).__next__)
    cache.put("a", 1)
    with cache._changes.lock:
        in_another_thread(cache.put, "b", 2)
        assert cache.get("b") == 2
        assert cache.keys() == ["a", "b"]
    in_order(cache, 5)


@pytest.mark.parametrize(
    "options",
    [{"max_bytes": 1000}, {"default_prior": "frequency"}, {"policy": "lfu"}, {"getsizeof": len}, {"copy": str}],
    ids=str,
)
def test_what_needs_more_than_a_slot_is_put_with_the_lock(options):
    cache = AttentionLRUCache(5, **options)
    thread = threading.Thread(target=cache.put, args=("k", "v"))
    with cache._changes.lock:
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        assert "k" not in cache
    thread.join(10)
    assert cache.get("k") == "v"


@pytest.mark.parametrize("full", [False, True])
def test_the_clock_is_read_once_for_a_put(full):
    times = iter(range(1, 100))
    cache = AttentionLRUCache(2, clock=lambda: float(next(times)))
    for key in ["a", "b"] if full else ["a"]:
        cache.put(key, 1)
    before = next(times)
    cache.put("k", 1)
    cache.put("k", 2)
    cache.put("k", [1])
    assert next(times) == before + 4
