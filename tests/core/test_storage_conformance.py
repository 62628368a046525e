"""SQLite keeps the contract of every storage, in a file and in memory."""

import pytest

from shared_core.storage.sqlite import SQLiteStorage
from shared_core.testing.conformance import BlobsConformance, LogsConformance, MemoryRowsConformance


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
