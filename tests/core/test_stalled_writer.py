"""Another process holds the write lock of the file: caches go on without storing, memories wait for their turn."""

import json
import threading

import pytest

from shared_core import MISS, TieredMemory
from shared_core.testing import FakeClock
from shared_core.testing.embedders import HashEmbedder
from tests.stalled import stalled

REQUEST = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
ANSWER = {"choices": [{"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.db"


@pytest.fixture
def memory(path):
    with TieredMemory.open(path, embedder="none", default_scope="ada") as memory:
        yield memory


def test_cached_calls_return_while_the_file_is_held_and_what_was_not_stored_is_counted(memory, path):
    memory.tools.register("look")
    memory.tools.register("write", cacheable=False, writes="item")
    with stalled(path):
        assert [memory.tools.call("look", {"item": i}, lambda item: item) for i in range(20)] == list(range(20))
        assert memory.tools.call("write", {"item": "a"}, lambda item: item) == "a"
        assert memory.responses.call(REQUEST, lambda: ANSWER)["choices"]
        assert memory.responses.put({**REQUEST, "model": "n"}, ANSWER)
        assert memory.tools.invalidate("look", {"item": 1}) >= 0
    assert memory.stats()["mid_term"]["tools"]["storage_errors"] > 0
    assert memory.stats()["mid_term"]["responses"]["storage_errors"] > 0


async def test_async_cached_calls_return_too(memory, path):
    memory.tools.register("look")
    with stalled(path):
        assert await memory.tools.acall("look", {"item": 1}, lambda item: item) == 1
        assert (await memory.responses.acall(REQUEST, lambda: ANSWER))["choices"]


def test_a_thread_of_this_process_that_waits_for_the_file_holds_up_no_cached_call(memory, path):
    memory.tools.register("look")
    with stalled(path):
        waiting = threading.Thread(target=memory.remember, args=("tea",))
        waiting.start()
        assert memory.tools.call("look", {"item": 1}, lambda item: item) == 1
    waiting.join()
    assert [hit.memory.text for hit in memory.recall("tea")] == ["tea"]  # it waited, and was written


def test_once_the_file_is_free_results_are_stored_again(memory, path):
    with stalled(path):
        memory.responses.call(REQUEST, lambda: ANSWER)
    memory.responses.call({**REQUEST, "model": "n"}, lambda: ANSWER)
    with TieredMemory.open(path, embedder="none", default_scope="ada") as other:
        assert other.responses.get(REQUEST) is MISS
        assert other.responses.get({**REQUEST, "model": "n"})["choices"] == ANSWER["choices"]


def test_a_write_that_could_not_be_told_is_told_at_the_latest_when_the_memory_is_closed(path):
    def opened():
        memory = TieredMemory.open(path, embedder="none", default_scope="ada")
        memory.tools.register("look", reads="item", space="shop")
        memory.tools.register("write", cacheable=False, writes="item", space="shop")
        return memory

    with opened() as other:
        with opened() as memory:
            for one in (memory, other):
                assert one.tools.call("look", {"item": "a"}, lambda item: "old") == "old"
            with stalled(path):
                memory.tools.call("write", {"item": "a"}, lambda item: None)
                assert other.tools.call("look", {"item": "a"}, lambda item: "new") == "old"  # nobody could tell it
        assert other.tools.call("look", {"item": "a"}, lambda item: "new") == "new"


def test_reads_of_a_bounded_namespace_return_while_the_file_is_held_and_are_noted_again_afterwards(memory, path):
    bounded = memory.bounded_blobs(max_items=2)
    bounded.put("ada", "cache", [("a", b"1"), ("b", b"2")])
    with stalled(path):
        assert [bounded.get("ada", "cache", ["a"]) for _ in range(200)] == [[b"1"]] * 200
        bounded.flush()
    bounded.get("ada", "cache", ["b"])
    bounded.get("ada", "cache", ["b"])
    bounded.flush()
    bounded.put("ada", "cache", [("c", b"3")])
    assert bounded.get("ada", "cache", ["a", "b"]) == [None, b"2"]


def test_closing_waits_for_no_other_writer_only_to_write_down_what_was_read(path):
    with TieredMemory.open(path, embedder="none", default_scope="ada") as memory:
        memory.remember("tea", id="1")
        memory.remember("wine", scope="bob")
        memory.recall("tea")
        memory.recall("wine", scope="bob")
        with stalled(path):  # which fails when the close waits for its end
            memory.close()
        assert memory.stats()["long_term"]["accesses_dropped"] == 2
    with TieredMemory.open(path, embedder="none", default_scope="ada") as memory:
        assert memory.get("1").access_count == 0
        memory.recall("tea")
    with TieredMemory.open(path, embedder="none", default_scope="ada") as memory:
        assert memory.get("1").access_count == 1


def test_an_export_is_not_held_up_and_knows_the_reads_that_could_not_be_written_down(path, tmp_path):
    with TieredMemory.open(path, embedder=HashEmbedder(), default_scope="ada", clock=FakeClock(5.0)) as memory:
        memory.remember("tea", id="1")
        with stalled(path):
            memory.recall("tea")
            waiting = threading.Thread(target=memory.remember, args=("coffee",))  # it has taken the read along
            waiting.start()
            while memory.long_term._store.reads.of("ada"):
                pass
            assert memory.export(tmp_path / "out.jsonl") == 1
            assert memory.get("1").access_count == 1
        waiting.join()
        memory.export(tmp_path / "later.jsonl")
    first, later = (json.loads((tmp_path / f"{name}.jsonl").read_text().split("\n")[0]) for name in ("out", "later"))
    assert first["access_count"] == 1
    assert first["evidence"] == 1.0
    assert first == later
