"""Words in scripts other than Latin: a table of pieces distilled from multilingual-e5-small.

MiniLM's vocabulary is English, so ``static`` and ``minilm`` take what is written in other scripts from here.
The pieces lie in the space of the ``static`` table, English words where that has them, so a text of two
scripts is one sum and a word stands near its translation. Ships with this package (see NOTICE); loaded at
the first text that needs it. How the table was made: ``tools/distil_scripts.py``. Never here: Latin words.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shared_core.embedding.base import Once, Vectors, check_sha256

TABLE = Path(__file__).with_name("scripts_table.npz")
SHA256 = "1284c3e77179bb28213998fbeab41aa860419fa58ff289fed3bffcb3a6fa799d"

LATIN = frozenset({"LATIN"})
"""The scripts that MiniLM's vocabulary knows, as ``base.mostly_in`` names them."""

# Letters and their marks from Greek on, without phonetic and Latin letters, symbols, punctuation and emoji.
_OTHER = re.compile(
    "[\u0370-\u1cff\u1f00-\u1fff\u2d00-\u2dff\u3005-\u3007\u3031-\u9fff\ua4d0-\ua6ff\ua840-\uab2f\uab70-\ud7ff\uf900-\ufaff"
    "\ufb13-\ufdff\ufe70-\ufefc\uff66-\uffdc\U00010280-\U0001cfff\U0001e800-\U0001eeff\U00020000-\U0003ffff]+"
)

_WORD = re.compile(r"[^\W_]+")


def split(text: str) -> tuple[str, str]:
    """The text without what is written in other scripts, and the runs of those, folded and joined by spaces.

    A text of Latin letters alone comes back as it is; of another's Latin part the words do, without the marks
    between, which the Latin table takes for rare words where they are another script's.
    """
    if text.isascii():
        return text, ""
    runs = _OTHER.findall(text)
    if not runs:
        return text, ""
    words = " ".join(_WORD.findall(_OTHER.sub(" ", text)))
    return words, unicodedata.normalize("NFKC", " ".join(runs)).casefold()


class Pieces:
    """The table: ``rows`` int8 [n, 256] and ``scale`` float32 [n], ``tokenizer`` to their numbers.

    ``lift``, float32 [256, 384], turns a vector of the static space into MiniLM's; lengths and angles stay.
    """

    def __init__(self) -> None:
        from tokenizers import Tokenizer  # noqa: PLC0415
        from tokenizers.models import Unigram  # noqa: PLC0415
        from tokenizers.pre_tokenizers import WhitespaceSplit  # noqa: PLC0415

        check_sha256(TABLE, SHA256)
        with np.load(TABLE, allow_pickle=False) as table:
            self.rows: npt.NDArray[np.int8] = table["rows"]
            self.scale: Vectors = table["scale"]
            self.lift: Vectors = table["lift"]
            words, chances = table["pieces"].tobytes().decode().split("\n"), table["chances"]
        vocabulary = list(zip(words, map(float, chances), strict=True))
        self.tokenizer: Any = Tokenizer(Unigram(vocabulary, unk_id=0))  # the likeliest cut (Kudo 2018)
        self.tokenizer.pre_tokenizer = WhitespaceSplit()


pieces = Once(Pieces)
"""The table, read once a process."""
