"""What a sweep evicts, and what the plain retrievals rank by."""

import pytest

from shared_core import (
    InvalidInput,
    Settings,
)

DAY = 86_400.0


def texts(found):
    return [(hit.memory if hasattr(hit, "memory") else hit).text for hit in found]


# -- sweep -----------------------------------------------------------------------------------------


def test_a_sweep_evicts_the_lowest_and_archives_them(memory):
    for i in range(5):
        memory.remember(f"fact {i}", id=str(i), importance=i / 10)
    report = memory.sweep(max_memories=3)
    assert [hit.memory.id for hit in report.victims] == ["0", "1"]
    assert [hit.score for hit in report.victims] == [sum(hit.parts.values()) for hit in report.victims]
    assert report.victims[0].parts == pytest.approx({"recency": 0.4, "attention": 0.0})
    assert (report.kept, report.dry_run) == (3, False)
    assert {hit.memory.id for hit in memory.recall("fact", k=10)} == {"2", "3", "4"}
    assert memory.get("0").status == "archived"
    assert memory.sweep(max_memories=3).victims == ()


def test_a_dry_run_lists_and_changes_nothing(memory):
    memory.remember_many([{"text": f"fact {i}"} for i in range(4)])
    report = memory.sweep(max_memories=1, dry_run=True)
    assert (len(report.victims), report.kept, report.dry_run) == (3, 1, True)
    assert len(memory.recall("fact", k=10)) == 4


def test_a_pinned_memory_is_never_evicted(memory):
    memory.remember_many([{"text": f"fact {i}", "id": str(i), "importance": 0.0, "pinned": i == 0} for i in range(3)])
    memory.pin("1")
    assert [hit.memory.id for hit in memory.sweep(max_memories=0).victims] == ["2"]
    memory.pin("1", value=False)
    assert [hit.memory.id for hit in memory.sweep(max_memories=0).victims] == ["1"]


def test_ties_go_to_the_least_recently_used_then_to_the_oldest(memory, clock):
    memory.remember_many([{"text": f"fact {i}", "id": str(i), "importance": 0.5} for i in range(4)])
    assert [hit.memory.id for hit in memory.sweep(max_memories=2).victims] == ["0", "1"]


def test_a_sweep_keeps_to_bytes(open_memory):
    memory = open_memory(embedder="none")
    memory.remember_many(
        [{"text": "x" * 100, "id": "long", "importance": 1.0}, {"text": "y" * 10, "id": "short", "importance": 0.0}]
    )
    assert [hit.memory.id for hit in memory.sweep(max_bytes=105).victims] == ["short"]
    assert memory.sweep(max_bytes=100).victims == ()


def test_victims_are_deleted_if_the_settings_say_so(open_memory):
    memory = open_memory(settings=Settings(victims="delete"))
    memory.remember_many([{"text": "one", "id": "1"}, {"text": "two", "id": "2"}])
    memory.sweep(max_memories=1)
    assert len(memory.long_term.list(status=None)) == 1


def test_a_sweep_without_a_bound_or_in_an_empty_scope_does_nothing(memory):
    memory.remember("one")
    assert memory.sweep().victims == ()
    assert memory.sweep(scope="stranger", max_memories=0).kept == 0
    with pytest.raises(InvalidInput, match="max_memories"):
        memory.sweep(max_memories=-1)


def test_what_was_said_again_after_it_was_archived_is_recalled_again(memory):
    memory.remember("Tea.", id="old")
    memory.sweep(max_memories=0)
    assert memory.recall("tea") == []
    memory.remember("Tea.")
    assert texts(memory.recall("tea")) == ["Tea."]


# -- plain retrievals ------------------------------------------------------------------------------


def test_the_plain_retrievals_rank_by_one_fact(memory, clock):
    memory.remember("green tea", id="1", importance=0.9, tags=["drink"])
    clock.advance(60)
    memory.remember("red wine", id="2", importance=0.1, tags=["drink", "red"])
    memory.remember("blue sky", id="3", importance=0.5)
    plain = memory.long_term

    def ids(found):
        return [item.id for item in found]

    assert ids(plain.retrieve_by_importance()) == ["1", "3", "2"]
    assert ids(plain.retrieve_by_similarity("a cup of tea", limit=1)) == ["1"]
    assert ids(plain.retrieve_by_tags(["red", "drink"], limit=2)) == ["2", "1"]  # both were read just now
    clock.advance(60)
    plain.retrieve_by_tags(["red"])
    assert ids(plain.retrieve_by_recency(limit=1)) == ["2"]
    assert plain.retrieve_by_recency(limit=0) == []
    with pytest.raises(InvalidInput, match="limit"):
        plain.retrieve_by_recency(limit=-1)


def test_memories_of_one_moment_come_last_written_first(memory):
    memory.remember_many([{"text": f"fact {i}", "id": str(i)} for i in range(3)])
    assert [item.id for item in memory.long_term.retrieve_by_recency()] == ["2", "1", "0"]


def test_effective_importance_falls_with_days_and_more_slowly_with_accesses(memory, clock):
    memory.remember("one", id="seldom", importance=0.8)
    memory.remember("two", id="often", importance=0.8)
    for _ in range(5):
        memory.recall("two", exclude=["seldom"])
    clock.advance(100 * DAY)
    found = memory.long_term.retrieve_by_importance()
    assert [item.id for item in found] == ["often", "seldom"]
    assert [item.importance for item in found] == [0.8, 0.8]
