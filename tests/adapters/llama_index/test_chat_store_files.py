"""``TieredChatStore`` in a file: scopes, loading again, many writers, and under LlamaIndex's buffers."""

from __future__ import annotations

import asyncio
import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
)
from llama_index.core.memory import ChatMemoryBuffer, ChatSummaryMemoryBuffer
from llama_index.core.storage.chat_store.loading import load_chat_store

from llama_index_tiered_memory import TieredChatStore
from shared_core import InvalidInput, ScopeRequired, TieredMemory, TieredMemoryError
from tests.adapters.llama_index.shared import contents, text


class TestScopes:
    def test_two_scopes_never_see_each_other(self, memory):
        ada, bob = (TieredChatStore(memory=memory, scope=scope) for scope in ("ada", "bob"))
        ada.add_message("k", text("ada's"))
        bob.add_message("k", text("bob's"))
        assert contents(ada.get_messages("k")) == ["ada's"]
        ada.delete_messages("k")
        assert contents(bob.get_messages("k")) == ["bob's"]
        assert ada.get_keys() == []

    def test_a_function_tells_the_scope_at_each_call(self, memory):
        now = ["ada"]
        store = TieredChatStore(memory=memory, scope=lambda: now[0])
        store.add_message("k", text("ada's"))
        now[0] = "bob"
        assert store.get_messages("k") == []

    def test_without_a_scope_and_a_default_it_refuses_to_be_made(self, open_memory):
        with pytest.raises(ScopeRequired, match="pass scope="):
            TieredChatStore(memory=open_memory(default_scope=None))

    def test_something_that_is_no_memory_is_refused_with_what_to_type(self):
        with pytest.raises(InvalidInput, match=r"expected a TieredMemory, got 3; write TieredMemory.open"):
            TieredChatStore(memory=3)


class TestLoadingAgain:
    def test_the_dict_carries_the_address_and_no_message(self, store, tmp_path):
        store.add_message("k", text("private"))
        assert store.to_dict() == {
            "location": str(tmp_path / "agent.db"), "scope": "ada", "class_name": "TieredChatStore",
        }  # fmt: skip

    def test_a_buffer_loads_again_from_its_string_with_the_same_messages(self, store):
        buffer = ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key="k")
        buffer.put(text("hello"))
        again = ChatMemoryBuffer.from_string(buffer.to_string())
        assert contents(again.get_all()) == ["hello"]
        again.put(text("and more"))
        assert contents(buffer.get_all()) == ["hello", "and more"]

    def test_it_is_registered_under_its_class_name(self, store):
        store.add_message("k", text("a"))
        assert contents(load_chat_store(store.to_dict()).get_messages("k")) == ["a"]

    def test_another_process_loads_it_by_path(self, store, memory):
        store.add_message("k", text("from the first process"))
        code = f"""
            import llama_index_tiered_memory as ours
            store = ours.TieredChatStore.from_dict({store.to_dict()!r})
            print(store.get_messages("k")[0].content)
        """
        out = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
        )
        assert out.stdout.strip() == "from the first process", out.stderr

    def test_it_attaches_to_the_open_memory_of_the_file_and_to_a_new_one_when_that_is_closed(self, store, memory):
        assert TieredChatStore.from_dict(store.to_dict()).memory is memory
        store.add_message("k", text("a"))
        data = store.to_dict()
        memory.close()
        again = TieredChatStore.from_dict(data)
        assert again.memory is not memory
        assert contents(again.get_messages("k")) == ["a"]

    def test_pickling_leaves_the_live_store_usable(self, store):
        store.add_message("k", text("a"))
        clone = pickle.loads(pickle.dumps(store))  # noqa: S301
        assert contents(clone.get_messages("k")) == contents(store.get_messages("k")) == ["a"]

    def test_copies_read_the_same_histories(self, store):
        store.add_message("k", text("a"))
        assert contents(copy.deepcopy(store).get_messages("k")) == ["a"]
        assert contents(store.model_copy().get_messages("k")) == ["a"]

    def test_a_memory_without_a_file_says_that_it_cannot_be_serialised(self, open_memory):
        store = TieredChatStore(memory=open_memory(":memory:"))
        with pytest.raises(ValueError, match="expected a memory in a file to serialise"):
            store.to_dict()

    def test_a_scope_that_is_a_function_says_that_it_cannot_be_serialised(self, memory):
        with pytest.raises(ValueError, match="expected a scope that is a string to serialise"):
            TieredChatStore(memory=memory, scope=lambda: "ada").to_dict()


def _append(location, name, count):
    memory = TieredMemory.open(location, embedder="none", default_scope="ada")
    store = TieredChatStore(memory=memory)
    for i in range(count):
        store.add_message("k", ChatMessage(content=f"{name} {i}"))
    memory.close()


class TestManyWriters:
    def test_threads_that_append_lose_nothing_and_each_keeps_its_order(self, store):
        def work(name):
            for i in range(15):
                store.add_message("k", text(f"{name} {i}"))

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        got = contents(store.get_messages("k"))
        assert sorted(got) == sorted(f"{name} {i}" for name in "abcd" for i in range(15))
        for name in "abcd":
            assert [c for c in got if c.startswith(name)] == [f"{name} {i}" for i in range(15)]

    async def test_fifty_first_calls_at_once_all_arrive(self, store):
        await asyncio.gather(*(store.async_add_message("k", text(str(i))) for i in range(50)))
        assert sorted(contents(store.get_messages("k")), key=int) == [str(i) for i in range(50)]

    def test_a_delete_and_appends_at_once_lose_no_append(self, store):
        store.set_messages("k", [text("first")])

        def append():
            for i in range(20):
                store.add_message("k", text(str(i)))

        def edit():
            for _ in range(10):
                store.add_message("k", text("front"), idx=0)
                store.delete_message("k", 0)

        threads = [threading.Thread(target=append), threading.Thread(target=edit)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert contents(store.get_messages("k")) == ["first", *map(str, range(20))]

    def test_two_processes_that_append_lose_nothing(self, store, memory):
        context = multiprocessing.get_context("spawn")
        workers = [context.Process(target=_append, args=(memory.storage.location, name, 20)) for name in "ab"]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        got = contents(store.get_messages("k"))
        for name in "ab":
            assert [c for c in got if c.startswith(name)] == [f"{name} {i}" for i in range(20)]

    def test_a_process_killed_between_writes_loses_nothing_it_acknowledged(self, tmp_path):
        location = tmp_path / "killed.db"
        code = f"""
            from llama_index.core.llms import ChatMessage
            from llama_index_tiered_memory import TieredChatStore
            from shared_core import TieredMemory
            store = TieredChatStore(memory=TieredMemory.open({str(location)!r}, embedder="none", default_scope="ada"))
            i = 0
            while True:
                store.add_message("k", ChatMessage(content=str(i)))
                print(i, flush=True)
                i += 1
        """
        worker = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
        )
        with worker:
            for line in worker.stdout:
                if int(line) >= 20:
                    break
            os.kill(worker.pid, signal.SIGKILL)
            acknowledged = [*range(21), *(int(line) for line in worker.stdout if line.endswith("\n"))]
        with TieredMemory.open(location, embedder="none", default_scope="ada") as memory:
            got = contents(TieredChatStore(memory=memory).get_messages("k"))
        assert got[: len(acknowledged)] == [str(i) for i in acknowledged]
        assert len(got) <= len(acknowledged) + 1, "at most the write under way is there without its acknowledgement"


class TestInBuffers:
    def test_a_buffer_over_a_history_longer_than_its_limit_starts_with_a_user_message(self, store):
        buffer = ChatMemoryBuffer.from_defaults(chat_store=store, token_limit=30)
        for i in range(20):
            buffer.put(text(f"question number {i}"))
            buffer.put(text(f"answer number {i}", role="assistant"))
        window = buffer.get()
        assert window[0].role == "user"
        assert window[-1].content == "answer number 19"
        assert len(buffer.get_all()) == 40

    async def test_a_summary_buffer_that_rewrites_its_history_works(self, store, script):
        model = script(lambda messages: "They talked about numbers.")
        buffer = ChatSummaryMemoryBuffer.from_defaults(
            chat_store=store, llm=model.llm, token_limit=30, count_initial_tokens=False
        )
        for i in range(10):
            await buffer.aput(text(f"question number {i}"))
            await buffer.aput(text(f"answer number {i}", role="assistant"))
        got = await buffer.aget()
        assert got[0].role == "system"
        assert "They talked about numbers." in got[0].content

    def test_a_closed_memory_says_so(self, store, memory):
        memory.close()
        with pytest.raises(TieredMemoryError, match="was closed"):
            store.get_messages("k")
