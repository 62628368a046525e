"""``planned_anthropic`` with the real model and the real SDK, against the local endpoint.

They need llama-index-llms-anthropic with an SDK it can run with, which no other test environment has: ``make
test-anthropic1`` makes one, sets ``ANTHROPIC1``, and there nothing is skipped.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import os
import pickle
import sys
import types

import pytest
from llama_index.core import PromptTemplate
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import CacheControl, CachePoint, ChatMessage, TextBlock, ThinkingBlock
from pydantic import BaseModel

from llama_index_tiered_memory import TieredAgentMemory, cached_llm, planned_anthropic
from llama_index_tiered_memory.anthropic_llm import _base
from shared_core import InvalidInput, MissingExtra, ScopeRequired
from shared_core.testing.prompt_endpoint import PromptEndpoint


def why_not():
    """Why the real model cannot run here, or None."""
    try:
        _base()
    except MissingExtra as error:
        return str(error)
    return None


REASON = why_not()
real = pytest.mark.skipif(REASON is not None and "ANTHROPIC1" not in os.environ, reason=str(REASON))

SYSTEM = "You are a careful assistant who knows the weather. " * 400  # about 4 000 tokens: worth caching
MODEL = "claude-sonnet-5"


@pytest.fixture
def endpoint():
    with PromptEndpoint() as running:
        yield running


@pytest.fixture
async def anthropic_model(endpoint):
    """Make the real model on the endpoint; its clients are closed at the end."""
    kind = importlib.import_module("llama_index.llms.anthropic").Anthropic
    clients = []

    def make(**fields):
        made = kind(**{"model": MODEL, "base_url": endpoint.url, "api_key": "x", "max_retries": 0, **fields})
        clients.append((made._client, made._aclient))
        return made

    yield make
    for client, aclient in clients:
        client.close()
        await aclient.close()


def marks(request):
    """Where breakpoints stand in a request, "automatic" for one at its top level."""
    found = ["automatic"] if "cache_control" in request else []
    for name in ("tools", "system", "messages"):
        found += [(name, *path) for path in _inside(request.get(name))]
    return found


def _inside(part, path=()):
    if isinstance(part, dict):
        if "cache_control" in part:
            yield path
        for key, value in part.items():
            yield from _inside(value, (*path, key))
    elif isinstance(part, list):
        for index, value in enumerate(part):
            yield from _inside(value, (*path, index))


async def say(llm, how, messages):
    """Send the messages this way; the last chunk."""
    found = getattr(llm, how)(messages)
    if how.startswith("a"):
        found = await found
    if "stream" not in how:
        return found
    chunks = [chunk async for chunk in found] if how.startswith("a") else list(found)
    return chunks[-1]


POINT = CachePoint(cache_control=CacheControl(type="ephemeral", ttl="5m"))
SENT = {
    "nothing marked": ({}, lambda said: [TextBlock(text=said)]),
    "cache_idx on every message": ({"cache_idx": -1}, lambda said: [TextBlock(text=said)]),
    "a cache point after every message": ({}, lambda said: [TextBlock(text=said), POINT]),
    "both, and two blocks": (
        {"cache_idx": -1},
        lambda said: [TextBlock(text=said), POINT, TextBlock(text=said), POINT],
    ),
    "an automatic breakpoint": (
        {"additional_kwargs": {"cache_control": {"type": "ephemeral"}}},
        lambda said: [TextBlock(text=said), POINT],
    ),
}


@real
@pytest.mark.parametrize("how", ["chat", "achat", "stream_chat", "astream_chat"])
@pytest.mark.parametrize(("fields", "blocks"), SENT.values(), ids=SENT)
async def test_at_most_four_breakpoints_arrive_whatever_is_sent_and_the_prefix_is_read(
    fields, blocks, how, endpoint, anthropic_model, memory
):
    llm = planned_anthropic(anthropic_model(**fields), memory)
    said = [ChatMessage(role="system", content=SYSTEM)]
    for turn in range(7):
        said.append(ChatMessage(role="user", blocks=blocks(f"Question {turn}? " + "Say more. " * 40)))
        said.append((await say(llm, how, said)).message)
    assert len(endpoint.requests) == 7
    for request in endpoint.requests:
        assert 1 <= len(marks(request)) <= 4
    reads = [usage["cache_read_input_tokens"] for usage in endpoint.usages]
    assert reads[0] == 0
    assert reads[1:] == sorted(reads[1:])
    assert reads[1] > 3_000
    stats = memory.prompts.stats()
    assert (stats["requests"], stats["read_tokens"]) == (7, sum(reads))
    written = sum(usage["cache_creation_input_tokens"] for usage in endpoint.usages)
    assert stats["written_5m_tokens"] + stats["written_1h_tokens"] == written


@real
async def test_without_a_plan_the_same_messages_are_refused(endpoint, anthropic_model, memory):
    """What the plan is for: one breakpoint a message is five too many in a conversation of nine."""
    model = anthropic_model(cache_idx=-1)
    said = [ChatMessage(role="user" if i % 2 == 0 else "assistant", content=f"{i}") for i in range(9)]
    with pytest.raises(Exception, match="cache_control"):
        model.chat(copy.deepcopy(said))
    assert planned_anthropic(model, memory).chat(copy.deepcopy(said)).message.content == "Understood."


def weather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


def replies(request):
    last = request["messages"][-1]["content"]
    if isinstance(last, list) and any(block["type"] == "tool_result" for block in last):
        return "It rains in Oslo."
    return [
        {"type": "tool_use", "id": f"toolu_{len(request['messages'])}", "name": "weather", "input": {"city": "Oslo"}}
    ]


@real
@pytest.mark.parametrize("streaming", [True, False])
async def test_an_agent_with_tools_reads_system_tools_and_history_from_the_cache(streaming, anthropic_model, memory):
    with PromptEndpoint(reply=replies) as endpoint:
        llm = planned_anthropic(anthropic_model(base_url=endpoint.url), memory)
        agent = FunctionAgent(llm=llm, tools=[weather], system_prompt=SYSTEM, streaming=streaming)
        own = TieredAgentMemory(memory=memory, session_id="s")
        for turn in range(3):
            assert str(await agent.run(f"Weather in Oslo, {turn}?", memory=own)) == "It rains in Oslo."
    assert len(endpoint.requests) == 6
    assert all(request["tools"][0]["name"] == "weather" for request in endpoint.requests)
    assert all(1 <= len(marks(request)) <= 4 for request in endpoint.requests)
    assert any(place[0] == "system" for place in marks(endpoint.requests[0]))  # a prefix that holds the tools too
    assert [usage["cache_read_input_tokens"] > 3_000 for usage in endpoint.usages] == [False] + [True] * 5
    assert memory.prompts.stats()["hits"] == 5


@real
async def test_reads_are_seen_in_the_answers_own_usage(endpoint, anthropic_model, memory):
    llm = planned_anthropic(anthropic_model(), memory)
    said = [ChatMessage(role="system", content=SYSTEM), ChatMessage(role="user", content="Hello.")]
    assert llm.chat(said).raw["usage"].cache_creation_input_tokens > 3_000
    assert llm.chat(said).raw["usage"].cache_read_input_tokens > 3_000
    assert (await llm.achat(said)).raw["usage"].cache_read_input_tokens > 3_000


class Form(BaseModel):
    """What is known."""

    city: str


@real
async def test_structured_output_is_planned_too(anthropic_model, memory):
    with PromptEndpoint(reply='{"city": "Oslo"}') as endpoint:
        llm = planned_anthropic(anthropic_model(base_url=endpoint.url), memory)
        prompt = PromptTemplate(SYSTEM + "Where is {who}?")
        assert llm.structured_predict(Form, prompt, who="Ada") == Form(city="Oslo")
        assert await llm.astructured_predict(Form, prompt, who="Ada") == Form(city="Oslo")
    assert [len(marks(request)) for request in endpoint.requests] == [1, 1]
    assert endpoint.usages[1]["cache_read_input_tokens"] > 3_000


@real
def test_a_mark_where_none_is_allowed_does_not_reach_the_provider(endpoint, anthropic_model, memory):
    """A CachePoint behind a thought marks the thought, and the API refuses that."""
    thought = ThinkingBlock(content="Hm.", additional_information={"signature": "sig"})
    said = [
        ChatMessage(role="user", content="Hello."),
        ChatMessage(role="assistant", blocks=[thought, POINT, TextBlock(text="Hello.")]),
        ChatMessage(role="user", content="And now?"),
    ]
    assert planned_anthropic(anthropic_model(), memory).chat(said).message.content == "Understood."
    (request,) = endpoint.requests
    assert "cache_control" not in request["messages"][1]["content"][0]


@real
def test_the_model_given_stays_as_it_is_and_the_one_returned_is_of_its_class(endpoint, anthropic_model, memory):
    anthropic = importlib.import_module("anthropic")
    model = anthropic_model(system_prompt="Be brief.")
    client = model._client
    llm = planned_anthropic(model, memory)
    assert isinstance(llm, type(model))
    assert type(model) is importlib.import_module("llama_index.llms.anthropic").Anthropic
    assert model._client is client
    assert llm.metadata == model.metadata
    assert llm.to_dict() == model.to_dict()
    assert isinstance(llm._client, anthropic.Anthropic)
    assert isinstance(llm._aclient, anthropic.AsyncAnthropic)
    assert not isinstance(llm._client, anthropic.AnthropicBedrock | anthropic.AnthropicVertex)
    assert llm.unplanned()._client is client
    assert type(llm.unplanned()) is type(model)
    model.chat([ChatMessage(role="system", content=SYSTEM), ChatMessage(content="Hello.")])
    assert marks(endpoint.requests[-1]) == []


@real
def test_a_model_planned_twice_is_planned_once_by_the_last(endpoint, anthropic_model, memory, open_memory):
    other = open_memory("other.db")
    llm = planned_anthropic(planned_anthropic(anthropic_model(), memory), other)
    llm.chat([ChatMessage(content="Hello.")])
    assert (memory.prompts.stats()["requests"], other.prompts.stats()["requests"]) == (0, 1)


@real
def test_a_copy_is_planned_and_a_pickle_says_that_it_cannot_be(endpoint, anthropic_model, memory):
    llm = planned_anthropic(anthropic_model(), memory)
    for again in (copy.deepcopy(llm), llm.model_copy()):
        again.chat([ChatMessage(content="Hello.")])
    assert memory.prompts.stats()["requests"] == 2
    with pytest.raises(TypeError, match="PlannedAnthropic cannot be pickled"):
        pickle.dumps(llm)
    assert llm.chat([ChatMessage(content="Hello.")]).message.content == "Understood."


@real
def test_the_scope_is_asked_at_each_call(endpoint, anthropic_model, open_memory):
    memory = open_memory("none.db", default_scope=None)
    with pytest.raises(ScopeRequired):
        planned_anthropic(anthropic_model(), memory)
    who = ["ada"]
    llm = planned_anthropic(anthropic_model(), memory, scope=lambda: who[0])
    llm.chat([ChatMessage(content="Hello.")])
    who[0] = None
    with pytest.raises(ScopeRequired):
        llm.chat([ChatMessage(content="Hello.")])
    assert memory.prompts.clear_scope("ada") == 1


@real
@pytest.mark.parametrize("how", ["chat", "achat", "stream_chat", "astream_chat", "complete"])
async def test_its_answers_can_be_kept_and_come_back_in_their_own_type(how, endpoint, anthropic_model, memory):
    llm = cached_llm(planned_anthropic(anthropic_model(), memory), memory)
    asked = "Hello." if how == "complete" else [ChatMessage(content="Hello.")]
    first, second = await say(llm, how, asked), await say(llm, how, asked)
    assert len(endpoint.requests) == 1
    assert type(second) is type(first)
    assert second.citations == []
    assert second.raw["tiered_memory"]["hit"]
    assert second.raw["tiered_memory"]["input_tokens"] > 0 or "stream" in how
    if how != "complete":
        assert second.message == first.message


@real
def test_a_temperature_that_the_sdk_does_not_take_is_found_before_the_first_call(anthropic_model, memory):
    old = anthropic_model(model="claude-sonnet-4-5")
    if "temperature" in inspect.signature(old._client.messages.create).parameters:
        assert planned_anthropic(old, memory).chat([ChatMessage(content="Hello.")]).message.content == "Understood."
        return
    with pytest.raises(
        MissingExtra, match=r"takes no temperature, .* for claude-sonnet-4-5: pip install 'anthropic<1'$"
    ):
        planned_anthropic(old, memory)


@real
def test_another_model_is_refused(anthropic_model, memory):
    with pytest.raises(InvalidInput, match=r"expected llama_index.llms.anthropic.Anthropic, got str; write planned_"):
        planned_anthropic("claude", memory)


# Where it cannot run


def stand_in(monkeypatch, **functions):
    """Put other modules in the place of llama-index-llms-anthropic's."""
    for name in ("llama_index.llms.anthropic.base", "llama_index.llms.anthropic.utils"):
        module = types.ModuleType(name) if functions else None
        for function, body in functions.items():
            setattr(module, function, body)
        monkeypatch.setitem(sys.modules, name, module)


def test_without_the_model_it_says_what_to_install(memory, monkeypatch):
    stand_in(monkeypatch)
    with pytest.raises(MissingExtra, match=r"Anthropic model: pip install llama-index-llms-anthropic 'anthropic<1'$"):
        planned_anthropic(object(), memory)


def test_with_an_sdk_that_the_model_cannot_use_it_says_which_works(memory, monkeypatch):
    def build(messages, *_):
        raise TypeError("Cannot instantiate typing.Union")

    stand_in(monkeypatch, messages_to_anthropic_messages=build)
    with pytest.raises(
        MissingExtra,
        match=r"^llama-index-llms-anthropic .* cannot build a request with anthropic .* \(Cannot instantiate typing.Union\); "
        r"releases below 1 do for every model: pip install llama-index-llms-anthropic 'anthropic<1'$",
    ):
        planned_anthropic(object(), memory)
