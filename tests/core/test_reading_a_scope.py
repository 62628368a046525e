"""A process reads a scope once, in pages, and then what changed; a reading that broke off begins again."""

import pytest

from shared_core import Settings
from shared_core.storage.sqlite import memory_feed


class _Away(Exception):
    """What breaks off a reading."""


def facts(memory):
    """What the arrays of the scope hold, and what a few words find."""
    with memory.long_term._store.current("ada") as index:
        columns = {
            name: index.column(name).tolist() for name in ("row", "at", "size", "windows", "length", "importance")
        }
        words = {term: [part.tolist() for part in index.postings([term], None)[0]] for term in ("fact", "7", "nobodi")}
        return index.n, index.count, index.bytes, columns, words


def many(memory, count=600):
    memory.remember_many(
        [{"text": f"fact {i} of {i % 7}", "session": f"s{i % 3}", "tags": [f"t{i % 2}"], "at": i} for i in range(count)]
    )


def test_what_was_read_and_what_was_written_one_by_one_are_the_same_arrays(open_memory):
    writer = open_memory()
    with writer.long_term._store.current("ada"):
        pass
    for i in range(40):
        writer.remember(f"fact {i} of {i % 7}", id=str(i))
    assert facts(open_memory()) == facts(writer)
    assert [hit.memory.id for hit in open_memory().recall("fact 7", k=3)] == [
        hit.memory.id for hit in writer.recall("fact 7", k=3)
    ]


def test_a_reading_that_broke_off_half_way_begins_again_and_doubles_nothing(open_memory, monkeypatch):
    many(open_memory())
    memory = open_memory()
    rows = memory.storage.memories
    pages = rows.pages

    def breaks_off(*args):
        yield next(iter(pages(*args)))
        raise _Away

    monkeypatch.setattr(rows, "pages", breaks_off)
    with pytest.raises(_Away), memory.long_term._store.current("ada"):
        pass
    monkeypatch.undo()
    assert facts(memory) == facts(open_memory())
    assert facts(memory)[0] == 600


def test_the_first_page_says_how_many_rows_come_and_a_later_feed_does_not(open_memory):
    memory = open_memory()
    many(memory)
    rows = memory.storage.memories
    told = [changes.total for changes in rows.pages("ada", 0, None)]
    assert told[0] == 600
    assert set(told[1:]) == {0}
    memory.remember("one more")
    assert [changes.total for changes in rows.pages("ada", rows.version("ada") - 1, None)] == [0]


def test_an_archived_memory_that_comes_back_is_as_it_was_before(open_memory):
    memory = open_memory()
    many(memory, 5)
    before = facts(memory)
    rows, ids = memory.storage.memories, [one.id for one in memory.long_term.list(limit=2)]
    rows.set_status("ada", ids, "archived")
    assert facts(memory)[1] == 3
    assert facts(memory)[2] < before[2]
    rows.set_status("ada", ids, "active")
    assert facts(memory) == before


def test_a_scope_is_read_from_its_beginning_without_walking_past_what_is_archived(open_memory):
    memory = open_memory(settings=Settings(max_memories=3))
    with memory.storage.memories._connections.write() as db:
        heard = []
        for statement in (memory_feed._ALL_ROWS, memory_feed._COUNT):
            told = {"scope": "ada", "embedder": None, "since": 0}
            heard += [step[3] for step in db.execute(f"EXPLAIN QUERY PLAN {statement}", told)]
    assert sum("COVERING INDEX memories_live" in step for step in heard) == 2
    assert not any("TEMP B-TREE" in step or step.startswith("SCAN m") for step in heard)
    for i in range(9):
        memory.remember(f"fact {i}")
    assert [changes.total for changes in memory.storage.memories.pages("ada", 0, None)] == [3]
