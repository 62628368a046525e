"""A budget is kept to on every write: the exact lowest go, before the new one comes, and no more than must."""

import itertools
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core import InvalidInput, Retention, Rule, Settings, TieredMemory
from shared_core.testing import FakeClock
from shared_core.testing.embedders import HashEmbedder

DAY = 86_400.0
RULE = Rule(alpha=0.4, beta=0.6, time_scale=10 * DAY)


def opened(clock, **bounds):
    numbers = itertools.count()
    return TieredMemory.open(
        ":memory:", embedder="none", default_scope="ada", clock=clock, ids=lambda: f"id{next(numbers)}",
        settings=Settings(long_term=RULE, decay=0.99, **bounds),
    )  # fmt: skip


def live(memory):
    return {one.id for one in memory.long_term.list(status=None) if one.status != "archived"}


class Naive:
    """The budget as one reads it: a list, a loop, one eviction after another."""

    def __init__(self, max_memories, max_bytes):
        self.bounds = {"count": max_memories, "bytes": max_bytes}
        self.kept = []

    def score(self, one, now):
        age = max(now - one["seen"], 0.0)
        prior = one["importance"] * 0.99 ** (age / DAY / max(one["accesses"], 1))
        return 0.4 / (1 + age / (10 * DAY)) + 0.6 * prior

    def write(self, one, now):
        for old in self.kept:
            if old["text"] == one["text"]:
                old["seen"], old["accesses"] = now, old["accesses"] + 1
                return
        sizes = {"count": lambda entry: 1, "bytes": lambda entry: len(entry["text"].encode())}
        targets = {}
        for name, bound in self.bounds.items():
            held, size = sum(map(sizes[name], self.kept)), sizes[name](one)
            if bound is not None and held + size > bound:
                targets[name] = bound - max(1, bound // 100, size)
        while any(sum(map(sizes[name], self.kept)) > target for name, target in targets.items()):
            free = [old for old in self.kept if not old["pinned"]]
            if not free:
                break
            self.kept.remove(min(free, key=lambda old: (self.score(old, now), old["seen"], old["row"])))
        self.kept.append(one)


writes = st.lists(
    st.tuples(
        st.integers(0, 14),  # which text: repeats merge
        st.integers(0, 16).map(lambda n: n / 16),  # importance, exact in float32; equal ones tie
        st.sampled_from([0.0, 0.0, 1.5 * DAY]),  # time that passes before
        st.booleans().flatmap(lambda often: st.just(False) if often else st.integers(0, 4).map(lambda n: n == 0)),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(
    writes=writes,
    max_memories=st.none() | st.integers(1, 12),
    max_bytes=st.none() | st.integers(30, 120),
    together=st.integers(1, 8),
)
def test_the_victims_are_those_of_a_naive_loop_over_one_write_after_another(writes, max_memories, max_bytes, together):
    clock = FakeClock(1e9)
    naive = Naive(max_memories, max_bytes)
    with opened(clock, max_memories=max_memories, max_bytes=max_bytes) as memory:
        for start in range(0, len(writes), together):
            clock.advance(writes[start][2])
            batch = []
            for row, (which, importance, _, pinned) in enumerate(writes[start : start + together], start):
                text = f"text {which} " + "x" * which
                batch.append({"text": text, "importance": importance, "pinned": pinned})
                naive.write(
                    {"text": text, "importance": importance, "pinned": pinned, "seen": clock.now, "accesses": 0,
                     "row": row}, clock.now,
                )  # fmt: skip
                same = next(one for one in naive.kept if one["text"] == text)
                same["pinned"] = same["pinned"] or pinned
            memory.remember_many(batch)
            kept = {one.text for one in memory.long_term.list()}
            assert kept == {one["text"] for one in naive.kept}


def test_a_hundredth_of_the_bound_goes_at_once_and_then_nothing_for_as_many_writes(memory, open_memory):
    memory = open_memory(":memory:", settings=Settings(max_memories=300))
    memory.remember_many([{"text": f"fact {i}", "importance": i / 400, "id": str(i)} for i in range(300)])
    counts = []
    for i in range(300, 309):
        memory.remember(f"fact {i}", importance=1.0, id=str(i))
        counts.append(len(live(memory)))
    assert counts == [298, 299, 300] * 3
    assert live(memory) == {str(i) for i in range(9, 309)}
    assert memory.stats()["long_term"]["evicted"] == 9


def waits_for_the_disk(memory, work):
    """How many times ``work`` makes the file's writer wait for the disk: durable commits and emptied logs."""
    heard = []
    with memory.storage.memories._connections.write() as db:
        db.set_trace_callback(heard.append)
    heard.clear()
    work()
    db.set_trace_callback(None)
    waits, durable = 0, True
    for statement in heard:
        if "synchronous" in statement:
            durable = "FULL" in statement
        waits += "wal_checkpoint" in statement or (statement == "COMMIT" and durable)
    return waits


@pytest.mark.parametrize("victims", ["archive", "delete"])
def test_a_write_that_evicts_waits_for_the_disk_once_like_any_other(open_memory, victims):
    memory = open_memory(settings=Settings(max_memories=2, victims=victims))
    memory.remember("one")  # the first write also names the model
    assert waits_for_the_disk(memory, lambda: memory.remember("two")) == 1
    assert waits_for_the_disk(memory, lambda: memory.remember("three")) == 1
    assert memory.stats()["long_term"]["evicted"] == 1
    assert waits_for_the_disk(memory, lambda: memory.forget(memory.remember("four").id)) > 2  # it can tell


def test_a_write_reads_what_others_wrote_once_however_it_is_bounded(open_memory, monkeypatch):
    memory = open_memory(settings=Settings(max_memories=2))
    memory.remember_many([{"text": "one"}, {"text": "two"}])
    asked = []
    version = memory.storage.memories.version
    monkeypatch.setattr(memory.storage.memories, "version", lambda scope: asked.append(scope) or version(scope))
    memory.remember("three")
    assert asked == ["ada"]


def test_the_newcomer_is_never_its_own_victim(open_memory):
    memory = open_memory(settings=Settings(max_memories=1))
    memory.remember("worth everything", importance=1.0, id="1")
    memory.remember("worth nothing", importance=0.0, id="2")
    assert live(memory) == {"2"}


def test_pinned_memories_stay_though_the_bound_is_passed(open_memory):
    memory = open_memory(settings=Settings(max_memories=2))
    for i in range(4):
        memory.remember(f"fact {i}", id=str(i), pinned=True, importance=0.0)
    memory.remember("loose", id="loose", importance=1.0)
    assert live(memory) == {"0", "1", "2", "3", "loose"}
    memory.remember("another", id="another", importance=0.0)
    assert live(memory) == {"0", "1", "2", "3", "another"}


def test_one_that_another_process_pinned_meanwhile_stays(open_memory):
    one, other = open_memory(settings=Settings(max_memories=2)), open_memory()
    one.remember_many([{"text": "a", "id": "a", "importance": 0.0}, {"text": "b", "id": "b", "importance": 1.0}])
    other.storage.memories.set_pinned("ada", "a", True)
    assert other.storage.memories.evict("ada", ["a", "b"], erased=False) == 1
    assert other.storage.memories.evict("ada", ["a"], erased=True) == 0
    assert live(one) == {"a"}


def test_bytes_are_those_of_texts_and_vectors_and_room_is_made_for_the_whole_entry(open_memory):
    memory = open_memory(settings=Settings(max_bytes=3 * (256 + 10)))  # 64 float32 are 256 bytes
    for i in range(3):
        memory.remember(f"fact {i}    ", importance=i / 10, id=str(i))
    assert live(memory) == {"0", "1", "2"}
    memory.remember("x" * 20, importance=0.0, id="long")  # ten bytes too many: one of 266 goes, and one more is needed
    assert live(memory) == {"2", "long"}


def test_an_entry_larger_than_the_byte_bound_is_refused_by_name_and_evicts_nothing(open_memory):
    memory = open_memory(settings=Settings(max_bytes=300))
    memory.remember("small", id="1")
    with pytest.raises(InvalidInput, match=r"at most 300 bytes with its vectors, got 356; split it, or .*max_bytes"):
        memory.remember_many([{"text": "fits"}, {"text": "x" * 100}])
    assert live(memory) == {"1"}
    assert memory.stats()["long_term"]["evicted"] == 0


def test_archived_memories_count_toward_no_budget_and_other_scopes_neither(open_memory):
    memory = open_memory(settings=Settings(max_memories=3))
    memory.remember_many([{"text": f"fact {i}", "id": str(i)} for i in range(10)])
    memory.remember_many([{"text": f"fact {i}", "id": str(i)} for i in range(3)], scope="bob")
    assert len(live(memory)) == 3
    assert len(memory.long_term.list(status="archived")) == 7
    assert len(memory.long_term.list(scope="bob")) == 3


@pytest.mark.parametrize("victims", ["archive", "delete"])
def test_victims_are_recalled_no_more_anywhere(open_memory, victims):
    memory, other = open_memory(settings=Settings(max_memories=2, victims=victims)), open_memory()
    memory.remember_many([{"text": f"fact {i}", "id": str(i), "importance": i / 10, "tags": ["t"]} for i in range(2)])
    assert len(other.recall("fact")) == 2
    memory.remember("fact 2", id="2", tags=["t"], importance=0.9)
    for one in (memory, other):
        assert {hit.memory.id for hit in one.recall("fact", k=9)} == {"1", "2"}
        assert {kept.id for kept in one.long_term.retrieve_by_tags(["t"])} == {"1", "2"}
        assert {kept.id for kept in one.long_term.retrieve_by_similarity("fact 0")} == {"1", "2"}
        assert set(one.turns.begin("fact 0").ids) == {"1", "2"}
    assert (memory.get("0") is None) == (victims == "delete")


def test_a_failed_write_evicts_nothing(open_memory):
    memory = open_memory(settings=Settings(max_memories=2))
    memory.remember_many([{"text": "a", "id": "a"}, {"text": "b", "id": "b"}])
    with pytest.raises(InvalidInput, match="taken"):
        memory.remember_many([{"text": "c", "id": "c"}, {"text": "other", "id": "a"}])
    assert live(memory) == {"a", "b"}
    assert memory.stats()["long_term"]["evicted"] == 0


def test_superseding_is_a_write_like_any_other(open_memory):
    memory = open_memory(settings=Settings(max_memories=2))
    memory.remember_many([{"text": "a", "id": "a", "importance": 0.1}, {"text": "b", "id": "b", "importance": 0.9}])
    new = memory.supersede("b", "b again")
    assert live(memory) == {"b", new.id}
    erasing = open_memory(scope := ":memory:", settings=Settings(max_memories=1, victims="delete"))
    assert scope
    erasing.remember("old", id="old")
    assert erasing.supersede("old", "new").text == "new"
    assert [one.text for one in erasing.long_term.list(status=None)] == ["new"]


def test_what_is_read_counts_for_who_goes(open_memory, clock):
    memory = open_memory(embedder="none", settings=Settings(long_term=RULE, max_memories=2))
    memory.remember_many([{"text": f"{name}", "id": name, "importance": 0.5} for name in ("tea", "wine")])
    clock.advance(5 * DAY)
    assert memory.recall("tea", k=1)[0].memory.id == "tea"
    memory.remember("rum", id="rum", importance=0.5)
    assert live(memory) == {"tea", "rum"}


def test_the_bound_holds_for_twenty_threads_at_once(open_memory):
    memory = open_memory(ids=None, embedder="none", settings=Settings(max_memories=10))
    most = []

    def work(name):
        for i in range(10):
            memory.remember(f"fact {i} of {name}")
            most.append(len(memory.long_term.list(status="active")))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 10
    assert memory.stats()["long_term"]["evicted"] == 190


def test_a_write_below_the_bound_looks_at_no_other_memory(open_memory, monkeypatch):
    from shared_core.long_term import store

    passes = []
    made = store.ScopeRoom
    monkeypatch.setattr(store, "ScopeRoom", lambda *given: passes.append(given) or made(*given))
    memory = open_memory(":memory:", settings=Settings(max_memories=200))
    for i in range(200):
        memory.remember(f"fact {i}")
    assert passes == []
    for i in range(20):
        memory.remember(f"more {i}")
    assert len(passes) == 10  # each frees two hundredths


def test_the_index_keeps_count_of_what_is_live_and_its_bytes(open_memory, clock):
    memory, other = open_memory(), open_memory(embedder="none", default_scope="ada")
    memory.remember_many([{"text": f"fact {i}", "id": str(i)} for i in range(9)])
    other.remember("without a vector", id="plain")
    memory.sweep(max_memories=7)
    memory.forget("8")
    memory.recall("fact")
    memory.storage.memories.set_status("ada", ["0", "1", "2"], "active")
    memory.remember("fact 3")
    memory.supersede("4", "fact four")
    memory.recall("fact")
    with memory.long_term._store.current("ada") as index:
        counted = index.mask("live") & index.mask("active")
        assert index.count == int(counted.sum()) == len(live(memory))
        assert index.bytes == int(index.ints("size")[counted].sum())


# -- sweeps --------------------------------------------------------------------------------------------


def test_a_sweep_keeps_to_the_bounds_of_the_settings_unless_told_otherwise(open_memory):
    open_memory().remember_many([{"text": f"fact {i}", "id": str(i), "importance": i / 10} for i in range(8)])
    memory = open_memory(settings=Settings(max_memories=5))
    assert memory.sweep(max_memories=6, dry_run=True).kept == 6
    assert [hit.memory.id for hit in memory.sweep().victims] == ["0", "1", "2"]
    assert memory.sweep().victims == ()


def test_a_retention_evicts_what_is_older_than_it_may_be(open_memory, clock):
    rules = (Retention(10 * DAY), Retention(DAY, tag="short"))
    memory = open_memory(settings=Settings(retention=rules))
    memory.remember("kept long", id="long")
    memory.remember("kept short", id="short", tags=["short"])
    memory.remember("pinned", id="pinned", tags=["short"], pinned=True)
    clock.advance(DAY)
    assert memory.sweep().victims == ()  # as old as allowed, not older
    clock.advance(1.0)
    assert memory.sweep(retention=()).victims == ()
    assert [hit.memory.id for hit in memory.sweep(dry_run=True).victims] == ["short"]
    report = memory.sweep()
    assert ([hit.memory.id for hit in report.victims], report.kept) == (["short"], 2)
    clock.advance(10 * DAY)
    assert [hit.memory.id for hit in memory.sweep().victims] == ["long"]
    assert memory.sweep(retention=[Retention(0.0)]).victims == ()


def test_what_a_retention_takes_counts_for_the_bound(open_memory, clock):
    memory = open_memory()
    memory.remember("old but dear", id="old", importance=1.0)
    clock.advance(DAY)
    memory.remember_many([{"text": f"fact {i}", "id": str(i), "importance": i / 10} for i in range(3)])
    report = memory.sweep(retention=[Retention(DAY / 2)], max_memories=2)
    assert {hit.memory.id for hit in report.victims} == {"old", "0"}
    assert [hit.score for hit in report.victims] == sorted(hit.score for hit in report.victims)
    assert live(memory) == {"1", "2"}


@pytest.mark.parametrize("wrong", [{"max_memories": 0}, {"max_bytes": -1}, {"max_memories": 1.5}, {"retention": [1]}])
def test_a_bound_that_is_none_is_named(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        Settings(**wrong)


@pytest.mark.parametrize("wrong", [(-1.0,), (float("nan"),), (1.0, ""), (1.0, 3)])
def test_a_retention_is_seconds_and_a_tag(wrong):
    with pytest.raises(InvalidInput, match="Retention"):
        Retention(*wrong)


def test_a_sweep_report_is_a_table_in_a_notebook_and_texts_are_escaped(open_memory):
    memory = open_memory()
    memory.remember("<script>alert(1)</script> & more", id="<b>", tags=["t"])
    memory.remember("stays", pinned=True)
    shown = memory.sweep(max_memories=0, dry_run=True)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in shown
    assert "&lt;b&gt;" in shown
    assert "1 would go, lowest score first; 1 kept" in shown
    assert "1 evicted" in memory.sweep(max_memories=0)._repr_html_()
    assert memory.sweep()._repr_html_().startswith("<p>0 evicted")


def test_an_answer_is_not_replayed_after_a_sweep_that_evicted(open_memory):
    memory = open_memory()
    memory.remember("tea")
    request = {"model": "m", "messages": [{"role": "user", "content": "what do I drink?"}]}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "tea"}], "stop_reason": "end_turn"}
    memory.responses.put(request, answer)
    memory.sweep(max_memories=1)
    assert memory.responses.get(request)
    memory.sweep(max_memories=0)
    assert not memory.responses.get(request)


def test_scores_of_a_sweep_and_of_a_write_are_the_same_rule(open_memory, clock):
    """Whoever a dry run names first is whom the next write evicts."""
    rng = np.random.default_rng(3)
    memory = open_memory(settings=Settings(max_memories=40))
    for i in range(40):
        clock.advance(float(rng.integers(0, 3)) * DAY)
        memory.remember(f"fact {i}", id=str(i), importance=float(rng.random()))
    for i in range(10):
        memory.recall(f"fact {rng.integers(0, 40)}", k=2)
        named = memory.sweep(max_memories=len(live(memory)) - 1, dry_run=True).victims[0].memory.id
        before = live(memory)
        memory.remember(f"more {i}", importance=1.0, id=f"more {i}")
        assert before - live(memory) == {named}


def test_evidence_is_kept_across_a_restart_and_moves_the_score(open_memory, tmp_path):
    with open_memory() as memory:
        memory.remember("green tea", id="1", importance=0.5)
        memory.recall("green tea", k=1)
    memory = open_memory()
    (hit,) = memory.sweep(max_memories=0, dry_run=True).victims
    (whole,) = memory.storage.upkeep.whole("ada")
    assert whole.evidence == pytest.approx(1.0, abs=1e-6)
    assert hit.parts["attention"] == pytest.approx(0.6 * (0.75 * 0.5 + 0.25 * 1.0), abs=1e-6)


def test_the_embedder_of_the_tests_writes_256_bytes():
    assert HashEmbedder().embed(["x"]).nbytes == 256


def test_an_evicted_memory_that_is_written_again_under_its_id_comes_back_within_the_budget(open_memory, clock):
    memory = open_memory(settings=Settings(max_memories=2))
    for i, text in enumerate(("green tea", "black coffee", "cold water")):
        memory.remember(text, id=str(i), importance=i / 4)
    assert memory.get("0").status == "archived"
    clock.advance(5)
    back = memory.remember("green tea", id="0", importance=0.9)
    assert (back.status, back.importance, back.last_accessed) == ("active", 0.0, clock())
    assert live(memory) == {"0", "2"}
    assert memory.recall("green tea", k=1)[0].memory.id == "0"
    assert live(open_memory()) == {"0", "2"}
    assert open_memory().recall("green tea", k=1)[0].memory.id == "0"
