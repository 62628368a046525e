"""A simulator of Anthropic's prompt cache, by its documented rules. It shares the table of models with the planner, nothing else.

    prefix      an entry is the exact prompt up to a breakpoint, of one model: tools, system, messages, and the
                settings that invalidate each level; keys inside a tool's input and definition count in their order
    write       only at breakpoints, four at most, and only if the prefix has the model's minimum of tokens
    read        each breakpoint looks for an entry at its own position and up to 19 before it; the longest wins
    lifetime    from the start of the request that wrote or last read the entry; a read at the last moment counts
    usable      once the response of the writing request has begun (``latency`` after its start)
    bill        A = the hit, read; B = the last one-hour breakpoint after A, (B - A) at the one-hour price; C = the
                last breakpoint, (C - B) at the five-minute price; the rest at the base price
    refused     a fifth breakpoint, 1h after 5m, a breakpoint where none is allowed, an automatic one that
                contradicts the last block's, comes on top of four, or goes to the cloud that knows none

Where the documentation is silent: a breakpoint before A costs nothing; its live entry is read too, and
refreshed; a missing one is written, with no longer lifetime than A's. An entry keeps the lifetime it was written with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from shared_core.short_term.rules import RULES, ModelRules, rules_for
from shared_core.text import estimate_tokens

_SECONDS = {"5m": 300.0, "1h": 3600.0}
_MOST_MARKS = 4
_LOOKBACK = 20
_NEVER_MARKED = ("thinking", "redacted_thinking")


class BadRequest(Exception):
    """The API's 400; the text is its message."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request as the cache sees it. Shapes [blocks]: ``keys`` of each prefix, ``tokens`` up to and with each block,
    ``positions`` for the lookback. ``marks``: (block, lifetime) in order.
    """

    model: str
    keys: tuple[bytes, ...]
    tokens: tuple[int, ...]
    positions: tuple[int, ...]
    marks: tuple[tuple[int, str], ...]


@dataclass(slots=True)
class _Entry:
    ttl: str
    at: float
    usable: float


@dataclass
class PromptCache:
    """The provider's side. ``clock`` gives epoch seconds; ``count_tokens`` counts a text.

    ``runs_are_one_position``: consecutive tool calls, or tool results, are one position for the lookback, as on the
    provider's own API; other clouds count every block.
    """

    clock: Callable[[], float]
    count_tokens: Callable[[str], int] = estimate_tokens
    rules: Mapping[str, ModelRules] = field(default_factory=lambda: RULES)
    runs_are_one_position: bool = True
    _entries: dict[bytes, _Entry] = field(default_factory=dict, init=False)
    _counted: dict[bytes, int] = field(default_factory=dict, init=False)

    def send(self, request: Mapping[str, Any], *, now: float | None = None, latency: float = 0.0) -> dict[str, Any]:
        """Bill one request: the response's ``usage``. Raises BadRequest for what the API refuses."""
        return self.serve(self.read(request), now=self.clock() if now is None else now, latency=latency)

    def serve(self, prompt: Prompt, *, now: float, latency: float = 0.0) -> dict[str, Any]:
        """Bill a prompt that was read before: look up, refresh, write."""
        rules = rules_for(prompt.model, self.rules)
        hit = self._look_up(prompt, now)
        total = prompt.tokens[-1] if prompt.tokens else 0
        read = prompt.tokens[hit] if hit >= 0 else 0
        valid = [(block, ttl) for block, ttl in prompt.marks if prompt.tokens[block] >= rules.min_tokens]
        hour = max([read, *(prompt.tokens[block] for block, ttl in valid if ttl == "1h")])
        last = max([hour, *(prompt.tokens[block] for block, _ in valid)])
        if hit >= 0:
            self._entries[prompt.keys[hit]].at = now
        for block, ttl in valid:
            entry = self._entries.get(prompt.keys[block])
            if entry is not None and _alive(entry, now):
                entry.at = now
            else:
                short = block < hit and self._entries[prompt.keys[hit]].ttl == "5m"
                self._entries[prompt.keys[block]] = _Entry("5m" if short else ttl, now, now + latency)
        return {
            "input_tokens": total - last,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": last - read,
            "cache_creation": {"ephemeral_5m_input_tokens": last - hour, "ephemeral_1h_input_tokens": hour - read},
            "output_tokens": 0,
        }

    def read(self, request: Mapping[str, Any]) -> Prompt:
        """Check a request's breakpoints and take it apart; BadRequest for what the API refuses."""
        blocks: list[tuple[str, Any, Any]] = []  # (level, content without breakpoint, breakpoint)
        for tool in request.get("tools") or ():
            if tool.get("defer_loading") and tool.get("cache_control"):
                raise BadRequest("tools: a tool with defer_loading cannot have cache_control")
            if not tool.get("defer_loading"):
                blocks.append(("tools", *_parted(tool)))
        blocks += [("system", *_parted(block)) for block in _listed(request.get("system"))]
        if any(mark is not None and not _allowed(plain, set()) for _, plain, mark in blocks):
            raise BadRequest("system: cache_control is not allowed on an empty text block")
        called_by_code: set[str] = set()
        for message in request["messages"]:
            for block in _listed(message.get("content")):
                plain, mark = _parted(block)
                blocks.append((f"messages:{message['role']}", plain, mark))
                if not _allowed(plain, called_by_code) and mark is not None:
                    raise BadRequest(f"messages: cache_control is not allowed on this {plain.get('type')} block")
        marks = self._marks(request, blocks, called_by_code)
        keys, tokens, positions = self._chain(request, blocks)
        return Prompt(request["model"], keys, tokens, positions, marks)

    def _marks(
        self, request: Mapping[str, Any], blocks: list[tuple[str, Any, Any]], called_by_code: set[str]
    ) -> tuple[tuple[int, str], ...]:
        marks = [(i, _ttl(mark)) for i, (_, _, mark) in enumerate(blocks) if mark is not None]
        nested = sum(_nested_marks(plain) for _, plain, _ in blocks)
        automatic = request.get("cache_control")
        if automatic is not None:
            if "anthropic.claude" in str(request["model"]):
                raise BadRequest("cache_control: Extra inputs are not permitted")
            ttl = _ttl(automatic)
            last = max((i for i, (_, plain, _) in enumerate(blocks) if _allowed(plain, called_by_code)), default=None)
            there = dict(marks).get(last) if last is not None else None
            if there is not None and there != ttl:
                raise BadRequest("cache_control: the last block already has cache_control with another ttl")
            if there is None and last is not None:
                if len(marks) + nested >= _MOST_MARKS:
                    raise BadRequest("cache_control: no slot is left, the request has 4 blocks with cache_control")
                marks = sorted([*marks, (last, ttl)])
        if len(marks) + nested > _MOST_MARKS:
            raise BadRequest(f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks) + nested}.")
        for (_, earlier), (_, later) in pairwise(marks):
            if earlier == "5m" and later == "1h":
                raise BadRequest("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")
        return tuple(marks)

    def _chain(
        self, request: Mapping[str, Any], blocks: list[tuple[str, Any, Any]]
    ) -> tuple[tuple[bytes, ...], tuple[int, ...], tuple[int, ...]]:
        chain = hashlib.sha256(str(request["model"]).encode())
        keys, tokens, positions = [], [], []
        total, position, level, kind = 0, -1, "", ""
        pictures = any(_is_picture(plain) for _, plain, _ in blocks)
        for where, plain, _ in blocks:
            entered = where.partition(":")[0]
            if entered != level:
                level = entered
                chain.update(_seed(request, level, pictures=pictures))
            text = json.dumps(_typed(plain), ensure_ascii=False)
            chain.update(f"{where}{text}".encode("utf-8", "surrogatepass"))
            key = chain.digest()
            if key not in self._counted:
                self._counted[key] = self._count(plain, text)
            total += self._counted[key]
            now = str(plain.get("type"))
            if not (self.runs_are_one_position and now == kind and now in ("tool_use", "tool_result")):
                position += 1
            kind = now
            keys.append(key)
            tokens.append(total)
            positions.append(position)
        return tuple(keys), tuple(tokens), tuple(positions)

    def _count(self, plain: Mapping[str, Any], text: str) -> int:
        if plain.get("type") == "image":
            return 1500
        return self.count_tokens(str(plain["text"]) if plain.get("type") == "text" and "text" in plain else text)

    def _look_up(self, prompt: Prompt, now: float) -> int:
        """The last block of the longest live entry that a breakpoint sees; -1 for none."""
        found = -1
        for block, _ in prompt.marks:
            at = block
            while at > found and prompt.positions[block] - prompt.positions[at] < _LOOKBACK:
                entry = self._entries.get(prompt.keys[at])
                if entry is not None and _alive(entry, now) and entry.usable <= now:
                    found = at
                    break
                at -= 1
        return found


def cost(usage: Mapping[str, Any], rules: ModelRules) -> float:
    """What a usage costs, in base input tokens."""
    made = usage["cache_creation"]
    return float(
        usage["input_tokens"]
        + rules.read * usage["cache_read_input_tokens"]
        + rules.write_5m * made["ephemeral_5m_input_tokens"]
        + rules.write_1h * made["ephemeral_1h_input_tokens"]
    )


def _alive(entry: _Entry, now: float) -> bool:
    return 0 <= now - entry.at <= _SECONDS[entry.ttl]


def _listed(content: Any) -> list[Any]:
    if content is None:
        return []
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _parted(block: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    return {name: value for name, value in block.items() if name != "cache_control"}, block.get("cache_control")


def _typed(plain: Mapping[str, Any]) -> list[Any]:
    """The fields of a block in a fixed order; what is inside them stays in the order it was sent."""
    return sorted(plain.items(), key=lambda item: item[0])


def _allowed(plain: Mapping[str, Any], called_by_code: set[str]) -> bool:
    kind = plain.get("type")
    if kind in _NEVER_MARKED or (kind == "text" and not str(plain.get("text", "")).strip()):
        return False
    caller = plain.get("caller")
    if isinstance(caller, Mapping) and str(caller.get("type", "")).startswith("code_execution"):
        called_by_code.add(plain.get("id", ""))
        return False
    return plain.get("tool_use_id") not in called_by_code


def _ttl(mark: Any) -> str:
    if not isinstance(mark, Mapping) or mark.get("type") != "ephemeral":
        raise BadRequest("cache_control.type: expected 'ephemeral'")
    ttl = mark.get("ttl", "5m")
    if ttl not in _SECONDS:
        raise BadRequest("cache_control.ttl: expected '5m' or '1h'")
    return str(ttl)


def _nested_marks(value: Any) -> int:
    """Breakpoints anywhere inside a block; what a tool is asked and how it is defined are the caller's own."""
    if isinstance(value, list):
        return sum(map(_nested_marks, value))
    if not isinstance(value, Mapping):
        return 0
    inner = sum(_nested_marks(part) for name, part in value.items() if name not in ("input", "input_schema"))
    return inner + bool(value.get("cache_control"))


def _is_picture(plain: Any) -> bool:
    """Whether it is a picture or holds one, in a result or a document."""
    if isinstance(plain, list):
        return any(map(_is_picture, plain))
    return isinstance(plain, Mapping) and (
        plain.get("type") == "image" or _is_picture(plain.get("content")) or _is_picture(plain.get("source"))
    )


def _seed(request: Mapping[str, Any], level: str, *, pictures: bool) -> bytes:
    """The settings that the prefix of a level depends on."""
    names = {"tools": (), "system": ("speed",), "messages": ("tool_choice", "thinking", "output_config")}[level]
    seed = {name: request[name] for name in names if request.get(name) is not None}
    return json.dumps([level, seed, pictures and level == "messages"], sort_keys=True).encode()
