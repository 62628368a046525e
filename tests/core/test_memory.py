"""TieredMemory: what remember, recall, forget, get, pin, list, sweep and stats promise."""

import inspect
import math
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import (
    MISS,
    Closed,
    DuplicateId,
    InvalidInput,
    Memory,
    NotFound,
    ScopeRequired,
    Settings,
    StorageError,
    TieredMemory,
)
from shared_core.long_term.recall import _best_first

DAY = 86_400.0


def texts(found):
    return [(hit.memory if hasattr(hit, "memory") else hit).text for hit in found]


# -- remember --------------------------------------------------------------------------------------


def test_what_is_remembered_is_recalled_at_once(memory, clock):
    kept = memory.remember("I take my coffee black.")
    (hit,) = memory.recall("how does she like coffee?")
    assert hit.memory == kept
    assert (kept.scope, kept.role, kept.status, kept.at, kept.created_at) == (
        "ada",
        "user",
        "active",
        clock.now,
        clock.now,
    )


def test_every_field_comes_back_as_given(memory):
    kept = memory.remember(
        "Tea at five.", role="assistant", speaker="Bob", session="s", tags=["x", "y", "x"], importance=0.25, at=12.5,
        subject="tea", pinned=True, metadata={"deep": [1, {"z": None}]}, id="mine",
    )  # fmt: skip
    assert kept == memory.get("mine")
    assert (kept.role, kept.speaker, kept.session, kept.tags, kept.importance) == (
        "assistant",
        "Bob",
        "s",
        ("x", "y"),
        0.25,
    )
    assert (kept.at, kept.subject, kept.pinned, kept.metadata) == (12.5, "tea", True, {"deep": [1, {"z": None}]})


def test_what_a_caller_passes_or_gets_is_a_copy(memory):
    given = {"n": [1]}
    kept = memory.remember("Tea.", metadata=given)
    given["n"].append(2)
    kept.metadata["n"].append(3)
    assert memory.get(kept.id).metadata == {"n": [1]}
    memory.recall("tea")[0].memory.metadata["n"].append(4)
    assert memory.recall("tea")[0].memory.metadata == {"n": [1]}


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u3000"])
def test_text_without_words_is_refused(memory, text):
    with pytest.raises(InvalidInput, match="text: expected text"):
        memory.remember(text)
    assert memory.long_term.list() == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"text": 3}, "text: expected a string, got int"),
        ({"role": ""}, "role: expected a non-empty string"),
        ({"tags": "abc"}, "tags: expected a list"),
        ({"importance": 1.5}, "importance: expected a number from 0 to 1"),
        ({"importance": math.nan}, "importance"),
        ({"importance": True}, "importance"),
        ({"at": datetime(2024, 1, 1)}, "naive"),  # noqa: DTZ001 - the fault under test
        ({"at": math.inf}, "at: expected epoch seconds"),
        ({"metadata": {"x": object()}}, "metadata: expected values that JSON can carry"),
        ({"metadata": {"x": math.nan}}, "metadata: expected values that JSON can carry"),
        ({"metadata": {1: 2}}, "metadata: expected a dict with string keys"),
        ({"scope": ""}, "scope: expected a non-empty string"),
        ({"id": ""}, "id: expected a non-empty string"),
        ({"subject": 7}, "subject: expected a non-empty string, got int"),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_is_written(memory, wrong, message):
    with pytest.raises(InvalidInput, match=message):
        memory.remember(**{"text": "fine", **wrong})
    with pytest.raises(ValueError, match=message):
        memory.remember_many([{"text": "good"}, {"text": "fine", **wrong}])
    assert memory.long_term.list(status=None) == []


def test_an_unknown_key_of_an_item_is_named(memory):
    with pytest.raises(InvalidInput, match="'colour'"):
        memory.remember_many([{"text": "x", "colour": "red"}])
    with pytest.raises(InvalidInput, match="'source'"):
        memory.remember_many([{"text": "x", "source": ("s", "n")}])
    with pytest.raises(InvalidInput, match="a key 'text'"):
        memory.remember_many([{}])
    with pytest.raises(InvalidInput, match="expected a dict"):
        memory.remember_many(["x"])


def test_an_aware_datetime_and_epoch_seconds_name_the_same_moment(memory):
    moment = datetime(2024, 3, 10, 12, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert memory.remember("Holi.", at=moment).at == moment.timestamp()
    assert memory.remember("Before 1970.", at=datetime(1950, 1, 1, tzinfo=UTC)).at < 0
    assert memory.remember("The end.", at=datetime.max.replace(tzinfo=timezone(-timedelta(hours=12)))).at > 2e11


def test_numbers_of_numpy_are_numbers(memory):
    kept = memory.remember("Tea.", importance=np.float32(0.5), at=np.int64(7))
    assert (kept.importance, kept.at) == (0.5, 7.0)
    assert len(memory.recall("tea", k=np.int64(1))) == 1


def test_many_are_remembered_in_order_and_repeats_share_an_id(memory):
    kept = memory.remember_many([{"text": "b"}, {"text": "a"}, {"text": "B"}, {"text": "c", "scope": "bob"}])
    assert [item.text for item in kept] == ["b", "a", "b", "c"]
    assert kept[0].id == kept[2].id != kept[1].id
    assert (kept[2].access_count, kept[3].scope) == (1, "bob")
    assert memory.remember_many([]) == []
    assert memory.remember_many(iter([{"text": "from an iterator"}]))[0].text == "from an iterator"


def test_an_id_given_again_with_the_same_text_changes_nothing(memory, clock):
    kept = memory.remember("Tea.", id="1")
    clock.advance(10)
    assert memory.remember("Tea.", id="1", tags=["x"]) == kept
    assert memory.get("1") == kept


def test_an_id_given_again_with_another_text_is_an_error_and_writes_nothing(memory):
    memory.remember("Tea.", id="1")
    with pytest.raises(DuplicateId, match="'1' is taken"):
        memory.remember_many([{"text": "new"}, {"text": "Coffee.", "id": "1"}, {"text": "more"}])
    assert texts(memory.long_term.list()) == ["Tea."]
    assert memory.remember("Coffee.", id="1", scope="bob").text == "Coffee."


def test_importance_comes_from_the_text_unless_it_is_given(memory):
    told, polite = memory.remember_many([{"text": "I was born in Lisbon on 3 May 1990."}, {"text": "Thanks, great!"}])
    assert 0 <= polite.importance < told.importance <= 1
    assert memory.remember("Thanks!", importance=1).importance == 1.0


# -- recall ----------------------------------------------------------------------------------------


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


# -- forget, get, pin, list ------------------------------------------------------------------------


def test_forget_counts_what_there_was_and_frees_the_id(memory):
    memory.remember("Tea.", id="1")
    memory.remember("Coffee.", id="2")
    assert memory.forget(["1", "unknown", "1"]) == 1
    assert memory.forget("1") == 0
    assert memory.forget([]) == 0
    assert memory.get("1") is None
    assert texts(memory.recall("tea")) == ["Coffee."]
    assert memory.remember("Juice.", id="1").text == "Juice."
    assert set(texts(memory.recall("juice"))) == {"Juice.", "Coffee."}


def test_a_forgotten_id_can_be_used_again_while_another_index_is_open(open_memory):
    one, other = open_memory(), open_memory()
    one.remember("Tea with milk.", id="1")
    assert texts(other.recall("tea")) == ["Tea with milk."]
    one.forget("1")
    one.remember("Black coffee.", id="1")
    assert texts(other.recall("tea")) == ["Black coffee."]
    one.forget("1")
    assert other.recall("tea") == []


def test_forgotten_text_is_gone_from_the_file(open_memory, tmp_path):
    memory = open_memory()
    memory.remember("the zebra password is swordfish", id="1")
    memory.remember("something else", id="2")
    memory.forget("1")
    for file in tmp_path.iterdir():
        assert b"swordfish" not in file.read_bytes(), file
        assert b"zebra" not in file.read_bytes(), file
    memory.close()
    assert [file.name for file in tmp_path.iterdir()] == ["memory.db"]
    assert b"swordfish" not in (tmp_path / "memory.db").read_bytes()


def test_get_of_a_stranger_is_none_and_pin_is_not_found(memory):
    assert memory.get("unknown") is None
    with pytest.raises(NotFound, match="'unknown'"):
        memory.pin("unknown")
    with pytest.raises(LookupError):
        memory.supersede("unknown", "text")


def test_list_is_newest_first_by_status(memory, clock):
    for text in ("one", "two", "three"):
        memory.remember(text, id=text)
        clock.advance(1)
    memory.pin(memory.supersede("one", "uno").id)
    memory.sweep(max_memories=1)
    assert [texts(memory.long_term.list(status=status)) for status in ("active", "superseded", "archived")] == [
        ["uno"], [], ["three", "two", "one"],
    ]  # fmt: skip
    assert texts(memory.long_term.list(status=None, limit=2)) == ["uno", "three"]
    with pytest.raises(InvalidInput, match="status: expected one of active, superseded, archived"):
        memory.long_term.list(status="live")


# -- supersession ----------------------------------------------------------------------------------


def test_the_newest_of_a_subject_is_live_and_the_others_are_history(memory, clock):
    for i, city in enumerate(["Paris", "Rome", "Oslo"]):
        memory.remember(f"Ada lives in {city}.", subject="home", id=city)
        clock.advance(100)
        assert texts(memory.recall("where does Ada live?")) == [f"Ada lives in {city}."]
        assert len(memory.long_term.list()) == 1, i
    start = clock.now - 300
    assert [texts(memory.recall("Ada", as_of=start + after)) for after in (50, 150, 250)] == [
        ["Ada lives in Paris."], ["Ada lives in Rome."], ["Ada lives in Oslo."],
    ]  # fmt: skip


def test_a_subject_said_again_is_current_again(memory):
    for city in ("Paris", "Rome", "Paris"):
        memory.remember(f"Ada lives in {city}.", subject="home")
    assert texts(memory.recall("where does Ada live?")) == ["Ada lives in Paris."]


def test_history_told_late_never_surfaces_as_current(memory):
    memory.remember("Ada lives in Rome.", subject="home", at=2024.0)
    memory.remember("Ada lives in Paris.", subject="home", at=2018.0)
    memory.remember("Ada lives in Bern.", subject="home", at=2020.0)
    assert texts(memory.recall("where does Ada live?")) == ["Ada lives in Rome."]
    assert [texts(memory.recall("Ada", as_of=t)) for t in (2017.0, 2019.0, 2021.0, 2024.0)] == [
        [], ["Ada lives in Paris."], ["Ada lives in Bern."], ["Ada lives in Rome."],
    ]  # fmt: skip


def test_a_clock_set_back_does_not_hide_the_newest(memory, clock):
    memory.remember("Ada lives in Rome.", subject="home")
    clock.advance(-3600)
    memory.remember("Ada lives in Oslo.", subject="home")
    assert texts(memory.recall("where does Ada live?")) == ["Ada lives in Oslo."]


def test_superseding_keeps_who_said_it_and_what_hangs_on_it(memory):
    memory.remember(
        "Old.", id="1", role="assistant", speaker="Bob", session="s", tags=["x"], pinned=True, metadata={"a": 1}
    )
    new = memory.supersede("1", "New.")
    assert (new.role, new.speaker, new.session, new.tags, new.pinned, new.metadata) == (
        "assistant", "Bob", "s", ("x",), True, {"a": 1},
    )  # fmt: skip


def test_superseding_the_same_memory_twice_leaves_one_current(memory):
    memory.remember("Ada loves tea.", id="1")
    memory.supersede("1", "Ada hates tea.")
    memory.supersede("1", "Ada drinks tea.")
    assert texts(memory.recall("Ada tea")) == ["Ada drinks tea."]


def test_forgetting_a_successor_does_not_bring_the_replaced_back(memory):
    memory.remember("Ada loves tea.", id="1")
    new = memory.supersede("1", "Ada hates tea.")
    memory.forget(new.id)
    assert memory.recall("Ada tea") == []
    assert texts(memory.recall("Ada tea", as_of=new.at - 1)) == []  # it was written in the same second
    assert memory.get("1").status == "superseded"


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
