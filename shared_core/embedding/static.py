"""A table of token vectors distilled from MiniLM: hundreds of times faster, and it knows words, not sentences.

A text is the weighted mean of its tokens' vectors; words in scripts other than Latin come from the table
in ``scripts``. Ships with this package (see NOTICE) and needs only numpy and ``tokenizers``. How the table
was made: ``tools/distil_static.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shared_core.embedding import scripts
from shared_core.embedding.base import Once, Vectors, check_sha256, checked, progress, readable, require
from shared_core.embedding.wordpiece import wordpiece

TABLE = Path(__file__).with_name("static_table.npz")
SHA256 = "586db0a54671b3c109e18fff30da3bcfee83db5fe07509dce5b870db80a21508"
DIMENSION = 256

_BLOCK = 512  # texts summed at a time, so that memory does not grow with the job


class StaticTable:
    """The ``static`` embedder. Raises MissingExtra when ``tokenizers`` is not installed."""

    fingerprint = f"static-minilm/{SHA256[:16]}+{scripts.SHA256[:16]}/{DIMENSION}"
    dimension = DIMENSION

    def __init__(self) -> None:
        require("The embedder 'static'", "local", "tokenizers")
        self._loaded = Once(_load)

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Return float32 [len(texts), 256]; the order of words does not matter, nor the length of a text.

        A vector does not depend on the other texts of the call. A text without known tokens gives zeros.
        Raises EmbedderError, InvalidInput.
        """
        del query
        texts = readable(texts)
        raw = np.zeros((len(texts), self.dimension), dtype=np.float32)
        if not texts:
            return raw
        rows, scale, tokenizer = self._loaded()
        with progress(len(texts)) as bar:
            for start in range(0, len(texts), _BLOCK):
                latin, other = zip(*map(scripts.split, texts[start : start + _BLOCK]), strict=True)
                raw[start : start + _BLOCK] = _sums(_ids(tokenizer, latin), rows, scale)
                if any(other):
                    table = scripts.pieces()
                    raw[start : start + _BLOCK] += _sums(_ids(table.tokenizer, other), table.rows, table.scale)
                bar.update(len(latin))
        return checked(raw, len(texts), dimension=self.dimension, source="static")


def _load() -> tuple[npt.NDArray[np.int8], Vectors, Any]:
    check_sha256(TABLE, SHA256)
    with np.load(TABLE, allow_pickle=False) as table:
        return table["rows"], table["scale"], wordpiece(None)


def _ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    return [encoding.ids for encoding in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]


def _sums(ids: list[list[int]], rows: npt.NDArray[np.int8], scale: Vectors) -> Vectors:
    """Sum the token vectors of each text: token ids, ragged -> float32 [len(ids), d].

    Each distinct token of a text is looked up once and multiplied by how often it stands there, so a
    very long text takes no more memory than the vocabulary.
    """
    sums = np.zeros((len(ids), rows.shape[1]), dtype=np.float32)
    owner = np.repeat(np.arange(len(ids)), [len(tokens) for tokens in ids])
    if owner.size == 0:
        return sums
    tokens = np.concatenate([np.array(tokens, dtype=np.int64) for tokens in ids])
    pairs, counts = np.unique(owner * len(rows) + tokens, return_counts=True)
    owner, tokens = np.divmod(pairs, len(rows))
    present, first = np.unique(owner, return_index=True)
    weighted = rows[tokens] * (scale[tokens] * counts.astype(np.float32))[:, None]
    sums[present] = np.add.reduceat(weighted, first, axis=0)
    return sums
