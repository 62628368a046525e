"""What ``TieredAsyncChatStore`` promises, beside LlamaIndex's SQL store, and under its ``Memory``."""

from __future__ import annotations

import asyncio
import inspect
import pickle

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from llama_index_tiered_memory import TieredAsyncChatStore, TieredMemoryBlock
from shared_core import InvalidInput, ScopeRequired

ACTIVE, ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED
takes_a_store = pytest.mark.skipif(
    "chat_store" not in inspect.signature(Memory.from_defaults).parameters,
    reason="Memory of this release takes no other store",
)


def text(content, role="user"):
    return ChatMessage(role=role, content=content)


def contents(messages):
    return [message.content for message in messages]


@pytest.fixture
def store(memory):
    return TieredAsyncChatStore(memory=memory)


@pytest.fixture(params=["stock", "ours in a file", "ours in memory"])
def any_store(request, open_memory):
    if request.param == "stock":
        return SQLAlchemyChatStore(table_name="messages")
    return TieredAsyncChatStore(memory=open_memory(":memory:" if "in memory" in request.param else "agent.db"))


class TestLikeTheStockStore:
    async def test_messages_come_back_in_order(self, any_store):
        await any_store.add_message("k", text("a"))
        await any_store.add_messages("k", [text("b", "assistant"), text("c")])
        assert contents(await any_store.get_messages("k")) == ["a", "b", "c"]
        assert await any_store.count_messages("k") == 3

    async def test_limit_and_offset_are_applied_after_ordering(self, any_store):
        await any_store.add_messages("k", [text(str(i)) for i in range(6)])
        assert contents(await any_store.get_messages("k", limit=2)) == ["0", "1"]
        assert contents(await any_store.get_messages("k", limit=2, offset=3)) == ["3", "4"]
        assert contents(await any_store.get_messages("k", limit=10, offset=5)) == ["5"]

    async def test_set_makes_the_messages_all_there_is_archived_ones_included(self, any_store):
        await any_store.add_messages("k", [text("a"), text("b")])
        await any_store.archive_oldest_messages("k", 1)
        await any_store.set_messages("k", [text("c"), text("d")])
        assert contents(await any_store.get_messages("k", status=None)) == ["c", "d"]

    async def test_the_oldest_active_messages_are_archived_and_returned(self, any_store):
        await any_store.add_messages("k", [text(str(i)) for i in range(5)])
        assert contents(await any_store.archive_oldest_messages("k", 2)) == ["0", "1"]
        assert contents(await any_store.archive_oldest_messages("k", 1)) == ["2"]
        assert contents(await any_store.get_messages("k")) == ["3", "4"]
        assert contents(await any_store.get_messages("k", status=ARCHIVED)) == ["0", "1", "2"]
        assert contents(await any_store.get_messages("k", status=None)) == ["0", "1", "2", "3", "4"]
        assert [await any_store.count_messages("k", status=status) for status in (ACTIVE, ARCHIVED, None)] == [2, 3, 5]

    async def test_the_oldest_active_messages_are_deleted_and_returned(self, any_store):
        await any_store.add_messages("k", [text(str(i)) for i in range(5)])
        await any_store.archive_oldest_messages("k", 1)
        assert contents(await any_store.delete_oldest_messages("k", 2)) == ["1", "2"]
        assert contents(await any_store.get_messages("k", status=None)) == ["0", "3", "4"]

    async def test_messages_of_one_status_are_deleted(self, any_store):
        await any_store.add_messages("k", [text("a"), text("b")])
        await any_store.archive_oldest_messages("k", 1)
        await any_store.delete_messages("k", status=ARCHIVED)
        assert contents(await any_store.get_messages("k", status=None)) == ["b"]

    async def test_deleting_without_a_status_deletes_both_and_the_key(self, any_store):
        await any_store.add_messages("k", [text("a"), text("b")])
        await any_store.archive_oldest_messages("k", 1)
        await any_store.delete_messages("k")
        assert await any_store.get_messages("k", status=None) == []
        assert await any_store.get_keys() == []

    async def test_a_key_whose_last_message_went_is_no_key_any_more(self, any_store):
        await any_store.set_messages("set to nothing", [])
        await any_store.add_message("deleted", text("a"))
        await any_store.delete_oldest_messages("deleted", 1)
        assert await any_store.get_keys() == []
        await any_store.add_message("deleted", text("b"))
        assert await any_store.get_keys() == ["deleted"]

    async def test_a_key_with_archived_messages_only_is_listed(self, any_store):
        await any_store.add_message("a", text("a"), status=ARCHIVED)
        await any_store.add_message("b", text("b"))
        assert sorted(await any_store.get_keys()) == ["a", "b"]

    async def test_an_unknown_key_holds_nothing(self, any_store):
        assert await any_store.get_messages("?") == []
        assert await any_store.count_messages("?") == 0
        assert await any_store.delete_message("?", 0) is None
        assert await any_store.delete_oldest_messages("?", 3) == []
        assert await any_store.archive_oldest_messages("?", 3) == []
        assert await any_store.get_keys() == []


class TestWhatItIsAsked:
    async def test_a_status_may_be_given_by_its_name(self, store):
        await store.add_messages("k", [text("a"), text("b")])
        await store.add_message("k", text("c"), "archived")
        assert contents(await store.get_messages("k", "archived")) == ["c"]
        assert await store.count_messages("k", "active") == 2
        await store.delete_messages("k", "active")
        assert contents(await store.get_messages("k", None)) == ["c"]

    async def test_another_status_is_refused_and_changes_nothing(self, store):
        await store.add_message("k", text("a"))
        for call in (
            store.get_messages("k", "gone"),
            store.delete_messages("k", "gone"),
            store.add_message("k", text("b"), "gone"),
        ):
            with pytest.raises(
                InvalidInput, match=r"^status: expected one of active, archived, or None for all, got 'gone'$"
            ):
                await call
        assert contents(await store.get_messages("k", None)) == ["a"]

    @pytest.mark.parametrize("wrong", [{"limit": -1}, {"offset": -1}, {"limit": 1.5}])
    async def test_a_limit_and_an_offset_are_counts(self, store, wrong):
        with pytest.raises(InvalidInput, match=f"^{next(iter(wrong))}: expected"):
            await store.get_messages("k", **wrong)


class TestBetterThanTheStockStore:
    async def test_adding_no_messages_does_nothing(self, store):
        await store.add_messages("k", [])
        assert await store.get_keys() == []

    async def test_fifty_first_calls_at_once_all_arrive(self, store):
        await asyncio.gather(*(store.add_message("k", text(str(i))) for i in range(50)))
        assert sorted(contents(await store.get_messages("k")), key=int) == [str(i) for i in range(50)]

    @pytest.mark.parametrize(("at", "left"), [(0, ["c", "d"]), (1, ["b", "d"]), (2, ["b", "c"])])
    async def test_a_message_is_deleted_by_its_position_among_the_active_ones(self, store, at, left):
        await store.add_messages("k", [text(c) for c in "abcd"])
        await store.archive_oldest_messages("k", 1)
        assert (await store.delete_message("k", at)).content == "bcd"[at]
        assert contents(await store.get_messages("k")) == left
        assert contents(await store.get_messages("k", status=ARCHIVED)) == ["a"]

    @pytest.mark.parametrize("at", [-1, 1, 99])
    async def test_a_position_that_is_not_there_deletes_nothing(self, store, at):
        await store.add_message("k", text("a"))
        assert await store.delete_message("k", at) is None
        assert contents(await store.get_messages("k")) == ["a"]

    @pytest.mark.parametrize("n", [0, -1])
    async def test_no_oldest_messages_are_none(self, store, n):
        await store.add_message("k", text("a"))
        assert await store.archive_oldest_messages("k", n) == []
        assert contents(await store.get_messages("k")) == ["a"]

    async def test_set_is_all_or_nothing(self, store):
        await store.add_message("k", text("a"))
        with pytest.raises(InvalidInput):
            await store.set_messages("k", [text("b"), ChatMessage(content="c", additional_kwargs={"bad": object()})])
        assert contents(await store.get_messages("k")) == ["a"]

    async def test_messages_go_in_and_out_as_copies_without_our_marks(self, store):
        given = ChatMessage(
            role="assistant", blocks=[TextBlock(text="a"), ToolCallBlock(tool_call_id="c", tool_name="f")]
        )
        await store.add_message("k", given)
        (got,) = await store.archive_oldest_messages("k", 1)
        assert got == given
        got.blocks[0].text = "changed"
        assert (await store.get_messages("k", status=ARCHIVED)) == [given]

    async def test_two_scopes_never_see_each_other(self, memory):
        ada, bob = (TieredAsyncChatStore(memory=memory, scope=scope) for scope in ("ada", "bob"))
        await ada.add_message("k", text("ada's"))
        assert await bob.get_messages("k") == []
        assert await bob.get_keys() == []

    async def test_it_pickles_by_path(self, store):
        await store.add_message("k", text("a"))
        clone = pickle.loads(pickle.dumps(store))  # noqa: S301
        assert contents(await clone.get_messages("k")) == contents(await store.get_messages("k")) == ["a"]

    def test_without_a_scope_and_a_default_it_refuses_to_be_made(self, open_memory):
        with pytest.raises(ScopeRequired):
            TieredAsyncChatStore(memory=open_memory(default_scope=None))

    def test_a_store_is_true_even_when_empty(self, store):
        assert bool(store)


@takes_a_store
class TestUnderMemory:
    async def test_memory_uses_it_and_survives_a_restart_by_session_id(self, open_memory):
        first = open_memory()
        stock = Memory.from_defaults(session_id="s1", chat_store=TieredAsyncChatStore(memory=first))
        await stock.aput(text("hello"))
        first.close()
        again = Memory.from_defaults(session_id="s1", chat_store=TieredAsyncChatStore(memory=open_memory()))
        assert contents(await again.aget()) == ["hello"]

    async def test_what_memory_flushes_is_archived_here(self, store):
        stock = Memory.from_defaults(session_id="s1", chat_store=store, token_limit=60, token_flush_size=20)
        for i in range(10):
            await stock.aput(text(f"question number {i} about the garden"))
        active, archived = await store.get_messages("s1"), await store.get_messages("s1", status=ARCHIVED)
        assert archived
        assert contents([*archived, *active]) == [f"question number {i} about the garden" for i in range(10)]
        assert contents(await stock.aget_all()) == contents([*archived, *active])

    def test_sync_calls_work_across_event_loops(self, store):
        stock = Memory.from_defaults(session_id="s1", chat_store=store)
        stock.put(text("a"))
        stock.put(text("b"))
        assert contents(stock.get()) == ["a", "b"]

    async def test_pickling_a_memory_over_it_leaves_the_live_one_usable_and_the_copy_attached(self, store):
        stock = Memory.from_defaults(session_id="s1", chat_store=store)
        await stock.aput(text("a"))
        clone = pickle.loads(pickle.dumps(stock))  # noqa: S301
        await stock.aput(text("b"))
        assert contents(await stock.aget_all()) == ["a", "b"]
        assert contents(await clone.aget_all()) == ["a", "b"]

    async def test_the_recalled_block_never_accumulates_in_its_messages(self, store, memory, script):
        memory.remember("I take my coffee black.")
        stock = Memory.from_defaults(
            session_id="s1", chat_store=store, memory_blocks=[TieredMemoryBlock(memory=memory)], insert_method="user"
        )
        agent = FunctionAgent(llm=script(lambda _: "Black.").llm, tools=[])
        await agent.run("How do I take my coffee?", memory=stock)
        for _ in range(3):
            prompt = await stock.aget()
        assert sum((message.content or "").count("<recalled_memories>") for message in prompt) == 1
        assert contents(await stock.aget_all()) == ["How do I take my coffee?", "Black."]

    async def test_the_users_words_are_stored_as_given_although_the_agent_adds_its_state_to_the_prompt(
        self, store, script
    ):
        model = script(lambda _: "Noted.")
        agent = FunctionAgent(llm=model.llm, tools=[], initial_state={"mood": "good"})
        stock = Memory.from_defaults(session_id="s1", chat_store=store)
        await agent.run("Hello there.", memory=stock)
        assert "mood" in model.prompts[0][-1].content
        assert contents(await stock.aget_all()) == ["Hello there.", "Noted."]
