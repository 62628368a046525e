"""What a model is asked, as the request of the core's cache: equal requests are equal plain dicts. No cache here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any

from llama_index.core.base.llms.generic_utils import messages_to_prompt
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms.llm import LLM, default_completion_to_prompt
from llama_index.core.tools import BaseTool
from pydantic import BaseModel

from llama_index_tiered_memory.convert import in_call_order, is_plain, to_plain
from shared_core import InvalidInput

_NO_SETTING = {"api_key", "timeout", "request_timeout", "max_retries", "reuse_client"}  # they change no answer
_HELD = (str, bool, float, dict)  # private whole numbers and lists are counts and records of the calls made
_NOT_SAID = {"session_id", "usage"}  # LlamaIndex's own notes on a message; no provider is sent them


def chat_request(
    llm: LLM, stream: bool, messages: Sequence[ChatMessage], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """A chat, as a plain dict that equal requests share. InvalidInput if something in it cannot be compared.

    The results of parallel calls count in the order of the calls: an agent lists them as they finish, each time anew.
    """
    asked = {
        **_request(llm, "chat", stream, settings),
        "messages": in_call_order([_said(message) for message in messages]),
    }
    render: Any = llm.messages_to_prompt
    if render is not messages_to_prompt:  # a function is compared by what it makes of this request
        asked["prompt"] = render(messages)
    return asked


def completion_request(
    llm: LLM, stream: bool, prompt: str, formatted: bool, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """A completion, likewise."""
    asked = {**_request(llm, "complete", stream, settings), "prompt": prompt, "formatted": formatted}
    render: Any = llm.completion_to_prompt
    if not formatted and render is not default_completion_to_prompt:
        asked["rendered"] = render(prompt)
    return asked


def _request(llm: LLM, ask: str, stream: bool, settings: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: _compared(value) for name, value in settings.items()}
    tools = {"tools": own.pop("tools")} if "tools" in own else {}
    return {"ask": ask, "stream": stream, "model": _model(llm), "settings": own, **tools}


def _model(llm: LLM) -> dict[str, Any]:
    fields = {
        name: _compared(getattr(llm, name))
        for name, field in type(llm).model_fields.items()
        if not field.exclude and name not in _NO_SETTING
    }
    private: Mapping[str, Any] = llm.__pydantic_private__ or {}
    held = {name: value for name, value in private.items() if type(value) in _HELD and is_plain(value)}
    return {"class": _name(type(llm)), "name": model_name(llm), "fields": fields, "held": held}


def model_name(llm: LLM) -> str:
    """The name by which a model is known; that of its class where LlamaIndex knows no metadata of it."""
    try:
        return llm.metadata.model_name
    except Exception:  # noqa: BLE001  an integration raises for a model that is newer than itself, and still calls it
        return llm.class_name()


def _compared(value: Any) -> Any:
    """The setting as a value that is the same in every process; what is left as it is the core decides on."""
    if isinstance(value, LLM):
        return _model(value)
    if isinstance(value, BaseTool):
        told = value.metadata
        return {"name": told.name, "description": told.description, "parameters": told.get_parameters_dict()}
    if isinstance(value, ChatMessage):
        return _said(value)
    if isinstance(value, type):
        schema = value.model_json_schema() if issubclass(value, BaseModel) else None
        return {"class": _name(value), "schema": schema}
    if isinstance(value, FunctionType | BuiltinFunctionType):
        if getattr(value, "__closure__", None) or "<" in value.__qualname__:
            raise InvalidInput(
                f"expected settings that can be compared, got {value.__qualname__}; use a named function"
            )
        return {"function": _name(value)}
    if type(value) is dict:
        return {key: _compared(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [_compared(item) for item in value]
    return value


def _name(named: Any) -> str:
    return f"{named.__module__}.{named.__qualname__}"


def _said(message: ChatMessage) -> dict[str, Any]:
    """The message without what changes no answer: notes, and marks where a provider may keep a prefix."""
    plain = to_plain(message)
    notes = plain.pop("additional_kwargs", {})
    extra = {name: value for name, value in notes.items() if name not in _NOT_SAID}
    content = plain["content"]
    if isinstance(content, list):
        content = [block for block in content if block.get("type") != "cache"]
        if len(content) == 1 and content[0].keys() == {"type", "text"}:
            content = content[0]["text"]
    files = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in _paths(message.blocks)]
    return {**plain, "content": content, "additional_kwargs": extra, "files": files}


def _paths(blocks: Any) -> Iterator[Any]:
    """Files that a block names: the provider is sent what is in them now."""
    for block in blocks if isinstance(blocks, list) else ():
        if getattr(block, "path", None):
            yield block.path
        yield from _paths(getattr(block, "content", None))
