"""SQLite keeps the contract of every storage, in a file and in memory."""

import pytest

from shared_core.storage.sqlite import SQLiteStorage, memory_writes
from shared_core.testing.conformance import BlobsConformance, LogsConformance, MemoryRowsConformance, new_memory
from shared_core.testing.upkeep import UpkeepConformance


@pytest.fixture(params=["file", ":memory:"])
def storage(request, tmp_path):
    opened = SQLiteStorage(":memory:" if request.param == ":memory:" else tmp_path / "memory.db")
    yield opened
    opened.close()


class TestMemoryRows(MemoryRowsConformance):
    pass


class TestBlobs(BlobsConformance):
    pass


class TestLogs(LogsConformance):
    pass


class TestUpkeep(UpkeepConformance):
    pass


def test_what_was_erased_long_ago_is_not_remembered_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_writes, "FEED", 10)
    opened = SQLiteStorage(tmp_path / "memory.db")
    rows = opened.memories
    rows.add([new_memory("kept", id="kept")], {})
    seen = rows.version("a")
    for i in range(50):
        rows.add([new_memory(f"text {i}", id=str(i))], {})
        rows.delete("a", [str(i)])
    with opened._connections.read() as db:
        assert db.execute("SELECT count(*) FROM dropped").fetchone()[0] <= 6
    changes = rows.changes("a", seen, None)
    assert (changes.reset, [row.memory.id for row in changes.rows]) == (True, ["kept"])
    recent = rows.changes("a", rows.version("a") - 3, None)
    assert (recent.reset, len(recent.dropped)) == (False, 2)
    opened.close()
