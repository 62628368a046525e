"""What a cached value costs and how it is copied: the defaults of ``getsizeof=`` and ``copy=``."""

from __future__ import annotations

import copy
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import BuiltinFunctionType, FunctionType, ModuleType, NoneType
from typing import Any, Final

import numpy as np

from shared_core.records import MISS

IMMUTABLE: Final = frozenset(
    {NoneType, bool, int, float, complex, str, bytes, Decimal, date, datetime, time, timedelta, type(MISS)}
)
"""Exact types of which one object may serve everybody: nothing can change it (subclasses may)."""

_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType)


def copy_value(value: Any) -> Any:
    """A copy that shares nothing changeable with the original (``copy.deepcopy``, quicker for flat values)."""
    kind = type(value)
    if kind in IMMUTABLE:
        return value
    if kind is tuple and _flat(value):
        return value
    if (kind is list and _flat(value)) or (kind is dict and _flat(value) and _flat(value.values())):
        return value.copy()
    return copy.deepcopy(value)


def _flat(items: Iterable[Any]) -> bool:
    return IMMUTABLE.issuperset(map(type, items))


def deep_size(value: Any) -> int:
    """Bytes a value holds in memory with all it contains, each object once; cycles are fine.

    Looks into mappings, lists, tuples, sets, deques, instance attributes and slots, and counts the
    buffer of a numpy array even through a view. Classes, functions and modules are not the value's own.
    """
    kind = type(value)
    if kind in IMMUTABLE:
        return sys.getsizeof(value)
    if (kind is tuple or kind is list) and _flat(value):
        return sys.getsizeof(value) + sum(map(sys.getsizeof, {id(item): item for item in value}.values()))
    total, waiting = 0, [value]
    seen: dict[int, Any] = {}  # holds the objects too: an id is only unique while its object lives
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen[id(item)] = item
        total += sys.getsizeof(item, 0)
        kind = type(item)
        if kind in IMMUTABLE or isinstance(item, _SHARED):
            continue
        if isinstance(item, np.ndarray):
            total += item.nbytes if item.base is not None else 0
            if item.dtype.hasobject:
                waiting.extend(item.ravel().tolist())
        elif isinstance(item, Mapping):
            waiting.extend(item.keys())
            waiting.extend(item.values())
        elif isinstance(item, list | tuple | set | frozenset | deque):
            waiting.extend(item)
        if hasattr(item, "__dict__"):
            waiting.append(vars(item))
        for owner in kind.__mro__:
            slots = owner.__dict__.get("__slots__", ())
            names = (slots,) if isinstance(slots, str) else slots
            waiting.extend(getattr(item, name) for name in names if hasattr(item, name))
    return total
