"""How many tokens a canonical block is taken for. Pure; the usage that comes back corrects the total."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shared_core.text import counted_tokens, estimate_tokens

_log = logging.getLogger(__name__)

IMAGE_TOKENS: Final = 1600
DOCUMENT_TOKENS: Final = 3000
"""What a picture and a document in binary form are taken for."""
_MOST_COUNTS = 65_536
_AT_ONCE = 48
"""So many texts are looked at together: their arrays stay in the processor's cache."""
_SPACE, _LETTER, _DIGIT, _BREAK, _MARK, _WIDE = range(6)
_PER_TOKEN = np.array([1.0, 5.0, 3.0, 2.0**53, 1.0, 1.0])
"""How many characters in a row make one token, by kind; a run of line breaks is one."""
_TOKENS = np.array([0.0, 1.0, 1.0, 1.0, 1.0, 2.0])


written: Final[Callable[[Any], str]] = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
).encode
"""The canonical text of what is canonical (so it has no cycles): JSON without spaces, as the provider would hash it."""


def block_tokens(block: Any, count: Callable[[str], int]) -> int:
    """The tokens of a block, or of a part of a tool's result, with ``count`` for its texts."""
    if isinstance(block, str):
        return count(block)
    if not isinstance(block, dict):
        return 0
    kind = block.get("type")
    if block.get("defer_loading"):
        return 0
    if kind == "text":
        return count(str(block.get("text", "")))
    if kind == "image":
        return IMAGE_TOKENS
    source, content = block.get("source"), block.get("content")
    if kind == "document" and isinstance(source, Mapping):
        if source.get("type") in ("base64", "url", "file"):
            return DOCUMENT_TOKENS
        if isinstance(source.get("content"), list):
            return 8 + sum(block_tokens(part, count) for part in source["content"])
    if kind == "web_fetch_tool_result" and isinstance(content, Mapping):  # it holds a document, often in binary form
        return 8 + count(str(content.get("url", ""))) + block_tokens(content.get("content"), count)
    if kind == "tool_result":
        if isinstance(content, list):
            return 8 + sum(block_tokens(part, count) for part in content)
        return 8 + count(str(content or ""))
    return count(written(block))


def tokens_of_many(blocks: Sequence[Any]) -> list[int]:
    """``block_tokens`` of each with ``sampled_tokens``: the same numbers, with all texts looked at together."""
    texts: list[str] = []
    upto = [0]

    def later(text: str) -> int:
        texts.append(text)
        return 0

    fixed = []
    for block in blocks:
        fixed.append(block_tokens(block, later))
        upto.append(len(texts))
    samples = [_sample(text) for text in texts]
    lengths, looked_at = np.array([*map(len, texts)]), np.array([*map(len, samples)])
    stretches = [slice(i, i + _AT_ONCE) for i in range(0, len(samples), _AT_ONCE)]
    found = np.concatenate([np.zeros(0), *(_estimates(samples[part], looked_at[part]) for part in stretches)])
    tokens = np.ceil(found * lengths / np.maximum(looked_at, 1)).astype(np.int64)
    sums = np.concatenate(([0], np.cumsum(tokens)))[upto]
    return (np.array(fixed, np.int64) + np.diff(sums)).tolist()  # type: ignore[no-any-return]


def sampled_tokens(text: str) -> int:
    """``estimate_tokens``; for a longer text the estimate of its start, middle and end, scaled to its length."""
    sample = _sample(text)
    found = estimate_tokens(sample)
    return found if sample is text else math.ceil(found * len(text) / len(sample))


def remembered(count: Callable[[str], int]) -> Callable[[str], int]:
    """A counter of the user's, asked once for each of the last texts: it may cost more than all the rest of a plan.

    Where it fails, or what it returns is no count, the text's tokens are estimated: no request fails for a tokenizer.
    """
    known: OrderedDict[bytes, int] = OrderedDict()

    def counted(text: str) -> int:
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        tokens = known.get(key)
        if tokens is None:
            try:
                tokens = known[key] = counted_tokens(count(text))
            except Exception as error:  # noqa: BLE001 - a tokenizer of any origin
                _log.warning("count_tokens failed, the tokens of a block are estimated: %r", error)
                return sampled_tokens(text)
            if len(known) > _MOST_COUNTS:
                known.popitem(last=False)
        return tokens

    return counted


def _sample(text: str) -> str:
    n = len(text)
    if n <= 256:
        return text
    size = 64 if n <= 2560 else 160
    middle = (n - size) // 2
    return text[:size] + text[middle : middle + size] + text[-size:]


def _estimates(texts: Sequence[str], lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """``estimate_tokens`` of each text, over arrays: a run of characters of one kind is so many tokens."""
    joined = " ".join([*texts, " "])  # white space is no token, and ends one
    if joined.isascii():
        kinds = np.frombuffer(joined.encode("ascii").translate(_kinds()[:256].tobytes()), np.uint8)
    else:
        letters = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)
        kinds = _kinds().take(letters, mode="clip")
    starts = np.concatenate(([0], np.flatnonzero(kinds[1:] != kinds[:-1]) + 1))
    of_run = kinds[starts]
    tokens = np.ceil(np.diff(starts, append=len(kinds)) / _PER_TOKEN[of_run]) * _TOKENS[of_run]
    before = np.concatenate(([0], np.cumsum(tokens)))
    ends = np.concatenate(([0], np.cumsum(lengths + 1)))
    return np.diff(before[np.searchsorted(starts, ends)])


@cache
def _kinds() -> NDArray[np.uint8]:
    """The kind of each character up to U+3001; those behind are as the last: no white space stands there."""
    kinds = [
        _SPACE if chr(code).isspace() else _MARK if code <= 0x7FF else _WIDE  # a character beyond two bytes costs two
        for code in range(0x3002)
    ]
    for kind, letters in ((_LETTER, "abcdefghijklmnopqrstuvwxyz"), (_DIGIT, "0123456789"), (_BREAK, "\n")):
        for letter in letters + letters.upper():
            kinds[ord(letter)] = kind
    return np.array(kinds, np.uint8)
