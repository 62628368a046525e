"""A hit takes no lock: whatever others do in the middle of it, a key never gives another key's value."""

import sys
from functools import partial

import pytest

from shared_core.eviction import AttentionLRUCache
from shared_core.eviction.readings import Readings
from shared_core.records import MISS
from shared_core.testing import FakeClock
from tests.core.eviction_kit import at_once


def interrupted(cache, key, step, intrude):
    """``cache.get(key)`` with ``intrude()`` called before its ``step``-th line; the value and whether it got there."""
    code, seen = AttentionLRUCache.get.__code__, [0]

    def trace(frame, event, _argument):
        if frame.f_code is not code:
            return None
        if event == "line":
            if seen[0] == step:
                sys.settrace(None)
                intrude()
            seen[0] += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        value = cache.get(key)
    finally:
        sys.settrace(before)
    return value, seen[0] > step


def evict_and_reuse(cache):
    for i in range(10):
        cache.put(f"other-{i}", ["another's"])


def delete_and_reuse(cache):
    cache.delete("k")
    for i in range(3):
        cache.put(f"other-{i}", ["another's"])


def clear(cache):
    cache.clear()


def clear_and_refill(cache):
    cache.clear()
    for i in range(3):
        cache.put(f"other-{i}", ["another's"])


def overwrite(cache):
    cache.put("k", ["new"])


def grow(cache):
    for i in range(1000):
        cache.put(f"other-{i}", ["another's"])


@pytest.mark.parametrize("prior", [0.5, "frequency"])
@pytest.mark.parametrize("place", [0, 2, 150], ids=["first slot", "third slot", "a slot of the second growth"])
@pytest.mark.parametrize("intrude", [evict_and_reuse, delete_and_reuse, clear, clear_and_refill, overwrite, grow])
def test_a_read_interrupted_at_any_line_gives_its_own_value_or_none(intrude, place, prior):
    """The intruder runs between any two lines of the read, as another thread might."""
    bound = 10_000 if intrude is grow or place > 3 else 3
    step, reached = 0, True
    allowed = [["own"], MISS] if intrude is not overwrite else [["own"], ["new"]]
    while reached:
        cache = AttentionLRUCache(bound, policy="fifo", default_prior=prior)
        for i in range(place):
            cache.put(f"before-{i}", ["before"])
        cache.put("k", ["own"])
        value, reached = interrupted(cache, "k", step, lambda cache=cache: intrude(cache))
        assert value in allowed
        assert cache.stats()["hits"] + cache.stats()["misses"] == 1
        assert cache.stats()["hits"] == (value is not MISS)
        assert len(cache) == len(cache.keys()) <= bound
        assert cache.bytes == sum(AttentionLRUCache(1)._getsizeof(cache.get(key)) for key in cache.keys())  # noqa: SIM118
        step += 1
    assert step > 5


def test_a_value_read_without_the_lock_is_still_a_copy_after_the_cache_was_cleared():
    """Clearing must not make the read that goes on think that nothing here needs a copy."""
    kept = []
    step, reached = 0, True
    while reached:
        cache = AttentionLRUCache(3, getsizeof=lambda value: kept.append(value) or 1)
        cache.put("k", ["own"])
        value, reached = interrupted(cache, "k", step, cache.clear)
        assert value is MISS or value is not kept[-1]
        step += 1


@pytest.mark.parametrize("prior", [0.5, "frequency"])
def test_many_threads_read_what_others_evict_and_nothing_is_miscounted(prior):
    """Threads change places as often as they can; every value names its key, and every read is counted once."""
    cache = AttentionLRUCache(40, 40 * 60, getsizeof=len, default_prior=prior)
    wrong, reads, rounds = [], [0] * 6, 3000

    def read(number):
        for i in range(rounds):
            key = f"key-{(i * 7 + number) % 60}"
            value = cache.get(key)
            reads[number] += 1
            if value is not MISS and not value.startswith(key + "|"):
                wrong.append((key, value))
            if len(cache) > 40 or cache.bytes > 40 * 60:
                wrong.append("bound")

    def write(number):
        for i in range(rounds // 3):
            key = f"key-{(i * 11 + number) % 60}"
            if i % 97 == 96:
                cache.clear()
            elif i % 5 == 4:
                cache.delete(key)
            else:
                cache.put(key, f"{key}|" + "x" * (i % 40))

    at_once(*(partial(read, n) for n in range(6)), *(partial(write, n) for n in range(3)))
    assert wrong == []
    stats = cache.stats()
    assert stats["hits"] + stats["misses"] == sum(reads) == 6 * rounds
    assert stats["items"] == len(cache.keys()) <= 40
    assert stats["bytes"] == sum(len(cache.get(key)) for key in cache.keys())  # noqa: SIM118


def test_no_use_is_lost_between_threads_as_long_as_the_interpreter_lock_is_there():
    """Plain counts: 4 threads of 5 000 reads and the put are 20 001 uses, exactly."""
    cache = AttentionLRUCache(2, policy="lfu")
    cache.put("k", 1)
    at_once(*[lambda: [cache.get("k") for _ in range(5000)]] * 4)
    assert cache._held.table.slots.entries(0.0).access_count.max() == 20_001
    assert cache.stats()["hits"] == 20_000


def test_a_read_of_the_frequency_interrupted_while_counts_are_scaled_is_not_weighed_by_the_old_unit():
    """Counts are scaled every 3 300 reads of a lone entry; no count is ever more than 14.93 uses."""
    cache = AttentionLRUCache(2, default_prior="frequency")
    cache.put("k", 1)
    at_once(*[lambda: [cache.get("k") for _ in range(10_000)]] * 4)
    assert cache._held.table.slots.entries(0.0).access_count.max() <= 14.94


def test_readings_are_the_clocks_and_are_counted():
    clock = FakeClock(5.0)
    readings = Readings(clock)
    assert readings.count() == 0
    assert next(readings.times) == 5.0
    clock.advance(2)
    assert next(readings.times) == 7.0
    assert readings.count() == readings.count() == 2


def test_the_clock_is_read_once_for_a_hit_and_once_for_a_miss():
    times = []

    def clock():
        times.append(0.0)
        return float(len(times))

    cache = AttentionLRUCache(2, clock=clock)
    cache.put("k", 1)
    cache.get("k")
    assert len(times) == 2
    cache.get("absent")
    assert len(times) == 3


def test_what_a_key_raises_when_it_is_compared_or_hashed_reaches_the_reader():
    class Bad:
        def __hash__(self):
            raise KeyError("no hash")

    cache = AttentionLRUCache(2)
    with pytest.raises(KeyError, match="no hash"):
        cache.get(Bad())
    with pytest.raises(TypeError, match="unhashable"):
        cache.get([])
    assert cache.stats()["hits"] == cache.stats()["misses"] == 0


def test_insertion_numbers_follow_the_insertions_through_deletes_evictions_and_growth():
    """The numbers wait at the free slots; whoever takes them, in any order of freeing, is numbered in turn."""
    cache = AttentionLRUCache(200, policy="fifo")
    order = []
    for i in range(900):
        cache.put(i, i)
        order.append(i)
        if i % 7 == 3:
            for key in (i - 2, i):
                if cache.delete(key):
                    order.remove(key)
        inserted = cache._held.table.slots.inserted
        numbers = [inserted[cache._held.table.index[key]] for key in cache.keys()]  # noqa: SIM118
        assert numbers == sorted(set(numbers))
        held = cache._held.table.slots.evictable().sum()
        assert held == len(cache)
        assert inserted[cache._held.table.index[i]] == i if i in cache else True
    assert cache.keys() == order[-len(cache) :]
