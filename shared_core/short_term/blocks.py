"""A request taken apart into canonical blocks: keys in one order, breakpoints taken out, tokens estimated, marked or not.

No state but a cache of estimates, and no decisions. What comes out is the caller's content in our own copies.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from shared_core.errors import InvalidInput
from shared_core.short_term.rules import MARKABLE_KINDS, Ttl
from shared_core.text import estimate_tokens

IMAGE_TOKENS: Final = 1600
DOCUMENT_TOKENS: Final = 3000
"""What a picture and a document in binary form are taken for; the usage that comes back corrects the total."""
_SAMPLES = ((2560, 160), (256, 64))
"""Above so many characters, so many from the start, the middle and the end of a text are looked at for its tokens."""
_MOST_ESTIMATES = 65_536


@dataclass(frozen=True, slots=True)
class Piece:
    """One block of the prompt (a tool, a system text, a content block), canonical and without a breakpoint.

    ``content`` is never handed out; ``bare`` says that it came as a plain string. ``ttl`` is the caller's
    own breakpoint on it. ``digest`` is SHA-256 of its canonical JSON. ``image``: it is or holds a picture;
    ``flat``: nothing in it is a dict or a list.
    """

    content: Any
    digest: bytes
    tokens: int
    markable: bool
    bare: bool = False
    ttl: Ttl | None = None
    image: bool = False
    flat: bool = False


class Reader:
    """Reads tools, system and messages into pieces; remembers the token estimates of what it has read."""

    def __init__(self, count_tokens: Callable[[str], int] | None = None) -> None:
        self._count = count_tokens if count_tokens is not None else sampled_tokens
        self._known: OrderedDict[bytes, int] = OrderedDict()

    def tools(self, tools: Sequence[Mapping[str, Any]]) -> list[Piece]:
        """The tools in a stable order: by name, within each stretch that a breakpoint of the caller ends."""
        if isinstance(tools, str | Mapping) or not all(isinstance(tool, Mapping) for tool in tools):
            raise InvalidInput(f"tools: expected a list of dicts as in the Messages API, got {tools!r:.200}")
        ordered: list[Piece] = []
        stretch: list[Piece] = []
        for tool in tools:
            content, ttl = _without_mark(tool)
            stretch.append(self._piece(content, ttl, markable=not content.get("defer_loading")))
            if ttl is not None:
                ordered += _by_name(stretch)
                stretch = []
        return ordered + _by_name(stretch)

    def content(self, what: str, content: Any, *, called_by_code: set[str]) -> tuple[Piece, ...]:
        """The blocks of a system prompt or of a message; a string is one block, None is none.

        ``called_by_code`` collects the ids of tool calls that code made: they and their results take no breakpoint.
        """
        if content is None:
            return ()
        if isinstance(content, str):
            block = {"text": content, "type": "text"}
            return (self._piece(block, None, markable=bool(content), bare=True),)
        if not isinstance(content, Sequence):
            raise InvalidInput(f"{what}: expected a string or a list of content blocks, got {content!r:.200}")
        pieces = []
        for block in content:
            if isinstance(block, str):
                block = {"type": "text", "text": block}  # noqa: PLW2901
            if not isinstance(block, Mapping):
                raise InvalidInput(f"{what}: expected content blocks as dicts, got {block!r:.200}")
            plain, ttl = _without_mark(block)
            pieces.append(self._piece(plain, ttl, markable=_is_markable(plain, called_by_code)))
        return tuple(pieces)

    def _piece(self, content: Any, ttl: Ttl | None, *, markable: bool, bare: bool = False) -> Piece:
        text = written(content)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        tokens = self._known.get(digest)
        if tokens is None:
            tokens = self._known[digest] = self._tokens(content, text)
            if len(self._known) > _MOST_ESTIMATES:
                self._known.popitem(last=False)
        flat = not any(isinstance(value, dict | list) for value in content.values())
        return Piece(content, digest, tokens, markable, bare, ttl, _holds_image(content), flat)

    def _tokens(self, block: Any, text: str) -> int:
        if isinstance(block, str):
            return self._count(block)
        if not isinstance(block, Mapping):
            return 0
        kind = block.get("type")
        if block.get("defer_loading"):
            return 0
        if kind == "text":
            return self._count(str(block.get("text", "")))
        if kind == "image":
            return IMAGE_TOKENS
        source = block.get("source")
        if kind == "document" and isinstance(source, Mapping) and source.get("type") in ("base64", "url", "file"):
            return DOCUMENT_TOKENS
        if kind == "tool_result" and isinstance(block.get("content"), list):
            return 8 + sum(self._tokens(part, "") for part in block["content"])
        if kind == "tool_result":
            return 8 + self._count(str(block.get("content") or ""))
        return self._count(text or written(block))


written: Final[Callable[[Any], str]] = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False
).encode


def sampled_tokens(text: str) -> int:
    """``estimate_tokens``, and for a longer text the estimate of its start, middle and end, scaled to its length."""
    n = len(text)
    size = next((size for above, size in _SAMPLES if n > above), 0)
    if not size:
        return estimate_tokens(text)
    middle = (n - size) // 2
    sample = text[:size] + text[middle : middle + size] + text[-size:]
    return math.ceil(estimate_tokens(sample) * n / len(sample))


def rendered(content: Any) -> bytes:
    """The canonical bytes of a piece: JSON without spaces, as the provider would hash it."""
    return written(content).encode("utf-8", "surrogatepass")


def canonical(value: Any) -> Any:
    """A deep copy with the keys of every dict sorted. InvalidInput for what JSON cannot carry."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is dict or isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise InvalidInput(f"request: expected dicts with string keys, got {value!r:.200}")
        return {key: canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise InvalidInput(
        f"request: expected values that JSON can carry, got {type(value).__name__} {value!r:.100}; convert it first"
    )


def copied(content: Any) -> Any:
    """A copy of canonical content to hand out."""
    kind = type(content)
    if kind is dict:
        return {key: value if type(value) is str else copied(value) for key, value in content.items()}
    if kind is list:
        return [copied(item) for item in content]
    return content


def block_copy(piece: Piece) -> dict[str, Any]:
    """A copy of a piece's content to hand out; most blocks hold nothing deeper than strings."""
    return piece.content.copy() if piece.flat else copied(piece.content)  # type: ignore[no-any-return]


def ttl_of(mark: Any) -> Ttl | None:
    """The lifetime that a ``cache_control`` value asks for; None for one that the provider would refuse."""
    if not isinstance(mark, Mapping) or mark.get("type") != "ephemeral":
        return None
    ttl = mark.get("ttl") or "5m"
    return "5m" if ttl == "5m" else "1h" if ttl == "1h" else None


def _without_mark(block: Mapping[str, Any]) -> tuple[dict[str, Any], Ttl | None]:
    """The block's canonical copy without breakpoints, and the caller's; one inside a tool's result counts for the whole."""
    plain: dict[str, Any] = canonical(block)
    ttl = ttl_of(plain.pop("cache_control", None))
    for name in ("content", "citations"):
        parts = plain.get(name)
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                inner = ttl_of(part.pop("cache_control", None))
                ttl = ttl or (inner if name == "content" else None)
    return plain, ttl


def _is_markable(block: Mapping[str, Any], called_by_code: set[str]) -> bool:
    kind = block.get("type")
    if kind == "text":
        return bool(str(block.get("text") or "").strip())
    if kind in ("tool_use", "server_tool_use") and _by_code(block.get("caller")):
        called_by_code.add(str(block.get("id")))
        return False
    if kind == "tool_result" and str(block.get("tool_use_id")) in called_by_code:
        return False
    return isinstance(kind, str) and kind in MARKABLE_KINDS


def _holds_image(block: Mapping[str, Any]) -> bool:
    parts = block.get("content")
    return block.get("type") == "image" or (
        isinstance(parts, list) and any(isinstance(part, dict) and part.get("type") == "image" for part in parts)
    )


def _by_code(caller: Any) -> bool:
    return isinstance(caller, Mapping) and str(caller.get("type", "")).startswith("code_execution")


def _by_name(stretch: list[Piece]) -> list[Piece]:
    """Sorted by name, then content; the caller's breakpoint goes to the last one that can take it."""
    ttl = stretch[-1].ttl if stretch else None
    ordered = sorted(stretch, key=lambda piece: (_name(piece.content), piece.digest))
    if ttl is None:
        return ordered
    last = max((i for i, piece in enumerate(ordered) if piece.markable), default=-1)
    return [replace(piece, ttl=ttl if i == last else None) for i, piece in enumerate(ordered)]


def _name(tool: Mapping[str, Any]) -> str:
    return str(tool.get("name") or tool.get("mcp_server_name") or tool.get("type") or "")
