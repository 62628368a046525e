"""Makes ``shared_core/embedding/static_table.npz``, the table behind the ``static`` embedder.

Run ``python tools/distil_static.py`` with the ``local`` extra installed; about a minute. It reads only
the vocabulary and the MiniLM weights, no text of anybody, and prints the SHA-256 that goes into
``static.py`` (another BLAS may round a few entries differently: then the sum changes with them).

The recipe, after model2vec (Tulkens and van Dongen 2024):

1. Every token of the vocabulary goes through MiniLM alone, as ``[CLS] token [SEP]``; the mean of the
   three states, brought to length 1, is its vector.
2. Half of the mean vector is taken off. Without that unrelated texts look alike (cosine 0.7); with all of
   it questions find their answers less often.
3. The 256 directions that hold most of what is left (eigenvectors of the uncentred second moment).
4. Each token weighs ``a / (a + p)``, a = 0.001 (SIF, Arora et al. 2017), where p is Zipf's guess
   from the token's rank: the vocabulary is sorted by frequency after its single characters. ASCII
   characters count as the most frequent; other characters, which are words in Chinese, as rank 5000.
   Marks weigh nothing, ``[UNK]`` above all: else all texts in a script it does not know would be alike.
5. int8 rows, each with its own scale.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shared_core.embedding import minilm, static
from shared_core.embedding.wordpiece import VOCAB

_CLS, _SEP = 101, 102
_FIRST_CHARACTER = 999  # the id of "!"; marks and unused places come before
_FIRST_WORD = 1996  # the id of "the"; single characters come before
_CHARACTER_RANK = 5000.0
_SIF = 1e-3
_BATCH = 512

Matrix = npt.NDArray[np.float64]


def token_vectors(count: int) -> Matrix:
    """Unit vectors of all tokens, [count, 384]."""
    session, _ = minilm.load()
    rows = [
        minilm.forward(session, [[_CLS, token, _SEP] for token in range(start, min(start + _BATCH, count))])
        for start in range(0, count, _BATCH)
    ]
    vectors = np.concatenate(rows).astype(np.float64)
    unit: Matrix = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def reduced(vectors: Matrix, dimension: int) -> tuple[Matrix, Matrix]:
    """The coordinates along the strongest directions, [count, dimension], and these, [384, dimension]; signs are made definite."""
    rest = vectors - 0.5 * vectors.mean(axis=0)
    _, directions = np.linalg.eigh(rest.T @ rest)
    directions = directions[:, ::-1][:, :dimension]
    strongest = np.abs(directions).argmax(axis=0)
    directions = directions * np.sign(directions[strongest, np.arange(dimension)])
    return rest @ directions, directions


def weights(tokens: list[str]) -> Matrix:
    """What each token weighs in a mean, [count]."""
    ranks = np.maximum(np.arange(len(tokens)) - _FIRST_WORD + 1, 1) + 1.0
    other_characters = [i for i in range(_FIRST_WORD) if len(tokens[i]) == 1 and not tokens[i].isascii()]
    ranks[other_characters] = _CHARACTER_RANK
    probability = (1.0 / ranks) / (1.0 / (np.arange(len(tokens) - _FIRST_WORD) + 2.0)).sum()
    weight: Matrix = _SIF / (_SIF + probability)
    weight[:_FIRST_CHARACTER] = 0.0
    return weight


def rounded(table: Matrix) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """The rows in int8, and the float32 scale of each."""
    scale = np.abs(table).max(axis=1) / 127
    steps = table / np.where(scale > 0, scale, 1.0)[:, None]
    return np.round(steps).astype(np.int8), scale.astype(np.float32)


def main() -> None:
    """Write the table and print its SHA-256."""
    tokens = VOCAB.read_bytes().decode().removesuffix("\n").split("\n")
    coordinates, _ = reduced(token_vectors(len(tokens)), static.DIMENSION)
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else static.TABLE
    rows, scale = rounded(coordinates * weights(tokens)[:, None])
    np.savez(target, rows=rows, scale=scale)
    sys.stdout.write(
        f"{target.name} {target.stat().st_size} bytes\n{hashlib.sha256(target.read_bytes()).hexdigest()}\n"
    )


if __name__ == "__main__":
    main()
