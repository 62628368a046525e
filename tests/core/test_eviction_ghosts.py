"""Newcomers on probation, and the ghosts that correct it."""

from shared_core import AttentionLRUCache
from shared_core.records import MISS


def held_after(keys, size, clock):
    cache = AttentionLRUCache(size, default_prior="frequency", clock=clock)
    hits = 0
    for key in keys:
        clock.advance(1.0)
        if cache.get(key) is MISS:
            cache.put(key, key)
        else:
            hits += 1
    return cache, hits


def test_a_loop_larger_than_the_cache_keeps_part_of_itself_instead_of_nothing(clock):
    """30 keys in turn through 10 places: plain LRU never hits; here the first ones stay and hit each round."""
    _, hits = held_after(list(range(30)) * 20, 10, clock)
    assert hits >= 19 * 8


def test_a_scan_of_keys_asked_for_once_does_not_push_out_what_is_asked_for_again(clock):
    keys = ["a", "b", "c", "a", "b", "c"] * 5 + [f"once-{i}" for i in range(100)]
    cache, _ = held_after(keys, 5, clock)
    assert {"a", "b", "c"} <= set(cache.keys())


def test_a_key_that_comes_back_soon_after_its_eviction_is_proven(clock):
    """A ghost asked for again outlives the newcomers that follow it, without a single hit."""
    keys = ["a", "b"] * 4 + ["x", "w", "y", "x"] + [f"once-{i}" for i in range(9)]
    cache, _ = held_after(keys, 4, clock)
    assert "x" in cache
    assert "w" not in cache


def test_what_was_deleted_leaves_no_ghost(clock):
    cache = AttentionLRUCache(2, default_prior="frequency", clock=clock)
    for key in "abc":
        cache.put(key, key)
    evicted = next(key for key in "abc" if key not in cache)
    held = next(iter(cache.keys()))
    cache.delete(held)
    assert cache._held.table.slots._ghosts._uses.keys() == {hash(evicted)}


def test_ghosts_are_no_more_than_the_entries_held(clock):
    cache, _ = held_after(range(1000), 10, clock)
    assert len(cache._held.table.slots._ghosts._uses) <= 10
