"""How a value is kept so that nobody can change it: as itself, as typed JSON, or as a deep copy. No cache here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from shared_core.errors import InvalidInput
from shared_core.eviction.values import IMMUTABLE, copy_value, deep_size
from shared_core.storage import codec


@dataclass(frozen=True, slots=True)
class Uncached:
    """Return ``Uncached(value)`` from a cached function to hand the value out without keeping it.

    Equal calls that came meanwhile share it, unless it is one caller's ``alone``: then each executes by itself.
    """

    value: Any
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Frozen:
    """A kept value: ``size`` in bytes of memory. ``given`` is the caller's own object, kept on request."""

    kind: Literal["atom", "json", "copy", "given"]
    body: Any
    size: int

    def thaw(self) -> Any:
        """The value, or a copy of it that is the receiver's own. Raises what copying raises."""
        if self.kind == "json":
            return codec.decode(self.body)
        return copy_value(self.body) if self.kind == "copy" else self.body

    def raw(self) -> bytes | None:
        """Bytes for a stored row, or None if the value can live in memory only."""
        if self.kind == "json":
            return bytes(self.body)
        if self.kind != "atom":
            return None
        try:
            return codec.encode(self.body)
        except InvalidInput:
            return None


def freeze(value: Any, *, copy: bool = True) -> Frozen:
    """Keep a value. InvalidInput if it can be neither written as typed JSON nor copied."""
    if type(value) in IMMUTABLE:
        return Frozen("atom", value, sys.getsizeof(value))
    if not copy:
        return Frozen("given", value, deep_size(value))
    with suppress(Exception):  # no plain value, or one that another thread is changing
        return thawable(codec.encode(value))
    try:
        kept = copy_value(value)
        return Frozen("copy", kept, deep_size(kept))
    except Exception as error:  # the value's own code runs here
        raise InvalidInput(f"expected a value that can be copied, got {type(value).__name__}: {error}") from error


def thawable(raw: bytes) -> Frozen:
    """A kept value from the bytes of ``Frozen.raw``."""
    return Frozen("json", raw, sys.getsizeof(raw))


def failed(value: Any) -> bool:
    """Whether a result says itself that it is an error: ``is_error``/``isError`` true, or ``status`` "error"."""
    try:
        is_error, also, status = (
            value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
            for name in ("is_error", "isError", "status")
        )
    except Exception:  # noqa: BLE001  the value's own code runs here; what cannot be asked is not kept
        return True
    return is_error is True or also is True or (isinstance(status, str) and status == "error")
