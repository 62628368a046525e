"""What every embedder keeps, whoever made it: the models offered by name, and wrapped objects of frameworks."""

import tempfile
import threading

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core.base.embeddings.base import BaseEmbedding
from model2vec import StaticModel
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from shared_core.embedding import open_embedder
from shared_core.errors import InvalidInput
from shared_core.testing import HashEmbedder

TEXTS = [
    "I take my coffee black.",
    "",
    "我每天早上喝咖啡",
    "Ünïcode — naïve café, 😀",
    "The ferry to Gothenburg leaves at nine, so we should be at the harbour half an hour earlier.",
    "\ud800 a lone surrogate",
    "a\0b",
    "   \n\t ",
    "I take my coffee black.",
]


class LlamaHash(BaseEmbedding):
    """LlamaIndex's base class over the hash embedder."""

    def _get_text_embedding(self, text):
        return HashEmbedder(32).embed([text])[0].tolist()

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query):
        return self._get_text_embedding(query)


class Encoder:
    """sentence-transformers' shape."""

    model_name = "hash-16"

    def encode(self, sentences):
        return HashEmbedder(16).embed(sentences)


def tiny_model2vec(folder):
    words = ["[UNK]", "i", "take", "coffee", "black", "the", "ferry"]
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = Whitespace()
    vectors = np.random.default_rng(7).standard_normal((len(words), 8)).astype(np.float32)
    StaticModel(vectors, tokenizer).save_pretrained(folder)
    return f"model2vec:{folder}"


MAKERS = {
    "minilm": lambda _: "minilm",
    "static": lambda _: "static",
    "multilingual": lambda _: "multilingual",
    "model2vec": tiny_model2vec,
    "hash": lambda _: HashEmbedder(),
    "langchain": lambda _: DeterministicFakeEmbedding(size=24),
    "llama_index": lambda _: LlamaHash(model_name="hash-32"),
    "encode": lambda _: Encoder(),
}


@pytest.fixture(scope="module", params=MAKERS)
def embedder(request, tmp_path_factory):
    return open_embedder(MAKERS[request.param](tmp_path_factory.mktemp("model")))


def test_rows_are_float32_of_the_stated_dimension_and_length_one_or_zero(embedder):
    rows = embedder.embed(TEXTS)
    assert rows.dtype == np.float32
    assert rows.shape == (len(TEXTS), embedder.dimension)
    lengths = np.linalg.norm(rows, axis=1)
    assert all(length == 0 or length == pytest.approx(1, abs=1e-5) for length in lengths)
    assert lengths[0] > 0


def test_no_texts_give_an_empty_array_of_the_right_width(embedder):
    for query in (False, True):
        rows = embedder.embed([], query=query)
        assert rows.shape == (0, embedder.dimension)
        assert rows.dtype == np.float32


def test_equal_texts_have_equal_vectors_and_questions_too(embedder):
    rows = embedder.embed(TEXTS)
    np.testing.assert_array_equal(rows[0], rows[-1])
    asked = embedder.embed([TEXTS[0], TEXTS[0]], query=True)
    np.testing.assert_array_equal(asked[0], asked[1])
    assert asked.shape == (2, embedder.dimension)


def test_a_vector_does_not_depend_on_its_batch(embedder):
    """Dedup compares vectors made in different calls; only float rounding may differ."""
    together = embedder.embed(TEXTS)
    alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_threads_get_the_same_vectors(embedder):
    expected = embedder.embed(TEXTS[:4])
    got = []
    threads = [threading.Thread(target=lambda: got.append(embedder.embed(TEXTS[:4]))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 3
    for rows in got:
        np.testing.assert_allclose(rows, expected, atol=1e-6)


def test_the_callers_list_is_not_changed_and_the_answer_is_the_callers(embedder):
    texts = ["\ud800", "black coffee"]
    first = embedder.embed(texts)
    kept = first.copy()
    first[:] = 5
    assert texts == ["\ud800", "black coffee"]
    np.testing.assert_array_equal(embedder.embed(texts), kept)


def test_a_text_of_a_megabyte_is_embedded(embedder):
    rows = embedder.embed(["word salad, 咖啡 and more. " * 40_000])
    assert rows.shape == (1, embedder.dimension)
    assert np.isfinite(rows).all()


def test_a_bare_string_is_refused(embedder):
    with pytest.raises(InvalidInput, match=r"embed\(\[text\]\)"):
        embedder.embed("coffee")


def test_an_opened_embedder_opens_to_something_that_embeds_alike(embedder):
    again = open_embedder(embedder)
    assert again.fingerprint == embedder.fingerprint
    assert again.dimension == embedder.dimension
    np.testing.assert_array_equal(again.embed(TEXTS[:1]), embedder.embed(TEXTS[:1]))


def test_the_fingerprint_is_plain_text_without_an_address(embedder):
    assert embedder.fingerprint.isprintable()
    assert "0x" not in embedder.fingerprint
    assert tempfile.gettempdir() not in embedder.fingerprint
