"""What runs inside the container without being its own: finalisers, comparisons, clocks that tell nothing."""

import copy
import gc
import math
import threading
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.eviction import AttentionLRUCache, copy_value, deep_size
from shared_core.testing import FakeClock


class Farewell:
    """A value whose last act is to use the cache it was in."""

    def __init__(self, cache, said):
        self.cache, self.said = cache, said

    def __del__(self):
        self.said.append(len(self.cache.keys()))
        self.cache.put("last words", 1)


def finishes(run):
    """Run in a thread, so that a dead-lock fails the test instead of hanging it."""
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10)
    return not thread.is_alive()


@pytest.mark.parametrize(
    "leave",
    [
        lambda cache: cache.put("k", 2),
        lambda cache: cache.delete("k"),
        lambda cache: cache.clear(),
        lambda cache: [cache.put(i, i) for i in range(4)],
        lambda cache: cache.put("k", [threading.Lock()]),
        lambda cache: cache.put("k", b"x" * 2000),
    ],
    ids=["overwritten", "deleted", "cleared", "evicted", "replaced by what cannot be copied", "by what is too large"],
)
def test_a_value_that_calls_the_cache_when_it_goes_finds_it_free_and_in_order(leave):
    cache = AttentionLRUCache(3, 1000, policy="fifo", copy=lambda v: v if isinstance(v, Farewell) else copy.deepcopy(v),
                              getsizeof=lambda v: len(v) if isinstance(v, bytes) else 1)  # fmt: skip
    said = []
    cache.put("k", Farewell(cache, said))
    assert finishes(lambda: leave(cache))
    assert len(said) == 1
    assert "last words" in cache
    assert cache.bytes == len(cache) <= 3


def test_a_finaliser_run_by_the_garbage_collector_inside_the_lock_does_not_wait_for_ever():
    cache = AttentionLRUCache(3)
    said = []

    class Collecting:
        """A key whose comparison collects garbage: the moment cannot be worse."""

        def __hash__(self):
            return 1

        def __eq__(self, other):
            cycle = [Farewell(cache, said)]
            cycle.append(cycle)
            del cycle
            gc.collect()
            return self is other

    def run():
        cache.put(Collecting(), 1)
        cache.put(Collecting(), 2)

    assert finishes(run)
    assert said
    assert cache.bytes == sum(deep_size(cache.get(key)) for key in cache.keys())  # noqa: SIM118


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("policy", ["attention_lru", "lru", "lfu", "fifo"])
def test_an_instant_the_clock_cannot_tell_counts_as_long_ago_and_spoils_no_other_score(broken, policy):
    clock = FakeClock()
    cache = AttentionLRUCache(3, policy=policy, clock=clock)
    clock.now = broken
    cache.put("unknown", 1)
    clock.now = 1000.0
    for key in ("b", "c"):
        clock.advance(1)
        cache.put(key, 1)
        cache.get(key)
    cache.put("d", 1)
    assert cache.keys() == ["b", "c", "d"]
    clock.now = broken
    cache.put("e", 1)  # now itself is unknown: the order of what is known still holds
    assert len(cache) == 3
    assert "e" in cache
    clock.now = 2000.0
    assert cache.get("e") == 1


@pytest.mark.parametrize("value", [(1, "a", None, 2.5), [1, "a", b"x"], {"a": 1, 2: None}, (), [], {}])
def test_a_flat_value_is_copied_and_measured_as_a_nested_one(value):
    found = copy_value(value)
    assert found == value
    assert type(found) is type(value)
    assert (found is value) == isinstance(value, tuple)
    assert deep_size([value]) == deep_size(value) + deep_size([None]) - deep_size(None)


def test_an_object_twice_in_a_flat_value_is_measured_once():
    text = "x" * 1000
    assert deep_size((text, text)) < 1200
    assert deep_size([text, text]) == deep_size({"a": [text, text]}["a"])


def test_a_flat_list_of_changeable_things_is_copied_all_the_way():
    value = {"a": [1]}
    found = copy_value(value)
    found["a"].append(2)
    assert value == {"a": [1]}


class Meddling:
    """A key whose comparison asks the cache for whatever is next in the plan; hashes collide, so there is much to compare."""

    cache, plan = None, ()

    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return self.n % 3

    def __eq__(self, other):
        plan, Meddling.plan = Meddling.plan, ()  # what it asks for is not asked again from inside itself
        if plan:
            plan[0](Meddling.cache)
        Meddling.plan = plan[1:]
        return self.n == other.n


numbers = st.integers(0, 11)
changes = st.one_of(
    st.tuples(st.just("put"), numbers, st.integers(0, 60).map("x".__mul__)),
    st.tuples(st.sampled_from(["delete", "pin", "get"]), numbers),
    st.tuples(st.sampled_from(["clear", "stats"])),
).map(lambda one: lambda cache: getattr(cache, one[0])(*map(Meddling, one[1:2]), *one[2:]))


class Failing:
    """A key that can be compared a few times, and then once cannot."""

    left = 0

    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return 1

    def __eq__(self, other):
        Failing.left -= 1
        if Failing.left == 0:
            raise RuntimeError("no comparison")
        return self.n == other.n


@pytest.mark.parametrize("left", range(1, 8))
def test_a_key_whose_comparison_fails_takes_no_slot(left):
    cache = AttentionLRUCache(6)
    for n in range(4):
        cache.put(Failing(n), "v")
    Failing.left = left
    with suppress(RuntimeError):
        cache.put(Failing(9), "v")
    Failing.left = 0
    held = [key.n for key in cache.keys()]  # noqa: SIM118
    assert held in ([0, 1, 2, 3], [0, 1, 2, 3, 9])
    for n in range(20, 26):
        assert cache.put(Failing(n), "w")
    assert len(cache) == len(cache.keys()) == 6
    assert cache.bytes == 6 * deep_size("w")


@pytest.mark.parametrize("default_prior", [0.5, "frequency"])
@pytest.mark.parametrize("left", range(1, 12))
def test_a_key_whose_comparison_fails_while_a_neighbour_is_evicted_takes_no_slot(left, default_prior):
    """The cache is full: the put compares the new key, then takes another out from among those that collide."""
    cache = AttentionLRUCache(4, 1000, default_prior=default_prior)
    for n in range(4):
        cache.put(Failing(n), "v")
    cache.get(next(iter(cache.keys())))  # the one to go is not the first to be met
    Failing.left = left
    failed = False
    try:
        cache.put(Failing(9), "v")
    except RuntimeError:
        failed = True
    Failing.left = 0
    assert failed or left > 5
    table = cache._held.table
    assert len(cache) in (3, 4)
    assert set(table.index.values()) | set(table.slots.free) == set(range(4))
    assert cache.bytes == len(cache) * deep_size("v")
    assert all(cache.get(key) == "v" for key in cache.keys())  # noqa: SIM118
    for n in range(20, 26):
        assert cache.put(Failing(n), "w")
    assert len(cache) == len(cache.keys()) == 4
    assert cache.bytes == 4 * deep_size("w")


@given(
    max_items=st.integers(1, 8),
    default_prior=st.sampled_from([0.5, "frequency"]),
    calls=st.lists(st.tuples(changes, st.lists(changes, max_size=3)), max_size=30),
)
@settings(deadline=None)
def test_keys_that_change_the_cache_while_they_are_compared_lose_no_slot_and_no_byte(max_items, default_prior, calls):
    cache = Meddling.cache = AttentionLRUCache(max_items, 600, default_prior=default_prior)
    for call, meant in calls:
        Meddling.plan = tuple(meant)
        call(cache)
        Meddling.plan = ()
        held = cache.keys()
        assert len({key.n for key in held}) == len(held) == len(cache) <= max_items
        assert cache.bytes == sum(deep_size(cache.get(key)) for key in held) <= 600
        assert cache._held.table.slots._capacity - len(cache._held.table.slots.free) == len(held)  # no slot is lost


def test_a_change_from_inside_another_is_made_when_that_one_has_ended():
    cache = Meddling.cache = AttentionLRUCache(4)
    first, second = Meddling(1), Meddling(4)
    cache.put(first, "first")
    answers = []
    Meddling.plan = (lambda own: answers.extend([own.delete(first), own.put("told", 1), "told" in own]),)
    assert cache.put(second, "second")
    Meddling.plan = ()
    assert answers == [True, True, False]
    assert cache.keys() == [second, "told"]
