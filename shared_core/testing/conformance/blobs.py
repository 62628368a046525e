"""What ``storage.base.Blobs`` and bounded namespaces promise, as tests."""
# ruff: noqa: S101, D102 - these are tests, and their names are sentences

from __future__ import annotations

from shared_core.storage.base import Blob, Storage
from shared_core.storage.bounded import Admission, Held, Place, Use
from shared_core.testing.conformance.given import NOW, ODD_NAMES


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
