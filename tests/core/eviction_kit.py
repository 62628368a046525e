"""What the tests of the cache without its lock look at."""

import sys
import threading


def in_order(cache, bound):
    """Index, keys, values, free slots and the columns say the same of every slot."""
    table = cache._held.table
    taken, free = set(table.index.values()), set(table.slots.free)
    assert len(taken) == len(table.index) == len(cache) <= bound
    assert len(free) == len(table.slots.free)
    assert not taken & free
    assert taken | free == set(range(len(table.keys))) == set(range(len(table.values)))
    assert len(table.keys) == table.slots._capacity == len(table.slots.last_accessed) <= bound
    for key, slot in table.index.items():
        assert table.keys[slot] == key
        assert table.slots.last_accessed[slot] > 0.0
    for slot in free:
        assert table.keys[slot] is table.values[slot] is None
        assert table.slots.size[slot] == 0
    assert table.slots.pinned <= taken
    assert table.waiting() == 0
    assert set(table.slots.evictable().nonzero()[0]) == taken - table.slots.pinned
    numbers = [table.slots.inserted[slot] for slot in [*table.index.values(), *table.slots.free]]
    assert len(set(numbers)) == len(numbers)
    assert table.bytes == sum(table.slots.size[slot] for slot in taken)


def at_once(*runs):
    """Each in a thread of its own; they change places as often as the interpreter lets them."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=run) for run in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
