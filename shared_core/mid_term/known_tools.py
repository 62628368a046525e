"""What was said about the tools there are, and which call an invocation is. Executes nothing, keeps no result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared_core.errors import InvalidInput
from shared_core.mid_term import tools
from shared_core.mid_term.invalidation import Reach
from shared_core.mid_term.keys import arguments_key, digest
from shared_core.mid_term.tool_calls import Prepared
from shared_core.mid_term.tool_counts import ToolCounts
from shared_core.mid_term.tool_entry import Call
from shared_core.mid_term.tools import Policy


class KnownTools:
    """Policies and default arguments by name; ``rewinding`` are the names whose results go with a rewind."""

    def __init__(self, scope_of: Callable[[str | None], str], counts: ToolCounts) -> None:
        self._scope_of = scope_of
        self._counts = counts
        self._policies: dict[str, Policy] = {}
        self._defaults: dict[str, tools.Defaults] = {}
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
        self._defaults[name] = defaults
        if policy.rewinds:
            self.rewinding.add(name)

    def policy(self, name: str) -> Policy | None:
        """What was said about the name last, or None."""
        return self._policies.get(name)

    def call(self, name: str, args: Mapping[str, Any]) -> str | None:
        """The call with these arguments, in whatever scope, as an event names it; None if it is never kept."""
        policy = self._policies.get(name, tools.UNKNOWN)
        try:
            text = arguments_key({**dict(self._defaults.get(name, ())), **args}, policy.key)
        except InvalidInput:
            return None
        return digest(name, text)

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
            self._defaults[name] = defaults
        full = {**dict(defaults), **args}
        space = policy.space_of(scope)
        call = None
        try:
            text = arguments_key(full, policy.key)
        except Exception:  # noqa: BLE001  the arguments' own code runs here; whatever it raises, there is no key
            return Prepared(name, policy, full, space), None
        made = digest(name, text)
        self._counts.called((made, scope), name, text)
        if policy.kept:
            try:
                reach = Reach(name, made, space, scope, tools.resources(policy.reads, full))
                key = digest(made, policy.version, policy.identity, form, space, scope)
                call = Call(key, reach, policy, readable=readable)
            except tools.UnclearResources as unclear:
                self._counts.unclear(name, str(unclear))
        return Prepared(name, policy, full, space), call
