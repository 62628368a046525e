"""Texts that a reader has before it already, as a recall knows them again. No storage, no scores.

A conversation is shown anew with every turn, and masking its texts as a memory of them was masked is the dear part of
that: so it is done once for each text. What is kept are digests, never a text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from shared_core.errors import InvalidInput
from shared_core.text import every_word, is_question, normalised

_MOST = 16_384


def mark(text: str) -> bytes:
    """What tells a memory's text among those that are shown: SHA-256 of it, normalised; of a question, of its words."""
    told = f"?{' '.join(every_word(text))}" if is_question(text) else normalised(text)
    return hashlib.sha256(told.encode(errors="surrogatepass")).digest()


class Marks:
    """Marks of texts as ``written`` makes memories of them. Two threads may ask at once: the worst is to do it twice."""

    def __init__(self, written: Callable[[str], str]) -> None:
        self._written = written
        self._known: dict[bytes, bytes] = {}

    def of(self, texts: Iterable[str]) -> frozenset[bytes]:
        """The marks of all these texts. InvalidInput for what is no text."""
        return frozenset(map(self._of, texts))

    def _of(self, text: str) -> bytes:
        if not isinstance(text, str):
            raise InvalidInput(
                f"shown_texts: expected strings, got {type(text).__name__}; write text_of(message) "
                "(from shared_core.messages), which takes content of any shape"
            )
        given = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
        known = self._known.get(given)
        if known is None:
            known = mark(self._written(text))
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[given] = known
        return known
