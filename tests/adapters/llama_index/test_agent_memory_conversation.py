"""``TieredAgentMemory``: the conversation, back and aside, and copies that find it again."""

import copy
import json
import pickle
import threading
import warnings

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.workflow import Context, JsonSerializer

from llama_index_tiered_memory import TieredAgentMemory
from shared_core import InvalidInput, NotFound, ScopeRequired, StorageError
from shared_core.messages import text_of
from tests.adapters.llama_index.shared import FACT, QUESTION, blocks, said, texts, user


class TestTheConversation:
    def test_set_makes_the_conversation_these_messages(self, agent_memory):
        agent_memory.put_messages([user("one"), said("1"), user("two"), said("2")])
        for messages in ([user("one"), said("other")], [user("new")], [], [user("new"), said("x")]):
            agent_memory.set(messages)
            assert agent_memory.get_all() == messages

    def test_set_from_a_shared_beginning_leaves_what_came_after_it(self, agent_memory, memory):
        agent_memory.put_messages([user("Hello"), said("Hi.")])
        agent_memory.put_messages([user(FACT), said("Noted.")])
        left = agent_memory.snapshot()
        agent_memory.set([user("Hello"), said("Hi."), user("I drink tea.")])
        assert [hit.memory.text for hit in memory.recall(QUESTION) if hit.memory.text == FACT] == []
        agent_memory.rewind(left)
        assert memory.recall(QUESTION)[0].memory.text == FACT

    def test_set_of_another_conversation_or_none_forgets_no_fact(self, agent_memory, memory):
        system = ChatMessage(role="system", content="Be kind.")
        agent_memory.put_messages([system, user(FACT), said("Noted.")])
        agent_memory.set([system, user("And now?")])
        assert memory.recall(QUESTION)[0].memory.text == FACT
        agent_memory.reset()
        assert agent_memory.get_all() == []
        assert memory.recall(QUESTION)[0].memory.text == FACT

    async def test_a_chat_history_given_to_a_run_becomes_the_conversation(self, agent_memory, script):
        agent = FunctionAgent(llm=script(lambda _: "ok").llm, tools=[])
        await agent.run("two", chat_history=[user("one"), said("1")], memory=agent_memory)
        assert texts(agent_memory.get_all()) == ["one", "1", "two", "ok"]

    def test_snapshot_rewind_and_branch(self, agent_memory, memory):
        agent_memory.put_messages([user(FACT), said("Noted.")])
        before = agent_memory.snapshot()
        agent_memory.put_messages([user("I take my coffee with milk now."), said("Noted too.")])
        after = agent_memory.snapshot()
        agent_memory.rewind(before)
        assert texts(agent_memory.get_all()) == [FACT, "Noted."]
        branch = agent_memory.branch(before, session_id="aside")
        assert (branch.session_id, branch.get_all()) == ("aside", agent_memory.get_all())
        branch.put(user("aside"))
        assert texts(agent_memory.get_all()) == [FACT, "Noted."]
        agent_memory.rewind(after)
        assert len(agent_memory.get_all()) == 4
        with pytest.raises(NotFound):
            agent_memory.rewind("nobody")

    def test_the_story_of_a_rewind(self, memory):
        """Tell a fact, branch, contradict it, rewind: the first is recalled, the second not; on the branch it is."""
        kept = TieredAgentMemory(memory=memory, session_id="s", token_limit=0)
        kept.put_messages([user(FACT), said("Noted.")])
        before = kept.snapshot()
        kept.put_messages([user("I take my coffee with milk."), said("Noted.")])
        contradicted = kept.snapshot()

        def recalled():
            return blocks(kept.get(input=QUESTION))[0][1]

        kept.rewind(before)
        kept.put_messages([user("Let us talk of something else."), said("Yes.")])
        assert FACT in recalled()
        assert "milk" not in recalled()
        kept.rewind(contradicted)
        kept.put_messages([user("Let us talk of something else."), said("Yes.")])
        assert "milk" in recalled()

    async def test_the_async_methods_do_the_same(self, agent_memory):
        await agent_memory.aput(user("one"))
        await agent_memory.aput_messages([said("1")])
        await agent_memory.aput_messages([])
        at = await agent_memory.asnapshot()
        assert await agent_memory.aget() == await agent_memory.aget_all() == [user("one"), said("1")]
        await agent_memory.aset([user("one"), said("2")])
        await agent_memory.arewind(at)
        assert (await agent_memory.abranch(at)).get_all() == [user("one"), said("1")]
        await agent_memory.areset()
        assert await agent_memory.aget_all() == []

    async def test_the_sync_methods_work_inside_a_running_loop(self, agent_memory):
        agent_memory.put(user("one"))
        assert agent_memory.get() == [user("one")]

    def test_threads_lose_nothing(self, agent_memory):
        def work(name):
            for i in range(10):
                agent_memory.put_messages([user(f"{name} {i}"), said(f"re {name} {i}")])
                agent_memory.get()

        threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = texts(agent_memory.get_all())
        assert len(found) == 60
        assert all(answer == f"re {asked}" for asked, answer in zip(found[::2], found[1::2], strict=True))

    def test_a_chat_engine_that_streams_in_a_thread_stores_the_answer(self, agent_memory, memory, script):
        memory.remember(FACT)
        model = script(lambda _: "Black.")
        engine = SimpleChatEngine.from_defaults(llm=model.llm, memory=agent_memory, system_prompt="Be kind.")
        stream = engine.stream_chat(QUESTION)
        assert "".join(stream.response_gen) == "Black."
        assert texts(agent_memory.get_all()) == [QUESTION, "Black."]
        assert str(engine.chat("Thank you.")) == "Black."
        assert FACT in str(model.prompts[0][-1].blocks)

    def test_a_write_that_fails_is_not_silent(self, agent_memory, memory):
        memory.close()
        with pytest.raises(StorageError):
            agent_memory.put(user("one"))


class TestCopies:
    @pytest.fixture
    def told(self, agent_memory):
        agent_memory.put_messages([user(FACT), said("Noted.")])
        return agent_memory

    def test_to_dict_carries_an_address_that_is_plain_json(self, told):
        dumped = told.to_dict()
        assert json.loads(told.to_json()) == dumped
        assert FACT not in str(dumped)
        assert dumped["class_name"] == "TieredAgentMemory"
        clone = TieredAgentMemory.from_dict(dumped)
        assert clone.get_all() == told.get_all()
        assert clone.memory is told.memory
        assert (clone.session_id, clone.token_limit, clone.scope) == ("s1", 30_000, "ada")

    def test_pickle_deepcopy_and_model_copy_show_the_same_conversation_and_leave_the_original_alone(self, told):
        for clone in (
            pickle.loads(pickle.dumps(told)),  # noqa: S301
            copy.deepcopy(told),
            told.model_copy(),
            TieredAgentMemory.model_validate(told.model_dump()),
        ):
            assert texts(clone.get_all()) == [FACT, "Noted."]
            clone.put(user("more"))
            assert texts(told.get_all()) == [FACT, "Noted.", "more"]
            told.set([user(FACT), said("Noted.")])

    def test_a_copy_in_a_process_that_has_the_file_closed_opens_it(self, told, memory):
        dumped = told.to_dict()
        memory.close()
        assert texts(TieredAgentMemory.from_dict(dumped).get_all()) == [FACT, "Noted."]

    async def test_a_workflow_context_keeps_it_without_a_warning(self, told, script):
        agent = FunctionAgent(llm=script(lambda _: "ok").llm, tools=[])
        ctx = Context(agent)
        await agent.run("one", ctx=ctx, memory=told)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            dumped = ctx.to_dict(serializer=JsonSerializer())
        json.dumps(dumped)
        again = Context.from_dict(agent, dumped, serializer=JsonSerializer())
        await agent.run("two", ctx=again)
        assert texts(told.get_all()) == [FACT, "Noted.", "one", "ok", "two", "ok"]

    def test_what_has_no_address_says_so(self, open_memory, memory):
        with pytest.raises(ValueError, match="expected a memory in a file"):
            TieredAgentMemory(memory=open_memory(":memory:"), session_id="s").to_dict()
        with pytest.raises(ValueError, match="expected a scope that is a string"):
            TieredAgentMemory(memory=memory, session_id="s", scope=lambda: "ada").to_dict()

    def test_from_defaults_is_the_constructor(self, memory):
        made = TieredAgentMemory.from_defaults(memory=memory, session_id="s", chat_history=[user("one")], llm=None)
        assert texts(made.get_all()) == ["one"]
        assert made.class_name() == "TieredAgentMemory"

    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({"memory": "agent.db"}, InvalidInput),
            ({"session_id": ""}, InvalidInput),
            ({"session_id": None}, InvalidInput),
            ({"token_limit": -1}, InvalidInput),
            ({"token_limit": 1.5}, InvalidInput),
            ({"scope": ""}, InvalidInput),
        ],
    )
    def test_a_wrong_argument_says_what_was_expected(self, memory, fields, error):
        with pytest.raises(error, match="expected"):
            TieredAgentMemory(**{"memory": memory, "session_id": "s", **fields})

    def test_without_any_scope_it_does_not_start(self, open_memory):
        with pytest.raises(ScopeRequired):
            TieredAgentMemory(memory=open_memory(default_scope=None), session_id="s")

    def test_a_scope_can_be_a_function_of_the_moment(self, memory):
        who = ["anna"]
        kept = TieredAgentMemory(memory=memory, session_id="s", scope=lambda: who[0])
        kept.put(user("one"))
        who[0] = "boris"
        assert kept.get_all() == []
        assert text_of(memory.context("s", scope="anna").history()[0]) == "one"
