"""What was said about the tools there are, and which call an invocation is. Executes nothing, keeps no result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from shared_core.errors import InvalidInput
from shared_core.mid_term import tools
from shared_core.mid_term.invalidation import Reach
from shared_core.mid_term.keys import argument_digests, arguments_key, call_name, digest
from shared_core.mid_term.tool_calls import Prepared
from shared_core.mid_term.tool_counts import ToolCounts
from shared_core.mid_term.tool_entry import Call, default_digests
from shared_core.mid_term.tools import Policy


class KnownTools:
    """Policies and default arguments by name; ``rewinding`` are the names whose results go with a rewind."""

    def __init__(self, scope_of: Callable[[str | None], str], counts: ToolCounts) -> None:
        self._scope_of = scope_of
        self._counts = counts
        self._policies: dict[str, Policy] = {}
        self._defaults: dict[str, tuple[tools.Defaults, ...]] = {}
        self.rewinding: set[str] = set()

    def register(self, name: str, policy: Policy) -> None:
        """Replace what was said about the name."""
        self._policies[name] = policy
        self.rewinding.discard(name)
        if policy.rewinds:
            self.rewinding.add(name)

    def wrapped(self, name: str, policy: Policy, defaults: tools.Defaults) -> None:
        """A function was wrapped under the name, maybe not the first: what holds for that one is not taken back."""
        self._policies[name] = policy
        self._learn(name, defaults)
        if policy.rewinds:
            self.rewinding.add(name)

    def _learn(self, name: str, defaults: tools.Defaults) -> None:
        known = self._defaults.get(name, ())
        if not any(_same(defaults, one) for one in known):
            self._defaults[name] = (*known[1 - tools.MOST_DEFAULTS :], defaults)

    def policy(self, name: str) -> Policy | None:
        """What was said about the name last, or None."""
        return self._policies.get(name)

    def calls(self, name: str, args: Mapping[str, Any], noted: Iterable[Mapping[str, str]]) -> list[str]:
        """The calls that may have had these arguments, in whatever scope, as an event names them.

        One for the arguments as they are, and one with each of the defaults that are known here or whose digests were
        ``noted`` elsewhere; none if such a call is never kept.
        """
        policy = self._policies.get(name, tools.UNKNOWN)
        known = [dict(one) for one in self._defaults.get(name, ())]
        try:
            if policy.key is not None:
                return list({digest(name, arguments_key({**one, **args}, policy.key)) for one in known or [{}]})
            given = argument_digests(args)
        except InvalidInput:
            return []
        return list({call_name(name, {**one, **given}) for one in ({}, *map(default_digests, known), *noted)})

    def prepare(
        self,
        name: str,
        args: Mapping[str, Any],
        defaults: tools.Defaults,
        scope: str | None,
        policy: Policy | None = None,
        form: str = "",
        readable: Callable[[Any], bool] | None = None,
    ) -> tuple[Prepared, Call | None]:
        """What is known before anything runs. The call is None if it is to be executed whatever is kept."""
        scope = self._scope_of(scope)
        policy = policy or self._policies.get(name, tools.UNKNOWN)
        if name in self._policies:
            self._learn(name, defaults)
        full = {**dict(defaults), **args}
        space = policy.space_of(scope)
        call = None
        try:
            text = arguments_key(full, policy.key)
        except Exception as error:  # noqa: BLE001  the arguments' own code runs here; whatever it raises, there is no key
            if policy.kept:
                self._counts.has_no_key(name, error)
            return Prepared(name, policy, full, space), None
        self._counts.called((digest(name, text), scope), name, text)
        if policy.kept:
            try:
                reach = Reach(name, "", space, scope, tools.resources(policy.reads, full))
                key = digest(name, text, policy.version, policy.identity, form, space, scope)
                keyed = digest(name, text) if policy.key is not None else None
                call = Call(key, reach, policy, full, defaults, keyed, readable=readable)
            except tools.UnclearResources as unclear:
                self._counts.unclear(name, str(unclear))
        return Prepared(name, policy, full, space), call


def _same(one: tools.Defaults, other: tools.Defaults) -> bool:
    """Whether they are the same objects: what a default is equal to is for its own code to say."""
    return one is other or (
        len(one) == len(other) and all(a == b and x is y for (a, x), (b, y) in zip(one, other, strict=True))
    )
