"""What recall promises: the best first, within every bound and filter, accesses counted."""

import math
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import (
    InvalidInput,
    Settings,
)
from shared_core.long_term.recall import _best_first


def texts(found):
    return [(hit.memory if hasattr(hit, "memory") else hit).text for hit in found]


def test_recall_on_an_empty_store_is_empty(memory):
    assert memory.recall("anything") == []
    assert memory.recall("") == []
    assert memory.recall("anything", scope="never seen") == []


def test_a_store_of_one_recalls_it(memory):
    memory.remember("Tea.")
    assert texts(memory.recall("quantum physics")) == ["Tea."]
    assert texts(memory.recall("")) == ["Tea."]


def test_k_bounds_the_hits(memory):
    memory.remember_many(
        [{"text": f"Cat number {i} is called {name}."} for i, name in enumerate(["Tom", "Kit", "Ivy"])]
    )
    assert [len(memory.recall("cat", k=k)) for k in (0, 1, 2, 3, 100)] == [0, 1, 2, 3, 3]
    with pytest.raises(ValueError, match="k: expected 0 or more, got -1"):
        memory.recall("cat", k=-1)
    with pytest.raises(InvalidInput, match="k: expected a whole number"):
        memory.recall("cat", k=1.5)
    with pytest.raises(InvalidInput, match="query: expected a string"):
        memory.recall(None)


def test_the_parts_of_a_hit_sum_to_its_score_exactly(memory):
    memory.remember_many([{"text": f"Fact {i} about tea and {word}."} for i, word in enumerate(["milk", "rum", "ice"])])
    hits = memory.recall("tea with milk", k=3)
    assert len(hits) == 3
    for hit in hits:
        assert hit.score == sum(hit.parts.values())
        assert all(math.isfinite(part) for part in hit.parts.values())
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_the_same_question_gets_the_same_answer_from_every_process(open_memory):
    one = open_memory()
    one.remember_many([{"text": f"note {i}", "id": str(i)} for i in range(30)])
    first = [(hit.memory.id, hit.score) for hit in one.recall("note", k=30)]
    again = [(hit.memory.id, hit.score) for hit in open_memory().recall("note", k=30)]
    assert len({id for id, _ in first}) == 30
    assert again == first


@given(st.lists(st.tuples(*[st.sampled_from([0.0, 0.5, 1.0])] * 2), max_size=30), st.integers(1, 40))
def test_the_best_come_first_and_ties_go_to_the_later_event_then_to_the_earlier_memory(facts, most):
    scores, at = (np.array([fact[i] for fact in facts], dtype=np.float64) for i in (0, 1))
    expected = sorted(range(len(facts)), key=lambda i: (-scores[i], -at[i], i))[:most]
    assert _best_first(scores, at, np.arange(len(facts)), most).tolist() == expected


def test_time_bounds_are_half_open(memory):
    for at in (10.0, 20.0, 30.0):
        memory.remember(f"It was {at:.0f} o'clock.", at=at)

    def seen(**bounds):
        return sorted(hit.memory.at for hit in memory.recall("clock", **bounds))

    assert seen(since=20) == [20, 30]
    assert seen(until=20) == [10]
    assert seen(since=10, until=30) == [10, 20]
    assert seen(since=20, until=20) == []
    assert seen(since=datetime.fromtimestamp(20, UTC)) == [20, 30]
    with pytest.raises(InvalidInput, match="naive"):
        memory.recall("clock", since=datetime(2024, 1, 1))  # noqa: DTZ001 - the fault under test


def test_any_of_the_tags_is_enough_and_they_are_exact(memory):
    memory.remember_many(
        [{"text": t, "tags": tags} for t, tags in [("one", ["x"]), ("two", ["y", "z"]), ("three", ["X"])]]
    )

    def seen(tags):
        return sorted(texts(memory.recall("number", tags=tags)))

    assert [seen(["x"]), seen(["x", "z"]), seen([]), seen(["%"])] == [["one"], ["one", "two"], [], []]
    assert len(memory.recall("number", tags=None)) == 3
    with pytest.raises(InvalidInput, match="tags"):
        memory.recall("number", tags="x")


def test_excluded_ids_are_left_out(memory):
    one, two = memory.remember_many([{"text": "one cat"}, {"text": "two cats"}])
    assert texts(memory.recall("cat", exclude=[one.id, "unknown"])) == ["two cats"]
    assert memory.recall("cat", exclude={one.id, two.id}) == []


def test_as_of_looks_back_and_a_replaced_fact_lives_until_its_successor(memory):
    memory.remember("Ada lives in Paris.", at=100.0, id="old")
    memory.remember("Ada plays chess.", at=400.0)
    new = memory.supersede("old", "Ada lives in Rome.")
    assert texts(memory.recall("where does Ada live?", k=1)) == ["Ada lives in Rome."]
    assert "Ada lives in Paris." not in texts(memory.recall("Ada"))
    assert texts(memory.recall("Ada", as_of=99.0)) == []
    assert texts(memory.recall("Ada", as_of=100.0)) == ["Ada lives in Paris."]
    assert set(texts(memory.recall("Ada", as_of=new.at - 1))) == {"Ada lives in Paris.", "Ada plays chess."}
    assert set(texts(memory.recall("Ada", as_of=new.at))) == {"Ada lives in Rome.", "Ada plays chess."}
    assert memory.get("old").status == "superseded"


def test_a_token_budget_is_never_passed_and_a_shorter_memory_takes_the_room(open_memory):
    memory = open_memory(settings=Settings(count_tokens=lambda text: len(text.split())))
    memory.remember_many([{"text": "tea tea tea tea tea tea"}, {"text": "tea pot"}, {"text": "cup of tea"}])
    for budget in range(12):
        hits = memory.recall("tea", max_tokens=budget)
        assert sum(len(hit.memory.text.split()) for hit in hits) <= budget
    assert memory.recall("tea", max_tokens=1) == []
    assert texts(memory.recall("tea", max_tokens=2)) == ["tea pot"]
    assert len(memory.recall("tea", max_tokens=11)) == 3
    with pytest.raises(InvalidInput, match="max_tokens"):
        memory.recall("tea", max_tokens=-1)


def test_near_copies_are_shown_once_but_numbers_negation_and_speaker_tell_apart(memory):
    long = "She said that the train to the coast leaves from platform nine every single morning"
    memory.remember_many(
        [
            {"text": long, "id": "1"},
            {"text": f"{long}!", "id": "2"},
            {"text": long.replace("nine", "two"), "id": "number word"},
            {"text": f"{long} at 7", "id": "number"},
            {"text": long.replace("leaves", "does not leave"), "id": "negated"},
            {"text": long, "speaker": "Bob", "id": "speaker"},
            {"text": long, "role": "assistant", "id": "role"},
        ]
    )
    found = {hit.memory.id for hit in memory.recall("when does the train to the coast leave?", k=10)}
    assert found - {"1", "2"} == {"number word", "number", "negated", "speaker", "role"}
    assert len(found & {"1", "2"}) == 1


def test_equal_texts_without_index_words_are_shown_once(memory):
    memory.remember("🙂", id="1")
    memory.remember("🙂", id="2")
    assert len(memory.recall("🙂")) == 1


def test_a_hit_counts_as_an_access_and_looking_does_not(memory, clock):
    kept = memory.remember("Tea.")
    clock.advance(60)
    memory.get(kept.id)
    memory.long_term.list()
    assert (memory.get(kept.id).access_count, memory.get(kept.id).last_accessed) == (0, kept.created_at)
    memory.recall("tea")
    memory.long_term.retrieve_by_recency()
    assert (memory.get(kept.id).access_count, memory.get(kept.id).last_accessed) == (2, clock.now)
    assert memory.long_term.list()[0].access_count == 2


def test_accesses_are_written_down_with_the_next_write_and_on_close(open_memory):
    one, other = open_memory(), open_memory()
    kept = one.remember("Tea.")
    one.recall("tea")
    assert other.get(kept.id).access_count == 0
    one.remember("Coffee.")
    assert other.get(kept.id).access_count == 1
    one.recall("tea", k=1)
    one.recall("tea", k=1)
    one.close()
    assert other.get(kept.id).access_count == 3


def test_reads_of_nothing_write_nothing(open_memory, tmp_path):
    memory = open_memory()
    memory.recall("tea", scope="stranger")
    memory.recall("tea", max_tokens=0)
    memory.close()
    with closing(sqlite3.connect(tmp_path / "memory.db")) as db, db:
        assert db.execute("SELECT count(*) FROM scopes").fetchone() == (0,)
    db.close()
