"""How many tokens a canonical block is taken for. Pure; the usage that comes back corrects the total."""

from __future__ import annotations

import hashlib
import json
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from shared_core.text import estimate_tokens

IMAGE_TOKENS: Final = 1600
DOCUMENT_TOKENS: Final = 3000
"""What a picture and a document in binary form are taken for."""
_MOST_COUNTS = 65_536


written: Final[Callable[[Any], str]] = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False
).encode
"""The canonical text of what is canonical: JSON without spaces, as the provider would hash it."""


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
    source = block.get("source")
    if kind == "document" and isinstance(source, Mapping) and source.get("type") in ("base64", "url", "file"):
        return DOCUMENT_TOKENS
    if kind == "tool_result":
        content = block.get("content")
        if isinstance(content, list):
            return 8 + sum(block_tokens(part, count) for part in content)
        return 8 + count(str(content or ""))
    return count(written(block))


def sampled_tokens(text: str) -> int:
    """``estimate_tokens``; for a longer text the estimate of its start, middle and end, scaled to its length."""
    n = len(text)
    if n <= 256:
        return estimate_tokens(text)
    size = 64 if n <= 2560 else 160
    middle = (n - size) // 2
    sample = text[:size] + text[middle : middle + size] + text[-size:]
    return math.ceil(estimate_tokens(sample) * n / (3 * size))


def remembered(count: Callable[[str], int]) -> Callable[[str], int]:
    """A counter of the user's, asked once for each of the last texts: it may cost more than all the rest of a plan."""
    known: OrderedDict[bytes, int] = OrderedDict()

    def counted(text: str) -> int:
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        tokens = known.get(key)
        if tokens is None:
            tokens = known[key] = count(text)
            if len(known) > _MOST_COUNTS:
                known.popitem(last=False)
        return tokens

    return counted
