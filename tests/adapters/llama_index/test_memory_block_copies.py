"""Copies and pickles of ``TieredMemoryBlock``: the same memories, whoever reads them, and settings that were given."""

from __future__ import annotations

import copy
import pickle

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory

from llama_index_tiered_memory import TieredMemoryBlock
from shared_core import InvalidInput

FACT, QUESTION = "I take my coffee black.", "How do I take my coffee?"


def pickled(block):
    return pickle.loads(pickle.dumps(block))  # noqa: S301


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
async def test_a_copy_recalls_the_same_memories_and_keeps_what_was_set(copied, memory):
    memory.remember(FACT, scope="bob")
    block = TieredMemoryBlock(memory=memory, scope="bob", name="notes", priority=2)
    other = copied(block)
    assert (other.name, other.priority, other.scope) == ("notes", 2, "bob")
    assert FACT in await other.aget([ChatMessage(content=QUESTION)], session_id="s2")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
async def test_a_copy_and_the_first_write_one_conversation_once(copied, memory):
    block = TieredMemoryBlock(memory=memory)
    for one in (block, copied(block), block):
        await one.aget([ChatMessage(content=FACT)], session_id="s1")
    assert [found.text for found in memory.long_term.list()] == [FACT]


async def test_a_pickled_memory_of_llama_index_keeps_the_block(memory):
    stock = Memory.from_defaults(session_id="s1", memory_blocks=[TieredMemoryBlock(memory=memory)])
    (block,) = pickled(stock).memory_blocks
    memory.remember(FACT)
    assert FACT in await block.aget([ChatMessage(content=QUESTION)], session_id="s2")


def test_what_has_no_address_says_so(open_memory, memory):
    with pytest.raises(InvalidInput, match="expected a memory in a file to serialise"):
        pickle.dumps(TieredMemoryBlock(memory=open_memory(":memory:")))
    with pytest.raises(InvalidInput, match="expected a scope that is a string to serialise"):
        pickle.dumps(TieredMemoryBlock(memory=memory, scope=lambda: "ada"))
