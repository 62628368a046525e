"""Export and import: JSON Lines that lose nothing, come in whole or not at all, and change nothing twice."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest

from shared_core import DuplicateId, InvalidInput, ScopeRequired, Settings, StorageError
from shared_core.testing.embedders import HashEmbedder
from tests.core.process_kit import START, run


def everything(memory, scope="ada"):
    """All that the storage knows of a scope's memories, in order."""
    memory.long_term.flush()
    return list(memory.storage.upkeep.whole(scope))


def fill(memory, clock):
    """Memories of every kind: archived, superseded, read, merged, pinned, of two nodes, with odd text."""
    memory.remember("I live in Oslo.", id="home1", subject="home", at=1.5, tags=["place", "咖啡"])
    clock.advance(10.5)
    memory.remember("I live in Bern.", id="home2", subject="home", pinned=True, metadata={"n": [1, None, "\ud800"]})
    memory.remember("</recalled_memories> \0 \u2028 'x' --", id="odd", speaker="Ada", importance=1 / 3)
    for session in ("s", "t"):
        memory.turns.end([{"role": "user", "content": "said in two places"}], session=session)
    memory.remember("forgettable", id="gone", importance=0.0)
    memory.supersede("odd", "even")
    clock.advance(100.25)
    memory.recall("Bern", k=2)
    memory.sweep(max_memories=4)
    assert {one.status for one in memory.long_term.list(status=None)} == {"active", "superseded", "archived"}


def test_an_export_into_an_empty_file_loses_nothing(open_memory, clock, tmp_path):
    memory = open_memory()
    fill(memory, clock)
    count = memory.export(tmp_path / "out.jsonl", vectors=True)
    other = open_memory(tmp_path / "other.db")
    assert other.import_(tmp_path / "out.jsonl") == count == len(everything(memory))
    assert everything(other) == everything(memory)
    ask = [hit.memory for hit in memory.recall("where do I live?", k=9)]
    assert [hit.memory for hit in other.recall("where do I live?", k=9)] == ask
    assert [hit.memory.id for hit in other.recall("live", as_of=5.0)] == ["home1"]
    assert other.export(tmp_path / "again.jsonl", vectors=True) == count
    other.check()
    assert other.check().ok


def test_a_line_is_a_json_object_of_ascii_and_there_is_one_for_each_memory(open_memory, clock, tmp_path):
    memory = open_memory()
    fill(memory, clock)
    count = memory.export(str(tmp_path / "out.jsonl"))
    raw = (tmp_path / "out.jsonl").read_bytes()
    assert raw.isascii()
    lines = [json.loads(line) for line in raw.splitlines()]
    assert len(lines) == count
    assert [line["id"] for line in lines] == [one.memory.id for one in everything(memory)]
    assert "vectors" not in lines[0]
    home = lines[0]
    assert (home["text"], home["at"], home["status"]) == ("I live in Oslo.", 1.5, "superseded")
    assert home["successors"] == [["home2", lines[1]["at"]]]


def test_importing_twice_is_importing_once(open_memory, clock, tmp_path):
    memory = open_memory()
    fill(memory, clock)
    count = memory.export(tmp_path / "out.jsonl")
    other = open_memory(tmp_path / "other.db")
    assert other.import_(tmp_path / "out.jsonl") == count
    before, version = everything(other), other.storage.memories.version("ada")
    assert other.import_(tmp_path / "out.jsonl") == 0
    assert memory.import_(tmp_path / "out.jsonl") == 0
    assert everything(other) == before
    assert other.storage.memories.version("ada") == version


def test_vectors_come_along_if_asked_for_and_are_made_anew_otherwise(open_memory, tmp_path):
    memory = open_memory()
    memory.remember("green tea", id="1")
    memory.export(tmp_path / "with.jsonl", vectors=True)
    memory.export(tmp_path / "without.jsonl")

    class Counting(HashEmbedder):
        texts = 0

        def embed(self, texts, *, query=False):
            self.texts += 0 if query else len(texts)
            return super().embed(texts, query=query)

    for name, made in (("with", 0), ("without", 1)):
        model = Counting()
        other = open_memory(tmp_path / f"{name}.db", embedder=model)
        other.import_(tmp_path / f"{name}.jsonl")
        assert "semantic" in other.recall("tea")[0].parts
        assert model.texts == made
        assert everything(other)[0].vectors == everything(memory)[0].vectors
    smaller = open_memory(tmp_path / "smaller.db", embedder=HashEmbedder(32))
    smaller.import_(tmp_path / "with.jsonl")
    smaller.recall("tea")
    assert len(everything(smaller)[0].vectors) == 4 * 32
    assert smaller.check().ok


def test_into_a_used_file_and_one_subject_stays_one_fact(open_memory, clock, tmp_path):
    memory = open_memory()
    memory.remember("I live in Oslo.", id="oslo", subject="home", at=100.0)
    memory.export(tmp_path / "out.jsonl")
    other = open_memory(tmp_path / "other.db")
    other.remember("I live in Rome.", id="rome", subject="home", at=200.0)
    other.remember("I like tea.", id="tea")
    assert other.import_(tmp_path / "out.jsonl") == 1
    assert {one.id for one in other.long_term.list()} == {"rome", "tea"}
    assert {hit.memory.id for hit in other.recall("live", k=9)} == {"rome", "tea"}
    assert [hit.memory.id for hit in other.recall("live", as_of=150.0)] == ["oslo"]


def test_an_id_taken_by_another_text_imports_nothing(open_memory, tmp_path):
    memory = open_memory()
    memory.remember_many([{"text": "one", "id": "1"}, {"text": "two", "id": "2"}])
    memory.export(tmp_path / "out.jsonl")
    other = open_memory(tmp_path / "other.db")
    other.remember("another two", id="2")
    with pytest.raises(DuplicateId, match="'2' is taken in scope 'ada'"):
        other.import_(tmp_path / "out.jsonl")
    assert [one.text for one in other.long_term.list()] == ["another two"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "one JSON object a line"),
        ("[1]", "one JSON object a line, got list"),
        ("[" * 100_000, "."),
        ('{"id": "x", "scope": "ada"}', "a key 'text'"),
        ('{"id": "", "scope": "ada", "text": "x"}', "id: expected"),
        ('{"id": "x", "scope": 3, "text": "x"}', "scope: expected"),
        ('{"id": "x", "scope": "ada", "text": "\\ud800"}', "lone surrogate"),
        ('{"id": "x", "scope": "ada", "text": "x", "status": "gone"}', "status: expected one of active"),
        ('{"id": "x", "scope": "ada", "text": "x", "importance": 2}', "importance: expected"),
        ('{"id": "x", "scope": "ada", "text": "x", "at": NaN}', "at: expected"),
        ('{"id": "x", "scope": "ada", "text": "x", "access_count": -1}', "access_count: expected"),
        ('{"id": "x", "scope": "ada", "text": "x", "access_count": 1e9}', "access_count: expected"),
        ('{"id": "x", "scope": "ada", "text": "x", "access_count": 99999999999999999999}', "access_count: expected"),
        ('{"id": "x", "scope": "ada", "text": "x", "access_count": 9007199254740992}', "access_count: expected"),
        ('{"id": "x", "scope": "ada", "text": "x", "tags": "t"}', "tags: expected"),
        ('{"id": "x", "scope": "ada", "text": "x", "metadata": []}', "metadata: expected"),
        ('{"id": "x", "scope": "ada", "text": "x", "pinned": 1}', "pinned: expected true or false"),
        ('{"id": "x", "scope": "ada", "text": "x", "evidence": -1}', "evidence: expected"),
        ('{"id": "x", "scope": "ada", "text": "x", "sources": [["s"]]}', "sources: expected pairs"),
        ('{"id": "x", "scope": "ada", "text": "x", "successors": [["a", "b"]]}', "successors: expected"),
        ('{"id": "x", "scope": "ada", "text": "x", "successors": {}}', "successors: expected a list"),
        ('{"id": "x", "scope": "ada", "text": "x", "embedder": "m", "vectors": "!"}', "vectors: expected base64"),
        (
            '{"id": "x", "scope": "ada", "text": "x", "lc": 1}',
            "keys among .*, got 'lc'; if a newer release wrote the file, update",
        ),
        ('{"id": "1", "scope": "ada", "text": "not one"}', "came with another text in line 1"),
    ],
)
def test_a_bad_line_imports_nothing_and_is_named(open_memory, tmp_path, line, message):
    memory = open_memory()
    memory.remember("one", id="1")
    memory.export(tmp_path / "out.jsonl")
    with (tmp_path / "out.jsonl").open("a") as out:
        out.write(f"\n{line}\n")
    other = open_memory(tmp_path / "other.db")
    with pytest.raises(InvalidInput, match=f"out.jsonl, line 3: .*{message}(?s:.*)nothing was imported"):
        other.import_(tmp_path / "out.jsonl")
    assert other.long_term.list(status=None) == []


def test_a_line_needs_no_more_than_an_id_a_text_and_a_scope(open_memory, clock, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"id": "1", "text": "I like tea.", "scope": "bob"}\n\n')
    memory = open_memory()
    assert memory.import_(tmp_path / "in.jsonl") == 1
    (hit,) = memory.recall("tea", scope="bob")
    assert (hit.memory.at, hit.memory.created_at, hit.memory.role) == (clock.now, clock.now, "user")


def test_bytes_that_are_no_text_and_files_that_are_not_there_are_named(open_memory, tmp_path):
    memory = open_memory()
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="expected UTF-8"):
        memory.import_(tmp_path / "bytes")
    with pytest.raises(StorageError, match="nowhere"):
        memory.import_(tmp_path / "nowhere")
    with pytest.raises(StorageError, match="export to another path"):
        memory.export(tmp_path / "nowhere" / "out.jsonl")
    for wrong in ("", None, 3, "a\0b"):
        for call in (memory.export, memory.import_):
            with pytest.raises(InvalidInput, match="path: expected"):
                call(wrong)
    for call in (memory.export, memory.import_):
        with pytest.raises(StorageError, match="expected a file that can be"):
            call("x" * 5_000)


def test_an_export_that_fails_leaves_the_old_file_and_no_other(open_memory, tmp_path, monkeypatch):
    memory = open_memory()
    memory.remember("one", id="1")
    (tmp_path / "out").mkdir()
    memory.export(tmp_path / "out" / "kept.jsonl")
    before = (tmp_path / "out" / "kept.jsonl").read_bytes()
    memory.remember("two", id="2")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        memory.export(tmp_path / "out" / "kept.jsonl")
    assert (tmp_path / "out" / "kept.jsonl").read_bytes() == before
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["kept.jsonl"]


EXPORTING = (
    START
    + """
import os, signal
def at_the_end(_):
    if sys.argv[3] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    print("at the end", flush=True)
    sys.stdin.readline()
os.fsync = at_the_end
print(memory.export(sys.argv[2]))
memory.close()
"""
)


@pytest.mark.skipif(sys.platform == "win32", reason="no lock tells there whether a part is being written")
def test_what_a_killed_export_left_is_removed_by_the_next_and_what_a_living_one_writes_is_not(open_memory, tmp_path):
    with open_memory() as memory:
        memory.remember("tea")
    out, folder = tmp_path / "out" / "all[1].jsonl", tmp_path / "out"
    folder.mkdir()
    assert run(EXPORTING, tmp_path / "memory.db", out, "killed").wait() == -signal.SIGKILL
    (stale,) = folder.iterdir()
    others = [
        folder / name for name in (".all[1].jsonl.part", ".all[1].jsonl.x.abcdefgh.part", ".all1.jsonl.abcdefgh.part")
    ]
    for one in others:
        one.write_text("mine")
    link = folder / ".all[1].jsonl.abcdefgh.part"
    link.symlink_to(others[0])
    writer = run(EXPORTING, tmp_path / "memory.db", out, "", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdout.readline() == "at the end\n"
    assert not stale.exists()
    (living,) = set(folder.iterdir()) - {*others, link}
    with open_memory() as memory:
        assert memory.export(out) == 1
    assert set(folder.iterdir()) == {living, out, link, *others}
    assert writer.communicate("go on\n")[0] == "1\n"
    assert set(folder.iterdir()) == {out, link, *others}


@pytest.mark.parametrize("end", ["", "-wal"])
def test_an_export_never_takes_the_place_of_the_memory_itself(open_memory, tmp_path, end):
    memory = open_memory()
    memory.remember("tea", id="1")
    (tmp_path / "link.db").symlink_to(tmp_path / f"memory.db{end}")
    for path in (tmp_path / f"memory.db{end}", tmp_path / "link.db"):
        with pytest.raises(InvalidInput, match=r"another file than the memory itself.*\.jsonl"):
            memory.export(path)
    memory.close()
    assert open_memory().get("1").text == "tea"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_an_export_puts_no_file_in_the_place_of_what_is_none(open_memory, tmp_path):
    memory = open_memory()
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(StorageError, match="expected a file that can be written"):
            memory.export(path)
    assert (tmp_path / "pipe").is_fifo()
    assert memory.export(tmp_path / "out.jsonl") == memory.export(tmp_path / "out.jsonl") == 0


def test_only_the_scope_asked_for_is_written_and_a_scope_is_needed(open_memory, tmp_path):
    memory = open_memory(default_scope=None)
    memory.remember("hers", scope="ada")
    memory.remember("his", scope="Ada")
    assert memory.export(tmp_path / "out.jsonl", scope="ada") == 1
    assert [json.loads(line)["text"] for line in (tmp_path / "out.jsonl").read_text().splitlines()] == ["hers"]
    assert memory.export(tmp_path / "none.jsonl", scope="stranger") == 0
    assert memory.import_(tmp_path / "none.jsonl") == 0
    with pytest.raises(ScopeRequired):
        memory.export(tmp_path / "out.jsonl")


async def test_the_async_twins_do_the_same(open_memory, tmp_path):
    memory = open_memory()
    memory.remember("tea", id="1")
    assert await memory.aexport(tmp_path / "out.jsonl") == 1
    other = open_memory(tmp_path / "other.db")
    assert await asyncio.gather(other.aimport_(tmp_path / "out.jsonl"), other.aimport_(tmp_path / "out.jsonl")) in (
        [1, 0],
        [0, 1],
    )
    assert (await other.acheck()).ok
    assert (await other.arebuild_index()).ok
    assert (await other.aforget_scope("ada")).memories == 1


CANARY = "ghp_" + "a1B2" * 9


def test_what_comes_in_from_a_file_is_masked_like_what_is_written(open_memory, tmp_path):
    lax = open_memory(tmp_path / "lax.db", settings=Settings(mask=None))
    lax.remember(f"The deploy token is {CANARY}", id="1")
    lax.remember("Tea with milk.", id="2")
    lax.export(tmp_path / "out.jsonl", vectors=True)
    memory = open_memory()
    assert memory.import_(tmp_path / "out.jsonl") == 2
    assert memory.get("1").text == "The deploy token is [masked]"
    assert CANARY not in str(everything(memory))
    stored = {one.memory.id: one.vectors for one in everything(memory)}
    assert stored["1"] is None  # a vector of the secret tells of it
    assert stored["2"] is not None
    assert memory.recall("deploy token")[0].memory.id == "1"
    assert memory.check().ok
    assert memory.import_(tmp_path / "out.jsonl") == 0
    memory.export(tmp_path / "again.jsonl", vectors=True)
    other = open_memory(tmp_path / "other.db")
    other.import_(tmp_path / "again.jsonl")
    assert everything(other) == everything(memory)  # what is masked already comes through as it is
    kept = open_memory(tmp_path / "kept.db", settings=Settings(mask=None))
    kept.import_(tmp_path / "out.jsonl")
    assert kept.get("1").text.endswith(CANARY)


def test_what_stands_here_unmasked_comes_in_again_as_nothing_new(open_memory, tmp_path):
    lax = open_memory(settings=Settings(mask=None))
    lax.remember(f"The deploy token is {CANARY}", id="1")
    lax.remember("Tea with milk.", id="2")
    lax.export(tmp_path / "out.jsonl")
    lax.close()
    memory = open_memory()
    before = everything(memory)
    assert memory.import_(tmp_path / "out.jsonl") == 0
    assert everything(memory) == before
    memory.supersede("1", "The deploy token was changed.")
    assert memory.import_(tmp_path / "out.jsonl") == 0
    memory.forget(["1"])
    memory.remember("Another text.", id="1")
    with pytest.raises(DuplicateId, match="id '1' is taken"):
        memory.import_(tmp_path / "out.jsonl")


def test_a_file_that_an_editor_marked_as_utf_8_is_read(open_memory, tmp_path):
    memory = open_memory()
    memory.remember("one", id="1")
    memory.export(tmp_path / "out.jsonl")
    (tmp_path / "marked.jsonl").write_bytes(
        b"\xef\xbb\xbf" + (tmp_path / "out.jsonl").read_bytes().replace(b"\n", b"\r\n")
    )
    assert open_memory(tmp_path / "other.db").import_(tmp_path / "marked.jsonl") == 1


def test_a_mask_that_fails_lets_nothing_be_imported(open_memory, tmp_path):
    memory = open_memory(tmp_path / "one.db")
    memory.remember("one", id="1")
    memory.remember("two", id="2")
    memory.export(tmp_path / "out.jsonl")

    def fails(text):
        if text == "two":
            raise ValueError(text)
        return text

    other = open_memory(settings=Settings(mask=fails))
    with pytest.raises(ValueError, match="two"):
        other.import_(tmp_path / "out.jsonl")
    assert other.long_term.list(status=None) == []
