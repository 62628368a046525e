"""Short term: the prompt prefix that the provider can cache, and what caching it is worth.

Reading order: ``rules.py`` (what providers charge and refuse), ``marks.py`` (the formula and its optimum),
``survival.py`` (how likely a prefix is found again), ``choice.py`` (one request's breakpoints), ``planner.py``
(``Prompts``, what users call) on ``conversation.py``, ``ledger.py`` (what was billed), ``explain.py`` (what broke).
"""

from shared_core.short_term.explain import Explanation
from shared_core.short_term.ledger import Ledger, Tokens, tokens_of
from shared_core.short_term.plan import Breakpoint, Expected, Plan
from shared_core.short_term.planner import Prompts
from shared_core.short_term.rules import RULES, ModelRules, is_anthropic

__all__ = [
    "RULES",
    "Breakpoint",
    "Expected",
    "Explanation",
    "Ledger",
    "ModelRules",
    "Plan",
    "Prompts",
    "Tokens",
    "is_anthropic",
    "tokens_of",
]
