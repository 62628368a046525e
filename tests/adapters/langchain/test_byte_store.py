"""Bytes by key, beyond the conformance suites: literal prefixes, hostile names, durability, scopes."""

import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_classic.embeddings import CacheBackedEmbeddings
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_tiered_memory import TieredByteStore
from shared_core import InvalidInput

NAMES = ["a", "a%", "a_b", "a*", "ab", "A", "'; DROP TABLE blobs; --", "é", "e\u0301", "\x00", "中"]


@pytest.mark.parametrize("prefix", ["a", "a%", "a_", "a*", "A", "'", "é", "\x00", "", None])
def test_a_prefix_is_taken_literally(memory, prefix):
    store = TieredByteStore(memory)
    store.mset([(name, name.encode()) for name in NAMES])
    assert list(store.yield_keys(prefix=prefix)) == [name for name in NAMES if name.startswith(prefix or "")]
    assert store.mget(NAMES) == [name.encode() for name in NAMES]


def test_writing_while_iterating_is_safe(memory):
    store = TieredByteStore(memory)
    store.mset([("a", b"1"), ("b", b"2")])
    seen = []
    for key in store.yield_keys():
        store.mset([(key + "x", b"3")])
        seen.append(key)
    assert seen == ["a", "b"]


def test_values_are_durable_and_a_clock_set_back_hides_none(opened, clock):
    first = opened()
    TieredByteStore(first).mset([("a", b"1")])
    first.close()
    clock.advance(-1e9)
    assert TieredByteStore(opened()).mget(["a", "b"]) == [b"1", None]


def test_scopes_keep_apart_and_the_class_name_stands_in_for_none(opened):
    memory = opened(default_scope=None)
    TieredByteStore(memory, scope="ada").mset([("a", b"ada's")])
    TieredByteStore(memory).mset([("a", b"common")])
    assert TieredByteStore(memory, scope=lambda: "bob").mget(["a"]) == [None]
    assert TieredByteStore(memory, scope="TieredByteStore").mget(["a"]) == [b"common"]


def test_what_is_no_bytes_is_refused_and_nothing_is_written(memory):
    store = TieredByteStore(memory)
    with pytest.raises(InvalidInput, match="expected bytes, got str"):
        store.mset([("a", b"1"), ("b", "2")])
    assert list(store.yield_keys()) == []


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(pairs=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.binary(), max_size=4))
def test_any_text_is_a_key_and_any_bytes_come_back(memory, pairs):
    store = TieredByteStore(memory)
    store.mset(list(pairs.items()))
    assert dict(zip(pairs, store.mget(list(pairs)), strict=True)) == pairs
    store.mdelete(list(pairs))
    assert list(store.yield_keys()) == []


def test_cached_embeddings_ask_the_model_once(memory):
    asked, lock = [], threading.Lock()

    class Counted(DeterministicFakeEmbedding):
        def embed_documents(self, texts):
            with lock:
                asked.extend(texts)
            return super().embed_documents(texts)

    cached = CacheBackedEmbeddings.from_bytes_store(
        Counted(size=4), TieredByteStore(memory), namespace="m", key_encoder="sha256"
    )
    assert cached.embed_documents(["a", "b"]) == cached.embed_documents(["a", "b"])
    assert asked == ["a", "b"]


async def test_pairs_and_keys_may_be_any_iterable(memory):
    """A zip that is read once to be checked is written all the same."""
    store = TieredByteStore(memory)
    store.mset(zip("ab", [b"1", b"2"], strict=True))
    await store.amset((key, b"3") for key in "c")
    assert store.mget(iter("abc")) == [b"1", b"2", b"3"]
    store.mdelete(iter("a"))
    await store.amdelete(key for key in "b")
    assert await store.amget(iter("abc")) == [None, None, b"3"]


def test_a_key_that_is_no_text_is_refused_and_nothing_is_written(memory):
    store = TieredByteStore(memory)
    for call in (lambda: store.mset([("a", b"1"), (1, b"2")]), lambda: store.mget([1]), lambda: store.mdelete([b"a"])):
        with pytest.raises(InvalidInput, match="key: expected a string, got"):
            call()
    assert list(store.yield_keys()) == []
