"""A memory on a clock that moves by hand, with ids that count up and vectors that need no model."""

import itertools

import pytest

from shared_core import TieredMemory
from shared_core.testing import FakeClock
from shared_core.testing.embedders import HashEmbedder


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def open_memory(tmp_path, clock):
    """Open ``tmp_path/memory.db`` (or another location); every memory opened is closed after the test."""
    opened = []
    numbers = itertools.count(1)

    def open_(location=None, *, embedder="hash", default_scope="ada", **options):
        options = {"clock": clock, "ids": lambda: f"id{next(numbers)}", **options}
        memory = TieredMemory.open(
            tmp_path / "memory.db" if location is None else location,
            embedder=HashEmbedder() if embedder == "hash" else embedder,
            default_scope=default_scope,
            **options,
        )
        opened.append(memory)
        return memory

    yield open_
    for memory in opened:
        memory.close()


@pytest.fixture
def memory(open_memory):
    return open_memory()
