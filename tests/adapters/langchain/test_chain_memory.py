"""A classic chain's memory: the recent messages, recall beside them, and the keys as upstream has them."""

import subprocess
import sys

import pytest
from langchain_classic.chains import ConversationChain, LLMChain
from langchain_classic.memory import ConversationBufferMemory
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate

from langchain_tiered_memory import TieredChainMemory
from tests.adapters.langchain.fakes import GatedEmbedder, ScriptedLLM, ScriptedModel

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.deprecation.LangChainDeprecationWarning")


def chain_memory(memory, **given):
    return TieredChainMemory(memory=memory, session_id="s1", **given)


def test_it_returns_exactly_its_variable_as_text_or_as_messages(memory):
    text = chain_memory(memory)
    text.save_context({"input": "hi"}, {"output": "hello"})
    assert text.memory_variables == ["history"]
    assert text.load_memory_variables({}) == {"history": "Human: hi\nAI: hello"}
    named = chain_memory(memory, memory_key="past", human_prefix="Ada", ai_prefix="Bot")
    assert named.load_memory_variables({}) == {"past": "Ada: hi\nBot: hello"}
    messages = chain_memory(memory, return_messages=True).load_memory_variables({})
    assert messages == {"history": [HumanMessage("hi"), AIMessage("hello")]}


def test_an_empty_conversation_gives_an_empty_text_or_list(memory):
    assert chain_memory(memory).load_memory_variables({"input": "hi"}) == {"history": ""}
    assert chain_memory(memory, return_messages=True).load_memory_variables({"input": "hi"}) == {"history": []}


def test_only_the_last_messages_of_a_long_persistent_history_are_shown_also_after_reopening(opened):
    first = opened()
    ours = chain_memory(first, window=4)
    for n in range(10):
        ours.save_context({"input": f"question {n}"}, {"output": f"answer {n}"})
    shown = {"history": "Human: question 8\nAI: answer 8\nHuman: question 9\nAI: answer 9"}
    assert ours.load_memory_variables({}) == shown
    first.close()
    again = opened()
    assert chain_memory(again, window=4).load_memory_variables({}) == shown
    assert len(again.context("s1").history()) == 20


def test_what_fell_out_of_the_window_comes_back_when_it_matters(memory):
    ours = chain_memory(memory, window=2)
    ours.save_context({"input": "I take my coffee black."}, {"output": "Noted."})
    ours.save_context({"input": "It rains."}, {"output": "It does."})
    history = ours.load_memory_variables({"input": "How do I take my coffee?"})["history"]
    assert history.startswith("Human: It rains.\nAI: It does.\n<recalled_memories>")
    assert "I take my coffee black." in history


def test_recall_does_not_repeat_what_the_window_shows(memory):
    ours = chain_memory(memory)
    ours.save_context({"input": "I take my coffee black."}, {"output": "Noted."})
    history = ours.load_memory_variables({"input": "How do I take my coffee?"})["history"]
    assert history == "Human: I take my coffee black.\nAI: Noted."


def test_an_answer_that_only_repeats_what_was_recalled_strengthens_that_memory(memory):
    fact = memory.remember("Ada lives in Rome near the river.", role="assistant")
    before = memory.get(fact.id).access_count
    ours = chain_memory(memory)
    assert "Rome" in ours.load_memory_variables({"input": "Where does Ada live?"})["history"]
    ours.save_context({"input": "Where does Ada live?"}, {"output": "Ada lives in Rome near the river"})
    assert {m.text for m in memory.long_term.list()} == {fact.text, "Where does Ada live?"}
    assert memory.get(fact.id).access_count > before
    ours.save_context({"input": "Where?"}, {"output": "Ada lives in Rome near the river!"})  # nothing was recalled
    assert len(memory.long_term.list()) == 4


def test_each_of_two_turns_under_way_is_ended_with_what_it_recalled_itself(memory):
    memory.remember("Ada lives in Rome near the river.", role="assistant")
    memory.remember("Bob plays the old violin well.", role="assistant")
    ours = chain_memory(memory, window=0)
    for question in ("Where does Ada live?", "What does Bob play?"):
        ours.load_memory_variables({"input": question})
    ours.save_context({"input": "What does Bob play?"}, {"output": "Bob plays the old violin well"})
    ours.save_context({"input": "Where does Ada live?"}, {"output": "Ada lives in Rome near the river"})
    assert len(memory.long_term.list()) == 4


def test_turns_that_never_end_are_not_kept_for_ever(memory):
    ours = chain_memory(memory)
    for n in range(300):
        ours.load_memory_variables({"input": f"question {n}"})
    assert len(ours._begun) == 100


def test_another_session_recalls_what_this_one_was_told(memory):
    chain_memory(memory).save_context({"input": "I take my coffee black."}, {"output": "Noted."})
    other = TieredChainMemory(memory=memory, session_id="s2", return_messages=True)
    (block,) = other.load_memory_variables({"input": "How do I take my coffee?"})["history"]
    assert isinstance(block, HumanMessage)
    assert "I take my coffee black." in block.content


def test_several_input_or_output_keys_need_a_name(memory):
    ours = chain_memory(memory)
    with pytest.raises(ValueError, match="One input key expected got"):
        ours.save_context({"a": "1", "b": "2"}, {"output": "x"})
    with pytest.raises(ValueError, match="One input key expected got"):
        ours.save_context({}, {"output": "x"})
    with pytest.raises(ValueError, match="set output_key"):
        ours.save_context({"input": "1"}, {"a": "x", "b": "y"})
    with pytest.warns(UserWarning, match="takes 'output'"):
        ours.save_context({"input": "1"}, {"output": "x", "b": "y"})
    named = chain_memory(memory, input_key="a", output_key="b")
    named.save_context({"a": "2", "b": "ignored"}, {"a": "ignored", "b": "y"})
    assert [m["content"] for m in memory.context("s1").history()] == ["1", "x", "2", "y"]


def test_the_memory_variable_and_stop_are_no_input(memory):
    chain_memory(memory).save_context({"input": "1", "history": "…", "stop": ["x"]}, {"output": "y"})
    assert memory.context("s1").history()[0]["content"] == "1"


def test_clear_erases_the_conversation_and_keeps_the_memories(memory):
    ours = chain_memory(memory)
    ours.save_context({"input": "I take my coffee black."}, {"output": "Noted."})
    ours.clear()
    assert ours.load_memory_variables({})["history"] == ""
    assert memory.context("s1").history() == []
    assert [hit.memory.text for hit in memory.recall("coffee")][:1] == ["I take my coffee black."]


def test_two_scopes_share_no_history(memory):
    chain_memory(memory, scope="ada").save_context({"input": "I am Ada."}, {"output": "Hello Ada."})
    assert chain_memory(memory, scope=lambda: "bob").load_memory_variables({"input": "Who am I? Ada?"}) == {
        "history": ""
    }


def test_it_works_in_a_conversation_chain(memory):
    model = ScriptedLLM()
    chain = ConversationChain(llm=model, memory=chain_memory(memory))
    assert chain.invoke({"input": "I take my coffee black."})["response"] == "answer 1"
    assert chain.invoke({"input": "And tea?"})["history"] == "Human: I take my coffee black.\nAI: answer 1"


def test_it_works_in_an_llm_chain_with_messages(memory):
    model = ScriptedModel()
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{question}")]
    )
    chain = LLMChain(llm=model, prompt=prompt, memory=chain_memory(memory, return_messages=True))
    chain.invoke({"question": "I take my coffee black."})
    chain.invoke({"question": "And tea?"})
    assert [m.content for m in model.requests[1][0]] == ["Be brief.", "I take my coffee black.", "ok", "And tea?"]


def test_it_works_in_an_llm_chain_with_two_inputs(memory):
    prompt = PromptTemplate.from_template("{style} {history} {question}")
    chain = LLMChain(llm=ScriptedLLM(), prompt=prompt, memory=chain_memory(memory, input_key="question"))
    chain.invoke({"style": "brief", "question": "hi"})
    assert chain.invoke({"style": "brief", "question": "again"})["history"] == "Human: hi\nAI: answer 1"


async def test_the_async_twins_do_the_same_off_the_loop(opened):
    import asyncio

    embedder = GatedEmbedder()
    memory = opened(embedder=embedder)
    ours = chain_memory(memory)
    saving = asyncio.ensure_future(ours.asave_context({"input": "hi"}, {"output": "hello"}))
    assert await asyncio.to_thread(embedder.entered.wait, 5)
    embedder.gate.set()
    await saving
    assert all(embedder.let_go)
    assert await ours.aload_memory_variables({}) == {"history": "Human: hi\nAI: hello"}
    await ours.aclear()
    assert await ours.aload_memory_variables({}) == {"history": ""}


def test_the_package_does_without_langchain_classic_until_the_class_is_touched():
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "langchain_classic":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import langchain_tiered_memory
langchain_tiered_memory.TieredMemoryMiddleware
try:
    langchain_tiered_memory.TieredChainMemory
except ImportError as error:
    print(type(error).__name__, error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == (
        "MissingExtra TieredChainMemory needs an extra that is not installed: "
        "in a checkout of this project, pip install '.[classic]'\n"
    )


@pytest.mark.parametrize("given", [{}, {"return_messages": True}])
def test_an_empty_text_is_shown_as_the_reference_shows_it(memory, given):
    ours = TieredChainMemory(memory=memory, session_id="s", recall=False, **given)
    reference = ConversationBufferMemory(**given)
    for one in (ours, reference):
        one.save_context({"input": ""}, {"output": ""})
    assert ours.load_memory_variables({}) == reference.load_memory_variables({})
