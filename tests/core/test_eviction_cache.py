"""What the container promises beside the choice of victims: bounds, values, evidence, time, threads."""

import copy
import math
import sys
import threading
import tracemalloc
from collections import deque

import numpy as np
import pytest

from shared_core.errors import InvalidInput
from shared_core.eviction import AttentionLRUCache, deep_size
from shared_core.records import MISS
from shared_core.testing import FakeClock


@pytest.fixture
def clock():
    return FakeClock()


@pytest.mark.parametrize("value", [None, False, "", 0, [], {}, 0.0, b""])
def test_an_empty_value_is_a_hit(value):
    cache = AttentionLRUCache(2)
    assert cache.put("k", value)
    found = cache.get("k")
    assert found == value
    assert found is not MISS
    assert cache.get("other") is MISS
    assert cache.stats()["hits"] == cache.stats()["misses"] == 1


def test_an_empty_cache_is_true_and_a_look_is_no_access(clock):
    cache = AttentionLRUCache(2, policy="lru", clock=clock)
    assert cache
    assert len(cache) == 0
    for key in "ab":
        cache.put(key, key)
        clock.advance(1)
    assert "a" in cache
    assert cache.keys() == ["a", "b"]
    cache.put("c", "c")
    assert cache.keys() == ["b", "c"]
    assert cache.stats()["hits"] == 0


@pytest.mark.parametrize("policy", ["attention_lru", "lru", "lfu", "fifo", "random"])
def test_a_new_entry_is_not_its_own_victim(policy, clock):
    """Everything else was read with a perfect match; the newcomer comes with nothing, and stays."""
    cache = AttentionLRUCache(3, policy=policy, clock=clock)
    for key in "abc":
        cache.put(key, key, embedding=[1.0, 0.0])
        cache.get(key, query_vector=[1.0, 0.0])
        clock.advance(1)
    cache.put("new", 1)
    assert "new" in cache


def test_a_new_entry_is_not_the_first_victim_once_the_others_have_been_read(clock):
    cache = AttentionLRUCache(3, clock=clock)
    for key in "abc":
        cache.put(key, key)
        cache.get(key)
        clock.advance(60)
    cache.put("new", 1)
    clock.advance(60)
    cache.put("newer", 1)
    assert cache.keys() == ["c", "new", "newer"]


def test_a_large_bound_evicts_a_hundredth_at_once(clock):
    """250 entries: down to 250 - 2, then the newcomer: 249. A byte bound frees the newcomer's size if larger."""
    cache = AttentionLRUCache(250, policy="fifo", clock=clock)
    for i in range(251):
        cache.put(i, i)
    assert cache.keys() == list(range(2, 251))
    in_bytes = AttentionLRUCache(max_bytes=1000, policy="fifo", clock=clock, getsizeof=len)
    for i in range(100):
        in_bytes.put(i, b"x" * 10)
    in_bytes.put("one", b"x")  # down to 990: one victim
    assert in_bytes.bytes == 991
    in_bytes.put("big", b"x" * 35)  # down to 965: 991 - 3 * 10 = 961
    assert in_bytes.bytes == 961 + 35
    assert in_bytes.stats()["evictions"] == 4


def test_an_entry_larger_than_the_bound_is_not_stored_and_evicts_nothing():
    cache = AttentionLRUCache(max_bytes=100, getsizeof=len)
    cache.put("a", b"x" * 60)
    cache.put("b", b"x" * 40)
    assert not cache.put("giant", b"x" * 101)
    assert cache.keys() == ["a", "b"]
    assert cache.stats()["too_large"] == 1
    assert cache.put("all", b"x" * 100)
    assert cache.keys() == ["all"]


def test_overwriting_counts_the_size_once_and_evicts_only_what_the_growth_needs(clock):
    cache = AttentionLRUCache(2, 100, getsizeof=len, policy="fifo", clock=clock)
    cache.put("a", b"x" * 40)
    cache.put("b", b"x" * 40)
    for _ in range(5):
        cache.put("a", b"y" * 50)
    assert (cache.keys(), cache.bytes) == (["a", "b"], 90)
    cache.put("a", b"y" * 70)
    assert (cache.keys(), cache.bytes) == (["a"], 70)


def test_an_overwrite_too_large_removes_the_old_value_which_would_be_stale():
    cache = AttentionLRUCache(max_bytes=100, getsizeof=len)
    cache.put("a", b"old")
    assert not cache.put("a", b"x" * 101)
    assert cache.get("a") is MISS
    assert cache.bytes == 0


def test_an_overwrite_keeps_its_place_and_its_pin_and_forgets_evidence_and_prior(clock):
    cache = AttentionLRUCache(2, clock=clock)
    cache.put("a", 1, embedding=[1.0, 0.0], prior=1.0)
    cache.put("b", 1, prior=0.6)
    cache.attend([1.0, 0.0])
    cache.put("a", 2)  # now at the prior 0.5, so it is the lowest
    assert cache.keys() == ["a", "b"]
    cache.put("c", 1, prior=0.9)
    assert cache.keys() == ["b", "c"]
    cache.pin("b")
    cache.put("b", 2, prior=0.0)
    cache.put("d", 1)
    assert cache.keys() == ["b", "d"]


def test_pins_that_leave_no_room_refuse_the_newcomer_and_lose_nothing():
    cache = AttentionLRUCache(3, 100, getsizeof=len)
    cache.put("a", b"x" * 60)
    cache.put("b", b"x" * 20)
    assert cache.pin("a")
    assert not cache.pin("absent")
    assert not cache.put("c", b"x" * 50)
    assert cache.keys() == ["a", "b"]
    assert cache.stats()["no_room"] == 1
    assert cache.put("c", b"x" * 40)
    assert cache.keys() == ["a", "c"]
    cache.pin("a", value=False)
    assert cache.put("c", b"x" * 50)
    assert cache.keys() == ["c"]


def test_what_the_caller_changes_does_not_change_the_cache():
    cache = AttentionLRUCache(2)
    value = {"list": [1]}
    embedding = np.array([1.0, 0.0])
    cache.put("k", value, embedding=embedding)
    value["list"].append(2)
    cache.get("k")["list"].append(3)
    assert cache.get("k") == {"list": [1]}
    array = np.zeros(3)
    cache.put("array", array)
    array[0] = 1
    cache.get("array")[1] = 1
    assert cache.get("array").tolist() == [0, 0, 0]


def test_copy_none_keeps_and_gives_the_very_object():
    value = [1]
    cache = AttentionLRUCache(1, copy=None)
    cache.put("k", value)
    assert cache.get("k") is value


def test_a_value_that_cannot_be_copied_is_not_stored_but_counted():
    cache = AttentionLRUCache(2)
    cache.put("k", "old")
    assert not cache.put("k", [threading.Lock()])
    assert cache.get("k") is MISS
    assert cache.stats()["uncacheable"] == 1


def test_attend_late_equals_stamping_at_once(clock):
    """One cache is told by attend, its twin entry by entry; both evict the same, at every step."""
    rng = np.random.default_rng(5)
    evicted = {"late": [], "now": []}
    late = AttentionLRUCache(120, clock=clock, on_evict=evicted["late"].extend)
    now = AttentionLRUCache(120, clock=clock, on_evict=evicted["now"].extend)
    embeddings = rng.standard_normal((400, 8))
    for i in range(400):
        for cache in (late, now):
            cache.put(i, i, embedding=None if i % 7 == 0 else embeddings[i], prior=float(i % 5) / 5)
        clock.advance(1)
        if i % 50 == 49:
            task = rng.standard_normal(8)
            late.attend(task)
            for slot in list(now._held.table.index.values()):
                now._held.table.slots.look(slot, np.asarray(task / np.linalg.norm(task), dtype=np.float32))
        if i % 30 == 29:
            for cache in (late, now):
                cache.get(i, query_vector=embeddings[i - 1])
    assert evicted["late"] == evicted["now"]
    assert len(evicted["late"]) == 280


def test_a_later_query_overrides_the_task_for_its_entry_and_later_puts_have_no_evidence(clock):
    cache = AttentionLRUCache(3, evidence_weight=1.0, default_prior=0.5, clock=clock)
    cache.put("asked", 1, embedding=[1.0, 0.0])
    cache.put("attended", 1, embedding=[1.0, 0.0])
    cache.attend([0.0, 1.0])  # 0 for both
    cache.get("asked", query_vector=[1.0, 0.0])  # 1 for this one
    cache.put("later", 1, embedding=[1.0, 0.0])  # its prior, 0.5
    cache.put("x", 1, prior=1.0)
    assert cache.keys() == ["asked", "later", "x"]
    cache.put("y", 1, prior=1.0)
    assert cache.keys() == ["asked", "x", "y"]


def test_attending_before_there_is_any_embedding_promises_nothing(clock):
    cache = AttentionLRUCache(2, clock=clock)
    cache.attend([1.0, 0.0, 0.0])
    cache.put("plain", 1, prior=0.4)
    cache.attend([1.0, 0.0, 0.0])
    cache.put("b", 1, embedding=[1.0, 0.0], prior=0.6)
    cache.put("c", 1)
    assert cache.keys() == ["b", "c"]


def test_a_zero_vector_is_evidence_zero_on_either_side(clock):
    cache = AttentionLRUCache(2, clock=clock, evidence_weight=1.0)
    cache.put("zero", 1, embedding=[0.0, 0.0], prior=1.0)
    cache.put("plain", 1, prior=0.1)
    cache.attend([1.0, 0.0])
    cache.put("c", 1)
    assert cache.keys() == ["plain", "c"]
    cache.put("d", 1, embedding=[1.0, 0.0], prior=1.0)
    cache.attend([0.0, 0.0])
    cache.put("e", 1)
    assert cache.keys() == ["c", "e"]


def test_an_old_favourite_is_forgotten_where_counts_age_and_kept_by_plain_lfu(clock):
    """Read 50 times, then never again while two others are read 400 times in all."""
    kept = {}
    for policy, prior in (("lfu", 0.5), ("lfu", "frequency"), ("attention_lru", "frequency")):
        cache = AttentionLRUCache(3, policy=policy, default_prior=prior, clock=clock)
        for key in ("favourite", "b", "c"):
            cache.put(key, key)
        for _ in range(50):
            cache.get("favourite")
        for i in range(400 if prior == "frequency" else 40):
            cache.get("bc"[i % 2])
        cache.put("d", "d")
        kept[policy, prior] = "favourite" in cache
    assert kept == {
        ("lfu", 0.5): True,
        ("lfu", "frequency"): False,
        ("attention_lru", "frequency"): False,
    }


def test_the_frequency_prior_survives_any_number_of_accesses(clock):
    """The weight of a use passes its limit every 3 300 accesses of a lone entry; nothing becomes infinite."""
    cache = AttentionLRUCache(2, default_prior="frequency", clock=clock)
    cache.put("a", 1)
    for _ in range(20_000):
        cache.get("a")
    cache.put("b", 1)
    cache.put("c", 1)
    assert cache.keys() == ["a", "c"]
    # Each use weighs 2 ** -0.1 of the next one: at most 1 / (1 - 2 ** -0.1) = 14.93 uses.
    assert cache._held.table.slots.entries(clock()).access_count.max() <= 14.93


def test_an_explicit_prior_goes_before_the_frequency(clock):
    cache = AttentionLRUCache(2, default_prior="frequency", clock=clock)
    cache.put("rated", 1, prior=0.9)
    cache.put("read", 1)
    cache.get("read")
    cache.put("new", 1)
    assert cache.keys() == ["rated", "new"]


def test_a_clock_set_back_counts_as_age_zero(clock):
    cache = AttentionLRUCache(2, clock=clock)
    cache.put("a", 1)
    clock.advance(-3600)
    cache.put("b", 1, prior=0.4)
    cache.put("c", 1)
    assert cache.keys() == ["a", "c"]


def test_on_evict_sees_the_cache_in_order_and_may_use_it():
    seen = []

    def on_evict(pairs):
        seen.append((pairs, cache.keys()))
        raise RuntimeError("from the callback")

    cache = AttentionLRUCache(1, on_evict=on_evict)
    cache.put("a", 1)
    with pytest.raises(RuntimeError, match="from the callback"):
        cache.put("b", 2)
    assert seen == [([("a", 1)], ["b"])]
    assert cache.get("b") == 2


def test_delete_and_clear_free_everything_even_pinned_entries():
    cache = AttentionLRUCache(3, getsizeof=len)
    for key in "abc":
        cache.put(key, "xx", embedding=[1.0, 0.0])
        cache.pin(key)
    assert cache.bytes == 3 * (2 + 8)
    assert cache.delete("a")
    assert not cache.delete("a")
    assert (cache.keys(), cache.bytes) == (["b", "c"], 20)
    cache.clear()
    assert (cache.keys(), cache.bytes) == ([], 0)
    assert cache.put("a", "x", embedding=[1.0, 0.0, 0.0])


@pytest.mark.parametrize("policy", ["attention_lru", "random"])
def test_the_same_calls_evict_the_same_entries(policy):
    def run():
        clock, gone = FakeClock(), []
        cache = AttentionLRUCache(20, policy=policy, seed=4, clock=clock, on_evict=gone.extend)
        for i in range(200):
            cache.put(i, i, prior=(i * 7 % 10) / 10)
            clock.advance(1)
        return gone

    assert run() == run()


def test_threads_leave_the_bounds_and_the_sums_true():
    cache = AttentionLRUCache(50, 3000, getsizeof=len, default_prior="frequency")
    errors = []

    def work(seed):
        rng = np.random.default_rng(seed)
        try:
            for key, size in zip(rng.integers(0, 80, 1500).tolist(), rng.integers(0, 99, 1500).tolist(), strict=True):
                match key % 5:
                    case 0:
                        cache.delete(key)
                    case 1:
                        cache.attend([1.0, float(key)])
                    case _:
                        cache.put(key, bytes([key]) * size, embedding=[1.0, 2.0])
                found = cache.get(key)
                assert found is MISS or found == bytes([key]) * len(found)
                assert len(cache) <= 50
                assert cache.bytes <= 3000
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    keys = cache.keys()
    assert cache.bytes == sum(len(cache.get(key)) + 8 for key in keys)
    assert cache.stats()["hits"] + cache.stats()["misses"] == 6 * 1500 + len(cache)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "expected max_items, max_bytes or both"),
        ({"max_items": 0}, "max_items: expected a whole number from 1 on"),
        ({"max_bytes": -1}, "max_bytes: expected a whole number from 1 on"),
        ({"max_items": 1.5}, "got 1.5"),
        ({"max_items": True}, "got True"),
        ({"max_items": 1, "alpha": -1}, "alpha"),
        ({"max_items": 1, "alpha": 0, "beta": 0}, "not both be 0"),
        ({"max_items": 1, "time_scale": 0}, "time_scale"),
        ({"max_items": 1, "evidence_weight": 1.5}, "evidence_weight"),
        ({"max_items": 1, "default_prior": 2}, "default_prior: expected a number from 0 to 1, got 2"),
        ({"max_items": 1, "default_prior": "often"}, "default_prior.*got 'often'"),
        ({"max_items": 1, "policy": "mru"}, "policy: expected one of"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        AttentionLRUCache(**arguments)


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([1.0, math.nan], "finite"),
        ([1e300, 0.0], "finite float32"),
        ([[1.0, 0.0]], r"shape \[1, 2\]"),
        ([], r"shape \[0\]"),
        (1.0, r"shape \[\]"),
        (["a", "b"], "real numbers"),
        ([1j, 0], "real numbers"),
        ([[1.0], [1.0, 2.0]], "list of numbers"),
        ([1.0, 0.0, 0.0], "expected 2 dimensions like the embeddings held, got 3"),
    ],
)
def test_bad_vectors_are_refused_everywhere_and_change_nothing(vector, message):
    cache = AttentionLRUCache(2)
    cache.put("k", 1, embedding=[1.0, 0.0])
    with pytest.raises(InvalidInput, match=message):
        cache.put("k", 2, embedding=vector)
    with pytest.raises(InvalidInput, match=message):
        cache.get("k", query_vector=vector)
    with pytest.raises(InvalidInput, match=message):
        cache.attend(vector)
    assert cache.get("k") == 1
    assert cache.stats()["hits"] == 1


@pytest.mark.parametrize("prior", [-0.1, 1.1, math.nan, "0.5", True])
def test_a_prior_outside_0_1_is_refused(prior):
    cache = AttentionLRUCache(2)
    with pytest.raises(InvalidInput, match="prior: expected a number from 0 to 1"):
        cache.put("k", 1, prior=prior)
    assert len(cache) == 0


@pytest.mark.parametrize("prior", [0.5, "frequency"])
@pytest.mark.parametrize("size", [100, 5000])
def test_an_entry_takes_at_most_300_bytes_beside_key_and_value(prior, size):
    """Filled, and after four times as many evictions, when the frequency keeps ghosts; the empty cache included."""
    keys, value = [f"{i:064x}" for i in range(5 * size)], b"x" * 400
    warm = AttentionLRUCache(100, default_prior=prior)
    for key in keys[:300]:
        warm.put(key, value)  # what numpy sets up once is not the cache's
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        cache = AttentionLRUCache(size, default_prior=prior)
        for key in keys[:size]:
            cache.put(key, value)
        filled = tracemalloc.get_traced_memory()[0] - before
        for key in keys[size:]:
            cache.put(key, value)
        churned = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert filled <= 300 * size
    assert churned <= 300 * size


def test_sizes_are_measured_through_nesting_and_cycles():
    text = "x" * 10_000
    base = sys.getsizeof(text)
    cycle = [text]
    cycle.append(cycle)

    class Plain:
        def __init__(self):
            self.inside = [text]

    class Slotted:
        __slots__ = ("inside",)

        def __init__(self):
            self.inside = text

    for value in (text, [text, text], {"a": {"b": text}}, (text,), {text}, deque([text]), cycle, Plain(), Slotted()):
        assert base <= deep_size(value) < base + 3000
    big = np.zeros(10_000)
    assert 80_000 <= deep_size({"array": big}) < 81_000
    assert 40_000 <= deep_size(big[:5000]) < 41_000
    assert deep_size(copy) < 1000
