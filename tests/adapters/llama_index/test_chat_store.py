"""What ``TieredChatStore`` promises, beside LlamaIndex's own ``SimpleChatStore`` where the two must agree."""

from __future__ import annotations

import base64

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
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.storage.chat_store import SimpleChatStore

from llama_index_tiered_memory import TieredChatStore
from llama_index_tiered_memory.convert import to_message, to_plain
from shared_core import InvalidInput
from tests.adapters.llama_index.shared import contents, text

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
