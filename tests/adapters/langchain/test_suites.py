"""LangChain's own conformance suites for stores, retrievers and tools."""

import tempfile
from pathlib import Path

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests, ToolsIntegrationTests
from langchain_tests.integration_tests.base_store import BaseStoreAsyncTests, BaseStoreSyncTests
from langchain_tests.unit_tests import ToolsUnitTests

from langchain_tiered_memory import TieredByteStore, TieredRetriever, memory_tools
from shared_core import TieredMemory


class TestTieredByteStoreSync(BaseStoreSyncTests[bytes]):
    @pytest.fixture
    def three_values(self):
        return (b"one", b"\x00\xff", b"three")

    @pytest.fixture
    def kv_store(self, memory):
        return TieredByteStore(memory)


class TestTieredByteStoreAsync(BaseStoreAsyncTests[bytes]):
    @pytest.fixture
    def three_values(self):
        return (b"one", b"\x00\xff", b"three")

    @pytest.fixture
    async def kv_store(self, memory):
        return TieredByteStore(memory)


_opened = []


@pytest.fixture(autouse=True)
def _closed_after_the_test():
    """The suites ask for what they construct in properties, which no fixture can stand behind."""
    yield
    while _opened:
        folder, memory = _opened.pop()
        memory.close()
        folder.cleanup()


def remembering(*texts):
    """A memory on a real file that lives as long as the test."""
    folder = tempfile.TemporaryDirectory(prefix="tiered-memory-")
    memory = TieredMemory.open(Path(folder.name) / "memory.db", default_scope="ada", embedder="none")
    _opened.append((folder, memory))
    for text in texts:
        memory.remember(text)
    return memory


class TestTieredRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self):
        return TieredRetriever

    @property
    def retriever_constructor_params(self):
        drinks = ("coffee black", "tea with milk", "water with ice", "juice of apples", "beer from Bavaria")
        return {"memory": remembering(*(f"I like my {drink}." for drink in drinks))}

    @property
    def retriever_query_example(self):
        return "What do I like to drink?"


class _Tool:
    position: int
    example: dict

    @property
    def tool_constructor(self):
        return memory_tools(remembering("I take my coffee black."))[self.position]

    @property
    def tool_invoke_params_example(self):
        return self.example


class TestSearchMemoryUnit(_Tool, ToolsUnitTests):
    position, example = 0, {"query": "coffee"}


class TestSearchMemory(_Tool, ToolsIntegrationTests):
    position, example = 0, {"query": "coffee"}


class TestSaveMemoryUnit(_Tool, ToolsUnitTests):
    position, example = 1, {"text": "I like tea."}


class TestSaveMemory(_Tool, ToolsIntegrationTests):
    position, example = 1, {"text": "I like tea."}


class TestForgetMemoryUnit(_Tool, ToolsUnitTests):
    position, example = 2, {"ids": ["x"]}


class TestForgetMemory(_Tool, ToolsIntegrationTests):
    position, example = 2, {"ids": ["x"]}
