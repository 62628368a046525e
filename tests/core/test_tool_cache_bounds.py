"""Bytes and entries stay within their bounds after every operation."""

import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from shared_core.testing import FakeClock, InMemoryBlobs
from tests.core.tool_cache_kit import Counted, tool_cache


def kept(tools, key):
    tool = Counted("again")
    tools.call("get", {"key": key}, tool)
    return tool.calls == 0


def test_an_entry_over_a_fifth_of_the_byte_bound_is_not_kept_and_evicts_nothing():
    tools = tool_cache(cache_bytes=10_000)
    tools.register("get")
    tools.call("get", {"key": "small"}, lambda key: "x" * 1000)
    huge = Counted("x" * 2001)
    for _ in range(2):
        assert len(tools.call("get", {"key": "huge"}, huge)) == 2001
    assert huge.calls == 2
    assert kept(tools, "small")
    assert tools.stats()["misses"]["uncacheable"] == 2


def test_a_tool_can_have_a_smaller_limit_of_its_own():
    tools = tool_cache()
    tools.register("get", max_entry_bytes=100)
    tool = Counted("x" * 200)
    for _ in range(2):
        tools.call("get", {}, tool)
    assert tool.calls == 2


def test_a_value_replaced_is_measured_once():
    clock = FakeClock()
    tools = tool_cache(clock)
    tools.register("get", ttl=1)
    sizes = set()
    for _ in range(5):
        tools.call("get", {}, lambda: "x" * 500)
        sizes.add(tools.stats()["bytes"])
        clock.advance(2)
    assert len(sizes) == 1
    assert tools.stats()["entries"] == 1


def test_copies_are_measured_whole():
    class Page:
        def __init__(self):
            self.text = ["x" * 10_000]

    tools = tool_cache()
    tools.register("get")
    tools.call("get", {}, Page)
    assert tools.stats()["bytes"] > 10_000


def test_a_bound_holds_while_nothing_has_expired_and_the_next_miss_says_evicted():
    tools = tool_cache(cache_items=3)
    tools.register("get", ttl=None)
    for key in "abcd":
        tools.call("get", {"key": key}, lambda key: key)
    assert tools.stats()["entries"] == 3
    assert tools.stats()["evictions"] == 1
    assert [kept(tools, key) for key in "bcd"] == [True] * 3
    assert not kept(tools, "a")
    assert tools.stats()["misses"]["evicted"] == 1


@pytest.mark.parametrize(("policy", "survivor"), [("lru", "b"), ("lfu", "a")])
def test_one_argument_chooses_another_policy(policy, survivor):
    clock = FakeClock()
    tools = tool_cache(clock, policy=policy, cache_items=2)
    tools.register("get", ttl=None)
    for key in "aaab":
        tools.call("get", {"key": key}, lambda key: key)
        clock.advance(1)
    tools.call("get", {"key": "c"}, lambda key: key)
    assert kept(tools, survivor)


def test_under_lfu_a_count_from_long_ago_does_not_keep_an_entry_for_ever():
    tools = tool_cache(policy="lfu", cache_items=10)
    tools.register("get", ttl=None)
    for _ in range(300):
        tools.call("get", {"key": "old"}, lambda key: key)
    for i in range(3000):
        tools.call("get", {"key": str(i // 3)}, lambda key: key)
    assert not kept(tools, "old")


def test_evicted_entries_leave_nothing_behind():
    tools = tool_cache(cache_items=10)
    tools.register("get", reads="key")
    for i in range(500):
        tools.call("get", {"key": str(i)}, lambda key: key)
    index = tools._entries._generations._index
    assert {kind: len(texts) for kind, texts in index.items()} == {"tool": 1, "call": 10, "space": 1, "resource": 10}


def test_a_result_with_a_resource_of_its_own_costs_less_than_two_kilobytes_of_bookkeeping():
    """500 short results, each of another resource; the keys and the counted repeats included."""
    tools = tool_cache()
    tools.register("get", reads="key")
    texts = [f"res:{i}" for i in range(500)]
    tracemalloc.start()
    try:
        for text in texts:
            tools.call("get", {"key": text}, lambda key: key)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert tools.stats()["entries"] == 500
    assert held / 500 < 2000


class Bounds(RuleBasedStateMachine):
    """Any mixture of calls, growth, expiry and events, with and without rows."""

    blobs = None

    def __init__(self):
        super().__init__()
        self.clock = FakeClock()
        self.tools = tool_cache(self.clock, blobs=self.blobs and InMemoryBlobs(), cache_bytes=4000, cache_items=5)
        self.tools.register("get", reads="key", ttl=50)
        self.tools.register("set", writes="key")

    @rule(key=st.sampled_from("abcdefgh"), size=st.integers(0, 1500), kind=st.sampled_from([str, list, bytes]))
    def call(self, key, size, kind):
        made = {str: "x" * size, list: ["x" * size], bytes: b"x" * size}[kind]
        got = self.tools.call("get", {"key": key}, lambda key: [key, made])
        assert got[0] == key

    @rule(key=st.sampled_from("abcdefgh"), event=st.sampled_from(["set", "resource", "prefix", "call", "unknown"]))
    def event(self, key, event):
        if event in ("set", "unknown"):
            self.tools.call(event, {"key": key}, lambda key: None)
        elif event == "resource":
            self.tools.invalidate_resource(key)
        elif event == "prefix":
            self.tools.invalidate_prefix("g")
        else:
            self.tools.invalidate("get", {"key": key})

    @rule(seconds=st.integers(0, 40))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @invariant()
    def within_bounds(self):
        stats = self.tools.stats()
        assert stats["entries"] <= 5
        assert stats["bytes"] <= 4000
        shelf = self.tools._entries._shelf
        assert stats["bytes"] == sum(shelf.get(key).size for key in shelf.select(lambda entry: True))


class BoundsWithRows(Bounds):
    blobs = True


TestBounds = Bounds.TestCase
TestBounds.settings = settings(max_examples=30, stateful_step_count=30)
TestBoundsWithRows = BoundsWithRows.TestCase
TestBoundsWithRows.settings = settings(max_examples=15, stateful_step_count=30)


def test_threads_that_ask_at_the_same_moment_execute_once_each_round():
    tools = tool_cache()
    tools.register("get")
    meet = threading.Barrier(8, timeout=20)
    ran = []

    def ask():
        for i in range(100):
            meet.wait()
            assert tools.call("get", {"i": i}, lambda i: ran.append(i) or [i]) == [i]

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(ask) for _ in range(8)]:
            done.result(60)
    assert sorted(ran) == list(range(100))


def test_the_rule_holds_between_threads_that_evict_and_invalidate():
    tools = tool_cache(cache_items=20, cache_bytes=20_000)
    tools.register("get", reads="key")

    def work(seed):
        for i in range(200):
            key = str((i * seed) % 50)
            assert tools.call("get", {"key": key}, lambda key: [key]) == [key]
            if i % 7 == 0:
                tools.invalidate_resource(key)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, seed) for seed in (1, 3, 7, 11)]:
            done.result(60)
    assert tools.stats()["entries"] <= 20
    tools.invalidate_prefix("")
    tools.call("get", {"key": "x"}, lambda key: key)
