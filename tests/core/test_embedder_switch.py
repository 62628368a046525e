"""Which model made the vectors: named, claimed, filled in, replaced, and never a reason to lose a memory."""

import logging
import sqlite3

import numpy as np
import pytest

from shared_core import EmbedderError, EmbedderMismatch, TieredMemory
from shared_core.testing.embedders import HashEmbedder


class Failing:
    """A model that raises for texts with a certain word in them, or answers with something else."""

    fingerprint = "failing"
    dimension = 4

    def __init__(self, when="", answer=None):
        self.when = when
        self.answer = answer
        self.calls = []

    def embed(self, texts, *, query=False):
        self.calls.append(len(texts))
        if self.answer is not None:
            return self.answer
        if any(self.when in text for text in texts):
            raise RuntimeError("the model is away")
        return np.eye(4, dtype=np.float32)[[len(text) % 4 for text in texts]]


def stored(path):
    db = sqlite3.connect(path)
    rows = db.execute("SELECT embedder, vectors IS NOT NULL FROM search_index ORDER BY memory").fetchall()
    db.close()
    return rows


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


def test_another_model_is_refused_with_both_names_and_what_to_type(open_memory, path):
    open_memory().remember("tea")
    with pytest.raises(EmbedderMismatch, match=r"'hash/64'.*'hash/32'.*reembed=True"):
        open_memory(embedder=HashEmbedder(32))
    with pytest.raises(EmbedderError, match="'other'"):
        open_memory(embedder=HashEmbedder(64, fingerprint="other"))
    assert stored(path) == [("hash/64", 1)]
    assert open_memory().recall("tea")


def test_reembed_makes_every_vector_anew_in_every_scope(open_memory, path):
    memory = open_memory()
    for scope in ("ada", "bob"):
        memory.remember_many([{"text": f"{scope} likes tea {i}"} for i in range(3)], scope=scope)
    memory.close()
    memory = open_memory(embedder=HashEmbedder(32), reembed=True)
    assert stored(path) == [("hash/32", 1)] * 6
    assert memory.recall("tea", scope="bob")[0].parts["semantic"] > 0
    memory.close()
    assert len(open_memory(embedder=HashEmbedder(32)).recall("tea")) == 3


def test_reembed_with_the_same_model_changes_nothing(open_memory, path):
    open_memory().remember("tea")
    before = open_memory().storage.memories.version("ada")
    assert open_memory(reembed=True).storage.memories.version("ada") == before


def test_rows_written_without_the_model_are_filled_in_by_the_first_recall_that_has_it(open_memory, path):
    plain = open_memory(embedder="none")
    plain.remember_many([{"text": f"fact {i} about tea"} for i in range(600)])
    assert stored(path) == [(None, 0)] * 600
    assert plain.recall("tea", k=1)[0].parts.get("semantic", 0) == 0
    memory = open_memory()
    assert memory.recall("tea", k=1)
    assert stored(path) == [("hash/64", 1)] * 600
    plain.remember("one more about tea")
    assert memory.recall("one more about tea", k=1)[0].parts["semantic"] > 0
    assert stored(path)[-1] == ("hash/64", 1)


def test_no_model_is_no_mismatch(open_memory, path):
    open_memory().remember("tea")
    plain = open_memory(embedder="none")
    assert [hit.memory.text for hit in plain.recall("tea")] == ["tea"]
    plain.remember("wine")
    assert stored(path) == [("hash/64", 1), (None, 0)]


def test_a_model_that_raises_loses_no_memory_and_is_counted(open_memory, caplog):
    caplog.set_level(logging.WARNING, logger="shared_core")
    memory = open_memory(embedder=Failing())
    memory.remember("green tea")
    assert [hit.memory.text for hit in memory.recall("tea")] == ["green tea"]
    assert memory.stats()["long_term"]["embedding_failures"] >= 2
    assert "the model is away" in caplog.text


def test_one_text_that_a_model_cannot_take_does_not_keep_the_others_without_vectors(open_memory, path):
    open_memory(embedder="none").remember_many([{"text": "poison" if i == 40 else f"fact {i}"} for i in range(100)])
    model = Failing(when="poison")
    memory = open_memory(embedder=model)
    for _ in range(40):
        assert len(memory.recall("fact", k=200)) == 100
    assert [i for i, (_, there) in enumerate(stored(path)) if not there] == [40]
    model.calls.clear()
    memory.recall("fact")
    assert model.calls == [1]  # the query alone: what was refused is not asked for again by this process


def test_while_the_model_is_away_a_recall_asks_it_but_a_few_times(open_memory):
    open_memory(embedder="none").remember_many([{"text": f"fact {i}"} for i in range(100)])
    model = Failing()
    memory = open_memory(embedder=model)
    memory.recall("fact")
    assert len(model.calls) == 2


@pytest.mark.parametrize(
    "answer",
    [
        np.zeros((1, 8), np.float32), np.zeros(4, np.float32), np.zeros((2, 4), np.float32), [["a"] * 4], None,
        np.full((1, 4), np.nan, np.float32), np.full((1, 4), np.inf), [[1, 2], [3]], "text",
    ],
    ids=["too long", "flat", "too many", "words", "nothing", "nan", "infinite", "ragged", "a string"],
)  # fmt: skip
def test_an_answer_that_is_no_vector_per_text_is_passed_over_and_counted(open_memory, path, answer):
    memory = open_memory(embedder=Failing(when="" if answer is None else "never", answer=answer))
    memory.remember("tea")
    assert stored(path) == [(None, 0)]
    assert [hit.memory.text for hit in memory.recall("tea")] == ["tea"]
    assert memory.stats()["long_term"]["embedding_failures"] >= 2


def test_vectors_of_any_length_are_compared_by_direction(open_memory):
    class Long(HashEmbedder):
        def embed(self, texts, *, query=False):
            return super().embed(texts) * 1e30

    memory = open_memory(embedder=Long())
    memory.remember_many([{"text": "green tea"}, {"text": "red wine"}])
    assert [item.text for item in memory.long_term.retrieve_by_similarity("green tea")] == ["green tea", "red wine"]
    assert memory.sweep(max_memories=0, dry_run=True).victims[0].parts["attention"] <= 0.6


def test_a_model_changed_by_another_process_is_said_once_and_words_go_on(open_memory, path, caplog):
    caplog.set_level(logging.WARNING, logger="shared_core")
    one = open_memory()
    one.remember("green tea")
    one.recall("tea")
    other = open_memory(embedder=HashEmbedder(32), reembed=True)
    for i in range(3):
        one.remember(f"red wine {i}")
        assert [hit.memory.text for hit in one.recall("tea", k=1)] == ["green tea"]
    assert caplog.text.count("going on without vectors") == 1
    assert stored(path) == [("hash/32", 1), (None, 0), (None, 0), (None, 0)]
    assert other.recall("red wine", k=1)[0].parts["semantic"] > 0
    assert stored(path) == [("hash/32", 1)] * 4


def test_a_long_text_is_found_by_its_best_window(open_memory):
    memory = open_memory()
    filler = "nothing of note happened on that long and quiet day " * 100
    memory.remember(f"{filler} the zebra escaped {filler}", id="long")
    memory.remember("nothing of note happened", id="short")
    with memory.long_term._store.current("ada") as index:
        assert index.ints("windows").tolist()[0] > 1
        assert index.ints("windows").tolist()[1] == 1
        cosines = index.cosines(HashEmbedder().embed(["zebra escaped"])[0])
    assert cosines.shape == (2,)
    assert cosines[0] > cosines[1]


def test_the_arrays_are_as_long_as_the_memories_in_any_order_of_filling(open_memory):
    plain, memory = open_memory(embedder="none"), open_memory()
    memory.remember("tea one", id="1")
    plain.remember("tea two", id="2")
    memory.remember("tea three", id="3")
    for _ in range(2):
        assert {hit.memory.id for hit in memory.recall("tea", k=9)} == {"1", "2", "3"}
    wanted = HashEmbedder().embed(["tea two"])[0]
    for opened in (memory, open_memory()):
        with opened.long_term._store.current("ada") as index:
            assert index.ids[np.argmax(index.cosines(wanted))] == "2"
            assert index.cosines(wanted).max() == pytest.approx(1.0)


def test_a_failed_open_leaves_no_connection_behind(open_memory, path):
    open_memory().remember("tea")
    for _ in range(3):
        with pytest.raises(EmbedderMismatch):
            TieredMemory.open(path, embedder=HashEmbedder(8))


class Sized:
    """The same name for models of different sizes."""

    fingerprint = "house"

    def __init__(self, dimension):
        self.dimension = dimension

    def embed(self, texts, *, query=False):
        return np.ones((len(texts), self.dimension), dtype=np.float32)


def test_a_model_of_the_same_name_and_another_size_is_another_model(tmp_path):
    path = tmp_path / "m.db"
    with TieredMemory.open(path, embedder=Sized(4), default_scope="ada") as memory:
        memory.remember("coffee")
    with pytest.raises(EmbedderMismatch, match=r"4 numbers.*2 numbers"):
        TieredMemory.open(path, embedder=Sized(2), default_scope="ada")
    with TieredMemory.open(path, embedder=Sized(2), default_scope="ada", reembed=True) as memory:
        memory.remember("tea")
        assert memory.storage.memories.embedder() == ("house", 2)
        sizes = [len(row.vectors) for row in memory.storage.memories.changes("ada", 0, "house").rows]
        assert sizes == [8, 8]


class Undeclared:
    """A framework's object: its size shows with its first answer."""

    fingerprint = "house"

    def __init__(self, dimension):
        self.size, self.calls = dimension, 0

    def embed_documents(self, texts):
        self.calls += 1
        return np.ones((len(texts), self.size)).tolist()

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def test_opening_asks_no_model_for_its_size_and_the_first_write_finds_out(tmp_path):
    path = tmp_path / "m.db"
    with TieredMemory.open(path, embedder=Undeclared(4), default_scope="ada") as memory:
        memory.remember("coffee")
    other = Undeclared(2)
    with TieredMemory.open(path, embedder=other, default_scope="ada") as memory:
        assert other.calls == 0
        memory.remember("tea")
        assert memory.stats()["long_term"]["foreign_model"] == 1
        assert {hit.memory.text for hit in memory.recall("tea coffee")} == {"coffee", "tea"}
