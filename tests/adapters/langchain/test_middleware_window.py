"""An agent with a window: whole turns, the newest ones, and the same beginning for as long as possible."""

import itertools

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tiered_memory import TieredMemoryMiddleware, TieredRecallMiddleware, TieredWindowMiddleware
from shared_core import InvalidInput, Settings
from tests.adapters.langchain.fakes import ScriptedModel, calling, user

THREAD = {"configurable": {"thread_id": "t1"}}


def words(text):
    """A counter that counts words: the numbers below can be worked by hand."""
    return len(text.split())


@pytest.fixture
def memory(opened):
    return opened(settings=Settings(count_tokens=words, recall_tokens=20))


def turn(n):
    return user(" ".join([f"question{n}"] * 10))


def sent(model, request=-1):
    return model.requests[request][0]


def firsts(model):
    return [request[0][0].text.split()[0] for request in model.requests]


def test_without_a_window_every_message_is_shown(memory):
    model = ScriptedModel(script=[AIMessage("one two three four five")])
    agent = create_agent(model, [], middleware=[TieredMemoryMiddleware(memory)], checkpointer=InMemorySaver())
    for n in range(10):
        agent.invoke(turn(n), THREAD)
    assert len(sent(model)) == 19


def test_older_turns_leave_several_at_once_and_the_beginning_stays_in_between(memory):
    """Room: 80 - 20 = 60 words, a step is 30. A turn is 15 words: the fifth request holds 4 * 15 + 10 = 70."""
    model = ScriptedModel(script=[AIMessage("one two three four five")])
    ours = TieredMemoryMiddleware(memory, window=80)
    agent = create_agent(model, [], middleware=[ours], checkpointer=InMemorySaver())
    for n in range(8):
        agent.invoke(turn(n), THREAD)
    assert firsts(model) == [f"question{n}" for n in (0, 0, 0, 0, 2, 2, 4, 4)]
    assert len(agent.get_state(THREAD).values["messages"]) == 16  # the state keeps them all


def test_the_window_of_a_turn_is_the_same_with_and_without_a_recalled_block(memory):
    model = ScriptedModel(script=[AIMessage("one two three four five")])
    agent = create_agent(
        model, [], middleware=[TieredMemoryMiddleware(memory, window=80)], checkpointer=InMemorySaver()
    )
    for n in range(8):
        memory.remember(f"question{n} is dear.")
        agent.invoke(turn(n), THREAD)
    assert firsts(model) == [f"question{n}" for n in (0, 0, 0, 0, 2, 2, 4, 4)]
    assert all("<recalled_memories>" in str(request[0][-1].content) for request in model.requests)


@pytest.mark.parametrize("order", [0, 1], ids=["recall before window", "window before recall"])
def test_recall_and_window_stand_in_either_order(memory, order):
    model = ScriptedModel(script=[AIMessage("one two three four five")])
    parts = [TieredRecallMiddleware(memory), TieredWindowMiddleware(memory, 80)]
    agent = create_agent(
        model, [], middleware=list(itertools.chain(parts[order:], parts[:order])), checkpointer=InMemorySaver()
    )
    for n in range(8):
        memory.remember(f"question{n} is dear.")
        agent.invoke(turn(n), THREAD)
    assert firsts(model) == [f"question{n}" for n in (0, 0, 0, 0, 2, 2, 4, 4)]
    assert all("<recalled_memories>" in str(request[0][-1].content) for request in model.requests)


def test_messages_that_are_shown_are_the_very_ones_of_the_state(memory):
    given = [
        HumanMessage([{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}], id="1", name="ada"),
        AIMessage("hello", id="2", response_metadata={"x": 1}, additional_kwargs={"y": 2}),
        HumanMessage("how are you?", id="3"),
    ]
    model = ScriptedModel()
    create_agent(model, [], middleware=[TieredMemoryMiddleware(memory, window=80)]).invoke({"messages": given})
    assert sent(model) == given


def test_the_turn_that_goes_on_stays_whole_and_calls_keep_their_results(memory):
    @tool
    def read(page: int) -> str:
        """Read a page."""
        return " ".join([f"page{page}"] * 15)

    script = [calling("read", {"page": n}, id=f"c{n}") for n in range(6)]
    model = ScriptedModel(script=[AIMessage("hello"), *script, AIMessage("done")])
    agent = create_agent(
        model, [read], middleware=[TieredMemoryMiddleware(memory, window=80)], checkpointer=InMemorySaver()
    )
    agent.invoke(turn(0), THREAD)
    agent.invoke(turn(1), THREAD)
    last = sent(model)
    assert last[0].content.startswith("question1")
    assert [call["id"] for m in last if isinstance(m, AIMessage) for call in m.tool_calls] == [
        f"c{n}" for n in range(6)
    ]
    assert [m.tool_call_id for m in last if isinstance(m, ToolMessage)] == [f"c{n}" for n in range(6)]


def test_of_a_tool_output_that_alone_fills_the_window_head_and_tail_are_shown(memory):
    @tool
    def read() -> str:
        """Read it all."""
        return "start " + "middle " * 2000 + "end"

    model = ScriptedModel(script=[calling("read", {}), AIMessage("done")])
    agent = create_agent(model, [read], middleware=[TieredMemoryMiddleware(memory, window=400)])
    out = agent.invoke(user("Read."))
    (shown,) = [m for m in sent(model) if isinstance(m, ToolMessage)]
    (whole,) = [m for m in out["messages"] if isinstance(m, ToolMessage)]
    assert shown.content.startswith("start")
    assert shown.content.endswith("end")
    assert whole.id in shown.content  # the handle of the whole
    assert len(shown.content) < len(whole.content) / 5
    assert (shown.tool_call_id, shown.id, shown.name) == (whole.tool_call_id, whole.id, whole.name)


@pytest.mark.parametrize(
    "thought",
    [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "s"}},
    ],
    ids=["Anthropic's shape", "LangChain's shape"],
)
def test_once_turns_have_left_the_thinking_that_was_bound_to_them_is_not_shown(memory, thought):
    model = ScriptedModel(script=[AIMessage([thought, {"type": "text", "text": "one two three four"}])])
    agent = create_agent(
        model, [], middleware=[TieredMemoryMiddleware(memory, window=80, remember=False)], checkpointer=InMemorySaver()
    )
    for n in range(6):
        agent.invoke(turn(n), THREAD)
    kinds = [
        [[block["type"] for block in m.content] for m in request[0] if isinstance(m, AIMessage)]
        for request in model.requests
    ]
    both = [thought["type"], "text"]
    assert kinds[3] == [both, both, both]
    assert kinds[4] == [["text"], ["text"]]  # turns 2 and 3 remain; what they thought was bound to turns 0 and 1
    assert kinds[5] == [["text"], ["text"], both]


async def test_an_asynchronous_agent_sees_the_same_window(memory):
    model = ScriptedModel(script=[AIMessage("one two three four five")])
    agent = create_agent(
        model, [], middleware=[TieredMemoryMiddleware(memory, window=80)], checkpointer=InMemorySaver()
    )
    for n in range(6):
        await agent.ainvoke(turn(n), THREAD)
    assert firsts(model) == [f"question{n}" for n in (0, 0, 0, 0, 2, 2)]


def test_the_system_prompt_is_not_counted_and_stays_first(memory):
    model = ScriptedModel(script=[AIMessage("one two three four five")])
    agent = create_agent(
        model, [], system_prompt="Be brief. " * 200, middleware=[TieredMemoryMiddleware(memory, window=80)],
        checkpointer=InMemorySaver(),
    )  # fmt: skip
    for n in range(6):
        agent.invoke(turn(n), THREAD)
    assert all(isinstance(request[0][0], SystemMessage) for request in model.requests)
    assert sent(model)[1].content.startswith("question2")


def test_the_same_conversation_in_a_new_process_has_the_same_window(opened, memory):
    """Where it begins depends on the messages alone."""
    history = [m for n in range(7) for m in (HumanMessage(turn(n)["messages"][0].content, id=f"h{n}"), AIMessage("one two three four five", id=f"a{n}"))]  # fmt: skip
    shown = []
    for kept in (memory, opened("other.db", settings=Settings(count_tokens=words, recall_tokens=20))):
        model = ScriptedModel()
        create_agent(model, [], middleware=[TieredWindowMiddleware(kept, 80)]).invoke(
            {"messages": [*history, HumanMessage("and now?", id="n")]}
        )
        shown.append([m.id for m in sent(model)])
    assert shown[0] == shown[1]
    assert 1 < len(shown[0]) < 15


@pytest.mark.parametrize("wrong", [-1, 1.5, "many", True])
def test_a_window_is_a_number_of_tokens(memory, wrong):
    with pytest.raises(InvalidInput, match="window"):
        TieredMemoryMiddleware(memory, window=wrong)


@pytest.mark.parametrize(
    "said", [[AIMessage("Good morning.")], [HumanMessage("")], [SystemMessage("s"), HumanMessage([])]]
)
def test_a_conversation_in_which_no_user_speaks_is_shown_whole(memory, said):
    model = ScriptedModel()
    create_agent(model, [], middleware=[TieredWindowMiddleware(memory, 100)]).invoke({"messages": said})
    assert [m.content for m in sent(model)] == [m.content for m in said]


@pytest.mark.parametrize("empty", ["", []])
@pytest.mark.parametrize("window", [80, 0])
def test_the_users_last_message_is_shown_also_when_it_is_empty(memory, empty, window):
    """An empty text is a value: without it the request would end with the model's own words."""
    said = [HumanMessage("hi"), AIMessage("ok"), HumanMessage(empty)]
    model = ScriptedModel()
    create_agent(model, [], middleware=[TieredWindowMiddleware(memory, window)]).invoke({"messages": said})
    assert [m.content for m in sent(model)] == ["hi", "ok", empty]


def test_an_empty_message_of_the_users_stays_while_tools_answer_it(memory):
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedModel(script=[calling("look", {}), AIMessage("done")])
    said = [HumanMessage("hi"), AIMessage("ok"), HumanMessage("")]
    create_agent(model, [look], middleware=[TieredMemoryMiddleware(memory, window=80)]).invoke({"messages": said})
    assert [m.type for m in sent(model)] == ["human", "ai", "human", "ai", "tool"]
