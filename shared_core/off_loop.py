"""The async twin of a method: the same procedure and signature, one thread hop away. No procedure lives here."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def off_loop(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """The coroutine function that runs a method in a thread.

    ``aget = off_loop(get)`` stands in a class; what runs is the object's own ``get``, a subclass's too.
    """
    name = method.__name__

    @functools.wraps(method)
    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        found: R = await asyncio.to_thread(getattr(self, name), *args, **kwargs)
        return found

    twin.__name__ = f"a{name}"
    twin.__qualname__ = f"{method.__qualname__.removesuffix(name)}a{name}"
    twin.__doc__ = f"``{name}`` off the event loop."
    return twin
