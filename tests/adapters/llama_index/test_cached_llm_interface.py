"""``cached_llm`` as a model: what it passes on, what it goes through, and how it is copied and written down."""

from __future__ import annotations

import copy
import pickle

import pytest
from llama_index.core import PromptTemplate, Settings
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ToolCallBlock
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.extractors import TitleExtractor
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import LLM
from llama_index.core.llms.mock import MockLLM
from llama_index.core.schema import TextNode
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel, PrivateAttr

from llama_index_tiered_memory import cached_llm
from llama_index_tiered_memory.llm import CachedLLM
from shared_core import InvalidInput
from tests.adapters.llama_index.models import Chunked, calling, text


class Weather(BaseModel):
    """The weather in a city."""

    city: str
    sky: str


def forecast(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


HELLO = [ChatMessage(content="hello")]


def test_it_is_a_function_calling_model_with_the_metadata_and_the_attributes_of_the_one_inside(memory):
    model = Chunked(model="chunked-7", temperature=0.3, system_prompt="Be brief.")
    llm = cached_llm(model, memory)
    assert isinstance(llm, FunctionCallingLLM)
    assert llm.metadata == model.metadata
    assert (llm.model, llm.temperature, llm.system_prompt) == ("chunked-7", 0.3, "Be brief.")
    assert llm.asked is model.asked
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        llm.nothing_of_the_kind  # noqa: B018
    with pytest.raises(AttributeError):
        llm._nothing  # noqa: B018
    assert bool(llm)


@pytest.mark.parametrize(
    "how", ["chat_with_tools", "achat_with_tools", "stream_chat_with_tools", "astream_chat_with_tools"]
)
async def test_calls_with_tools_are_answered_once_and_read_by_the_model(how, memory):
    model = Chunked(calling("forecast", {"city": "Oslo"}))
    llm = cached_llm(model, memory)
    tool = FunctionTool.from_defaults(forecast)

    async def selected(**keywords):
        found = getattr(llm, how)([tool], user_msg="weather?", **keywords)
        found = await found if how.startswith("a") else found
        if "stream" in how:
            *_, found = [chunk async for chunk in found] if how.startswith("a") else list(found)
        return [(call.tool_name, call.tool_kwargs) for call in llm.get_tool_calls_from_response(found)]

    assert await selected() == await selected() == [("forecast", {"city": "Oslo"})]
    assert model.calls == 1
    assert model.asked[0][1]["tools"][0]["function"]["name"] == "forecast"
    await selected(tool_required=True)
    assert model.calls == 2
    assert model.asked[1][1]["tool_choice"] == "required"


def test_what_the_model_makes_of_an_answer_afterwards_is_not_what_is_kept(memory):
    class Forcing(Chunked):
        def _validate_chat_with_tools_response(self, response, tools, allow_parallel_tool_calls=False, **kwargs):
            if not allow_parallel_tool_calls:
                response.message.blocks = response.message.blocks[:1]
            return response

    llm = cached_llm(Forcing(calling("forecast", {"city": "Oslo"})), memory)
    tool = FunctionTool.from_defaults(forecast)
    assert len(llm.chat_with_tools([tool], user_msg="?").message.blocks) == 1
    assert len(llm.chat_with_tools([tool], user_msg="?").message.blocks) == 1
    assert len(llm.chat_with_tools([tool], user_msg="?", allow_parallel_tool_calls=True).message.blocks) == 2


async def test_predict_and_the_calls_built_on_it_go_through_the_cache(memory):
    model = Chunked(text("It is ", "rain."))
    llm = cached_llm(model, memory)
    prompt = PromptTemplate("weather in {city}?")
    assert llm.predict(prompt, city="Oslo") == await llm.apredict(prompt, city="Oslo") == "It is rain."
    assert model.calls == 1
    assert "".join(llm.stream(prompt, city="Oslo")) == "It is rain."
    assert [token async for token in await llm.astream(prompt, city="Oslo")] == ["It is ", "rain."]
    assert model.calls == 2


async def test_predict_and_call_runs_the_tool_each_time_and_asks_the_model_once(memory):
    model = Chunked(calling("forecast", {"city": "Oslo"}))
    llm = cached_llm(model, memory)
    tool = FunctionTool.from_defaults(forecast)
    assert llm.predict_and_call([tool], user_msg="weather?").response == "rain in Oslo"
    assert (await llm.apredict_and_call([tool], user_msg="weather?")).response == "rain in Oslo"
    assert model.calls == 1


async def test_the_stock_structured_output_goes_through_the_cache(memory):
    model = Chunked(calling("Weather", {"city": "Oslo", "sky": "grey"}))
    llm = cached_llm(model, memory)
    prompt = PromptTemplate("weather in {city}?")
    for _ in range(2):
        assert llm.structured_predict(Weather, prompt, city="Oslo") == Weather(city="Oslo", sky="grey")
    assert await llm.astructured_predict(Weather, prompt, city="Oslo") == Weather(city="Oslo", sky="grey")
    assert model.calls == 1
    bare = [part.model_dump() for part in model.stream_structured_predict(Weather, prompt, city="Oslo")]
    for _ in range(2):
        parts = llm.stream_structured_predict(Weather, prompt, city="Oslo")
        assert [part.model_dump() for part in parts] == bare
        parts = await llm.astream_structured_predict(Weather, prompt, city="Oslo")
        assert [part.model_dump() async for part in parts] == bare
    assert model.calls == 1 + 1 + 1  # whole, the bare one's, streamed
    assert llm.as_structured_llm(Weather).chat([ChatMessage(content="?")]).raw == Weather(city="Oslo", sky="grey")


async def test_a_models_own_structured_output_is_called_as_it_is(memory):
    class Structured(Chunked):
        _own: list = PrivateAttr(default_factory=list)

        def structured_predict(self, *given, **named):
            self._own.append((given, named))
            return "own"

        async def astructured_predict(self, *given, **named):
            return self.structured_predict(*given, **named)

        def stream_structured_predict(self, *given, **named):
            yield self.structured_predict(*given, **named)

        async def astream_structured_predict(self, *given, **named):
            async def parts():
                yield self.structured_predict(*given, **named)

            return parts()

    model = Structured()
    llm = cached_llm(model, memory)
    prompt = PromptTemplate("{city}?")
    for _ in range(2):
        assert llm.structured_predict(Weather, prompt, city="Oslo") == "own"
        assert await llm.astructured_predict(Weather, prompt, city="Oslo") == "own"
        assert list(llm.stream_structured_predict(Weather, prompt, city="Oslo")) == ["own"]
        assert [part async for part in await llm.astream_structured_predict(Weather, prompt, city="Oslo")] == ["own"]
    assert model._own == [((Weather, prompt), {"city": "Oslo"})] * 8
    assert model.calls == 0


def test_callbacks_set_from_outside_hear_the_calls_that_are_made(memory, monkeypatch):
    monkeypatch.setattr(Settings, "_llm", None)
    monkeypatch.setattr(Settings, "_callback_manager", None)
    heard = LlamaDebugHandler(print_trace_on_end=False)
    Settings.callback_manager = CallbackManager([heard])
    Settings.llm = cached_llm(MockLLM(max_tokens=1), memory)
    for _ in range(2):
        assert Settings.llm.complete("hello").text == "text"
    assert len(heard.get_event_pairs(CBEventType.LLM)) == 1


def test_what_is_set_on_it_is_set_on_the_model_and_a_setting_it_does_not_have_is_an_error(memory):
    model = MockLLM()  # a chat is put into one prompt
    llm = cached_llm(model, memory)
    first = llm.chat(HELLO).message.content
    llm.messages_to_prompt = lambda messages: "other words"
    assert llm.chat(HELLO).message.content == "other words" != first
    with pytest.raises(ValueError, match="temperature"):
        llm.temperature = 1.0
    llm.max_tokens = 2
    assert model.max_tokens == llm.max_tokens == 2
    assert llm.complete("a b c").text == model.complete("a b c").text


def test_a_call_whose_id_is_the_tools_name_comes_back_under_it(memory):
    said = ChatMessage(
        role="assistant", blocks=[ToolCallBlock(tool_call_id="look", tool_name="look", tool_kwargs={"at": 1})]
    )
    model = Chunked(lambda messages: iter([ChatResponse(message=said.model_copy(deep=True))]))
    llm = cached_llm(model, memory)
    result = ChatMessage(role="tool", content="1", additional_kwargs={"tool_call_id": "look"})
    asked = [*HELLO, said, result]
    assert llm.chat(asked).message == llm.chat(asked).message == said
    assert model.calls == 1


class Secretive(Chunked):
    """A model that keeps what it is, and how often it was asked, to itself."""

    _voice: str = PrivateAttr(default="")
    _style: dict = PrivateAttr(default_factory=dict)
    _times: int = PrivateAttr(default=0)

    def chat(self, messages, **kwargs):
        self._times += 1
        *_, last = text(f"{self._voice} {self._style}")(messages)
        return last.model_copy(update={"delta": None})


def test_models_of_one_class_that_differ_in_private_share_no_answer(memory):
    heard = []
    for voice, style in [("bass", {}), ("alto", {}), ("alto", {"dry": True})]:
        model = Secretive()
        model._voice, model._style = voice, style
        llm = cached_llm(model, memory)
        heard.append(llm.chat(HELLO).message.content)
        for kept in (llm, copy.deepcopy(llm), llm.model_copy(), cached_llm(model, memory)):
            assert kept.chat(HELLO).message.content == heard[-1]
        assert model._times == 1  # a private count of calls makes no request another one
    assert len(set(heard)) == 3
    again = Secretive()
    again._voice = "bass"
    assert cached_llm(again, memory).chat(HELLO).raw["tiered_memory"]["hit"]


# Copies


def test_a_pickled_one_comes_back_on_the_same_file_and_leaves_the_live_one_whole(memory):
    model = MockLLM(max_tokens=2)
    llm = cached_llm(model, memory)
    llm.complete("a")
    again = pickle.loads(pickle.dumps(llm))  # noqa: S301  our own
    assert type(again) is CachedLLM
    assert again.complete("a").raw["tiered_memory"]["hit"]
    assert llm.complete("a").raw["tiered_memory"]["hit"]


def test_pickling_takes_nothing_away_from_the_live_model(memory):
    model = Chunked(lambda messages: iter([ChatResponse(message=HELLO[0])]))  # its script cannot be pickled
    llm = cached_llm(model, memory)
    pickle.dumps(llm)
    assert llm.chat(HELLO).message == HELLO[0]


@pytest.mark.parametrize("deep", [False, True])
def test_a_copy_with_another_setting_asks_a_model_with_that_setting(deep, memory):
    """The one that was copied stays as it was."""
    llm = cached_llm(Chunked(), memory)
    other = llm.model_copy(update={"temperature": 0.9, "system_prompt": "Be kind."}, deep=deep)
    assert (other.temperature, other.llm.temperature, other.llm.system_prompt) == (0.9, 0.9, "Be kind.")
    assert (llm.temperature, llm.llm.system_prompt) == (0.0, None)
    llm.complete("hello")
    assert "tiered_memory" not in (other.complete("hello").raw or {})
    assert "tiered_memory" in llm.model_copy().complete("hello").raw


def test_a_deep_copy_shares_the_model_and_the_answers(memory):
    model = Chunked()
    llm = cached_llm(model, memory)
    llm.chat(HELLO)
    assert copy.deepcopy(llm).chat(HELLO).raw["tiered_memory"]["hit"]
    assert llm.model_copy().chat(HELLO).raw["tiered_memory"]["hit"]
    assert model.calls == 1


def test_a_dump_carries_the_model_and_the_address_and_comes_back(memory):
    llm = cached_llm(MockLLM(max_tokens=2), memory, scope="bob")
    dumped = llm.to_dict()
    assert dumped["class_name"] == "CachedLLM"
    assert dumped["llm"]["class_name"] == "MockLLM"
    assert (dumped["location"], dumped["scope"]) == (memory.storage.location, "bob")
    llm.complete("a")
    assert CachedLLM.from_dict(dumped).complete("a").raw["tiered_memory"]["hit"]
    assert isinstance(llm.to_json(), str)


def test_without_a_file_it_is_fingerprinted_and_dumped_but_does_not_come_back(open_memory):
    memory = open_memory(":memory:")
    llm = cached_llm(MockLLM(max_tokens=2), memory)
    assert get_transformation_hash([TextNode(text="a")], TitleExtractor(llm=llm))
    assert llm.to_dict() == {"llm": llm.llm.to_dict(), "class_name": "CachedLLM"}
    with pytest.raises(InvalidInput, match="expected a memory in a file to serialise"):
        pickle.dumps(llm)
    with pytest.raises(ValueError, match=r"expected where the memory is, got none.*cached_llm\(llm, memory\)"):
        CachedLLM.from_dict(llm.to_dict())


def test_every_way_of_asking_a_model_is_covered():
    """A release of LlamaIndex with a new way of asking must be looked at."""
    asks = set(LLM.__abstractmethods__ | FunctionCallingLLM.__abstractmethods__)
    assert asks - {"metadata", "_prepare_chat_with_tools"} <= set(vars(CachedLLM))
