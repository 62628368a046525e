"""What a tool returned, as a value that can be kept, and back under a new call; memories as documents and lines."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import ToolMessage

from shared_core import Hit, Memory


def kept_result(answer: Any) -> dict[str, Any] | None:
    """What of a tool's answer belongs to the result and not to the call; None for a command or a list.

    The status stands in it: the core keeps no result that says it is an error.
    """
    if not isinstance(answer, ToolMessage):
        return None
    return {
        "content": answer.content, "artifact": answer.artifact, "status": answer.status,
        "additional_kwargs": answer.additional_kwargs, "response_metadata": answer.response_metadata,
    }  # fmt: skip


_RESULT = frozenset({"content", "artifact", "status", "additional_kwargs", "response_metadata"})


def tool_message(result: Any, call: Mapping[str, Any]) -> ToolMessage | None:
    """A new tool message with a kept result, answering this call; its id is left to the graph.

    None for what ``kept_result`` did not make.
    """
    if not isinstance(result, Mapping) or set(result) != _RESULT:
        return None
    try:
        return ToolMessage(**result, tool_call_id=call["id"], name=call["name"])
    except ValueError:  # pydantic's, for a field of another type
        return None


def document(hit: Hit) -> Document:
    """A hit as a fresh document: the memory's text, its metadata, and why it came."""
    found = hit.memory
    facts = {
        "score": hit.score, "parts": dict(hit.parts), "role": found.role, "speaker": found.speaker,
        "session": found.session, "tags": list(found.tags), "at": found.at, "importance": found.importance,
    }  # fmt: skip
    return Document(page_content=found.text, id=found.id, metadata={**copy.deepcopy(dict(found.metadata)), **facts})


def line(found: Memory) -> str:
    """A memory on one line for a model that may want to forget it."""
    return f"[{found.id}] {found.speaker or found.role}: {' '.join(found.text.split())}"
