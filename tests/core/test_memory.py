"""The whole: opening and closing, stats, the async twins, and what a call costs."""

import inspect
from pathlib import Path

import pytest

from shared_core import (
    MISS,
    Closed,
    InvalidInput,
    Memory,
    ScopeRequired,
    Settings,
    StorageError,
    TieredMemory,
)


def texts(found):
    return [(hit.memory if hasattr(hit, "memory") else hit).text for hit in found]


# -- opening, closing, the whole -------------------------------------------------------------------


def test_a_call_needs_a_scope_or_a_default(open_memory):
    memory = open_memory(default_scope=None)
    calls = [
        lambda: memory.remember("x"),
        lambda: memory.recall("x"),
        lambda: memory.recall("x", k=0),
        lambda: memory.forget("1"),
        lambda: memory.get("1"),
        lambda: memory.pin("1"),
        memory.sweep,
        memory.long_term.list,
        lambda: memory.context("s"),
        lambda: memory.turns.begin("x"),
        lambda: memory.turns.end([], session="s"),
    ]
    for call in calls:
        with pytest.raises(ScopeRequired, match="default_scope"):
            call()
    assert memory.remember("x", scope="bob").scope == "bob"


def test_closing_twice_is_fine_and_use_after_it_is_named(memory):
    window = memory.context("s")
    memory.remember("Tea.", id="1")
    memory.close()
    memory.close()
    calls = [
        lambda: memory.remember("x"),
        lambda: memory.recall("x"),
        lambda: memory.get("1"),
        lambda: memory.forget("1"),
        lambda: memory.pin("1"),
        lambda: memory.sweep(max_memories=0),
        memory.long_term.list,
        lambda: window.append({"role": "user", "content": "x"}),
        window.history,
    ]
    for call in calls:
        with pytest.raises(Closed, match="was closed; open it again"):
            call()


def test_it_closes_as_a_context_manager(tmp_path):
    with TieredMemory.open(tmp_path / "m.db", embedder="none", default_scope="a") as memory:
        memory.remember("x")
    with pytest.raises(StorageError):
        memory.get("x")


def test_memories_survive_a_restart(open_memory):
    memory = open_memory()
    kept = memory.remember("Tea.", metadata={"a": [1]})
    memory.close()
    again = open_memory()
    assert again.get(kept.id) == kept
    assert texts(again.recall("tea")) == ["Tea."]


def test_a_store_in_memory_works_alone(open_memory):
    memory = open_memory(":memory:")
    memory.remember("Tea.")
    assert texts(memory.recall("tea")) == ["Tea."]
    assert open_memory(":memory:").recall("tea") == []


def test_stats_count_what_happened(memory):
    memory.remember_many([{"text": "tea"}, {"text": "tea"}, {"text": "wine"}])
    memory.recall("tea", k=1)
    memory.sweep(max_memories=1)
    counted = memory.stats()["long_term"]
    assert {name: counted[name] for name in ("remembered", "strengthened", "recalls", "recalled", "evicted")} == {
        "remembered": 2, "strengthened": 1, "recalls": 1, "recalled": 1, "evicted": 1,
    }  # fmt: skip
    assert set(memory.stats()) == {"short_term", "mid_term", "long_term"}


@pytest.mark.parametrize("location", ["", None, 7, b"x"])
def test_a_location_is_a_path(location):
    with pytest.raises(InvalidInput, match="location: expected a path or ':memory:'"):
        TieredMemory.open(location, embedder="none")


@pytest.mark.parametrize("path", ["agent.db", Path("agent.db")])
def test_a_memory_made_of_a_path_says_how_one_is_opened(path):
    with pytest.raises(InvalidInput, match=r"storage: expected a Storage.*write TieredMemory.open\('agent.db'\)"):
        TieredMemory(path)


# -- async twins -----------------------------------------------------------------------------------


async def test_the_async_twins_do_the_same(memory):
    kept = await memory.aremember("Tea.", id="1", tags=["x"])
    assert isinstance(kept, Memory)
    assert texts(await memory.aremember_many([{"text": "Wine."}])) == ["Wine."]
    assert texts(await memory.arecall("tea", k=1)) == ["Tea."]
    assert (await memory.aget("1")).id == "1"
    await memory.apin("1")
    assert (await memory.aget("1")).pinned
    assert texts(await memory.long_term.alist(limit=1)) == ["Wine."]
    assert texts(await memory.long_term.aretrieve_by_tags(["x"])) == ["Tea."]
    assert texts(await memory.long_term.aretrieve_by_similarity("tea", limit=1)) == ["Tea."]
    assert len(await memory.long_term.aretrieve_by_recency()) == 2
    assert len(await memory.long_term.aretrieve_by_importance()) == 2
    assert (await memory.asupersede("1", "No tea.")).text == "No tea."
    assert (await memory.asweep(max_memories=2, dry_run=True)).kept == 2
    assert await memory.aforget("1") == 1
    assert (await memory.astats())["long_term"]["remembered"] == 2
    await memory.aclose()
    with pytest.raises(Closed):
        await memory.aget("1")


@pytest.mark.parametrize(
    "name",
    [
        "remember",
        "remember_many",
        "recall",
        "get",
        "forget",
        "supersede",
        "pin",
        "sweep",
        "export",
        "import_",
        "forget_scope",
        "check",
        "rebuild_index",
        "stats",
        "close",
    ],
)
def test_every_public_call_has_a_twin_that_is_a_coroutine(name):
    assert inspect.iscoroutinefunction(getattr(TieredMemory, f"a{name}"))


# -- what a call costs -----------------------------------------------------------------------------


def traced(memory, call):
    """The SQL statements that one call runs, values filled in."""
    statements = []
    connections = memory.storage._connections
    with connections.write() as db:
        writer = db
    with connections.read() as db:
        reader = db
    for db in (writer, reader):
        db.set_trace_callback(statements.append)
    try:
        call()
    finally:
        for db in (writer, reader):
            db.set_trace_callback(None)
    return statements


@pytest.mark.parametrize("count", [100, 1_000])
def test_a_warm_recall_or_write_reads_no_more_rows_when_there_are_more(open_memory, count):
    memory = open_memory()
    memory.remember_many([{"text": f"fact number {i}", "id": str(i)} for i in range(count)])
    memory.recall("fact")
    memory.remember("one more fact")
    memory.recall("fact")
    recalled = traced(memory, lambda: memory.recall("fact"))
    assert len(recalled) < 10
    written = traced(memory, lambda: memory.remember("and another fact"))
    assert len(written) < 40
    plans = []
    with memory.storage._connections.read() as db:
        for statement in recalled + written:
            if statement.split()[0] in ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH"):
                plans += [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}")]
    assert plans
    assert [step for step in plans if step.startswith("SCAN") and "CONSTANT ROW" not in step] == []


def test_indexes_of_many_scopes_stay_within_their_bound(open_memory):
    memory = open_memory(settings=Settings(index_bytes=200_000))
    for i in range(50):
        memory.remember(f"fact {i}", scope=f"scope {i}")
    held = memory.long_term._store._indexes
    assert sum(index.nbytes for index in held.values()) <= 200_000
    assert "scope 49" in held
    for i in range(50):
        assert texts(memory.recall("fact", scope=f"scope {i}")) == [f"fact {i}"]


def test_an_index_does_not_keep_what_was_deleted(open_memory):
    memory = open_memory(embedder="none")
    for start in range(0, 4_000, 500):
        kept = memory.remember_many([{"text": f"fact {i}", "importance": 0.5} for i in range(start, start + 500)])
        memory.recall("fact", k=1)
        memory.forget([item.id for item in kept])
    memory.remember("the last fact")
    assert texts(memory.recall("fact")) == ["the last fact"]
    with memory.long_term._store.current("ada") as index:
        assert index.n <= 2_000


def test_a_forget_that_ends_half_way_replays_no_answer_built_on_the_memory(open_memory):
    memory = open_memory()
    kept = memory.remember("Ada's door code is 4711.")
    request = {"messages": [{"role": "user", "content": "What is the code?"}]}
    memory.responses.put(request, {"content": "4711"})

    class DiskFullError(Exception):
        pass

    def fails(*_, **__):
        raise DiskFullError

    rows = memory.storage.memories
    whole, rows.delete = rows.delete, fails
    with pytest.raises(DiskFullError):
        memory.forget(kept.id)
    assert memory.responses.get(request) is MISS
    memory.responses.put(request, {"content": "4711"})
    rows.delete = whole
    assert memory.forget(kept.id) == 1
    assert memory.responses.get(request) is MISS
    assert memory.forget([]) == 0
