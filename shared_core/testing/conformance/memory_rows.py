"""What ``storage.base.MemoryRows`` promises, as tests."""
# ruff: noqa: S101, D102 - these are tests, and their names are sentences

from __future__ import annotations

import math
import struct
import threading
from dataclasses import replace

from shared_core.errors import DuplicateId, InvalidInput, NotFound
from shared_core.storage.base import Access, Source, Storage, Succession
from shared_core.testing.conformance.given import NOW, ODD_NAMES, new_memory, raises


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

    def test_a_text_that_stands_unmasked_is_masked_when_it_comes_masked_under_its_id(self, storage: Storage) -> None:
        rows = storage.memories
        before = new_memory("the key is k", id="1", explicit=True, vectors=[1.0], tags=("t",))
        rows.add([before, new_memory("tea", id="2")], {})
        seen = rows.version("a")
        again = replace(new_memory("the key is *", id="1", explicit=True, vectors=[2.0]), unmasked="the key is k")
        ((stored, new),) = rows.add([again], {})
        assert (stored, new) == (replace(before.memory, text="the key is *"), False)
        changes = rows.changes("a", seen, "m")
        assert changes.reset
        found = {row.memory.id: (row.memory.text, row.terms, row.vectors) for row in changes.rows}
        assert found["1"] == ("the key is *", again.terms, again.vectors)
        assert rows.add([again], {}) == [(stored, False)]
        other = replace(new_memory("the key is *", id="2", explicit=True), unmasked="the key is k")
        raises(DuplicateId, lambda: rows.add([other], {}))

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
