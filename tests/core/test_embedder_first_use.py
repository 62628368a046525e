"""A model that fails when it is first used costs no memory, and a missing one is said."""

import logging
import sqlite3

import pytest

from shared_core import TieredMemory
from shared_core.testing.embedders import HashEmbedder


class Away:
    """A LangChain-shaped model that tells its dimension only by answering; away until ``here``."""

    model = "house"

    def __init__(self):
        self.here = False
        self.calls = 0

    def embed_documents(self, texts):
        self.calls += 1
        if not self.here:
            raise ConnectionError("no route to the model")
        return HashEmbedder().embed(texts)

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def with_vectors(memory):
    """How many rows hold a vector."""
    db = sqlite3.connect(memory.storage.location)
    ((count,),) = db.execute("SELECT count(*) FROM search_index WHERE vectors IS NOT NULL").fetchall()
    db.close()
    return count


def test_what_is_remembered_while_the_model_is_away_is_kept_and_gets_its_vector_later(open_memory):
    model = Away()
    memory = open_memory(embedder=model)
    made = memory.remember("I take my coffee black.")
    assert memory.stats()["long_term"]["embedding_failures"] == 1
    for _ in range(2):
        assert [hit.memory.id for hit in memory.recall("coffee")] == [made.id]
    assert with_vectors(memory) == 0
    model.here = True
    memory.remember("My sister Zoe lives in Lisbon.")
    assert len(memory.recall("coffee")) == 2
    assert with_vectors(memory) == 2
    assert memory.recall("my coffee")[0].parts["semantic"] > 0


def test_a_memory_is_not_given_up_because_the_model_went_away_after_it_had_answered(open_memory):
    model = Away()
    model.here = True
    memory = open_memory(embedder=model)
    memory.remember("My sister Zoe lives in Lisbon.")
    model.here = False
    memory.remember("I take my coffee black.")
    memory.recall("coffee")
    assert with_vectors(memory) == 1
    model.here = True
    memory.recall("coffee")
    assert with_vectors(memory) == 2


def test_a_recall_without_words_fills_in_too(open_memory):
    model = Away()
    memory = open_memory(embedder=model)
    memory.remember("I take my coffee black.")
    model.here = True
    assert len(memory.recall("")) == 1
    assert len(memory.recall("coffee")) == with_vectors(memory) == 1


def test_the_model_is_asked_once_a_call_while_it_is_away(open_memory):
    model = Away()
    memory = open_memory(embedder=model)
    memory.remember("one")
    assert model.calls == 1


def test_a_file_with_vectors_and_no_model_to_read_them_says_so(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("shared_core.embedding.MiniLM.available", lambda: False)
    for fingerprint, cure in (
        ("minilm-l6-v2-int8/x/64", "in a checkout of this project, pip install '.[local]'"),
        ("house", "open it with embedder=, the model it was written with"),
    ):
        path = tmp_path / f"{fingerprint[:5]}.db"
        with TieredMemory.open(path, embedder=HashEmbedder(fingerprint=fingerprint), default_scope="ada") as memory:
            memory.remember("x")
            assert memory.stats()["long_term"]["embedder"] == fingerprint
        caplog.clear()
        with TieredMemory.open(path, default_scope="ada") as memory:
            assert memory.stats()["long_term"]["embedder"] is None
        (record,) = caplog.records
        assert (record.levelno, record.name.split(".")[0]) == (logging.WARNING, "shared_core")
        assert f"recall goes by words alone: {cure}" in record.getMessage()


@pytest.mark.parametrize("embedder", ["none", None])
def test_words_alone_are_no_surprise_when_asked_for_or_without_vectors(tmp_path, monkeypatch, caplog, embedder):
    monkeypatch.setattr("shared_core.embedding.MiniLM.available", lambda: False)
    with TieredMemory.open(
        tmp_path / "m.db", embedder=HashEmbedder() if embedder else "none", default_scope="a"
    ) as memory:
        memory.remember("x")
    TieredMemory.open(tmp_path / "m.db", embedder=embedder).close()
    assert not caplog.records


def test_stats_say_how_many_memories_are_held_ready(open_memory):
    memory = open_memory()
    memory.remember("one")
    memory.remember("two", scope="bob")
    memory.recall("one")
    memory.recall("two", scope="bob")
    assert memory.stats()["long_term"]["indexed"] == 2
    memory.forget(memory.recall("one")[0].memory.id)
    memory.recall("one")
    assert memory.stats()["long_term"]["indexed"] == 1
