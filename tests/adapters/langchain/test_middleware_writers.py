"""Agents that share a thread id: each one's turns are its own, and going back with one leaves the others' alone."""

import random

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_tiered_memory import TieredMemoryMiddleware
from tests.adapters.langchain.fakes import ScriptedModel, calling, user

THREAD = {"configurable": {"thread_id": "t1"}}


def said(memory):
    return [m["content"] for m in memory.context("t1").history() if m["content"]]


def recalled(memory):
    return {hit.memory.text for hit in memory.recall("", session="t1", k=100)}


def echoing(name, **given):
    def answer(messages):
        last = next(m for m in reversed(messages) if isinstance(m, HumanMessage))
        return AIMessage(f"{name}: {last.text.partition('<')[0].strip()}")

    return ScriptedModel(script=[answer], **given)


def agent(memory, name, tools=(), model=None, saver=True, **given):
    return create_agent(
        model or echoing(name),
        list(tools),
        middleware=[TieredMemoryMiddleware(memory)],
        checkpointer=InMemorySaver() if saver else None,
        **given,
    )


def test_two_agents_of_one_thread_id_do_not_abandon_each_others_turns(memory):
    one, two = agent(memory, "one"), agent(memory, "two")
    for which, text in [(one, "cat"), (two, "dog"), (one, "bird"), (two, "fish"), (one, "cow")]:
        which.invoke(user(text), THREAD)
    everything = [f"{name}{text}" for w, text in zip("12121", ["cat", "dog", "bird", "fish", "cow"], strict=True)
                  for name in ("", "one: " if w == "1" else "two: ")]  # fmt: skip
    assert said(memory) == everything
    assert recalled(memory) == set(everything)


def test_going_back_with_one_agent_abandons_its_own_later_turns_and_keeps_the_others(memory):
    one, two = agent(memory, "one"), agent(memory, "two")
    one.invoke(user("cat"), THREAD)
    first = one.get_state(THREAD).config
    two.invoke(user("dog"), THREAD)
    one.invoke(user("bird"), THREAD)
    two.invoke(user("fish"), THREAD)
    one.invoke(user("hen"), first)
    two.invoke(user("crab"), THREAD)
    left = ["cat", "one: cat", "dog", "two: dog", "fish", "two: fish", "hen", "one: hen", "crab", "two: crab"]
    assert said(memory) == left
    assert recalled(memory) == set(left)


def test_what_a_sub_agent_that_is_a_tool_said_stays_while_the_agent_goes_on_or_back(memory):
    helper = agent(memory, "helper", saver=False)

    @tool
    def ask(question: str) -> str:
        """Ask the helper."""
        return helper.invoke(user(question))["messages"][-1].text

    script = [AIMessage("ok"), calling("ask", {"question": "how tall?"}), AIMessage("two metres")]
    model = ScriptedModel(script=[*script, AIMessage("bye")])
    main = agent(memory, "main", [ask], model)
    main.invoke(user("hello"), THREAD)
    first = main.get_state(THREAD).config
    main.invoke(user("the door"), THREAD)
    main.invoke(user("thanks"), THREAD)
    asked = ["how tall?", "helper: how tall?"]
    assert set(asked) <= recalled(memory)
    assert {"hello", "the door", "two metres", "thanks"} <= recalled(memory)
    main.invoke(user("no, the window"), first)
    assert said(memory) == ["hello", "ok", *asked, "no, the window", "bye"]
    assert recalled(memory) == set(said(memory))


def test_agents_that_hand_one_conversation_on_log_it_once_and_go_back_together(memory):
    graph = StateGraph(MessagesState)
    for name in ("first", "second"):
        graph.add_node(name, agent(memory, name, saver=False))
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    both = graph.compile(checkpointer=InMemorySaver())
    both.invoke(user("cat"), THREAD)
    start = both.get_state(THREAD).config
    both.invoke(user("dog"), THREAD)
    assert said(memory) == ["cat", "first: cat", "second: cat", "dog", "first: dog", "second: dog"]
    both.invoke(user("hen"), start)
    assert said(memory) == ["cat", "first: cat", "second: cat", "hen", "first: hen", "second: hen"]
    assert recalled(memory) == set(said(memory))


def test_a_client_that_numbers_its_messages_from_one_each_time_loses_none(memory):
    run = agent(
        memory, "r", model=ScriptedModel(script=[AIMessage("r1"), AIMessage("r2"), AIMessage("r3")]), saver=False
    )
    for text in ("first", "second", "second"):
        run.invoke({"messages": [HumanMessage(text, id="1")]}, THREAD)
    assert said(memory) == ["first", "r1", "second", "r2", "second", "r3"]


async def test_the_async_hooks_keep_them_apart_too(memory):
    one, two = agent(memory, "one"), agent(memory, "two")
    await one.ainvoke(user("cat"), THREAD)
    first = (await one.aget_state(THREAD)).config
    await two.ainvoke(user("dog"), THREAD)
    await one.ainvoke(user("bird"), THREAD)
    await one.ainvoke(user("hen"), first)
    assert said(memory) == ["cat", "one: cat", "dog", "two: dog", "hen", "one: hen"]


@pytest.mark.parametrize("seed", [4, 6, 17])
def test_whatever_checkpoints_two_agents_go_back_to_each_finds_in_the_log_what_its_own_thread_shows(memory, seed):
    """Says, replays and forks at random, two agents of one thread id; the log and the states are compared each time."""
    chance = random.Random(seed)
    numbers = iter(range(1000))
    agents = [
        create_agent(
            ScriptedModel(script=[lambda messages: AIMessage(f"answer {next(numbers)}")]),
            [],
            middleware=[TieredMemoryMiddleware(memory)],
            checkpointer=InMemorySaver(),
        )
        for _ in range(2)
    ]
    for step in range(15):
        agent = chance.choice(agents)
        states = list(agent.get_state_history(THREAD))
        state = chance.choice(states) if states and chance.random() < 0.5 else None
        replays = state is not None and state.next and chance.random() < 0.4
        agent.invoke(None if replays else user(f"question {step}"), THREAD if state is None else state.config)
        for one in agents:
            ever = {m.id for state in one.get_state_history(THREAD) for m in state.values.get("messages", [])}
            logged = [m["id"] for m in memory.context("t1").history() if m["id"] in ever]
            assert logged == [m.id for m in one.get_state(THREAD).values.get("messages", [])]


class AsNode:
    """An agent that is a node of a graph, which keeps the messages and nothing else of it."""

    def __init__(self, memory):
        inner = agent(memory, "re", saver=False)
        self.graph = (
            StateGraph(MessagesState)
            .add_node("agent", inner)
            .add_edge(START, "agent")
            .compile(checkpointer=InMemorySaver())
        )

    def say(self, text, since=THREAD):
        self.graph.invoke(user(text), since)
        return self.graph.get_state(THREAD).config

    @property
    def start(self):
        return [s for s in self.graph.get_state_history(THREAD) if not s.values.get("messages")][-1].config


def test_a_node_that_goes_back_to_before_its_first_message_leaves_the_old_branch(memory):
    node = AsNode(memory)
    node.say("dog")
    node.say("bird")
    first = node.say("cat", since=node.start)
    assert said(memory) == ["cat", "re: cat"]
    assert recalled(memory) == set(said(memory))
    node.say("hen")
    node.say("cow", since=first)
    assert said(memory) == ["cat", "re: cat", "cow", "re: cow"]


def test_a_branch_of_a_node_comes_back_when_it_is_taken_up_again(memory):
    node = AsNode(memory)
    first = node.say("dog")
    end = node.say("bird")
    node.say("cat", since=node.start)
    node.say("hen", since=end)
    assert said(memory) == ["dog", "re: dog", "bird", "re: bird", "hen", "re: hen"]
    node.say("cow", since=first)
    assert said(memory) == ["dog", "re: dog", "cow", "re: cow"]


async def test_the_async_hooks_of_a_node_go_back_too(memory):
    node = AsNode(memory)
    await node.graph.ainvoke(user("dog"), THREAD)
    await node.graph.ainvoke(user("cat"), node.start)
    assert said(memory) == ["cat", "re: cat"]


def test_a_run_that_goes_back_and_asks_its_sub_agent_again_keeps_what_was_asked_before_it(memory):
    """And what is asked twice within the run."""
    helper = agent(memory, "helper", saver=False)

    @tool
    def ask(question: str) -> str:
        """Ask the helper."""
        return helper.invoke(user(question))["messages"][-1].text

    def turn(*questions):
        return [*(calling("ask", {"question": q}, id=q) for q in questions), AIMessage(f"done {questions[-1]}")]

    model = ScriptedModel(script=[*turn("how tall?"), *turn("how wide?"), *turn("how deep?", "how old?")])
    main = agent(memory, "main", [ask], model)
    main.invoke(user("the door"), THREAD)
    first = main.get_state(THREAD).config
    main.invoke(user("the wall"), THREAD)
    main.invoke(user("the well"), first)
    assert {"how tall?", "how deep?", "how old?"} <= recalled(memory)


def test_two_agents_whose_threads_have_one_id_and_begin_with_the_same_message_are_two(memory):
    for name in ("one", "two"):
        agent(memory, name).invoke({"messages": [HumanMessage("hi", id="1")]}, THREAD)
    assert said(memory) == ["hi", "one: hi", "hi", "two: hi"]
