"""A chat model seen through a subclass for one call: same state, other behaviour. What the behaviour is, others say.

A copy would be another object: a model that counts its calls, or steps through a script, would not see them. A view
shares all that the model holds, so whatever a call changes in one is changed in both.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from types import MemberDescriptorType
from typing import Any

_HELD = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
"""What a pydantic model holds, apart from slots of its class's own."""


class _Quiet:
    """Stands before the class of the model: that a view is made of it is no news to the class."""

    __slots__ = ()

    def __init_subclass__(cls, **given: Any) -> None:
        """Not the model's: it may want arguments, refuse, or write the new class down somewhere."""

    @classmethod
    def __pydantic_init_subclass__(cls, **given: Any) -> None:
        """The same, as pydantic asks it."""


def kind_of(base: Any, slot: str, members: Mapping[str, Any]) -> Any:
    """A subclass of a model's class, under the same name, with members of its own and a place for one value."""
    named = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    origin = f"{slot}_of"

    def __copy__(self: Any) -> Any:  # noqa: N807  a copy that somebody makes of a view (model_copy) is one too
        return view(copy.copy(getattr(self, origin)), type(self), slot, getattr(self, slot))

    def __deepcopy__(self: Any, memo: Any = None) -> Any:  # noqa: N807
        return view(copy.deepcopy(getattr(self, origin), memo), type(self), slot, getattr(self, slot))

    def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807
        held = [(place, getattr(self, place, None)) for place in _HELD]
        base.__setattr__(self, name, value)
        for place, shared in held:  # pydantic replaces them when it validates an assignment
            made = getattr(self, place, None)
            if shared is not None and made is not None and made is not shared:
                shared.update(made)
                object.__setattr__(self, place, shared)

    own = {
        "__slots__": (slot, origin), "__copy__": __copy__, "__deepcopy__": __deepcopy__, "__setattr__": __setattr__,
    }  # fmt: skip
    bases = (base,) if issubclass(base, _Quiet) else (_Quiet, base)
    kind = type(base)(base.__name__, bases, {**named, **own})
    forwarded = {name: _forwarded(name, origin) for name in _slots_of(base) if name not in (slot, origin)}
    for name, member in {**forwarded, **members}.items():
        setattr(kind, name, member)  # set afterwards: pydantic refuses a property in the place of a field
    return kind


def view(model: Any, kind: Any, slot: str, value: Any) -> Any:
    """The model as one of ``kind``, with the value in its place. A view of a view keeps the values of both."""
    seen = object.__new__(kind)
    for place in _HELD:
        if hasattr(model, place):
            object.__setattr__(seen, place, getattr(model, place))
    object.__setattr__(seen, f"{slot}_of", model)
    object.__setattr__(seen, slot, value)
    return seen


def _slots_of(base: Any) -> Iterator[str]:
    """The names of the slots that a class and its bases declare, as they are kept."""
    for one in base.__mro__:
        yield from (n for n, m in vars(one).items() if isinstance(m, MemberDescriptorType) and n not in _HELD)


def _forwarded(name: str, origin: str) -> property:
    """A slot of the model's, read and written on the model itself: it holds a value, which cannot be shared."""

    def read(self: Any) -> Any:
        return getattr(getattr(self, origin), name)

    def write(self: Any, value: Any) -> None:
        object.__setattr__(getattr(self, origin), name, value)

    def delete(self: Any) -> None:
        object.__delattr__(getattr(self, origin), name)

    return property(read, write, delete)
