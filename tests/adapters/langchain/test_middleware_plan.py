"""An Anthropic agent's requests as they arrive at the provider: where the breakpoints are, and what they save."""

import json
import logging

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelFallbackMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tiered_memory import TieredMemoryMiddleware, TieredPromptPlanMiddleware, TieredRecallMiddleware
from shared_core import Settings
from shared_core.testing.prompt_cache import BadRequest, PromptCache
from shared_core.testing.prompt_endpoint import PromptEndpoint
from tests.adapters.langchain.fakes import ScriptedModel, user

ChatAnthropic = pytest.importorskip("langchain_anthropic").ChatAnthropic
AnthropicPromptCachingMiddleware = pytest.importorskip(
    "langchain_anthropic.middleware"
).AnthropicPromptCachingMiddleware

THREAD = {"configurable": {"thread_id": "t1"}}
SYSTEM = "You are a careful assistant. " * 600
MODEL = "claude-sonnet-5"


@pytest.fixture
def memory(opened):
    """One memory a turn, so that every turn recalls another."""
    return opened(settings=Settings(recall_k=1))


@pytest.fixture
def endpoint(clock):
    with PromptEndpoint(clock=clock) as running:
        yield running


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def claude(endpoint, **given):
    return ChatAnthropic(model=MODEL, base_url=endpoint.url, api_key="none", max_retries=0, **given)


TOPICS = ("coffee", "tea", "bicycles", "pianos", "gardens", "sailing")


def told(memory):
    """A memory about each topic."""
    for topic in TOPICS:
        memory.remember(f"About {topic}: I am fond of {topic}.")


def marks(request):
    """(where, lifetime) of every breakpoint in a request body."""
    found = []

    def walk(value, path):
        if isinstance(value, dict):
            if "cache_control" in value:
                found.append((path, value["cache_control"].get("ttl", "5m")))
            for key, inner in value.items():
                walk(inner, (*path, key))
        elif isinstance(value, list):
            for i, inner in enumerate(value):
                walk(inner, (*path, i))

    walk({key: value for key, value in request.items() if key != "cache_control"}, ())
    return found + ([((), request["cache_control"].get("ttl", "5m"))] if "cache_control" in request else [])


def recalled_at(request):
    """(message, block) of the recalled block."""
    return next(
        (i, j)
        for i, message in enumerate(request["messages"])
        if isinstance(message["content"], list)
        for j, block in enumerate(message["content"])
        if block.get("text", "").startswith("<recalled_memories>")
    )


def ask(agent, n, **how):
    """A turn that recalls something else than the one before it."""
    return agent.invoke(user(f"What of {TOPICS[n]}? " + "Please be exact. " * 80), THREAD, **how)


def agent_of(model, memory, *more, tools=(), before=(), **given):
    ours = TieredMemoryMiddleware(memory, **given)
    return create_agent(
        model, list(tools), system_prompt=SYSTEM, middleware=[*before, ours, *more], checkpointer=InMemorySaver()
    )


def test_each_turn_reads_the_whole_of_the_turn_before_although_every_turn_recalls_something_else(
    memory, endpoint, clock
):
    told(memory)
    agent = agent_of(claude(endpoint), memory)
    for n in range(5):
        ask(agent, n)
        clock.advance(20)
    blocks = [r["messages"][i]["content"][j]["text"] for r in endpoint.requests for i, j in [recalled_at(r)]]
    assert len(set(blocks)) == 5
    stable = [usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"] for usage in endpoint.usages]
    assert [usage["cache_read_input_tokens"] for usage in endpoint.usages] == [0, *stable[:-1]]
    assert all(0 < usage["input_tokens"] < 1000 for usage in endpoint.usages)  # the block and nothing else
    assert all(len(marks(request)) <= 4 for request in endpoint.requests)


def test_our_breakpoint_stands_on_the_block_before_the_recalled_one(memory, endpoint):
    told(memory)
    ask(agent_of(claude(endpoint), memory), 1)
    (request,) = endpoint.requests
    message, block = recalled_at(request)
    assert ("messages", message, "content", block - 1) in [path for path, _ in marks(request)]
    assert ("messages", message, "content", block) not in [path for path, _ in marks(request)]


@pytest.mark.parametrize("before", [True, False], ids=["before ours", "after ours"])
def test_with_langchains_own_caching_middleware_and_the_callers_breakpoints_four_arrive(memory, endpoint, before):
    """Alone, LangChain's middleware sets three and does not count: with these two it would send five, a 400."""
    told(memory)
    other = AnthropicPromptCachingMiddleware()
    given = {"before": [other]} if before else {}
    agent = agent_of(claude(endpoint), memory, *(() if before else (other,)), tools=[weather], **given)
    said = [
        {"type": "text", "text": "word " * 2000, "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "tea " * 2000, "cache_control": {"type": "ephemeral"}},
    ]
    for n in range(3):
        agent.invoke({"messages": [HumanMessage([*said, {"type": "text", "text": f"and {TOPICS[n]}?"}])]}, THREAD)
    assert [len(marks(request)) <= 4 for request in endpoint.requests] == [True] * 3
    assert len(endpoint.usages) == 3  # none was refused
    assert endpoint.usages[-1]["cache_read_input_tokens"] > 0


def test_langchains_own_caching_middleware_alone_sends_more_than_four(endpoint):
    """Pins today's upstream, which is why everybody's breakpoints are counted where the request is sent."""
    other = AnthropicPromptCachingMiddleware()
    said = [{"type": "text", "text": f"{n} " * 2000, "cache_control": {"type": "ephemeral"}} for n in range(2)]
    agent = create_agent(claude(endpoint), [weather], system_prompt=SYSTEM, middleware=[other])
    with pytest.raises(Exception, match="cache_control"):
        agent.invoke({"messages": [HumanMessage([*said, {"type": "text", "text": "?"}])]})


@pytest.mark.parametrize("way", ["middleware before", "middleware after", "model setting"])
def test_an_automatic_breakpoint_behind_the_recalled_block_is_told_of_once(memory, endpoint, caplog, way):
    told(memory)
    other = AnthropicPromptCachingMiddleware()
    model = claude(
        endpoint, **({"model_kwargs": {"cache_control": {"type": "ephemeral"}}} if way == "model setting" else {})
    )
    before, after = [other] if way == "middleware before" else [], [other] if way == "middleware after" else []
    agent = agent_of(model, memory, *after, before=before)
    with caplog.at_level(logging.WARNING):
        for n in range(3):
            ask(agent, n)
    (warning,) = [r.getMessage() for r in caplog.records if "cache_control" in r.getMessage()]
    assert "AnthropicPromptCachingMiddleware" in warning
    assert "plan_prompts=False" in warning


def test_without_an_automatic_breakpoint_nothing_is_told(memory, endpoint, caplog):
    told(memory)
    agent = agent_of(claude(endpoint), memory)
    with caplog.at_level(logging.WARNING):
        ask(agent, 1)
    assert not caplog.records


def test_an_automatic_breakpoint_does_no_harm_where_nothing_is_recalled(memory, endpoint, caplog):
    agent = agent_of(claude(endpoint), memory, AnthropicPromptCachingMiddleware())
    with caplog.at_level(logging.WARNING):
        ask(agent, 1)
    assert not caplog.records


def test_the_ledger_has_what_the_provider_billed(memory, endpoint, clock):
    told(memory)
    agent = agent_of(claude(endpoint), memory)
    for n in range(4):
        ask(agent, n)
        clock.advance(20)
    stats = memory.prompts.stats()
    assert stats["requests"] == 4
    assert stats["hits"] == 3
    for ours, theirs in [
        ("read_tokens", "cache_read_input_tokens"),
        ("written_5m_tokens", "cache_creation_input_tokens"),
        ("uncached_tokens", "input_tokens"),
    ]:
        assert stats[ours] == sum(usage[theirs] for usage in endpoint.usages)
    assert stats["saved"] > 0


def test_the_usage_of_a_streamed_answer_is_in_the_ledger_too(memory, endpoint):
    told(memory)
    agent = agent_of(claude(endpoint), memory)
    list(agent.stream(user("What of tea?"), THREAD, stream_mode="messages"))
    assert endpoint.requests[0]["stream"] is True
    assert len(marks(endpoint.requests[0])) >= 1
    assert memory.prompts.stats()["requests"] == 1
    assert memory.prompts.stats()["written_5m_tokens"] == endpoint.usages[0]["cache_creation_input_tokens"] > 0


async def test_an_asynchronous_agent_plans_and_records_the_same(memory, endpoint):
    told(memory)
    agent = agent_of(claude(endpoint), memory)
    for n in range(2):
        await agent.ainvoke(user(f"What of {TOPICS[n]}?"), THREAD)
    async for _ in agent.astream(user("What of tea?"), THREAD, stream_mode="messages"):
        pass
    assert memory.prompts.stats()["requests"] == 3
    assert endpoint.usages[-1]["cache_read_input_tokens"] > 0


def test_tool_calls_within_a_turn_read_what_the_call_before_wrote(memory, clock):
    told(memory)

    def reply(request):
        if any("tool_result" in json.dumps(message) for message in request["messages"]):
            return "Sunny."
        return [{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}}]

    with PromptEndpoint(clock=clock, reply=reply) as endpoint:
        out = ask(agent_of(claude(endpoint), memory, tools=[weather]), 3)
    assert out["messages"][-1].text == "Sunny."
    first, second = endpoint.requests
    assert [t["name"] for t in second["tools"]] == ["weather"]
    assert second["messages"][0]["content"][0]["text"] == first["messages"][0]["content"][0]["text"]
    assert endpoint.usages[1]["cache_read_input_tokens"] > 0


def test_the_tools_arrive_with_the_schemas_they_have_without_us(endpoint, memory):
    @tool
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    plain = create_agent(claude(endpoint), [add, weather], system_prompt="Be brief.")
    ours = create_agent(
        claude(endpoint), [add, weather], system_prompt="Be brief.", middleware=[TieredMemoryMiddleware(memory)]
    )
    for agent in (plain, ours):
        agent.invoke(user("hi"))
    without, with_us = endpoint.requests
    assert without == with_us  # below the model's minimum there is no breakpoint, and nothing else differs


def test_plan_prompts_false_leaves_the_requests_without_breakpoints(memory, endpoint):
    told(memory)
    ask(agent_of(claude(endpoint), memory, plan_prompts=False), 1)
    assert marks(endpoint.requests[0]) == []
    assert memory.prompts.stats()["requests"] == 0


def test_another_providers_requests_stay_as_they_are(memory):
    told(memory)
    model = ScriptedModel()
    marked = [{"type": "text", "text": "What of tea?", "cache_control": {"type": "ephemeral"}}]
    create_agent(model, [weather], middleware=[TieredPromptPlanMiddleware(memory)]).invoke(
        {"messages": [HumanMessage(marked, id="1")]}
    )
    assert model.requests == [([HumanMessage(marked, id="1")], {"tools": ["weather"], "tool_choice": None})]


def test_another_model_behind_the_same_client_gets_its_request_as_it_is(memory, endpoint):
    model = ChatAnthropic(model="qwen-9", base_url=endpoint.url, api_key="none", max_retries=0)
    marked = {"type": "text", "text": "word " * 5000, "cache_control": {"type": "ephemeral"}}
    create_agent(model, [weather], middleware=[TieredMemoryMiddleware(memory)]).invoke(
        {"messages": [HumanMessage([marked])]}
    )
    assert marks(endpoint.requests[0]) == [(("messages", 0, "content", 0), "5m")]


def test_the_callers_breakpoint_and_its_lifetime_stay(memory, endpoint):
    told(memory)
    system = SystemMessage([{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral", "ttl": "1h"}}])
    create_agent(claude(endpoint), [], system_prompt=system, middleware=[TieredMemoryMiddleware(memory)]).invoke(
        user("What of tea?")
    )
    assert (("system", 0), "1h") in marks(endpoint.requests[0])


def test_a_plan_that_fails_sends_the_request_as_it_was_and_is_counted(memory, endpoint, monkeypatch, caplog):
    told(memory)

    def broken(**_):
        raise RuntimeError("out of order")

    monkeypatch.setattr(memory.prompts, "plan", broken)
    ours = TieredMemoryMiddleware(memory)
    out = create_agent(claude(endpoint), [], system_prompt=SYSTEM, middleware=[ours]).invoke(user("What of tea?"))
    assert out["messages"][-1].text == "Understood."
    assert marks(endpoint.requests[0]) == []
    assert ours.counts["plan_failures"] == 1
    assert "out of order" in caplog.text


def test_a_usage_that_cannot_be_recorded_does_not_cost_the_answer(memory, endpoint, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("out of order")

    monkeypatch.setattr(memory.prompts, "record", broken)
    ours = TieredMemoryMiddleware(memory)
    out = create_agent(claude(endpoint), [], middleware=[ours]).invoke(user("hi"))
    assert out["messages"][-1].text == "Understood."
    assert ours.counts["plan_failures"] == 1


def test_the_model_that_was_given_is_not_changed_and_makes_its_client_once(memory, endpoint):
    model = claude(endpoint)
    agent = agent_of(model, memory)
    ask(agent, 1)
    client = model.__dict__["_client"]
    ask(agent, 2)
    assert type(model) is ChatAnthropic
    assert model.__dict__["_client"] is client
    model.invoke("without us")
    assert marks(endpoint.requests[-1]) == []
    assert memory.prompts.stats()["requests"] == 2


def test_a_middleware_behind_ours_may_change_the_model_and_its_change_is_sent(memory, endpoint):
    class Shorter(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return handler(request.override(model=request.model.model_copy(update={"max_tokens": 77})))

    told(memory)
    ask(agent_of(claude(endpoint), memory, Shorter()), 1)
    assert endpoint.requests[0]["max_tokens"] == 77
    assert marks(endpoint.requests[0])


def test_a_fallback_to_another_provider_gets_a_clean_request_and_is_not_in_the_ledger(memory, clock):
    told(memory)

    class Refusing(PromptCache):
        def send(self, request, **_):
            raise BadRequest("not today")

    other = ScriptedModel(script=[AIMessage("from the other one", usage_metadata=USAGE)])
    with PromptEndpoint(cache=Refusing(clock=clock)) as endpoint:
        ours = TieredMemoryMiddleware(memory)
        agent = create_agent(
            claude(endpoint), [], system_prompt=SYSTEM, middleware=[ours, ModelFallbackMiddleware(other)]
        )
        out = agent.invoke(user("What of tea?"))
    assert out["messages"][-1].text == "from the other one"
    assert "cache_control" not in str(other.requests[0][0])
    assert memory.prompts.stats()["requests"] == 0


USAGE = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}


def test_two_memories_in_one_agent_plan_a_request_once(memory, endpoint, opened):
    """The outer one plans; the blocks of both are behind the breakpoints."""
    team = opened("team.db", settings=Settings(recall_k=1))
    told(memory)
    team.remember("About tea: the team is fond of tea.")
    both = [TieredMemoryMiddleware(memory, name="mine"), TieredMemoryMiddleware(team, name="team")]
    create_agent(claude(endpoint), [], system_prompt=SYSTEM, middleware=both).invoke(user("What of tea?"))
    (request,) = endpoint.requests
    assert sum("<recalled_memories>" in block["text"] for block in request["messages"][0]["content"]) == 2
    assert [path for path, _ in marks(request) if path[0] == "messages"] == [("messages", 0, "content", 0)]
    assert memory.prompts.stats()["requests"] == 1
    assert team.prompts.stats()["requests"] == 0


def test_recall_and_plan_as_middlewares_of_their_own_know_of_each_other(memory, endpoint):
    told(memory)
    parts = [TieredPromptPlanMiddleware(memory), TieredRecallMiddleware(memory)]
    create_agent(claude(endpoint), [], system_prompt=SYSTEM, middleware=parts).invoke(user("What of tea?"))
    message, block = recalled_at(endpoint.requests[0])
    assert ("messages", message, "content", block - 1) in [path for path, _ in marks(endpoint.requests[0])]
    assert ("messages", message, "content", block) not in [path for path, _ in marks(endpoint.requests[0])]


def test_conversations_without_a_thread_are_recognised_by_how_they_begin(memory, endpoint):
    """A server without a checkpointer sends the whole history each time."""
    told(memory)
    agent = create_agent(claude(endpoint), [], system_prompt=SYSTEM, middleware=[TieredMemoryMiddleware(memory)])
    history = []
    for n in range(3):
        history.append(HumanMessage(f"What of {TOPICS[n]}? " + "Please be exact. " * 80))
        history = agent.invoke({"messages": history})["messages"]
    stats = memory.prompts.stats()
    assert (stats["requests"], stats["expected_hits"], stats["hits"]) == (3, 2, 2)


def test_a_message_without_usage_records_nothing(memory):
    """Fake models and some proxies tell none."""
    plan = memory.prompts.plan(model="claude-sonnet-5", messages=[{"role": "user", "content": "Hi"}], scope="ada")
    TieredPromptPlanMiddleware(memory).record(plan, AIMessage("hi"))
    assert memory.prompts.stats()["requests"] == 0


def test_what_langchain_calls_when_it_sends_a_request_is_still_called_that():
    """Pins today's upstream: the payload of a request, and the method that every invocation goes through."""
    for name in ("_get_request_payload", "_generate_with_cache", "_agenerate_with_cache"):
        assert callable(getattr(ChatAnthropic, name))


def test_two_agents_that_call_in_turns_plan_their_own_requests(memory, endpoint, opened):
    other = opened("other.db")
    for kept in (memory, other):
        told(kept)
    first = agent_of(claude(endpoint), memory)
    second = agent_of(claude(endpoint), other)
    for n in range(2):
        ask(first, n)
        ask(second, n)
    assert memory.prompts.stats()["requests"] == other.prompts.stats()["requests"] == 2


WRAPPED = {
    "retry": lambda model: model.with_retry(),
    "bound settings": lambda model: model.bind(stop=["x"]),
    "bound tools": lambda model: model.bind_tools([weather]),
    "another one in its place": lambda model: model.with_fallbacks([ScriptedModel()]),
    "all of them": lambda model: model.bind(stop=["x"]).with_retry().with_fallbacks([ScriptedModel()]),
}


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
def test_a_model_inside_wrappers_is_planned_like_the_model_alone(memory, endpoint, clock, wrap):
    told(memory)
    agent = agent_of(wrap(claude(endpoint)), memory)
    for n in range(2):
        ask(agent, n)
        clock.advance(20)
    where = [marks(request) for request in endpoint.requests]
    assert all(1 <= len(found) <= 4 for found in where)
    stats = memory.prompts.stats()
    assert stats["requests"] == 2
    assert endpoint.requests[0]["system"]


def test_a_fallback_that_is_anthropics_is_planned_and_the_first_model_gets_a_clean_request(memory, endpoint):
    class Away(ScriptedModel):
        def _generate(self, messages, *args, **kwargs):
            self._requests.append((messages, kwargs))
            raise ConnectionError("away")

    first = Away()
    ask(agent_of(first.with_fallbacks([claude(endpoint)]), memory), 0)
    assert "cache_control" not in str(first.requests)
    assert marks(endpoint.requests[0])
    assert memory.prompts.stats()["requests"] == 1
