"""``planned_anthropic``: LlamaIndex's Anthropic model, its requests planned by ``memory.prompts``. No plans are made here.

The only file that knows ``llama-index-llms-anthropic``; both it and the SDK are imported when a model is planned.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from llama_index.core.base.llms.types import ChatMessage

from llama_index_tiered_memory.attach import Scope, checked, scope_for
from shared_core import InvalidInput, MissingExtra, TieredMemory, open_again
from shared_core.anthropic_client import PromptCachedAnthropic

_INSTALL = "pip install llama-index-llms-anthropic 'anthropic<1'"


def planned_anthropic(llm: Any, memory: TieredMemory, *, scope: Scope = None) -> Any:
    """The same ``Anthropic`` model, whose every request carries the breakpoints of our plan, four at most.

    ``FunctionAgent(llm=planned_anthropic(Anthropic(model="claude-sonnet-5"), memory), …)``. Planned is what the model
    has made of system prompt, tools and messages, whole and streamed, sync and async, structured output too; marks
    of its own (``CachePoint`` blocks, ``cache_idx``) are taken as wishes and kept as far as four go. What the
    provider billed goes into ``memory.prompts.stats()``. The model given stays as it is; the one returned is of its
    class. Like it, it cannot be pickled; it says so.

    Which SDK: llama-index-llms-anthropic up to 0.12.3 cannot build a request with anthropic 2.0 or newer, and with
    1.x it can for the models that take no temperature alone (Opus 4.7, Sonnet 5 and newer); 0.x works with all.
    Elsewhere every chat fails with a TypeError, so that is looked at here. Raises MissingExtra where no request could
    be sent, with what to install; InvalidInput for another model; ScopeRequired.
    """
    base = _base()
    if not isinstance(llm, base):
        raise InvalidInput(
            f"llm: expected llama_index.llms.anthropic.Anthropic, got {type(llm).__name__}; "
            "write planned_anthropic(Anthropic(model=…), memory)"
        )
    owner = checked(memory, scope)
    plain = llm.unplanned() if hasattr(llm, "unplanned") else llm
    _check_temperature(plain)
    kind: Any = type(plain)
    return _of_class(
        _planned_class(kind),
        plain,
        _Client(plain._client, owner, scope=scope),  # noqa: SLF001  the model offers no other way in
        _Client(plain._aclient, owner, scope=scope),  # noqa: SLF001
    )


@functools.cache
def _planned_class(kind: Any) -> Any:
    class PlannedAnthropic(kind):  # type: ignore[misc]
        """An Anthropic model with planned clients."""

        def unplanned(self) -> Any:
            """The model with its own clients again."""
            return _of_class(kind, self, self._client.sdk, self._aclient.sdk)

        __reduce__ = open_again  # the model's own clients cannot be pickled either: it would come back without them

        def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Any:
            return self.model_copy()  # clients cannot be copied, nor need they be

    return PlannedAnthropic


def _of_class(kind: type[Any], llm: Any, client: Any, aclient: Any) -> Any:
    """A copy of the model as one of another class with the same fields, and with these clients."""
    made = llm.model_copy()
    object.__setattr__(made, "__class__", kind)
    made._client, made._aclient = client, aclient  # noqa: SLF001
    return made


class _Client(PromptCachedAnthropic):
    """The planned client, which says that it is of the SDK's class: the model asks whether it is a cloud's."""

    def __init__(self, sdk: Any, memory: TieredMemory, *, scope: Scope) -> None:
        super().__init__(sdk, memory, scope=lambda: scope_for(memory, scope))
        self.sdk = sdk

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.sdk)


def _base() -> type[Any]:
    """The model's class. MissingExtra if it is not here or cannot run with the SDK that is."""
    try:
        module = importlib.import_module("llama_index.llms.anthropic.base")
        utils = importlib.import_module("llama_index.llms.anthropic.utils")
    except ImportError as error:
        raise MissingExtra(f"planned_anthropic needs LlamaIndex's Anthropic model: {_INSTALL}") from error
    try:
        utils.messages_to_anthropic_messages([ChatMessage(role="user", content="Hello.")])
    except TypeError as error:
        raise MissingExtra(
            f"llama-index-llms-anthropic {_version('llama-index-llms-anthropic')} cannot build a request with "
            f"anthropic {_version('anthropic')} ({error}); releases below 1 do for every model: {_INSTALL}"
        ) from error
    found: type[Any] = module.Anthropic
    return found


def _check_temperature(llm: Any) -> None:
    """MissingExtra if the model sends a temperature to an SDK that takes none."""
    taken = inspect.signature(llm._client.messages.create).parameters  # noqa: SLF001
    if "temperature" in llm._model_kwargs and "temperature" not in taken:  # noqa: SLF001
        raise MissingExtra(
            f"anthropic {_version('anthropic')} takes no temperature, which llama-index-llms-anthropic "
            f"{_version('llama-index-llms-anthropic')} sends for {llm.model}: pip install 'anthropic<1'"
        )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(unknown)"
