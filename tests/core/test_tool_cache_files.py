"""What was read from a file or a directory is served until that changes."""

import os
from pathlib import Path

import pytest

from shared_core.testing import FakeClock
from tests.core.tool_cache_kit import Counted, shelf, tool_cache

OLD = 1_600_000_000


@pytest.fixture
def tools():
    return shelf()


def read(tools, path):
    def text_or_names(path):
        path = Path(path)
        return path.read_text() if path.is_file() else sorted(entry.name for entry in path.iterdir())

    return tools.call("read", {"path": str(path)}, text_or_names)


def test_a_file_is_read_once_until_it_changes(tools, tmp_path):
    file = tmp_path / "f"
    file.write_text("one")
    os.utime(file, (OLD, OLD))
    assert [read(tools, file), read(tools, file)] == ["one", "one"]
    assert tools.stats()["hits"] == 1
    file.write_text("two")
    assert read(tools, file) == "two"


def test_the_first_change_after_the_first_read_is_seen(tools, tmp_path):
    """What counts is the file as it was when it was read, not when it is first checked."""
    file = tmp_path / "f"
    file.write_text("one")
    read(tools, file)
    file.write_text("two")
    assert read(tools, file) == "two"


def test_quick_edits_within_one_second_are_seen(tools, tmp_path):
    file = tmp_path / "f"
    for text in ("aa", "bb", "cc", "dd"):
        file.write_text(text)
        assert read(tools, file) == text


def test_a_file_hit_after_its_first_seconds_is_no_longer_hashed(tmp_path):
    file = tmp_path / "f"
    file.write_text("one")
    clock = FakeClock(file.stat().st_mtime + 1)
    tools = tool_cache(clock)
    tools.register("read", reads="path")
    hashes = []
    for wait in (0, 3, 0):
        clock.advance(wait)
        assert read(tools, file) == "one"
        (key,) = tools._entries._shelf.select(lambda entry: True)
        ((_, _, mark),) = tools._entries._shelf.get(key).watched
        hashes.append(mark[2] is not None)
    assert hashes == [True, True, False]


def test_a_restored_older_file_is_not_served_stale(tools, tmp_path):
    file = tmp_path / "f"
    file.write_text("new")
    read(tools, file)
    file.write_text("old")
    os.utime(file, (OLD, OLD))
    assert read(tools, file) == "old"


def test_an_edit_with_its_time_put_back_is_seen_by_its_size(tools, tmp_path):
    file = tmp_path / "f"
    file.write_text("one")
    os.utime(file, (OLD, OLD))
    read(tools, file)
    file.write_text("three")
    os.utime(file, (OLD, OLD))
    assert read(tools, file) == "three"


def test_a_deleted_file_is_not_served_from_the_cache(tools, tmp_path):
    file = tmp_path / "f"
    file.write_text("one")
    read(tools, file)
    file.unlink()
    with pytest.raises(FileNotFoundError):
        tools.call("read", {"path": str(file)}, lambda path: Path(path).read_text())


def test_a_change_during_the_reading_is_not_kept(tools, tmp_path):
    """The file is looked at before and after: a value of which nobody knows the state is handed out, not kept."""
    file = tmp_path / "f"
    file.write_text("one")

    def read_then_edited(path):
        text = Path(path).read_text()
        file.write_text("two, longer")
        return text

    assert tools.call("read", {"path": str(file)}, read_then_edited) == "one"
    assert tools.stats()["entries"] == 0
    assert read(tools, file) == "two, longer"


def test_a_directory_listing_sees_entries_come_and_go_and_change(tools, tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    assert read(tools, folder) == []
    (folder / "a").write_text("")
    assert read(tools, folder) == ["a"]
    misses = tools.stats()["misses"]["invalidated"]
    (folder / "a").write_text("edited inside")
    read(tools, folder)
    assert tools.stats()["misses"]["invalidated"] == misses + 1
    (folder / "a").unlink()
    assert read(tools, folder) == []


def test_an_answer_about_a_missing_file_goes_when_the_file_comes(tools, tmp_path):
    file = tmp_path / "f"
    assert tools.call("read", {"path": str(file)}, lambda path: "no such file") == "no such file"
    file.write_text("here")
    assert read(tools, file) == "here"


def test_a_file_that_cannot_be_looked_at_is_not_kept(tools, tmp_path, monkeypatch):
    real = os.stat

    def refused(path, **more):
        if str(path) == str(tmp_path / "f"):
            raise PermissionError(13, "no")
        return real(path, **more)

    monkeypatch.setattr(os, "stat", refused)
    tool = Counted("x")
    for _ in range(2):
        tools.call("read", {"path": str(tmp_path / "f")}, tool)
    assert tool.calls == 2


def test_tools_do_not_share_what_is_known_about_a_file(tools, tmp_path):
    """One tool re-reading a changed file must not make another tool's old result look current."""
    file = tmp_path / "f"
    file.write_text("one")
    tools.register("count", reads="path")
    tools.call("count", {"path": str(file)}, lambda path: len(Path(path).read_text()))
    file.write_text("three")
    read(tools, file)
    assert tools.call("count", {"path": str(file)}, lambda path: len(Path(path).read_text())) == 5


def test_a_file_and_a_time_to_live_combine(tmp_path):
    clock = FakeClock()
    tools = tool_cache(clock)
    tools.register("read", reads="path", ttl=60)
    file = tmp_path / "f"
    file.write_text("one")
    read(tools, file)
    clock.advance(60)
    read(tools, file)
    assert tools.stats()["misses"]["expired"] == 1
