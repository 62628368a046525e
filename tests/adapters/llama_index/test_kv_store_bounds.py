"""``TieredKVStore`` with bounds: a cache in the file that never grows past them, for ingestion and embeddings."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import textwrap

import pytest
from llama_index.core import MockEmbedding
from llama_index.core.ingestion import IngestionCache, IngestionPipeline
from llama_index.core.schema import Document

from llama_index_tiered_memory import TieredKVStore
from shared_core import InvalidInput


def fill(kv, count, collection="c"):
    for i in range(count):
        kv.put(str(i), {"v": i}, collection)


class TestBounds:
    def test_a_collection_never_holds_more_than_its_bound(self, memory):
        kv = TieredKVStore(memory, max_items=3)
        for i in range(20):
            kv.put(str(i), {"v": i}, "c")
            assert len(kv.get_all("c")) <= 3
            assert kv.get(str(i), "c") == {"v": i}, "the newcomer is never its own victim"

    def test_bytes_are_those_of_keys_and_values(self, memory):
        kv = TieredKVStore(memory, max_bytes=40)
        kv.put_all([("k1", {"v": "12345678"}), ("k2", {"v": "12345678"})])  # 2 + 16 bytes each
        assert len(kv.get_all()) == 2
        kv.put("k3", {"v": ""})
        assert len(kv.get_all()) == 2

    def test_a_value_larger_than_the_bound_is_not_stored_and_evicts_nothing(self, memory):
        kv = TieredKVStore(memory, max_bytes=50)
        kv.put("small", {})
        kv.put("large", {"v": "x" * 50})
        assert kv.get_all() == {"small": {}}

    def test_what_is_read_again_and_again_stays(self, memory, clock):
        kv = TieredKVStore(memory, max_items=4)
        fill(kv, 4)
        for i in range(50):
            clock.advance(30)
            assert kv.get("2", "c") == {"v": 2}
            kv.put(f"passing {i}", {}, "c")

    async def test_a_batch_counts_as_one_put_after_another_sync_and_async(self, memory):
        kv = TieredKVStore(memory, max_items=3)
        kv.put_all([(str(i), {}) for i in range(10)], "sync", 5)
        await kv.aput_all([(str(i), {}) for i in range(10)], "async", 5)
        assert len(kv.get_all("sync")) == len(await kv.aget_all("async")) == 3

    def test_a_store_without_bounds_on_the_same_collection_is_counted(self, memory):
        bounded, free = TieredKVStore(memory, max_items=3), TieredKVStore(memory)
        fill(free, 5)
        bounded.put("new", {}, "c")
        assert len(bounded.get_all("c")) == 3
        fill(free, 5)
        assert bounded.delete_all("c") == len(free.get_all("c")) + 6
        fill(bounded, 5)
        assert len(free.get_all("c")) == 3

    def test_who_asks_is_told_what_went(self, memory):
        told = []
        kv = TieredKVStore(memory, max_items=2, on_evict=lambda collection, keys: told.append((collection, keys)))
        kv.put_all([("\ud800 odd", {}), ("b", {})], "c")
        assert told == []
        kv.put("new", {}, "c")
        assert told == [("c", ["\ud800 odd"])]

    @pytest.mark.parametrize("wrong", [0, -1, 2.5, "many", True])
    def test_a_bound_that_is_no_count_is_refused(self, memory, wrong):
        with pytest.raises(InvalidInput, match="max_bytes: expected a whole number from 1 on"):
            TieredKVStore(memory, max_bytes=wrong)

    def test_an_empty_one_is_true(self, memory):
        assert bool(TieredKVStore(memory, max_items=1))


class TestInTheFile:
    def test_a_restart_keeps_values_bound_and_what_was_used(self, open_memory, clock):
        first = open_memory()
        kv = TieredKVStore(first, max_items=3)
        fill(kv, 3)
        for _ in range(3):
            kv.get("0", "c")
        first.close()
        clock.advance(3_000)
        kv = TieredKVStore(open_memory(), max_items=3)
        kv.put("new", {}, "c")
        assert kv.get_all("c") == {"0": {"v": 0}, "2": {"v": 2}, "new": {}}

    def test_copies_and_pickles_keep_the_bounds(self, memory):
        kv = TieredKVStore(memory, max_items=3)
        for other in (copy.copy(kv), copy.deepcopy(kv), pickle.loads(pickle.dumps(kv))):  # noqa: S301
            fill(other, 10)
            assert len(kv.get_all("c")) == 3

    def test_two_processes_share_one_bound(self, memory):
        kv = TieredKVStore(memory, max_items=5)
        code = f"""
            import pickle
            kv = pickle.loads({pickle.dumps(kv)!r})
            for i in range(60):
                kv.put(f"there {{i}}", {{"v": i}})
                assert len(kv.get_all()) <= 5
        """
        other = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], stderr=subprocess.PIPE, text=True
        )
        for i in range(60):
            kv.put(f"here {i}", {"v": i})
            assert len(kv.get_all()) <= 5
        assert other.wait(60) == 0, other.stderr.read()
        other.stderr.close()
        assert len(kv.get_all()) == 5

    def test_a_deleted_collection_stays_deleted_after_a_power_failure(self, memory):
        kv = TieredKVStore(memory)
        fill(kv, 3)
        statements = []
        memory.storage._connections._own_writer().set_trace_callback(statements.append)
        assert kv.delete_all("c") == 3
        assert "COMMIT" in statements
        assert not any("synchronous = NORMAL" in one for one in statements), "the commit waits for the disk"


class TestAsACache:
    def test_an_ingestion_cache_stays_within_its_bound_and_still_answers(self, memory):
        kv = TieredKVStore(memory, max_items=2)
        pipeline = IngestionPipeline(transformations=[MockEmbedding(embed_dim=4)], cache=IngestionCache(cache=kv))
        for i in range(5):
            pipeline.run(documents=[Document(id_=str(i), text=f"document {i}")])
        assert len(kv.get_all("llama_cache")) == 2

    def test_an_embedding_cache_keeps_the_text_that_is_asked_for(self, memory):
        kv = TieredKVStore(memory, max_items=3)
        model = MockEmbedding(embed_dim=4, embeddings_cache=kv)
        for i in range(10):
            model.get_text_embedding("asked for")
            model.get_text_embedding(f"passing {i}")
        assert "asked for" in kv.get_all("embeddings")
        assert len(kv.get_all("embeddings")) == 3
