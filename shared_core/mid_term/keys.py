"""What makes two calls the same call: canonical arguments and the hash over them. No state, no cache.

Arguments are compared by type and value. ``1``, ``1.0``, ``True``, ``"1"``, ``b"1"`` and None are six
different arguments; a list and a tuple differ (a function can tell them apart); ``0.0`` and ``-0.0``
differ for the same reason. Dict entries and set members have no order, lists have. Enums, dataclasses,
pydantic models and numpy arrays count by the name of their type and what they hold. NaN is not equal to
itself, and an object that shows nothing but its address, or holds more than it shows (a masked array's mask,
a defaultdict's factory), cannot be compared: these raise InvalidInput, and the call is executed without the
cache. Nothing depends on ``hash()``, so keys agree between processes.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

import numpy as np

from shared_core.errors import InvalidInput
from shared_core.storage import codec

_PLAIN: Final = (str, int, float, bytes, dict, list, tuple)
_HOLDING: Final = (*_PLAIN, bytearray, complex, set, frozenset)


def digest(*parts: str) -> str:
    """64 hex digits of SHA-256 over the parts, each preceded by its length: no two lists of parts run together."""
    hashed = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        hashed.update(len(raw).to_bytes(8, "big"))
        hashed.update(raw)
    return hashed.hexdigest()


def canonical(value: Any) -> str:
    """One text for all values that are the same argument. InvalidInput if the value cannot be compared."""
    return codec.dumps(codec.pack(value, canonical=True, other=_by_type))


def _by_type(value: Any, again: Callable[[Any], Any]) -> Any:
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, Enum):
        return {"$enum": [name, value.name if value.name is not None else again(value.value)]}
    if kind is np.ndarray or isinstance(value, np.generic):
        return {"$numpy": _array(value, name)}
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, *_HOLDING)):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {"$object": [name, again({**getattr(value, "__dict__", {}), **fields})]}
    if hasattr(kind, "model_fields") and hasattr(kind, "model_dump"):  # pydantic, without importing it
        parts = [vars(value), getattr(value, "__pydantic_extra__", None), getattr(value, "__pydantic_private__", None)]
        return {"$object": [name, *(again(dict(part)) for part in parts if part)]}
    plain: Any
    for plain in _PLAIN:  # subclasses count by their type and their content
        if isinstance(value, plain):
            slots = any(vars(base).get("__slots__") for base in kind.__mro__)
            if getattr(value, "__dict__", None) or slots or isinstance(value, defaultdict):
                break  # it carries more than its base shows
            return {"$sub": [name, again(plain(value))]}
    raise InvalidInput(
        f"expected arguments that can be compared by value, got a {name}; "
        "register the tool with key=, a function of the arguments"
    )


def _array(value: np.ndarray[Any, Any] | np.generic, name: str) -> list[Any]:
    array = np.asarray(value)
    if array.dtype.hasobject or array.dtype.names is not None:
        raise InvalidInput(f"expected an array of numbers or text, got one of {array.dtype}")
    if array.dtype.kind in "fcmM" and bool(
        np.isnat(array).any() if array.dtype.kind in "mM" else np.isnan(array).any()
    ):
        raise InvalidInput("expected an array equal to itself, got one with NaN")
    content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return [name, array.dtype.str, list(array.shape), content]


def arguments_key(args: Mapping[str, Any], key: Callable[[dict[str, Any]], Any] | None = None) -> str:
    """The canonical text of a call's arguments, or of what an explicit ``key`` function makes of them."""
    return canonical(dict(args)) if key is None else "key:" + canonical(key(dict(args)))


def argument_digests(args: Mapping[str, Any]) -> dict[str, str]:
    """What tells each argument's value from others, short and without the value. InvalidInput as ``canonical``."""
    return {name: digest(canonical(value))[:32] for name, value in args.items()}


def call_name(tool: str, digests: Mapping[str, str]) -> str:
    """The name of the call with these arguments, for events: whoever knows the digests of a tool's defaults can make it."""
    return digest(tool, *(part for name in sorted(digests) for part in (name, digests[name])))
