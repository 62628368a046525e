"""Values as typed JSON: what goes in comes out equal and of the same type. No pickle, no classes by name, no I/O.

Plain JSON values stand for themselves. Anything else is an object with one key that starts with ``$``:
``{"$tuple": […]}``, ``{"$bytes": "base64"}`` and so on. Types are compared exactly: a subclass of ``dict``
or ``str`` would come back as something else, so it is refused.
"""

from __future__ import annotations

import base64
import cmath
import json
import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from shared_core.errors import InvalidInput, StorageError

MAX_DEPTH: Final = 100
_PATH = type(Path())
_ZONES = (timezone, ZoneInfo)


def encode(value: Any) -> bytes:
    """ASCII bytes without a line break. InvalidInput for what would not come back equal."""
    return dumps(pack(value)).encode("ascii")


def decode(raw: bytes) -> Any:
    """The value; StorageError for bytes that ``encode`` did not write. Nothing in them is ever executed."""
    try:
        return json.loads(raw, object_hook=_unpack)
    except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError, OSError) as error:
        raise StorageError(f"a stored value cannot be read: {error}") from error


def dumps(packed: Any) -> str:
    """The one JSON text of a packed value. Lone surrogates are escaped and survive."""
    try:
        return json.dumps(packed, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except ValueError as error:  # an integer of more digits than Python converts
        raise InvalidInput(f"expected a value that JSON can carry: {error}") from error


def pack(
    value: Any, *, canonical: bool = False, other: Callable[[Any, Callable[[Any], Any]], Any] | None = None
) -> Any:
    """The value as JSON types. ``canonical`` sorts dict entries and refuses NaN.

    ``other(value, again)`` packs types that are not known here (``again`` packs a part); without it they
    are refused. Sets are always ordered by the text of their members.
    """

    def walk(value: Any, depth: int) -> Any:
        kind = type(value)
        if value is None or kind is bool or kind is int or kind is str:
            return value
        if kind is float:
            if canonical and math.isnan(value):
                raise InvalidInput("expected a value equal to itself, got NaN")
            return value if math.isfinite(value) else {"$float": str(value)}
        if depth >= MAX_DEPTH:
            raise InvalidInput(f"expected at most {MAX_DEPTH} levels of nesting, got more (or a cycle)")
        depth += 1
        if kind is list:
            return [walk(item, depth) for item in value]
        if kind is dict:
            return _pack_dict(value, canonical, lambda item: walk(item, depth))
        if kind is tuple:
            return {"$tuple": [walk(item, depth) for item in value]}
        if kind is set or kind is frozenset:
            return {f"${kind.__name__}": sorted((walk(item, depth) for item in value), key=dumps)}
        if kind is bytes or kind is bytearray:
            return {f"${kind.__name__}": base64.b64encode(value).decode("ascii")}
        if canonical and ((kind is Decimal and value.is_nan()) or (kind is complex and cmath.isnan(value))):
            raise InvalidInput(f"expected a value equal to itself, got {value!r}")
        plain = _pack_scalar(value)
        if plain is not None:
            return plain
        if other is not None:
            return other(value, lambda part: walk(part, depth))
        raise InvalidInput(f"expected a value of a plain type, got {kind.__module__}.{kind.__qualname__}")

    return walk(value, 0)


def _pack_dict(value: dict[Any, Any], canonical: bool, walk: Callable[[Any], Any]) -> Any:
    if all(type(key) is str for key in value) and not (len(value) == 1 and next(iter(value)).startswith("$")):
        keys = sorted(value) if canonical else value
        return {key: walk(value[key]) for key in keys}
    pairs = [[walk(key), walk(item)] for key, item in value.items()]
    return {"$dict": sorted(pairs, key=lambda pair: dumps(pair[0])) if canonical else pairs}


def _pack_scalar(value: Any) -> Any:
    kind = type(value)
    if kind is datetime or kind is time:
        zone = value.tzinfo
        if zone is not None and (type(zone) not in _ZONES or (type(zone) is ZoneInfo and zone.key is None)):
            raise InvalidInput(f"expected a time in a timezone or ZoneInfo, got {zone!r}")
        named = zone.key if isinstance(zone, ZoneInfo) else None
        bare = value.replace(tzinfo=None, fold=0) if named else value.replace(fold=0)
        return {f"${kind.__name__}": [bare.isoformat(), value.fold, named]}
    if kind is date:
        return {"$date": value.isoformat()}
    if kind is timedelta:
        return {"$timedelta": [value.days, value.seconds, value.microseconds]}
    if kind is Decimal or kind is UUID:
        return {f"${kind.__name__}": str(value)}
    if kind is complex:
        return {"$complex": [repr(value.real), repr(value.imag)]}
    if kind is _PATH:
        return {"$Path": str(value)}
    if isinstance(value, PurePath):
        raise InvalidInput(f"expected a path of this system, got {value!r}")
    return None


def _clock_time(kind: type[datetime | time]) -> Callable[[Any], Any]:
    def build(parts: Any) -> Any:
        text, fold, named = parts
        made = kind.fromisoformat(text)
        return made.replace(fold=fold, tzinfo=ZoneInfo(named) if named else made.tzinfo)

    return build


_BUILD: Final[dict[str, Callable[[Any], Any]]] = {
    "$float": float,
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$bytearray": lambda text: bytearray(base64.b64decode(text, validate=True)),
    "$dict": dict,
    "$datetime": _clock_time(datetime),
    "$time": _clock_time(time),
    "$date": date.fromisoformat,
    "$timedelta": lambda parts: timedelta(*parts),
    "$Decimal": Decimal,
    "$UUID": UUID,
    "$complex": lambda parts: complex(float(parts[0]), float(parts[1])),
    "$Path": Path,
}


def _unpack(found: dict[str, Any]) -> Any:
    if len(found) == 1:
        ((tag, inner),) = found.items()
        if tag.startswith("$"):
            return _BUILD[tag](inner)
    return found
