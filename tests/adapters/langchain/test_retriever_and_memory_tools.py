"""Memories for a retrieval chain, and memory in an agent's own hands."""

import re
from dataclasses import dataclass

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.runtime import get_runtime

from langchain_tiered_memory import TieredMemoryMiddleware, TieredRetriever, memory_tools
from shared_core import ScopeRequired, StorageError
from tests.adapters.langchain.fakes import ScriptedModel, calling, user


def test_a_document_says_why_it_came(memory):
    memory.remember("I take my coffee black.", tags=["drinks"], metadata={"source": "chat"}, at=5.0, session="s")
    (found,) = TieredRetriever(memory=memory).invoke("coffee")
    (hit,) = memory.recall("coffee")
    assert (found.page_content, found.id) == (hit.memory.text, hit.memory.id)
    facts = found.metadata
    assert facts["score"] == pytest.approx(sum(facts["parts"].values()))
    assert (facts["source"], facts["tags"], facts["at"], facts["session"], facts["role"]) == (
        "chat",
        ["drinks"],
        5.0,
        "s",
        "user",
    )


async def test_k_is_taken_at_construction_and_at_the_call_and_sync_and_async_agree(memory):
    memory.remember_many([{"text": f"coffee number {n}"} for n in range(9)])
    retriever = TieredRetriever(memory=memory, k=3)
    assert [len(retriever.invoke("coffee", **given)) for given in ({}, {"k": 5}, {"k": 0})] == [3, 5, 0]
    assert await retriever.ainvoke("coffee", k=5) == retriever.invoke("coffee", k=5)


def test_documents_are_the_receivers_own(memory):
    memory.remember("coffee", metadata={"nested": {"n": [1]}})
    (found,) = TieredRetriever(memory=memory).invoke("coffee")
    found.metadata["nested"]["n"].append(2)
    assert TieredRetriever(memory=memory).invoke("coffee")[0].metadata["nested"] == {"n": [1]}


def test_scopes_keep_apart(memory):
    memory.remember("coffee", scope="ada")
    assert TieredRetriever(memory=memory, scope=lambda: "bob").invoke("coffee") == []


def test_the_ranking_survives_a_reopening(opened):
    first = opened()
    first.remember_many([{"text": f"coffee number {n}", "importance": n / 10} for n in range(9)])
    before = [d.page_content for d in TieredRetriever(memory=first).invoke("coffee")]
    first.close()
    assert [d.page_content for d in TieredRetriever(memory=opened()).invoke("coffee")] == before


def test_a_retriever_that_cannot_read_raises_as_upstream_wants(opened):
    memory = opened()
    memory.close()
    with pytest.raises(StorageError):
        TieredRetriever(memory=memory).invoke("coffee")


def test_an_agent_saves_finds_and_forgets(memory):
    save, search = calling("save_memory", {"text": "I like tea."}), calling("search_memory", {"query": "tea"}, id="c2")

    def forget(messages):
        (id,) = re.findall(r"\[(\w+)\]", messages[-1].content)
        return calling("forget_memory", {"ids": [id]}, id="c3")

    model = ScriptedModel(script=[save, search, forget, AIMessage("done")])
    result = create_agent(model, memory_tools(memory)).invoke(user("?"))
    saved, found, forgotten = (m.content for m in result["messages"] if isinstance(m, ToolMessage))
    assert saved.startswith("Remembered as ")
    assert found.endswith("assistant: I like tea.")
    assert forgotten == "Forgot 1 of 1."
    assert memory.long_term.list() == []


def test_what_belongs_to_another_user_is_neither_found_nor_forgotten(memory):
    theirs = memory.remember("My secret is tea.", scope="bob")
    search, _, forget = memory_tools(memory, scope=lambda config: config["configurable"]["user"])
    config = {"configurable": {"user": "ada"}}
    assert search.invoke({"query": "secret tea"}, config) == "Nothing is remembered about that."
    assert forget.invoke({"ids": [theirs.id]}, config) == "Forgot 0 of 1."
    assert memory.get(theirs.id, scope="bob") is not None


def test_the_model_sees_no_argument_that_is_injected(memory):
    assert [sorted(tool.args) for tool in memory_tools(memory)] == [["limit", "query"], ["text"], ["ids"]]


def test_memory_tools_make_no_cached_result_stale(memory):
    ran = []

    def weather(city):
        ran.append(city)

    memory.tools.register("weather")
    memory.tools.call("weather", {"city": "Rome"}, weather)
    model = ScriptedModel(script=[calling("save_memory", {"text": "I like tea."}), AIMessage("done")])
    create_agent(model, memory_tools(memory), middleware=[TieredMemoryMiddleware(memory)]).invoke(user("?"))
    memory.tools.call("weather", {"city": "Rome"}, weather)
    assert ran == ["Rome"]


@pytest.mark.parametrize(
    ("name", "args"),
    [("save_memory", {"text": ""}), ("save_memory", {"text": "\ud800"}), ("forget_memory", {"ids": [""]})],
)
async def test_what_the_memory_does_not_take_is_told_to_the_model_and_ends_no_run(memory, name, args):
    model = ScriptedModel(script=[calling(name, args), AIMessage("done")])
    for result in (
        create_agent(model, memory_tools(memory)).invoke(user("?")),
        await create_agent(ScriptedModel(script=model.script), memory_tools(memory)).ainvoke(user("?")),
    ):
        (told,) = (m for m in result["messages"] if isinstance(m, ToolMessage))
        assert told.status == "error"
        assert "expected" in told.content
        assert result["messages"][-1].content == "done"


def test_a_memory_that_cannot_be_read_is_told_to_the_model(opened):
    memory = opened()
    tools = memory_tools(memory)
    memory.close()
    model = ScriptedModel(script=[calling("search_memory", {"query": "tea"}), AIMessage("done")])
    assert create_agent(model, tools).invoke(user("?"))["messages"][2].status == "error"


def test_a_missing_scope_is_a_fault_of_the_program_and_is_raised(opened):
    model = ScriptedModel(script=[calling("search_memory", {"query": "tea"})])
    with pytest.raises(ScopeRequired):
        create_agent(model, memory_tools(opened(default_scope=None))).invoke(user("?"))


@dataclass
class User:
    user_id: str


def saving():
    return ScriptedModel(script=[calling("save_memory", {"text": "Owns a boat."}), AIMessage("Saved.")])


async def test_one_function_of_the_runtime_serves_the_middleware_and_the_tools_of_an_agent(memory):
    def whose(_):
        return get_runtime(User).context.user_id

    parts = {"middleware": [TieredMemoryMiddleware(memory, scope=whose)], "context_schema": User}
    create_agent(saving(), memory_tools(memory, scope=whose), **parts).invoke(user("Save it."), context=User("bob"))
    await create_agent(saving(), memory_tools(memory, scope=whose), **parts).ainvoke(
        user("Keep it."), context=User("eve")
    )
    for name, asked in (("bob", "Save it."), ("eve", "Keep it.")):
        assert {one.text for one in memory.long_term.list(scope=name)} == {"Owns a boat.", asked, "Saved."}
    assert memory.long_term.list() == []


@pytest.mark.parametrize(
    ("tools", "given"),
    [(True, "dict"), (False, "Runtime")],
    ids=["of the runtime, in a tool", "of the config, in middleware"],
)
def test_a_scope_function_that_raises_comes_with_what_it_was_given(memory, tools, given):
    """``lambda runtime: runtime.context.user_id`` is right in one place and an AttributeError in the other."""
    wrong = (lambda runtime: runtime.context.user_id) if tools else (lambda config: config["configurable"]["user_id"])
    kit = memory_tools(memory, scope=wrong) if tools else []
    middleware = [] if tools else [TieredMemoryMiddleware(memory, scope=wrong)]
    agent = create_agent(saving(), kit, middleware=middleware, context_schema=User)
    with pytest.raises((AttributeError, TypeError)) as raised:
        agent.invoke(user("Save it."), context=User("bob"))
    assert f"the scope= function was called with {given}: middleware gives it the runtime" in "".join(
        raised.value.__notes__
    )
