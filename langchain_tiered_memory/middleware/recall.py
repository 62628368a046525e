"""``TieredRecallMiddleware``: an agent of ``create_agent`` recalls at the start of a turn and remembers at its end.

One turn is one user message: recall once, the block frozen for every model call of the turn, the turn
remembered at its end. The rules are ``shared_core/turn.py``; here is where the framework calls them. What is
recalled stands in no message of the state: the state keeps memory ids and a hash, and the text enters a copy of
the request, at the end of the user's message.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse
from langgraph.runtime import Runtime
from langgraph.types import Command

from langchain_tiered_memory import blocks, branches, convert, turn_note
from langchain_tiered_memory.blocks import Entry
from langchain_tiered_memory.owner import Named, check_session, given_name, scope_of, session_of, writer_of
from langchain_tiered_memory.turn_note import TieredMemoryState
from shared_core import InvalidInput, TieredMemory, check_memory, open_again

_log = logging.getLogger(__name__)
_MOST_HELD = 256


class TieredRecallMiddleware(AgentMiddleware[TieredMemoryState, Any, Any]):
    """Recall at the start of each turn, and remembering at its end.

    - ``scope``: a string, or a function of the runtime (``lambda runtime: runtime.context.user_id``); None is the
      memory's default scope, and ScopeRequired without one.
    - ``session``: the same; None is the thread id. Both are resolved once per turn.
    - ``remember``: log each turn and remember what the user and the model said. A thread that is taken up again
      from an earlier checkpoint takes the log with it: what the abandoned branch remembered is not recalled there.
      A turn that broke off is remembered with the next one of its thread. Of one that ``SummarizationMiddleware`` cut
      short while it went on, the question and what came after the summary are.
      Of agents that share a thread (or one that is another's tool) each goes back alone: the others' turns stay.
    - ``on_write_error``: ``"warn"`` logs a turn that could not be remembered and counts it in ``counts``
      (``write_failures``); ``"raise"`` lets the agent fail. Reads that fail never reach the agent.
    - ``name``: for two of them in one agent.

    Without memories to recall the request is passed on as it came. The block of an earlier turn is shown again,
    the same byte for byte, if the model thought in that turn, since its thinking is bound to what stood before it.
    A block that cannot be made again (a memory was forgotten) is dropped for good, counted (``blocks_dropped``),
    and what was thought up to then is left out whole.
    """

    state_schema = TieredMemoryState

    def __init__(
        self,
        memory: TieredMemory,
        *,
        scope: Named = None,
        session: Named = None,
        remember: bool = True,
        on_write_error: str = "warn",
        name: str | None = None,
    ) -> None:
        super().__init__()
        check_memory(memory, scope)
        check_session(session)
        if on_write_error not in ("warn", "raise"):
            raise InvalidInput(f"on_write_error: expected 'warn' or 'raise', got {on_write_error!r}")
        self._memory = memory
        self._scope = scope
        self._session = session
        self._remember = remember
        self._follows = remember and session is None  # one log for one thread: it goes back when the thread does
        self._raises = on_write_error == "raise"
        self._name = name or type(self).__name__
        self._held: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        self.counts: Counter[str] = Counter()

    name = given_name
    __reduce__ = open_again

    # The turn begins: recall once

    def before_agent(self, state: TieredMemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Recall for the user's newest message; keep the ids of what came."""
        left = branches.left(self._name, state["messages"]) if self._follows and self._note(state) is None else None
        opening = self._opening(state, runtime, left)
        if opening is None:
            return None
        self._hold(state, opening)
        turns, where = self._memory.turns, {"session": opening.session, "scope": opening.scope}
        for writer, head in opening.moves if self._follows else ():
            turns.rejoin(opening.ids, head=head, writer=writer, **where)
        turn = turns.begin(opening.query, shown_texts=opening.shown, **where) if opening.query.strip() else None
        return turn_note.noted(state, self._name, turn_note.note(opening, turn, remember=self._remember))

    async def abefore_agent(self, state: TieredMemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """``before_agent`` off the event loop."""
        left = (
            await branches.aleft(self._name, state["messages"]) if self._follows and self._note(state) is None else None
        )
        opening = self._opening(state, runtime, left)
        if opening is None:
            return None
        self._hold(state, opening)
        turns, where = self._memory.turns, {"session": opening.session, "scope": opening.scope}
        for writer, head in opening.moves if self._follows else ():
            await turns.arejoin(opening.ids, head=head, writer=writer, **where)
        turn = await turns.abegin(opening.query, shown_texts=opening.shown, **where) if opening.query.strip() else None
        return turn_note.noted(state, self._name, turn_note.note(opening, turn, remember=self._remember))

    def _opening(
        self, state: TieredMemoryState, runtime: Runtime[Any], left: turn_note.Left | None
    ) -> turn_note.Opening | None:
        """None when there is nothing new to answer: the turn goes on with what it recalled."""
        scope = scope_of(self._memory, self._scope, runtime)
        message, known = turn_note.newest_message(state), self._note(state)
        if message is None or (known is not None and turn_note.is_about(known, message, scope)):
            return None
        session, writer = session_of(self._session, runtime), writer_of(self._name, runtime, new=known is None)
        return turn_note.opened(state, message, known, scope, session, writer, left)

    def _note(self, state: Any) -> dict[str, Any] | None:
        return turn_note.note_of(state, self._name)

    # Each model call: the same blocks at the same places

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Hand the model the user's message with the recalled block at its end, in a copy of the request."""
        note = self._note(request.state)
        entries = blocks.entries(note)
        if note is None or not entries:
            return handler(request)
        shown = self._made_again(note, entries)
        return self._noting(note, request, shown, handler(_showing(request, shown)))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """``wrap_model_call`` off the event loop."""
        note = self._note(request.state)
        entries = blocks.entries(note)
        if note is None or not entries:
            return await handler(request)
        shown = await asyncio.to_thread(self._made_again, note, entries)
        return self._noting(note, request, shown, await handler(_showing(request, shown)))

    def _made_again(self, note: Mapping[str, Any], entries: Sequence[Entry]) -> list[tuple[Entry, str | None]]:
        """Each entry with its block, the same byte for byte, or None."""
        where = {"session": note["session"], "scope": note["scope"]}
        turns = [self._memory.turns.restore(e["ids"], e["digest"], **where) if "digest" in e else None for e in entries]
        return [(entry, None if turn is None else turn.block) for entry, turn in zip(entries, turns, strict=True)]

    def _noting(
        self,
        note: Mapping[str, Any],
        request: ModelRequest[Any],
        shown: Sequence[tuple[Entry, str | None]],
        response: ModelResponse[Any],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """The response; with it, a block that could not be made again leaves the state, so that it stays out."""
        lost = [entry for entry, block in shown if block is None and "digest" in entry]
        if not lost:
            return response
        self.counts["blocks_dropped"] += len(lost)
        after = blocks.without(note, lost, _last_id(request))
        return ExtendedModelResponse(response, Command(update=turn_note.noted({}, self._name, after)))

    # The turn ends: remember it

    def after_agent(self, state: TieredMemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Log the turn and remember what was said. A replayed step adds nothing."""
        note = self._note(state)
        if not self._remember or note is None:
            return None
        turns, where = self._memory.turns, {"session": note["session"], "scope": note["scope"]}
        writer = note.get("writer")
        try:
            if self._follows:
                turns.rejoin(turn_note.ids_of(state["messages"]), head=note.get("head"), writer=writer, **where)
            turns.end(self._said(state, note), recalled=note.get("ids", ()), writer=writer, **where)
            head = self._memory.context(**where).snapshot()
        except Exception as error:  # noqa: BLE001  the user chose what a failed write may do
            self._unwritten(error)
            return turn_note.noted(state, self._name, turn_note.ended(note))
        return turn_note.noted(state, self._name, turn_note.ended(note, head=head))

    async def aafter_agent(self, state: TieredMemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """``after_agent`` off the event loop."""
        note = self._note(state)
        if not self._remember or note is None:
            return None
        turns, where = self._memory.turns, {"session": note["session"], "scope": note["scope"]}
        writer = note.get("writer")
        try:
            if self._follows:
                await turns.arejoin(turn_note.ids_of(state["messages"]), head=note.get("head"), writer=writer, **where)
            await turns.aend(self._said(state, note), recalled=note.get("ids", ()), writer=writer, **where)
            head = await self._memory.context(**where).asnapshot()
        except Exception as error:  # noqa: BLE001  the user chose what a failed write may do
            self._unwritten(error)
            return turn_note.noted(state, self._name, turn_note.ended(note))
        return turn_note.noted(state, self._name, turn_note.ended(note, head=head))

    def _said(self, state: TieredMemoryState, note: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The turn's messages; those that a summary took out within the turn are held by the process that opened it."""
        messages, first = state["messages"], note.get("since", note["message"])
        held = self._held.pop((note["scope"], note["session"], note.get("writer"), first), [])
        said = [convert.plain(message) for message in turn_note.since(messages, first)]
        summed_up = first not in turn_note.ids_of(messages) and any(map(turn_note.is_summary, messages))
        return [*held, *said] if summed_up else said

    def _hold(self, state: TieredMemoryState, opening: turn_note.Opening) -> None:
        if not self._remember:
            return
        for stale in list(self._held)[: 1 - _MOST_HELD]:  # turns that never came to their end in this process
            self._held.pop(stale, None)
        said = [convert.plain(message) for message in turn_note.since(state["messages"], opening.since)]
        self._held[opening.scope, opening.session, opening.writer, opening.since] = said

    def _unwritten(self, error: Exception) -> None:
        if self._raises:
            raise error
        self.counts["write_failures"] += 1
        _log.warning("the turn could not be remembered: %s", error)


def _showing(request: ModelRequest[Any], shown: Sequence[tuple[Entry, str | None]]) -> ModelRequest[Any]:
    last = _last_id(request)
    settled = [
        (blocks.gone(entry, last) if block is None and "digest" in entry else entry, block) for entry, block in shown
    ]
    return request.override(messages=blocks.placed(request.messages, settled))


def _last_id(request: ModelRequest[Any]) -> str | None:
    return next((m.id for m in reversed(request.messages) if m.id is not None), None)
