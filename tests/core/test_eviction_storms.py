"""Storms of threads on one cache: no slot, no bound and no value is lost."""

import random
from functools import partial

import pytest

from shared_core.eviction import AttentionLRUCache
from shared_core.records import MISS
from tests.core.eviction_kit import at_once, in_order


@pytest.mark.parametrize("policy", ["attention_lru", "lru", "fifo"])
@pytest.mark.parametrize("bound", [1, 2, 7, 200])
def test_after_a_storm_of_threads_every_slot_is_accounted_for(bound, policy):
    """Puts, reads, deletes, clears and evictions at once, the threads changing places as often as they can."""
    evicted = []
    cache = AttentionLRUCache(bound, policy=policy, on_evict=evicted.extend)
    wrong, rounds = [], 400

    def run(number):
        rng = random.Random(number)
        try:
            for i in range(rounds):
                key = f"key-{rng.randrange(max(4, 2 * bound))}"
                what = rng.random()
                if what < 0.6:
                    if not cache.put(key, f"{key}|{number}:{i}"):
                        wrong.append(("not stored", key))
                elif what < 0.85:
                    value = cache.get(key)
                    if value is not MISS and not value.startswith(f"{key}|"):
                        wrong.append((key, value))
                elif what < 0.95:
                    cache.delete(key)
                elif what < 0.96:
                    cache.clear()
                else:
                    held = cache.keys()
                    if len(held) > bound or len(set(held)) < len(held) or cache.bytes < 0:
                        wrong.append(("keys", held))
                if len(cache) > bound:
                    wrong.append(("bound", len(cache)))
        except BaseException as error:  # noqa: BLE001  whatever it is, the test is to fail with it
            wrong.append(error)

    at_once(*(partial(run, number) for number in range(6)))
    assert wrong == []
    in_order(cache, bound)
    assert all(value.startswith(f"{key}|") for key, value in evicted)
    assert len(evicted) == cache.stats()["evictions"]
    assert all(cache.get(key).startswith(f"{key}|") for key in cache.keys())  # noqa: SIM118
    cache.clear()
    for i in range(bound + 5):  # and nothing of the storm is left in the order of eviction
        cache.put(f"last-{i}", "v")
    assert cache.keys()[-1] == f"last-{bound + 4}"
    if bound < 100:  # one at a time
        assert cache.keys() == [f"last-{i}" for i in range(5, bound + 5)]


def fill(cache, number):
    for i in range(100):
        cache.put(f"{number}-{i}", i)


def test_threads_that_put_different_keys_at_once_fill_a_cache_to_its_bound_exactly():
    for _ in range(20):
        cache = AttentionLRUCache(400)
        at_once(*[partial(fill, cache, number) for number in range(4)])
        assert set(cache.keys()) == {f"{n}-{i}" for n in range(4) for i in range(100)}
        assert cache.stats()["evictions"] == 0
        in_order(cache, 400)
