from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shared_core import TieredMemory
from shared_core.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def opened(tmp_path: Path, clock: FakeClock) -> Iterator[Callable[..., TieredMemory]]:
    """Open memories on one file of this test; all are closed at its end."""
    memories: list[TieredMemory] = []

    def open_(name: str = "memory.db", **given: Any) -> TieredMemory:
        given = {"default_scope": "ada", "embedder": "none", "clock": clock, **given}
        memory = TieredMemory.open(tmp_path / name, **given)
        memories.append(memory)
        return memory

    yield open_
    for memory in memories:
        memory.close()


@pytest.fixture
def memory(opened: Callable[..., TieredMemory]) -> TieredMemory:
    return opened()
