"""Models whose thinking is bound to the bytes before it: what a request shows of earlier blocks and of earlier thinking.

``bound`` plays such a provider: it signs its thinking with what stood before, and refuses a request in which a
signature does not fit.
"""

import asyncio
import hashlib
import json

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tiered_memory import TieredMemoryMiddleware
from shared_core import Settings
from tests.adapters.langchain.fakes import ScriptedModel, user

THREAD = {"configurable": {"thread_id": "t1"}}
TOPICS = ("coffee", "tea", "bicycles", "pianos")


@pytest.fixture
def memory(opened):
    memory = opened(settings=Settings(recall_k=1))
    for topic in TOPICS:
        memory.remember(f"About {topic}: I am fond of {topic}.")
    return memory


def signature(messages):
    """What a model that thinks after these messages signs with."""
    said = [[m.type, m.content, getattr(m, "tool_calls", [])] for m in messages]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def thinking(message):
    blocks = message.content if isinstance(message.content, list) else []
    return [block for block in blocks if block["type"] == "thinking"]


def bound(*answers):
    """A model that thinks before each answer. An answer is a text, or (tool, arguments)."""
    asked = []

    def answer(messages):
        for i, message in enumerate(messages):
            for block in thinking(message) if isinstance(message, AIMessage) else []:
                if block["signature"] != signature(messages[:i]):
                    raise AssertionError("400: this thinking is bound to a different conversation")
        said = answers[min(len(asked), len(answers) - 1)]
        asked.append(said)
        content = [{"type": "thinking", "thinking": "hm", "signature": signature(messages)}]
        if isinstance(said, tuple):
            call = {"name": said[0], "args": said[1], "id": f"c{len(asked)}", "type": "tool_call"}
            return AIMessage(content, tool_calls=[call])
        return AIMessage([*content, {"type": "text", "text": said}])

    return ScriptedModel(script=[answer])


def blocks(request):
    return [
        block["text"].split("About ")[1].split(":")[0]
        for message in request[0]
        if isinstance(message, HumanMessage) and isinstance(message.content, list)
        for block in message.content
        if block["text"].startswith("<recalled_memories>")
    ]


def thoughts(request):
    return [bool(thinking(message)) for message in request[0] if isinstance(message, AIMessage)]


def agent_of(model, memory, *tools, **given):
    ours = TieredMemoryMiddleware(memory, remember=False)
    return create_agent(model, list(tools), middleware=[ours], checkpointer=InMemorySaver(), **given), ours


def ask(agent, topic):
    return agent.invoke(user(f"What of {topic}?"), THREAD)


def note_of(agent):
    return agent.get_state(THREAD).values["tiered_memory"]["TieredMemoryMiddleware"]


def test_the_blocks_of_turns_in_which_the_model_thought_stay_where_they_were(memory):
    model = bound("a", "b", "c")
    agent, _ = agent_of(model, memory)
    for topic in TOPICS[:3]:
        ask(agent, topic)
    assert [blocks(request) for request in model.requests] == [list(TOPICS[: n + 1]) for n in range(3)]
    assert thoughts(model.requests[-1]) == [True, True]
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert after[0][: len(before[0])] == before[0]  # the whole request before is a prefix of the next


def test_the_blocks_of_turns_without_thinking_go_with_their_turn(memory):
    model = ScriptedModel()
    agent, _ = agent_of(model, memory)
    for topic in TOPICS[:3]:
        ask(agent, topic)
    assert [blocks(request) for request in model.requests] == [[topic] for topic in TOPICS[:3]]
    assert "earlier" not in note_of(agent)


def test_a_model_that_begins_to_think_later_never_sees_a_block_come_back(memory):
    thinks = bound("b", "c")
    model = ScriptedModel(script=[AIMessage("a"), *thinks.script])
    agent, _ = agent_of(model, memory)
    for topic in TOPICS[:3]:
        ask(agent, topic)
    assert [blocks(request) for request in model.requests] == [["coffee"], ["tea"], ["tea", "bicycles"]]


def test_a_block_that_is_lost_within_a_turn_takes_the_thinking_since_with_it(memory):
    @tool
    def forget_it() -> str:
        """Forget."""
        memory.forget([m.id for m in memory.long_term.list() if "coffee" in m.text])
        return "forgotten"

    @tool
    def wait() -> str:
        """Wait."""
        return "waited"

    model = bound(("wait", {}), ("forget_it", {}), ("wait", {}), "done")
    agent, ours = agent_of(model, memory, forget_it, wait)
    ask(agent, "coffee")
    assert [blocks(request) for request in model.requests] == [["coffee"], ["coffee"], [], []]
    assert [thoughts(request) for request in model.requests] == [[], [True], [False, False], [False, False, True]]
    assert [len(m.tool_calls) for m in model.requests[3][0] if isinstance(m, AIMessage)] == [1, 1, 1]
    assert ours.counts["blocks_dropped"] == 1


def test_a_block_of_an_earlier_turn_that_is_lost_takes_all_later_thinking_with_it(memory):
    model = bound("a", "b", "c", "d")
    agent, ours = agent_of(model, memory)
    ask(agent, "coffee")
    ask(agent, "tea")
    memory.forget([m.id for m in memory.long_term.list() if "coffee" in m.text])
    ask(agent, "bicycles")
    ask(agent, "pianos")
    assert [blocks(request) for request in model.requests[2:]] == [["tea", "bicycles"], ["tea", "bicycles", "pianos"]]
    assert [thoughts(request) for request in model.requests[2:]] == [[False, False], [False, False, True]]
    assert ours.counts["blocks_dropped"] == 1


def test_a_block_that_could_not_be_read_once_stays_out_for_the_turn(memory, monkeypatch):
    """Shown again, it would change the bytes before what was thought without it."""

    @tool
    def wait() -> str:
        """Wait."""
        monkeypatch.setattr(memory.turns, "restore", restore if len(model.requests) > 1 else lambda *_, **__: None)
        return "waited"

    restore = memory.turns.restore
    model = bound(("wait", {}), ("wait", {}), "done")
    agent, _ = agent_of(model, memory, wait)
    ask(agent, "coffee")
    assert [blocks(request) for request in model.requests] == [["coffee"], [], []]
    assert [thoughts(request) for request in model.requests] == [[], [False], [False, True]]


async def test_the_asynchronous_hooks_do_the_same(memory):
    @tool
    def forget_it() -> str:
        """Forget."""
        memory.forget([m.id for m in memory.long_term.list() if "tea" in m.text])
        return "forgotten"

    model = bound("a", ("forget_it", {}), "done")
    agent, _ = agent_of(model, memory, forget_it)
    await agent.ainvoke(user("What of coffee?"), THREAD)
    await agent.ainvoke(user("What of tea?"), THREAD)
    await asyncio.sleep(0)
    assert [blocks(request) for request in model.requests] == [["coffee"], ["coffee", "tea"], ["coffee"]]
    assert thoughts(model.requests[-1]) == [True, False]


def test_the_state_keeps_hashes_of_earlier_blocks_and_lets_go_of_removed_messages(memory):
    agent, _ = agent_of(bound("a"), memory)
    for topic in TOPICS[:3]:
        ask(agent, topic)
    note = note_of(agent)
    assert [set(entry) for entry in note["earlier"]] == [{"message", "ids", "digest"}] * 2
    assert "fond" not in json.dumps(note)
    first = agent.get_state(THREAD).values["messages"][0]
    agent.update_state(THREAD, {"messages": [RemoveMessage(first.id)]})
    agent.update_state(THREAD, {"messages": [RemoveMessage(m.id) for m in agent.get_state(THREAD).values["messages"]]})
    ask(agent, "pianos")
    assert "earlier" not in note_of(agent)


def test_another_owner_of_the_thread_sees_none_of_the_blocks_and_none_of_the_thinking_bound_to_them(memory):
    owner = ["ada"]
    memory.remember("About tea: bob is fond of tea.", scope="bob")
    model = bound("a", "b")
    ours = TieredMemoryMiddleware(memory, scope=lambda runtime: owner[0], remember=False)
    agent = create_agent(model, [], middleware=[ours], checkpointer=InMemorySaver())
    ask(agent, "coffee")
    owner[0] = "bob"
    ask(agent, "tea")
    assert blocks(model.requests[1]) == ["tea"]
    assert "bob is fond" in str(model.requests[1])
    assert thoughts(model.requests[1]) == [False]


def test_thinking_in_langchains_own_shape_of_content_counts_as_well(memory):
    signed = {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "s"}}
    unsigned = {"type": "reasoning", "reasoning": "hm"}
    for block, kept in ((signed, ["coffee", "tea"]), (unsigned, ["tea"])):
        model = ScriptedModel(script=[AIMessage([block, {"type": "text", "text": "a"}])])
        agent, _ = agent_of(model, memory)
        ask(agent, "coffee")
        ask(agent, "tea")
        assert blocks(model.requests[1]) == kept


def test_an_answer_of_nothing_but_thinking_is_left_out_whole(memory):
    only = AIMessage([{"type": "thinking", "thinking": "hm", "signature": "s"}])
    model = ScriptedModel(script=[only, AIMessage("b")])
    agent, _ = agent_of(model, memory)
    ask(agent, "coffee")
    memory.forget([m.id for m in memory.long_term.list() if "coffee" in m.text])
    ask(agent, "tea")
    assert [m.type for m in model.requests[1][0]] == ["human", "human"]


def test_two_memories_in_one_agent_may_lose_their_blocks_in_the_same_call(memory, opened):
    team = opened("team.db", settings=Settings(recall_k=1))
    team.remember("About coffee: the team is fond of coffee.")

    @tool
    def forget_it() -> str:
        """Forget."""
        for kept in (memory, team):
            kept.forget([m.id for m in kept.long_term.list()])
        return "forgotten"

    model = bound(("forget_it", {}), "done")
    both = [TieredMemoryMiddleware(kept, name=name, remember=False) for kept, name in ((memory, "a"), (team, "b"))]
    agent = create_agent(model, [forget_it], middleware=both, checkpointer=InMemorySaver())
    ask(agent, "coffee")
    assert [blocks(request) for request in model.requests] == [["coffee", "coffee"], []]
    notes = agent.get_state(THREAD).values["tiered_memory"]
    assert {name: "digest" in note for name, note in notes.items()} == {"a": False, "b": False}
