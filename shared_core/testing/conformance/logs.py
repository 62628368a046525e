"""What ``storage.base.Logs`` promises, as tests."""
# ruff: noqa: S101, D102 - these are tests, and their names are sentences

from __future__ import annotations

from shared_core.errors import InvalidInput, NotFound, StorageError
from shared_core.storage.base import Size, Sizes, Storage
from shared_core.testing.conformance.given import NOW, ODD_NAMES, raises


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
