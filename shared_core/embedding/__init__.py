"""Texts to vectors: the embedders offered by name, and anybody's embedding object.

Reading order: ``base`` (what an embedder is), then one file a model: ``minilm``, ``static``,
``multilingual``, ``model2vec``; ``wordpiece`` is the tokenizer of the first two, ``wrapped`` takes the
objects of LangChain, LlamaIndex and sentence-transformers. Opening an embedder imports no model library
and loads no weights; the first text does. Never here: storing or comparing vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shared_core.embedding.base import Embedder, Vectors, checked, reads
from shared_core.embedding.minilm import MiniLM
from shared_core.embedding.model2vec import Model2Vec
from shared_core.embedding.multilingual import Multilingual
from shared_core.embedding.static import StaticTable
from shared_core.embedding.wrapped import Wrapped
from shared_core.errors import InvalidInput

NAMES = ("minilm", "static", "multilingual", "model2vec:<path>", "none")

_BUNDLED: dict[str, Callable[[], Embedder]] = {"minilm": MiniLM, "static": StaticTable, "multilingual": Multilingual}
_MODEL2VEC = "model2vec:"
_OURS = (MiniLM, StaticTable, Multilingual, Model2Vec, Wrapped)  # already checked: taken as they are


def open_embedder(embedder: Any = None) -> Embedder | None:
    """Return the embedder that a caller's ``embedder=`` means, or None for no vectors at all.

    None is MiniLM if its extra is installed, else no embedder. A string is one of ``NAMES``; any other
    object is taken by its methods (see ``wrapped``). Raises MissingExtra for a named embedder whose
    packages are not installed, InvalidInput for an unknown name or an object without the methods.
    """
    if embedder is None:
        return MiniLM() if MiniLM.available() else None
    if not isinstance(embedder, str):
        return embedder if isinstance(embedder, _OURS) else Wrapped(embedder)
    if embedder == "none":
        return None
    if embedder in _BUNDLED:
        return _BUNDLED[embedder]()
    if embedder.startswith(_MODEL2VEC):
        return Model2Vec(embedder.removeprefix(_MODEL2VEC))
    raise InvalidInput(
        f"embedder: expected one of {', '.join(NAMES)}, or an object, got {embedder!r}; pass the embedding object itself"
    )


__all__ = ["NAMES", "Embedder", "Vectors", "checked", "open_embedder", "reads"]
