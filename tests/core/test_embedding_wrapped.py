"""Other people's embedding objects: which methods are called, what names the model, what is refused."""

import threading
from typing import Any, ClassVar

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from llama_index.core import MockEmbedding
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.storage.kvstore import SimpleKVStore
from pydantic import SecretStr

from shared_core.embedding import open_embedder
from shared_core.errors import EmbedderError, InvalidInput
from shared_core.testing import HashEmbedder

PASSAGE, QUESTION = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]


class Chain(Embeddings):
    """A LangChain model whose questions and passages differ; it counts its calls."""

    def __init__(self, model="small-1"):
        self.model = model
        self.calls = []

    def embed_documents(self, texts):
        self.calls.append(("documents", list(texts)))
        return [PASSAGE for _ in texts]

    def embed_query(self, text):
        self.calls.append(("query", text))
        return QUESTION


class Llama(BaseEmbedding):
    """A LlamaIndex model whose questions and passages differ."""

    def _get_text_embedding(self, text):
        return PASSAGE

    def _get_query_embedding(self, query):
        return QUESTION

    async def _aget_query_embedding(self, query):
        return QUESTION


class TwoWays:
    """sentence-transformers 5 has a method for each."""

    def encode(self, texts):
        raise AssertionError("the plain method ignores the model's prompts")

    def encode_query(self, texts):
        return np.array([QUESTION] * len(texts))

    def encode_document(self, texts):
        return np.array([PASSAGE] * len(texts))


class Answers:
    """Gives out the prepared answers one after another."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def encode(self, texts):
        return self.answers.pop(0)


@pytest.mark.parametrize("inner", [Chain(), Llama(), TwoWays()], ids=["langchain", "llama_index", "two_ways"])
def test_questions_and_passages_go_to_their_own_methods(inner):
    embedder = open_embedder(inner)
    assert embedder.embed(["a", "b"]).tolist() == [PASSAGE, PASSAGE]
    assert embedder.embed(["a"], query=True).tolist() == [QUESTION]


def test_a_langchain_model_gets_all_passages_in_one_call_and_is_not_called_when_opened():
    inner = Chain()
    embedder = open_embedder(inner)
    assert embedder.fingerprint.endswith("Chain/model=small-1")
    assert inner.calls == []
    embedder.embed(["a", "b"])
    assert inner.calls == [("documents", ["a", "b"])]
    assert embedder.dimension == 3
    assert len(inner.calls) == 1  # known from the first answer


def test_the_dimension_is_found_with_one_word_when_nothing_was_embedded_yet():
    inner = Chain()
    embedder = open_embedder(inner)
    assert [embedder.dimension, embedder.dimension] == [3, 3]
    assert len(inner.calls) == 1


def test_a_llama_index_cache_does_not_give_a_question_the_vector_of_a_passage():
    """Its cache has one entry a text, whether question or passage, whichever model."""
    inner = Llama(model_name="m", embeddings_cache=SimpleKVStore())
    inner.get_text_embedding("tea")
    assert inner.get_query_embedding("tea") == PASSAGE  # what happens without us
    embedder = open_embedder(inner)
    assert embedder.embed(["tea"], query=True).tolist() == [QUESTION]
    assert embedder.embed(["tea"]).tolist() == [PASSAGE]
    assert inner.embeddings_cache is not None


def test_the_frameworks_own_fakes_are_taken():
    assert open_embedder(DeterministicFakeEmbedding(size=9)).dimension == 9
    np.testing.assert_allclose(open_embedder(MockEmbedding(embed_dim=4)).embed(["x"]), [[0.5] * 4])


def test_one_object_in_many_threads_settles_on_one_dimension():
    embedder = open_embedder(Chain())
    got = []
    threads = [threading.Thread(target=lambda: got.append(embedder.dimension)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [3] * 6


def test_two_models_of_one_class_have_two_fingerprints():
    assert open_embedder(Chain("a")).fingerprint != open_embedder(Chain("b")).fingerprint
    assert open_embedder(Chain("a")).fingerprint == open_embedder(Chain("a")).fingerprint
    small, large = (open_embedder(MockEmbedding(embed_dim=size)).fingerprint for size in (4, 8))
    assert small != large


def test_a_caching_wrapper_is_known_by_what_it_wraps():
    class Cached(Chain):
        def __init__(self, underlying):
            super().__init__(model=None)
            self.underlying_embeddings = underlying

    assert open_embedder(Cached(Chain("a"))).fingerprint != open_embedder(Cached(Chain("b"))).fingerprint


def test_a_fingerprint_holds_no_key_no_folder_and_no_address():
    class Keyed(Chain):
        def __init__(self, model):
            super().__init__(model)
            self.api_key = "sk-one"
            self.model_id = SecretStr("sk-two")
            self.client = object()

    for model, shown in [
        ("org/small-1", "model=org/small-1"),
        ("/home/ada/models/small-1", "model=small-1"),
        ("./models/small-1/", "model=small-1"),
        ("https://ada:sk-three@host.example/small-1?token=sk-four", "model=host.example/small-1"),
    ]:
        fingerprint = open_embedder(Keyed(model)).fingerprint
        assert fingerprint.endswith(shown)
        assert not any(secret in fingerprint for secret in ("sk-", "ada", "0x"))


def test_the_objects_own_fingerprint_wins():
    class Named(Chain):
        fingerprint: ClassVar[str] = "house-2"

    class NamedLlama(Llama):
        fingerprint: ClassVar[str] = "house-3"

    assert open_embedder(Named()).fingerprint == "house-2"
    assert open_embedder(NamedLlama()).fingerprint == "house-3"


@pytest.mark.parametrize("given", ["", 7])
def test_a_fingerprint_that_names_nothing_is_refused(given):
    inner = Chain()
    inner.fingerprint = given
    with pytest.raises(InvalidInput, match=r"embedder.fingerprint: expected a non-empty string"):
        open_embedder(inner)


def test_an_object_of_our_own_protocol_keeps_its_fingerprint_and_dimension():
    inner = HashEmbedder(16, fingerprint="mine")
    embedder = open_embedder(inner)
    assert (embedder.fingerprint, embedder.dimension) == ("mine", 16)
    np.testing.assert_allclose(embedder.embed(["tea"]), inner.embed(["tea"]), atol=1e-7)


def test_an_object_of_our_own_protocol_is_checked_like_any_other():
    class Wrong(HashEmbedder):
        def embed(self, texts, *, query=False):
            return np.full((len(texts), self.dimension), np.nan)

    with pytest.raises(EmbedderError, match="NaN or infinity in row 0"):
        open_embedder(Wrong()).embed(["tea"])


def test_a_stated_dimension_that_the_vectors_do_not_have_is_an_error():
    inner = HashEmbedder(16)
    embedder = open_embedder(inner)
    assert embedder.dimension == 16
    inner.dimension = 8
    with pytest.raises(EmbedderError, match=r"of 16 length, got an array of shape \(1, 8\)"):
        embedder.embed(["tea"])


def test_a_model_that_changes_its_dimension_is_stopped():
    embedder = open_embedder(Answers([[1.0, 2.0]], [[1.0, 2.0, 3.0]]))
    embedder.embed(["a"])
    with pytest.raises(EmbedderError, match=r"expected 1 finite vectors of 2 length, got an array of shape \(1, 3\)"):
        embedder.embed(["b"])


@pytest.mark.parametrize("answer", [[[1.0, 2.0]], [[1.0], [float("nan")]], None, [[1.0], [2.0, 3.0]], "text"])
def test_a_wrong_answer_is_named_after_the_class_that_gave_it(answer):
    with pytest.raises(EmbedderError, match=r"Answers: expected 2 finite vectors"):
        open_embedder(Answers(answer)).embed(["a", "b"])


def test_what_the_model_raises_is_the_callers_to_see():
    class Down(Chain):
        def embed_documents(self, texts: Any):
            raise ConnectionError("no route")

    with pytest.raises(ConnectionError, match="no route"):
        open_embedder(Down()).embed(["a"])


@pytest.mark.parametrize(
    ("inner", "came"),
    [
        (object(), "got a object"),
        (7, "got a int"),
        (b"minilm", "got a bytes"),
        (Chain, r"got the class Chain \(pass an instance\)"),
    ],
)
def test_an_object_without_the_methods_is_refused_with_what_would_do(inner, came):
    with pytest.raises(InvalidInput, match=f"embed_documents and embed_query.*{came}"):
        open_embedder(inner)
