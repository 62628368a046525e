"""An agent's model answers, replayed: what is the same request, what an answer looks like when it comes again."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelFallbackMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models import FakeMessagesListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from langchain_tiered_memory import TieredMemoryMiddleware, TieredResponseCacheMiddleware
from tests.adapters.langchain.fakes import ScriptedModel, calling, user

USAGE = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def script():
    return [
        calling("weather", {"city": "Rome"}, id="c1", usage_metadata=USAGE),
        AIMessage("It is sunny.", usage_metadata=USAGE),
        AIMessage("You are welcome.", usage_metadata=USAGE),
    ]


def caching(memory, **given):
    return TieredMemoryMiddleware(memory, **{"response_cache": True, "remember": False, **given})


def two_turns(model, memory, **given):
    agent = create_agent(model, [weather], middleware=[caching(memory, **given)], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "t1"}}
    agent.invoke(user("How is Rome?"), thread)
    return agent.invoke(user("Thank you."), thread)["messages"]


def counts(memory):
    return memory.stats()["mid_term"]["responses"]


def test_off_by_default(memory):
    model = ScriptedModel()
    agent = create_agent(model, [], middleware=[TieredMemoryMiddleware(memory, remember=False)])
    for _ in range(2):
        agent.invoke(user("hi"))
    assert model.calls == 2


def test_the_same_conversation_again_asks_the_model_nothing(memory):
    first, second = ScriptedModel(script=script()), ScriptedModel(script=[AIMessage("never asked")])
    spoken = two_turns(first, memory)
    again = two_turns(second, memory)
    assert (first.calls, second.calls) == (3, 0)
    assert [m.content for m in again] == [m.content for m in spoken]


def test_the_same_conversation_in_another_process_asks_the_model_nothing(opened, tmp_path):
    memory = opened()
    memory.remember("In Rome I like to walk.")  # it is recalled, and the key covers it
    spoken = two_turns(ScriptedModel(script=script()), memory)
    memory.close()
    code = f"""
import json
from langchain_core.messages import AIMessage
from shared_core import TieredMemory
from shared_core.testing import FakeClock
from tests.adapters.langchain.fakes import ScriptedModel
from tests.adapters.langchain.test_middleware_responses import two_turns

model = ScriptedModel(script=[AIMessage("never asked")])
with TieredMemory.open({str(tmp_path / "memory.db")!r}, default_scope="ada", embedder="none", clock=FakeClock()) as memory:
    print(json.dumps([model.calls, *(m.content for m in two_turns(model, memory))]))
    print(model.calls)
"""
    root = Path(__file__).parents[3]
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    said, calls = out.stdout.splitlines()
    assert json.loads(said)[1:] == [m.content for m in spoken]
    assert calls == "0"


def test_what_is_newly_recalled_makes_another_request(memory):
    model = ScriptedModel(script=[AIMessage("You did not tell me."), AIMessage("Black.")])
    agent = create_agent(model, [], middleware=[caching(memory)])
    answers = [agent.invoke(user("How do I take my coffee?"))["messages"][-1].content]
    memory.remember("I take my coffee black.")
    answers += [agent.invoke(user("How do I take my coffee?"))["messages"][-1].content for _ in range(2)]
    assert answers == ["You did not tell me.", "Black.", "Black."]
    assert model.calls == 2


def test_a_hit_is_a_new_marked_message_with_the_token_counts_of_the_first_answer(memory):
    agent = create_agent(
        ScriptedModel(script=[AIMessage("ok", usage_metadata=USAGE)]), [], middleware=[caching(memory)], name="helper"
    )
    first, second, third = (agent.invoke(user("hi"))["messages"][-1] for _ in range(3))
    assert len({first.id, second.id, third.id}) == 3
    assert "cache" not in first.response_metadata
    assert second.response_metadata["cache"]["hit"] is True
    for message in (second, third):
        assert AIMessage(**message.model_dump()).usage_metadata["total_tokens"] == 10  # valid when it is built again
    assert (second.name, third.name) == ("helper", "helper")


def test_a_hit_without_known_usage_still_has_valid_counts(memory):
    agent = create_agent(ScriptedModel(), [], middleware=[caching(memory)])
    for _ in range(2):
        message = agent.invoke(user("hi"))["messages"][-1]
    assert AIMessage(**message.model_dump()).usage_metadata["input_tokens"] == 0


def test_what_hits_saved_is_counted_apart_from_what_was_paid(memory):
    for _ in range(2):
        two_turns(ScriptedModel(script=script()), memory)
    found = counts(memory)
    assert (found["hits"], found["saved_input_tokens"], found["saved_output_tokens"]) == (3, 21, 9)
    assert memory.prompts.stats()["requests"] == 0


def test_two_answers_to_one_question_in_one_thread_are_two_messages(memory):
    agent = create_agent(ScriptedModel(), [], middleware=[caching(memory)])
    ids = [agent.invoke(user("hi"))["messages"][-1].id for _ in range(3)]
    both = agent.invoke({"messages": [HumanMessage("hi"), AIMessage("ok", id=ids[0]), HumanMessage("hi")]})
    assert len(both["messages"]) == 4


@pytest.mark.parametrize(
    ("reason", "flaw"), [("max_tokens", "truncated"), ("refusal", "refused"), ("pause_turn", "unfinished")]
)
def test_truncated_refused_and_unfinished_answers_are_asked_for_again(memory, reason, flaw):
    class Stopping(ScriptedModel):
        def _generate(self, *args, **kwargs):
            result = super()._generate(*args, **kwargs)
            result.generations[0].generation_info = None
            return result

    model = Stopping(script=[AIMessage("half an", response_metadata={"stop_reason": reason})])
    agent = create_agent(model, [], middleware=[caching(memory)])
    for _ in range(2):
        agent.invoke(user("hi"))
    assert model.calls == 2
    assert counts(memory)["not_kept"] == {flaw: 2}


def test_a_model_that_fails_leaves_nothing(memory):
    def fail(messages):
        raise RuntimeError("no answer")

    model = ScriptedModel(script=[fail, AIMessage("ok")])
    agent = create_agent(model, [], middleware=[caching(memory)])
    with pytest.raises(RuntimeError, match="no answer"):
        agent.invoke(user("hi"))
    assert agent.invoke(user("hi"))["messages"][-1].content == "ok"


async def test_an_asynchronous_agent_has_the_same_answers(memory):
    model = ScriptedModel(script=[AIMessage("first"), AIMessage("second")])
    agent = create_agent(model, [], middleware=[caching(memory)])
    sync = agent.invoke(user("hi"))["messages"][-1].content
    both = await asyncio.gather(*(agent.ainvoke(user("hi")) for _ in range(3)))
    assert {sync, *(out["messages"][-1].content for out in both)} == {"first"}
    assert model.calls == 1


def test_a_streamed_run_gets_a_replayed_answer_as_one_message(memory):
    """A fresh answer streams in chunks; a replayed one is there at once, whole. LangChain has it so."""
    model = GenericFakeChatModel(messages=iter([AIMessage("it is sunny")]))
    agent = create_agent(model, [], middleware=[caching(memory)])
    fresh = [chunk for chunk, _ in agent.stream(user("hi"), stream_mode="messages")]
    again = [chunk for chunk, _ in agent.stream(user("hi"), stream_mode="messages")]
    assert "".join(chunk.content for chunk in fresh) == "".join(chunk.content for chunk in again) == "it is sunny"
    assert len(fresh) > 1
    assert isinstance(fresh[0], AIMessageChunk)
    assert len(again) == 1


class Report(BaseModel):
    city: str
    degrees: int


def test_a_structured_answer_comes_out_of_a_replayed_one_as_it_did_of_the_first(memory):
    model = ScriptedModel(script=[calling("Report", {"city": "Rome", "degrees": 30}, id="r1")])
    agent = create_agent(model, [], response_format=ToolStrategy(Report), middleware=[caching(memory)])
    first, second = (agent.invoke(user("How is Rome?")) for _ in range(2))
    assert model.calls == 1
    assert first["structured_response"] == second["structured_response"] == Report(city="Rome", degrees=30)
    assert [m.type for m in second["messages"]] == [m.type for m in first["messages"]] == ["human", "ai", "tool"]
    call, result = second["messages"][1:]
    assert isinstance(result, ToolMessage)
    assert result.tool_call_id == call.tool_calls[0]["id"]


def test_another_response_format_is_another_request(memory):
    class Note(BaseModel):
        text: str

    model = ScriptedModel(script=[calling("Report", {"city": "Rome", "degrees": 30}), calling("Note", {"text": "hot"})])
    for wanted in (Report, Note):
        out = create_agent(model, [], response_format=ToolStrategy(wanted), middleware=[caching(memory)]).invoke(
            user("How is Rome?")
        )
        assert isinstance(out["structured_response"], wanted)
    assert model.calls == 2


def test_tools_that_return_commands_run_again_behind_a_replayed_call(memory):
    ran = []

    @tool
    def note(text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
        """Note something."""
        ran.append(text)
        return Command(update={"messages": [ToolMessage(f"noted {text}", tool_call_id=tool_call_id)]})

    model = ScriptedModel(script=[calling("note", {"text": "x"}), AIMessage("done")])
    agent = create_agent(model, [note], middleware=[caching(memory)])
    outs = [agent.invoke(user("Note x."))["messages"] for _ in range(2)]
    assert model.calls == 2
    assert ran == ["x", "x"]
    assert [[m.content for m in out] for out in outs] == [["Note x.", "", "noted x", "done"]] * 2


def test_two_settings_two_models_two_scopes_and_two_system_prompts_never_share(memory):
    def asked(model, *, scope="ada", prompt=None):
        create_agent(model, [], system_prompt=prompt, middleware=[caching(memory, scope=scope)]).invoke(user("hi"))
        return model.calls

    assert asked(ScriptedModel()) == 1
    assert asked(ScriptedModel()) == 0
    assert asked(ScriptedModel(temperature=1.0)) == 1
    assert asked(ScriptedModel(model="other")) == 1
    assert asked(ScriptedModel(), scope="bob") == 1
    assert asked(ScriptedModel(), prompt="Be brief.") == 1


def test_settings_that_another_middleware_gives_are_part_of_the_request(memory):
    class Hot(AgentMiddleware):
        def __init__(self, degrees):
            super().__init__()
            self.degrees = degrees

        def wrap_model_call(self, request, handler):
            return handler(request.override(model_settings={"temperature": self.degrees}))

    model = ScriptedModel()
    for degrees in (0, 1, 1):
        create_agent(model, [], middleware=[Hot(degrees), caching(memory)]).invoke(user("hi"))
    assert model.calls == 2


def test_a_setting_that_is_changed_on_the_model_between_two_calls_is_seen(memory):
    """LangChain's own cache key keeps the settings of the first call; pinned below."""

    class Serial(ScriptedModel):
        @classmethod
        def is_lc_serializable(cls):
            return True

    model = Serial()
    model._get_llm_string()  # as a call without the agent does
    agent = create_agent(model, [], middleware=[caching(memory)])
    agent.invoke(user("hi"))
    model.temperature = 1.0
    agent.invoke(user("hi"))
    assert model.calls == 2
    stale = Serial()
    before = stale._get_llm_string()
    stale.temperature = 1.0
    assert stale._get_llm_string() == before


def test_a_storage_that_fails_lets_the_model_answer(memory, tmp_path):
    with closing(sqlite3.connect(tmp_path / "memory.db")) as db:
        db.execute("DROP TABLE blobs")
    model = ScriptedModel()
    agent = create_agent(model, [], middleware=[caching(memory)])
    assert [agent.invoke(user("hi"))["messages"][-1].content for _ in range(2)] == ["ok", "ok"]


def test_an_answer_that_cannot_be_kept_reaches_the_agent_and_is_counted(memory):
    class Odd(AIMessage):
        pass

    class Answering(ScriptedModel):
        def _generate(self, *args, **kwargs):
            return ChatResult(generations=[ChatGeneration(message=Odd("ok"))])

    ours = caching(memory)
    out = create_agent(Answering(), [], middleware=[ours]).invoke(user("hi"))
    assert out["messages"][-1].content == "ok"
    assert ours.counts["update_failures"] == 1


def test_the_model_that_was_given_keeps_its_own_cache(memory):
    model = ScriptedModel(cache=False)
    agent = create_agent(model, [], middleware=[TieredResponseCacheMiddleware(memory)])
    for _ in range(2):
        agent.invoke(user("hi"))
    assert model.calls == 1
    assert model.cache is False


def test_planned_requests_are_replayed_too_and_a_replay_is_not_billed(memory, clock):
    anthropic = pytest.importorskip("langchain_anthropic")
    from shared_core.testing.prompt_endpoint import PromptEndpoint

    with PromptEndpoint(clock=clock) as endpoint:
        for _ in range(2):
            model = anthropic.ChatAnthropic(
                model="claude-sonnet-5", base_url=endpoint.url, api_key="none", max_retries=0
            )
            agent = create_agent(model, [weather], system_prompt="Be brief. " * 900, middleware=[caching(memory)])
            out = agent.invoke(user("hi"))
        assert len(endpoint.requests) == 1
    assert out["messages"][-1].response_metadata["cache"]["hit"] is True
    assert memory.prompts.stats()["requests"] == 1


def test_a_model_that_steps_through_a_script_steps_although_its_answers_are_kept(memory):
    """What a call changes in the model is changed in the user's own: a counter in it counts on."""
    model = FakeMessagesListChatModel(responses=[AIMessage("one"), AIMessage("two"), AIMessage("three")])
    agent = create_agent(model, [], middleware=[caching(memory)], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "t1"}}
    answers = [agent.invoke(user(text), thread)["messages"][-1].text for text in ("first", "second")]
    assert answers == ["one", "two"]
    assert model.i == 2
    assert model.cache is None


class Away(ScriptedModel):
    """A model whose provider is away."""

    def _generate(self, *args, **kwargs):
        raise ConnectionError("away")


WRAPPED = {
    "retry": lambda model: model.with_retry(),
    "bound settings": lambda model: model.bind(stop=["x"]),
    "bound tools": lambda model: model.bind_tools([weather]),
    "config": lambda model: model.with_config(tags=["a"]),
    "settings and retry": lambda model: model.bind(stop=["x"]).with_retry(stop_after_attempt=2),
    "a fallback": lambda model: model.with_fallbacks([ScriptedModel()]),
    "the fallback itself": lambda model: Away().with_fallbacks([model]),
    "retry and fallback": lambda model: Away().with_retry(stop_after_attempt=1).with_fallbacks([model.with_retry()]),
}


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_model_inside_wrappers_is_cached_and_the_wrapper_stays_as_it_was(memory, wrap, asynchronous, caplog):
    model = ScriptedModel(script=[AIMessage("one"), AIMessage("two")])
    given = wrap(model)
    before = repr(given)
    agent = create_agent(given, [], middleware=[caching(memory)])
    ask = (lambda: asyncio.run(agent.ainvoke(user("hi")))) if asynchronous else (lambda: agent.invoke(user("hi")))
    assert [ask()["messages"][-1].text for _ in range(2)] == ["one", "one"]
    assert model.calls == 1
    assert repr(given) == before
    assert "not cached" not in caplog.text


def test_settings_that_a_wrapper_binds_are_part_of_the_request(memory):
    model = ScriptedModel(script=[AIMessage("one"), AIMessage("two")])
    answers = [
        create_agent(model.bind(stop=[word]), [], middleware=[caching(memory)]).invoke(user("hi"))["messages"][-1].text
        for word in ("x", "y", "x")
    ]
    assert answers == ["one", "two", "one"]


def test_each_model_of_a_chain_of_fallbacks_has_answers_of_its_own(memory):
    """What the second said while the first was away is not what the first says."""
    first, second = (
        ScriptedModel(model="a", script=[AIMessage("first")]),
        ScriptedModel(model="b", script=[AIMessage("second")]),
    )
    away = Away(model="a")
    for model in (away.with_fallbacks([second]), first.with_fallbacks([second])):
        said = create_agent(model, [weather], middleware=[caching(memory)]).invoke(user("hi"))["messages"][-1].text
    assert said == "first"
    assert (first.calls, second.calls) == (1, 1)


def test_a_wrapped_model_that_uses_tools_is_cached_through_its_whole_loop(memory):
    first, second = ScriptedModel(script=script()), ScriptedModel(script=[AIMessage("never asked")])
    two_turns(first.with_fallbacks([ScriptedModel(model="b")]), memory)
    two_turns(second.with_fallbacks([ScriptedModel(model="b")]), memory)
    assert (first.calls, second.calls) == (3, 0)


def test_what_holds_a_model_out_of_sight_is_asked_always_counted_and_told_once(memory, caplog):
    model = ScriptedModel()
    ours = caching(memory)
    agent = create_agent(model | (lambda message: message), [], middleware=[ours])
    for _ in range(2):
        agent.invoke(user("hi"))
    assert model.calls == 2
    assert ours.counts["models_not_cached"] == 2
    assert [r.getMessage() for r in caplog.records] == [
        "responses are not cached: expected a chat model, got RunnableSequence"
    ]


def test_the_models_of_a_fallback_middleware_are_seen_by_what_stands_behind_it(memory):
    """It brings its own model in the place of the one we were shown: behind it, we are shown that one."""

    class Down(ScriptedModel):
        def _generate(self, *args, **kwargs):
            raise RuntimeError("down")

    other = ScriptedModel(model="other", script=[AIMessage("from the other")])
    for _ in range(2):
        parts = [ModelFallbackMiddleware(other), TieredResponseCacheMiddleware(memory)]
        agent = create_agent(Down(), [], middleware=parts)
        assert agent.invoke(user("hi"))["messages"][-1].content == "from the other"
    assert other.calls == 1
