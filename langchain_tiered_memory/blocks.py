"""Which recalled blocks a request shows, and which thinking it may no longer show. Pure; ids and hashes, never a text.

A provider that binds a model's thinking to the bytes before it refuses a request in which these have changed. So
the block of an earlier turn stays where it was if the model thought in that turn, and goes with it otherwise.
A block that cannot be made again is left out for good, and what was thought up to then is left out whole.

An entry is ``{"message", "ids", "digest"}``: the user's message and what stands at its end; or
``{"message", "until"}``: nothing stands there any more, and no thinking is shown from there to that message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tiered_memory import convert

Entry = Mapping[str, Any]


def entries(note: Mapping[str, Any] | None) -> list[Entry]:
    """The entries of a turn's note, oldest first: those of earlier turns, then its own if it recalled anything."""
    if note is None:
        return []
    own = [{name: note[name] for name in ("message", "ids", "digest", "until") if name in note}]
    return [*note.get("earlier", ()), *(own if "digest" in note or "until" in note else ())]


def carried(
    known: Mapping[str, Any], messages: Sequence[BaseMessage], newest: str | None, *, same: bool
) -> tuple[dict[str, Any], ...]:
    """The entries that the turn of the message ``newest`` takes over from the turn before it.

    Not ``same``: another owner or conversation goes on from here, who must not see these blocks.
    """
    place: dict[str | None, int] = {m.id: i for i, m in enumerate(messages) if m.id is not None}
    end = place.get(newest, len(messages))
    last = next((m.id for m in reversed(messages[:end]) if m.id is not None), None)
    begin = place.get(known["message"], end)
    thought = any(map(convert.thinks, messages[begin:end]))
    kept: list[dict[str, Any]] = []
    for entry in entries(known):
        own = entry["message"] == known["message"]
        if (own and not thought) or (entry["message"] not in place and entry.get("until") not in place):
            continue
        kept.append(dict(entry) if same or "until" in entry else gone(entry, last))
    return tuple(kept)


def gone(entry: Entry, last: str | None) -> dict[str, Any]:
    """The entry of a block that is left out from now on; ``last`` is the last message that was made before."""
    return {"message": entry["message"], "until": last}


def without(note: Mapping[str, Any], lost: Sequence[Entry], last: str | None) -> dict[str, Any]:
    """The note after these blocks could not be made again."""
    messages = {entry["message"] for entry in lost}
    kept = {name: value for name, value in note.items() if name != "digest" or note["message"] not in messages}
    if "earlier" in note:
        kept["earlier"] = [gone(e, last) if e["message"] in messages else e for e in note["earlier"]]
    return {**kept, "until": last} if note["message"] in messages else kept


def placed(messages: Sequence[BaseMessage], shown: Sequence[tuple[Entry, str | None]]) -> list[Any]:
    """The messages with each entry's block at the end of its message, or, where there is none, without the thinking
    that came after it. Messages that are not there are passed over.
    """
    out = list(messages)
    place: dict[str | None, int] = {m.id: i for i, m in enumerate(messages) if m.id is not None}
    for entry, block in shown:
        start = place.get(entry["message"])
        if block is not None:
            if start is not None:
                out[start] = convert.with_block(out[start], block)
            continue
        end = place.get(entry.get("until"))
        if start is None and end is None:
            continue
        stop = len(out) if end is None else end + 1
        out[start or 0 : stop] = [convert.without_thinking(message) for message in out[start or 0 : stop]]
    return [m for m, given in zip(out, messages, strict=True) if m is given or not convert.is_void(m)]
