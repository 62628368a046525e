"""LlamaIndex's ``MetadataFilters`` as a function of one node's metadata. No search: recall asks it of each memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from shared_core import InvalidInput

Metadata = Mapping[str, Any]

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda held, value: held == value,
    "!=": lambda held, value: held != value,
    ">": lambda held, value: held > value,
    ">=": lambda held, value: held >= value,
    "<": lambda held, value: held < value,
    "<=": lambda held, value: held <= value,
    "in": lambda held, value: held in value,
    "nin": lambda held, value: held not in value,
    "any": lambda held, value: any(one in held for one in value),
    "all": lambda held, value: all(one in held for one in value),
    "contains": lambda held, value: value in held,
    "text_match": lambda held, value: _text(value) in _text(held),
    "text_match_insensitive": lambda held, value: _text(value).casefold() in _text(held).casefold(),
}
_TRUE_WITHOUT_VALUE = ("!=", "nin")


def predicate(filters: MetadataFilters) -> Callable[[Metadata], bool]:
    """Whether metadata match, by the rules of LlamaIndex's own in-memory vector store, conditions nested at will.

    A key that is not there matches only ``!=``, ``nin`` and ``is_empty``; a value that an operator cannot be asked
    of (a text compared with a number) does not match, where LlamaIndex's would fail. No filters match everything.
    InvalidInput for an operator or a condition of a later release that is not known here.
    """
    parts = [predicate(one) if isinstance(one, MetadataFilters) else _leaf(one) for one in filters.filters]
    condition = FilterCondition(filters.condition or FilterCondition.AND)
    if not parts:
        return lambda _: True
    if condition == FilterCondition.AND:
        return lambda metadata: all(part(metadata) for part in parts)
    if condition == FilterCondition.OR:
        return lambda metadata: any(part(metadata) for part in parts)
    if condition == FilterCondition.NOT:  # none of them
        return lambda metadata: not any(part(metadata) for part in parts)
    raise InvalidInput(f"filters: expected the condition and, or, or not, got {condition.value!r}")


def _leaf(asked: MetadataFilter) -> Callable[[Metadata], bool]:
    key, value, operator = asked.key, asked.value, FilterOperator(asked.operator).value
    if operator == "is_empty":
        return lambda metadata: metadata.get(key) in (None, "", [])
    if operator not in _OPERATORS:
        known = ", ".join([*_OPERATORS, "is_empty"])
        raise InvalidInput(f"filters: expected one of the operators {known}, got {operator!r}")
    asks = _OPERATORS[operator]

    def matches(metadata: Metadata) -> bool:
        held = metadata.get(key)
        if held is None:
            return operator in _TRUE_WITHOUT_VALUE
        try:
            return bool(asks(held, value))
        except TypeError:
            return False

    return matches


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text")
    return value
