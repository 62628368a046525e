"""The chat models inside LangChain's wrappers: bound settings, retries, fallbacks. What is done with them, others say."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from langchain_core.runnables import RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase


def each_model(given: Any, seen: Callable[[Any], Any]) -> Any:
    """The model with ``seen(model)`` in the place of every model that its wrappers hold; itself if none became another.

    Wrappers are ``bind``, ``bind_tools``, ``with_config``, ``with_retry``, ``with_fallbacks``, in any order and depth. They
    are copied, never changed. What else there is (a sequence, configurable fields) is handed to ``seen`` as it is.
    """
    if isinstance(given, RunnableWithFallbacks):
        first, others = each_model(given.runnable, seen), [each_model(model, seen) for model in given.fallbacks]
        if first is given.runnable and all(map(operator.is_, others, given.fallbacks)):
            return given
        return given.model_copy(update={"runnable": first, "fallbacks": others})
    if isinstance(given, RunnableBindingBase):
        bound = each_model(given.bound, seen)
        return given if bound is given.bound else given.model_copy(update={"bound": bound})
    return seen(given)
