"""LlamaIndex's ``Memory`` over its own store and over ``TieredAsyncChatStore``: its queue behaves the same."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.memory import BaseMemoryBlock, Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus

from llama_index_tiered_memory import TieredAsyncChatStore
from tests.adapters.llama_index.test_async_chat_store import takes_a_store

pytestmark = takes_a_store


def count_words(text):
    return text.split()


@pytest.fixture(params=["stock", "ours in a file", "ours in memory"])
def queue(request, open_memory):
    """Make a Memory that holds 20 words at most, flushes 6 at a time, and counts words."""

    def make(**options):
        if request.param != "stock":
            location = ":memory:" if "in memory" in request.param else "agent.db"
            options["chat_store"] = TieredAsyncChatStore(memory=open_memory(location))
        return Memory.from_defaults(
            session_id="s", token_limit=20, token_flush_size=6, chat_history_token_ratio=1.0,
            tokenizer_fn=count_words, **options,
        )  # fmt: skip

    return make


def user(text):
    return ChatMessage(role="user", content=text)


def said(text):
    return ChatMessage(role="assistant", content=text)


def turns(count, words=3):
    return [m for i in range(count) for m in (user(f"q{i}" + " w" * (words - 1)), said(f"a{i}" + " w" * (words - 1)))]


def contents(messages):
    return [(message.content or "").split(" ")[0] for message in messages]


class Heard(BaseMemoryBlock[str]):
    """Keeps what was flushed to it."""

    name: str = "heard"
    heard: list[str] = []  # noqa: RUF012  pydantic copies it

    async def _aget(self, messages=None, **_):
        return ""

    async def _aput(self, messages):
        self.heard += contents(messages)


class TestTheQueue:
    async def test_below_its_limit_it_keeps_every_message_active(self, queue):
        kept = queue()
        await kept.aput_messages(turns(3))
        assert contents(await kept.aget()) == ["q0", "a0", "q1", "a1", "q2", "a2"]

    async def test_above_its_limit_the_oldest_messages_go_and_a_user_message_comes_first(self, queue):
        kept = queue()
        await kept.aput_messages(turns(4))
        shown = await kept.aget()
        assert contents(shown) == ["q1", "a1", "q2", "a2", "q3", "a3"]
        assert shown[0].role == "user"

    async def test_what_went_is_archived_in_order_and_nothing_is_lost(self, queue):
        kept = queue()
        await kept.aput_messages(turns(8))
        archived = await kept.aget_all(status=MessageStatus.ARCHIVED)
        everything = contents(await kept.aget_all())
        assert everything == contents(turns(8)) == contents([*archived, *await kept.aget()])

    async def test_one_by_one_it_comes_to_the_same_as_all_at_once(self, queue):
        kept = queue()
        for message in turns(6):
            await kept.aput(message)
        assert contents(await kept.aget()) == ["q3", "a3", "q4", "a4", "q5", "a5"]

    async def test_a_tool_call_and_its_result_go_or_stay_together(self, queue):
        kept = queue()
        call = ChatMessage(
            role="assistant",
            blocks=[ToolCallBlock(tool_call_id="c", tool_name="f", tool_kwargs={})],
        )
        result = ChatMessage(role="tool", content="r " * 4, additional_kwargs={"tool_call_id": "c"})
        await kept.aput_messages([user("q0 w w"), call, result, said("a0 w w"), *turns(4)[2:]])
        shown = await kept.aget()
        assert shown[0].role == "user"
        assert any(m.role == "tool" for m in shown) == any(isinstance(m.blocks[0], ToolCallBlock) for m in shown)

    async def test_blocks_hear_each_flushed_message_once_and_in_order(self, queue):
        block = Heard()
        kept = queue(memory_blocks=[block])
        for message in turns(8):
            await kept.aput(message)
        active = contents(await kept.aget())
        assert [*block.heard, *active] == contents(turns(8))

    async def test_set_replaces_and_reset_empties(self, queue):
        kept = queue()
        await kept.aput_messages(turns(2))
        await kept.aset(turns(1))
        assert contents(await kept.aget()) == ["q0", "a0"]
        await kept.areset()
        assert await kept.aget() == []
        assert await kept.aget_all() == []

    async def test_a_message_that_is_shown_is_a_copy(self, queue):
        kept = queue()
        await kept.aput(user("q0"))
        (await kept.aget())[0].blocks[0].text = "changed"
        assert contents(await kept.aget()) == ["q0"]

    async def test_two_sessions_are_apart(self, queue):
        one, other = queue(), queue()
        other.session_id = "other"
        await one.aput(user("q0"))
        await other.aput(user("q1"))
        assert contents(await one.aget()) == ["q0"]
        assert contents(await other.aget()) == ["q1"]

    def test_sync_calls_do_the_same_without_a_loop(self, queue):
        kept = queue()
        for message in turns(2):
            kept.put(message)
        assert contents(kept.get()) == ["q0", "a0", "q1", "a1"]
        kept.reset()
        assert kept.get_all() == []


async def test_tasks_that_put_at_once_lose_no_message_where_the_stock_store_loses_some(open_memory):
    kept = Memory.from_defaults(
        session_id="s", token_limit=20, token_flush_size=6, chat_history_token_ratio=1.0, tokenizer_fn=count_words,
        chat_store=TieredAsyncChatStore(memory=open_memory()),
    )  # fmt: skip
    await asyncio.gather(*(kept.aput(user(f"m{i} w")) for i in range(12)))
    assert sorted(contents(await kept.aget_all())) == sorted(f"m{i}" for i in range(12))


async def test_no_messages_change_nothing_where_the_stock_store_raises(open_memory):
    kept = Memory.from_defaults(session_id="s", chat_store=TieredAsyncChatStore(memory=open_memory()))
    await kept.aput_messages([])
    assert await kept.aget() == []
