"""``memory.tools``: results of tools and of intermediate computations, paid for once and never stale.

Here is what the user may say: which tools there are, what is called, what is invalidated. A call then goes
through ``known_tools.py`` (which call it is) and ``tool_calls.py``. Keys are made in ``keys.py``, policies read in
``tools.py``, results kept in ``tool_entries.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Unpack, overload

from shared_core import arguments
from shared_core.errors import InvalidInput, open_again
from shared_core.mid_term import tools
from shared_core.mid_term.invalidation import Kind
from shared_core.mid_term.known_tools import KnownTools
from shared_core.mid_term.tool_calls import Prepared, ToolCalls
from shared_core.mid_term.tool_counts import ToolCounts
from shared_core.mid_term.tool_entries import ToolEntries
from shared_core.mid_term.tool_entry import Call
from shared_core.mid_term.tools import Policy, Registered, Resources
from shared_core.settings import Settings
from shared_core.storage.base import Blobs

F = TypeVar("F", bound=Callable[..., Any])


class ToolCache:
    """A cache of tool results under exact keys. Only registered tools are cached.

    ``scope_of`` turns a scope or None into the scope to use and raises ScopeRequired. ``blobs`` None keeps
    everything in memory; with it, results that typed JSON can carry are also written there, and every
    process with the same ``blobs`` sees them and each other's invalidations. ``policy`` names the eviction
    policy: ``"attention_lru"`` (the rule, with aged access frequency for a prior), ``"lfu"`` or ``"lru"``.
    A storage that fails makes the cache slower, never wrong: ``stats()["storage_errors"]``.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Callable[[], float],
        blobs: Blobs | None,
        scope_of: Callable[[str | None], str],
        policy: str = "attention_lru",
    ) -> None:
        self._scope_of = scope_of
        self._entries = ToolEntries(settings=settings, clock=clock, blobs=blobs, policy=policy)
        self._counts = ToolCounts()
        self._known = KnownTools(scope_of, self._counts)
        self._calls = ToolCalls(self._entries, self._counts, patience=settings.wait_seconds)

    def register(
        self,
        name: str,
        *,
        cacheable: bool = True,
        ttl: float | None = 600.0,
        reads: Resources = None,
        writes: Resources = None,
        key: Callable[[dict[str, Any]], Any] | None = None,
        space: str | None = None,
        version: str = "",
        max_entry_bytes: int | None = None,
        rewinds: bool = False,
        copy: bool = True,
    ) -> None:
        """Say how a tool is cached. Registering a name again replaces what was said.

        ``reads`` and ``writes``: the name of an argument, a list of names, or a function of the arguments
        dict that returns resource strings. A resource is matched across the tools of a space by its text;
        one that is also a path (or ``"file:" + path``) is watched as a file or directory, a directory by its own
        entries: a tool that looks deeper needs a function that names what it looks at. A tool with
        ``writes`` is always executed and invalidates what it declares; ``writes=[]`` with
        ``cacheable=False`` writes nothing and invalidates nothing; ``writes=None`` with ``cacheable=False``
        may write anything and invalidates its space. ``ttl`` in seconds: 0 stores nothing, None never
        expires. ``key`` computes what stands for the arguments in the key. ``space`` is shared by all scopes
        for invalidation, never for values. ``version`` changes when the tool's answers do.
        ``max_entry_bytes`` refuses larger results. ``rewinds``: the application itself restores what the tool
        reads, so its results go when the conversation is rewound. ``copy=False`` hands out the very object
        that was returned: for results nobody changes. Raises InvalidInput.
        """
        policy = Policy(
            cacheable=cacheable, ttl=ttl, reads=reads, writes=writes, key=key, space=space, version=version,
            max_entry_bytes=max_entry_bytes, rewinds=rewinds, copy=copy,
        )  # fmt: skip
        self._known.register(arguments.name("name", name), policy)

    def policy(self, name: str) -> Policy | None:
        """What was said about a tool, or None if nobody registered it."""
        return self._known.policy(name)

    # Calling

    def call(
        self,
        name: str,
        args: Mapping[str, Any],
        fn: Callable[..., Any],
        *,
        scope: str | None = None,
        form: str = "",
        readable: Callable[[Any], bool] | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> Any:
        """The kept result of this call, or that of ``fn(**args)``, which is then kept.

        What ``fn`` raises is raised and never kept. ``fn`` may return ``Uncached(value)`` to hand a value out
        without keeping it, ``Uncached(value, alone=True)`` to share it with no call that waits, either. ``form`` names the shape in which ``fn`` returns results, for callers that dress
        them up: results in different forms stand beside each other and are invalidated together. ``readable``
        says whether a kept result has that shape: one that has not (a damaged row) is a miss and a counted event.
        ``defaults``: those of the function that ``fn`` stands for, where its own signature does not show them.
        """
        if tools.is_async(fn):
            raise InvalidInput(
                f"tools.call: expected a plain function for {name!r}, got a coroutine function; use acall"
            )
        filled = tools.defaults(fn) if defaults is None else tuple(defaults.items())
        prepared = self._known.prepare(name, args, filled, scope, form=form, readable=readable)
        return self._calls.run(*prepared, lambda: fn(**args))

    async def acall(
        self,
        name: str,
        args: Mapping[str, Any],
        fn: Callable[..., Any],
        *,
        scope: str | None = None,
        form: str = "",
        readable: Callable[[Any], bool] | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> Any:
        """``call`` without blocking the loop: ``fn`` is a coroutine function, or a plain one for a thread."""
        filled = tools.defaults(fn) if defaults is None else tuple(defaults.items())
        prepared = self._known.prepare(name, args, filled, scope, form=form, readable=readable)
        return await self._calls.arun(*prepared, lambda: fn(**args), hop=not tools.gives_awaitable(fn))

    @overload
    def wrap(
        self, fn: F, *, name: str | None = None, scope: str | None = None, **register: Unpack[Registered]
    ) -> F: ...

    @overload
    def wrap(
        self, fn: None = None, *, name: str | None = None, scope: str | None = None, **register: Unpack[Registered]
    ) -> Callable[[F], F]: ...

    def wrap(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        scope: str | None = None,
        **register: Unpack[Registered],
    ) -> Any:
        """The function with its results cached, registered under ``name`` (its own name if None).

        Also a decorator, bare or with keywords: ``@memory.tools.wrap(ttl=5)``. ``register`` takes the keywords of
        ``register``; a ``reads`` or ``writes`` that names no parameter of the function is refused. Positional,
        keyword and default arguments make one key. Without an explicit ``name``, two functions never share results
        even if they are called alike, and those that no other process could recognise (closures, methods, callable
        objects) are kept in memory only. An argument that a framework fills in (state, store, runtime) is one like any
        other and makes each call another: ``key=lambda args: args["city"]`` says what counts, and the ``cached_tools`` of
        the adapters know such arguments. After the memory was closed it is the function itself, uncached.
        """
        if fn is None:
            return lambda given: self.wrap(given, name=name, scope=scope, **register)
        _expect_function("wrap", fn)
        called = arguments.name("name", name if name is not None else tools.name_of(fn))
        return self._registered(fn, called, tools.of_function(fn, register, named=name is not None), scope)

    @overload
    def memoize(self, fn: F, *, scope: str | None = None, **register: Unpack[Registered]) -> F: ...

    @overload
    def memoize(
        self, fn: None = None, *, scope: str | None = None, **register: Unpack[Registered]
    ) -> Callable[[F], F]: ...

    def memoize(
        self, fn: Callable[..., Any] | None = None, *, scope: str | None = None, **register: Unpack[Registered]
    ) -> Any:
        """``wrap`` for intermediate computations (embeddings, retrieval, summaries): named by module and function."""
        if fn is None:
            return lambda given: self.memoize(given, scope=scope, **register)
        _expect_function("memoize", fn)
        called = f"{getattr(fn, '__module__', type(fn).__module__)}.{getattr(fn, '__qualname__', tools.name_of(fn))}"
        return self._registered(fn, called, tools.of_function(fn, register, named=False), scope)

    def _registered(self, fn: F, name: str, policy: Policy, scope: str | None) -> F:
        signature, defaults = tools.signature(fn), tools.defaults(fn)
        self._known.wrapped(name, policy, defaults)

        def prepared(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Prepared, Call | None]:
            bound = tools.bind(signature, args, kwargs)
            return self._known.prepare(name, bound, defaults, scope, policy)

        if tools.is_async(fn):

            @functools.wraps(fn)
            async def acached(*args: Any, **kwargs: Any) -> Any:
                return await self._calls.arun(*prepared(args, kwargs), lambda: fn(*args, **kwargs), hop=False)

            return acached  # type: ignore[return-value]

        @functools.wraps(fn)
        def cached(*args: Any, **kwargs: Any) -> Any:
            return self._calls.run(*prepared(args, kwargs), lambda: fn(*args, **kwargs))

        return cached  # type: ignore[return-value]

    # Closing

    def close(self) -> None:
        """From now on every tool is executed, and nothing is kept or invalidated."""
        self._calls.close()
        if self._entries.rows is not None:
            self._entries.rows.close()

    __reduce__ = open_again

    # Events

    def invalidate(self, name: str, args: Mapping[str, Any], *, scope: str | None = None) -> int:
        """Forget the result of one call, in one scope or (None) in all; how many entries that were.

        ``args`` as the call had them, with or without the defaults of its function: those are known where any process
        kept a result of it. A tool with ``key=`` has to be registered so here, too, and to be given complete arguments
        or to be wrapped or called here before.
        """
        return self._forget("call", self._known.calls(name, args, self._entries.others.defaults(name)), scope)

    def invalidate_prefix(self, name: str, *, scope: str | None = None) -> int:
        """Forget the results of every tool whose name starts so, in one scope or in all."""
        if not isinstance(name, str):
            raise InvalidInput(f"invalidate_prefix: expected the start of a tool's name, got {name!r}")
        return self._forget("tool", sorted(self._entries.tools(name)), scope)

    def invalidate_resource(self, resource: str, *, scope: str | None = None) -> int:
        """Forget what was read from a resource, in one scope or in all, in every space."""
        return self._forget("resource", [arguments.name("resource", resource)], scope)

    def rewound(self, scope: str | None = None) -> int:
        """A conversation of the scope was rewound: forget the results of tools registered with ``rewinds``."""
        return self._forget("tool", sorted(self._known.rewinding), self._scope_of(scope))

    def clear_scope(self, scope: str) -> int:
        """Forget every result of a scope, here and in the rows, and what it asked for."""
        self._counts.clear_scope(scope)
        count = self.invalidate_prefix("", scope=scope)
        return max(count, self._entries.rows.clear(scope)) if self._entries.rows is not None else count

    def _forget(self, kind: Kind, texts: list[str], scope: str | None) -> int:
        """Counts entries in memory or rows, whichever is more: most rows have an entry and most entries a row."""
        if scope is not None:
            arguments.scope("scope", scope)
        here = self._entries.end(kind, texts, scope=scope)
        return max(here, self._entries.others.end(kind, texts, scope=scope))

    @property
    def evictions(self) -> int:
        """Entries that had to go for want of room: one of ``stats``'s numbers, without the cost of the others."""
        return int(self._entries.stats()["evictions"])

    def stats(self) -> dict[str, Any]:
        """Counters since the start, and what is held now.

        ``hits`` (of them ``joined``: served by a call under way), ``misses`` by cause, ``bypassed``
        (executions of tools that are never kept) and ``bypassed_tools`` (how many of each name), ``after_close``
        (executions since the memory was closed), ``entries``, ``bytes``, ``evictions``, ``seconds_saved``,
        ``storage_errors``, ``given_up`` (executions that took longer than ``Settings.wait_seconds``: another was begun
        beside them), and ``repeats``: the calls made most often, for an agent that runs in circles.
        """
        return {**self._entries.stats(), **self._counts.stats(), "given_up": self._calls.given_up}


def _expect_function(what: str, fn: object) -> None:
    if not callable(fn):
        raise InvalidInput(f"tools.{what}: expected a function, got {fn!r}; write tools.{what}(get_weather, ttl=60)")
