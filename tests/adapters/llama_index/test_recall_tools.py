"""``TieredRetriever`` and ``memory_tools``: recall as LlamaIndex's retrievers and tools."""

import copy
import pickle

import pytest
from llama_index.core import get_response_synthesizer
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.tools import RetrieverTool

from llama_index_tiered_memory import TieredRetriever, memory_tools
from shared_core import InvalidInput, ScopeRequired


def pickled(retriever):
    return pickle.loads(pickle.dumps(retriever))  # noqa: S301


class TestRetriever:
    def test_memories_come_as_nodes_best_first_with_the_scores_of_the_recall(self, memory):
        memory.remember("I take my coffee black.", tags=["taste"], metadata={"source": "chat"})
        memory.remember("The train leaves at nine.")
        hits = memory.recall("coffee")
        nodes = TieredRetriever(memory=memory).retrieve("coffee")
        assert [(node.node.node_id, node.text) for node in nodes] == [(hit.memory.id, hit.memory.text) for hit in hits]
        assert nodes[0].score == pytest.approx(hits[0].score, rel=0.2)
        assert nodes[0].metadata["tags"] == ["taste"]
        assert nodes[0].metadata["source"] == "chat"

    def test_what_a_node_shows_the_model_is_the_memory_alone(self, memory):
        from llama_index.core.schema import MetadataMode

        memory.remember("I take my coffee black.", tags=["taste"])
        (node,) = TieredRetriever(memory=memory).retrieve("coffee")
        assert (
            node.node.get_content(MetadataMode.LLM)
            == node.node.get_content(MetadataMode.EMBED)
            == "I take my coffee black."
        )

    def test_filters_are_applied_in_the_search_so_k_matches_come_back(self, memory):
        for i in range(10):
            memory.remember(f"Coffee fact {i}.", tags=["work" if i % 5 == 0 else "home"])
        nodes = TieredRetriever(memory=memory, k=2, filters={"tags": ["work"]}).retrieve("coffee")
        assert sorted(node.text for node in nodes) == ["Coffee fact 0.", "Coffee fact 5."]

    def test_k_bounds_the_nodes_and_zero_gives_none(self, memory):
        memory.remember_many([{"text": f"Coffee fact {i}."} for i in range(5)])
        assert len(TieredRetriever(memory=memory, k=3).retrieve("coffee")) == 3
        assert TieredRetriever(memory=memory, k=0).retrieve("coffee") == []

    async def test_the_async_retrieval_gives_the_same(self, memory):
        memory.remember("I take my coffee black.")
        retriever = TieredRetriever(memory=memory)
        assert [node.text for node in await retriever.aretrieve("coffee")] == ["I take my coffee black."]

    def test_two_scopes_never_see_each_other(self, memory):
        memory.remember("ada's coffee", scope="ada")
        assert TieredRetriever(memory=memory, scope="bob").retrieve("coffee") == []

    def test_it_stands_in_a_query_engine(self, memory):
        memory.remember("I take my coffee black.")
        engine = RetrieverQueryEngine(TieredRetriever(memory=memory), get_response_synthesizer(llm=MockLLM()))
        assert "I take my coffee black." in str(engine.query("coffee?")), "this model repeats its prompt"

    def test_without_a_scope_and_a_default_it_refuses(self, open_memory):
        with pytest.raises(ScopeRequired):
            TieredRetriever(memory=open_memory(default_scope=None))

    def test_a_negative_k_is_refused(self, memory):
        with pytest.raises(InvalidInput, match="k: expected 0 or more"):
            TieredRetriever(memory=memory, k=-1).retrieve("x")

    @pytest.mark.parametrize("k", ["2", True, 2.0, None])
    def test_a_k_that_is_no_count_is_refused_when_the_retriever_is_made(self, memory, k):
        with pytest.raises(InvalidInput, match="k: expected a whole number"):
            TieredRetriever(memory=memory, k=k)

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
    def test_a_copy_reads_the_same_memories_with_the_same_filters(self, memory, copied):
        memory.remember("The cello is red.", tags=["a"])
        memory.remember("The cello is blue.", tags=["b"])
        retriever = TieredRetriever(memory=memory, k=1, filters={"tags": ["a"]})
        assert [node.text for node in copied(retriever).retrieve("cello")] == ["The cello is red."]
        tool = RetrieverTool.from_defaults(retriever, name="memories", description="d")
        assert "red" in copy.deepcopy(tool).call("cello").content


class TestMemoryTools:
    def test_there_are_three_with_a_description_for_the_model(self, memory):
        tools = memory_tools(memory)
        assert [tool.metadata.name for tool in tools] == ["search_memory", "save_memory", "forget_memory"]
        assert all(tool.metadata.description for tool in tools)

    def test_what_is_saved_is_found_with_its_id_and_forgotten_by_it(self, memory):
        search, save, forget = memory_tools(memory)
        assert search(query="coffee").content == "Nothing is remembered about that."
        save(text="Ada takes her coffee black.")
        (found,) = memory.long_term.list()
        assert search(query="coffee").content == f"[{found.id}] Ada takes her coffee black."
        assert forget(id=found.id).content == "Forgotten."
        assert forget(id=found.id).content == f"No memory has the id {found.id}."
        assert memory.long_term.list() == []

    async def test_the_async_calls_do_the_same(self, memory):
        search, save, forget = memory_tools(memory)
        await save.acall(text="Ada takes her coffee black.")
        (found,) = memory.long_term.list()
        assert (await search.acall(query="coffee")).content == f"[{found.id}] Ada takes her coffee black."
        assert (await forget.acall(id=found.id)).content == "Forgotten."

    async def test_an_agent_saves_in_one_run_and_finds_it_in_the_next(self, memory, script):
        saving = script(
            lambda m: "Saved." if m[-1].role == "tool" else [("save_memory", {"text": "Ada takes her coffee black."})]
        )
        await FunctionAgent(llm=saving.llm, tools=memory_tools(memory)).run("Remember that.")
        asking = script(lambda m: m[-1].content if m[-1].role == "tool" else [("search_memory", {"query": "coffee"})])
        answer = await FunctionAgent(llm=asking.llm, tools=memory_tools(memory)).run("My coffee?")
        assert "Ada takes her coffee black." in str(answer)

    def test_an_id_is_understood_with_the_brackets_that_search_shows(self, memory):
        search, save, forget = memory_tools(memory)
        id = save.call(text="The key is under the mat.").content.removeprefix("Remembered as ").removesuffix(".")
        assert id.startswith("[")
        assert id in search.call(query="key").content
        assert forget.call(id=id).content == "Forgotten."
        assert forget.call(id="[]").content == "No memory has the id []."
        memory.remember("Ada's own.", id="[x]")
        assert forget.call(id="[x]").content == "Forgotten."

    def test_one_users_tools_reach_no_other_user(self, memory):
        search, _, forget = memory_tools(memory, scope="bob")
        kept = memory.remember("ada's coffee", scope="ada")
        assert search(query="coffee").content == "Nothing is remembered about that."
        assert forget(id=kept.id).content == f"No memory has the id {kept.id}."
        assert memory.get(kept.id, scope="ada") is not None
