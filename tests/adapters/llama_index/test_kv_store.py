"""What ``TieredKVStore`` promises, beside LlamaIndex's ``SimpleKVStore`` where the two must agree."""

from __future__ import annotations

import asyncio
import copy
import pickle
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_index.core.storage.kvstore import SimpleKVStore

from llama_index_tiered_memory import TieredKVStore
from shared_core import InvalidInput


@pytest.fixture(params=["stock", "ours in a file", "ours in memory"])
def any_kv(request, open_memory):
    if request.param == "stock":
        return SimpleKVStore()
    return TieredKVStore(open_memory(":memory:" if "in memory" in request.param else "agent.db"))


@pytest.fixture
def kv(memory):
    return TieredKVStore(memory)


class TestLikeTheStockStore:
    def test_a_value_comes_back(self, any_kv):
        any_kv.put("k", {"a": [1, 2.5, None, True, {"b": "好"}]})
        assert any_kv.get("k") == {"a": [1, 2.5, None, True, {"b": "好"}]}

    def test_the_later_value_replaces_the_earlier(self, any_kv):
        any_kv.put("k", {"v": 1})
        any_kv.put("k", {"v": 2})
        assert any_kv.get("k") == {"v": 2}

    def test_an_unknown_key_or_collection_is_none_empty_or_false(self, any_kv):
        assert any_kv.get("?") is None
        assert any_kv.get("?", collection="?") is None
        assert any_kv.get_all(collection="?") == {}
        assert any_kv.delete("?", collection="?") is False

    def test_an_empty_dict_is_a_value(self, any_kv):
        any_kv.put("k", {})
        assert any_kv.get("k") == {}
        assert any_kv.get_all() == {"k": {}}

    def test_collections_are_apart(self, any_kv):
        any_kv.put("k", {"v": "data"})
        any_kv.put("k", {"v": "ref"}, collection="docstore/ref_doc_info")
        assert any_kv.get("k", "docstore/ref_doc_info") == {"v": "ref"}
        assert any_kv.delete("k", collection="docstore/ref_doc_info")
        assert any_kv.get("k") == {"v": "data"}

    def test_get_all_gives_every_value_of_the_collection_in_order_of_first_writing(self, any_kv):
        for key in ("z", "a", "m", "z"):
            any_kv.put(key, {"v": key}, collection="c")
        assert list(any_kv.get_all("c").items()) == [(key, {"v": key}) for key in ("z", "a", "m")]

    def test_delete_tells_whether_the_key_was_there(self, any_kv):
        any_kv.put("k", {"v": 1})
        assert any_kv.delete("k") is True
        assert any_kv.delete("k") is False
        assert any_kv.get("k") is None

    def test_many_pairs_are_put_at_once_and_the_last_of_equal_keys_wins(self, any_kv):
        any_kv.put_all([("a", {"v": 1}), ("b", {"v": 2}), ("a", {"v": 3})], collection="c")
        assert any_kv.get_all("c") == {"a": {"v": 3}, "b": {"v": 2}}

    def test_putting_no_pairs_does_nothing(self, any_kv):
        any_kv.put_all([], collection="c")
        assert any_kv.get_all("c") == {}

    async def test_every_async_method_does_what_its_sync_twin_does(self, any_kv):
        await any_kv.aput(key="a", val={"v": 1}, collection="c")
        await any_kv.aput_all(kv_pairs=[("b", {"v": 2}), ("c", {"v": 3})], collection="c")
        assert await any_kv.aget(key="a", collection="c") == {"v": 1}
        assert await any_kv.aget_all(collection="c") == {"a": {"v": 1}, "b": {"v": 2}, "c": {"v": 3}}
        assert await any_kv.adelete(key="a", collection="c") is True
        assert await any_kv.adelete(key="a", collection="c") is False

    def test_a_store_is_true_even_when_empty_so_that_no_default_takes_its_place(self, any_kv):
        assert bool(any_kv)


class TestBetterThanTheStockStore:
    @pytest.mark.parametrize("batch_size", [1, 2, 100])
    async def test_any_batch_size_works_sync_and_async(self, kv, batch_size):
        pairs = [(str(i), {"v": i}) for i in range(5)]
        kv.put_all(pairs, "sync", batch_size)
        await kv.aput_all(pairs, collection="async", batch_size=batch_size)
        assert kv.get_all("sync") == kv.get_all("async") == dict(pairs)

    @pytest.mark.parametrize("batch_size", [0, -1, 1.5, True, None])
    def test_a_batch_size_that_is_no_count_is_refused(self, kv, batch_size):
        with pytest.raises(InvalidInput, match="batch_size: expected a whole number of 1 or more"):
            kv.put_all([("a", {})], batch_size=batch_size)

    def test_a_batch_is_written_whole_or_not_at_all(self, kv):
        with pytest.raises(InvalidInput, match="val: expected a dict that JSON can carry, got a object"):
            kv.put_all([("a", {"v": 1}), ("b", {"v": object()})], batch_size=1)
        assert kv.get_all() == {}

    def test_a_nested_value_is_copied_in_and_out(self, kv):
        given = {"deep": {"list": [1]}}
        kv.put("k", given)
        given["deep"]["list"].append(2)
        kv.get("k")["deep"]["list"].append(3)
        kv.get_all()["k"]["deep"]["list"].append(4)
        assert kv.get("k") == {"deep": {"list": [1]}}

    @pytest.mark.parametrize(
        "key",
        [
            "",
            "a\nb",
            "x" * 100_000,
            "好🙂",
            "50%",
            "a_c",
            "'; DROP TABLE blobs; --",
            "nul\x00in",
            "\ud800 alone",
            "\x00json:",
        ],
    )
    def test_a_key_is_any_text(self, kv, key):
        kv.put("axc", {"v": "other"})
        kv.put(key, {"v": "mine"})
        assert kv.get(key) == {"v": "mine"}
        assert kv.get_all() == {"axc": {"v": "other"}, key: {"v": "mine"}}
        assert kv.delete(key)
        assert kv.get_all() == {"axc": {"v": "other"}}

    @given(keys=st.lists(st.text() | st.text().map(lambda t: "\x00json:" + t), unique=True, max_size=5))
    @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    def test_two_keys_never_run_together(self, kv, keys):
        kv.delete_all("c")
        kv.put_all([(key, {"v": i}) for i, key in enumerate(keys)], "c")
        assert kv.get_all("c") == {key: {"v": i} for i, key in enumerate(keys)}

    @given(numbers=st.lists(st.floats(allow_nan=False), max_size=20))
    @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    def test_floats_come_back_bit_for_bit(self, kv, numbers):
        kv.put("k", {"v": numbers})
        assert [value.hex() for value in kv.get("k")["v"]] == [value.hex() for value in numbers]

    def test_numpy_numbers_and_arrays_become_numbers_and_lists(self, kv):
        kv.put("k", {"one": np.float32(0.1), "many": np.array([1.5, 2.5]), "listed": [np.float32(0.5)]})
        assert kv.get("k") == {"one": float(np.float32(0.1)), "many": [1.5, 2.5], "listed": [0.5]}

    def test_a_value_of_fifty_megabytes_works(self, kv):
        value = {"nodes": ["x" * 1_000_000] * 50}
        kv.put("big", value)
        assert kv.get("big") == value

    async def test_a_whole_collection_is_deleted_at_once(self, kv):
        kv.put_all([(str(i), {}) for i in range(7)], "c")
        kv.put("kept", {}, "d")
        assert await kv.adelete_all("c") == 7
        assert kv.delete_all("c") == 0
        assert kv.get_all("d") == {"kept": {}}

    def test_a_clock_that_was_set_back_hides_no_value(self, kv, clock):
        kv.put("k", {"v": 1})
        clock.advance(-10_000)
        assert kv.get("k") == {"v": 1}
        assert kv.get_all() == {"k": {"v": 1}}

    def test_threads_that_write_at_once_lose_nothing(self, kv):
        def work(name):
            for i in range(20):
                kv.put(f"{name}{i}", {"v": i})

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(kv.get_all()) == 80

    async def test_concurrent_calls_on_one_store_work(self, kv):
        await asyncio.gather(*(kv.aput_all([(f"{i}", {"v": i})], f"c{i % 3}", 5) for i in range(50)))
        assert sum(len(kv.get_all(f"c{i}")) for i in range(3)) == 50


class TestScopes:
    def test_two_scopes_never_see_each_other(self, memory):
        ada, bob = TieredKVStore(memory, scope="ada"), TieredKVStore(memory, scope="bob")
        ada.put("k", {"v": "ada"})
        assert bob.get("k") is None
        assert bob.get_all() == {}
        assert bob.delete("k") is False
        assert bob.delete_all() == 0
        assert ada.get("k") == {"v": "ada"}

    def test_without_scope_and_default_its_class_name_is_the_scope(self, open_memory):
        memory = open_memory(default_scope=None)
        TieredKVStore(memory).put("k", {"v": 1})
        assert TieredKVStore(memory, scope="TieredKVStore").get("k") == {"v": 1}

    def test_nothing_of_it_is_recalled(self, kv, memory):
        kv.put("k", {"text": "I take my coffee black."})
        assert memory.recall("coffee") == []


class TestCopies:
    def test_it_pickles_by_path_and_stays_usable_itself(self, kv):
        kv.put("k", {"v": 0.1})
        clone = pickle.loads(pickle.dumps(kv))  # noqa: S301
        clone.put("l", {"v": 2})
        assert kv.get_all() == clone.get_all() == {"k": {"v": 0.1}, "l": {"v": 2}}

    def test_another_process_opens_the_file_itself(self, kv):
        kv.put("k", {"v": "from the first process"})
        code = f"""
            import pickle
            print(pickle.loads({pickle.dumps(kv)!r}).get("k")["v"])
        """
        out = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
        )
        assert out.stdout.strip() == "from the first process", out.stderr

    def test_copies_read_the_same_values(self, kv):
        kv.put("k", {"v": 1})
        assert copy.deepcopy(kv).get("k") == copy.copy(kv).get("k") == {"v": 1}

    def test_a_memory_without_a_file_says_that_it_cannot_be_pickled(self, open_memory):
        with pytest.raises(InvalidInput, match="expected a memory in a file to serialise, got one in ':memory:'"):
            pickle.dumps(TieredKVStore(open_memory(":memory:")))
