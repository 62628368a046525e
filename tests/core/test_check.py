"""check says what is wrong with a file, rebuild_index mends what can be, and re-embedding goes on where it stopped."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from shared_core import CheckReport, EmbedderMismatch, StorageError, TieredMemory
from shared_core.testing.embedders import HashEmbedder


def change(path, *statements):
    db = sqlite3.connect(path)
    for statement, *values in statements:
        db.execute(statement, values)
    db.commit()
    db.close()


@pytest.fixture
def path(open_memory, tmp_path):
    """A closed file with four memories and a log."""
    with open_memory() as memory:
        memory.remember_many([{"text": f"green tea number {i}", "id": str(i)} for i in range(3)])
        memory.turns.end([{"role": "user", "content": "red wine"}], session="s")
    return tmp_path / "memory.db"


def kinds(report):
    return {problem.kind.split(";")[0]: problem.count for problem in report.problems}


def test_a_sound_file_has_no_problems(open_memory, path):
    memory = open_memory()
    assert memory.check() == CheckReport(memories=4)
    assert memory.check().ok
    assert memory.rebuild_index() == CheckReport(memories=4)


DAMAGE = {
    "no index row": (("DELETE FROM search_index WHERE memory = 2",), {"memories without an index row": 1}),
    "wrong terms": (
        ("UPDATE search_index SET terms = 'beer' WHERE memory < 3",),
        {"memories whose index terms are not those of their text": 2},
    ),
    "orphan": (
        ("INSERT INTO search_index (memory, terms) VALUES (99, 'beer')",),
        {"rows of search_index that belong to no row of memories": 1},
    ),
    "short vectors": (
        ("UPDATE search_index SET vectors = x'01020304' WHERE memory = 1",),
        {"memories whose vectors are not what the model writes": 1},
    ),
    "text for vectors": (
        ("UPDATE search_index SET vectors = 'text' WHERE memory = 1",),
        {"memories whose vectors are not what the model writes": 1},
    ),
    "not a number": (
        ("UPDATE search_index SET vectors = CAST(zeroblob(252) || x'0000c07f' AS BLOB) WHERE memory = 1",),
        {"memories whose vectors are not what the model writes": 1},
    ),
    "another model": (
        ("UPDATE search_index SET embedder = 'other' WHERE memory = 1",),
        {"memories whose vectors are not what the model writes": 1},
    ),
    "a source of nobody": (
        ("INSERT INTO sources VALUES (77, 's', 'n')",),
        {"rows of sources that belong to no row of memories": 1},
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_wrong_is_named_and_mended_and_recall_is_right_again(open_memory, path, name):
    statement, expected = DAMAGE[name]
    change(path, statement)
    memory, other = open_memory(), open_memory(embedder="none")  # without a model: nothing mends while it reads
    other.recall("tea")
    assert kinds(memory.check()) == expected
    assert kinds(memory.check()) == expected  # looking mends nothing
    assert memory.rebuild_index().ok
    for one in (memory, other):
        hits = one.recall("green tea", k=9)
        assert {hit.memory.text.split(" number")[0] for hit in hits[:3]} == {"green tea"}
        assert all(hit.parts["lexical"] > 0 for hit in hits[:3])
        assert one.recall("beer", k=9)[0].parts["lexical"] == 0
    rows = {one.memory.id: one for one in memory.storage.upkeep.whole("ada")}
    assert {len(one.vectors) for one in rows.values()} == {256}
    assert rows["0"].terms == "green tea number 0"


def test_a_row_that_cannot_be_read_is_named_and_left_to_the_user(open_memory, path):
    change(path, ("UPDATE memories SET metadata = '[' WHERE id = '1'",))
    memory = open_memory()
    (problem,) = memory.check().problems
    assert (problem.kind, problem.count, problem.ids) == ("memories that cannot be read; forget(id) them", 1, ("1",))
    assert not memory.rebuild_index().ok
    assert memory.forget("1") == 1
    assert memory.check().ok


def test_a_message_without_its_text_is_named(open_memory, path):
    change(path, ("DELETE FROM bodies",))
    assert kinds(open_memory().check()) == {"messages without their text": 1}


def test_a_conversation_that_stands_nowhere_is_named_and_mended(open_memory, path):
    change(path, ("UPDATE heads SET node = 'nobody'",))
    memory = open_memory()
    assert kinds(memory.check()) == {"conversations that stand nowhere": 1}
    assert memory.rebuild_index().ok
    assert [m["content"] for m in memory.context("s").history()] == ["red wine"]


def test_messages_whose_earlier_ones_are_lost_are_named(open_memory, path):
    with open_memory() as memory:
        memory.context("s").append({"role": "user", "content": "white wine"})
    change(path, ("DELETE FROM sizes",), ("DELETE FROM nodes WHERE parent IS NULL",))
    assert kinds(open_memory().check()) == {"messages whose earlier ones are lost": 1}


def test_a_damaged_page_is_named_or_an_error_and_never_passed_over(open_memory, path):
    raw = bytearray(path.read_bytes())
    for page in range(2, len(raw) // 4096):
        path.write_bytes(raw[: page * 4096] + b"\xa5" * 4096 + raw[(page + 1) * 4096 :])
        try:
            with TieredMemory.open(path, embedder="none", default_scope="ada") as memory:
                report = memory.check()
        except StorageError:
            continue
        assert any("damaged" in problem.kind for problem in report.problems), page


def test_no_more_than_a_few_ids_are_named(open_memory, path):
    memory = open_memory()
    memory.remember_many([{"text": f"fact {i}"} for i in range(50)])
    change(path, ("DELETE FROM search_index",))
    (problem,) = memory.check().problems
    assert (problem.count, len(problem.ids)) == (54, 5)


# -- another model ---------------------------------------------------------------------------------------

DYING = """
import os, sys
from shared_core import TieredMemory
from shared_core.testing.embedders import HashEmbedder
class Dying(HashEmbedder):
    calls = 0
    def embed(self, texts, *, query=False):
        Dying.calls += 1
        if Dying.calls > 2:
            os.kill(os.getpid(), 9)
        return super().embed(texts, query=query)
TieredMemory.open(sys.argv[1], embedder=Dying(32), default_scope="ada", reembed=True)
"""


def test_reembedding_that_was_killed_goes_on_where_it_stopped(open_memory, tmp_path, capfd):
    with open_memory() as memory:
        memory.remember_many([{"text": f"fact {i}", "id": str(i)} for i in range(700)])
        memory.remember_many([{"text": f"fact {i}", "id": str(i)} for i in range(3)], scope="bob")
    path = tmp_path / "memory.db"
    assert subprocess.run([sys.executable, "-c", DYING, path], check=False, capture_output=True).returncode == -9
    db = sqlite3.connect(path)
    done = db.execute("SELECT count(*) FROM search_index WHERE vectors NOT NULL").fetchone()[0]
    db.close()
    assert 0 < done < 703
    with pytest.raises(EmbedderMismatch):
        open_memory(embedder=HashEmbedder(64))

    class Counting(HashEmbedder):
        texts = 0

        def embed(self, texts, *, query=False):
            self.texts += len(texts)
            return super().embed(texts, query=query)

    model = Counting(32)
    memory = open_memory(embedder=model, reembed=True)
    assert model.texts == 703 - done
    assert memory.check().ok
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute("SELECT count(*) FROM search_index WHERE length(vectors) = 128").fetchone()[0] == 703
    db.close()
    assert open_memory(embedder=model, reembed=True).recall("fact 650", k=1)[0].memory.id == "650"
    assert model.texts == 703 - done + 1


def test_reembedding_shows_how_far_it_is(open_memory, tmp_path, monkeypatch):
    from shared_core.long_term import vectors

    bars = []
    real = vectors.tqdm

    def seen(**options):
        bar = real(**{**options, "disable": False, "file": open("/dev/null", "w")})  # noqa: PTH123, SIM115
        bars.append(bar)
        return bar

    with open_memory() as memory:
        memory.remember_many([{"text": f"fact {i}"} for i in range(300)])
    monkeypatch.setattr(vectors, "tqdm", seen)
    open_memory(embedder=HashEmbedder(32), reembed=True)
    assert [(bar.total, bar.n) for bar in bars] == [(300, 300)]
    bars[0].fp.close()


def test_room_that_erased_memories_left_is_given_back_to_the_disk(open_memory, tmp_path):
    memory = open_memory()
    items = [{"text": f"fact {i} " + "and so it goes on " * 40} for i in range(400)]
    ids = [one.id for one in memory.remember_many(items)]
    kept = memory.remember("The one that stays.")
    memory.context("s").append({"role": "user", "content": "hello"})
    memory.forget(ids)
    before = (tmp_path / "memory.db").stat().st_size
    assert memory.rebuild_index().problems == ()
    assert (tmp_path / "memory.db").stat().st_size < before / 3
    assert [hit.memory.id for hit in memory.recall("the one that stays")] == [kept.id]
    assert len(memory.context("s").history()) == 1
