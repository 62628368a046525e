"""What a write asks for, checked and complete before anything is touched."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shared_core import arguments
from shared_core.errors import InvalidInput
from shared_core.storage.base import Source
from shared_core.text import normalised


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The arguments of one ``remember``, validated; None where the writer left the choice to us."""

    text: str
    scope: str
    role: str = "user"
    speaker: str | None = None
    session: str | None = None
    tags: tuple[str, ...] = ()
    importance: float | None = None
    at: float | None = None
    subject: str | None = None
    pinned: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    source: Source | None = None
    unmasked: str | None = field(default=None, repr=False)  # the text as it came, where masking changed it

    @property
    def merge_key(self) -> bytes:
        """Equal for texts that are the same memory: same words, role, speaker and subject."""
        parts = [self.role, self.speaker, self.subject, normalised(self.text)]
        return hashlib.sha256(json.dumps(parts).encode()).digest()


_NAMES = frozenset(Draft.__dataclass_fields__) - {"source", "unmasked"}


def draft(
    item: Mapping[str, Any],
    *,
    scope: str,
    max_text_bytes: int,
    mask: Callable[[str], str] | None = None,
    source: Source | None = None,
) -> Draft:
    """Check the arguments of one memory. InvalidInput names the first that is not what the call takes."""
    if not isinstance(item, Mapping):
        raise InvalidInput(f"item: expected a dict such as {{'text': '…'}}, got {item!r}")
    unknown = sorted(set(item) - _NAMES, key=str)
    if unknown:
        raise InvalidInput(f"item: expected keys among {', '.join(sorted(_NAMES))}, got {unknown[0]!r}")
    if "text" not in item:
        raise InvalidInput("item: expected a key 'text', got none")
    text = text_to_keep(item["text"], max_bytes=max_text_bytes, mask=mask)
    importance = item.get("importance")
    return Draft(
        text=text,
        scope=scope,
        role=arguments.role("role", item.get("role", "user")),
        speaker=arguments.optional_name("speaker", item.get("speaker")),
        session=arguments.optional_name("session", item.get("session")),
        tags=arguments.names("tags", item.get("tags", ())),
        importance=None if importance is None else arguments.unit("importance", importance),
        at=arguments.optional_instant("at", item.get("at")),
        subject=arguments.optional_name("subject", item.get("subject")),
        pinned=arguments.flag("pinned", item.get("pinned", False)),
        metadata=arguments.plain("metadata", item.get("metadata")),
        id=arguments.optional_name("id", item.get("id")),
        source=source,
        unmasked=item["text"] if text != item["text"] else None,
    )


def text_to_keep(value: object, *, max_bytes: int, mask: Callable[[str], str] | None) -> str:
    """A memory's text as it is going to be written. InvalidInput for what is none.

    ``mask`` sees it before anything else does; what it raises is passed on.
    """
    text = arguments.text("text", value, max_bytes=max_bytes)
    return text if mask is None else arguments.text("text as masked", mask(text), max_bytes=max_bytes)
