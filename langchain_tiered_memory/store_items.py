"""Items of LangGraph's store as rows: names, records, filters and texts. Pure: no storage, no clock."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from langgraph.store.base import Item, MatchCondition, SearchItem
from langgraph.store.base.embed import get_text_at_path, tokenize_path

from shared_core import InvalidInput

_PREFIX: Final = "langgraph/store/"
_COMPARE: Final = {
    "$gt": lambda have, want: have > want,
    "$gte": lambda have, want: have >= want,
    "$lt": lambda have, want: have < want,
    "$lte": lambda have, want: have <= want,
}


@dataclass(frozen=True, slots=True)
class Record:
    """One item: its value, when it was first and last put (epoch seconds), and its minutes to live, if any."""

    value: dict[str, Any]
    created: float
    updated: float
    ttl: float | None


def place(namespace: Sequence[str]) -> str:
    """The blob namespace of an item namespace; the place of a prefix, by whole elements, is a prefix of it."""
    return _PREFIX + "".join(json.dumps(element) + "," for element in namespace)


def namespace(place: str) -> tuple[str, ...]:
    """The item namespace of a blob namespace."""
    return tuple(json.loads(f"[{place[len(_PREFIX) :].removesuffix(',')}]"))


def name(namespace: Sequence[str], key: str) -> str:
    """The id under which an item's text is remembered."""
    return json.dumps([*namespace, key])


def tag(prefix: Sequence[str]) -> str:
    """The tag that the text of every item under this prefix carries."""
    return hashlib.sha256(place(prefix).encode()).hexdigest()


def made(value: Mapping[str, Any], *, created: float, updated: float, ttl: float | None) -> Record:
    """A record with its own copy of the value; InvalidInput if JSON cannot carry it as it is."""
    try:
        own = json.loads(json.dumps(dict(value)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"value: expected a dict that JSON can carry, got {error}; convert it first") from error
    return Record(own, created, updated, ttl)


def stored(record: Record) -> bytes:
    """The record as bytes."""
    return json.dumps([record.value, record.created, record.updated, record.ttl]).encode()


def record(raw: bytes) -> Record | None:
    """The record again; None for bytes that are none."""
    try:
        value, created, updated, ttl = json.loads(raw)
        found = Record(value, float(created), float(updated), None if ttl is None else float(ttl))
        _time(found.created), _time(found.updated)  # what no clock shows was not written here
        return found if isinstance(value, dict) else None
    except (ValueError, TypeError, OverflowError, OSError, RecursionError):
        return None


def item(namespace: tuple[str, ...], key: str, found: Record) -> Item:
    """The item of a record."""
    return Item(
        value=found.value,
        key=key,
        namespace=namespace,
        created_at=_time(found.created),
        updated_at=_time(found.updated),
    )


def search_item(namespace: tuple[str, ...], key: str, found: Record, score: float | None) -> SearchItem:
    """The search result of a record."""
    return SearchItem(
        namespace=namespace, key=key, value=found.value, score=score,
        created_at=_time(found.created), updated_at=_time(found.updated),
    )  # fmt: skip


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Whether the top-level fields are as the filter says: equal, part of it (a dict), or as ``$`` operators compare."""
    return all(_field(value.get(field), want) for field, want in (wanted or {}).items())


def _field(have: Any, want: Any) -> bool:
    if isinstance(want, dict) and any(key.startswith("$") for key in want):
        return all(_compared(have, operator, operand) for operator, operand in want.items())
    if isinstance(want, dict):
        return isinstance(have, dict) and all(_field(have.get(key), part) for key, part in want.items())
    if isinstance(want, list | tuple):
        return isinstance(have, list) and len(have) == len(want) and all(map(_field, have, want))
    return bool(have == want)


def _compared(have: Any, operator: str, operand: Any) -> bool:
    if operator == "$eq":
        return bool(have == operand)
    if operator == "$ne":
        return bool(have != operand)
    if operator not in _COMPARE:
        raise InvalidInput(f"filter: expected $eq, $ne, {', '.join(_COMPARE)}, got {operator!r}")
    compare: Callable[[Any, Any], Any] = _COMPARE[operator]
    try:
        return bool(compare(float(have), float(operand)))  # as the reference does: "10" is above 9
    except (TypeError, ValueError, OverflowError):
        pass
    try:
        return bool(compare(have, operand))
    except TypeError:  # a missing field, or one of another type, is neither above nor below
        return False


def fits(namespace: tuple[str, ...], conditions: Sequence[MatchCondition] | None) -> bool:
    """Whether a namespace begins or ends as every condition says; ``*`` stands for any one element."""
    return all(_one_fits(namespace, condition) for condition in conditions or ())


def _one_fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    if len(namespace) < len(condition.path):
        return False
    length = len(condition.path)
    part = namespace[:length] if condition.match_type == "prefix" else namespace[len(namespace) - length :]
    return all(want in ("*", have) for have, want in zip(part, condition.path, strict=True))


def text(value: Mapping[str, Any], paths: Sequence[str], *, most_bytes: int) -> str:
    """What an item says at these paths, one a line; "$" is the whole value. "" if it says nothing.

    It is only searched, never shown: what a search cannot take (half a character, text beyond ``most_bytes`` in UTF-8)
    is left out of it, and must not keep the item from being stored.
    """
    found = [text for path in paths for text in get_text_at_path(value, path if path == "$" else tokenize_path(path))]
    said = "\n".join(text for text in found if isinstance(text, str) and text.strip())
    return said.encode("utf-8", "replace")[:most_bytes].decode("utf-8", "ignore").strip()
