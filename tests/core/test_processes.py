"""Several processes and threads on one file: nothing lost, nothing doubled, nothing stale, nobody held up."""

import sqlite3
import subprocess
import threading

from shared_core import Settings
from shared_core.testing.embedders import HashEmbedder
from tests.core.process_kit import START, check_agreement, run

WRITER = (
    START
    + """
name, count = sys.argv[2], int(sys.argv[3])
for i in range(count):
    memory.remember(f"fact {i} of writer {name}", id=f"{name}-{i}")
    if i % 20 == 0:
        assert memory.recall(f"fact {i} of writer {name}", k=3)
memory.close()
"""
)


def test_the_arrays_of_one_process_follow_every_write_of_another(open_memory):
    one, other = open_memory(), open_memory()

    def shown():
        return {hit.memory.id for hit in other.recall("fact", k=50)}

    one.remember_many([{"text": f"fact {i}", "id": str(i), "importance": i / 10} for i in range(5)])
    assert shown() == {"0", "1", "2", "3", "4"}
    one.forget("3")
    assert shown() == {"0", "1", "2", "4"}
    one.sweep(max_memories=3)
    assert shown() == {"1", "2", "4"}
    one.supersede("4", "fact four")
    assert len(shown()) == 3
    assert "4" not in shown()
    one.pin("1")
    assert [hit.memory.id for hit in other.sweep(max_memories=0, dry_run=True).victims if hit.memory.id == "1"] == []
    one.storage.upkeep.erase_scope("ada")
    assert shown() == set()
    one.remember("fact again", id="1")
    assert shown() == {"1"}


def test_a_memory_that_comes_back_from_the_archive_is_recalled_again(open_memory):
    one, other = open_memory(), open_memory()
    one.remember_many([{"text": f"fact {i}", "id": str(i)} for i in range(3)])
    one.storage.memories.set_status("ada", ["0"], "archived")
    assert len(other.recall("fact")) == 2
    one.storage.memories.set_status("ada", ["0"], "active")
    for memory in (one, other):
        assert {hit.memory.id for hit in memory.recall("fact")} == {"0", "1", "2"}
        assert memory.recall("fact 0", k=1)[0].memory.id == "0"


def test_another_process_that_replaces_the_model_leaves_this_one_right(open_memory):
    one = open_memory()
    one.remember("I like tea.")
    assert "semantic" in one.recall("tea")[0].parts
    other = open_memory(embedder=HashEmbedder(32), reembed=True)
    assert other.recall("tea")[0].memory.text == "I like tea."
    assert one.recall("tea")[0].memory.text == "I like tea."
    one.remember("I like wine.")
    assert {hit.memory.text for hit in other.recall("wine", k=5)} == {"I like tea.", "I like wine."}
    assert one.stats()["long_term"]["foreign_model"] > 0


def test_a_reader_answers_while_another_process_holds_a_write_transaction(open_memory, tmp_path):
    memory = open_memory()
    memory.remember("I like tea.", id="1")
    open_memory(embedder="none").remember("written without a model", id="2")
    held = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    held.execute("UPDATE memories SET text = 'half-written'")
    try:
        assert {hit.memory.text for hit in memory.recall("tea")} == {"I like tea.", "written without a model"}
        assert memory.get("1").text == "I like tea."
        assert memory.turns.begin("tea").ids
        late = open_memory()
        assert len(late.recall("tea")) == 2
    finally:
        held.execute("ROLLBACK")
        held.close()
    memory.recall("tea")
    memory.close()
    late.close()
    assert check_agreement(tmp_path / "memory.db") == {"1", "2"}


def test_four_processes_write_while_others_recall_and_nothing_is_lost_or_doubled(open_memory, tmp_path):
    path = tmp_path / "memory.db"
    writers = [run(WRITER, path, name, 500, stderr=subprocess.PIPE) for name in "abcd"]
    reader = open_memory()
    counts = []
    while any(writer.poll() is None for writer in writers):
        counts.append(len(reader.recall("fact", k=10_000)))
    for writer in writers:
        assert writer.communicate()[1] == ""
        assert writer.returncode == 0
    assert counts == sorted(counts)
    expected = {f"{name}-{i}" for name in "abcd" for i in range(500)}
    assert {hit.memory.id for hit in reader.recall("fact", k=10_000)} == expected
    assert len(reader.long_term.list()) == 2_000
    assert reader.check().ok
    reader.close()
    assert check_agreement(path) == expected


def test_a_bound_holds_for_four_processes_that_write_at_once(open_memory, tmp_path):
    path = tmp_path / "memory.db"
    bounded = WRITER.replace('default_scope="ada")', 'default_scope="ada", settings=Settings(max_memories=50))')
    bounded = bounded.replace("assert memory.recall", "memory.recall")
    writers = [run(bounded, path, name, 60, stderr=subprocess.PIPE) for name in "abcd"]
    reader, most = open_memory(), 0
    while any(writer.poll() is None for writer in writers):
        most = max(most, len(reader.long_term.list()))
    assert [writer.communicate()[1] for writer in writers] == [""] * 4
    most = max(most, len(reader.long_term.list()))
    assert 50 <= most <= 53  # one more for each other process that wrote at the very moment
    assert len(reader.long_term.list(status=None)) == 240
    one = open_memory(settings=Settings(max_memories=50))
    one.remember("one more")
    assert len(one.long_term.list()) == 50


def test_twenty_threads_on_one_memory_lose_nothing(open_memory):
    memory = open_memory(ids=None)
    failures = []

    def work(name):
        try:
            for i in range(10):
                memory.remember(f"fact {i} of thread {name}")
                memory.remember("said by all")
                assert memory.recall(f"fact {i} of thread {name}", k=1)
                memory.context("s").append({"role": "user", "content": f"{name} {i}"})
        except BaseException as error:  # noqa: BLE001 - told to the test below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    kept = memory.long_term.list()
    assert len(kept) == 201
    (shared,) = [item for item in kept if item.text == "said by all"]
    assert shared.access_count >= 199
    counted = memory.stats()["long_term"]
    assert (counted["remembered"], counted["strengthened"], counted["recalls"]) == (201, 199, 200)
    assert len(memory.context("s").history()) == 200


def test_vectors_that_could_not_be_written_wait_for_the_next_recall(open_memory, tmp_path):
    open_memory(embedder="none", settings=Settings()).remember("tea", id="1")
    memory = open_memory()
    held = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    statements = []
    memory.storage._connections._own_writer().set_trace_callback(statements.append)
    try:
        assert memory.recall("tea")[0].memory.id == "1"
    finally:
        held.execute("ROLLBACK")
        held.close()
    assert statements.index("PRAGMA busy_timeout = 0") < statements.index("BEGIN IMMEDIATE")
    memory.recall("tea")
    memory.close()
    assert check_agreement(tmp_path / "memory.db") == {"1"}
