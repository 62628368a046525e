"""LangGraph's node cache: exact keys, its own seconds, safe types alone."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import CachePolicy

from langchain_tiered_memory import TieredNodeCache
from tests.stalled import stalled


@pytest.fixture
def cache(memory):
    return TieredNodeCache(memory)


@dataclass
class Own:
    n: int


def test_values_come_back_under_the_very_keys_that_were_asked_for(cache):
    """A comma or a quote in a name joins no two namespaces."""
    keys = [(("a", "b"), "k"), (("a,b",), "k"), (('a","b',), "k"), (("a",), "k"), ((), "k")]
    cache.set({key: (n, None) for n, key in enumerate(keys)})
    assert cache.get([*keys, (("a", "b"), "other")]) == {key: n for n, key in enumerate(keys)}


def test_a_value_lives_its_own_seconds(cache, clock):
    cache.set({(("a",), "short"): (1, 10), (("a",), "long"): (2, None)})
    clock.advance(10)
    assert cache.get([(("a",), "short"), (("a",), "long")]) == {(("a",), "long"): 2}


def test_none_false_and_empty_are_values(cache):
    cache.set({(("a",), str(n)): (value, None) for n, value in enumerate([None, False, 0, "", []])})
    assert list(cache.get([(("a",), str(n)) for n in range(5)]).values()) == [None, False, 0, "", []]


def test_messages_come_back_and_nothing_is_shared(cache):
    value = [("messages", [AIMessage("x")])]
    cache.set({(("a",), "k"): (value, None)})
    cache.get([(("a",), "k")])[("a",), "k"][0][1][0].content = "changed"
    ((found,),) = list(cache.get([(("a",), "k")]).values())
    assert found == ["messages", [AIMessage("x")]]  # the serializer knows no tuples


def test_a_value_of_a_class_that_rows_may_not_name_is_not_kept(cache):
    cache.set({(("a",), "k"): (Own(1), None)})
    assert cache.get([(("a",), "k")]) == {}
    assert cache.counts["set_failures"] == 1


def test_clear_reaches_the_namespaces_named_or_all(cache):
    cache.set({(("a",), "k"): (1, None), (("b",), "k"): (2, None)})
    cache.clear([("a",)])
    assert cache.get([(("a",), "k"), (("b",), "k")]) == {(("b",), "k"): 2}
    cache.clear()
    assert cache.get([(("b",), "k")]) == {}


def test_a_broken_row_or_file_is_a_miss(cache, memory, tmp_path):
    cache.set({(("a",), "k"): (1, None)})
    for row in (b"", b"msgpack\n\xc1", b"pickle\n\x80\x04cos\nsystem\n.", b"nonsense"):
        with closing(sqlite3.connect(tmp_path / "memory.db")) as db, db:
            db.execute("UPDATE blobs SET value = ?", (row,))
        assert cache.get([(("a",), "k")]) == {}
    memory.close()
    assert cache.get([(("a",), "k")]) == {}
    cache.set({(("a",), "k"): (1, None)})
    assert cache.counts["get_failures"] == 5


def test_scopes_keep_apart_and_the_class_name_stands_in_for_none(opened):
    memory = opened(default_scope=None)
    TieredNodeCache(memory, scope="ada").set({(("a",), "k"): (1, None)})
    TieredNodeCache(memory).set({(("a",), "k"): (2, None)})
    assert TieredNodeCache(memory, scope=lambda: "bob").get([(("a",), "k")]) == {}
    assert TieredNodeCache(memory, scope="TieredNodeCache").get([(("a",), "k")]) == {(("a",), "k"): 2}


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_node_with_a_policy_runs_once_across_processes(opened, asynchronous):
    ran = []

    def node(state):
        ran.append(1)
        return {"messages": [AIMessage("x", id="fixed")]}

    async def run(memory):
        graph = (
            StateGraph(MessagesState).add_node("node", node, cache_policy=CachePolicy(ttl=60)).add_edge(START, "node")
        )
        compiled = graph.compile(cache=TieredNodeCache(memory))
        given = {"messages": [("user", "hi")]}
        given["messages"] = [{"role": "user", "content": "hi", "id": "1"}]
        return await compiled.ainvoke(given) if asynchronous else compiled.invoke(given)

    first = opened()
    one = await run(first)
    first.close()
    two = await run(opened())
    assert ran == [1]
    assert one == two


def test_a_result_that_would_have_to_wait_for_another_writer_is_not_kept(memory, tmp_path):
    cache = TieredNodeCache(memory)
    with stalled(tmp_path / "memory.db"):
        cache.set({(("n",), "k"): ("v", None)})
    assert cache.counts["set_failures"] == 1
    assert cache.get([(("n",), "k")]) == {}
