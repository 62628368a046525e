"""What every storage backend must do, as tests that a backend's own test file subclasses.

    class TestMyRows(MemoryRowsConformance):
        @pytest.fixture
        def storage(self): ...

One fixture, ``storage``, gives an empty ``storage.base.Storage`` and closes it after the test. Nothing
here knows a backend. Needs no pytest to be imported.
"""

from shared_core.testing.conformance.blobs import BlobsConformance
from shared_core.testing.conformance.given import NOW, ODD_NAMES, new_memory, raises
from shared_core.testing.conformance.logs import LogsConformance
from shared_core.testing.conformance.memory_rows import MemoryRowsConformance

__all__ = [
    "NOW",
    "ODD_NAMES",
    "BlobsConformance",
    "LogsConformance",
    "MemoryRowsConformance",
    "new_memory",
    "raises",
]
