"""What every storage must do as a whole, as tests that a backend's own test file subclasses, beside ``conformance.py``.

Memories out and in, a scope erased everywhere, the feed of a scope that forgets a lot.
"""
# ruff: noqa: S101, D102 - these are tests, and their names are sentences

from __future__ import annotations

import struct
from dataclasses import replace

from shared_core.errors import DuplicateId
from shared_core.storage.base import Access, Blob, Source, Storage
from shared_core.storage.upkeep import Erased, WholeMemory
from shared_core.testing.conformance import NOW, ODD_NAMES, new_memory, raises


def index_terms(text: str) -> str:
    """The terms that ``new_memory`` gives a text."""
    return " ".join(text.lower().split())


def elsewhere(items: list[WholeMemory], scope: str) -> list[WholeMemory]:
    """The same memories as if they had been written in another scope."""
    return [replace(item, memory=replace(item.memory, scope=scope)) for item in items]


class UpkeepConformance:
    """``storage.upkeep.Upkeep``."""

    def fill(self, storage: Storage) -> None:
        """Memories of every kind in scope "a"."""
        rows = storage.memories
        rows.claim_embedder("m", 2)
        rows.add([new_memory("home Oslo", id="1", subject="home", at=1.0, created_at=1.0, vectors=[1.0, 0.0])], {})
        rows.add([new_memory("home Bern", id="2", subject="home", pinned=True, metadata={"n": [None, "\ud800"]})], {})
        for session in "st":
            rows.add([new_memory("tea", id=f"3{session}", source=Source(session, f"{session}1"))], {})
        rows.add([new_memory("gone", id="4")], {"a": [Access("3s", NOW + 5, 2, 0.25)]})
        rows.set_status("a", ["4"], "archived")

    def test_a_copy_of_a_scope_is_the_scope(self, storage: Storage) -> None:
        self.fill(storage)
        whole = list(storage.upkeep.whole("a"))
        assert [item.memory.id for item in whole] == ["1", "2", "3s", "4"]
        assert [item.memory.status for item in whole] == ["superseded", "active", "active", "archived"]
        assert whole[0].vectors == struct.pack("<2f", 1.0, 0.0)
        assert [(one.id, one.at) for one in whole[0].successors] == [("2", NOW)]
        assert set(whole[2].sources) == {Source("s", "s1"), Source("t", "t1")}
        assert (whole[2].evidence, whole[2].everywhere, whole[2].memory.access_count) == (0.25, False, 3)
        copy = elsewhere(whole, "b")
        assert storage.upkeep.restore(copy) == 4
        assert list(storage.upkeep.whole("b")) == copy
        assert storage.upkeep.restore(copy) == 0
        assert list(storage.upkeep.whole("a")) == whole

    def test_a_restore_is_all_or_nothing(self, storage: Storage) -> None:
        self.fill(storage)
        copy = elsewhere(list(storage.upkeep.whole("a")), "b")
        storage.memories.add([new_memory("another", id="4", scope="b")], {})
        assert "'4'" in raises(DuplicateId, lambda: storage.upkeep.restore(copy))
        assert [memory.id for memory in storage.memories.list("b", status=None, limit=None)] == ["4"]

    def test_restored_rows_are_a_change_like_any_other(self, storage: Storage) -> None:
        self.fill(storage)
        copy = elsewhere(list(storage.upkeep.whole("a")), "b")
        storage.memories.add([new_memory("first", id="0", scope="b")], {})
        seen = storage.memories.version("b")
        storage.upkeep.restore(copy)
        changes = storage.memories.changes("b", seen, "m")
        assert (changes.reset, len(changes.rows)) == (False, 4)

    def test_of_a_subject_known_on_both_sides_the_latest_is_current(self, storage: Storage) -> None:
        self.fill(storage)
        storage.memories.add([new_memory("home Rome", id="9", scope="b", subject="home", at=NOW + 9)], {})
        storage.upkeep.restore(elsewhere(list(storage.upkeep.whole("a")), "b"))
        live = [memory.id for memory in storage.memories.list("b", status="active", limit=None) if memory.subject]
        assert live == ["9"]

    def test_an_erased_scope_leaves_nothing_and_the_others_everything(self, storage: Storage) -> None:
        for scope in ODD_NAMES:
            storage.memories.add([new_memory("tea", id="1", scope=scope, vectors=[1.0])], {})
            storage.logs.append(scope, "s", None, [("n1", {"content": "tea"}), ("n2", {"content": "more"})], NOW)
            storage.blobs.put(scope, "kv", [Blob("k", b"v", NOW)])
        generation = storage.blobs.generation("a")
        assert storage.upkeep.erase_scope("a") == Erased(1, 1, 2, {"kv": 1}, 0)
        assert storage.memories.list("a", status=None, limit=None) == []
        assert storage.logs.sessions("a") == []
        assert storage.blobs.namespaces("a") == []
        assert storage.blobs.generation("a") > generation
        for scope in set(ODD_NAMES) - {"a"}:
            assert len(storage.memories.list(scope, status=None, limit=None)) == 1
            assert len(storage.logs.path(scope, "s", "n2")) == 2
            assert storage.blobs.keys(scope, "kv", now=NOW) == ["k"]
        assert storage.upkeep.erase_scope("a") == Erased(0, 0, 0, {}, 0)

    def test_scopes_within_an_erased_one_go_with_it_whatever_they_hold(self, storage: Storage) -> None:
        storage.memories.add([new_memory("tea", id="1", scope="a", vectors=[1.0])], {})
        storage.memories.add([new_memory("tea", id="1", scope="a/m", vectors=[1.0])], {})
        storage.logs.append("a/l", "s", None, [("n1", {"content": "tea"})], NOW)
        for scope in ("a/b", "a/🙂", "a0", "a", "A/b"):
            storage.blobs.put(scope, "kv", [Blob("k", b"v", NOW)])
        inner = ("a/b", "a/l", "a/m", "a/🙂")
        assert storage.upkeep.erase_scope("a", within="a/") == Erased(1, 2, 1, {"kv": 3}, 0, inner)
        assert [storage.memories.list(scope, status=None, limit=None) for scope in ("a", *inner)] == [[]] * 5
        assert [len(storage.blobs.keys(scope, "kv", now=NOW)) for scope in ("a0", "A/b", *inner)] == [1, 1, 0, 0, 0, 0]

    def test_pinned_memories_are_not_evicted_and_the_count_says_so(self, storage: Storage) -> None:
        rows = storage.memories
        rows.add([new_memory("tea", id="1"), new_memory("wine", id="2", pinned=True), new_memory("rum", id="3")], {})
        assert rows.evict("a", ["1", "2"], erased=False) == 1
        assert rows.evict("a", ["1"], erased=False) == 0
        assert rows.evict("a", ["2", "3", "nobody"], erased=True) == 1
        assert [memory.id for memory in rows.list("a", status=None, limit=None)] == ["2", "1"]

    def test_a_sound_storage_has_no_problems_and_mending_changes_nothing(self, storage: Storage) -> None:
        self.fill(storage)
        assert storage.upkeep.check(index_terms) == (4, [])
        assert storage.upkeep.mend(index_terms) == 0
        count, problems = storage.upkeep.check(str.upper)
        assert (count, sum(problem.count for problem in problems)) == (4, 4)
        assert storage.upkeep.mend(str.upper) == 4
        assert storage.memories.changes("a", 0, "m").rows[0].terms == "HOME OSLO"
