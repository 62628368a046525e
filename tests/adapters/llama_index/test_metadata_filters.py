"""``TieredRetriever(filters=MetadataFilters(…))``: LlamaIndex's filters on memories, applied before the cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from llama_index_tiered_memory import TieredRetriever
from llama_index_tiered_memory.metadata_filters import predicate
from shared_core import InvalidInput


def one(key, operator, value):
    return MetadataFilter(key=key, operator=operator, value=value)


def of(*filters, condition="and"):
    return MetadataFilters(filters=list(filters), condition=condition)


@pytest.fixture
def guests(memory):
    """Four memories about coffee with metadata of every kind."""
    for name, metadata in {
        "Anna": {"floor": 1, "team": "Blue", "likes": ["tea", "jazz"], "note": "Prefers the Window seat"},
        "Boris": {"floor": 2, "team": "Red", "likes": ["jazz"], "note": ""},
        "Chloe": {"floor": 3, "team": "Blue", "likes": []},
        "Dan": {"floor": "top"},
    }.items():
        memory.remember(f"{name} takes coffee.", metadata={"name": name, **metadata})
    return memory


def found(memory, filters, k=8):
    nodes = TieredRetriever(memory=memory, k=k, filters=filters).retrieve("coffee")
    return sorted(node.metadata["name"] for node in nodes)


class TestOperators:
    @pytest.mark.parametrize(
        ("key", "operator", "value", "names"),
        [
            ("team", "==", "Blue", "Anna Chloe"),
            ("team", "!=", "Blue", "Boris Dan"),
            ("floor", ">", 1, "Boris Chloe"),
            ("floor", ">=", 2, "Boris Chloe"),
            ("floor", "<", 2, "Anna"),
            ("floor", "<=", 2.0, "Anna Boris"),
            ("team", "in", ["Red", "Green"], "Boris"),
            ("team", "nin", ["Red", "Green"], "Anna Chloe Dan"),
            ("likes", "any", ["tea", "rock"], "Anna"),
            ("likes", "all", ["tea", "jazz"], "Anna"),
            ("likes", "contains", "jazz", "Anna Boris"),
            ("note", "text_match", "Window", "Anna"),
            ("note", "text_match", "window", ""),
            ("note", "text_match_insensitive", "wINDOW", "Anna"),
            ("likes", "is_empty", None, "Chloe Dan"),
            ("note", "is_empty", None, "Boris Chloe Dan"),
        ],
    )
    def test_each_keeps_the_memories_it_says(self, guests, key, operator, value, names):
        assert found(guests, of(one(key, operator, value))) == names.split()

    def test_every_operator_of_llama_index_is_known(self):
        for operator in FilterOperator:
            assert callable(predicate(of(one("k", operator, ["v"]))))

    def test_a_value_that_cannot_be_compared_does_not_match_and_fails_nothing(self, guests):
        assert found(guests, of(one("floor", "text_match", "t"))) == ["Dan"]
        assert found(guests, of(one("floor", "<", "z"))) == ["Dan"]
        assert found(guests, of(one("floor", "contains", 1))) == []


class TestConditions:
    def test_and_or_and_not_nest(self, guests):
        blue, high = one("team", "==", "Blue"), one("floor", ">", 1)
        assert found(guests, of(blue, high)) == ["Chloe"]
        assert found(guests, of(blue, high, condition="or")) == ["Anna", "Boris", "Chloe"]
        assert found(guests, of(blue, high, condition="not")) == ["Dan"], "none of them holds"
        assert found(guests, of(one("name", "!=", "Dan"), of(blue, high, condition="not"), condition="or")) == [
            "Anna", "Boris", "Chloe", "Dan",
        ]  # fmt: skip
        assert found(guests, of(of(of(blue), condition="not"), high)) == ["Boris"]

    def test_no_filters_keep_everything(self, guests):
        assert len(found(guests, of())) == 4
        assert len(found(guests, None)) == 4

    leaves = st.builds(
        one,
        st.sampled_from("ab"),
        st.sampled_from(["==", "!=", ">", ">=", "<", "<=", "is_empty"]),
        st.integers(0, 3),
    ) | st.builds(one, st.sampled_from("ab"), st.sampled_from(["in", "nin"]), st.lists(st.integers(0, 3), max_size=3))

    @given(
        filters=st.builds(of, leaves, leaves, condition=st.sampled_from(["and", "or"])),
        metadata=st.fixed_dictionaries({"a": st.integers(0, 3), "b": st.integers(0, 3)}),
    )
    def test_a_flat_condition_says_what_llama_indexs_own_store_says(self, filters, metadata):
        stock = build_metadata_filter_fn(lambda _: metadata, filters)
        assert predicate(filters)(metadata) == stock("n")


class TestInTheSearch:
    def test_k_nodes_that_match_come_back_however_rare_they_are(self, memory):
        memory.remember_many([
            {"text": f"Coffee fact {i} about coffee.", "metadata": {"rare": int(i % 100 == 0)}} for i in range(400)
        ])  # fmt: skip
        nodes = TieredRetriever(memory=memory, k=4, filters=of(one("rare", "==", 1))).retrieve("coffee fact")
        assert {node.text for node in nodes} == {f"Coffee fact {i} about coffee." for i in (0, 100, 200, 300)}

    def test_a_near_copy_that_does_not_match_hides_none_that_does(self, memory):
        memory.remember("I take my coffee black.", metadata={"kept": 0})
        memory.remember("I take my coffee black!", metadata={"kept": 1}, id="other")
        (node,) = TieredRetriever(memory=memory, filters=of(one("kept", "==", 1))).retrieve("coffee")
        assert node.node.node_id == "other"

    def test_facts_of_a_memory_are_metadata_too(self, memory):
        memory.remember("Coffee at work.", tags=["work"], speaker="Zoe", at=1_600_000_000)
        memory.remember("Coffee at home.", role="assistant")
        for asked in (
            one("tags", "contains", "work"), one("speaker", "==", "Zoe"), one("role", "==", "user"),
            one("at", "<", 1_650_000_000),
        ):  # fmt: skip
            (node,) = TieredRetriever(memory=memory, filters=of(asked)).retrieve("coffee")
            assert node.text == "Coffee at work."

    async def test_they_stand_beside_other_filters_of_a_recall_sync_and_async(self, memory):
        for i in range(6):
            memory.remember(f"Coffee fact {i}.", tags=["work" if i % 2 else "home"], metadata={"i": i})
        retriever = TieredRetriever(memory=memory, filters={"tags": ["work"], "where": of(one("i", ">", 1))})
        assert sorted(node.metadata["i"] for node in retriever.retrieve("coffee")) == [3, 5]
        assert sorted(node.metadata["i"] for node in await retriever.aretrieve("coffee")) == [3, 5]

    def test_two_scopes_stay_apart_and_the_callers_filters_as_they_are(self, memory):
        memory.remember("ada's coffee", scope="ada", metadata={"n": 1})
        filters = of(one("n", "==", 1))
        before = filters.model_dump()
        retriever = TieredRetriever(memory=memory, scope="bob", filters=filters)
        assert retriever.retrieve("coffee") == []
        assert filters.model_dump() == before

    @pytest.mark.parametrize("wrong", ["team", [one("a", "==", 1)], {"team": "Blue"}])
    def test_what_is_no_filter_is_refused_with_what_to_write(self, memory, wrong):
        with pytest.raises(InvalidInput, match="filters: expected"):
            TieredRetriever(memory=memory, filters=wrong)

    def test_a_where_that_is_no_function_is_refused(self, memory):
        with pytest.raises(InvalidInput, match="where: expected a function or None, got 'team'"):
            memory.recall("coffee", where="team")

    def test_a_where_that_would_have_to_be_awaited_is_refused_since_its_answer_is_always_true(self, memory):
        async def matches(found):
            return False

        class Matches:
            async def __call__(self, found):
                return False

        for where in (matches, Matches()):
            with pytest.raises(InvalidInput, match="where: expected a plain function"):
                memory.recall("coffee", where=where)

    async def test_where_is_a_filter_of_recall_itself(self, memory):
        memory.remember("Coffee.", metadata={"n": 1})
        memory.remember("More coffee.", metadata={"n": 2})
        (hit,) = await memory.arecall("coffee", where=lambda found: found.metadata["n"] == 2)
        assert hit.memory.text == "More coffee."
