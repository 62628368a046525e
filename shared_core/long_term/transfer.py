"""Memories out to a file and in again: JSON Lines, one whole memory a line, in insertion order.

    {"id": …, "text": …, "scope": …, …, "evidence": …, "everywhere": …, "sources": [[session, node]],
     "successors": [[id, at]], "embedder": …, "vectors": "base64"}

A line is a memory's public fields and what the storage knows besides. Only ``id``, ``text`` and ``scope``
must be there. What can be computed from the text (its index) is computed again on the way in.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from shared_core import arguments
from shared_core.errors import InvalidInput, StorageError
from shared_core.long_term.draft import Draft, text_to_keep
from shared_core.long_term.lifecycle import index_terms
from shared_core.long_term.parts import part_of
from shared_core.long_term.store import MemoryStore
from shared_core.records import Memory
from shared_core.storage.base import Source
from shared_core.storage.upkeep import Successor, WholeMemory

STATUSES = ("active", "superseded", "archived")
_MEMORY = tuple(one.name for one in fields(Memory))
_MORE = ("evidence", "everywhere", "sources", "successors", "embedder", "vectors")


def export(store: MemoryStore, path: str | Path, *, scope: str, vectors: bool) -> int:
    """Write every memory of the scope to ``path``; return how many.

    Into a file beside it first (``parts.py``): a failure leaves what was there.
    Reads that are not written down yet count, and are not written down for it: a writer at work must not hold
    up an export, which only reads.
    """
    target = _target(path, store.storage.location)
    count = 0
    try:
        with part_of(target) as out:
            for item in store.storage.upkeep.whole(scope):
                out.write(_line(_as_read(store, item), vectors=vectors) + "\n")
                count += 1
    except OSError as error:
        raise StorageError(
            f"{target}: expected a file that can be written, got {error}; export to another path"
        ) from error
    return count


def import_(store: MemoryStore, path: str | Path, *, now: float) -> int:
    """Write every memory of a file that ``export`` wrote; return how many were not there before.

    All or none: InvalidInput names the first line that is not what is expected. Importing again changes
    nothing, nor does a text that stands here unmasked already, written when nothing was masked. Texts are masked like
    those of any write, for the file may come from anywhere. Vectors of another
    model, or of a text before it was masked, are left out and made again by the next recall.
    """
    source = _path(path)
    items: dict[tuple[str, str], WholeMemory] = {}
    lines: dict[tuple[str, str], int] = {}
    masked: dict[tuple[str, str], str] = {}
    try:
        with source.open(encoding="utf-8-sig") as read:  # editors put a mark before the first line
            for number, line in enumerate(read, 1):
                if not line.strip():
                    continue
                try:
                    found = _object(line)
                    item = _parsed(found, store, now)
                except (InvalidInput, RecursionError) as error:
                    raise InvalidInput(f"{source}, line {number}: {error}; nothing was imported") from error
                key = (item.memory.scope, item.memory.id)
                if key in items and items[key].memory.text != item.memory.text:
                    raise InvalidInput(
                        f"{source}, line {number}: id {item.memory.id!r} came with another text in line {lines[key]}; "
                        "nothing was imported"
                    )
                items.setdefault(key, item)
                if item.memory.text != found["text"]:
                    masked.setdefault(key, found["text"])
                lines.setdefault(key, number)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{source}: expected UTF-8, got {error}; nothing was imported") from error
    except OSError as error:
        raise StorageError(f"{source}: expected a file that can be read, got {error}") from error
    for key in [key for key, text in masked.items() if _stands(store, key, text)]:
        del items[key]
    if any(item.vectors is not None and item.embedder == store.vectors.fingerprint for item in items.values()):
        store.vectors.are_taken(wait=True)  # a new file has no model yet: it is this one's
    return store.storage.upkeep.restore(list(items.values()))


def _path(path: object) -> Path:
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise InvalidInput(f"path: expected a file's path, got {path!r}")
    return Path(path)


def _target(path: object, location: str | None) -> Path:
    """The path of a file that may be replaced: not the memory's own, and no device or pipe, which a file would oust."""
    target = _path(path)
    try:
        there = target.exists()
    except OSError as error:  # a name that no file can have
        raise StorageError(f"{target}: expected a file that can be written, got {error}; name another") from error
    if there and not target.is_file():
        raise StorageError(f"{target}: expected a file that can be written, got a folder or device; name a file")
    if location is not None:
        own = [Path(f"{location}{end}") for end in ("", "-wal", "-shm")]
        if there and any(one.exists() and one.samefile(target) for one in own):
            raise InvalidInput(
                f"path: expected another file than the memory itself, got {str(target)!r}; "
                f"write {str(target.with_suffix('.jsonl'))!r}"
            )
    return target


def _as_read(store: MemoryStore, item: WholeMemory) -> WholeMemory:
    """The memory with the reads that are not written down yet, and what they showed."""
    access = store.reads.unwritten(item.memory.scope, item.memory.id)
    seen = None if access is None else access.evidence
    return replace(item, memory=store.reads.as_read(item.memory), evidence=item.evidence if seen is None else seen)


def _line(item: WholeMemory, *, vectors: bool) -> str:
    found: dict[str, Any] = {name: getattr(item.memory, name) for name in _MEMORY}
    found |= {
        "metadata": dict(item.memory.metadata),
        "evidence": item.evidence,
        "everywhere": item.everywhere,
        "sources": [[source.session, source.node] for source in item.sources],
        "successors": [[successor.id, successor.at] for successor in item.successors],
    }
    if vectors and item.vectors is not None:
        found |= {"embedder": item.embedder, "vectors": base64.b64encode(item.vectors).decode("ascii")}
    return json.dumps(found)


def _stands(store: MemoryStore, key: tuple[str, str], text: str) -> bool:
    """Whether this very text is stored under the scope and id."""
    (held,) = store.rows.get(key[0], [key[1]])
    return held is not None and held.text == text


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise InvalidInput(f"expected one JSON object a line, got {error}") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"expected one JSON object a line, got {type(found).__name__}")
    return found


def _parsed(found: Mapping[str, Any], store: MemoryStore, now: float) -> WholeMemory:
    """One line, checked like any other input: it may have come from anywhere."""
    unknown = sorted(set(found) - {*_MEMORY, *_MORE})
    if unknown:
        raise InvalidInput(
            f"expected keys among {', '.join((*_MEMORY, *_MORE))}, got {unknown[0]!r}; if a newer release wrote the file, "
            "update your checkout, else take the key out"
        )
    memory = _memory(found, store, now)
    evidence = found.get("evidence")
    sources = tuple(Source(*_pair("sources", pair)) for pair in _listed("sources", found))
    embedder, raw = arguments.optional_name("embedder", found.get("embedder")), found.get("vectors")
    merge_key = Draft(
        text=memory.text, scope=memory.scope, role=memory.role, speaker=memory.speaker, subject=memory.subject
    ).merge_key
    return WholeMemory(
        memory=memory,
        merge_key=merge_key,
        terms=index_terms(memory.text),
        everywhere=_flag("everywhere", found, default=not sources),
        evidence=None if evidence is None else arguments.unit("evidence", evidence),
        sources=sources,
        successors=tuple(_successor(pair) for pair in _listed("successors", found)),
        embedder=embedder,
        vectors=None if raw is None or embedder is None or memory.text != found["text"] else _decoded(raw, store),
    )


def _memory(found: Mapping[str, Any], store: MemoryStore, now: float) -> Memory:
    for name in ("id", "text", "scope"):
        if name not in found:
            raise InvalidInput(f"expected a key {name!r}, got none")
    status = found.get("status", "active")
    if status not in STATUSES:
        raise InvalidInput(f"status: expected one of {', '.join(STATUSES)}, got {status!r}")
    created_at = arguments.instant("created_at", found.get("created_at", now))
    return Memory(
        id=arguments.name("id", found["id"]),
        text=text_to_keep(found["text"], max_bytes=store.settings.max_text_bytes, mask=store.settings.mask),
        scope=arguments.scope("scope", found["scope"]),
        role=arguments.name("role", found.get("role", "user")),
        speaker=arguments.optional_name("speaker", found.get("speaker")),
        session=arguments.optional_name("session", found.get("session")),
        tags=arguments.names("tags", found.get("tags", ())),
        importance=arguments.unit("importance", found.get("importance", 0.5)),
        at=arguments.instant("at", found.get("at", created_at)),
        created_at=created_at,
        last_accessed=arguments.instant("last_accessed", found.get("last_accessed", created_at)),
        access_count=_small("access_count", found.get("access_count", 0)),
        subject=arguments.optional_name("subject", found.get("subject")),
        pinned=_flag("pinned", found, default=False),
        status=status,
        metadata=arguments.plain("metadata", found.get("metadata")),
    )


def _small(what: str, value: object) -> int:
    counted = arguments.count(what, value)
    if counted >= 2**53:
        raise InvalidInput(f"{what}: expected a number that the storage can hold, got {counted}")
    return counted


def _flag(what: str, found: Mapping[str, Any], *, default: bool) -> bool:
    value = found.get(what, default)
    if not isinstance(value, bool):
        raise InvalidInput(f"{what}: expected true or false, got {value!r}")
    return value


def _listed(what: str, found: Mapping[str, Any]) -> list[Any]:
    value = found.get(what, [])
    if not isinstance(value, list):
        raise InvalidInput(f"{what}: expected a list, got {value!r}")
    return value


def _pair(what: str, pair: Any) -> tuple[str, str]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise InvalidInput(f"{what}: expected pairs, got {pair!r}")
    return arguments.name(what, pair[0]), arguments.name(what, pair[1])


def _successor(pair: Any) -> Successor:
    if not isinstance(pair, list) or len(pair) != 2:
        raise InvalidInput(f"successors: expected pairs, got {pair!r}")
    return Successor(arguments.optional_name("successors", pair[0]), arguments.instant("successors", pair[1]))


def _decoded(raw: Any, store: MemoryStore) -> bytes | None:
    """The vectors' bytes; None if they are not of this store's model's size, and are then made again."""
    if not isinstance(raw, str):
        raise InvalidInput(f"vectors: expected base64 text, got {type(raw).__name__}")
    try:
        found = base64.b64decode(raw, validate=True)
    except ValueError as error:
        raise InvalidInput(f"vectors: expected base64 text, got {error}") from error
    return store.vectors.sound(found)
