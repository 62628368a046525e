"""What arguments must look like: each function returns a clean copy of a value or raises InvalidInput.

The message says what was expected, what came, and what to type instead. No defaults and no rules here.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from numbers import Integral, Real
from typing import Any, TypeVar
from uuid import UUID

from shared_core.errors import InvalidInput
from shared_core.records import Hit, Memory
from shared_core.text import SURROGATES

Function = TypeVar("Function")
_YEAR_1, _YEAR_10000 = -62_135_596_800.0, 253_402_300_800.0  # what a calendar can show, epoch seconds UTC
_INNER = "\x1f"  # "unit separator": between a scope and the name of a part of it
_FOREIGN_ROLES = {"human": "user", "ai": "assistant"}


def name(what: str, value: object) -> str:
    """A non-empty string that UTF-8 can carry (a scope, a session, an id, a tag), kept code point by code point."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what}: expected a non-empty string, got {type(value).__name__}{part(value, 'id')}")
    if not value:
        raise InvalidInput(f"{what}: expected a non-empty string, got ''")
    return _encodable(what, value)


def optional_name(what: str, value: object) -> str | None:
    """``name``, or None for None."""
    return None if value is None else name(what, value)


class InnerScope(str):
    """The scope of what an adapter keeps beside a user's own memories. Made by ``inner_scope`` alone."""

    __slots__ = ()


def scope(what: str, value: object) -> str:
    """``name``, and no name that could be an inner scope's: whose memory it is often comes from outside."""
    found = name(what, value)
    if _INNER in found and not isinstance(found, InnerScope):
        raise InvalidInput(
            f"{what}: expected a string without the separator U+001F, got {found!r:.80}; "
            f"replace it, for instance with {what}.replace('\\x1f', '')"
        )
    return found


def optional_scope(what: str, value: object) -> str | None:
    """``scope``, or None for None."""
    return None if value is None else scope(what, value)


def inner_scope(outer: str, part: str) -> InnerScope:
    """The scope named ``part`` within another one: no name that a user can give is equal to it."""
    return InnerScope(f"{within(outer)}{part}")


def within(outer: str) -> str:
    """What the name of every inner scope of ``outer`` begins with, and no other's."""
    return f"{outer}{_INNER}"


def text(what: str, value: object, *, max_bytes: int) -> str:
    """Text worth storing: not blank, encodable, at most ``max_bytes`` long in UTF-8."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what}: expected a string, got {type(value).__name__}{part(value, 'text', 'content')}")
    if not value.strip():
        raise InvalidInput(f"{what}: expected text, got {'white space only' if value else 'an empty string'}")
    _encodable(what, value)
    if len(value) * 4 > max_bytes and len(value.encode()) > max_bytes:
        raise InvalidInput(
            f"{what}: expected at most {max_bytes} bytes, got {len(value.encode())}; "
            "split it, or open the memory with Settings(max_text_bytes=…)"
        )
    return value


def names(what: str, values: object) -> tuple[str, ...]:
    """Strings without repeats, in order; a single string is refused, since it would be read letter by letter."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidInput(f"{what}: expected a list of strings, got {values!r}; write [{values!r}] for one")
    return tuple(dict.fromkeys(name(what, value) for value in values))


def ids(what: str, values: object) -> list[str]:
    """One id or several, repeats and order kept."""
    if isinstance(values, str):
        return [name(what, values)]
    if isinstance(values, Memory | Hit) or not isinstance(values, Iterable):
        raise InvalidInput(f"{what}: expected an id or a list of ids, got {type(values).__name__}{part(values, 'id')}")
    return [name(what, value) for value in values]


def role(what: str, value: object) -> str:
    """Who said it, as the providers write it: "user", "assistant" or another name."""
    found = name(what, value)
    if found in _FOREIGN_ROLES:
        raise InvalidInput(
            f"{what}: expected 'user', 'assistant' or another role, got {found!r}; write {_FOREIGN_ROLES[found]!r}"
        )
    return found


def flag(what: str, value: object) -> bool:
    """True or False and nothing that only counts as it."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{what}: expected True or False, got {value!r}; write bool(…) around it")
    return value


def count(what: str, value: object) -> int:
    """An int that is not negative."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        hint = f"; write int({what})" if isinstance(value, float | str | Real) else ""
        raise InvalidInput(f"{what}: expected a whole number, got {value!r}{hint}")
    if value < 0:
        raise InvalidInput(f"{what}: expected 0 or more, got {value}")
    return int(value)


def optional_count(what: str, value: object) -> int | None:
    """``count``, or None for None."""
    return None if value is None else count(what, value)


def unit(what: str, value: object) -> float:
    """A finite number in [0, 1]."""
    if not 0.0 <= _number(value) <= 1.0:
        raise InvalidInput(f"{what}: expected a number from 0 to 1, got {value!r}")
    return _number(value)


def instant(what: str, value: object) -> float:
    """Epoch seconds UTC of the years 1 to 9999, from a number or an aware datetime; a naive datetime is refused."""
    if isinstance(value, datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            raise InvalidInput(
                f"{what}: expected an aware datetime or epoch seconds, got the naive {value!r}; "
                "write value.replace(tzinfo=timezone.utc), or the zone it was taken in"
            )
        return value.timestamp()
    seconds = _number(value)
    if not math.isfinite(seconds):
        raise InvalidInput(f"{what}: expected epoch seconds or an aware datetime, got {value!r}{_moment(value)}")
    if not _YEAR_1 <= seconds < _YEAR_10000:
        raise InvalidInput(
            f"{what}: expected epoch seconds of the years 1 to 9999, got {value!r}; seconds, not milliseconds? "
            f"write {what}=value / 1000"
        )
    return seconds


def reading(seconds: float) -> float:
    """What a clock said, as an instant that can be stored: the first or last second of the calendar beyond it.

    A clock may be wrong, and that is no reason to fail; one that says NaN stands at 0.
    """
    if math.isnan(seconds):
        return 0.0
    return min(max(seconds, _YEAR_1), _YEAR_10000 - 1.0)


def optional_instant(what: str, value: object) -> float | None:
    """``instant``, or None for None."""
    return None if value is None else instant(what, value)


def ttl(what: str, value: object) -> float | None:
    """Seconds to live: 0 means do not store, None no expiry; negative, NaN or infinite is refused."""
    if value is None:
        return None
    if not 0.0 <= _number(value) < math.inf:
        hint = "; write value.total_seconds()" if isinstance(value, timedelta) else ""
        raise InvalidInput(f"{what}: expected seconds, 0 (do not store) or None (no expiry), got {value!r}{hint}")
    return _number(value)


def plain(what: str, value: Mapping[str, Any] | None) -> dict[str, Any]:
    """A deep copy of a dict that JSON can carry."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidInput(f"{what}: expected a dict with string keys, got {value!r}")
    try:
        copy: dict[str, Any] = json.loads(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what}: expected values that JSON can carry, got {error}; convert them first") from error
    return copy


def optional_function(what: str, value: Function | None) -> Function | None:
    """Something that can be called and answers at once, or None."""
    if value is not None and not callable(value):
        raise InvalidInput(f"{what}: expected a function or None, got {value!r:.80}")
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(getattr(value, "__call__", None)):  # noqa: B004
        raise InvalidInput(f"{what}: expected a plain function, got a coroutine function, whose answer is always true")
    return value


def part(value: object, *attributes: str) -> str:
    """What to write instead of an object that carries the string that was asked for, or of a number that names it."""
    if isinstance(value, int | UUID) and not isinstance(value, bool):
        return "; write str(…) around it"
    if isinstance(value, Hit):
        return f"; write .memory.{attributes[0]}"
    found = next((name for name in attributes if isinstance(getattr(value, name, None), str)), None)
    return f"; write .{found}" if found else ""


def _moment(value: object) -> str:
    if isinstance(value, str):
        return "; write datetime.fromisoformat(value), with its zone"
    if isinstance(value, date):
        return "; write datetime(value.year, value.month, value.day, tzinfo=timezone.utc)"
    return ""


def _number(value: object) -> float:
    """The value as a float, a numpy number too; NaN, which no bound holds, for what is no number that a float carries."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _encodable(what: str, value: str) -> str:
    found = SURROGATES.search(value)
    if found:
        raise InvalidInput(
            f"{what}: expected text that UTF-8 can carry, got a lone surrogate at index {found.start()}; "
            "replace it, for instance with value.encode('utf-8', 'replace').decode()"
        )
    return value
