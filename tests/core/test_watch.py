"""How a watched file or directory is recognised as unchanged."""

import os
import time
from pathlib import Path

import pytest

from shared_core.mid_term.watch import still, watch

OLD = 1_600_000_000
NOW = 1_700_000_000.0


def write(path, text, at=OLD):
    path.write_text(text)
    os.utime(path, (at, at))


def test_an_untouched_file_is_unchanged(tmp_path):
    file = tmp_path / "f"
    write(file, "one")
    assert still(watch([str(file)], NOW), NOW) is not None


@pytest.mark.parametrize("change", [
    lambda file: write(file, "two", OLD + 1),  # edited
    lambda file: write(file, "one", OLD - 500),  # an older copy restored
    lambda file: write(file, "longer", OLD),  # edited, time put back
    lambda file: write(file, "owt", OLD),  # edited to the same size, time put back
    lambda file: (write(file.with_name("g"), "two", OLD), file.with_name("g").replace(file)),  # replaced
    lambda file: file.unlink(),  # deleted
    lambda file: (file.unlink(), file.mkdir()),  # became a directory
])  # fmt: skip
def test_a_changed_file_is_recognised(tmp_path, change):
    file = tmp_path / "f"
    write(file, "one")
    seen = watch([str(file)], time.time() + 60)
    change(file)
    assert still(seen, time.time() + 60) is None


def test_edits_within_one_tick_of_a_young_files_clock_are_recognised_by_content(tmp_path, monkeypatch):
    """All that stat tells stays as it was; while the file is younger than two seconds its content decides."""
    file = tmp_path / "f"
    file.write_text("one")
    facts = file.stat()
    real = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **kw: facts if str(path) == str(file) else real(path, **kw))
    now = facts.st_mtime + 1.9
    seen = watch([str(file)], now)
    assert still(seen, now) is not None
    file.write_text("two")
    assert still(seen, now) is None
    assert still(seen, now + 100) is None


def test_a_file_that_is_no_longer_young_is_hashed_once_more_and_then_known_by_its_facts(tmp_path):
    file = tmp_path / "f"
    file.write_text("one")
    now = file.stat().st_mtime
    seen = watch([str(file)], now + 1)
    assert seen[0][2][2] is not None
    later = still(seen, now + 3)
    assert later[0][2][2] is not None
    assert still(later, now + 3)[0][2][2] is None


def test_a_link_pointed_elsewhere_is_a_change(tmp_path):
    write(tmp_path / "a", "one")
    write(tmp_path / "b", "one")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "a")
    seen = watch([str(link)], NOW)
    link.unlink()
    link.symlink_to(tmp_path / "b")
    assert still(seen, NOW) is None


def test_editing_the_file_behind_a_link_is_a_change(tmp_path):
    write(tmp_path / "a", "one")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "a")
    seen = watch([str(link)], NOW)
    write(tmp_path / "a", "two!")
    assert still(seen, NOW) is None


@pytest.mark.parametrize("change", [
    lambda d: write(d / "new", ""),
    lambda d: (d / "f").unlink(),
    lambda d: (d / "f").replace(d / "g"),
    lambda d: write(d / "f", "other"),  # the directory's own time does not change
    lambda d: (d / "sub").mkdir(),
])  # fmt: skip
def test_a_directory_sees_entries_added_removed_renamed_and_edited(tmp_path, change):
    folder = tmp_path / "d"
    folder.mkdir()
    write(folder / "f", "one")
    os.utime(folder, (OLD, OLD))
    seen = watch([str(folder)], NOW)
    assert still(seen, NOW) is not None
    change(folder)
    assert still(seen, NOW) is None


def test_a_path_that_was_not_there_is_a_change_when_it_appears(tmp_path):
    file = tmp_path / "f"
    seen = watch([str(file)], NOW)
    assert still(seen, NOW) is not None
    file.write_text("")
    assert still(seen, NOW) is None


def test_a_relative_path_means_another_file_in_another_working_directory(tmp_path, monkeypatch):
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "f", name)
    monkeypatch.chdir(tmp_path / "x")
    seen = watch(["f"], NOW)
    monkeypatch.chdir(tmp_path / "y")
    assert still(seen, NOW) is None


@pytest.mark.parametrize(
    "resource", ["orders", "https://example.com/a?b=c", "x" * 10_000, "nul\0byte", "a/b/c", "价格"]
)
def test_a_resource_that_is_no_path_is_never_a_change(resource):
    assert still(watch([resource], NOW), NOW) is not None


def test_the_word_file_before_a_path_is_not_part_of_it(tmp_path):
    file = tmp_path / "f"
    seen = watch([f"file:{file}"], NOW)
    file.write_text("now it is there")
    assert still(seen, NOW) is None


@pytest.mark.skipif(not Path("/proc/uptime").exists(), reason="no system file here that changes by itself")
def test_a_file_whose_content_the_system_makes_up_is_known_by_what_it_says():
    """Neither its time nor its size tells that it changed, and it is never old enough to be trusted."""
    file = Path("/proc/uptime")
    before, seen = file.read_text(), watch([str(file)], time.time() + 60)
    while file.read_text() == before:
        pass
    assert still(seen, time.time() + 60) is None


@pytest.mark.skipif(not Path("/proc/kmsg").exists(), reason="no file here that keeps a reader waiting")
def test_looking_at_a_directory_opens_nothing_that_keeps_a_reader_waiting(monkeypatch):
    """Whoever reads ``/proc/kmsg`` waits for the next message of the kernel."""
    opened = []
    monkeypatch.setattr("shared_core.mid_term.watch._content", lambda path, *_: opened.append(path) or "")
    ((_, _, mark),) = watch(["/proc"], 0.0)  # all of it younger than that
    assert "kmsg" in dict(mark[2])
    assert not [path for path in opened if path in ("/proc/kmsg", "/proc/kcore")]


@pytest.mark.parametrize("holes", [False, True])
def test_a_large_file_is_not_hashed_it_cannot_be_told_apart_while_it_is_young(tmp_path, monkeypatch, holes):
    """64 MiB are too much to read for the sake of a cache, and of holes alone 64 KiB."""
    monkeypatch.setattr("shared_core.mid_term.watch._MOST_HASHED", 100_000)
    file = tmp_path / "f"
    with file.open("wb") as written:
        written.write(b"" if holes else b"x" * 100_001)
        written.truncate(100_001)
    now = file.stat().st_mtime
    with pytest.raises(OSError, match="too large"):
        watch([str(file)], now + 1)
    seen = watch([str(file)], now + 3)
    assert still(seen, now + 3) is not None
    assert watch([str(tmp_path)], now + 1)  # a listing of where it lies can be kept


def test_a_file_whose_facts_have_changed_already_is_not_read(tmp_path, monkeypatch):
    file = tmp_path / "f"
    file.write_text("one")
    seen = watch([str(file)], file.stat().st_mtime)
    file.write_text("longer")
    monkeypatch.setattr("shared_core.mid_term.watch._content", lambda *_: pytest.fail("read"))
    assert still(seen, file.stat().st_mtime) is None
