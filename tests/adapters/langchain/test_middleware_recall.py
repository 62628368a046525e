"""What an agent's model sees of the memory: the block at the tail, frozen for the turn, and nothing else changed."""

import asyncio
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tiered_memory import TieredMemoryMiddleware
from shared_core import InvalidInput, ScopeRequired
from tests.adapters.langchain.fakes import GatedEmbedder, ScriptedModel, calling, user

THREAD = {"configurable": {"thread_id": "t1"}}


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def contents(model, request=-1):
    return [m.content for m in model.requests[request][0]]


def block_of(model, request=-1):
    """The recalled block of a request, or None."""
    for message in model.requests[request][0]:
        if isinstance(message.content, list) and "<recalled_memories>" in message.content[-1].get("text", ""):
            return message.content[-1]["text"]
    return None


def test_what_was_remembered_stands_at_the_end_of_the_users_message(memory):
    memory.remember("I take my coffee black.")
    model = ScriptedModel()
    create_agent(model, [], middleware=[TieredMemoryMiddleware(memory)]).invoke(user("How do I take my coffee?"))
    (only,) = contents(model)
    assert only[0] == {"type": "text", "text": "How do I take my coffee?"}
    assert only[1]["text"].startswith("<recalled_memories>")
    assert "I take my coffee black." in only[1]["text"]
    assert len(only) == 2


def test_nothing_recalled_leaves_the_request_and_the_answer_as_they_are_without_us(memory):
    """Same messages, same tools, same settings, same public state keys."""
    plain, ours = ScriptedModel(), ScriptedModel()
    without = create_agent(plain, [weather], system_prompt="Be brief.").invoke(
        {"messages": [HumanMessage("hi", id="1")]}
    )
    with_us = create_agent(
        ours, [weather], system_prompt="Be brief.", middleware=[TieredMemoryMiddleware(memory)]
    ).invoke({"messages": [HumanMessage("hi", id="1")]})
    assert plain.requests == ours.requests
    assert without.keys() == with_us.keys()
    assert [m.content for m in without["messages"]] == [m.content for m in with_us["messages"]]


def test_the_system_message_and_every_earlier_message_reach_the_model_unchanged(memory):
    memory.remember("I take my coffee black.")
    model = ScriptedModel()
    earlier = [HumanMessage("hello", id="1"), AIMessage("hi", id="2")]
    create_agent(model, [], system_prompt="Be brief.", middleware=[TieredMemoryMiddleware(memory)]).invoke(
        {"messages": [*earlier, HumanMessage("How do I take my coffee?", id="3")]}
    )
    sent = model.requests[0][0]
    assert sent[0] == SystemMessage("Be brief.")
    assert sent[1:3] == earlier
    assert [m.type for m in sent] == ["system", "human", "ai", "human"]


def test_the_block_is_the_same_in_every_model_call_of_a_turn_even_if_memories_are_written_meanwhile(memory):
    memory.remember("I take my coffee black.")

    @tool
    def gossip(about: str) -> str:
        """Learn something."""
        memory.remember("Coffee in Rome is good, I take it there too.")
        return "learned"

    model = ScriptedModel(script=[calling("gossip", {"about": "coffee"}), AIMessage("done")])
    create_agent(model, [gossip], middleware=[TieredMemoryMiddleware(memory)]).invoke(user("How do I take coffee?"))
    assert model.calls == 2
    assert block_of(model, 0) is not None
    assert contents(model, 1)[0] == contents(model, 0)[0]


def test_a_block_that_cannot_be_made_again_byte_for_byte_is_left_out(memory):
    kept = memory.remember("I take my coffee black.")

    @tool
    def forget_it() -> str:
        """Forget."""
        memory.forget(kept.id)
        return "forgotten"

    model = ScriptedModel(script=[calling("forget_it", {}), AIMessage("done")])
    ours = TieredMemoryMiddleware(memory)
    create_agent(model, [forget_it], middleware=[ours]).invoke(user("How do I take my coffee?"))
    assert block_of(model, 0) is not None
    assert contents(model, 1)[0] == "How do I take my coffee?"
    assert ours.counts["blocks_dropped"] == 1


def test_the_state_keeps_ids_and_a_hash_and_never_a_memorys_text(memory):
    memory.remember("I take my coffee black.")
    saver = InMemorySaver()
    agent = create_agent(ScriptedModel(), [], middleware=[TieredMemoryMiddleware(memory)], checkpointer=saver)
    result = agent.invoke(user("How do I take it?"), THREAD)
    state = agent.get_state(THREAD).values
    assert "tiered_memory" not in result
    assert set(state["tiered_memory"]) == {"TieredMemoryMiddleware"}
    assert "black" not in json.dumps(state["tiered_memory"])
    assert all("recalled_memories" not in str(m.content) for m in state["messages"])


def test_the_frozen_block_survives_an_interrupt_and_another_process(opened):
    """The turn is resumed by a new agent on a new memory of the same file: same ids, same bytes."""
    saver = InMemorySaver()
    first = opened()
    first.remember("I take my coffee black.")
    model = ScriptedModel(script=[calling("weather", {"city": "Rome"}), AIMessage("done")])

    def agent(memory):
        return create_agent(
            model,
            [weather],
            middleware=[TieredMemoryMiddleware(memory)],
            checkpointer=saver,
            interrupt_before=["tools"],
        )

    agent(first).invoke(user("How do I take my coffee?"), THREAD)
    first.close()
    second = opened()
    second.remember("Coffee is roasted in Rome, take it or leave it.")
    agent(second).invoke(None, THREAD)
    assert model.calls == 2
    assert block_of(model, 1) == block_of(model, 0) != None  # noqa: E711


def test_memories_that_the_conversation_shows_anyway_are_not_recalled_into_it(memory):
    agent = create_agent(
        model := ScriptedModel(), [], middleware=[TieredMemoryMiddleware(memory)], checkpointer=InMemorySaver()
    )
    agent.invoke(user("I take my coffee black."), THREAD)
    agent.invoke(user("How do I take my coffee?"), THREAD)
    assert block_of(model) is None
    agent.invoke(user("How do I take my coffee?"), {"configurable": {"thread_id": "t2"}})
    assert "I take my coffee black." in block_of(model)


def test_the_users_own_cache_markers_stay_where_they_are(memory):
    memory.remember("I take my coffee black.")
    marked = {"type": "text", "text": "How do I take my coffee?", "cache_control": {"type": "ephemeral"}}
    model = ScriptedModel()
    create_agent(model, [], middleware=[TieredMemoryMiddleware(memory)]).invoke({"messages": [HumanMessage([marked])]})
    (only,) = contents(model)
    assert only[0] == marked
    assert "cache_control" not in only[1]


def test_the_callers_messages_are_not_touched(memory):
    memory.remember("I take my coffee black.")
    given = HumanMessage([{"type": "text", "text": "How do I take my coffee?"}], id="1")
    before = given.model_copy(deep=True)
    create_agent(ScriptedModel(), [], middleware=[TieredMemoryMiddleware(memory)]).invoke({"messages": [given]})
    assert given == before


def test_two_users_interleaved_from_threads_share_nothing(opened):
    @dataclass
    class Who:
        user_id: str

    memory = opened(default_scope=None)
    memory.remember("My secret word is apple.", scope="ada")
    memory.remember("My secret word is pear.", scope="bob")
    model = ScriptedModel(script=[lambda messages: AIMessage(str(messages[-1].content))])
    ours = TieredMemoryMiddleware(memory, scope=lambda runtime: runtime.context.user_id)
    agent = create_agent(model, [], middleware=[ours], context_schema=Who, checkpointer=InMemorySaver())

    def ask(turn):
        who = ("ada", "bob")[turn % 2]
        out = agent.invoke(
            user(f"What is my secret word, {turn}?"), {"configurable": {"thread_id": f"{who}-{turn}"}}, context=Who(who)
        )
        return who, out["messages"][-1].content

    first = [ask(0), ask(1)]
    assert ["apple" in answer for _, answer in first] == [True, False]
    assert ["pear" in answer for _, answer in first] == [False, True]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, range(2, 16)))
    for who, answer in answers:
        assert ("pear" if who == "ada" else "apple") not in answer
    assert all("pear" not in m.text for m in memory.long_term.list(scope="ada"))
    assert all("apple" not in m.text for m in memory.long_term.list(scope="bob"))


def test_a_run_without_an_owner_is_refused(opened):
    memory = opened(default_scope=None)
    for ours in (TieredMemoryMiddleware(memory), TieredMemoryMiddleware(memory, scope=lambda runtime: None)):
        with pytest.raises(ScopeRequired):
            create_agent(ScriptedModel(), [], middleware=[ours]).invoke(user("hi"))


def test_a_scope_function_that_finds_nobody_does_not_fall_back_to_the_default_user(memory):
    ours = TieredMemoryMiddleware(memory, scope=lambda runtime: None)
    with pytest.raises(ScopeRequired, match="got None"):
        create_agent(ScriptedModel(), [], middleware=[ours]).invoke(user("hi"))


def test_a_read_that_fails_never_reaches_the_agent(memory, tmp_path):
    memory.remember("I take my coffee black.")
    with closing(sqlite3.connect(tmp_path / "memory.db")) as db, db:
        db.execute("DROP TABLE memories")
    model = ScriptedModel()
    result = create_agent(model, [], middleware=[TieredMemoryMiddleware(memory, remember=False)]).invoke(
        user("coffee?")
    )
    assert result["messages"][-1].content == "ok"
    assert contents(model) == ["coffee?"]
    assert memory.stats()["long_term"]["recall_failures"] == 1


async def test_the_async_hooks_do_the_same(memory):
    memory.remember("I take my coffee black.")
    model = ScriptedModel(script=[calling("weather", {"city": "Rome"}), AIMessage("black")])
    agent = create_agent(model, [weather], middleware=[TieredMemoryMiddleware(memory)], checkpointer=InMemorySaver())
    await agent.ainvoke(user("How do I take my coffee?"), THREAD)
    assert "I take my coffee black." in block_of(model, 0)
    assert contents(model, 1)[0] == contents(model, 0)[0]
    assert [m["role"] for m in memory.context("t1").history()] == ["user", "assistant", "tool", "assistant"]


async def test_the_loop_turns_while_a_recall_is_under_way(opened):
    embedder = GatedEmbedder()
    memory = opened(embedder=embedder)
    agent = create_agent(ScriptedModel(), [], middleware=[TieredMemoryMiddleware(memory)])
    turn = asyncio.ensure_future(agent.ainvoke(user("hi")))
    assert await asyncio.to_thread(embedder.entered.wait, 5)
    embedder.gate.set()
    await turn
    assert embedder.let_go
    assert all(embedder.let_go)


def test_streaming_an_agent_shows_the_model_the_same_block(memory):
    memory.remember("I take my coffee black.")
    model = ScriptedModel()
    agent = create_agent(model, [], middleware=[TieredMemoryMiddleware(memory)])
    parts = list(agent.stream(user("How do I take my coffee?"), stream_mode="messages"))
    assert "I take my coffee black." in block_of(model)
    assert "".join(chunk.content for chunk, _ in parts) == "ok"


def test_two_of_them_in_one_agent_need_names_and_then_keep_apart(opened):
    mine, teams = opened("mine.db"), opened("team.db")
    mine.remember("Coffee: I take it black.")
    teams.remember("Coffee: the team takes it white.")
    with pytest.raises(AssertionError, match="duplicate"):
        create_agent(ScriptedModel(), [], middleware=[TieredMemoryMiddleware(mine), TieredMemoryMiddleware(teams)])
    model = ScriptedModel()
    both = [TieredMemoryMiddleware(mine, name="mine"), TieredMemoryMiddleware(teams, name="team")]
    create_agent(model, [], middleware=both).invoke(user("How is coffee taken?"))
    (only,) = contents(model)
    assert "black" in only[1]["text"]
    assert "white" in only[2]["text"]


def test_a_message_that_another_middleware_adds_within_the_turn_does_not_move_the_block(memory):
    memory.remember("I take my coffee black.")

    class Nudge(AgentMiddleware):
        def before_model(self, state, runtime):
            return {"messages": [HumanMessage("Remember to be polite.")]} if len(state["messages"]) == 1 else None

    model = ScriptedModel()
    create_agent(model, [], middleware=[Nudge(), TieredMemoryMiddleware(memory)]).invoke(user("How do I take coffee?"))
    first, second = contents(model)
    assert "I take my coffee black." in first[1]["text"]
    assert second == "Remember to be polite."


def test_arguments_that_mean_nothing_are_refused(memory):
    with pytest.raises(InvalidInput, match="'warn' or 'raise'"):
        TieredMemoryMiddleware(memory, on_write_error="ignore")
    with pytest.raises(InvalidInput, match="write \\['weather'\\]"):
        TieredMemoryMiddleware(memory, tools="weather")


def test_a_message_that_the_user_sends_again_with_other_words_is_recalled_for_anew(memory):
    memory.remember("Tea: green.")
    agent = create_agent(
        ScriptedModel(), [], middleware=[TieredMemoryMiddleware(memory, remember=False)], checkpointer=InMemorySaver()
    )
    agent.invoke({"messages": [HumanMessage("Tea: green.", id="h1")]}, THREAD)  # shown: nothing to recall
    model = ScriptedModel()
    again = create_agent(
        model, [], middleware=[TieredMemoryMiddleware(memory, remember=False)], checkpointer=agent.checkpointer
    )
    again.invoke({"messages": [HumanMessage("How do I take my tea?", id="h1")]}, THREAD)
    assert "Tea: green." in str(model.requests[0][0][0].content)
