"""Bounded namespaces of the memory's file: the bounds hold always, and the rule decides what goes."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import textwrap
import threading
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core import MISS, AttentionLRUCache, Closed, InvalidInput, TieredMemory
from shared_core.mid_term.bounded import BoundedBlobs
from shared_core.settings import Rule
from shared_core.storage.sqlite import SQLiteStorage
from shared_core.testing import FakeClock, InMemoryBlobs

HERE = ("ada", "cache")


def keys(blobs, where=HERE):
    return blobs.keys(*where, now=0.0)


def held_bytes(blobs):
    found = blobs.get(*HERE, keys(blobs), now=0.0)
    return sum(len(blob.key) + len(blob.value) for blob in found)


@pytest.fixture(params=["sqlite", "reference"])
def blobs(request):
    if request.param == "reference":
        yield InMemoryBlobs()
    else:
        storage = SQLiteStorage(":memory:")
        yield storage.blobs
        storage.close()


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "get", "delete", "clear"]), st.sampled_from("abcdefgh"), st.integers(0, 30)),
    max_size=40,
)


class TestTheBounds:
    @given(steps=STEPS, items=st.integers(1, 5), size=st.integers(1, 60))
    @settings(max_examples=60, deadline=None)
    def test_they_hold_after_every_step_and_both_backends_keep_the_same(self, steps, items, size):
        storage, clock = SQLiteStorage(":memory:"), FakeClock()
        try:
            backends = [storage.blobs, InMemoryBlobs()]
            bounded = [BoundedBlobs(one, rule=Rule(), clock=clock, max_items=items, max_bytes=size) for one in backends]
            for kind, key, length in steps:
                clock.advance(length)
                for one, backend in zip(bounded, backends, strict=True):
                    if kind == "put":
                        one.put(*HERE, [(key, b"x" * length)])
                        assert (backend.get(*HERE, [key], now=0.0)[0] is not None) == (length + 1 <= size)
                    elif kind == "get":
                        one.get(*HERE, [key])
                    elif kind == "delete":
                        backend.delete(*HERE, [key])
                    else:
                        backend.clear(*HERE)
                    assert len(keys(backend)) <= items
                    assert held_bytes(backend) <= size
                if kind in ("put", "get"):
                    assert keys(backends[0]) == keys(backends[1])
        finally:
            storage.close()

    def test_a_blob_larger_than_the_bound_is_not_stored_evicts_nothing_and_ends_the_old_one(self, blobs):
        bounded = BoundedBlobs(blobs, rule=Rule(), clock=FakeClock(), max_bytes=10)
        bounded.put(*HERE, [("a", b"12"), ("b", b"12")])
        assert bounded.put(*HERE, [("b", b"1234567890")]) == []
        assert keys(blobs) == ["a"]

    def test_a_namespace_that_was_full_before_it_had_a_bound_is_brought_within_it_by_the_first_put(self, memory):
        from shared_core import Blob

        memory.storage.blobs.put(*HERE, [Blob(str(i), b"", 0.0) for i in range(20)])
        gone = memory.bounded_blobs(max_items=3).put(*HERE, [("new", b"")])
        assert (len(gone), keys(memory.storage.blobs)) == (18, ["18", "19", "new"])

    def test_each_scope_and_namespace_has_the_bound_for_itself(self, blobs):
        bounded = BoundedBlobs(blobs, rule=Rule(), clock=FakeClock(), max_items=2)
        for where in (HERE, ("bob", "cache"), ("ada", "other")):
            bounded.put(*where, [(str(i), b"") for i in range(5)])
            assert len(keys(blobs, where)) == 2

    @pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "3"])
    def test_a_bound_that_is_none_is_refused(self, memory, wrong):
        with pytest.raises(InvalidInput, match="max_items: expected a whole number from 1 on"):
            memory.bounded_blobs(max_items=wrong)

    def test_threads_at_once_stay_within_them(self, memory):
        bounded = memory.bounded_blobs(max_items=5, max_bytes=100)
        most = []

        def work(name):
            for i in range(40):
                bounded.put(*HERE, [(f"{name}{i}", b"x" * (i % 30))])
                bounded.get(*HERE, [f"{name}{i - 1}", f"{name}{i}"])
                most.append(len(keys(memory.storage.blobs)))

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(most) == 160
        assert max(most) <= 5
        assert held_bytes(memory.storage.blobs) <= 100


class TestTheRule:
    def test_what_is_used_stays_and_what_was_put_once_goes(self, blobs):
        clock = FakeClock()
        bounded = BoundedBlobs(blobs, rule=Rule(), clock=clock, max_items=3)
        bounded.put(*HERE, [("used", b""), ("once", b""), ("also once", b"")])
        for _ in range(4):
            bounded.get(*HERE, ["used"])
        clock.advance(3_000)
        assert bounded.put(*HERE, [("new", b"")]) == ["once"]
        assert keys(blobs) == ["used", "also once", "new"]

    @pytest.mark.parametrize("seed", range(6))
    def test_it_serves_as_many_reads_as_the_container_in_memory(self, seed):
        """The same facts and formulas; only how fast counts age while a store fills differs, by a few reads."""
        rng, clock, served = random.Random(seed), FakeClock(), [0, 0]
        bounded = BoundedBlobs(InMemoryBlobs(), rule=Rule(), clock=clock, max_items=10)
        container = AttentionLRUCache(max_items=10, default_prior="frequency", clock=clock, copy=None)
        for _ in range(600):
            clock.advance(rng.choice([1, 10, 100]))
            key = str(int(rng.expovariate(0.1)))
            if bounded.get(*HERE, [key]) != [None]:
                served[0] += 1
            else:
                bounded.put(*HERE, [(key, b"")])
            if container.get(key) is not MISS:
                served[1] += 1
            else:
                container.put(key, b"")
        assert abs(served[0] - served[1]) <= 3
        assert served[0] > 250

    def test_who_wants_to_know_is_told_what_went_after_it_went(self, blobs):
        told = []
        bounded = BoundedBlobs(
            blobs, rule=Rule(), clock=FakeClock(), max_items=2,
            on_evict=lambda *event: told.append((*event, keys(blobs))),
        )  # fmt: skip
        bounded.put(*HERE, [("a", b""), ("b", b"")])
        assert told == []
        bounded.put(*HERE, [("c", b"")])
        assert told == [("ada", "cache", ["a"], ["b", "c"])]

    def test_who_wants_to_know_is_not_told_of_what_came_back_in_the_same_write(self, blobs):
        told = []
        bounded = BoundedBlobs(
            blobs, rule=Rule(), clock=FakeClock(), max_items=2, on_evict=lambda *event: told.extend(event[2])
        )
        bounded.put(*HERE, [(key, b"") for key in ("a", "b", "c", "a", "c", "b", "a")])
        assert sorted([*told, *keys(blobs)]) == ["a", "b", "c"]


class TestOverProcesses:
    def test_a_restart_forgets_no_use(self, open_memory, clock):
        first = open_memory()
        bounded = first.bounded_blobs(max_items=3)
        bounded.put(*HERE, [("used", b""), ("once", b""), ("also once", b"")])
        for _ in range(3):
            bounded.get(*HERE, ["used"])
        first.close()
        clock.advance(3_000)
        second = open_memory()
        assert second.bounded_blobs(max_items=3).put(*HERE, [("new", b"")]) == ["once"]

    def test_reads_in_one_process_keep_an_entry_from_the_writes_of_another(self, open_memory, clock):
        reader, writer = (open_memory().bounded_blobs(max_items=10) for _ in range(2))
        writer.put(*HERE, [("used", b""), *((str(i), b"") for i in range(9))])
        for i in range(200):
            clock.advance(60)
            assert reader.get(*HERE, ["used"]) == [b""]
            if i > 3:  # a read waits for 30 seconds before the others know of it
                writer.put(*HERE, [(f"new {i}", b"")])

    def test_two_processes_that_write_at_once_stay_within_the_bound(self, tmp_path):
        code = """
            import sys
            from shared_core import TieredMemory
            with TieredMemory.open(sys.argv[1], embedder="none") as memory:
                bounded = memory.bounded_blobs(max_items=20, max_bytes=2_000)
                for i in range(150):
                    bounded.put("ada", "cache", [(sys.argv[2] + str(i), b"x" * (i % 90))])
                    bounded.get("ada", "cache", [sys.argv[2] + "3"])
                    assert len(memory.storage.blobs.keys("ada", "cache", now=0.0)) <= 20
        """
        path = str(tmp_path / "memory.db")
        TieredMemory.open(path, embedder="none").close()
        running = [
            subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), path, name], stderr=subprocess.PIPE)
            for name in "ab"
        ]
        for process in running:
            _, error = process.communicate(timeout=120)
            assert process.returncode == 0, error.decode()
        with TieredMemory.open(path, embedder="none") as memory:
            blobs = memory.storage.blobs
            assert 10 <= len(keys(blobs)) <= 20
            assert held_bytes(blobs) <= 2_000
            with memory.storage._connections.read() as db:
                counted = db.execute("SELECT items, bytes FROM places").fetchall()
                assert counted == [(len(keys(blobs)), held_bytes(blobs))]
                assert db.execute("SELECT count(*) FROM blob_uses").fetchone()[0] == len(keys(blobs))
            assert memory.check().problems == ()

    def test_a_scope_that_is_forgotten_takes_its_uses_along(self, memory):
        bounded = memory.bounded_blobs(max_items=3)
        bounded.put(*HERE, [(str(i), b"") for i in range(5)])
        assert memory.forget_scope("ada").left == 0
        bounded.put(*HERE, [("a", b"")])
        assert keys(memory.storage.blobs) == ["a"]

    def test_reads_noted_after_a_scope_was_forgotten_leave_no_name_of_it(self, open_memory, tmp_path):
        memory, other = open_memory(), open_memory()
        bounded, elsewhere = memory.bounded_blobs(max_items=3), other.bounded_blobs(max_items=3)
        bounded.put(*HERE, [("a", b"")])
        bounded.get(*HERE, ["a"])
        elsewhere.get(*HERE, ["a"])
        memory.forget_scope("ada")
        bounded.flush()
        elsewhere.flush()
        with closing(sqlite3.connect(tmp_path / "memory.db")) as db:
            assert db.execute("SELECT count(*) FROM places").fetchone() == (0,)
            assert db.execute("SELECT count(*) FROM blob_uses").fetchone() == (0,)

    def test_after_close_it_says_so(self, open_memory):
        memory = open_memory()
        bounded = memory.bounded_blobs(max_items=3)
        memory.close()
        with pytest.raises(Closed):
            bounded.put(*HERE, [("a", b"")])
