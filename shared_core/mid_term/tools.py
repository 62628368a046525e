"""What is known about a tool: its policy, its name, its parameters, and the resources of one call. No cache here."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, Literal, TypedDict

from shared_core import arguments
from shared_core.errors import InvalidInput
from shared_core.mid_term.keys import canonical

Resources = str | Iterable[str] | Callable[[dict[str, Any]], Any] | None
_unnamed = itertools.count(1)


class Registered(TypedDict, total=False):
    """The keywords of ``ToolCache.register`` for the type of ``wrap``; what they mean stands there."""

    cacheable: bool
    ttl: float | None
    reads: Resources
    writes: Resources
    key: Callable[[dict[str, Any]], Any] | None
    space: str | None
    version: str
    max_entry_bytes: int | None
    rewinds: bool
    copy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How one tool is cached; see ``ToolCache.register``. ``identity`` tells apart functions of one name.

    ``stored`` is False for a function that no other process could recognise: its results stay in memory.
    """

    cacheable: bool = True
    ttl: float | None = 600.0
    reads: Resources = None
    writes: Resources = None
    key: Callable[[dict[str, Any]], Any] | None = None
    space: str | None = None
    version: str = ""
    max_entry_bytes: int | None = None
    rewinds: bool = False
    copy: bool = True
    identity: str = ""
    stored: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "ttl", arguments.ttl("ttl", self.ttl))
        arguments.optional_name("space", self.space)
        arguments.optional_count("max_entry_bytes", self.max_entry_bytes)
        if not isinstance(self.version, str):
            raise InvalidInput(f"version: expected a string, got {self.version!r}; write str(...) around it")
        if self.key is not None and not callable(self.key):
            raise InvalidInput(f"key: expected a function of the arguments dict, got {self.key!r}")
        for what in ("reads", "writes"):
            value = getattr(self, what)
            if value is None or isinstance(value, str) or callable(value):
                continue
            object.__setattr__(self, what, arguments.names(what, value))

    @property
    def unknown(self) -> bool:
        """It may write anything: executed always, and its space is invalidated."""
        return self.writes is None and not self.cacheable

    @property
    def kept(self) -> bool:
        """Its results are kept."""
        return self.cacheable and not self.writes and self.ttl != 0

    def space_of(self, scope: str) -> str:
        """The space its resources mean something in: a named one for all scopes, or the scope's own."""
        # Every kept entry holds it: one text for all of them.
        return sys.intern(f"named:{self.space}" if self.space is not None else f"scope:{scope}")


UNKNOWN: Final = Policy(cacheable=False)
MOST_DEFAULTS: Final = 8
"""Of so many functions of one name the defaults are known: it may be the name of a new function each time."""


class UnclearResources(Exception):
    """The call does not say what it reads or writes; the text says what was declared amiss, "" if nothing was."""


def resources(spec: Resources, args: Mapping[str, Any]) -> tuple[str, ...]:
    """The resource strings of one call, in order, without repeats. UnclearResources if they cannot be told.

    An argument named in the spec gives its own text, each of its items if it is a list; None or a missing
    argument is unclear: the call then means something the caller did not name.
    """
    if spec is None:
        return ()
    if callable(spec):
        try:
            values = spec(dict(args))
        except Exception as error:
            raise UnclearResources(f"the function of its arguments raised {error!r}") from error
        return tuple(dict.fromkeys(_texts(() if values is None else values)))
    found: list[str] = []
    for name in _argument_names(spec):
        if name not in args:
            raise UnclearResources(
                f"expected an argument of the call ({', '.join(args) or 'it has none'}), got {name!r}; "
                f"what is no argument, a function names: lambda args: [{name!r}]"
            )
        if args[name] is None:
            raise UnclearResources
        found.extend(_texts(args[name]))
    return tuple(dict.fromkeys(found))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, os.PathLike):
        return [str(os.fspath(value))]
    if isinstance(value, list | tuple | set | frozenset):
        return [text for item in value for text in _texts(item)]
    try:
        return [canonical(value)]
    except InvalidInput as error:
        raise UnclearResources(str(error)) from error


@dataclass(frozen=True, slots=True)
class Event:
    """What an execution makes untrue: resources in a space, or (``kind`` "space") all that hangs on a space."""

    kind: Literal["space", "resource"]
    texts: tuple[str, ...]
    space: str | None = None


def event_of(policy: Policy, args: Mapping[str, Any], space: str) -> Event | None:
    """The event of executing a tool that is not kept, or None if it writes nothing."""
    if policy.unknown:
        return Event("space", (space,))
    try:
        written = resources(policy.writes, args)
    except UnclearResources:
        return Event("space", (space,))  # it writes something, and nobody can say what
    return Event("resource", written, space) if written else None


def of_function(fn: Callable[..., Any], register: Registered, *, named: bool) -> Policy:
    """The policy of a function wrapped with these keywords. InvalidInput for one that is none, and for a resource
    named after a parameter the function does not have.
    """
    unknown = sorted(register.keys() - Registered.__annotations__.keys())
    if unknown:
        known = ", ".join(["name", "scope", *Registered.__annotations__])
        raise InvalidInput(f"{unknown[0]}: expected keywords among {known}, got {unknown[0]!r}")
    own, stored = ("", True) if named else identity(fn)
    policy = Policy(**register, identity=own, stored=stored)
    found = signature(fn)
    parameters = list(found.parameters) if found else []
    if found and not any(p.kind is p.VAR_KEYWORD for p in found.parameters.values()):
        for what, spec in (("reads", policy.reads), ("writes", policy.writes)):
            for argument in _argument_names(spec):
                if argument not in parameters:
                    raise InvalidInput(
                        f"{what}: expected parameters of {name_of(fn)} ({', '.join(parameters) or 'it has none'}), "
                        f"got {argument!r}; a resource that is no argument: {what}=lambda args: [{argument!r}]"
                    )
    return policy


def _argument_names(spec: Resources) -> tuple[str, ...]:
    if spec is None or callable(spec):
        return ()
    return (spec,) if isinstance(spec, str) else tuple(spec)


# Functions

Defaults = tuple[tuple[str, Any], ...]


def signature(fn: Callable[..., Any]) -> inspect.Signature | None:
    """The signature, or None where Python cannot tell it."""
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        return None


def defaults(fn: Callable[..., Any]) -> Defaults:
    """Parameters with their default values."""
    if type(fn) is FunctionType and not fn.__dict__:  # what ``inspect`` would say, ten times as fast: every call asks
        names = fn.__code__.co_varnames[: fn.__code__.co_argcount]
        given = fn.__defaults__ or ()
        return (*zip(names[len(names) - len(given) :], given, strict=True), *(fn.__kwdefaults__ or {}).items())
    found = signature(fn)
    if found is None:
        return ()
    return tuple((name, p.default) for name, p in found.parameters.items() if p.default is not p.empty)


def bind(found: inspect.Signature | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Positional and keyword arguments by parameter name, without defaults.

    ``*args`` go under their own name as a tuple; ``**kwargs`` by their names. What does not fit the signature is
    for the function itself to judge: a decorator may show the signature of the function it fills arguments in for.
    """
    try:
        bound = dict(found.bind(*args, **kwargs).arguments) if found is not None else None
    except TypeError:
        bound = None
    if found is None or bound is None:
        return {"*args": args, **kwargs}
    for name, parameter in found.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            for extra, value in bound.pop(name, {}).items():
                bound[f"**{extra}" if extra in found.parameters else extra] = value
    return bound


def is_async(fn: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine."""
    while isinstance(fn, partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def gives_awaitable(fn: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await, as far as can be told: also for a coroutine function behind a
    plain decorator (the providers' clients decorate theirs so).
    """
    return is_async(fn) or is_async(inspect.unwrap(fn))


def name_of(fn: Callable[..., Any]) -> str:
    """The name a model would call it by."""
    return getattr(fn, "__name__", None) or type(fn).__name__


def identity(fn: Callable[..., Any]) -> tuple[str, bool]:
    """A text that two different functions never share, and whether other processes find the same one.

    A plain function of a module is known by its file, its name and its code, so an edited one starts afresh.
    A closure, a lambda, a method, a partial or a callable object depends on more than its code shows:
    each gets a text of its own that ends with the process.
    """
    if isinstance(fn, FunctionType) and fn.__closure__ is None and "<" not in fn.__qualname__:
        file = getattr(sys.modules.get(fn.__module__), "__file__", None)
        if file is not None:
            where = str(Path(file).absolute()) if fn.__module__ == "__main__" else fn.__module__
            return f"{where}:{fn.__qualname__}:{_code_hash(fn.__code__)}", True
    return f"#{next(_unnamed)}", False


def _code_hash(code: CodeType) -> str:
    hashed = hashlib.sha256(code.co_code)
    for const in code.co_consts:
        hashed.update(
            (_code_hash(const) if isinstance(const, CodeType) else _const(const)).encode("utf-8", "surrogatepass")
        )
    hashed.update(repr(code.co_names).encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()[:16]


def _const(const: Any) -> str:
    return "frozenset" + repr(sorted(map(repr, const))) if isinstance(const, frozenset) else repr(const)
