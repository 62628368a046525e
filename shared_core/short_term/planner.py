"""``Prompts``: plans the request of a turn, so that the provider's prompt cache saves the most it can.

Here is the state: what each conversation sent last, what is alive at the provider, how often prefixes
survive. The decisions are in ``choice.py`` and ``marks.py``, the numbers in ``rules.py``. Nothing touches
disk or network; the state of a conversation is lost with the process and learned again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from shared_core import arguments
from shared_core.errors import InvalidInput
from shared_core.messages import Message, is_system, text_of
from shared_core.settings import Settings
from shared_core.short_term.blocks import Reader, copied
from shared_core.short_term.choice import bill
from shared_core.short_term.conversation import Conversation, Shared
from shared_core.short_term.explain import Explanation, explain
from shared_core.short_term.ledger import Ledger
from shared_core.short_term.plain import plain_plan
from shared_core.short_term.plan import Parts, Plan
from shared_core.short_term.rules import RULES, ModelRules, is_anthropic, is_bedrock, rules_for
from shared_core.short_term.step import Step
from shared_core.short_term.survival import Odds

_MOST_CONVERSATIONS = 256
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Prompts:
    """Plans requests, takes back what they used, explains what broke a prefix. Thread-safe.

    ``rules`` is the table of models, yours to change. Every method has an async twin with an ``a`` in front.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Callable[[], float],
        scope_of: Callable[[str | None], str],
        count_tokens: Callable[[str], int] | None = None,
        rules: Mapping[str, ModelRules] = RULES,
    ) -> None:
        self.rules: dict[str, ModelRules] = dict(rules)
        self.ledger = Ledger()
        self._clock = clock
        self._scope_of = scope_of
        self._reader = Reader(count_tokens if count_tokens is not None else settings.count_tokens)
        self._lock = threading.Lock()
        self._shared: OrderedDict[tuple[str, str], Shared] = OrderedDict()
        self._talks: OrderedDict[Hashable, Conversation] = OrderedDict()

    def plan(
        self,
        *,
        model: str,
        messages: Sequence[Message],
        system: str | Sequence[Mapping[str, Any]] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        session: str | None = None,
        scope: str | None = None,
        volatile: int | None = None,
        now: float | None = None,
        **settings: Any,
    ) -> Plan:
        """The request to send, with breakpoints where they pay; ``settings`` go along (``max_tokens=…``).

        ``volatile`` is the index of the first content block that changes every turn, counted over all messages
        from 0 (string content is one block). ``session`` names the conversation; without one it is recognised by
        its first message. Leading system messages join ``system``. Messages in OpenAI shape or another provider's
        model give a clean request without breakpoints. Raises InvalidInput, ScopeRequired. Nothing of the
        caller's is changed.
        """
        arguments.name("model", model)
        chosen = self._scope_of(scope)
        arguments.optional_name("session", session)
        at = self._clock() if now is None else arguments.instant("now", now)
        if isinstance(messages, str | Mapping):
            raise InvalidInput(f"messages: expected a list of messages, got {type(messages).__name__}")
        listed = messages if isinstance(messages, list) else list(messages)
        rules = rules_for(model, self.rules)
        plain = partial(
            plain_plan, model=model, messages=listed, system=system, tools=tools, session=session, scope=chosen,
            settings=settings, rules=rules, reader=self._reader,
        )  # fmt: skip
        if not is_anthropic(model) or any(
            "function" in tool for tool in tools or () if isinstance(tool, dict | Mapping)
        ):
            return plain()
        leading = 0
        while leading < len(listed) and isinstance(listed[leading], dict | Mapping) and is_system(listed[leading]):
            leading += 1
        named = session if session is not None else ("first", _opening(listed, leading))
        with self._lock:
            shared = _recent(self._shared, (chosen, model), lambda: Shared(model, self._family(chosen)))
            key = (chosen, model, named)
            talk = _recent(self._talks, key, lambda: Conversation(self._reader, shared.odds))
            head, led = talk.read_head(tools, system, listed[:leading], settings)
            step = Step(talk, shared, head, key=key, now=at, rules=rules, ratio=self.ledger.ratio(model))
            step.follow(listed[leading:] if leading else listed)
            if talk.tape.foreign:
                return plain()
            step.offer(_depth(volatile, led, len(talk.tape)))
            choice, marks, notes = step.decide(settings.get("cache_control"), explicit_only=is_bedrock(model))
            step.commit(choice)
            ends = [(mark.tokens, mark.ttl) for mark in marks]
            expected = bill(ends, step.tokens(choice.read), step.tokens(step.blocks), rules, choice.saving)
            tape = talk.tape
            parts = Parts(
                head.tools, head.system, tape.wires, tape.plain, tape.tokens, len(tape.wires), len(tape), tools is not None
            )  # fmt: skip
        sent = {name: copied(value) for name, value in settings.items() if name != "cache_control"}
        for mark in marks:
            if mark.by == "automatic":
                sent["cache_control"] = {"type": "ephemeral", "ttl": mark.ttl}
        return Plan(model, chosen, session, marks, expected, rules, notes, parts, sent)

    def record(self, usage: Any, *, plan: Plan) -> None:
        """Take what the provider billed (the response's ``usage``, an object or a dict of any provider) into the ledger."""
        self.ledger.record(usage, plan)

    def explain(
        self, request: Mapping[str, Any] | Plan, previous: Mapping[str, Any] | Plan | None = None
    ) -> Explanation:
        """The first byte where the request leaves the previous one, what that invalidates, and what is volatile in it."""
        return explain(request, previous)

    def clear_scope(self, scope: str) -> int:
        """Forget what the conversations of a scope sent; return how many there were."""
        arguments.scope("scope", scope)
        with self._lock:
            for key in [key for key in self._shared if key[0] == scope]:
                del self._shared[key]
            gone = [talk for talk in self._talks if isinstance(talk, tuple) and talk[0] == scope]
            for talk in gone:
                del self._talks[talk]
        return len(gone)

    def stats(self) -> dict[str, Any]:
        """Tokens read, written and not cached, money, hits against what the plans expected, break-even; since opening."""
        return self.ledger.stats()

    def _family(self, scope: str) -> dict[str, Odds]:
        """What is known of the scope's other models."""
        return next((shared.family for (of, _), shared in self._shared.items() if of == scope), {})

    async def aplan(self, **arguments_of_plan: Any) -> Plan:
        """``plan``; it answers directly, since nothing touches disk."""
        return self.plan(**arguments_of_plan)

    async def arecord(self, usage: Any, *, plan: Plan) -> None:
        """``record``."""
        self.record(usage, plan=plan)

    async def aexplain(
        self, request: Mapping[str, Any] | Plan, previous: Mapping[str, Any] | Plan | None = None
    ) -> Explanation:
        """``explain``."""
        return self.explain(request, previous)

    async def astats(self) -> dict[str, Any]:
        """``stats``."""
        return self.stats()


def _recent(table: OrderedDict[K, T], key: K, make: Callable[[], T]) -> T:
    """The table's value for the key, made if there is none; the least recently used one leaves a full table."""
    if key not in table:
        table[key] = make()
        if len(table) > _MOST_CONVERSATIONS:
            table.popitem(last=False)
    table.move_to_end(key)
    return table[key]


def _opening(messages: Sequence[Any], leading: int) -> str:
    """What a conversation without a name is recognised by."""
    first = messages[leading] if leading < len(messages) else None
    return text_of(first) if isinstance(first, Mapping) else ""


def _depth(volatile: int | None, led: int, blocks: int) -> int | None:
    """The depth in the messages at which the stable part ends, from an index over all messages' blocks."""
    if volatile is None:
        return None
    if arguments.count("volatile", volatile) > led + blocks:
        raise InvalidInput(f"volatile: expected the index of a content block, at most {led + blocks}, got {volatile}")
    return max(volatile - led, 0)
