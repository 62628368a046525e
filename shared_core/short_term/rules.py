"""What providers charge for cached prompts and what they refuse: a dated table of data, and how a model finds its row.

No decisions here. Prices, minimums and multipliers move: correct a row without waiting for a release with
``memory.prompts.rules["claude-sonnet-5"] = ModelRules(min_tokens=1024, usd_per_mtok=2.0)``.
Source: the provider's pages on prompt caching and on pricing, as of ``AS_OF``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

Ttl = Literal["5m", "1h"]
Level = Literal["tools", "system", "messages"]

AS_OF: Final = "2026-10-24"
TTL_SECONDS: Final[Mapping[Ttl, float]] = {"5m": 300.0, "1h": 3600.0}
MOST_BREAKPOINTS: Final = 4
LOOKBACK_POSITIONS: Final = 20
"""A breakpoint finds an entry at its own position or at most 19 before it: the breakpoint is the first of twenty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRules:
    """One model's row. Multipliers are of the base input price; ``usd_per_mtok`` is that price, None if unknown.

    The defaults are the safe ones for a model nobody has described: the highest minimum in use, and the
    multipliers that most models have. ``long_prompt_tokens``: a request above it costs ``long_prompt_usd_per_mtok``.
    """

    min_tokens: int = 4096
    usd_per_mtok: float | None = None
    read: float = 0.1
    write_5m: float = 1.25
    write_1h: float = 2.0
    long_prompt_tokens: int | None = None
    long_prompt_usd_per_mtok: float | None = None

    def write(self, ttl: Ttl) -> float:
        """The write multiplier of a lifetime."""
        return self.write_1h if ttl == "1h" else self.write_5m

    def usd(self, base_tokens: float, *, prompt_tokens: int) -> float | None:
        """Dollars for an amount in base input tokens, billed within a prompt of this length; None if unpriced."""
        price = self.usd_per_mtok
        if self.long_prompt_tokens is not None and prompt_tokens > self.long_prompt_tokens:
            price = self.long_prompt_usd_per_mtok
        return None if price is None else base_tokens * price / 1e6

    def break_even_uses(self, ttl: Ttl) -> float:
        """Uses within one lifetime above which caching is cheaper: w + (n - 1) r < n, so n > (w - r) / (1 - r)."""
        return (self.write(ttl) - self.read) / (1 - self.read)

    def break_even_survival(self, ttl: Ttl) -> float:
        """Survival above which marking on every request is cheaper: r P + w (1 - P) < 1, so P > (w - 1) / (w - r)."""
        return (self.write(ttl) - 1) / (self.write(ttl) - self.read)


UNKNOWN: Final = ModelRules()

RULES: Final[Mapping[str, ModelRules]] = {
    "claude-fable-5": ModelRules(min_tokens=512, usd_per_mtok=10.0),
    "claude-fable-5-1": ModelRules(min_tokens=512, usd_per_mtok=10.0, read=0.025),
    "claude-mythos-5": ModelRules(min_tokens=512, usd_per_mtok=10.0),
    "claude-mythos-5-1": ModelRules(min_tokens=512, usd_per_mtok=10.0, read=0.025),
    "claude-mythos-preview": ModelRules(min_tokens=2048),
    "claude-opus-5-5": ModelRules(min_tokens=512, usd_per_mtok=4.0, read=0.05),
    "claude-opus-5": ModelRules(min_tokens=512, usd_per_mtok=5.0),
    "claude-opus-4-8": ModelRules(min_tokens=1024, usd_per_mtok=5.0),
    "claude-opus-4-7": ModelRules(min_tokens=2048, usd_per_mtok=5.0),
    "claude-opus-4-6": ModelRules(min_tokens=4096, usd_per_mtok=5.0),
    "claude-opus-4-5": ModelRules(min_tokens=4096, usd_per_mtok=5.0),
    "claude-opus-4-1": ModelRules(min_tokens=1024, usd_per_mtok=15.0),
    "claude-opus-4": ModelRules(min_tokens=1024, usd_per_mtok=15.0),
    "claude-sonnet-5-5": ModelRules(min_tokens=512, usd_per_mtok=2.0, read=0.05),
    "claude-sonnet-5": ModelRules(min_tokens=1024, usd_per_mtok=2.0),
    "claude-sonnet-4-6": ModelRules(min_tokens=1024, usd_per_mtok=3.0),
    "claude-sonnet-4-5": ModelRules(min_tokens=1024, usd_per_mtok=3.0),
    "claude-sonnet-4": ModelRules(min_tokens=1024, usd_per_mtok=3.0),
    "claude-haiku-5-5": ModelRules(
        min_tokens=512, usd_per_mtok=0.1, long_prompt_tokens=100_000, long_prompt_usd_per_mtok=0.5
    ),
    "claude-haiku-4-5": ModelRules(min_tokens=4096, usd_per_mtok=1.0),
    "claude-haiku-3-5": ModelRules(min_tokens=2048, usd_per_mtok=0.8),
    "claude-3-5-haiku": ModelRules(min_tokens=2048, usd_per_mtok=0.8),
    # Another cloud's table names a higher minimum for this model, and measurements there agree with it.
    "anthropic.claude-sonnet-4-6": ModelRules(min_tokens=2048, usd_per_mtok=3.0),
}

SETTING_LEVELS: Final[Mapping[str, Level]] = {
    "speed": "system",
    "tool_choice": "messages",
    "disable_parallel_tool_use": "messages",
    "thinking": "messages",
    "output_config": "messages",
}
"""The first level that a change of this request setting invalidates; a setting not named here invalidates nothing."""

MARKABLE_KINDS: Final = frozenset(
    {
        "text", "image", "document", "tool_use", "tool_result", "search_result", "server_tool_use", "mcp_tool_use",
        "mcp_tool_result", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result",
        "bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "tool_search_tool_result",
        "advisor_tool_result", "tool_addition", "tool_removal", "mid_conv_system", "container_upload", "compaction",
    }
)  # fmt: skip
"""Kinds of content block that take a breakpoint. Thinking takes none; a kind not named here is left alone."""


def rules_for(model: str, table: Mapping[str, ModelRules] = RULES) -> ModelRules:
    """The row of a model: the longest name of the table found in the model's id, else ``UNKNOWN``.

    Dates, regions and clouds around a name do not matter, nor whether a version is written 4-6 or 4.6; another version
    number does: ``claude-fable-5-2`` is not ``claude-fable-5``.
    """
    name = _row(model, tuple(table))
    return UNKNOWN if name is None else table[name]


def is_anthropic(model: str) -> bool:
    """Whether the model takes Anthropic's breakpoints."""
    return "claude" in model.lower()


def is_bedrock(model: str) -> bool:
    """Whether the id is one of the cloud whose integration refuses the automatic breakpoint."""
    return "anthropic.claude" in model


def level_settings(settings: Mapping[str, Any], level: Level) -> dict[str, Any]:
    """The request settings whose change invalidates this level (and what follows it), without the ones left out.

    A ``thinking`` or effort given as None counts as left out, as the provider does for a default.
    """
    return {
        name: settings[name]
        for name, first in SETTING_LEVELS.items()
        if first == level and settings.get(name) is not None
    }


_DOT: Final = re.compile(r"(?<=\d)\.(?=\d)")


@lru_cache(maxsize=512)
def _row(model: str, names: tuple[str, ...]) -> str | None:
    written = _DOT.sub("-", model)
    return max((name for name in names if _pattern(name).search(written)), key=len, default=None)


@lru_cache(maxsize=512)
def _pattern(name: str) -> re.Pattern[str]:
    name = re.escape(_DOT.sub("-", name))
    return re.compile(rf"(?<![0-9a-z]){name}(?![0-9a-z])(?!-\d{{1,2}}(?!\d))", re.IGNORECASE)
