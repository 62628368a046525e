"""Embedding objects of others, taken by their methods: no framework is imported here.

========================  ==================================================  =====================
kind                      passages                                            questions
========================  ==================================================  =====================
this package's protocol   ``embed(texts)``                                    ``embed(texts, query=True)``
LangChain                 ``embed_documents(texts)``                          ``embed_query(text)``
LlamaIndex                ``get_text_embedding_batch(texts)``                 ``get_query_embedding(text)``
sentence-transformers     ``encode_document(texts)`` or ``encode(texts)``     ``encode_query(texts)`` or the same
========================  ==================================================  =====================

The fingerprint is the object's own ``fingerprint`` attribute when it has one. Otherwise it is made of the
class and the names of the model it carries, never of keys, addresses or folders. When that does not tell
two models apart, or the class was only renamed, name the model yourself: set ``fingerprint`` on the object,
or, where its class forbids new attributes, on a subclass::

    class House(OpenAIEmbeddings):
        fingerprint: ClassVar[str] = "house-2"
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import numpy as np

from shared_core.embedding.base import Vectors, checked, readable
from shared_core.errors import EmbedderError, InvalidInput

Encode: TypeAlias = Callable[[list[str], bool], Any]

_MODEL_NAMES = (
    "model", "model_name", "model_id", "model_name_or_path", "base_model", "base_model_name", "name_or_path",
    "repo_id", "deployment", "deployment_name", "azure_deployment",
)  # fmt: skip
_MODEL_SIZES = ("dimensions", "truncate_dim", "embed_dim", "output_dimensionality", "size")
_CARRIERS = ("underlying_embeddings", "model_card_data", "tokenizer")
"""Where a wrapper keeps what names the model: LangChain's cache, sentence-transformers twice."""


class Wrapped:
    """An object with one of the four faces above, checked on every answer.

    The dimension is the one the object declares, else that of its first answer; asking for it earlier
    embeds one word. Raises InvalidInput for an object without any of these methods.
    """

    def __init__(self, inner: Any) -> None:
        self._encode = _encoder(inner)
        self._source = _class_path(inner)
        self._declared = _own(inner)
        self._inner = inner
        self.fingerprint = _fingerprint(inner)
        self.scripts: frozenset[str] | None = getattr(inner, "scripts", None) if self._declared else None
        self._dimension: int | None = None
        self._lock = threading.Lock()

    @property
    def dimension(self) -> int:
        """The length of a vector; may call the model once."""
        declared = getattr(self._inner, "dimension", None) if self._declared else None
        if isinstance(declared, int) and declared > 0:
            return self._settle(declared)
        if self._dimension is None:
            self.embed(["dimension"])
        return self._settle(self._dimension)

    @property
    def known_dimension(self) -> int | None:
        """The dimension as far as it is declared or was seen; never calls the model."""
        declared = getattr(self._inner, "dimension", None) if self._declared else None
        return declared if isinstance(declared, int) and declared > 0 else self._dimension

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Return float32 [len(texts), dimension]. Raises EmbedderError, InvalidInput, and whatever the model raises."""
        texts = readable(texts)
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        vectors = checked(self._encode(texts, query), len(texts), dimension=self._dimension, source=self._source)
        self._settle(vectors.shape[1])
        return vectors

    def _settle(self, came: int | None) -> int:
        """Remember the first dimension seen; every later one must be the same."""
        with self._lock:
            if self._dimension is None:
                self._dimension = came
            if self._dimension is None or self._dimension != came:
                raise EmbedderError(
                    f"{self._source}: expected vectors of {self._dimension} numbers as before, got {came}; "
                    "one object must keep to one model"
                )
            return self._dimension


def _own(inner: Any) -> bool:
    return _has(inner, "embed") and isinstance(getattr(inner, "fingerprint", None), str)


def _has(inner: Any, *methods: str) -> bool:
    return all(callable(getattr(inner, name, None)) for name in methods)


def _encoder(inner: Any) -> Encode:
    """Which methods to call; the first face that fits."""
    if not isinstance(inner, type):
        if _own(inner):
            return lambda texts, query: inner.embed(texts, query=query)
        if _has(inner, "embed_documents", "embed_query"):
            return lambda texts, query: (
                [inner.embed_query(text) for text in texts] if query else inner.embed_documents(texts)
            )
        if _has(inner, "get_text_embedding_batch", "get_query_embedding"):
            bare = _without_cache(inner)
            return lambda texts, query: (
                [bare.get_query_embedding(text) for text in texts] if query else bare.get_text_embedding_batch(texts)
            )
        if _has(inner, "encode_query", "encode_document"):
            return lambda texts, query: inner.encode_query(texts) if query else inner.encode_document(texts)
        if _has(inner, "encode"):
            return lambda texts, _: inner.encode(texts)
    came = f"the class {inner.__name__} (pass an instance)" if isinstance(inner, type) else f"a {type(inner).__name__}"
    raise InvalidInput(
        "embedder: expected None, a name, or an object with embed(texts, *, query) and a fingerprint, with "
        "embed_documents and embed_query (LangChain), with get_text_embedding_batch and get_query_embedding "
        f"(LlamaIndex), or with encode (sentence-transformers), got {came}"
    )


def _without_cache(inner: Any) -> Any:
    """A copy of a LlamaIndex embedding that shares its client but not its cache.

    That cache keeps one vector per text: a question would get the vector of the passage with the same
    words, or of another model that was given the same cache.
    """
    if getattr(inner, "embeddings_cache", None) is None or not _has(inner, "model_copy"):
        return inner
    return inner.model_copy(update={"embeddings_cache": None})


def _class_path(inner: Any) -> str:
    return f"{type(inner).__module__}.{type(inner).__qualname__}"


def _fingerprint(inner: Any) -> str:
    given = getattr(inner, "fingerprint", None)
    if isinstance(given, str) and given:
        return given
    if given is not None:
        raise InvalidInput(
            f"embedder.fingerprint: expected a non-empty string, got {given!r}; leave it out or name the model"
        )
    return "/".join([_class_path(inner), *_facts(inner)])


def _facts(inner: Any) -> list[str]:
    """The model's names and sizes that the object or what it carries tells, in a fixed order."""
    facts = []
    for name in _MODEL_NAMES:
        value = getattr(inner, name, None)
        if isinstance(value, str) and value:
            facts.append(f"{name}={_portable(value)}")
    for name in _MODEL_SIZES:
        value = getattr(inner, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            facts.append(f"{name}={value}")
    for name in _CARRIERS:
        carried = getattr(inner, name, None)
        if carried is not None and not isinstance(carried, str | int):
            told = _facts(carried)
            facts += [f"{name}={_class_path(carried)}", *told] if told else []
    return list(dict.fromkeys(facts))


def _portable(name: str) -> str:
    """A model name without what differs between machines or must stay secret: folders, credentials, queries."""
    if "://" in name:
        url = urlsplit(name)
        return f"{url.hostname or ''}{url.path}"
    if Path(name).is_absolute() or name.startswith((".", "~")):
        return Path(name).name
    return name
