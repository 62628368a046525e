"""The end of an agent's turn: logged with its tool calls, remembered without them, once, whatever happens."""

import sqlite3
from contextlib import closing

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, SummarizationMiddleware
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tiered_memory import TieredMemoryMiddleware
from shared_core import InvalidInput, StorageError
from tests.adapters.langchain.fakes import ScriptedModel, calling, user

THREAD = {"configurable": {"thread_id": "t1"}}


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


class Between(AgentMiddleware):
    """An assistant's word between two messages of the user's, so that they do not stand together."""

    def before_agent(self, state, runtime):
        return {"messages": [AIMessage("One moment.")]}


def texts(memory, **scope):
    return sorted(m.text for m in memory.long_term.list(**scope))


def test_what_the_user_and_the_model_said_is_remembered_and_what_a_tool_returned_is_not(memory):
    model = ScriptedModel(script=[calling("weather", {"city": "Rome"}), AIMessage("It is sunny.")])
    create_agent(model, [weather], middleware=[TieredMemoryMiddleware(memory)]).invoke(user("How is Rome?"))
    assert texts(memory) == ["How is Rome?", "It is sunny."]
    assert {(m.role, m.text) for m in memory.long_term.list()} == {
        ("user", "How is Rome?"),
        ("assistant", "It is sunny."),
    }


def test_the_logged_turn_holds_the_tool_call_and_its_result_as_a_pair(memory):
    model = ScriptedModel(script=[calling("weather", {"city": "Rome"}), AIMessage("It is sunny.")])
    agent = create_agent(model, [weather], middleware=[TieredMemoryMiddleware(memory)], checkpointer=InMemorySaver())
    agent.invoke(user("How is Rome?"), THREAD)
    said, called, result, answered = memory.context("t1").history()
    assert (said["role"], said["content"]) == ("user", "How is Rome?")
    assert called["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Rome"}'}
    assert result["role"] == "tool"
    assert result["tool_call_id"] == called["tool_calls"][0]["id"] == "c1"
    assert answered["content"] == "It is sunny."


def test_the_next_session_of_another_process_recalls_it(opened):
    first = opened()
    create_agent(ScriptedModel(), [], middleware=[TieredMemoryMiddleware(first)]).invoke(
        user("I take my coffee black.")
    )
    first.close()
    model = ScriptedModel()
    create_agent(model, [], middleware=[TieredMemoryMiddleware(opened())]).invoke(user("How do I take my coffee?"))
    assert "I take my coffee black." in str(model.requests[0][0][0].content)


def test_only_the_new_messages_of_each_turn_are_logged(memory):
    """With a checkpointer, and without one when the client sends the whole conversation each time."""
    agent = create_agent(ScriptedModel(), [], middleware=[TieredMemoryMiddleware(memory)], checkpointer=InMemorySaver())
    for n in range(3):
        agent.invoke(user(f"question {n}"), THREAD)
    assert [m["content"] for m in memory.context("t1").history()] == [
        "question 0",
        "ok",
        "question 1",
        "ok",
        "question 2",
        "ok",
    ]

    stateless = create_agent(ScriptedModel(), [], middleware=[TieredMemoryMiddleware(memory, session="s")])
    messages = []
    for n in range(3):
        messages = stateless.invoke({"messages": [*messages, HumanMessage(f"question {n}")]})["messages"]
    assert [m["content"] for m in memory.context("s").history()] == [
        "question 0",
        "ok",
        "question 1",
        "ok",
        "question 2",
        "ok",
    ]


def test_several_messages_of_the_user_in_one_turn_are_all_logged(memory):
    agent = create_agent(ScriptedModel(), [], middleware=[TieredMemoryMiddleware(memory, session="s")])
    agent.invoke({"messages": [HumanMessage("My dog is called Rex."), HumanMessage("Say hello.")]})
    assert [m["content"] for m in memory.context("s").history()] == ["My dog is called Rex.", "Say hello.", "ok"]


def test_a_replayed_end_of_a_turn_adds_nothing(memory):
    saver = InMemorySaver()
    ours = TieredMemoryMiddleware(memory)
    agent = create_agent(ScriptedModel(), [], middleware=[ours], checkpointer=saver)
    agent.invoke(user("I take my coffee black."), THREAD)
    before_the_end = next(s for s in agent.get_state_history(THREAD) if any("after_agent" in n for n in s.next))
    agent.invoke(None, before_the_end.config)
    assert [m["content"] for m in memory.context("t1").history()] == ["I take my coffee black.", "ok"]
    assert [m.access_count for m in memory.long_term.list()] == [0, 0]


def test_with_remember_off_nothing_is_written(memory):
    agent = create_agent(ScriptedModel(), [], middleware=[TieredMemoryMiddleware(memory, remember=False, session="s")])
    agent.invoke(user("I take my coffee black."))
    assert texts(memory) == []
    assert memory.context("s").history() == []


def test_a_session_can_be_named_or_found_from_the_runtime(memory):
    for session in ("mine", lambda runtime: "found"):
        create_agent(ScriptedModel(), [], middleware=[TieredMemoryMiddleware(memory, session=session)]).invoke(
            user("hi")
        )
    assert memory.storage.logs.sessions("ada") == ["mine", "found"]


def test_runs_without_a_thread_are_conversations_of_their_own(memory):
    agent = create_agent(ScriptedModel(), [], middleware=[TieredMemoryMiddleware(memory)])
    agent.invoke(user("one"))
    agent.invoke(user("two"))
    sessions = memory.storage.logs.sessions("ada")
    assert [[m["content"] for m in memory.context(s).history()] for s in sessions] == [["one", "ok"], ["two", "ok"]]


def test_a_turn_that_cannot_be_remembered_warns_and_is_counted(memory, tmp_path, caplog):
    with closing(sqlite3.connect(tmp_path / "memory.db")) as db, db:
        db.execute("DROP TABLE nodes")
    ours = TieredMemoryMiddleware(memory)
    result = create_agent(ScriptedModel(), [], middleware=[ours]).invoke(user("hi"))
    assert result["messages"][-1].content == "ok"
    assert ours.counts["write_failures"] == 1
    assert "could not be remembered" in caplog.text


async def test_a_turn_that_cannot_be_remembered_raises_when_asked_to(memory, tmp_path):
    with closing(sqlite3.connect(tmp_path / "memory.db")) as db, db:
        db.execute("DROP TABLE nodes")
    agent = create_agent(ScriptedModel(), [], middleware=[TieredMemoryMiddleware(memory, on_write_error="raise")])
    with pytest.raises(StorageError):
        agent.invoke(user("hi"))
    with pytest.raises(StorageError):
        await agent.ainvoke(user("hi"))


def test_content_blocks_thinking_and_lone_surrogates_are_logged_without_harm(memory):
    answer = AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Rome"}},
        ],
        tool_calls=[{"name": "weather", "args": {"city": "Rome"}, "id": "c1"}],
    )
    model = ScriptedModel(script=[answer, AIMessage("It is sunny \ud83d.")])
    ours = TieredMemoryMiddleware(memory, session="s", on_write_error="raise")
    create_agent(model, [weather], middleware=[ours]).invoke(
        {
            "messages": [
                HumanMessage(
                    [{"type": "text", "text": "Rome?"}, {"type": "image", "base64": "aGk=", "mime_type": "image/png"}]
                )
            ]
        }
    )
    logged = memory.context("s").history()
    assert [block["type"] for block in logged[1]["content"]] == ["thinking", "text"]
    assert logged[1]["content"][0]["signature"] == "sig"
    assert texts(memory) == ["It is sunny \ufffd.", "Let me look.", "Rome?"]


def test_a_turn_that_never_came_to_its_end_is_remembered_with_the_next_one(memory):
    def dies(messages):
        raise ConnectionError("gone")

    script = [AIMessage("Hello."), calling("weather", {"city": "Rome"}), dies, AIMessage("Noted.")]
    agent = create_agent(
        ScriptedModel(script=script),
        [weather],
        middleware=[TieredMemoryMiddleware(memory)],
        checkpointer=InMemorySaver(),
    )
    agent.invoke(user("Good morning."), THREAD)
    with pytest.raises(ConnectionError):
        agent.invoke(user("I am flying to Rome."), THREAD)
    agent.invoke(user("My dog comes along."), THREAD)
    said = ["Good morning.", "Hello.", "I am flying to Rome.", "", "sunny in Rome", "My dog comes along.", "Noted."]
    assert [m["content"] for m in memory.context("t1").history()] == said
    assert texts(memory) == sorted(text for text in said if text and "sunny" not in text)


def test_what_another_owner_left_unfinished_is_not_remembered_as_ones_own(memory):
    def dies(messages):
        raise ConnectionError("gone")

    owners = iter(["ada", "bob"])
    agent = create_agent(
        ScriptedModel(script=[dies, AIMessage("Noted.")]),
        [],
        middleware=[TieredMemoryMiddleware(memory, scope=lambda runtime: next(owners)), Between()],
        checkpointer=InMemorySaver(),
    )
    with pytest.raises(ConnectionError):
        agent.invoke(user("ada's secret"), THREAD)
    agent.invoke(user("bob's question"), THREAD)
    assert texts(memory, scope="bob") == ["Noted.", "One moment.", "bob's question"]


def test_what_was_said_while_nothing_was_remembered_stays_unsaid_when_remembering_begins(memory):
    saver = InMemorySaver()
    for remember in (False, True):
        ours = TieredMemoryMiddleware(memory, remember=remember)
        agent = create_agent(ScriptedModel(), [], middleware=[ours], checkpointer=saver)
        agent.invoke(user(f"remember={remember}"), THREAD)
    assert texts(memory) == ["ok", "remember=True"]


def test_a_turn_that_could_not_be_written_is_not_tried_again_with_every_later_one(memory, monkeypatch):
    agent = create_agent(ScriptedModel(), [], middleware=[TieredMemoryMiddleware(memory)], checkpointer=InMemorySaver())

    def fails(*args, **kwargs):
        raise StorageError("disk full")

    with monkeypatch.context() as full:
        full.setattr(memory.turns, "end", fails)
        agent.invoke(user("one"), THREAD)
    agent.invoke(user("two"), THREAD)
    assert [m["content"] for m in memory.context("t1").history()] == ["two", "ok"]


async def found_later(runtime):
    return "s"


@pytest.mark.parametrize("what", ["scope", "session"])
def test_an_asynchronous_function_is_refused(memory, what):
    agent = create_agent(ScriptedModel(), [], middleware=[TieredMemoryMiddleware(memory, **{what: found_later})])
    told = f"{what}: expected the {what}= function to return a string, got coroutine; write def instead of async def"
    with pytest.raises(InvalidInput, match=told):
        agent.invoke(user("hi"))


def summing_up(keep):
    """LangChain's own middleware: all but the last ``keep`` messages become a summary once there are four."""
    return SummarizationMiddleware(
        model=ScriptedModel(script=[AIMessage("SUMMARY")]), trigger=("messages", 4), keep=("messages", keep)
    )


def test_a_turn_whose_question_was_summed_up_in_its_midst_is_remembered_without_the_summary(memory):
    script = [calling("weather", {"city": city}, id=city) for city in ("Rome", "Oslo")]
    model = ScriptedModel(script=[*script, AIMessage("Take a coat."), AIMessage("Noted.")])
    ours = TieredMemoryMiddleware(memory)
    agent = create_agent(model, [weather], middleware=[summing_up(2), ours], checkpointer=InMemorySaver())
    out = agent.invoke(user("I am flying to Oslo."), THREAD)
    assert not any(m.content == "I am flying to Oslo." for m in out["messages"])
    assert texts(memory) == ["I am flying to Oslo.", "Take a coat."]
    agent.invoke(user("My dog comes along."), THREAD)
    assert texts(memory) == ["I am flying to Oslo.", "My dog comes along.", "Noted.", "Take a coat."]


def test_a_summary_right_before_the_users_message_is_not_taken_for_the_users(memory):
    ours = TieredMemoryMiddleware(memory)
    agent = create_agent(ScriptedModel(), [], middleware=[summing_up(1), ours], checkpointer=InMemorySaver())
    for text in ("one", "two", "three", "four"):
        agent.invoke(user(text), THREAD)
    assert texts(memory) == ["four", "ok", "one", "three", "two"]
    assert not any("SUMMARY" in str(m["content"]) for m in memory.context("t1").history())


class Replacing(AgentMiddleware):
    """Takes the user's message out, and puts another in its place if there is one."""

    def __init__(self, *others):
        super().__init__()
        self.others = others

    def before_model(self, state, runtime):
        removed = [RemoveMessage(id=m.id) for m in state["messages"] if m.content == "secret"]
        return {"messages": [*removed, *(HumanMessage(text) for text in self.others)]} if removed else None


@pytest.mark.parametrize(("others", "remembered"), [((), []), (("(removed)",), ["(removed)", "ok"])])
def test_a_users_message_that_a_guard_removes_is_not_remembered(memory, others, remembered):
    ours = TieredMemoryMiddleware(memory)
    agent = create_agent(ScriptedModel(), [], middleware=[Replacing(*others), ours], checkpointer=InMemorySaver())
    agent.invoke({"messages": [AIMessage("How can I help?"), HumanMessage("secret")]}, THREAD)
    assert texts(memory) == remembered


def test_what_is_held_of_a_turn_goes_to_nobody_else_whose_message_has_the_same_id(memory):
    def dies(messages):
        raise ConnectionError("gone")

    ours = TieredMemoryMiddleware(memory, scope=lambda runtime: runtime.execution_info.thread_id)
    script = [dies, *(calling("weather", {"city": c}, id=c) for c in ("Rome", "Oslo")), AIMessage("Take a coat.")]
    agent = create_agent(
        ScriptedModel(script=script), [weather], middleware=[summing_up(2), ours], checkpointer=InMemorySaver()
    )
    ask = {"messages": [HumanMessage("Ada's secret.", id="1")]}
    with pytest.raises(ConnectionError):
        agent.invoke(ask, {"configurable": {"thread_id": "ada"}})
    agent.invoke({"messages": [HumanMessage("Bob's.", id="1")]}, {"configurable": {"thread_id": "bob"}})
    assert texts(memory, scope="bob") == ["Bob's.", "Take a coat."]


def test_what_is_kept_of_a_turn_is_neither_taken_from_the_user_nor_shown_to_one_who_names_what_to_see(memory):
    """An input that claims another's note changes nothing: the entry is private on the way in, too."""
    memory.remember("Ben's safe opens with 4711.", scope="ben")
    model = ScriptedModel(script=[AIMessage("Hello.")])
    agent = create_agent(model, [], middleware=[TieredMemoryMiddleware(memory)], checkpointer=InMemorySaver())
    claimed = {"scope": "ben", "session": "t1", "message": "m1", "writer": "w", "asked": None, "ids": [], "digest": ""}
    asked = {"messages": [HumanMessage("Which number opens the safe?", id="m1")]}
    given = {**asked, "tiered_memory": {"TieredMemoryMiddleware": claimed}}
    assert list(agent.invoke(given, THREAD)) == ["messages"]
    assert "4711" not in str(model.requests)
    assert texts(memory, scope="ben") == ["Ben's safe opens with 4711."]
    streamed = agent.stream(user("Again?"), THREAD, stream_mode="values", output_keys=["messages"])
    assert {name for part in streamed for name in part} == {"messages"}
