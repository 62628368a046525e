"""An embedder for tests: no model, no packages, the same vectors in every process."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from shared_core.embedding.base import Vectors, checked, readable

_WORDS = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")  # a Chinese character is a word of its own


class HashEmbedder:
    """Adds up one pseudo-random direction a word: equal texts are equal, texts that share words are close.

    Case and punctuation do not count; a text without words gives zeros. ``fingerprint`` may be given to
    play another model. Feature hashing with signs, Weinberger et al. 2009.
    """

    def __init__(self, dimension: int = 64, *, fingerprint: str | None = None) -> None:
        self.dimension = dimension
        self.fingerprint = f"hash/{dimension}" if fingerprint is None else fingerprint

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Return float32 [len(texts), dimension]; questions and passages are treated alike."""
        del query
        texts = readable(texts)
        raw = np.zeros((len(texts), self.dimension), dtype=np.float64)
        for i, text in enumerate(texts):
            for word in _WORDS.findall(text.casefold()):
                raw[i] += self._direction(word)
        return checked(raw, len(texts), dimension=self.dimension, source="hash")

    def _direction(self, word: str) -> npt.NDArray[np.float64]:
        """Plus or minus one in every coordinate, from the bits of the word's hash; other fingerprints, other signs."""
        key = f"{self.fingerprint}\0{word}".encode()
        bits = np.frombuffer(hashlib.shake_128(key).digest((self.dimension + 7) // 8), dtype=np.uint8)
        return np.where(np.unpackbits(bits)[: self.dimension] == 1, 1.0, -1.0)
