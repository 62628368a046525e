"""The cache against a naive model, step by step: contents, bounds and victims after every call."""

import math
import sys

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from shared_core.eviction import AttentionLRUCache
from shared_core.records import MISS
from shared_core.testing import FakeClock

# Rows of a 3-4-5 triangle: the cosines between them are 0, 0.6, 0.8 and 1, or negative.
VECTORS = [(1.0, 0.0), (0.0, 2.0), (3.0, 4.0), (-1.0, 0.0), (0.0, 0.0)]
vectors = st.sampled_from(VECTORS)
keys = st.integers(0, 11)
texts = keys.map(str)


def cosine(a, b):
    lengths = math.hypot(*a) * math.hypot(*b)
    return 0.0 if lengths == 0 else max(0.0, sum(x * y for x, y in zip(a, b, strict=True)) / lengths)


class Model:
    """The written rule in plain Python: stamps at once, scores one by one, takes the lowest again and again."""

    def __init__(self, max_items, max_bytes, policy):
        self.max_items, self.max_bytes, self.policy = max_items or math.inf, max_bytes or math.inf, policy
        self.entries, self.insertions, self.evicted = {}, 0, []

    @property
    def bytes(self):
        return sum(e["size"] for e in self.entries.values())

    def score(self, e, now):
        if self.policy == "lru":
            return e["last"]
        if self.policy == "lfu":
            return e["count"]
        if self.policy == "fifo":
            return e["inserted"]
        evidence = e["prior"] if e["evidence"] is None else e["evidence"]
        attention = 0.75 * e["prior"] + 0.25 * evidence
        # Rounded, because the cache keeps float32 embeddings: what ties here ties there.
        return round(0.4 / (1.0 + max(0.0, now - e["last"]) / 300.0) + 0.6 * attention, 6)

    def put(self, key, size, vector, prior, now):
        old = self.entries.get(key)
        size += 0 if vector is None else 8
        others = {k: e for k, e in self.entries.items() if k != key}
        pinned = [e["size"] for e in others.values() if e["pinned"]]
        full = len(pinned) + 1 > self.max_items or sum(pinned) + size > self.max_bytes
        if size > self.max_bytes or full:
            self.entries.pop(key, None)
            return False
        room = [self.max_items, self.max_bytes]
        if len(others) + 1 > self.max_items:
            room[0] = self.max_items - max(1, self.max_items // 100)
        if sum(e["size"] for e in others.values()) + size > self.max_bytes:
            room[1] = self.max_bytes - max(1, self.max_bytes // 100, size)
        while len(others) > room[0] or sum(e["size"] for e in others.values()) > room[1]:
            free = [k for k, e in others.items() if not e["pinned"]]
            if not free:
                break
            lowest = min(free, key=lambda k: (self.score(others[k], now), others[k]["last"], others[k]["inserted"]))
            del others[lowest], self.entries[lowest]
            self.evicted.append(lowest)
        if old is None:
            old = {"inserted": self.insertions, "count": 0, "pinned": False}
            self.insertions += 1
        self.entries[key] = {
            **old,
            "size": size,
            "vector": vector,
            "prior": 0.5 if prior is None else prior,
            "evidence": None,
            "last": now,
            "count": old["count"] + 1,
        }
        return True

    def look(self, e, vector):
        if e["vector"] is not None:
            e["evidence"] = cosine(e["vector"], vector)


class CacheAgainstModel(RuleBasedStateMachine):
    @initialize(
        bounds=st.sampled_from([(3, None), (7, None), (None, 40), (None, 450), (5, 60)]),
        policy=st.sampled_from(["attention_lru", "attention_lru", "lru", "lfu", "fifo"]),
    )
    def start(self, bounds, policy):
        self.clock, self.evicted = FakeClock(1000.0), []
        self.cache = AttentionLRUCache(
            *bounds, policy=policy, clock=self.clock, getsizeof=len, on_evict=self.evicted.extend
        )
        self.model = Model(*bounds, policy)
        self.values = {}

    @rule(seconds=st.sampled_from([0.5, 10.0, 300.0, -40.0]))
    def time_passes_or_is_set_back(self, seconds):
        self.clock.advance(seconds)

    @rule(
        key=keys,
        size=st.sampled_from([0, 1, 5, 9, 17, 39, 61, 200]),
        vector=st.none() | vectors,
        prior=st.sampled_from([None, 0.0, 0.25, 0.5, 1.0]),
    )
    def put(self, key, size, vector, prior):
        value = bytes([key]) * size
        stored = self.cache.put(key, value, embedding=vector, prior=prior)
        assert stored == self.model.put(key, size, vector, prior, self.clock.now)
        self.values[key] = value

    @rule(key=keys, vector=st.none() | vectors)
    def get(self, key, vector):
        e = self.model.entries.get(key)
        found = self.cache.get(key, query_vector=vector)
        assert found == (MISS if e is None else self.values[key])
        if e is not None:
            e["last"], e["count"] = self.clock.now, e["count"] + 1
            if vector is not None:
                self.model.look(e, vector)

    @rule(vector=vectors)
    def attend(self, vector):
        self.cache.attend(vector)
        for e in self.model.entries.values():
            self.model.look(e, vector)

    @rule(key=keys, value=st.booleans())
    def pin(self, key, value):
        assert self.cache.pin(key, value) == (key in self.model.entries)
        if key in self.model.entries:
            self.model.entries[key]["pinned"] = value

    @rule(key=keys)
    def delete(self, key):
        assert self.cache.delete(key) == (self.model.entries.pop(key, None) is not None)

    @invariant()
    def contents_are_exactly_those_of_the_model(self):
        order = sorted(self.model.entries, key=lambda k: self.model.entries[k]["inserted"])
        assert self.cache.keys() == order
        assert len(self.cache) == len(order)
        assert self.cache.bytes == self.model.bytes
        assert [key for key, _ in self.evicted] == self.model.evicted
        assert all(value == self.values_when_evicted(key, value) for key, value in self.evicted)

    def values_when_evicted(self, key, value):
        return bytes([key]) * len(value)

    @invariant()
    def the_bounds_hold(self):
        assert len(self.cache) <= self.model.max_items
        assert self.cache.bytes <= self.model.max_bytes


TestCacheAgainstModel = CacheAgainstModel.TestCase
TestCacheAgainstModel.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)


class PutsWithoutTheLock(CacheAgainstModel):
    """The same law where puts of new keys take no lock: bounded in entries alone, text for keys, nothing beside."""

    @initialize(bound=st.integers(1, 9), policy=st.sampled_from(["attention_lru", "lru", "fifo"]))
    def start(self, bound, policy):
        self.clock, self.evicted = FakeClock(1000.0), []
        self.cache = AttentionLRUCache(bound, policy=policy, clock=self.clock, on_evict=self.evicted.extend)
        self.model = Model(bound, None, policy)
        self.values = {}

    @rule(key=texts, value=st.sampled_from([b"", b"x", b"xyz"]))
    def put(self, key, value):
        assert self.cache.put(key, key.encode() + value)
        assert self.model.put(key, sys.getsizeof(key.encode() + value), None, None, self.clock.now)
        self.values[key] = key.encode() + value

    @rule(key=texts)
    def get(self, key):
        super().get(key, None)

    @rule(key=texts, value=st.booleans())
    def pin(self, key, value):
        if value and sum(e["pinned"] for e in self.model.entries.values()) + 1 >= self.model.max_items:
            return  # there is to be room for a put
        super().pin(key, value)

    @rule(key=texts)
    def delete(self, key):
        super().delete(key)

    def values_when_evicted(self, key, value):
        return key.encode() + value[len(key) :]


TestPutsWithoutTheLock = PutsWithoutTheLock.TestCase
TestPutsWithoutTheLock.settings = settings(max_examples=80, stateful_step_count=60, deadline=None)


@pytest.mark.parametrize("vector", VECTORS)
def test_the_models_cosines_are_the_caches(vector):
    """The model is only worth something if its own arithmetic is right."""
    assert cosine(vector, (3.0, 4.0)) == pytest.approx(
        {(1.0, 0.0): 0.6, (0.0, 2.0): 0.8, (3.0, 4.0): 1.0, (-1.0, 0.0): 0.0, (0.0, 0.0): 0.0}[vector]
    )
