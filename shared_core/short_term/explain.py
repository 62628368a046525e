"""Why a prompt was not found in the cache: the first byte that differs from the previous request, and what is volatile.

Pure functions of two requests. Bytes are counted over the canonical prompt: tools, system, messages, each
block as JSON with sorted keys and without breakpoints. What a tool is asked and how it is defined counts in the order
of its keys as well: the provider reads it as it was sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from shared_core.errors import InvalidInput
from shared_core.messages import is_system
from shared_core.short_term.blocks import canonical, fields_of, read_content, rendered
from shared_core.short_term.plan import Plan
from shared_core.short_term.rules import SETTING_LEVELS, Level

_AROUND = 40
_LEVELS: Final[tuple[Level, ...]] = ("tools", "system", "messages")
_VOLATILE: Final = (
    ("a clock", re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?|\b\d{1,2}:\d\d:\d\d\b")),
    ("a clock", re.compile(r"(?<![\w.])1[5-9]\d{8}(?:\d{3})?(?:\.\d+)?(?![\w.])")),
    ("a random id", re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")),
    ("a random id", re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{16,64}\b")),
    ("an object's address", re.compile(r" at 0x[0-9a-fA-F]{6,}")),
)
_WORD: Final = re.compile(rb"\w+")
_CHANGING: Final = (
    ("a clock", re.compile(r"\b\d{1,2}:\d\d\b")),
    ("a date", re.compile(r"\b\d{4}-\d\d-\d\d\b|\b[A-Z][a-z]{2,8} \d{1,2}, \d{4}\b|\b\d{1,2} [A-Z][a-z]{2,8} \d{4}\b")),
    ("a random id", re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])\w{8,}\b")),
)
"""What may well be constant (office hours, a version), and is only named where it was seen to change."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What differs and what it costs.

    ``byte``: offset of the first difference in the canonical prompt, None if there is none in it (the request only grew, or
    something else changed, or nothing was compared). ``level``: the first level that is lost ("model", "tools", "system", "messages"), None if none is.
    ``path`` names the block or the setting; ``before`` and ``after`` show the text around. ``invalidates``: every level
    lost. ``kept_bytes``: length of the common start. ``warnings``: what is volatile in tools and system.
    """

    byte: int | None
    level: str | None
    path: str | None
    before: str
    after: str
    invalidates: tuple[str, ...]
    kept_bytes: int
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        if self.level is None:
            first = f"nothing is lost: {self.kept_bytes} bytes are the same"
        elif self.byte is None:
            first = f"{self.path} changed from {self.before} to {self.after}: lost are {', '.join(self.invalidates)}"
        else:
            first = (
                f"byte {self.byte}, in {self.path}: {self.before!r} became {self.after!r}; "
                f"lost are {', '.join(self.invalidates)} from there on"
            )
        return "\n".join([first, *self.warnings])


def explain(request: Mapping[str, Any] | Plan, previous: Mapping[str, Any] | Plan | None = None) -> Explanation:
    """Compare a request with the one before it; without one, only look for what is volatile."""
    new = _request(request)
    here = list(_blocks(new))
    warnings = list(_lint(here))
    if previous is None:
        return Explanation(None, None, None, "", "", (), sum(len(block.data) for block in here), tuple(warnings))
    old = _request(previous)
    there = list(_blocks(old))
    warnings += _reordered(new, old)
    if new.get("model") != old.get("model"):
        return Explanation(
            None, "model", "model", repr(old.get("model")), repr(new.get("model")), _LEVELS, 0, tuple(warnings)
        )
    offset = 0
    lost_at = _changed_setting(new, old) or _changed_pictures(here, there)
    for i, (level, path, data, keys, _) in enumerate(here):
        if lost_at is not None and _LEVELS.index(level) >= _LEVELS.index(lost_at[0]):
            break
        if i >= len(there) or there[i].level != level:
            if i < len(there) and _LEVELS.index(there[i].level) > _LEVELS.index(level):
                return _differs(level, path, offset, there[i].data, data, warnings)
            break
        if there[i].data != data:
            return _differs(level, path, offset, there[i].data, data, warnings)
        if there[i].keys != keys:
            told = f"{path}: the same keys came in another order; sort them (a plan does)"
            return Explanation(None, level, path, there[i].keys, keys, _from(level), offset, (*warnings, told))
        offset += len(data)
    else:
        i = len(here)
        if (
            i < len(there) and lost_at is None
        ):  # the request was cut: the prefix is whole, nothing that is there is lost
            return Explanation(None, None, None, "", "", (), offset, tuple(warnings))
    if lost_at is not None:
        level, name, before, after = lost_at
        return Explanation(None, level, name, before, after, _from(level), offset, tuple(warnings))
    if i < len(there):  # an earlier level ended sooner than it did before
        return _differs(there[i].level, there[i].path, offset, there[i].data, here[i].data, warnings)
    return Explanation(None, None, None, "", "", (), offset, tuple(warnings))


def _request(given: Mapping[str, Any] | Plan) -> Mapping[str, Any]:
    if isinstance(given, Plan):
        return given.request
    if not isinstance(given, Mapping) or not isinstance(given.get("messages"), list | tuple):
        raise InvalidInput(f"request: expected a plan or a dict with 'messages', got {given!r:.200}")
    for name in ("tools", "messages"):
        listed = given.get(name) or ()
        if not isinstance(listed, list | tuple) or not all(isinstance(one, Mapping) for one in listed):
            raise InvalidInput(f"{name}: expected a list of dicts as in the Messages API, got {listed!r:.200}")
    return given


class _Block(NamedTuple):
    """A block with its canonical bytes; a message's role belongs to each of its blocks. ``keys``: what counts in its own order."""

    level: Level
    path: str
    data: bytes
    keys: str = ""
    picture: bool = False


def _blocks(request: Mapping[str, Any]) -> Iterator[_Block]:
    for i, tool in enumerate(request.get("tools") or ()):
        name = tool.get("name")
        path = f"tools[{i}]" + (f" ({name})" if name else "")
        yield _Block("tools", path, rendered(_unmarked(canonical(tool))), _keys(tool))
    called: set[str] = set()
    for i, block in enumerate(read_content("system", request.get("system"), called).blocks):
        yield _Block("system", f"system[{i}]", rendered(block))
    leading = True
    for i, message in enumerate(request["messages"]):
        leading = leading and is_system(message)
        level: Level = "system" if leading else "messages"
        said = message.get("content")
        said = list(said) if isinstance(said, Iterator) else said
        content = read_content("messages", said, called)
        for j, block in enumerate(content.blocks):
            role = "" if leading else str(message.get("role"))
            data = f"{role}:".encode("utf-8", "surrogatepass") * bool(role) + rendered(block)
            keys = "" if content.bare else _keys(said[j])
            yield _Block(level, f"messages[{i}].content[{j}]", data, keys, j in content.images)


def _keys(given: Any) -> str:
    """What a tool is asked, or how it is defined, in the order of its keys as it was sent; "" if there is no such thing."""
    block = given if isinstance(given, Mapping) else fields_of(given) or {}
    held = [block[name] for name in ("input", "input_schema") if name in block]
    return json.dumps(held, ensure_ascii=False, default=repr) if held else ""


def _differs(level: Level, path: str, offset: int, old: bytes, new: bytes, warnings: list[str]) -> Explanation:
    at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(at - _AROUND // 2, 0)
    before, after = (data[start : at + _AROUND].decode("utf-8", "replace") for data in (old, new))
    what = _volatile(old, new, at) if level != "messages" else None
    if what is not None:
        supposed = f"{path} holds {what} "  # what was only supposed of this block is known now
        known = f"{path}: {what} changes from request to request; move it behind the stable part"
        warnings = [*(one for one in warnings if not one.startswith(supposed)), known]
    elif level != "messages" and sorted(_WORD.findall(old)) == sorted(_WORD.findall(new)):
        warnings = [*warnings, f"{path}: the same words came in another order; sort what it is made of"]
    return Explanation(
        offset + at, level, path, before, after, _from(level), offset + at, tuple(dict.fromkeys(warnings))
    )


def _volatile(old: bytes, new: bytes, at: int) -> str | None:
    """What is volatile around the first difference, if that is what differs."""
    before, after = (data[max(at - 64, 0) : at + 64].decode("utf-8", "replace") for data in (old, new))
    for what, pattern in (*_VOLATILE, *_CHANGING):
        found = [[match[0] for match in pattern.finditer(text)] for text in (before, after)]
        if all(found) and found[0] != found[1]:
            return what
    return None


def _lint(blocks: list[_Block]) -> Iterator[str]:
    for level, path, data, *_ in blocks:
        if level == "messages":
            continue
        text = data.decode("utf-8", "replace")
        for what, pattern in _VOLATILE:
            found = pattern.search(text)
            if found:
                yield f"{path} holds {what} ({found[0].strip()}): if it changes, nothing after it is found; move it to the end"


def _reordered(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[str]:
    def listed(request: Mapping[str, Any]) -> list[bytes]:
        return [rendered(_unmarked(canonical(tool))) for tool in request.get("tools") or ()]

    ours, theirs = listed(new), listed(old)
    if ours != theirs and sorted(ours) == sorted(theirs):
        return ["tools: the same tools came in another order; sort them (a plan does)"]
    return []


def _changed_setting(new: Mapping[str, Any], old: Mapping[str, Any]) -> tuple[Level, str, str, str] | None:
    """The earliest level that a changed request setting invalidates, the setting, and what it was and is."""
    changed = [
        (level, name, repr(old.get(name)), repr(new.get(name)))
        for name, level in SETTING_LEVELS.items()
        if rendered(canonical(new.get(name))) != rendered(canonical(old.get(name)))
    ]
    return min(changed, key=lambda one: _LEVELS.index(one[0]), default=None)


def _changed_pictures(new: list[_Block], old: list[_Block]) -> tuple[Level, str, str, str] | None:
    """The first picture in a prompt, and the last to leave it, invalidate the messages wherever it stands."""
    had, has = (any(block.picture for block in blocks) for blocks in (old, new))
    if had == has or not any(block.level == "messages" for block in old):
        return None
    return "messages", "pictures", "some" if had else "none", "some" if has else "none"


def _from(level: Level) -> tuple[Level, ...]:
    return _LEVELS[_LEVELS.index(level) :]


def _unmarked(tool: Any) -> Any:
    return {key: value for key, value in tool.items() if key != "cache_control"} if isinstance(tool, dict) else tool
