"""LangChain's own conformance suites for a model cache."""

import pytest
from langchain_tests.integration_tests import AsyncCacheTestSuite, SyncCacheTestSuite

from langchain_tiered_memory import TieredLLMCache


class TestTieredLLMCacheSync(SyncCacheTestSuite):
    @pytest.fixture
    def cache(self, memory):
        return TieredLLMCache(memory)


class TestTieredLLMCacheAsync(AsyncCacheTestSuite):
    @pytest.fixture
    async def cache(self, memory):
        return TieredLLMCache(memory)
