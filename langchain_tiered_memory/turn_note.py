"""What an agent's state keeps of the current turn: whose it is, and memory ids with a hash, never a text. Pure.

One private entry of the state holds a note per middleware name. It survives a checkpointer, so a turn that is
interrupted, resumed in another process or replayed finds what it recalled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import AgentState
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tiered_memory import blocks
from shared_core import Turn
from shared_core.mid_term.context import ROOT

_KEY = "tiered_memory"
_PLACE = ("scope", "session", "message", "writer", "head")


def _merged(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {**before, **after}  # two middlewares may write their notes in one step


class TieredMemoryState(AgentState[Any]):
    """The agent's state with the notes in a private entry: neither input nor output shows it.

    ``stream_mode="values"`` shows it like any other private one, unless ``output_keys`` names others: LangGraph reads no
    annotation there, and an entry that it does not stream would not be kept by a checkpointer.
    """

    tiered_memory: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, _merged]]


@dataclass(frozen=True, slots=True)
class Opening:
    """The start of a turn: whose it is, the user's newest message, and what the prompt shows already.

    ``shown`` are texts, ``ids`` the ids of all messages, ``head`` where the log stood when the thread was last here,
    ``writer`` the key under which the thread logs, ``leaves`` the key of a branch that it is not on any more, ``since``
    the message from which on nothing is logged yet (an earlier one where the turn before never came to its end),
    ``earlier`` the entries of earlier turns that requests still have to show (``blocks.py``).
    """

    scope: str
    session: str
    message: str
    query: str
    shown: tuple[str, ...]
    ids: tuple[str, ...]
    head: str | None
    writer: str
    since: str
    earlier: tuple[dict[str, Any], ...] = ()
    leaves: str | None = None

    @property
    def moves(self) -> list[tuple[str, str | None]]:
        """Who goes back or on, and where to: (writer, head)."""
        return [(self.writer, self.head), *([(self.leaves, ROOT)] if self.leaves is not None else [])]


@dataclass(frozen=True, slots=True)
class Left:
    """The note at the end of the branch that is left, and that of the turn after which the run goes on; None if none.

    The second is looked for in a node's agent alone, and tells whose that turn was and where its log stood.
    """

    note: Mapping[str, Any] | None
    stood: Mapping[str, Any] | None = None
    is_node: bool = False


def note_of(state: Any, name: str) -> dict[str, Any] | None:
    """The note of the middleware with this name, or None."""
    notes = state.get(_KEY) if isinstance(state, Mapping) else None
    return (notes or {}).get(name)


def digests(state: Any) -> frozenset[str]:
    """The hashes of the blocks that were recalled for the present turn, of every middleware in the agent."""
    notes = state.get(_KEY) if isinstance(state, Mapping) else None
    return frozenset(note["digest"] for note in (notes or {}).values() if "digest" in note)


def noted(state: Mapping[str, Any], name: str, note: Mapping[str, Any]) -> dict[str, Any]:
    """The state update that puts the note in the place of the old one."""
    return {_KEY: {**(state.get(_KEY) or {}), name: dict(note)}}


def newest_message(state: Mapping[str, Any]) -> HumanMessage | None:
    """The user's newest message; None if there is none to answer."""
    found = next((m for m in reversed(state["messages"]) if isinstance(m, HumanMessage)), None)
    return None if found is None or found.id is None else found


def opened(
    state: Mapping[str, Any],
    message: HumanMessage,
    known: Mapping[str, Any] | None,
    scope: str,
    session: str,
    writer: str,
    left: Left | None = None,
) -> Opening:
    """The opening of a turn about this message; ``known`` is the note of the turn before.

    Several agents may share a session. What tells this one's messages is ``writer`` and the message that the state
    began with: also where it is taken up from before its first turn had ended, and has no note yet. ``left`` tells of a
    branch that was left by going back to where the state has no note. A thread's key goes on, from the beginning;
    in an agent that is a node, each branch has its own.
    """
    note = None if left is None else left.note
    if left is not None and left.is_node:
        known = None if left.stood is None else {k: left.stood[k] for k in _PLACE if k in left.stood}
    begins = known is None and not any(isinstance(m, AIMessage) for m in state["messages"])
    keyed = known if known is not None or (left is not None and left.is_node) else note
    first = state["messages"][0]
    began = _hash(f"{writer}\0{first.id}\0{first.text}")
    same = known is not None and _is_of(known, scope, session)
    ids = ids_of(state["messages"])
    key = keyed.get("writer", began) if keyed is not None and _is_of(keyed, scope, session) else began
    other = note.get("writer") if note is not None and _is_of(note, scope, session) else None
    unlogged = known.get("since") if known is not None and same else None
    return Opening(
        scope=scope,
        session=session,
        message=message.id or "",
        query=message.text,
        shown=tuple(m.text for m in state["messages"] if isinstance(m, HumanMessage | AIMessage)),
        ids=ids,
        head=ROOT if begins else known.get("head") if known is not None and same else None,
        writer=key,
        leaves=None if other == key else other,
        since=unlogged if unlogged in ids else message.id or "",
        earlier=() if known is None else blocks.carried(known, state["messages"], message.id, same=same),
    )


def is_about(note: Mapping[str, Any], message: HumanMessage, scope: str) -> bool:
    """Whether the turn of this note is the one about this message, as it reads now."""
    asked = note.get("asked")
    same = (note["message"], note["scope"]) == (message.id, scope)
    return same and (asked is None or asked == _hash(message.text))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _is_of(note: Mapping[str, Any], scope: str, session: str) -> bool:
    return (note["scope"], note["session"]) == (scope, session)


def note(opening: Opening, turn: Turn | None, *, remember: bool) -> dict[str, Any]:
    """What is kept of a turn that has begun. ``remember``: whether it will be logged."""
    kept: dict[str, Any] = {
        "scope": opening.scope, "session": opening.session, "message": opening.message, "writer": opening.writer,
    }  # fmt: skip
    kept["asked"] = _hash(opening.query)
    if opening.head is not None:
        kept["head"] = opening.head
    if remember:
        kept["since"] = opening.since
    if opening.earlier:
        kept["earlier"] = list(opening.earlier)
    if turn is not None and turn.block:
        kept |= {"ids": list(turn.ids), "digest": turn.digest}
    return kept


def ended(note: Mapping[str, Any], **facts: Any) -> dict[str, Any]:
    """The note of a turn whose end was written, or could not be: the next one starts with its own message."""
    return {**{name: value for name, value in note.items() if name != "since"}, **facts}


def ids_of(messages: Sequence[BaseMessage]) -> tuple[str, ...]:
    """The ids of the messages that have one."""
    return tuple(m.id for m in messages if m.id is not None)


def since(messages: Sequence[BaseMessage], id: str) -> Sequence[BaseMessage]:
    """The messages of a turn: from the user's message on, with those the user sent right before it.

    A message that was replaced meanwhile is the user's last one; after a summary took its place, what came since is left.
    """
    start = next((i for i in reversed(range(len(messages))) if messages[i].id == id), None)
    if start is None:
        start = next(
            (i for i in reversed(range(len(messages))) if isinstance(messages[i], HumanMessage)), len(messages)
        )
        return messages[start + 1 if start < len(messages) and is_summary(messages[start]) else start :]
    while start and isinstance(messages[start - 1], HumanMessage) and not is_summary(messages[start - 1]):
        start -= 1
    return messages[start:]


def is_summary(message: BaseMessage) -> bool:
    """Whether it stands for messages that LangChain's ``SummarizationMiddleware`` took out: no user said it."""
    return message.additional_kwargs.get("lc_source") == "summarization"
