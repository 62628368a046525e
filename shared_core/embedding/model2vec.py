"""Any model2vec model from a folder on disk (``model2vec:<path>``). Nothing is downloaded.

The package is imported and the model loaded at the first text, not before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shared_core.embedding.base import Once, Vectors, checked, readable, require
from shared_core.errors import InvalidInput

_FILES = ("model.safetensors", "tokenizer.json", "config.json")


class Model2Vec:
    """The ``model2vec:<path>`` embedder.

    The fingerprint is taken from the contents of the model's files, so a folder may be moved or renamed.
    Raises MissingExtra when its package is not installed, InvalidInput when the folder holds no model.
    """

    def __init__(self, path: str | Path) -> None:
        require("The embedder 'model2vec:<path>'", "model2vec", "model2vec")
        self._folder = Path(path)
        missing = [name for name in _FILES if not (self._folder / name).is_file()]
        if missing:
            raise InvalidInput(
                f"embedder: expected model2vec:<path> with a folder that holds {', '.join(_FILES)}, "
                f"got {str(path)!r} without {', '.join(missing)}; save one there with StaticModel.save_pretrained(path)"
            )
        self._loaded = Once(self._load)
        self._fingerprint = Once(self._hash)

    @property
    def fingerprint(self) -> str:
        """Reads the model's files once, without loading the model."""
        return self._fingerprint()

    @property
    def dimension(self) -> int:
        """Loads the model."""
        return int(self._loaded().dim)

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Return float32 [len(texts), dimension]; questions and passages are treated alike.

        A text without known tokens gives zeros. Raises EmbedderError, InvalidInput.
        """
        del query
        texts = readable(texts)
        # Its own processes would be started from inside a library, and need pickling of the model.
        raw = self._loaded().encode(texts, use_multiprocessing=False) if texts else np.zeros((0, self.dimension))
        return checked(raw, len(texts), dimension=self.dimension, source="model2vec")

    def _load(self) -> Any:
        from model2vec import StaticModel  # noqa: PLC0415

        return StaticModel.from_pretrained(self._folder, force_download=False)

    def _hash(self) -> str:
        digest = hashlib.sha256()
        for name in _FILES:
            digest.update(hashlib.sha256((self._folder / name).read_bytes()).digest())
        return f"model2vec/{digest.hexdigest()[:16]}"
