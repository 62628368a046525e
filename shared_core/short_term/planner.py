"""``Prompts``: plans the request of a turn, so that the provider's prompt cache saves the most it can.

Here is the state: what each conversation sent last, what is alive at the provider, how often prefixes
survive. The decisions are in ``choice.py`` and ``marks.py``, the numbers in ``rules.py``. Nothing touches
disk or network; the state of a conversation is lost with the process and learned again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from shared_core import arguments
from shared_core.errors import InvalidInput
from shared_core.messages import Message, is_system, text_of
from shared_core.settings import Settings
from shared_core.short_term.blocks import Reader, copied
from shared_core.short_term.choice import bill
from shared_core.short_term.conversation import Conversation, Shared, Talks
from shared_core.short_term.explain import Explanation, explain
from shared_core.short_term.ledger import Ledger
from shared_core.short_term.plain import plain_plan
from shared_core.short_term.plan import Parts, Plan
from shared_core.short_term.rules import RULES, ModelRules, is_anthropic, is_bedrock, rules_for
from shared_core.short_term.step import Step
from shared_core.short_term.survival import Odds

_MOST_SCOPES = 256


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
        self._talks = Talks()

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
        its first message. Several that go by one name (an agent and its sub-agents, branches) are told apart by what they
        said last. Leading system messages join ``system``. Messages in OpenAI shape or another provider's
        model give a clean request without breakpoints. Raises InvalidInput, ScopeRequired. Nothing of the
        caller's is changed.
        """
        arguments.name("model", model)
        chosen = self._scope_of(scope)
        arguments.optional_name("session", session)
        at = self._clock() if now is None else arguments.instant("now", now)
        listed = _listed("messages: expected a list of messages", messages)
        tools = None if tools is None else _listed("tools: expected a list of dicts as in the Messages API", tools)
        if system is not None and not isinstance(system, str):
            system = _listed("system: expected a string or a list of content blocks", system)
        rules = rules_for(model, self.rules)

        def plain() -> Plan:
            return plain_plan(
                model=model, messages=listed, system=system, tools=tools, session=session, scope=chosen,
                settings=settings, rules=rules, reader=self._reader,
            )  # fmt: skip

        if not is_anthropic(model) or any("function" in tool for tool in tools or () if _is_mapping(tool)):
            return plain()
        leading = 0
        while leading < len(listed) and _is_mapping(listed[leading]) and is_system(listed[leading]):
            leading += 1
        said = listed[leading:] if leading else listed
        with self._lock:
            shared = self._in_common(chosen, model)
            named = session if session is not None else ("first", _opening(said))
            key, talk = self._talks.find((chosen, model, named), said, lambda: Conversation(self._reader, shared.odds))
            head, led = talk.read_head(tools, system, listed[:leading], settings)
            step = Step(talk, shared, head, key=key, now=at, rules=rules, ratio=self.ledger.ratio(model))
            step.follow(said)
            if talk.tape.foreign:
                return plain()
            step.offer(_depth(volatile, led, len(talk.tape)))
            choice, marks, notes = step.decide(settings.get("cache_control"), explicit_only=is_bedrock(model))
            step.commit(choice)
            ends = [(mark.tokens, mark.ttl) for mark in marks]
            expected = bill(ends, step.tokens(choice.read), step.tokens(step.blocks), rules, choice.saving)
            tape = talk.tape
            parts = Parts(
                head.tools, head.system, tape.wires, tape.inner, tape.tokens, len(tape.wires), len(tape), tools is not None
            )  # fmt: skip
        sent = {name: copied(value) for name, value in settings.items() if name != "cache_control"}
        for mark in marks:
            if mark.by == "automatic":
                sent["cache_control"] = {"type": "ephemeral", "ttl": mark.ttl}
        return Plan(model, chosen, session, marks, expected, rules, notes, parts, sent)

    def _in_common(self, scope: str, model: str) -> Shared:
        """What the conversations of a scope with a model have in common; the least recently used is forgotten."""
        key = (scope, model)
        if key not in self._shared:
            self._shared[key] = Shared(model, self._family(scope))
            if len(self._shared) > _MOST_SCOPES:
                self._shared.popitem(last=False)
        self._shared.move_to_end(key)
        return self._shared[key]

    def record(self, usage: Any, *, plan: Plan) -> None:
        """Take what the provider billed into the ledger: the response or its ``usage``, an object or a dict of any provider.

        Each call is one more response. InvalidInput for what is no usage or no plan; nothing is counted then.
        """
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
            for known in [known for known in self._shared if known[0] == scope]:
                del self._shared[known]
            return self._talks.forget(scope)

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


def _listed(expected: str, given: Any) -> list[Any]:
    """The list given, or a list of what another iterable gives, once."""
    if isinstance(given, list):
        return given
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidInput(f"{expected}, got {type(given).__name__} {given!r:.200}")
    return list(given)


def _is_mapping(value: Any) -> bool:
    return type(value) is dict or isinstance(value, Mapping)


def _opening(messages: Sequence[Any]) -> str:
    """What a conversation without a name begins with."""
    first = messages[0] if messages else None
    return text_of(first) if isinstance(first, Mapping) else ""


def _depth(volatile: int | None, led: int, blocks: int) -> int | None:
    """The depth in the messages at which the stable part ends, from an index over all messages' blocks."""
    if volatile is None:
        return None
    if arguments.count("volatile", volatile) > led + blocks:
        raise InvalidInput(f"volatile: expected the index of a content block, at most {led + blocks}, got {volatile}")
    return max(volatile - led, 0)
