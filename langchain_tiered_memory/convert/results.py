"""Memories as documents and as lines."""

from __future__ import annotations

import copy

from langchain_core.documents import Document

from shared_core import Hit, Memory


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
