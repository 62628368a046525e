"""Work beside the event loop, and what may be awaited or not. No flights and no caches."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(fn: Callable[..., T], *args: Any) -> T:
    """Run ``fn(*args)`` in a fresh thread, for work a leader must get done whatever the loop's pool is busy with."""
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()

    def work() -> None:
        try:
            done.set_result(fn(*args))
        except StopIteration as error:  # no future carries one: whoever awaits it would wait for ever
            done.set_exception(
                RuntimeError("a function of a coroutine raised StopIteration").with_traceback(error.__traceback__)
            )
        except BaseException as error:  # noqa: BLE001  carried to the awaiting task
            done.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), name="tiered-memory-store").start()
    return await asyncio.wrap_future(done)


async def awaited(value: Any) -> Any:
    """The value, or what it gives if it is to be awaited: a plain function may have given a coroutine."""
    return await value if inspect.isawaitable(value) else value
