"""An agent that goes back to a checkpoint: the log goes with it, the abandoned branch is neither lost nor recalled."""

import asyncio

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tiered_memory import TieredMemoryMiddleware
from tests.adapters.langchain.fakes import ScriptedModel, calling, user

THREAD = {"configurable": {"thread_id": "t1"}}


def said(memory, session="t1"):
    return [m["content"] for m in memory.context(session).history()]


def recalled(memory, query, session="t1"):
    return [hit.memory.text for hit in memory.recall(query, session=session)]


class Thread:
    """An agent with a checkpointer, and the checkpoint after each turn."""

    def __init__(self, memory, **given):
        self.model = ScriptedModel(script=[lambda messages: AIMessage(f"re: {messages[-1].text.partition('<')[0]}")])
        ours = TieredMemoryMiddleware(memory, **given)
        self.agent = create_agent(self.model, [], middleware=[ours], checkpointer=InMemorySaver())

    def say(self, text, since=THREAD):
        """One turn; return the checkpoint at its end."""
        self.agent.invoke(user(text), since)
        return self.agent.get_state(THREAD).config


@pytest.fixture
def thread(memory):
    return Thread(memory)


def test_after_a_fork_the_log_holds_the_new_branch_and_the_old_ones_memories_are_not_recalled(memory, thread):
    first = thread.say("My dog is called Rex.")
    thread.say("I live in Rome.")
    thread.say("Where do I live?", since=first)
    assert said(memory) == [
        "My dog is called Rex.",
        "re: My dog is called Rex.",
        "Where do I live?",
        "re: Where do I live?",
    ]
    assert "Rome" not in str(thread.model.requests[-1][0])
    assert not any("Rome" in text for text in recalled(memory, "I live in Rome."))
    assert any("Rex" in text for text in recalled(memory, "dog"))


def test_the_abandoned_branch_comes_back_when_it_is_taken_up_again(memory, thread):
    first = thread.say("My dog is called Rex.")
    second = thread.say("I live in Rome.")
    thread.say("I live in Oslo.", since=first)
    thread.say("Where?", since=second)
    assert said(memory) == [
        "My dog is called Rex.", "re: My dog is called Rex.", "I live in Rome.", "re: I live in Rome.", "Where?", "re: Where?",
    ]  # fmt: skip
    assert any("Rome" in text for text in recalled(memory, "I live in Rome."))
    assert not any("Oslo" in text for text in recalled(memory, "I live in Oslo."))


def test_a_replay_from_within_a_turn_replaces_its_end(memory, thread):
    thread.say("My dog is called Rex.")
    thread.say("I live in Rome.")
    at_the_model = next(s for s in thread.agent.get_state_history(THREAD) if s.next == ("model",))
    thread.model.script = [AIMessage("another answer")]
    thread.agent.invoke(None, at_the_model.config)
    assert said(memory) == ["My dog is called Rex.", "re: My dog is called Rex.", "I live in Rome.", "another answer"]


def test_going_back_before_the_first_turn_ends_follows_by_the_messages_alone(memory, thread):
    thread.say("My dog is called Rex.")
    thread.say("I live in Rome.")
    at_the_start = [s for s in thread.agent.get_state_history(THREAD) if s.next and "before_agent" in s.next[0]][-1]
    thread.model.script = [AIMessage("woof")]
    thread.agent.invoke(None, at_the_start.config)
    assert said(memory) == ["My dog is called Rex.", "woof"]


def before_anything(states):
    """The checkpoint of a thread before its first message."""
    return [state for state in states if not state.values.get("messages")][-1].config


def test_going_back_to_before_the_first_message_begins_the_log_anew(memory, thread):
    thread.say("My dog is called Rex.")
    end = thread.say("I live in Rome.")
    thread.say("My cat is called Tom.", since=before_anything(thread.agent.get_state_history(THREAD)))
    assert said(memory) == ["My cat is called Tom.", "re: My cat is called Tom."]
    assert not any("dog" in text for text in recalled(memory, "My dog is called Rex."))
    thread.say("And mine?", since=end)
    assert said(memory)[:2] == ["My dog is called Rex.", "re: My dog is called Rex."]
    assert said(memory)[-2:] == ["And mine?", "re: And mine?"]


def test_a_first_turn_that_is_run_again_from_its_input_replaces_itself(memory, thread):
    thread.say("My dog is called Rex.")
    thread.model.script = [AIMessage("woof")]
    thread.agent.invoke(None, before_anything(thread.agent.get_state_history(THREAD)))
    assert said(memory) == ["My dog is called Rex.", "woof"]


def test_a_step_of_the_first_turn_may_be_taken_up_after_the_thread_began_anew(memory, thread):
    thread.say("My dog is called Rex.")
    states = list(thread.agent.get_state_history(THREAD))
    at_the_model = next(state for state in states if state.next == ("model",))
    thread.say("My cat is called Tom.", since=before_anything(states))
    thread.model.script = [AIMessage("woof")]
    thread.agent.invoke(None, at_the_model.config)
    assert said(memory) == ["My dog is called Rex.", "woof"]


async def test_the_async_hooks_begin_anew_too(memory, thread):
    await thread.agent.ainvoke(user("My dog is called Rex."), THREAD)
    start = before_anything([state async for state in thread.agent.aget_state_history(THREAD)])
    await thread.agent.ainvoke(user("My cat is called Tom."), start)
    assert said(memory) == ["My cat is called Tom.", "re: My cat is called Tom."]


def test_checkpoints_that_cannot_be_read_leave_the_log_where_it_is(memory, thread, monkeypatch, caplog):
    thread.say("My dog is called Rex.")
    start = before_anything(thread.agent.get_state_history(THREAD))

    def fails(*args, **kwargs):
        raise OSError("gone")

    monkeypatch.setattr(InMemorySaver, "list", fails)
    thread.say("My cat is called Tom.", since=start)
    assert said(memory)[::2] == ["My dog is called Rex.", "My cat is called Tom."]
    assert "gone" in caplog.text


async def test_the_async_hooks_follow_too(memory, thread):
    await thread.agent.ainvoke(user("My dog is called Rex."), THREAD)
    first = (await thread.agent.aget_state(THREAD)).config
    await thread.agent.ainvoke(user("I live in Rome."), THREAD)
    await thread.agent.ainvoke(user("Where?"), first)
    assert said(memory) == ["My dog is called Rex.", "re: My dog is called Rex.", "Where?", "re: Where?"]


def test_what_another_writer_added_to_the_session_is_never_left_behind(memory, thread):
    thread.say("My dog is called Rex.")
    memory.turns.end([{"role": "user", "content": "I live in Rome."}], session="t1")
    thread.say("Hello.")
    assert said(memory) == [
        "My dog is called Rex.",
        "re: My dog is called Rex.",
        "I live in Rome.",
        "Hello.",
        "re: Hello.",
    ]


def test_threads_that_share_a_named_session_do_not_rewind_each_other(memory):
    thread = Thread(memory, session="both")
    thread.say("one")
    thread.agent.invoke(user("two"), {"configurable": {"thread_id": "t2"}})
    thread.say("three")
    assert said(memory, "both") == ["one", "re: one", "two", "re: two", "three", "re: three"]


def test_a_client_that_sends_the_conversation_itself_rewinds_nothing(memory):
    """No checkpointer, the thread id alone: messages of its own ids each time are no sign of going back."""
    agent = create_agent(ScriptedModel(), [], middleware=[TieredMemoryMiddleware(memory)])
    agent.invoke(user("one"), THREAD)
    agent.invoke({"messages": [HumanMessage("one"), AIMessage("ok"), HumanMessage("two")]}, THREAD)
    assert said(memory) == ["one", "ok", "two", "ok"]


def test_results_of_tools_that_go_back_with_the_application_are_dropped_and_others_stay(memory):
    ran = []

    @tool
    def board(city: str) -> str:
        """State that the application restores."""
        return ran.append("board") or "x"

    @tool
    def weather(city: str) -> str:
        """The outside world."""
        return ran.append("weather") or "y"

    memory.tools.register("board", rewinds=True)
    memory.tools.register("weather")
    model = ScriptedModel(script=[AIMessage("hello")])
    agent = create_agent(
        model, [board, weather], middleware=[TieredMemoryMiddleware(memory)], checkpointer=InMemorySaver()
    )
    agent.invoke(user("hello"), THREAD)
    first = agent.get_state(THREAD).config
    both = [calling("board", {"city": "x"}), calling("weather", {"city": "x"}, id="c2"), AIMessage("done")]
    for since in (THREAD, first):
        model.script = [AIMessage("hello")] * model.calls + both
        agent.invoke(user("look"), since)
    assert ran == ["board", "weather", "board"]


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_run_that_goes_back_into_the_midst_of_its_turn_reads_what_went_back_with_it(memory, asynchronous):
    """The board is read, bumped and read again; then the application restores it and replays from before the first read."""
    board = {"bumps": 0}

    @tool
    def read() -> str:
        """State that the application restores."""
        return str(board["bumps"])

    @tool
    def bump() -> str:
        """Write."""
        board["bumps"] += 1
        return "bumped"

    memory.tools.register("read", rewinds=True)
    script = [*(calling(name, {}, id=f"c{i}") for i, name in enumerate(["read", "bump", "read"])), AIMessage("done")]
    agent = create_agent(
        ScriptedModel(script=script),
        [read, bump],
        middleware=[TieredMemoryMiddleware(memory)],
        checkpointer=InMemorySaver(),
    )
    invoke = (lambda *given: asyncio.run(agent.ainvoke(*given))) if asynchronous else agent.invoke
    found = invoke(user("?"), THREAD)
    assert [m.content for m in found["messages"] if m.type == "tool"] == ["0", "bumped", "1"]
    before = [state for state in agent.get_state_history(THREAD) if state.next == ("tools",)][-1]
    board["bumps"] = 0
    found = invoke(None, before.config)
    assert [m.content for m in found["messages"] if m.type == "tool"] == ["0"]
