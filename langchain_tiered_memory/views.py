"""A chat model seen through a subclass for one call: same state, other behaviour. What the behaviour is, others say.

A copy would be another object: a model that counts its calls, or steps through a script, would not see them. A view
shares all that the model holds, so whatever a call changes in one is changed in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def kind_of(base: Any, slot: str, members: Mapping[str, Any]) -> Any:
    """A subclass of a model's class, under the same name, with members of its own and a place for one value."""
    named = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}

    def __copy__(self: Any) -> Any:  # noqa: N807  a copy that somebody makes of a view (model_copy) is one too
        copy = base.__copy__(self)
        object.__setattr__(copy, slot, getattr(self, slot))
        return copy

    def __deepcopy__(self: Any, memo: Any = None) -> Any:  # noqa: N807
        copy = base.__deepcopy__(self, memo)
        object.__setattr__(copy, slot, getattr(self, slot))
        return copy

    own = {"__slots__": (slot,), "__copy__": __copy__, "__deepcopy__": __deepcopy__}
    kind = type(base)(base.__name__, (base,), {**named, **own})
    for name, member in members.items():
        setattr(kind, name, member)  # set afterwards: pydantic refuses a property in the place of a field
    return kind


def view(model: Any, kind: Any, slot: str, value: Any) -> Any:
    """The model as one of ``kind``, with the value in its place. A view of a view keeps the values of both."""
    seen = kind.__new__(kind)
    for base in type(model).__mro__:
        for name in base.__dict__.get("__slots__", ()):
            if hasattr(model, name) and name != "__weakref__":
                object.__setattr__(seen, name, getattr(model, name))
    object.__setattr__(seen, slot, value)
    return seen
