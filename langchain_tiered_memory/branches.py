"""The branch that a run leaves when it goes back to where its state holds no note: whose turns it held.

There nothing in the state says under which key the thread logs: before the first message, and anywhere in an agent
that is a node of another graph, whose state keeps messages alone. The checkpoints of the branch do. Read through
LangGraph's checkpointer, and only by a run that was told a checkpoint to start from.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.config import get_config

from langchain_tiered_memory import owner, turn_note
from langchain_tiered_memory.turn_note import Left

_log = logging.getLogger(__name__)
_UNREAD = "the thread's earlier checkpoints could not be read, its log stays where it is: %s"
_MOST = 20
"""How many checkpoints are looked at, newest first: the first steps of this run have no note, the branch's end has."""


def left(name: str, messages: Sequence[BaseMessage]) -> Left | None:
    """What the middleware with this name left behind; None if the run goes back to nowhere."""
    place = _place()
    if place is None:
        return None
    try:
        return place.left(list(place.saver.list(place.thread, limit=place.most)), name, messages)
    except Exception as error:  # noqa: BLE001  a read that fails never reaches the agent
        _log.warning(_UNREAD, error)
        return None


async def aleft(name: str, messages: Sequence[BaseMessage]) -> Left | None:
    """``left`` for an asynchronous run: its checkpointer may know no other way."""
    place = _place()
    if place is None:
        return None
    try:
        found = [one async for one in place.saver.alist(place.thread, limit=place.most)]
        return place.left(found, name, messages)
    except Exception as error:  # noqa: BLE001  as above
        _log.warning(_UNREAD, error)
        return None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a run's checkpoints are. An agent that is a node has a namespace of its own in every run of its graph.

    ``since`` is the checkpoint of the outermost graph that the run was told to start from, ``now`` the one it stands at.
    """

    saver: BaseCheckpointSaver[Any]
    thread_id: Any
    namespace: str
    since: str
    now: str

    @property
    def is_node(self) -> bool:
        return ":" in self.namespace

    @property
    def thread(self) -> RunnableConfig:
        within = {} if self.is_node else {"checkpoint_ns": self.namespace}
        return {"configurable": {"thread_id": self.thread_id, **within}}

    @property
    def most(self) -> int | None:
        return None if self.is_node else _MOST

    def left(self, found: Sequence[CheckpointTuple], name: str, messages: Sequence[BaseMessage]) -> Left:
        """The notes among these checkpoints."""
        if not self.is_node:
            return Left(next((note for one in found if (note := _note(one, name))), None))
        own = [one for one in found if _path(_namespace(one)) == _path(self.namespace) and _note(one, name)]
        own = sorted((one for one in own if _namespace(one) != self.namespace), key=_id, reverse=True)
        run = self._run(found)
        gone = (one for one in own if _id(one) > self.since and one.metadata.get("parents", {}).get("") not in run)
        last = next((m.id for m in reversed(messages) if not isinstance(m, HumanMessage)), None)
        stood = (
            one for one in own if last is not None and last == _last(one) and "since" not in (_note(one, name) or {})
        )
        left, at = next(gone, None), next(stood, None)
        return Left(left and _note(left, name), at and _note(at, name), is_node=True)

    def _run(self, found: Sequence[CheckpointTuple]) -> set[str]:
        """The checkpoints of the outermost graph that this run has made: what was done under them is not left."""
        before = {_id(one): one.parent_config for one in found if not _namespace(one)}
        run, at = set(), self.now
        while at > self.since and at not in run:
            run.add(at)
            parent = before.get(at)
            at = "" if parent is None else str(parent["configurable"].get("checkpoint_id") or "")
        return run


def _place() -> _Place | None:
    try:
        config = get_config()
    except RuntimeError:  # outside a run
        return None
    told = config.get("configurable") or {}
    saver = told.get("__pregel_checkpointer")
    if not isinstance(saver, BaseCheckpointSaver) or not owner.goes_back(config):
        return None
    namespace = "|".join(str(told.get("checkpoint_ns") or "").split("|")[:-1])  # the last is the hook's own
    since = str(config["metadata"]["checkpoint_id"])
    return _Place(saver, told.get("thread_id"), namespace, since, str((told.get("checkpoint_map") or {}).get("") or ""))


def _id(found: CheckpointTuple) -> str:
    """Ids of checkpoints are times, and sort as texts."""
    return str(found.checkpoint["id"])


def _namespace(found: CheckpointTuple) -> str:
    return str(found.config["configurable"].get("checkpoint_ns") or "")


def _path(namespace: str) -> list[str]:
    return [node.partition(":")[0] for node in namespace.split("|")]


def _last(found: CheckpointTuple) -> str | None:
    messages = found.checkpoint.get("channel_values", {}).get("messages") or [None]
    return getattr(messages[-1], "id", None)


def _note(found: CheckpointTuple, name: str) -> Mapping[str, Any] | None:
    return turn_note.note_of(found.checkpoint.get("channel_values"), name)
