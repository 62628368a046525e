"""LangGraph's store: the same as InMemoryStore over random operations, but for the differences named here.

Ours differs where the reference is at fault or the contract leaves a choice: ``created_at`` is kept on update, nothing
returned or given is shared, a namespace that was only read or is empty again is not listed, a comparison with a missing
field is no match, values are what JSON carries, and items of several namespaces come in the order of the namespaces.
"""

import asyncio
import sqlite3
import threading
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.prebuilt import ToolRuntime
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from langchain_tiered_memory import TieredStore
from shared_core import InvalidInput, Settings, TieredMemory
from tests.adapters.langchain.fakes import ScriptedModel, calling, user

U = ("users", "1")


@pytest.fixture
def store(memory):
    return TieredStore(memory)


def values(items):
    return [item.value for item in items]


# The differential test

ELEMENTS = st.sampled_from(["u", "v", "1", "10", "a b", '"', ","])
NAMESPACES = st.lists(ELEMENTS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "k1", "%", "_"])
VALUES = st.dictionaries(st.sampled_from("xy"), st.one_of(st.integers(0, 3), st.sampled_from(["s", None])), max_size=2)
FILTERS = st.one_of(
    st.none(),
    st.dictionaries(
        st.sampled_from("xy"), st.one_of(st.integers(0, 3), st.builds(lambda v: {"$ne": v}, st.integers(0, 3)))
    ),
)
OPERATIONS = st.one_of(
    st.tuples(NAMESPACES, KEYS, st.one_of(VALUES, st.none())).map(lambda parts: PutOp(*parts)),
    st.tuples(NAMESPACES, KEYS).map(lambda parts: GetOp(*parts)),
    st.tuples(st.lists(ELEMENTS, max_size=2).map(tuple), FILTERS).map(lambda parts: SearchOp(*parts, limit=1000)),
    st.builds(
        ListNamespacesOp,
        st.one_of(
            st.none(),
            st.lists(
                st.builds(
                    MatchCondition,
                    st.sampled_from(["prefix", "suffix"]),
                    st.lists(st.one_of(ELEMENTS, st.just("*")), min_size=1, max_size=2).map(tuple),
                ),
                max_size=2,
            ).map(tuple),
        ),
        st.one_of(st.none(), st.integers(1, 2)),
        limit=st.just(1000),
    ),
)


def seen(result):
    """What both stores must agree on: times aside, and a search of several namespaces as a set."""
    if result is None or isinstance(result, tuple):
        return result
    if not isinstance(result, list):
        return (result.namespace, result.key, result.value)
    if result and not isinstance(result[0], tuple):
        return sorted((item.namespace, item.key, str(item.value)) for item in result)
    return result


@settings(max_examples=60, deadline=None)
@given(batches=st.lists(st.lists(OPERATIONS, max_size=5), max_size=6))
def test_random_batches_give_what_the_reference_gives(batches):
    with TieredMemory.open(":memory:", default_scope="ada", embedder="none") as memory:
        ours, theirs = TieredStore(memory), InMemoryStore()
        for batch in batches:
            # Listed alone, before the batch: a read beside it would leave the reference a ghost to list.
            listed = {id(op): theirs.batch([op])[0] for op in batch if isinstance(op, ListNamespacesOp)}
            for op, mine, other in zip(batch, ours.batch(batch), theirs.batch([*batch]), strict=True):
                assert seen(mine) == seen(listed.get(id(op), other)), op
            for ghost in [namespace for namespace, data in theirs._data.items() if not data]:
                del theirs._data[ghost]  # what was only read or is empty again


# One promise each


def test_reads_of_a_batch_see_the_state_before_it_and_the_last_put_wins(store):
    store.put(U, "k", {"n": 0})
    before, *_ = store.batch([GetOp(U, "k"), PutOp(U, "k", {"n": 1}), PutOp(U, "k", {"n": 2})])
    assert before.value == {"n": 0}
    assert store.get(U, "k").value == {"n": 2}


def test_an_update_keeps_when_the_item_was_created_and_times_are_aware(store, clock):
    store.put(U, "k", {"n": 0})
    clock.advance(60)
    store.put(U, "k", {"n": 1})
    item = store.get(U, "k")
    assert (item.updated_at - item.created_at).total_seconds() == 60
    assert item.created_at.utcoffset().total_seconds() == 0


def test_nothing_given_or_returned_is_shared(store):
    value = {"nested": {"n": [1]}}
    store.put(U, "k", value)
    value["nested"]["n"].append(2)
    store.get(U, "k").value["nested"]["n"].append(3)
    store.search(U)[0].value["nested"]["n"].append(4)
    assert store.get(U, "k").value == {"nested": {"n": [1]}}


def test_a_prefix_matches_whole_elements_and_hostile_names_are_literals(store):
    names = [("u", "1"), ("u", "10"), ("u", "1", "x"), ("u", "%"), ("u", "_"), ("u", "' OR 1=1 --"), ("u", '1",')]
    for name in names:
        store.put(name, "k", {"name": list(name)})
    assert [tuple(v["name"]) for v in values(store.search(("u", "1")))] == [("u", "1"), ("u", "1", "x")]
    assert [tuple(v["name"]) for v in values(store.search(("u", "%")))] == [("u", "%")]
    assert set(store.list_namespaces()) == set(names)
    assert store.list_namespaces(prefix=("u", "*"), max_depth=1) == [("u",)]
    assert store.list_namespaces(suffix=("x",)) == [("u", "1", "x")]


def test_hostile_filter_fields_and_values_are_literals(store):
    store.put(U, "k", {"a' OR '1'='1": 1, "n": 2})
    assert store.search(U, filter={"x' OR '1'='1": 1}) == []
    assert len(store.search(U, filter={"a' OR '1'='1": 1})) == 1
    assert store.search(U, filter={"n": "2 OR 1=1"}) == []


def test_filters_compare_and_a_missing_or_foreign_field_is_no_match(store):
    for n in range(5):
        store.put(U, str(n), {"n": n, "tags": ["a"], "deep": {"x": n, "y": 0}})
    store.put(U, "none", {"other": "text"})

    def found(**wanted):
        return [item.key for item in store.search(U, filter=wanted)]

    assert found(n={"$gt": 2}) == ["3", "4"]
    assert found(n={"$gte": 1, "$lt": 3}) == ["1", "2"]
    assert found(n={"$lte": 0}) == ["0"]
    assert found(n={"$eq": 3}) == found(n=3) == ["3"]
    assert found(n={"$ne": 3}) == ["0", "1", "2", "4", "none"]
    assert found(deep={"x": 2}) == ["2"]
    assert found(tags=["a"], n=1) == ["1"]
    assert found(other={"$gt": 1}) == []
    with pytest.raises(InvalidInput, match="expected \\$eq"):
        found(n={"$regex": "x"})


def test_what_was_deleted_or_only_read_leaves_no_ghost(store):
    store.get(("ghost",), "k")
    store.put(U, "k", {"n": 1})
    store.delete(U, "k")
    assert store.get(U, "k") is None
    assert store.list_namespaces() == []


def test_names_are_checked_also_in_a_batch(store):
    for bad in [("a.b",), ("",), ()]:
        with pytest.raises(InvalidNamespaceError):
            store.put(bad, "k", {})
    with pytest.raises(InvalidNamespaceError):
        store.batch([PutOp(("a.b",), "k", {})])
    with pytest.raises(InvalidNamespaceError):
        store.put(("langgraph",), "k", {})


def test_a_value_that_json_cannot_carry_is_refused_and_the_batch_writes_nothing(store):
    with pytest.raises(InvalidInput, match="JSON"):
        store.batch([PutOp(U, "a", {"n": 1}), PutOp(U, "b", {"x": object()})])
    assert store.search(U) == []


def test_what_has_expired_is_never_returned_and_minutes_are_minutes(store, clock):
    store.put(U, "k", {"n": 1}, ttl=1)
    clock.advance(59)
    assert store.get(U, "k", refresh_ttl=False) is not None
    clock.advance(2)
    assert store.get(U, "k") is None
    assert store.search(U) == []
    assert store.list_namespaces() == []


def test_a_read_refreshes_the_time_to_live_unless_told_not_to(store, clock):
    store.put(U, "k", {"n": 1}, ttl=1)
    for _ in range(3):
        clock.advance(50)
        assert len(store.search(U)) == 1
    clock.advance(50)
    assert store.search(U, refresh_ttl=False)
    clock.advance(50)
    assert store.get(U, "k") is None


def test_the_configured_time_to_live_and_its_refresh_are_honoured(memory, clock):
    store = TieredStore(memory, ttl={"default_ttl": 1, "refresh_on_read": False})
    store.put(U, "k", {"n": 1})
    store.put(U, "for ever", {"n": 2}, ttl=None)
    clock.advance(50)
    assert store.get(U, "k") is not None
    clock.advance(50)
    assert [item.key for item in store.search(U)] == ["for ever"]


def test_items_are_durable_and_a_clock_set_back_hides_none(opened, clock):
    first = opened()
    TieredStore(first).put(U, "k", {"n": 1})
    first.close()
    clock.advance(-1e6)
    assert TieredStore(opened()).get(U, "k").value == {"n": 1}


def test_a_search_by_meaning_ranks_filters_and_puts_what_has_no_text_last(store):
    store.put(U, "tea", {"text": "Ada likes green tea.", "kind": "drink"})
    store.put(U, "hidden", {"text": "coffee coffee", "kind": "drink"}, index=False)
    store.put(U, "coffee", {"text": "Ada takes her coffee black.", "kind": "drink"})
    store.put(("users", "2"), "other", {"text": "Bob takes his coffee white.", "kind": "drink"})
    store.put(U, "job", {"text": "She sells coffee machines.", "kind": "work"})
    found = store.search(U, query="How does she take her coffee?", filter={"kind": "drink"})
    assert [item.key for item in found] == ["coffee", "tea", "hidden"]
    assert found[0].score > found[1].score
    assert found[2].score is None
    assert [item.key for item in store.search(U, query="coffee black", limit=1, offset=0)] == ["coffee"]


def test_only_the_fields_named_are_searched_and_an_update_replaces_the_text(memory):
    store = TieredStore(memory, fields=["text"])
    store.put(U, "a", {"text": "tea", "note": "zebra"})
    store.put(U, "b", {"text": "zebra", "note": "tea"})
    assert store.search(U, query="zebra")[0].key == "b"
    store.put(U, "b", {"text": "juice", "note": "tea"})
    store.put(U, "a", {"text": "x", "list": [{"text": "zebra"}]}, index=["list[*].text"])
    assert store.search(U, query="zebra")[0].key == "a"


def test_items_are_not_recalled_as_memories_and_memories_are_no_items(store, memory):
    memory.remember("I take my coffee black.")
    store.put(U, "k", {"text": "coffee with zebras"})
    assert [hit.memory.text for hit in memory.recall("coffee")] == ["I take my coffee black."]
    assert [item.key for item in store.search((), query="coffee")] == ["k"]


def test_scopes_keep_apart(memory):
    TieredStore(memory, scope="ada").put(U, "k", {"text": "coffee"})
    other = TieredStore(memory, scope=lambda: "bob")
    assert other.get(U, "k") is None
    assert other.search((), query="coffee") == []
    assert other.list_namespaces() == []


def test_a_broken_row_is_no_item(opened, tmp_path):
    store = TieredStore(opened())
    store.put(U, "k", {"n": 1})
    for row in (b"", b"[1]", b"\x80\x04cos\nsystem\n.", b'["x", 1, 2, 3]'):
        with closing(sqlite3.connect(tmp_path / "memory.db")) as db, db:
            db.execute("UPDATE blobs SET value = ?", (row,))
        assert store.get(U, "k") is None
        assert store.search(U) == []


async def test_the_async_methods_do_the_same(store):
    await store.aput(U, "k", {"text": "coffee"})
    assert (await store.aget(U, "k")).value == {"text": "coffee"}
    assert [item.key for item in await store.asearch(U, query="coffee")] == ["k"]
    assert await store.alist_namespaces() == [U]
    await asyncio.gather(*(store.aput(U, str(n), {"n": n}) for n in range(10)))
    assert len(await store.asearch(U, limit=20)) == 11
    await store.adelete(U, "k")
    assert await store.aget(U, "k") is None


def test_an_agents_tool_reads_and_writes_it(store):
    @tool
    def note(text: str, runtime: ToolRuntime) -> str:
        """Note something."""
        runtime.store.put(U, "note", {"text": text})
        return runtime.store.search(U, query=text)[0].value["text"]

    model = ScriptedModel(script=[calling("note", {"text": "coffee black"}), AIMessage("done")])
    result = create_agent(model, [note], store=store).invoke(user("?"))
    assert result["messages"][2].content == "coffee black"


def test_threads_that_put_one_key_at_once_all_succeed(opened):
    store, failed = TieredStore(opened()), []

    def put(name):
        try:
            for i in range(10):
                store.put(U, "k", {"text": f"{name} {i}"})
        except Exception as error:  # noqa: BLE001  whatever it is, it is the fault
            failed.append(error)

    threads = [threading.Thread(target=put, args=(f"t{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert store.get(U, "k").value["text"].endswith(" 9")


@pytest.mark.parametrize("row", ['[{"a": 1}, 1e308, 1, null]', '[{"a": 1}, NaN, 1, null]', '[{"a": 1}, 1, 1, "x"]'])
def test_a_row_with_times_that_no_clock_shows_is_no_item(opened, tmp_path, row):
    store = TieredStore(opened())
    store.put(U, "k", {"a": 1})
    store.put(U, "l", {"a": 2})
    with closing(sqlite3.connect(tmp_path / "memory.db")) as db, db:
        db.execute("UPDATE blobs SET value = ? WHERE key = 'k'", (row.encode(),))
    db.close()
    assert store.get(U, "k") is None
    assert [found.key for found in store.search(U)] == ["l"]


def test_no_scope_name_reaches_the_texts_of_another_scopes_store(memory):
    TieredStore(memory, scope="ada").put(U, "k", {"text": "secret pin 1234"})
    for attempt in (lambda name: memory.recall("secret pin", scope=name), lambda name: TieredStore(memory, scope=name)):
        with pytest.raises(InvalidInput, match=r"U\+001F"):
            attempt("ada\x1flanggraph.store")
    found = TieredStore(memory, scope=lambda: "ada\x1flanggraph.store")
    with pytest.raises(InvalidInput, match=r"U\+001F"):
        found.search(U, query="secret pin")


def test_a_scope_that_is_forgotten_leaves_no_text_of_its_store(memory):
    store = TieredStore(memory, scope="ada")
    store.put(U, "k", {"text": "secret pin 1234"})
    receipt = memory.forget_scope("ada")
    assert (receipt.blobs, receipt.left) == (1, 0)
    assert memory.storage.memories.scopes() == []
    assert store.search(U, query="secret pin") == []


def test_a_text_that_cannot_be_searched_whole_is_stored_all_the_same(opened):
    store = TieredStore(opened(settings=Settings(max_text_bytes=100)))
    for key, text in (("half", "\ud800 coffee"), ("long", "coffee " + "é" * 100_000)):
        store.put(U, key, {"text": text})
        assert store.get(U, key).value == {"text": text}
    assert all(item.score for item in store.search(U, query="coffee"))


def test_the_budget_for_memories_makes_no_item_unfindable(opened):
    store = TieredStore(opened(settings=Settings(max_memories=3)))
    for n in range(6):
        store.put(U, f"k{n}", {"text": f"word{n} about cats"})
    assert all(item.score for item in store.search(U, query="cats"))


def test_numbers_that_are_written_as_texts_compare_as_the_reference_compares_them(store):
    reference = InMemoryStore()
    for one in (store, reference):
        for key in ("9", "10"):
            one.put(U, key, {"n": key})
        assert [item.key for item in one.search(U, filter={"n": {"$gt": "9"}})] == ["10"]
        assert [item.key for item in one.search(U, filter={"n": {"$gte": 9}})] == ["9", "10"]
