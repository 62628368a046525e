"""What every storage backend must do, as tests that a backend's own test file subclasses.

    class TestMyRows(MemoryRowsConformance):
        @pytest.fixture
        def storage(self): ...

One fixture, ``storage``, gives an empty ``storage.base.Storage`` and closes it after the test. Nothing
here knows a backend. Needs no pytest to be imported.
"""
# ruff: noqa: S101, D102 - these are tests, and their names are sentences

from __future__ import annotations

import json
import math
import struct
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shared_core.errors import DuplicateId, InvalidInput, NotFound, StorageError
from shared_core.records import Memory
from shared_core.storage.base import Access, Blob, NewMemory, Size, Sizes, Source, Storage, Succession
from shared_core.storage.bounded import Admission, Held, Place, Use

NOW = 1_000.0
ODD_NAMES = (
    "a",
    "A",
    "a ",
    "ab",
    "a\0",
    "a\0b",
    "а",
    "é",
    "e\u0301",
    "%",
    "_",
    "a%",
    "🙂",
    "'; DROP TABLE memories; --",
)
"""Names that are prefixes, case variants, look-alikes or wildcards of each other: each is its own."""


def new_memory(
    text: str,
    *,
    id: str,
    scope: str = "a",
    at: float = NOW,
    created_at: float = NOW,
    source: Source | None = None,
    explicit: bool = False,
    vectors: list[float] | None = None,
    embedder: str = "m",
    **facts: Any,
) -> NewMemory:
    """One write of a memory whose merge key is its text and subject; ``vectors`` are the floats of one vector."""
    memory = Memory(id=id, text=text, scope=scope, at=at, created_at=created_at, last_accessed=created_at, **facts)
    return NewMemory(
        memory=memory,
        merge_key=json.dumps([text, memory.subject]).encode(),
        terms=" ".join(text.lower().split()),
        explicit_id=explicit,
        embedder=None if vectors is None else embedder,
        vectors=None if vectors is None else struct.pack(f"<{len(vectors)}f", *vectors),
        source=source,
    )


def raises(kind: type[Exception], call: Callable[[], object]) -> str:
    """Call it, expect this error, and return the error's text."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"expected {kind.__name__}, nothing was raised")


class MemoryRowsConformance:
    """Rows of long-term memory: written whole or not at all, merged, superseded, and fed to indexes as changes."""

    def test_what_was_written_is_read_back_field_by_field(self, storage: Storage) -> None:
        item = new_memory(
            "咖啡 ☕ black", id="m1", role="assistant", speaker="Ada", session="s", tags=("x", "y"), importance=0.25,
            at=-5.5, access_count=3, subject="coffee", pinned=True, metadata={"n": [1, None, "é"]},
        )  # fmt: skip
        ((stored, new),) = storage.memories.add([item], {})
        assert new
        assert stored == item.memory
        assert storage.memories.get("a", ["m1"]) == [item.memory]

    def test_get_keeps_the_order_asked_for_and_gives_none_for_strangers(self, storage: Storage) -> None:
        storage.memories.add([new_memory("one", id="1"), new_memory("two", id="2")], {})
        found = storage.memories.get("a", ["2", "nobody", "1", "2"])
        assert [memory and memory.text for memory in found] == ["two", None, "one", "two"]
        assert storage.memories.get("a", []) == []

    def test_a_thousand_ids_are_read_at_once(self, storage: Storage) -> None:
        storage.memories.add([new_memory(f"text {i}", id=str(i)) for i in range(1_200)], {})
        found = storage.memories.get("a", [str(i) for i in range(1_200)])
        assert [memory and memory.id for memory in found] == [str(i) for i in range(1_200)]
        assert storage.memories.delete("a", [str(i) for i in range(1_200)]) == 1_200

    def test_scopes_are_compared_code_point_by_code_point(self, storage: Storage) -> None:
        for scope in ODD_NAMES:
            storage.memories.add([new_memory("same", id="same", scope=scope, speaker=scope)], {})
        for scope in ODD_NAMES:
            assert [memory and memory.speaker for memory in storage.memories.get(scope, ["same"])] == [scope]
            assert [memory.scope for memory in storage.memories.list(scope, status=None, limit=None)] == [scope]
        assert list(storage.memories.scopes()) == sorted(ODD_NAMES)
        assert storage.memories.delete("a", ["same"]) == 1
        assert list(storage.memories.scopes()) == sorted(set(ODD_NAMES) - {"a"})

    def test_an_equal_merge_key_strengthens_the_live_memory(self, storage: Storage) -> None:
        storage.memories.add([new_memory("tea", id="1", tags=("x",), metadata={"a": 1})], {})
        again = new_memory("tea", id="2", created_at=NOW + 50, tags=("y", "x"), metadata={"b": 2}, pinned=True)
        ((stored, new),) = storage.memories.add([again], {})
        assert not new
        assert (stored.id, stored.access_count, stored.last_accessed, stored.at) == ("1", 1, NOW + 50, NOW)
        assert (stored.tags, stored.metadata, stored.pinned) == (("x", "y"), {"a": 1, "b": 2}, True)
        assert storage.memories.get("a", ["1", "2"]) == [stored, None]

    def test_an_archived_memory_is_not_merged_into(self, storage: Storage) -> None:
        storage.memories.add([new_memory("tea", id="1")], {})
        storage.memories.set_status("a", ["1"], "archived")
        assert storage.memories.add([new_memory("tea", id="2")], {})[0][1]

    def test_the_same_message_written_twice_counts_once(self, storage: Storage) -> None:
        item = new_memory("tea", id="1", source=Source("s", "n1"))
        storage.memories.add([item], {})
        ((stored, new),) = storage.memories.add([item], {})
        assert (new, stored.access_count) == (False, 0)

    def test_a_merged_memory_keeps_every_source_until_it_is_written_outside_a_conversation(
        self, storage: Storage
    ) -> None:
        rows = storage.memories
        rows.add([new_memory("tea", id="1", source=Source("s", "n1"))], {})
        rows.add([new_memory("tea", id="2", source=Source("t", "n9"))], {})
        (row,) = rows.changes("a", 0, None).rows
        assert set(row.sources) == {Source("s", "n1"), Source("t", "n9")}
        rows.add([new_memory("tea", id="3")], {})
        (row,) = rows.changes("a", 0, None).rows
        assert row.sources == ()

    def test_an_explicit_id_with_the_same_text_changes_nothing(self, storage: Storage) -> None:
        item = new_memory("tea", id="1", explicit=True, tags=("x",))
        storage.memories.add([item], {})
        version = storage.memories.version("a")
        again = new_memory("tea", id="1", explicit=True, tags=("y",), created_at=NOW + 9)
        assert storage.memories.add([again], {}) == [(item.memory, False)]
        assert storage.memories.version("a") == version

    def test_an_explicit_id_with_the_same_text_brings_an_archived_memory_back(self, storage: Storage) -> None:
        rows = storage.memories
        item = new_memory("tea", id="1", explicit=True, tags=("x",))
        rows.add([item], {})
        rows.set_status("a", ["1"], "archived")
        seen = rows.version("a")
        again = new_memory("tea", id="1", explicit=True, tags=("y",), at=NOW + 9, created_at=NOW + 9)
        ((stored, new),) = rows.add([again], {})
        assert (stored, new) == (replace(item.memory, last_accessed=NOW + 9), False)
        assert rows.get("a", ["1"]) == [stored]
        assert [row.memory for row in rows.changes("a", seen, None).rows] == [stored]

    def test_what_comes_back_takes_its_place_in_the_history_of_its_subject(self, storage: Storage) -> None:
        rows = storage.memories
        first = new_memory("home Oslo", id="1", explicit=True, subject="home", at=NOW, created_at=NOW)
        rows.add([first], {})
        rows.set_status("a", ["1"], "archived")
        rows.add([new_memory("home Bern", id="2", subject="home", at=NOW + 5, created_at=NOW + 5)], {})
        rows.add([first], {})
        assert [memory.id for memory in rows.list("a", status="active", limit=None)] == ["2"]
        one, two = rows.changes("a", 0, None).rows
        assert (one.memory.status, one.successors) == ("superseded", (Succession(two.row, NOW + 5),))

    def test_an_explicit_id_with_another_text_writes_nothing_of_the_batch(self, storage: Storage) -> None:
        storage.memories.add([new_memory("tea", id="1", explicit=True)], {})
        batch = [new_memory("new", id="2"), new_memory("coffee", id="1", explicit=True), new_memory("more", id="3")]
        assert "'1'" in raises(DuplicateId, lambda: storage.memories.add(batch, {}))
        assert [memory.id for memory in storage.memories.list("a", status=None, limit=None)] == ["1"]

    def test_an_explicit_id_never_merges(self, storage: Storage) -> None:
        storage.memories.add([new_memory("tea", id="1")], {})
        assert storage.memories.add([new_memory("tea", id="2", explicit=True)], {})[0][1]

    def test_a_subject_has_one_live_memory(self, storage: Storage) -> None:
        rows = storage.memories
        for i in range(3):
            at = NOW + i
            rows.add([new_memory(f"home {i}", id=str(i), subject="home", at=at, created_at=at)], {})
        assert [memory.id for memory in rows.list("a", status="active", limit=None)] == ["2"]
        assert [memory.id for memory in rows.list("a", status="superseded", limit=None)] == ["1", "0"]
        first, second, third = rows.changes("a", 0, None).rows
        assert first.successors == (Succession(second.row, NOW + 1),)
        assert second.successors == (Succession(third.row, NOW + 2),)
        assert third.successors == ()

    def test_history_told_late_takes_its_place_before_what_happened_since(self, storage: Storage) -> None:
        rows = storage.memories
        rows.add([new_memory("Rome", id="2024", subject="home", at=2024.0, created_at=1.0)], {})
        rows.add([new_memory("Oslo", id="2018", subject="home", at=2018.0, created_at=2.0)], {})
        ((stored, _),) = rows.add([new_memory("Bern", id="2020", subject="home", at=2020.0, created_at=3.0)], {})
        assert stored.status == "superseded"
        assert rows.get("a", ["2020"]) == [stored]
        assert [memory.id for memory in rows.list("a", status="active", limit=None)] == ["2024"]
        by_id = {row.memory.id: row for row in rows.changes("a", 0, None).rows}
        assert Succession(by_id["2020"].row, 2020.0) in by_id["2018"].successors
        assert by_id["2020"].successors == (Succession(by_id["2024"].row, 2024.0),)

    def test_what_is_said_now_is_the_latest_though_the_clock_was_set_back(self, storage: Storage) -> None:
        rows = storage.memories
        rows.add([new_memory("Rome", id="1", subject="home", at=NOW, created_at=NOW)], {})
        rows.add([new_memory("Oslo", id="2", subject="home", at=NOW - 60, created_at=NOW - 60)], {})
        assert [memory.id for memory in rows.list("a", status="active", limit=None)] == ["2"]

    def test_supersede_is_one_step_and_leaves_one_text_current(self, storage: Storage) -> None:
        rows = storage.memories
        rows.add([new_memory("love", id="1")], {})
        rows.supersede("a", "1", new_memory("hate", id="2", created_at=NOW + 1, at=NOW + 1))
        rows.supersede("a", "1", new_memory("like", id="3", created_at=NOW + 2, at=NOW + 2))
        assert [memory.id for memory in rows.list("a", status="active", limit=None)] == ["3"]
        assert "nobody" in raises(NotFound, lambda: rows.supersede("a", "nobody", new_memory("x", id="4")))
        assert rows.get("a", ["4"]) == [None]
        raises(NotFound, lambda: rows.supersede("b", "1", new_memory("x", id="4", scope="b")))

    def test_a_forgotten_successor_leaves_what_it_replaced_replaced(self, storage: Storage) -> None:
        rows = storage.memories
        rows.add([new_memory("love", id="1")], {})
        rows.supersede("a", "1", new_memory("hate", id="2", at=NOW + 1))
        seen = rows.version("a")
        rows.delete("a", ["2"])
        (row,) = rows.changes("a", seen, None).rows
        assert (row.memory.id, row.successors) == ("1", (Succession(None, NOW + 1),))

    def test_delete_erases_and_reports_what_there_was(self, storage: Storage) -> None:
        rows = storage.memories
        rows.add([new_memory("one", id="1"), new_memory("two", id="2")], {})
        number = rows.changes("a", 0, None).rows[0].row
        seen = rows.version("a")
        assert rows.delete("a", ["1", "1", "nobody"]) == 1
        assert rows.delete("a", ["1"]) == 0
        assert rows.delete("a", []) == 0
        changes = rows.changes("a", seen, None)
        assert (changes.rows, changes.dropped, changes.reset) == ((), (number,), False)
        ((again, new),) = rows.add([new_memory("other", id="1", explicit=True)], {})
        assert (again.text, new) == ("other", True)
        assert rows.changes("a", seen, None).rows[0].row > number

    def test_the_feed_gives_what_changed_and_nothing_else(self, storage: Storage) -> None:
        rows = storage.memories
        assert rows.version("a") == 0
        empty = rows.changes("a", 0, None)
        assert (empty.version, empty.rows, empty.dropped) == (0, (), ())
        rows.add([new_memory("one", id="1"), new_memory("two", id="2")], {})
        first = rows.changes("a", 0, None)
        assert [row.memory.id for row in first.rows] == ["1", "2"]
        assert first.rows[0].row < first.rows[1].row
        rows.add([new_memory("elsewhere", id="3", scope="b")], {})
        assert rows.version("a") == first.version
        rows.set_pinned("a", "2", pinned=True)
        second = rows.changes("a", first.version, None)
        assert [(row.memory.id, row.memory.pinned) for row in second.rows] == [("2", True)]
        assert rows.changes("a", second.version, None).rows == ()

    def test_a_feed_in_pages_is_the_feed_and_is_told_its_version_last(self, storage: Storage) -> None:
        rows = storage.memories
        assert [page.rows for page in rows.pages("a", 0, None)] == [()]
        rows.add([new_memory("one", id="one")], {})
        rows.add([new_memory(f"text {i}", id=str(i)) for i in range(1_200)], {})
        rows.delete("a", ["one"])
        whole = rows.changes("a", 1, None)
        pages = list(rows.pages("a", 1, None))
        assert (len(whole.rows), len(whole.dropped)) == (1_200, 1)
        assert [row.memory for page in pages for row in page.rows] == [row.memory for row in whole.rows]
        assert [page.version for page in pages] == [1] * (len(pages) - 1) + [whole.version]
        assert [page.dropped for page in pages] == [whole.dropped] + [()] * (len(pages) - 1)

    def test_a_feed_read_from_the_start_leaves_out_archived_memories(self, storage: Storage) -> None:
        rows = storage.memories
        rows.add([new_memory("one", id="1"), new_memory("two", id="2")], {})
        seen = rows.version("a")
        assert rows.set_status("a", ["1", "nobody"], "archived") == 1
        assert rows.set_status("a", ["1"], "archived") == 0
        assert [row.memory.status for row in rows.changes("a", seen, None).rows] == ["archived"]
        assert [row.memory.id for row in rows.changes("a", 0, None).rows] == ["2"]

    def test_a_feed_that_does_not_reach_back_says_start_anew(self, storage: Storage) -> None:
        rows = storage.memories
        rows.add([new_memory("one", id="1")], {})
        seen = rows.version("a")
        assert storage.upkeep.erase_scope("a").memories == 1
        changes = rows.changes("a", seen, None)
        assert (changes.reset, changes.rows) == (True, ())
        assert list(rows.scopes()) == []
        rows.add([new_memory("two", id="1")], {})
        assert [row.memory.text for row in rows.changes("a", seen, None).rows] == ["two"]
        assert rows.changes("a", 10**9, None).reset

    def test_reads_are_written_down_with_the_next_write(self, storage: Storage) -> None:
        rows = storage.memories
        rows.add([new_memory("one", id="1")], {})
        seen = {"a": [Access("1", NOW + 5, 2, 0.5), Access("nobody", NOW, 1)], "empty": []}
        rows.add([new_memory("two", id="2")], seen)
        (row,) = [row for row in rows.changes("a", 0, None).rows if row.memory.id == "1"]
        assert (row.memory.access_count, row.memory.last_accessed, row.evidence) == (2, NOW + 5, 0.5)
        assert rows.version("empty") == 0
        rows.touch("a", [Access("1", NOW - 5, 1)])
        (row,) = [row for row in rows.changes("a", 0, None).rows if row.memory.id == "1"]
        assert (row.memory.access_count, row.memory.last_accessed, row.evidence) == (3, NOW + 5, 0.5)

    def test_evidence_is_nan_until_there_is_any(self, storage: Storage) -> None:
        storage.memories.add([new_memory("one", id="1")], {})
        assert math.isnan(storage.memories.changes("a", 0, None).rows[0].evidence)

    def test_vectors_are_given_to_the_model_that_made_them(self, storage: Storage) -> None:
        rows = storage.memories
        rows.add([new_memory("one", id="1", vectors=[1.0, 0.0]), new_memory("two", id="2")], {})
        first, second = rows.changes("a", 0, "m").rows
        assert (first.vectors, second.vectors) == (struct.pack("<2f", 1.0, 0.0), None)
        assert [row.vectors for row in rows.changes("a", 0, "other").rows] == [None, None]
        assert [row.vectors for row in rows.changes("a", 0, None).rows] == [None, None]
        seen = rows.version("a")
        rows.set_vectors("a", "m", {second.row: struct.pack("<2f", 0.0, 1.0), 10**6: b""})
        assert [row.memory.id for row in rows.changes("a", seen, "m").rows] == ["2"]
        rows.set_vectors("b", "m", {first.row: b"12345678"})
        assert rows.changes("a", 0, "m").rows[0].vectors == struct.pack("<2f", 1.0, 0.0)

    def test_the_first_model_is_kept_until_another_is_set(self, storage: Storage) -> None:
        rows = storage.memories
        assert rows.embedder() is None
        assert rows.claim_embedder("m", 2) == ("m", 2)
        assert rows.claim_embedder("other", 3) == ("m", 2)
        rows.add([new_memory("one", id="1", vectors=[1.0, 0.0])], {})
        seen = rows.version("a")
        rows.set_embedder("other", 3)
        assert rows.embedder() == ("other", 3)
        changes = rows.changes("a", seen, "m")
        assert changes.reset
        assert [row.vectors for row in changes.rows] == [None]

    def test_pinning_a_stranger_is_not_found(self, storage: Storage) -> None:
        assert "nobody" in raises(NotFound, lambda: storage.memories.set_pinned("a", "nobody", pinned=True))

    def test_list_is_newest_first_and_takes_a_limit(self, storage: Storage) -> None:
        for i in range(4):
            storage.memories.add([new_memory(f"text {i}", id=str(i), created_at=NOW + i % 2)], {})
        assert [memory.id for memory in storage.memories.list("a", status=None, limit=None)] == ["3", "1", "2", "0"]
        assert [memory.id for memory in storage.memories.list("a", status="active", limit=2)] == ["3", "1"]
        assert storage.memories.list("a", status="active", limit=0) == []

    def test_twenty_threads_write_and_read_without_loss(self, storage: Storage) -> None:
        failures: list[BaseException] = []

        def work(name: int) -> None:
            try:
                for i in range(10):
                    storage.memories.add([new_memory(f"text {name} {i}", id=f"{name}-{i}")], {})
                    assert storage.memories.get("a", [f"{name}-{i}"])[0] is not None
            except BaseException as error:  # noqa: BLE001 - told to the test below
                failures.append(error)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(storage.memories.changes("a", 0, None).rows) == 200

    def test_text_that_utf8_cannot_carry_is_refused_whole(self, storage: Storage) -> None:
        batch = [new_memory("good", id="1"), new_memory("bad \ud800", id="2")]
        assert "surrogate" in raises(InvalidInput, lambda: storage.memories.add(batch, {}))
        assert storage.memories.list("a", status=None, limit=None) == []


class _OldestOut:
    """A room for a number of blobs: the oldest goes, and a key "refused" is."""

    def __init__(self, items: int) -> None:
        self._items = items
        self.seen: list[tuple[int, int, int]] = []
        self.found: list[Use | None] = []

    def admit(self, place: Place, key: str, size: int) -> Admission | None:
        self.seen.append((place.items, place.bytes, place.accesses))
        old = place.find(key)
        self.found.append(None if old is None else old.use)
        if key == "refused":
            return None
        go = place.held()[: max(0, place.items + (old is None) - self._items)]
        assert size >= len(key)
        return Admission(tuple(one.key for one in go), Use(NOW, 1.0, place.accesses + 1, proven=False))

    def used(self, place: Place, held: Held, times: int, at: float) -> Use:
        return Use(at, held.use.count + times, place.accesses + times, proven=True)


class BlobsConformance:
    """Keyed bytes: put, get, expire, tag, clear, each within its scope and namespace."""

    def test_a_value_is_read_back_with_its_facts(self, storage: Storage) -> None:
        blob = Blob("k", b"\x00\xff", NOW, NOW + 10, ("x", "y"))
        storage.blobs.put("a", "n", [blob, Blob("empty", b"", NOW)])
        assert storage.blobs.get("a", "n", ["empty", "k", "no", "k"], now=NOW) == [
            Blob("empty", b"", NOW), blob, None, blob,
        ]  # fmt: skip
        assert storage.blobs.get("a", "n", [], now=NOW) == []

    def test_scope_and_namespace_and_key_are_compared_exactly(self, storage: Storage) -> None:
        for name in ODD_NAMES:
            storage.blobs.put(name, "n", [Blob("k", name.encode(), NOW)])
            storage.blobs.put("a", name, [Blob("k", name.encode(), NOW)])
            storage.blobs.put("a", "keys", [Blob(name, name.encode(), NOW)])
        for name in ODD_NAMES:
            for found in (
                storage.blobs.get(name, "n", ["k"], now=NOW),
                storage.blobs.get("a", name, ["k"], now=NOW),
                storage.blobs.get("a", "keys", [name], now=NOW),
            ):
                assert [blob and blob.value for blob in found] == [name.encode()]
        assert storage.blobs.keys("a", "keys", now=NOW) == list(ODD_NAMES)
        assert storage.blobs.namespaces("a") == sorted({*ODD_NAMES, "n", "keys"})

    def test_a_prefix_is_literal(self, storage: Storage) -> None:
        storage.blobs.put("a", "n", [Blob(name, b"", NOW) for name in ODD_NAMES])
        for prefix in ("", *ODD_NAMES):
            expected = [name for name in ODD_NAMES if name.startswith(prefix)]
            assert storage.blobs.keys("a", "n", prefix=prefix, now=NOW) == expected
        for name in ODD_NAMES:
            storage.blobs.put("b", name, [Blob("k", b"", NOW)])
        for prefix in ODD_NAMES:
            expected = sorted(name for name in ODD_NAMES if name.startswith(prefix))
            assert storage.blobs.namespaces("b", prefix=prefix) == expected

    def test_an_expired_value_and_one_from_the_future_are_not_there(self, storage: Storage) -> None:
        storage.blobs.put("a", "n", [Blob("old", b"", NOW, NOW + 10), Blob("new", b"", NOW + 5)])

        def at(now: float) -> list[bool]:
            return [blob is not None for blob in storage.blobs.get("a", "n", ["old", "new"], now=now)]

        assert [at(NOW), at(NOW + 9), at(NOW + 10)] == [[True, False], [True, True], [False, True]]
        assert storage.blobs.keys("a", "n", now=NOW) == ["old"]
        assert storage.blobs.keys("a", "n", now=NOW + 10) == ["new"]

    def test_an_overwrite_replaces_value_and_tags_and_keeps_its_place(self, storage: Storage) -> None:
        storage.blobs.put("a", "n", [Blob("1", b"old", NOW, None, ("x",)), Blob("2", b"", NOW)])
        storage.blobs.put("a", "n", [Blob("1", b"mid", NOW), Blob("1", b"new", NOW, None, ("y",))])
        assert storage.blobs.keys("a", "n", now=NOW) == ["1", "2"]
        assert storage.blobs.get("a", "n", ["1"], now=NOW) == [Blob("1", b"new", NOW, None, ("y",))]
        assert storage.blobs.delete_tagged("a", "n", "x") == 0
        assert storage.blobs.delete_tagged("a", "n", "y") == 1

    def test_deletes_count_and_stay_where_they_are_asked(self, storage: Storage) -> None:
        for scope in ("a", "b"):
            for namespace in ("n", "m"):
                storage.blobs.put(scope, namespace, [Blob("1", b"", NOW, None, ("t",)), Blob("2", b"", NOW)])
        assert storage.blobs.delete("a", "n", ["1", "1", "no"]) == 1
        assert storage.blobs.delete_tagged("a", "n", "t") == 0
        assert storage.blobs.delete_tagged(None, "n", "t") == 1
        assert storage.blobs.clear("a", "n") == 1
        assert storage.blobs.clear(None, "n") == 1
        assert storage.blobs.keys("a", "m", now=NOW) == storage.blobs.keys("b", "m", now=NOW) == ["1", "2"]
        assert storage.blobs.namespaces("a") == ["m"]

    def test_a_room_is_asked_for_each_blob_and_what_it_says_happens(self, storage: Storage) -> None:
        room = _OldestOut(items=2)
        storage.blobs.put("a", "n", [Blob("before any room", b"xx", NOW)])
        storage.blobs.put("b", "n", [Blob("1", b"", NOW)])
        gone = storage.blobs.put_within(
            "a", "n", [Blob(key, key.encode() * 3, NOW) for key in ("1", "2", "refused", "3")], room
        )
        assert gone == ["before any room", "1"]
        assert storage.blobs.keys("a", "n", now=NOW) == ["2", "3"]
        assert storage.blobs.keys("b", "n", now=NOW) == ["1"]
        assert room.seen == [(1, 17, 0), (2, 21, 1), (2, 8, 2), (2, 8, 2)]

    def test_a_blob_that_went_and_came_back_in_one_write_did_not_go(self, storage: Storage) -> None:
        blobs = [Blob(key, b"", NOW) for key in ("1", "2", "3", "1")]
        assert storage.blobs.put_within("a", "n", blobs, _OldestOut(items=2)) == ["2"]
        assert storage.blobs.keys("a", "n", now=NOW) == ["3", "1"]

    def test_a_blob_that_a_room_refuses_takes_the_older_one_with_it(self, storage: Storage) -> None:
        storage.blobs.put("a", "n", [Blob("refused", b"old", NOW)])
        assert storage.blobs.put_within("a", "n", [Blob("refused", b"new", NOW)], _OldestOut(items=2)) == []
        assert storage.blobs.keys("a", "n", now=NOW) == []

    def test_a_place_keeps_count_whoever_writes_and_erases(self, storage: Storage) -> None:
        room = _OldestOut(items=9)
        storage.blobs.put_within("a", "n", [Blob("1", b"12345", NOW), Blob("2", b"", NOW)], room)
        storage.blobs.put("a", "n", [Blob("1", b"123", NOW), Blob("é", b"", NOW)])
        storage.blobs.delete("a", "n", ["2"])
        storage.blobs.put_within("a", "n", [Blob("3", b"", NOW)], room)
        storage.blobs.clear("a", "n", durable=True)
        storage.blobs.put_within("a", "n", [Blob("4", b"", NOW)], room)
        assert [seen[:2] for seen in room.seen] == [(0, 0), (1, 6), (2, 6), (0, 0)]

    def test_reads_are_noted_by_the_room_and_a_blob_that_is_gone_is_passed_over(self, storage: Storage) -> None:
        room = _OldestOut(items=9)
        storage.blobs.put_within("a", "n", [Blob("1", b"", NOW)], room)
        storage.blobs.use("a", "n", {"1": (3, NOW + 7), "gone": (1, NOW)}, room)
        storage.blobs.put_within("a", "n", [Blob("1", b"", NOW)], room)
        assert room.found == [None, Use(NOW + 7, 4.0, 4, proven=True)]

    def test_blobs_that_wait_less_are_the_same_blobs(self, storage: Storage) -> None:
        hurried = storage.blobs.waiting(0.0)
        hurried.put("a", "n", [Blob("k", b"v", NOW)])
        assert storage.blobs.get("a", "n", ["k"], now=NOW) == hurried.get("a", "n", ["k"], now=NOW) != [None]

    def test_a_generation_moves_on_its_own(self, storage: Storage) -> None:
        assert storage.blobs.generation("a") == 0
        assert [storage.blobs.bump("a"), storage.blobs.bump("a")] == [1, 2]
        assert [storage.blobs.generation(scope) for scope in ("a", "A", "a\0", "ab")] == [2, 0, 0, 0]


class LogsConformance:
    """Conversation trees: append, move, branch, replace, delete, each within its scope and session."""

    def test_a_conversation_is_read_back_in_order(self, storage: Storage) -> None:
        storage.logs.append("a", "s", None, [("1", {"x": 1}), ("2", [None, "é"])], NOW)
        storage.logs.append("a", "s", "2", [("3", "three")], NOW + 1)
        path = storage.logs.path("a", "s", "3")
        assert [(node.id, node.parent, node.depth, node.body, node.created_at) for node in path] == [
            ("1", None, 1, {"x": 1}, NOW), ("2", "1", 2, [None, "é"], NOW), ("3", "2", 3, "three", NOW + 1),
        ]  # fmt: skip
        assert [node.id for node in storage.logs.path("a", "s", "3", last=2)] == ["2", "3"]
        assert [node.id for node in storage.logs.path("a", "s", "2")] == ["1", "2"]
        assert (storage.logs.head("a", "s"), storage.logs.path("a", "s", None)) == ("3", [])

    def test_the_end_of_a_path_is_read_with_its_totals(self, storage: Storage) -> None:
        """Turns of 2 x 5 tokens and a system message of 3 that counts apart: totals 5, 10, 10, 15, … 40."""
        logs = storage.logs
        begins = [Size(5, begins=True), Size(5)]
        logs.append("a", "s", None, [("1", 1), ("2", 2)], NOW, sizes=Sizes("c", begins))
        logs.append("a", "s", "2", [("3", 3)], NOW, sizes=Sizes("c", [Size(3, apart=True)]))
        ids = [str(n) for n in range(4, 10)]
        assert logs.splice("a", "s", "3", [(id, int(id)) for id in ids], NOW, head="3", sizes=Sizes("c", begins * 3))
        assert logs.unsized("a", "s", "c") == []
        whole = logs.tail("a", "s", "c", 100)
        assert whole is not None
        assert (whole.total, whole.apart, [node.id for node in whole.systems]) == (40, 3, ["3"])
        assert [(n.id, n.body, n.tokens, n.total, n.apart) for n in whole.nodes[:4]] == [
            ("1", 1, 5, 5, False), ("2", 2, 5, 10, False), ("3", 3, 3, 10, True), ("4", 4, 5, 15, False),
        ]  # fmt: skip
        for limit, first in ((23, "4"), (22, "6"), (12, "6"), (0, "6"), (43, "1"), (33, "1"), (32, "4")):
            found = logs.tail("a", "s", "c", limit)
            assert found is not None
            assert [node.id for node in found.nodes] == [str(n) for n in range(int(first), 10)], limit
            assert found.systems == whole.systems
        empty = logs.tail("a", "nobody", "c", 10)
        assert empty is not None
        assert (empty.total, empty.apart, empty.systems, empty.nodes) == (0, 0, (), ())
        logs.branch("a", "s", "3", "t", NOW)
        branch = logs.tail("a", "t", "c", 100)
        assert branch is not None
        assert (branch.total, [node.id for node in branch.nodes], len(branch.systems)) == (10, ["1", "2", "3"], 1)

    def test_what_a_counter_has_not_counted_is_counted_later(self, storage: Storage) -> None:
        logs = storage.logs
        logs.append("a", "s", None, [("1", 1), ("2", 2)], NOW)
        logs.append("a", "s", "2", [("3", 3)], NOW, sizes=Sizes("c", [Size(7)]))
        assert logs.tail("a", "s", "c", 10) is None
        assert [(n.id, size) for n, size in logs.unsized("a", "s", "c")] == [("1", None), ("2", None), ("3", Size(7))]
        assert [size for _, size in logs.unsized("a", "s", "other")] == [None, None, None]
        logs.resize("a", ["1", "2", "3"], Sizes("c", [Size(1, begins=True), Size(2), Size(7)]))
        found = logs.tail("a", "s", "c", 10)
        assert found is not None
        assert [node.total for node in found.nodes] == [1, 3, 10]
        assert logs.tail("a", "s", "other", 10) is None
        logs.resize("a", ["gone"], Sizes("c", [Size(1)]))
        logs.replace("a", "s", [("4", 4)], NOW, sizes=Sizes("other", [Size(9)]))
        again = logs.tail("a", "s", "other", 10)
        assert again is not None
        assert again.total == 9

    def test_one_node_is_read_by_its_id(self, storage: Storage) -> None:
        storage.logs.append("a", "s", None, [("1", {"x": 1}), ("2", 2)], NOW)
        storage.logs.move("a", "s", "1", now=NOW)
        assert storage.logs.node("a", "s", "2").body == 2
        assert storage.logs.node("a", "s", "1").body == {"x": 1}
        raises(NotFound, lambda: storage.logs.node("a", "t", "1"))
        raises(NotFound, lambda: storage.logs.node("a", "s", "nobody"))

    def test_an_unknown_session_is_empty(self, storage: Storage) -> None:
        assert storage.logs.head("a", "s") is None
        assert storage.logs.path_ids("a", "s") == frozenset()
        assert storage.logs.rewound("a") == {}
        assert storage.logs.delete("a", "s") == 0
        assert "'1'" in raises(NotFound, lambda: storage.logs.path("a", "s", "1"))

    def test_sessions_are_kept_apart_by_scope_and_name(self, storage: Storage) -> None:
        for name in ODD_NAMES:
            storage.logs.append(name, "s", None, [("1", name)], NOW)
            storage.logs.append("all", name, None, [(name, name)], NOW)
        for name in ODD_NAMES:
            assert [node.body for node in storage.logs.path(name, "s", "1")] == [name]
            assert storage.logs.head("all", name) == name
        assert storage.logs.sessions("all") == list(ODD_NAMES)
        for prefix in ODD_NAMES:
            assert storage.logs.sessions("all", prefix=prefix) == [n for n in ODD_NAMES if n.startswith(prefix)]
        raises(NotFound, lambda: storage.logs.path("all", "a", "ab"))
        raises(NotFound, lambda: storage.logs.move("all", "a", "ab", now=NOW))

    def test_moving_back_and_on_marks_the_session_as_rewound(self, storage: Storage) -> None:
        logs = storage.logs
        logs.append("a", "s", None, [("1", 1), ("2", 2)], NOW)
        logs.move("a", "s", "2", now=NOW)
        assert logs.rewound("a") == {}
        logs.move("a", "s", "1", now=NOW)
        logs.append("a", "s", "1", [("3", 3)], NOW)
        assert logs.head("a", "s") == "3"
        assert logs.path_ids("a", "s") == {"1", "3"}
        assert logs.rewound("a") == {"s": "3"}
        logs.move("a", "s", "2", now=NOW)
        assert logs.path_ids("a", "s") == {"1", "2"}
        logs.move("a", "s", None, now=NOW)
        assert (logs.head("a", "s"), logs.path_ids("a", "s")) == (None, frozenset())
        assert "nobody" in raises(NotFound, lambda: logs.move("a", "s", "nobody", now=NOW))
        assert logs.head("a", "s") is None

    def test_a_branch_shares_the_past_and_nothing_else(self, storage: Storage) -> None:
        logs = storage.logs
        logs.append("a", "s", None, [("1", 1), ("2", 2), ("3", 3)], NOW)
        logs.branch("a", "s", "2", "t", NOW)
        logs.append("a", "t", "2", [("4", 4)], NOW)
        assert [node.body for node in logs.path("a", "t", "4")] == [1, 2, 4]
        assert [node.body for node in logs.path("a", "s", "3")] == [1, 2, 3]
        assert logs.rewound("a") == {}
        raises(NotFound, lambda: logs.move("a", "t", "3", now=NOW))
        raises(NotFound, lambda: logs.branch("a", "t", "3", "u", NOW))
        logs.move("a", "t", "1", now=NOW)
        logs.move("a", "t", "2", now=NOW)
        assert logs.head("a", "t") == "2"

    def test_a_branch_needs_a_name_that_is_free(self, storage: Storage) -> None:
        storage.logs.append("a", "s", None, [("1", 1)], NOW)
        storage.logs.append("a", "t", None, [("2", 2)], NOW)
        assert "'t'" in raises(InvalidInput, lambda: storage.logs.branch("a", "s", "1", "t", NOW))
        raises(InvalidInput, lambda: storage.logs.branch("a", "s", "1", "s", NOW))
        assert storage.logs.head("a", "t") == "2"

    def test_a_replaced_path_stays_reachable(self, storage: Storage) -> None:
        logs = storage.logs
        logs.append("a", "s", None, [("1", 1)], NOW)
        logs.replace("a", "s", [("2", 2), ("3", 3)], NOW)
        assert [node.body for node in logs.path("a", "s", "3")] == [2, 3]
        logs.replace("a", "s", [], NOW)
        assert logs.head("a", "s") is None
        logs.move("a", "s", "1", now=NOW)
        assert logs.path_ids("a", "s") == {"1"}

    def test_the_last_nodes_of_a_writer_are_found_on_the_current_path(self, storage: Storage) -> None:
        logs = storage.logs
        logs.append("a", "s", None, [("1", 1), ("2", 2)], NOW, writer="w")
        assert logs.splice("a", "s", "2", [("3", 3)], NOW, head="2", writer="v")
        logs.append("a", "s", "3", [("4", 4)], NOW)
        logs.append("a", "s", "4", [("5", 5)], NOW, writer="w")
        assert [node.id for node in logs.written("a", "s", "w", last=2)] == ["2", "5"]
        assert [node.id for node in logs.written("a", "s", "w", last=9)] == ["1", "2", "5"]
        assert [node.id for node in logs.written("a", "s", None, last=9)] == ["4"]
        logs.move("a", "s", "3", now=NOW)
        assert [(node.id, node.writer) for node in logs.written("a", "s", "w", last=1)] == [("2", "w")]
        assert logs.written("a", "s", "w", last=0) == logs.written("a", "t", "w", last=9) == []

    def test_a_graft_repeats_nodes_on_another_path_under_the_names_they_had(self, storage: Storage) -> None:
        logs = storage.logs
        logs.append("a", "s", None, [("1", 1), ("2", 2)], NOW, writer="w", sizes=Sizes("c", [Size(1), Size(2)]))
        logs.append("a", "s", "2", [("3", 3)], NOW + 1, writer="v")
        assert not logs.graft("a", "s", "1", [("3'", "3")], head="2")
        assert logs.graft("a", "s", "1", [("3'", "3")], head="3")
        path = logs.path("a", "s", "3'")
        assert [(n.id, n.parent, n.depth, n.body, n.created_at, n.writer, n.origin, n.said) for n in path] == [
            ("1", None, 1, 1, NOW, "w", None, "1"), ("3'", "1", 2, 3, NOW + 1, "v", "3", "3"),
        ]  # fmt: skip
        assert logs.path_ids("a", "s") == {"1", "3'", "3"}
        assert logs.rewound("a") == {"s": "3'"}
        assert [(n.id, size) for n, size in logs.unsized("a", "s", "c")] == [("3'", None)]
        assert logs.graft("a", "s", None, [("3''", "3'")], head="3'")  # a copy of a copy names the first
        assert [(n.id, n.parent, n.depth, n.origin) for n in logs.path("a", "s", "3''")] == [("3''", None, 1, "3")]
        assert logs.graft("a", "s", "2", [], head="3''")
        assert [n.id for n in logs.path("a", "s", "2")] == ["1", "2"]
        raises(NotFound, lambda: logs.graft("a", "s", "1", [("x", "3"), ("y", "nobody")], head="2"))
        raises(NotFound, lambda: logs.graft("a", "s", "nobody", [], head="2"))
        assert logs.head("a", "s") == "2"

    def test_deleting_a_session_leaves_a_branch_its_past(self, storage: Storage) -> None:
        logs = storage.logs
        logs.append("a", "s", None, [("1", 1), ("2", 2), ("3", 3)], NOW)
        logs.branch("a", "s", "2", "t", NOW)
        logs.move("a", "t", "1", now=NOW)
        assert logs.delete("a", "s") == 1
        assert logs.head("a", "s") is None
        logs.move("a", "t", "2", now=NOW)
        assert [node.body for node in logs.path("a", "t", "2")] == [1, 2]
        assert logs.sessions("a") == ["t"]
        logs.append("a", "s", None, [("4", 4)], NOW)
        assert [node.body for node in logs.path("a", "s", "4")] == [4]

    def test_an_append_is_all_or_nothing(self, storage: Storage) -> None:
        storage.logs.append("a", "s", None, [("1", 1)], NOW)
        raises(InvalidInput, lambda: storage.logs.append("a", "s", "1", [("2", 2), ("3", object())], NOW))
        raises(StorageError, lambda: storage.logs.append("a", "s", "1", [("2", 2), ("1", "taken")], NOW))
        raises(NotFound, lambda: storage.logs.append("a", "s", "nobody", [("2", 2)], NOW))
        assert (storage.logs.head("a", "s"), len(storage.logs.path("a", "s", "1"))) == ("1", 1)


__all__ = ["BlobsConformance", "LogsConformance", "MemoryRowsConformance", "new_memory"]
