"""Faults that are open: each test fails today and says what should hold."""

import datetime

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tiered_memory import TieredMemoryMiddleware, TieredStore
from shared_core import TieredMemory

THREAD = {"configurable": {"thread_id": "t"}}


def opened(**given):
    return TieredMemory.open(":memory:", embedder="none", **given)


def agent(memory, *answers):
    model = FakeMessagesListChatModel(responses=[AIMessage(answer) for answer in answers])
    return create_agent(model, [], middleware=[TieredMemoryMiddleware(memory)], checkpointer=InMemorySaver())


def test_two_agents_of_one_thread_id_do_not_abandon_each_others_turns():
    memory = opened(default_scope="ada")
    one, two = agent(memory, "a", "b", "c"), agent(memory, "d", "e")
    for which, text in [(one, "cat Felix"), (two, "dog Rex"), (one, "bird Tweety"), (two, "fish Nemo"), (one, "cow Bella")]:
        which.invoke({"messages": [HumanMessage(f"My {text}.")]}, THREAD)
    said = {message["content"] for message in memory.context("t").history()}
    assert {"My dog Rex.", "My fish Nemo."} <= said
    assert "My dog Rex." in {hit.memory.text for hit in memory.recall("dog Rex", k=20)}


def test_a_client_that_numbers_its_messages_from_one_each_time_loses_none():
    memory = opened(default_scope="ada")
    model = FakeMessagesListChatModel(responses=[AIMessage("r1"), AIMessage("r2")])
    run = create_agent(model, [], middleware=[TieredMemoryMiddleware(memory)])
    for text in ("first", "second"):
        run.invoke({"messages": [HumanMessage(text, id="1")]}, THREAD)
    assert [m["content"] for m in memory.context("t").history()] == ["first", "r1", "second", "r2"]


def test_no_scope_name_reaches_the_texts_of_another_scopes_store():
    memory = opened()
    TieredStore(memory, scope="ada").put(("p",), "k", {"text": "secret pin 1234"})
    assert memory.recall("secret pin", scope="ada\x1flanggraph.store") == []


@pytest.mark.parametrize("now", [1e308, -1e308, float("inf"), datetime.datetime.max.timestamp() + 86_400])
def test_a_clock_beyond_the_calendar_fails_no_turn(now):
    memory = opened(default_scope="ada", clock=lambda: now)
    memory.remember("I had pizza.", at=0.0)
    memory.turns.begin("What did I eat last month?")
