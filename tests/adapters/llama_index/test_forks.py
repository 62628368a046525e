"""A forked worker is not held up by a lock that a thread of its parent holds: there is nobody to give it back."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from contextlib import ExitStack

import pytest
from llama_index.core.base.llms.types import ChatMessage

from llama_index_tiered_memory import TieredAgentMemory, TieredKVStore, TieredMemoryBlock, attach
from tests.core.process_kit import in_a_fork

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")


def user(text):
    return ChatMessage(role="user", content=text)


@pytest.fixture
def held_elsewhere():
    """Hold locks in another thread for the length of the test."""
    holding, done = threading.Event(), threading.Event()
    threads = []

    def hold(*locks):
        def work():
            with ExitStack() as stack:
                for lock in locks:
                    stack.enter_context(lock)
                holding.set()
                done.wait(60)

        threads.append(threading.Thread(target=work))
        threads[0].start()
        assert holding.wait(30)

    yield hold
    done.set()
    for thread in threads:
        thread.join()


def test_the_agent_memory_goes_on_in_the_child(open_memory, held_elsewhere):
    kept = TieredAgentMemory(memory=open_memory(ids=None), session_id="s")
    kept.put(user("before"))
    held_elsewhere(kept._own.lock)

    def work():
        kept.put(user("in the child"))
        assert [message.content for message in kept.get()] == ["before", "in the child"]

    assert in_a_fork(work) == 0
    assert [message.content for message in kept.get_all()] == ["before", "in the child"]


def test_the_memory_block_goes_on_in_the_child(open_memory, held_elsewhere):
    memory = open_memory(ids=None)
    block = TieredMemoryBlock(memory=memory)
    memory.remember("I take my coffee black.")
    held_elsewhere(block._own.lock)

    def work():
        found = asyncio.run(block.aget([user("How do I take my coffee?")], session_id="s"))
        assert "black" in found

    assert in_a_fork(work) == 0


def test_a_component_is_read_back_in_the_child(open_memory, held_elsewhere):
    kv = TieredKVStore(open_memory())
    kv.put("k", {"v": 1})
    held_elsewhere(attach._own.lock)

    def work():
        assert pickle.loads(pickle.dumps(kv)).get("k") == {"v": 1}  # noqa: S301

    assert in_a_fork(work) == 0


def test_a_bounded_store_goes_on_in_the_child_within_its_bound(open_memory, held_elsewhere):
    kv = TieredKVStore(open_memory(), max_items=2)
    kv.put("k", {"v": 1})
    held_elsewhere(kv._bounded._lock)

    def work():
        for i in range(5):
            kv.get("k")
            kv.put(str(i), {})
        assert len(kv.get_all()) == 2

    assert in_a_fork(work) == 0
    assert len(kv.get_all()) == 2
