"""The branch that a run leaves when it goes back to before the first message of its thread: whose turns it held.

There the state holds no note, so nothing in it says under which key the thread logs. The checkpoints of the branch
do. Read through LangGraph's checkpointer, and only by such a run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.config import get_config

from langchain_tiered_memory import turn_note

_log = logging.getLogger(__name__)
_UNREAD = "the thread's earlier checkpoints could not be read, its log stays where it is: %s"
_MOST = 20
"""How many checkpoints are looked at, newest first: the first steps of this run have no note, the branch's end has."""


def left(name: str) -> Mapping[str, Any] | None:
    """The note of the middleware with this name on the branch that is left; None if none is left, or has one."""
    saver, thread = _thread()
    if saver is None:
        return None
    try:
        return next((note for found in saver.list(thread, limit=_MOST) if (note := _note(found, name))), None)
    except Exception as error:  # noqa: BLE001  a read that fails never reaches the agent
        _log.warning(_UNREAD, error)
        return None


async def aleft(name: str) -> Mapping[str, Any] | None:
    """``left`` for an asynchronous run: its checkpointer may know no other way."""
    saver, thread = _thread()
    if saver is None:
        return None
    try:
        async for found in saver.alist(thread, limit=_MOST):
            if note := _note(found, name):
                return note
    except Exception as error:  # noqa: BLE001  as above
        _log.warning(_UNREAD, error)
    return None


def _thread() -> tuple[BaseCheckpointSaver[Any] | None, Any]:
    """The checkpointer and the thread of a run that was told a checkpoint to start from."""
    try:
        config = get_config()
    except RuntimeError:  # outside a run
        return None, None
    told = config.get("configurable") or {}
    saver = told.get("__pregel_checkpointer")
    if not isinstance(saver, BaseCheckpointSaver) or not (config.get("metadata") or {}).get("checkpoint_id"):
        return None, None
    place = "|".join(str(told.get("checkpoint_ns") or "").split("|")[:-1])  # the last is the hook's own
    return saver, {"configurable": {"thread_id": told.get("thread_id"), "checkpoint_ns": place}}


def _note(found: CheckpointTuple, name: str) -> Mapping[str, Any] | None:
    return turn_note.note_of(found.checkpoint.get("channel_values"), name)
