"""What the provider billed against what caching was expected to save. Counts only; no prices of its own.

Providers count differently. Anthropic and Bedrock: ``input_tokens`` are those *after* the last breakpoint, reads
and writes come on top. OpenAI, Gemini and LangChain: the input count *includes* what was read (and written).
``tokens_of`` makes one thing of all: read, written per lifetime, not cached.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared_core.errors import InvalidInput
from shared_core.short_term.plan import Plan
from shared_core.short_term.rules import ModelRules

_FADE = 0.98
"""What a bill still says of the estimates after the next one; a long prompt says more than a short one.

About the last fifty decide: a tokenizer does not change, and a correction that does from one request to the next moves
the boundaries of what was sent before.
"""
_RATIOS = (0.25, 4.0)
"""How far a bill may correct the estimates: beyond is no tokenizer but a picture, a file, or several prompts in one bill."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one prompt by what was paid for them; they add up to the whole prompt."""

    read: int = 0
    written_5m: int = 0
    written_1h: int = 0
    uncached: int = 0

    @property
    def total(self) -> int:
        """All tokens of the prompt."""
        return self.read + self.written_5m + self.written_1h + self.uncached

    def cost(self, rules: ModelRules) -> float:
        """What they cost, in base input tokens: r * read + w5 * written_5m + w1h * written_1h + uncached."""
        return (
            rules.read * self.read + rules.write_5m * self.written_5m + rules.write_1h * self.written_1h + self.uncached
        )


def tokens_of(usage: Any, plan: Plan | None = None) -> Tokens:
    """The tokens of a response's usage, an object or a dict as any of the providers sends it; InvalidInput otherwise.

    A whole response is taken for the usage in it. Some usages (streams, through some frameworks) tell what was written
    without telling for how long. Then the breakpoints of the ``plan`` do; without a plan it counts as five minutes.
    """
    read = _Reader(usage)
    for name in ("usage", "usage_metadata", "usageMetadata"):
        if read.has(name):
            return tokens_of(read.get(name), plan)
    if read.has("prompt_tokens") or read.has("input_tokens_details"):  # OpenAI: chat completions, responses
        details = _Reader(read.get("prompt_tokens_details") or read.get("input_tokens_details"))
        hit, written = details.count("cached_tokens"), details.count("cache_write_tokens")
        total = read.count("prompt_tokens") or read.count("input_tokens")
        return Tokens(hit, written, 0, max(total - hit - written, 0))
    for whole, cached in _GEMINI:
        if read.has(whole):
            hit = read.count(cached)
            return Tokens(hit, 0, 0, max(read.count(whole) - hit, 0))
    if read.has("inputTokens"):  # Bedrock Converse
        written = read.count("cacheWriteInputTokens")
        lifetimes = [_Reader(item) for item in read.get("cacheDetails") or ()]
        hour = min(sum(item.count("inputTokens") for item in lifetimes if item.get("ttl") == "1h"), written)
        tokens = Tokens(read.count("cacheReadInputTokens"), written - hour, hour, read.count("inputTokens"))
        return tokens if lifetimes or plan is None else _split(tokens, plan)
    if read.has("input_tokens"):
        tokens, told = _langchain(read) if read.has("input_token_details") else _anthropic(read)
        return tokens if told or plan is None else _split(tokens, plan)
    raise InvalidInput(f"usage: expected the usage of a response, with its count of input tokens, got {usage!r:.200}")


_GEMINI = (
    ("prompt_token_count", "cached_content_token_count"),
    ("promptTokenCount", "cachedContentTokenCount"),
    ("total_input_tokens", "total_cached_tokens"),
)
"""The input count and what was read of it: the SDK's objects, the JSON, the Interactions API."""


def _anthropic(read: _Reader) -> tuple[Tokens, bool]:
    """Anthropic's usage, and whether it tells for how long was written."""
    split = _Reader(read.get("cache_creation"))
    short, hour = split.count("ephemeral_5m_input_tokens"), split.count("ephemeral_1h_input_tokens")
    written = max(read.count("cache_creation_input_tokens"), short + hour)
    told = split.has("ephemeral_1h_input_tokens") or split.has("ephemeral_5m_input_tokens")
    return Tokens(read.count("cache_read_input_tokens"), written - hour, hour, read.count("input_tokens")), told


def _langchain(read: _Reader) -> tuple[Tokens, bool]:
    """LangChain's ``usage_metadata``, and whether it tells for how long was written.

    ``input_tokens`` include what was read and written, and ``cache_creation`` is 0 where the lifetimes are told.
    """
    details = _Reader(read.get("input_token_details"))
    short, hour = details.count("ephemeral_5m_input_tokens"), details.count("ephemeral_1h_input_tokens")
    written, hit = short + hour or details.count("cache_creation"), details.count("cache_read")
    rest = max(read.count("input_tokens") - hit - written, 0)
    return Tokens(hit, written - hour, hour, rest), short + hour > 0


def _split(tokens: Tokens, plan: Plan) -> Tokens:
    """What was written, split as the provider bills it: up to the plan's last one-hour breakpoint for an hour, the rest not.

    The breakpoint's place is an estimate, so it is scaled by what the whole prompt turned out to be. When no breakpoint
    of five minutes follows, all that was written is the hour's.
    """
    ttls = [mark.ttl for mark in plan.breakpoints]
    written = tokens.written_5m
    if "1h" not in ttls or not written:
        return tokens
    hour = written
    if ttls[-1] == "5m":
        ends = max(mark.tokens for mark in plan.breakpoints if mark.ttl == "1h")
        upto = round(ends * tokens.total / plan.expected.total) if plan.expected.total else ends
        hour = min(max(upto - tokens.read, 0), written)
    return Tokens(tokens.read, written - hour, hour, tokens.uncached)


class Ledger:
    """Sums over the requests recorded; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._sums: Counter[str] = Counter()
        self._dollars: dict[str, float] = {}
        self._models: dict[str, ModelRules] = {}
        self._sizes: dict[str, tuple[float, float]] = {}  # tokens billed and estimated, faded

    def record(self, usage: Any, plan: Plan) -> None:
        """Add one response. InvalidInput if the usage is of no known provider; nothing is counted then."""
        if not isinstance(plan, Plan):
            raise InvalidInput(f"plan: expected what prompts.plan(…) returned for this request, got {plan!r:.200}")
        tokens = tokens_of(usage, plan)
        cost = tokens.cost(plan.rules)
        hit, expected = tokens.read > 0, plan.expected.read > 0
        with self._lock:
            self._models[plan.model] = plan.rules
            self._counts += Counter(
                requests=1, hits=int(hit), expected_hits=int(expected), missed=int(expected and not hit),
                read_tokens=tokens.read, written_5m_tokens=tokens.written_5m, written_1h_tokens=tokens.written_1h,
                uncached_tokens=tokens.uncached,
            )  # fmt: skip
            self._sums["cost"] += cost  # type: ignore[assignment]
            self._sums["expected_cost"] += plan.expected.cost  # type: ignore[assignment]
            for name, amount in (("usd", cost), ("saved_usd", tokens.total - cost)):
                dollars = plan.rules.usd(amount, prompt_tokens=tokens.total)
                if dollars is not None:
                    self._dollars[name] = self._dollars.get(name, 0.0) + dollars
            estimated = plan.parts.estimated
            if estimated and tokens.total:
                billed, counted = self._sizes.get(plan.model, (0.0, 0.0))
                least, most = _RATIOS
                seen = min(max(tokens.total, least * estimated), most * estimated)
                self._sizes[plan.model] = (billed * _FADE + seen, counted * _FADE + estimated)

    def ratio(self, model: str) -> float:
        """Billed tokens over estimated ones for this model; 1.0 until something was recorded."""
        billed, estimated = self._sizes.get(model, (1.0, 1.0))
        return billed / estimated

    def stats(self) -> dict[str, Any]:
        """Plain numbers. Costs in base input tokens: ``cost``, ``without_caching``, ``saved`` and its share.

        ``missed`` counts requests whose plan expected a hit that did not come. ``usd`` and ``saved_usd`` cover the
        models with a known price, None if there is none. ``break_even`` per model and lifetime: the uses within one
        lifetime and the survival above which marking is cheaper.
        """
        with self._lock:
            counts, cost = self._counts, float(self._sums["cost"])
            whole = sum(counts[f"{name}_tokens"] for name in ("read", "written_5m", "written_1h", "uncached"))
            names = (
                "requests", "hits", "expected_hits", "missed",
                "read_tokens", "written_5m_tokens", "written_1h_tokens", "uncached_tokens",
            )  # fmt: skip
            return {
                **{name: counts[name] for name in names},
                "hit_rate": counts["hits"] / counts["requests"] if counts["requests"] else 0.0,
                "cost": cost,
                "expected_cost": float(self._sums["expected_cost"]),
                "without_caching": whole,
                "saved": whole - cost,
                "saved_share": (whole - cost) / whole if whole else 0.0,
                "usd": self._dollars.get("usd"),
                "saved_usd": self._dollars.get("saved_usd"),
                "break_even": {
                    model: {
                        ttl: {"uses": rules.break_even_uses(ttl), "survival": rules.break_even_survival(ttl)}
                        for ttl in ("5m", "1h")
                    }
                    for model, rules in self._models.items()
                },
            }

    def _repr_html_(self) -> str:
        from shared_core.short_term.html import ledger_html  # noqa: PLC0415 - only a notebook draws

        return ledger_html(self.stats())


class _Reader:
    """Fields of a dict or of an object alike; a missing or null field is None, or 0 as a count."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def get(self, name: str) -> Any:
        return self._source.get(name) if isinstance(self._source, Mapping) else getattr(self._source, name, None)

    def has(self, name: str) -> bool:
        return self.get(name) is not None

    def count(self, name: str) -> int:
        value = self.get(name)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidInput(f"usage: expected {name} to be a count of tokens, got {value!r}")
        return value
