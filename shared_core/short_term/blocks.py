"""A request taken apart into canonical blocks: keys in one order, breakpoints taken out, tokens estimated, marked or not.

No state but a cache of estimates, and no decisions. What comes out is the caller's content in our own copies.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Literal, NamedTuple

from shared_core.errors import InvalidInput
from shared_core.short_term.estimates import block_tokens, remembered, sampled_tokens, tokens_of_many, written
from shared_core.short_term.rules import MARKABLE_KINDS, Ttl

Inner = tuple[tuple[int, str], ...] | None
Wish = Ttl | Literal["?"]
"""What a caller's breakpoint asks for: a lifetime, or "?" for what the provider would refuse."""


class Content(NamedTuple):
    """The blocks of a system prompt or of a message, canonical and without breakpoints, and what is to know of them.

    ``markable`` has one value per block; ``ttls`` are the caller's own breakpoints and ``images`` the blocks that are or
    hold a picture, by their place. ``plain``: nothing but strings in the blocks. ``inner``: the dicts and lists in them, as
    (place, key), if these hold neither; None if they do. ``bare``: it came as one plain string.
    """

    blocks: list[dict[str, Any]]
    markable: list[bool]
    ttls: dict[int, Wish]
    images: list[int]
    plain: bool
    inner: Inner
    bare: bool


def read_content(what: str, content: Any, called_by_code: set[str]) -> Content:
    """Take content apart; a string is one block, None is none.

    ``called_by_code`` collects the ids of tool calls that code made: they and their results take no breakpoint.
    """
    if content is None:
        return Content([], [], {}, [], True, (), False)
    if isinstance(content, str):
        return Content([{"text": content, "type": "text"}], [bool(content)], {}, [], True, (), True)
    if type(content) is not list and not isinstance(content, Sequence | Iterator):
        raise InvalidInput(f"{what}: expected a string or a list of content blocks, got {content!r:.200}")
    blocks: list[dict[str, Any]] = []
    markable: list[bool] = []
    ttls: dict[int, Wish] = {}
    images: list[int] = []
    plain, flat = True, True
    inner: list[tuple[int, str]] = []
    for block in content:
        # Most blocks are a text and nothing else: they go past the rest, which costs ten times as much.
        if type(block) is dict and len(block) == 2 and block.get("type") == "text" and type(block.get("text")) is str:
            text = block["text"]
            blocks.append({"text": text, "type": "text"})
            markable.append(text != "" and not text.isspace())
            continue
        given = {"type": "text", "text": block} if isinstance(block, str) else block
        if type(given) is not dict and not isinstance(given, Mapping) and (given := fields_of(block)) is None:
            raise InvalidInput(f"{what}: expected content blocks as dicts, got {block!r:.200}")
        clean, ttl = _without_mark(given)
        if ttl is not None:
            ttls[len(blocks)] = ttl
        if _holds_image(clean):
            images.append(len(blocks))
        for key, value in clean.items():
            if type(value) is not str:
                plain = False
                if type(value) in _NESTED:
                    inner.append((len(blocks), key))
                    flat = flat and is_flat(value)
        blocks.append(clean)
        markable.append(_is_markable(clean, called_by_code))
    return Content(blocks, markable, ttls, images, plain, tuple(inner) if flat else None, False)


def is_flat(value: dict[str, Any] | list[Any]) -> bool:
    """Whether what is canonical holds no dict and no list."""
    return _NESTED.isdisjoint(map(type, value.values() if type(value) is dict else value))


_NESTED = {dict, list}
_MANY = 24
"""From so many blocks on arrays are faster."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One block of the head of a prompt (a tool or a system text), canonical and without a breakpoint.

    ``content`` is never handed out; ``bare`` says that it came as a plain string. ``ttl`` is the caller's
    own breakpoint on it. ``digest`` is SHA-256 of its canonical JSON.
    """

    content: dict[str, Any]
    digest: bytes
    tokens: int
    markable: bool
    bare: bool = False
    ttl: Wish | None = None


class Reader:
    """Reads the head of a prompt into pieces, and knows how tokens are counted."""

    def __init__(self, count_tokens: Callable[[str], int] | None = None) -> None:
        self._count = sampled_tokens if count_tokens is None else remembered(count_tokens)

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

    def system(self, what: str, content: Any) -> tuple[Piece, ...]:
        """The blocks of a system prompt, or of a message that belongs to it."""
        read = read_content(what, content, set())
        return tuple(
            self._piece(block, read.ttls.get(i), markable=read.markable[i], bare=read.bare)
            for i, block in enumerate(read.blocks)
        )

    def tokens(self, blocks: Sequence[Any]) -> list[int]:
        """The tokens of each block, estimated or counted."""
        if self._count is sampled_tokens and len(blocks) >= _MANY:
            return tokens_of_many(blocks)
        return [block_tokens(block, self._count) for block in blocks]

    def _piece(self, content: dict[str, Any], ttl: Wish | None, *, markable: bool, bare: bool = False) -> Piece:
        digest = hashlib.sha256(rendered(content)).digest()
        return Piece(content, digest, block_tokens(content, self._count), markable, bare, ttl)


def rendered(content: Any) -> bytes:
    """The canonical bytes of a piece: JSON without spaces, as the provider would hash it."""
    return written(content).encode("utf-8", "surrogatepass")


def canonical(value: Any) -> Any:
    """A deep copy with the keys of every dict sorted. InvalidInput for what JSON cannot carry."""
    kind = type(value)
    if kind is str or kind is bool or value is None or (kind is int and -_LONGEST < value < _LONGEST):
        return value
    if kind is dict or isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InvalidInput(f"request: expected dicts with string keys, got {value!r:.200}")
        return {key: item if type(item := value[key]) is str else canonical(item) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    if isinstance(value, str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, int):
        if -_LONGEST < value < _LONGEST:
            return value
        raise InvalidInput("request: expected numbers of at most 4000 digits; make a string of it")
    if isinstance(value, date):  # a datetime is one too; as the SDK writes them
        return value.isoformat()
    fields = fields_of(value)
    if fields is not None:
        return canonical(fields)
    raise InvalidInput(
        f"request: expected values that JSON can carry, got {type(value).__name__} {value!r:.100}; convert it first"
    )


_LONGEST = 10**4000
"""Python writes no number of more than 4300 digits."""


def fields_of(value: Any) -> dict[str, Any] | None:
    """The fields of a pydantic object as the SDK would send them; None for anything else.

    Callers append ``response.content`` to their messages as it came, and that is a list of such objects.
    """
    if isinstance(value, type) or not hasattr(value, "model_dump"):
        return None
    left_out = getattr(value, "__api_exclude__", None)
    fields: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=left_out)
    return fields


def copied(content: Any) -> Any:
    """A deep copy of canonical content, to hand out."""
    kind = type(content)
    if kind is dict:
        copy = content.copy()
        for key, value in content.items():
            if type(value) is dict or type(value) is list:
                copy[key] = copied(value)
        return copy
    return [copied(item) for item in content] if kind is list else content


def ttl_of(mark: Any) -> Wish | None:
    """The lifetime that a ``cache_control`` value asks for; None is no breakpoint."""
    if mark is None:
        return None
    if not isinstance(mark, Mapping) or mark.get("type") != "ephemeral":
        return "?"
    ttl = mark.get("ttl") or "5m"
    return "5m" if ttl == "5m" else "1h" if ttl == "1h" else "?"


def _without_mark(block: Mapping[str, Any]) -> tuple[dict[str, Any], Wish | None]:
    """The block's canonical copy without breakpoints, and the caller's; one inside a tool's result counts for the whole."""
    plain: dict[str, Any] = canonical(block)
    return plain, _taken_out(plain)


_NESTS = ("content", "source", "tool", "definition", "citations")
"""Where a block holds others. What is in a tool's input is the caller's own, whatever it is called."""


def _taken_out(block: dict[str, Any]) -> Wish | None:
    """Take every breakpoint out of our own copy of a block; what the first of them asked for. None counts on a citation."""
    wish = ttl_of(block.pop("cache_control")) if "cache_control" in block else None
    for name in _NESTS:
        for part in _held(block, name):
            inner = _taken_out(part)
            wish = wish or (inner if name != "citations" else None)
    return wish


def _held(block: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The blocks that a canonical block holds under a name: one, or those of a list."""
    parts = block.get(name)
    return [part for part in (parts if type(parts) is list else [parts]) if type(part) is dict]


def _is_markable(block: Mapping[str, Any], called_by_code: set[str]) -> bool:
    kind = block.get("type")
    if kind == "text":
        return bool(str(block.get("text") or "").strip())
    if _by_code(block.get("caller")):
        if "id" in block:
            called_by_code.add(str(block["id"]))
        return False
    if called_by_code and "tool_use_id" in block and str(block["tool_use_id"]) in called_by_code:
        return False
    return isinstance(kind, str) and kind in MARKABLE_KINDS


def _holds_image(block: Mapping[str, Any]) -> bool:
    if block.get("type") == "image":
        return True
    return any(_holds_image(part) for name in ("content", "source") for part in _held(block, name))


def _by_code(caller: Any) -> bool:
    return (
        caller is not None and isinstance(caller, Mapping) and str(caller.get("type", "")).startswith("code_execution")
    )


def _by_name(stretch: list[Piece]) -> list[Piece]:
    """Sorted by name, then content; the caller's breakpoint goes to the last one that can take it."""
    ttl = stretch[-1].ttl if stretch else None
    ordered = sorted(stretch, key=lambda piece: (_name(piece.content), piece.digest))
    if ttl is None:
        return ordered
    last = max((i for i, piece in enumerate(ordered) if piece.markable), default=-1)
    return [replace(piece, ttl=ttl if i == last else None) for i, piece in enumerate(ordered)]


def _name(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")  # OpenAI's shape
    named = function if isinstance(function, Mapping) else tool
    return str(named.get("name") or tool.get("mcp_server_name") or tool.get("type") or "")
