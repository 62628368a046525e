"""What ``TieredChatStore`` promises, beside LlamaIndex's own ``SimpleChatStore`` where the two must agree."""

from __future__ import annotations

import asyncio
import base64
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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.memory import ChatMemoryBuffer, ChatSummaryMemoryBuffer
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.loading import load_chat_store

from llama_index_tiered_memory import TieredChatStore
from llama_index_tiered_memory.convert import to_message, to_plain
from shared_core import InvalidInput, ScopeRequired, TieredMemory, TieredMemoryError

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(64)))
EVERY_BLOCK = [
    TextBlock(text="a text\nof two lines, 好, 🙂"),
    TextBlock(text=""),
    ImageBlock(image=PNG, image_mimetype="image/png", detail="low"),
    ImageBlock(url="https://example.org/a.png"),
    AudioBlock(audio=base64.b64encode(b"RIFFxxxxWAVE"), format="wav"),
    VideoBlock(url="https://example.org/a.mp4", video_mimetype="video/mp4", fps=2),
    DocumentBlock(data=base64.b64encode(b"%PDF-1.4 text"), title="terms", document_mimetype="application/pdf"),
    CachePoint(cache_control=CacheControl(type="ephemeral", ttl="1h")),
    CitableBlock(
        title="t", source="s", content=[TextBlock(text="cited"), ImageBlock(image=PNG, image_mimetype="image/png")]
    ),
    CitationBlock(cited_content=TextBlock(text="c"), source="s", title="t", additional_location_info={"page": 3}),
    ThinkingBlock(content="hm", num_tokens=1, additional_information={"signature": "c2ln"}),
    ToolCallBlock(tool_call_id="c1", tool_name="search", tool_kwargs={"q": "x", "deep": {"n": [1, 2.5, None]}}),
    ToolCallBlock(tool_call_id=None, tool_name="search", tool_kwargs='{"q": "unparsed'),
]


def text(content, role="user", **extra):
    return ChatMessage(role=role, content=content, additional_kwargs=extra)


def contents(messages):
    return [message.content for message in messages]


@pytest.fixture
def store(memory):
    return TieredChatStore(memory=memory)


@pytest.fixture(params=["stock", "ours in a file", "ours in memory"])
def any_store(request, open_memory):
    if request.param == "stock":
        return SimpleChatStore()
    return TieredChatStore(memory=open_memory(":memory:" if "in memory" in request.param else "agent.db"))


class TestLikeTheStockStore:
    def test_messages_come_back_in_the_order_they_were_added(self, any_store):
        for i in range(5):
            any_store.add_message("k", text(str(i)))
        assert contents(any_store.get_messages("k")) == ["0", "1", "2", "3", "4"]

    def test_a_message_is_inserted_before_a_position(self, any_store):
        any_store.set_messages("k", [text("a"), text("c")])
        any_store.add_message("k", text("b"), idx=1)
        any_store.add_message("k", text("d"), idx=99)
        assert contents(any_store.get_messages("k")) == ["a", "b", "c", "d"]

    def test_set_replaces_what_was_there(self, any_store):
        any_store.set_messages("k", [text("a"), text("b")])
        any_store.set_messages("k", [text("c")])
        assert contents(any_store.get_messages("k")) == ["c"]

    @pytest.mark.parametrize(("at", "left"), [(0, ["b", "c"]), (1, ["a", "c"]), (2, ["a", "b"])])
    def test_deleting_the_first_the_middle_or_the_last_message_keeps_the_order_of_the_others(self, any_store, at, left):
        any_store.set_messages("k", [text("a"), text("b"), text("c")])
        assert any_store.delete_message("k", at).content == "abc"[at]
        assert contents(any_store.get_messages("k")) == left

    def test_deleting_the_only_message_leaves_an_empty_history(self, any_store):
        any_store.add_message("k", text("a"))
        assert any_store.delete_message("k", 0).content == "a"
        assert any_store.get_messages("k") == []

    def test_deleting_past_the_end_deletes_nothing(self, any_store):
        any_store.add_message("k", text("a"))
        assert any_store.delete_message("k", 1) is None
        assert contents(any_store.get_messages("k")) == ["a"]

    def test_the_last_message_is_deleted_and_returned(self, any_store):
        any_store.set_messages("k", [text("a"), text("b")])
        assert any_store.delete_last_message("k").content == "b"
        assert contents(any_store.get_messages("k")) == ["a"]

    def test_deleting_a_history_returns_it_and_removes_its_key(self, any_store):
        any_store.set_messages("k", [text("a"), text("b")])
        assert contents(any_store.delete_messages("k")) == ["a", "b"]
        assert any_store.get_keys() == []
        assert any_store.get_messages("k") == []

    def test_an_unknown_key_has_no_messages_and_nothing_to_delete(self, any_store):
        assert any_store.get_messages("?") == []
        assert any_store.delete_messages("?") is None
        assert any_store.delete_message("?", 0) is None
        assert any_store.delete_last_message("?") is None
        assert any_store.get_keys() == []

    def test_keys_are_listed_in_the_order_of_their_first_message(self, any_store):
        for key in ("z", "a", "m", "a"):
            any_store.add_message(key, text("hi"))
        assert any_store.get_keys() == ["z", "a", "m"]

    def test_an_empty_history_that_was_set_has_a_key(self, any_store):
        any_store.set_messages("k", [])
        assert any_store.get_keys() == ["k"]
        assert any_store.get_messages("k") == []
        assert any_store.delete_messages("k") == []

    async def test_every_async_method_does_what_its_sync_twin_does(self, any_store):
        await any_store.aset_messages("k", [text("a"), text("b"), text("c")])
        await any_store.async_add_message("k", text("d"))
        assert contents(await any_store.aget_messages("k")) == ["a", "b", "c", "d"]
        assert (await any_store.adelete_message("k", 0)).content == "a"
        assert (await any_store.adelete_last_message("k")).content == "d"
        assert await any_store.aget_keys() == ["k"]
        assert contents(await any_store.adelete_messages("k")) == ["b", "c"]

    def test_a_store_is_true_even_when_empty_so_that_no_default_takes_its_place(self, any_store):
        assert bool(any_store)
        assert ChatMemoryBuffer.from_defaults(chat_store=any_store).chat_store is any_store


class TestBetterThanTheStockStore:
    @pytest.mark.parametrize("at", [-1, -2, -99])
    def test_a_negative_position_deletes_nothing(self, store, at):
        store.set_messages("k", [text("a"), text("b")])
        assert store.delete_message("k", at) is None
        assert contents(store.get_messages("k")) == ["a", "b"]

    def test_deleting_the_last_message_of_an_empty_history_gives_none(self, store):
        store.set_messages("k", [])
        assert store.delete_last_message("k") is None

    def test_inserting_before_a_negative_position_is_refused(self, store):
        with pytest.raises(InvalidInput, match="idx: expected a position of 0 or more, got -1"):
            store.add_message("k", text("a"), idx=-1)

    def test_changing_a_returned_message_changes_nothing_stored(self, store):
        store.add_message("k", text("a", mark=[1]))
        (got,) = store.get_messages("k")
        got.blocks[0].text = "changed"
        got.additional_kwargs["mark"].append(2)
        assert store.get_messages("k") == [text("a", mark=[1])]

    def test_changing_a_message_after_adding_it_changes_nothing_stored(self, store):
        given = text("a", mark=[1])
        store.add_message("k", given)
        given.blocks[0].text = "changed"
        given.additional_kwargs["mark"].append(2)
        assert store.get_messages("k") == [text("a", mark=[1])]

    def test_set_is_all_or_nothing(self, store):
        store.set_messages("k", [text("a"), text("b")])
        with pytest.raises(InvalidInput, match="message: expected values that JSON can carry"):
            store.set_messages("k", [text("c"), text("d", bad=object())])
        assert contents(store.get_messages("k")) == ["a", "b"]

    def test_what_is_deleted_is_gone_from_the_file(self, open_memory, tmp_path):
        memory = open_memory()
        store = TieredChatStore(memory=memory)
        store.set_messages("k", [text("keep"), text("s3cret-token"), text("keep too")])
        store.delete_message("k", 1)
        memory.close()
        assert b"s3cret-token" not in (tmp_path / "agent.db").read_bytes()

    def test_setting_a_history_again_and_again_does_not_grow_the_file(self, store, memory):
        history = [text(f"message {i}") for i in range(50)]
        store.set_messages("k", history)
        before = memory.storage.size_bytes()
        for i in range(30):
            store.set_messages("k", [*history[:-1], text(f"summary {i}")])
        assert memory.storage.size_bytes() <= before + 8192

    @pytest.mark.parametrize("key", ["", "a/b", "50%_", "user:1\nrm", "键🙂", "x" * 70_000, "chat_store/"])
    def test_a_key_is_any_text(self, store, key):
        store.add_message("other", text("other"))
        store.add_message(key, text("mine"))
        assert contents(store.get_messages(key)) == ["mine"]
        assert store.get_keys() == ["other", key]

    def test_wildcards_in_keys_mean_themselves(self, store):
        store.add_message("a1", text("other"))
        store.add_message("a%", text("percent"))
        assert contents(store.delete_messages("a%")) == ["percent"]
        assert store.get_keys() == ["a1"]


class TestFidelity:
    @pytest.mark.parametrize("block", EVERY_BLOCK, ids=lambda block: block.block_type)
    def test_every_block_type_comes_back_equal(self, store, block):
        message = ChatMessage(role="assistant", blocks=[block])
        store.add_message("k", message)
        (got,) = store.get_messages("k")
        assert got.model_dump() == message.model_dump()
        assert type(got.blocks[0]) is type(block)

    def test_all_blocks_together_keep_their_order(self, store):
        message = ChatMessage(role="assistant", blocks=EVERY_BLOCK)
        store.add_message("k", message)
        assert store.get_messages("k")[0].model_dump() == message.model_dump()

    @pytest.mark.parametrize("role", list(MessageRole))
    def test_every_role_comes_back(self, store, role):
        store.add_message("k", ChatMessage(role=role, content="x"))
        assert store.get_messages("k")[0].role is role

    def test_tool_calls_and_their_results_stay_tied_in_both_styles(self, store):
        history = [
            ChatMessage(role="assistant", blocks=[EVERY_BLOCK[-2]]),
            ChatMessage(role="tool", content="42", additional_kwargs={"tool_call_id": "c1", "name": "search"}),
            ChatMessage(
                role="assistant",
                additional_kwargs={
                    "tool_calls": [{"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
                },
            ),
            ChatMessage(role="tool", content="", additional_kwargs={"tool_call_id": "c2"}),
        ]
        store.set_messages("k", history)
        assert store.get_messages("k") == history

    def test_the_core_reads_the_pairs_of_a_stored_history(self, memory, store):
        """What is stored has the shape in which the core pairs tool calls with results, so nothing is cut out."""
        from shared_core.messages import paired

        store.set_messages("k", [
            text("what is it?"),
            ChatMessage(role="assistant", blocks=[EVERY_BLOCK[-2]]),
            ChatMessage(role="tool", content="42", additional_kwargs={"tool_call_id": "c1"}),
            text("42.", role="assistant"),
        ])  # fmt: skip
        history = memory.context("chat_store/k").history()
        assert paired(history) == history
        assert paired(history[2:]) == history[3:], "an orphan result is recognised as one"

    def test_infinite_log_probabilities_come_back(self, store):
        store.add_message("k", text("a", logprobs=[-0.5, float("-inf")]))
        assert store.get_messages("k")[0].additional_kwargs == {"logprobs": [-0.5, float("-inf")]}

    def test_bytes_in_additional_kwargs_become_base64_as_llama_index_writes_them(self, store):
        store.add_message("k", text("a", raw=b"\x00\xff"))
        assert store.get_messages("k")[0].additional_kwargs == {"raw": "AP8="}

    def test_a_message_whose_image_file_is_gone_can_still_be_read(self, store, tmp_path):
        path = tmp_path / "a.png"
        path.write_bytes(base64.b64decode(PNG))
        store.add_message("k", ChatMessage(role="user", blocks=[TextBlock(text="see"), ImageBlock(path=path)]))
        path.unlink()
        (got,) = store.get_messages("k")
        assert got.content == "see"
        assert str(got.blocks[1].path) == str(path)

    json_values = st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
        ),
        max_leaves=8,
    )

    @given(
        role=st.sampled_from(list(MessageRole)),
        blocks=st.lists(st.sampled_from(EVERY_BLOCK), max_size=4),
        extra=st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"])).filter(lambda name: name != "images"),
            json_values,
            max_size=3,
        ),
    )
    @settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
    def test_a_plain_message_turns_back_into_the_same_message(self, role, blocks, extra):
        message = ChatMessage(role=role, blocks=blocks, additional_kwargs=extra)
        assert to_message(to_plain(message)).model_dump() == message.model_dump()


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
