"""A disk that is really full: a small file system is made, and filled to its last byte."""

import shutil
import subprocess
from pathlib import Path

import pytest

from shared_core import Blob, Settings, StorageError, TieredMemory
from shared_core.storage.sqlite.full_disk import RESERVE_BYTES
from shared_core.testing.embedders import HashEmbedder

SIZE = 24 * 2**20  # bytes of the disk


class Disk:
    """A file system of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.filler = folder, folder / "filler"

    @property
    def free(self) -> int:
        return shutil.disk_usage(self.folder).free

    def fill(self) -> None:
        """Let something else take all there is."""
        with self.filler.open("ab", buffering=0) as out:
            for size in (2**16, 1):
                try:
                    while out.write(b"x" * size):
                        pass
                except OSError:
                    pass
        assert self.free == 0


@pytest.fixture
def disk(tmp_path, monkeypatch):
    mount, umount = shutil.which("mount"), shutil.which("umount")
    mounted = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", tmp_path], capture_output=True, text=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr if mounted else 'no mount'}")
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))  # where there is one disk, what SQLite sets aside is on it too
    try:
        yield Disk(tmp_path)
    finally:
        subprocess.run([umount, tmp_path], check=True)


def opened(disk, **settings):
    return TieredMemory.open(
        disk.folder / "m.db", embedder=HashEmbedder(), default_scope="ada", settings=Settings(**settings)
    )


def remember_much(memory, number=600):
    return [one.id for one in memory.remember_many({"text": f"fact {i} " + "word " * 400} for i in range(number))]


@pytest.fixture
def memory(disk):
    with opened(disk) as memory:
        yield memory


def test_a_memory_can_be_forgotten_and_then_there_is_room_for_another(disk, memory):
    ids = remember_much(memory)
    memory.storage._connections.wipe()  # or the log would hold some room back
    disk.fill()
    with pytest.raises(StorageError, match=r"8 MiB are enough for usual writes; forget\(…\) has room kept for it"):
        memory.remember("as long as that " * 10_000)
    assert memory.forget(ids[0]) == 1
    assert memory.get(ids[0]) is None
    assert memory.remember("fits again", id="new").id == "new"
    assert {hit.memory.id for hit in memory.recall("fact fits", k=9999)} == {*ids[1:], "new"}
    assert memory.check().ok


def test_a_scope_many_times_larger_than_what_was_kept_is_erased_whole(disk, memory):
    remember_much(memory)
    memory.context("s").extend([{"role": "user", "content": f"{i} " + "x" * 900} for i in range(500)])
    inner = memory.inner_scope("part")
    memory.storage.blobs.put("ada", "kv", [Blob(f"k{i}", b"v" * 4_000, 0.0, tags=("t",)) for i in range(300)])
    memory.storage.blobs.put(inner, "kv", [Blob("k", b"v", 0.0)])
    memory.remember("wine", scope="bob")
    assert memory.storage.size_bytes() > 8 * RESERVE_BYTES
    disk.fill()
    receipt = memory.forget_scope("ada")
    counted = receipt.memories, receipt.vectors, receipt.messages, receipt.blobs, receipt.left
    assert counted == (600, 600, 500, 301, 0)
    assert memory.recall("fact") == []
    assert memory.context("s").history() == []
    assert [hit.memory.text for hit in memory.recall("wine", scope="bob")] == ["wine"]
    assert memory.check().ok
    remember_much(memory, 20)  # what was erased is room in the file
    assert memory.check().memories == 21


def test_conversations_blobs_and_swept_memories_go_too(disk):
    with opened(disk, victims="delete") as memory:
        remember_much(memory)
        memory.context("s").extend([{"role": "user", "content": f"{i} " + "x" * 900} for i in range(500)])
        memory.storage.blobs.put("ada", "kv", [Blob(f"k{i}", b"v" * 4_000, 0.0) for i in range(300)])
        memory.storage.blobs.put("ada", "other", [Blob(f"k{i}", b"v" * 4_000, 0.0) for i in range(300)])
        disk.fill()
        assert len(memory.sweep(max_memories=10).victims) == 590
        assert memory.storage.blobs.delete("ada", "kv", [f"k{i}" for i in range(299)]) == 299
        assert memory.storage.blobs.clear("ada", "other") == 300
        assert memory.storage.logs.delete("ada", "s") == 500
        assert len(memory.long_term.list()) == 10
        assert memory.storage.blobs.keys("ada", "kv", now=1.0) == ["k299"]
        assert memory.storage.blobs.keys("ada", "other", now=1.0) == []
        assert memory.context("s").history() == []
        assert memory.check().ok


def test_a_memory_that_was_closed_on_a_full_disk_is_opened_read_and_forgotten_from(disk):
    with opened(disk) as memory:
        first, *_ = remember_much(memory, 50)
        disk.fill()
    disk.fill()
    with opened(disk) as memory:
        assert memory.recall("fact 1 word", k=1)
        disk.fill()
        assert memory.forget(first) == 1
    with opened(disk) as memory:
        assert memory.get(first) is None


def test_without_what_was_kept_the_error_says_what_to_do(disk):
    with opened(disk) as memory:
        ids = remember_much(memory, 50)
    with opened(disk) as memory:
        (disk.folder / "m.db-reserve").unlink()
        disk.fill()
        with pytest.raises(StorageError, match="8 MiB"):
            memory.forget(ids[0])
        with pytest.raises(StorageError, match="the room that was kept to erase something is used up: free 8 MiB"):
            memory.storage.memories.delete("ada", ids)
        assert len(memory.recall("fact", k=999)) == 50
    disk.fill()
    with pytest.raises(StorageError, match="no room on the disk: free some disk space and try again"):
        opened(disk)
    disk.filler.unlink()
    with opened(disk) as memory:
        assert memory.forget(ids) == 50


def test_a_write_that_would_leave_no_room_to_bring_it_from_the_log_to_the_file_is_refused(disk, memory):
    remember_much(memory)
    with pytest.raises(StorageError, match=r"no room for so much at once: \d+ bytes are free.*write less in one call"):
        remember_much(memory, 2000)
    remember_much(memory, 700)
    assert memory.check().memories == 700


def test_room_is_kept_while_a_memory_is_open_and_again_once_there_is_some(disk):
    reserve = disk.folder / "m.db-reserve"
    with opened(disk) as memory:
        assert reserve.stat().st_size == RESERVE_BYTES
        assert SIZE - disk.free > RESERVE_BYTES  # taken in truth
        disk.fill()
        memory.forget_scope("ada")
        assert reserve.stat().st_size < RESERVE_BYTES  # the half of what is free
    assert reserve.exists()  # the disk is still full, and the next opening may need it
    disk.filler.unlink()
    with opened(disk), opened(disk) as other:
        assert reserve.stat().st_size == RESERVE_BYTES
        assert b"It may be deleted." in reserve.read_bytes()[:200]
        reserve.write_bytes(reserve.read_bytes()[:9])  # a program that died at this moment
        opened(disk).close()
        assert reserve.stat().st_size == RESERVE_BYTES
        assert b"It may be deleted." in reserve.read_bytes()[:200]
        other.close()
        assert reserve.exists()  # the first has the memory open
    assert not reserve.exists()


def test_a_file_of_that_name_which_is_somebody_elses_is_left_alone(disk):
    (disk.folder / "m.db-reserve").write_bytes(b"Dear diary")
    with opened(disk) as memory:
        memory.remember("tea", id="1")
        disk.fill()
        with pytest.raises(StorageError, match=r"free 8 MiB|no room on the disk"):
            memory.forget_scope("ada")
    assert (disk.folder / "m.db-reserve").read_bytes() == b"Dear diary"
