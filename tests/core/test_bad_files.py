"""A file that is no good: a clear error that says what to do, or a counted miss, and nothing made worse."""

import gc
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

from shared_core import Blob, DuplicateId, InvalidInput, Retention, SchemaTooNew, StorageError, TieredMemory
from shared_core.storage.sqlite.schema import APPLICATION_ID, MIGRATIONS


def open_plain(path):
    return TieredMemory.open(path, embedder="none", default_scope="ada")


@pytest.fixture
def path(tmp_path):
    """A file with three memories, closed."""
    with open_plain(tmp_path / "memory.db") as memory:
        memory.remember_many([{"text": f"fact {i}", "id": str(i)} for i in range(3)])
    return tmp_path / "memory.db"


@pytest.fixture(autouse=True)
def _no_connection_is_left_open():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        yield
        gc.collect()


def change(path, statement, *values):
    db = sqlite3.connect(path)
    db.execute(statement, values)
    db.commit()
    db.close()


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"Dear diary, " * 1_000)
    with pytest.raises(StorageError, match=r"notes\.txt: .*not a database.*restore a copy, or open another path"):
        open_plain(path)
    assert path.read_bytes() == b"Dear diary, " * 1_000


def test_an_empty_file_is_a_new_memory(tmp_path):
    (tmp_path / "empty.db").touch()
    with open_plain(tmp_path / "empty.db") as memory:
        assert memory.remember("tea").text == "tea"


def test_another_programs_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "places.sqlite"
    change(path, "CREATE TABLE bookmarks (url TEXT)")
    before = path.read_bytes()
    with pytest.raises(StorageError, match="another program's database; open another path"):
        open_plain(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("keep", [1, 100, 4_096, 3 * 4_096, -4_096, -1])
def test_a_truncated_file_is_an_error_that_says_so_and_never_a_wrong_answer(path, keep):
    data = path.read_bytes()
    path.write_bytes(data[:keep])
    try:
        with open_plain(path) as memory:
            found = {hit.memory.text for hit in memory.recall("fact")}
    except StorageError as error:
        found = {"fact 0", "fact 1", "fact 2"}
        assert str(path) in str(error)  # noqa: PT017 - either outcome is right, a wrong answer is not
    assert found == {"fact 0", "fact 1", "fact 2"}


def test_a_file_of_a_newer_release_is_refused_by_name_and_left_alone(path):
    change(path, f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = path.read_bytes()
    with pytest.raises(SchemaTooNew, match=r"written by a newer release: update your checkout"):
        open_plain(path)
    assert path.read_bytes() == before


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"expected an existing folder, .*nowhere is none; create it first"):
        open_plain(tmp_path / "nowhere" / "memory.db")


def test_a_name_that_no_file_can_have_is_refused_and_nothing_is_created(tmp_path):
    with pytest.raises(InvalidInput, match="expected a path"):
        open_plain(tmp_path / "a\0b")
    with pytest.raises(StorageError, match=r"expected a file that can be opened.*open another path"):
        open_plain(tmp_path / ("x" * 5_000))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(StorageError, match=r"expected a file, got a folder; write '.*agent.db'"):
        open_plain(tmp_path)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("text", sqlite3.Binary(b"\xff\xfe")),
        ("tags", "not json"),
        ("tags", '{"a": 1}'),
        ("tags", "[[1]]"),
        ("metadata", "[]"),
        ("metadata", "[" * 100_000),
        ("importance", "high"),
        ("created_at", sqlite3.Binary(b"")),
        ("speaker", sqlite3.Binary(b"Bob")),
        ("access_count", 1e30),
        ("access_count", float("inf")),
        ("access_count", 2**63 - 1),
        ("importance", float("inf")),
        ("importance", -1e300),
        ("at", float("inf")),
    ],
)
def test_a_row_that_cannot_be_read_is_a_counted_miss(path, column, value):
    change(path, f"UPDATE memories SET {column} = ? WHERE id = '1'", value)
    with open_plain(path) as memory:
        assert {hit.memory.id for hit in memory.recall("fact")} == {"0", "2"}
        assert memory.get("1") is None
        assert [item.id for item in memory.long_term.list()] == ["2", "0"]
        assert memory.stats()["long_term"]["unreadable_rows"] >= 3
        assert memory.remember("fact 1").text == "fact 1"
        with pytest.raises((StorageError, DuplicateId), match="'1' is taken"):
            memory.remember("fact 1", id="1")
        assert memory.forget("1") == 1
        assert memory.remember("fact one", id="1").id == "1"


def test_text_that_is_no_utf8_is_a_counted_miss(path):
    change(path, "UPDATE memories SET text = CAST(? AS TEXT) WHERE id = '1'", sqlite3.Binary(b"fact \xff"))
    with open_plain(path) as memory:
        assert {hit.memory.id for hit in memory.recall("fact")} == {"0", "2"}
        assert memory.stats()["long_term"]["unreadable_rows"] == 1


@pytest.mark.parametrize("vectors", [b"", b"123", b"12345678", b"\xff" * 256, "text"])
def test_vectors_that_are_not_what_the_model_writes_are_made_again_or_passed_over(open_memory, tmp_path, vectors):
    with open_memory() as memory:
        memory.remember_many([{"text": "green tea", "id": "1"}, {"text": "red wine", "id": "2"}])
    change(tmp_path / "memory.db", "UPDATE search_index SET vectors = ? WHERE memory = 1", vectors)
    memory = open_memory()
    assert [hit.memory.id for hit in memory.recall("tea", k=2)] == ["1", "2"]


def test_rows_without_their_index_are_still_recalled(path):
    change(path, "DELETE FROM search_index")
    change(path, "UPDATE memories SET evidence = 'much'")
    with open_plain(path) as memory:
        assert len(memory.recall("fact")) == 3


def test_a_message_that_cannot_be_read_is_a_counted_miss(open_memory, tmp_path):
    with open_memory() as memory:
        memory.context("s").extend([{"role": "user", "content": text} for text in ("one", "two", "three")])
    change(tmp_path / "memory.db", "UPDATE bodies SET body = '{' WHERE body LIKE '%two%'")
    memory = open_memory()
    assert [message["content"] for message in memory.context("s").history()] == ["one", "three"]
    assert memory.stats()["long_term"]["unreadable_rows"] == 1


def test_a_disk_that_is_full_is_an_error_and_what_was_there_stays(path):
    with open_plain(path) as memory:
        with memory.storage._connections.write() as db:
            db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0] + 2}")
        with pytest.raises(StorageError, match=r"full.*nothing was written by this call.*free some disk space"):
            memory.remember_many([{"text": "x" * 100_000 + str(i)} for i in range(10)])
        assert {hit.memory.id for hit in memory.recall("fact")} == {"0", "1", "2"}
        with memory.storage._connections.write() as db:
            db.execute("PRAGMA max_page_count = 1000000")
        assert memory.remember("fits again").text == "fits again"


FULL = """
import json, resource, signal, sys
from pathlib import Path
from shared_core import StorageError, TieredMemory
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit then fails, as on a disk that is full
path = Path(sys.argv[1])
memory = TieredMemory.open(path, embedder="none", default_scope="ada")
size = max(path.stat().st_size, Path(f"{path}-wal").stat().st_size) + 100_000
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
kept, errors = [], []
for i in range(200):
    try:
        kept.append(memory.remember(f"fact {i} " + "x" * 5_000, id=f"new {i}").id)
    except StorageError as error:
        errors.append(str(error))
found = sorted(hit.memory.id for hit in memory.recall("fact", k=10_000))
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, size))
try:
    memory.export(path.parent / "out.jsonl")
    exported = ""
except StorageError as error:
    exported = str(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
memory.close()
print(json.dumps([kept, errors, found, exported]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files here")
def test_a_file_that_can_grow_no_more_is_an_error_and_what_was_acknowledged_stays(path):
    done = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kept, errors, found, exported = json.loads(done.stdout)
    assert kept
    assert errors
    assert all("nothing was written by this call" in error for error in errors)
    assert found == sorted(["0", "1", "2", *kept])
    assert "export to another path" in exported
    assert not list(path.parent.glob("*out.jsonl*"))
    with open_plain(path) as memory:
        assert memory.check().ok
        assert {one.id for one in memory.long_term.list()} == {"0", "1", "2", *kept}
        assert memory.remember("fits again").text == "fits again"


@pytest.mark.parametrize("version", range(len(MIGRATIONS) + 1))
def test_a_file_of_every_earlier_schema_opens(tmp_path, version):
    db = sqlite3.connect(tmp_path / "old.db")
    for statement in (one for statements in MIGRATIONS[:version] for one in statements):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID if version else 0}")
    db.execute(f"PRAGMA user_version = {version}")
    db.commit()
    db.close()
    with open_plain(tmp_path / "old.db") as memory:
        memory.remember("tea", id="1")
        assert [hit.memory.id for hit in memory.recall("tea")] == ["1"]
        assert memory.check().ok


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_what_an_earlier_release_wrote_is_all_there_after_the_migration(open_memory, tmp_path, version):
    """Rows as the older release wrote them, in every table that it had, written by their columns' names."""
    with open_memory() as memory:
        memory.remember("My sister lives in Lyon.", id="1", tags=["t"], subject="sister", metadata={"n": None})
        memory.remember("My sister lives in Bern.", id="2", subject="sister", pinned=True)
        memory.turns.end([{"role": "user", "content": "said in a turn"}], session="s")
        memory.recall("sister")
        memory.long_term.flush()
        memory.storage.blobs.put("ada", "kv", [Blob("k", b"v", 1.0, tags=("t",))])
        whole, history = list(memory.storage.upkeep.whole("ada")), memory.context("s").history()
    old = sqlite3.connect(tmp_path / "old.db")
    for statement in (one for statements in MIGRATIONS[:version] for one in statements):
        old.execute(statement)
    old.execute("ATTACH ? AS new", (str(tmp_path / "memory.db"),))
    tables = [name for (name,) in old.execute("SELECT name FROM main.sqlite_schema WHERE type = 'table'")]
    for table in tables:
        columns = ", ".join(row[1] for row in old.execute(f"PRAGMA main.table_info({table})"))
        old.execute(f"DELETE FROM main.{table}")
        old.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}")
    old.execute(f"PRAGMA main.application_id = {APPLICATION_ID}")
    old.execute(f"PRAGMA main.user_version = {version}")
    old.commit()
    old.close()
    memory = open_memory(tmp_path / "old.db")
    assert list(memory.storage.upkeep.whole("ada")) == whole
    assert memory.context("s").history() == history
    assert memory.storage.blobs.get("ada", "kv", ["k"], now=2.0) == [Blob("k", b"v", 1.0, tags=("t",))]
    assert memory.recall("Where does my sister live?")[0].memory.id == "2"
    memory.context("s").append({"role": "user", "content": "and on it goes"})
    memory.bounded_blobs(max_items=1).put("ada", "kv", [("l", b"w")])
    assert memory.storage.blobs.keys("ada", "kv", now=2e9) == ["l"]
    assert memory.check().ok
    assert memory.forget_scope("ada").left == 0


AS_NOBODY = """
import json, os, sys
from shared_core import StorageError, TieredMemory
with TieredMemory.open(":memory:", embedder="none", default_scope="ada") as warm:  # nobody may not read the code
    warm.remember("fact"); warm.recall("fact")
os.setgid(65534); os.setuid(65534)
memory = TieredMemory.open(sys.argv[1], embedder="none", default_scope="ada")
found = sorted(hit.memory.id for hit in memory.recall("fact"))
try:
    memory.remember("new")
    error = ""
except StorageError as raised:
    error = str(raised)
memory.close()
print(json.dumps([found, error, memory.storage.read_only, memory.stats()["long_term"]["accesses_dropped"]]))
"""


@pytest.mark.skipif(not hasattr(os, "setuid") or os.getuid() != 0, reason="only root can become nobody")
@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_read_only_place_is_read_and_refuses_writes_by_name(what):
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to others
        path = Path(folder) / "memory.db"
        with open_plain(path) as memory:
            memory.remember_many([{"text": f"fact {i}", "id": str(i)} for i in range(3)])
        path.chmod(0o644)
        path.parent.chmod(0o755 if what == "folder" else 0o777)
        done = subprocess.run([sys.executable, "-c", AS_NOBODY, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found, error, read_only, dropped = json.loads(done.stdout)
    assert (found, read_only, dropped) == (["0", "1", "2"], True, 3)
    assert "expected a file that can be written" in error


def test_a_file_that_can_only_be_read_and_is_not_current_says_what_to_do(path):
    change(path, "PRAGMA user_version = 0")
    db = sqlite3.connect(path)
    from shared_core.storage.sqlite.schema import check_version

    with pytest.raises(StorageError, match="open it once where it can be written"):
        check_version(db, str(path), read_only=True)
    check_version(db, str(path), read_only=False)
    db.close()


def test_a_clock_set_back_breaks_nothing(open_memory, clock):
    memory = open_memory()
    memory.remember("tea", id="1", importance=0.5)
    clock.advance(-1e6)
    memory.remember("wine", id="2", importance=0.5)
    hits = memory.recall("tea wine", k=5)
    assert {hit.memory.id for hit in hits} == {"1", "2"}
    assert memory.get("1").last_accessed > clock.now
    victims = memory.sweep(max_memories=0, dry_run=True).victims
    assert all(0 <= part <= 1 for hit in victims for part in hit.parts.values())
    assert memory.sweep(retention=[Retention(10.0)], dry_run=True).victims == ()  # what is from the future is not old
    receipt = memory.forget_scope("ada")
    assert (receipt.memories, receipt.at) == (2, clock.now)


@pytest.mark.parametrize("parent", ["id", "(SELECT node FROM heads)"])
def test_a_conversation_that_is_its_own_past_comes_to_an_end(open_memory, tmp_path, parent):
    with open_memory() as memory:
        context = memory.context("s")
        context.extend([{"role": "user", "content": text} for text in ("one", "two")])
        memory.turns.end([{"role": "user", "content": "three"}], session="s")
        context.rewind(context.snapshot())
    change(tmp_path / "memory.db", f"UPDATE nodes SET parent = {parent}")
    change(tmp_path / "memory.db", "UPDATE heads SET rewound = 1")
    memory = open_memory()
    assert memory.context("s").history()[-1]["content"] == "three"
    assert [hit.memory.text for hit in memory.recall("three", session="s")] == ["three"]


@pytest.mark.parametrize(("column", "value"), [("successor", "'x'"), ("at", "'x'"), ("successor", "1e30")])
def test_a_succession_that_another_hand_wrote_is_passed_over(open_memory, tmp_path, column, value):
    with open_memory() as memory:
        memory.remember("Ada lives in Rome.", subject="home")
        memory.remember("Ada lives in Oslo.", subject="home")
    change(tmp_path / "memory.db", f"UPDATE successions SET {column} = {value}")
    assert "Ada lives in Oslo." in {hit.memory.text for hit in open_memory().recall("Where does Ada live?")}


@pytest.mark.parametrize("value", ["'abc'", "-7", str(2**63 - 1)])
@pytest.mark.parametrize("column", ["version", "floor"])
def test_a_damaged_count_of_changes_is_an_error_by_name_and_a_turn_goes_on_without(path, column, value):
    change(path, f"UPDATE scopes SET {column} = {value}")
    with open_plain(path) as memory:
        with pytest.raises(StorageError, match="damaged"):
            memory.recall("fact")
        assert memory.turns.begin("fact").block == ""


@pytest.mark.parametrize("value", [5, 2**40, "text"])
def test_a_stored_value_that_is_no_bytes_is_a_counted_miss_and_takes_no_room(open_memory, tmp_path, value):
    with open_memory() as memory:
        memory.storage.blobs.put("ada", "n", [Blob("k", b"v", 0.0)])
    change(tmp_path / "memory.db", "UPDATE blobs SET value = ?", value)
    memory = open_memory()
    assert memory.storage.blobs.get("ada", "n", ["k"], now=0.0) == [None]
    assert memory.stats()["long_term"]["unreadable_rows"] == 1


@pytest.mark.parametrize("scope", ["x'ff'", "CAST(x'ff' AS TEXT)", "CAST(x'6164611fff' AS TEXT)"])
def test_a_scope_that_another_hand_wrote_keeps_no_other_from_being_mended_and_forgotten(open_memory, tmp_path, scope):
    with open_memory() as memory:
        memory.remember_many([{"text": "tea", "id": "1"}, {"text": "wine", "id": "2"}])
    change(tmp_path / "memory.db", f"UPDATE memories SET scope = {scope} WHERE id = '2'")
    memory = open_memory()
    memory.rebuild_index()
    assert memory.storage.memories.scopes() == ["ada"]
    assert [hit.memory.id for hit in memory.recall("tea wine")] == ["1"]
    assert memory.forget_scope("ada").memories == 1


def test_a_damaged_schema_is_an_error_by_name_though_its_bytes_are_no_text(path):
    raw = path.read_bytes()
    assert raw.count(b"CREATE UNIQUE INDEX blobs_key") == 1
    path.write_bytes(raw.replace(b"CREATE UNIQUE INDEX blobs_key", b"CREATE UNIQUE IN\xf8EX blobs_key"))
    with pytest.raises(StorageError, match=r"the schema is damaged.*restore a copy"):
        open_plain(path)


def test_more_memories_than_there_could_be_may_be_asked_for(open_memory):
    memory = open_memory()
    memory.remember("tea")
    assert len(memory.long_term.list(limit=2**70)) == len(memory.recall("tea", k=2**70)) == 1
    assert len(memory.long_term.retrieve_by_recency(limit=2**70)) == 1
    assert memory.sweep(max_memories=2**70, max_bytes=2**70).victims == ()


def test_a_damaged_name_of_the_model_is_an_error_by_name(open_memory, tmp_path):
    open_memory().close()
    change(tmp_path / "memory.db", "INSERT OR REPLACE INTO meta VALUES ('embedder', '[]')")
    with pytest.raises(StorageError, match="embedder is damaged"):
        open_memory()
