"""How a plan and a ledger look in a notebook. Drawing only; every text is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shared_core.short_term.plan import Plan

_COLOURS = {"tools": "#8fb8de", "system": "#b6d7a8", "messages": "#f0d9a8"}
_WIDTH, _HEIGHT = 1000, 30
_THINNEST = 2.5
"""Strips narrower than this are drawn together with the next ones: a prompt may have thousands of blocks."""


def plan_html(plan: Plan) -> str:
    """The prompt as a strip of blocks, as wide as their tokens, with the breakpoints, their lifetime and survival beneath."""
    rows = [
        (mark.by, f"{mark.level}[{mark.index}]", mark.position, mark.tokens, mark.ttl, f"{mark.survival:.2f}")
        for mark in plan.breakpoints
    ]
    e = plan.expected
    summary = (
        f"<b>{escape(plan.model)}</b>: about {e.total} tokens; expected {e.read} read, {e.written} written, "
        f"{e.uncached} not cached; cost {e.cost:.0f} base tokens"
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in plan.notes)
    return (
        f"<div>{summary}<br>{_strip(plan)}"
        + _table(("breakpoint", "block", "position", "tokens", "lifetime", "survival"), rows)
        + (f"<ul>{notes}</ul>" if notes else "")
        + "</div>"
    )


def _strip(plan: Plan) -> str:
    sizes = plan.parts.sizes()
    marks = {mark.position: mark for mark in plan.breakpoints}
    last, whole = max(marks, default=0), max(sum(size for _, size in sizes), 1)
    drawn: list[str] = []
    labels: list[str] = []
    start, done, first = 0.0, 0, 1
    for position, (level, size) in enumerate(sizes, 1):
        done += size
        x = _WIDTH * done / whole
        following = sizes[position][0] if position < len(sizes) else None
        if x - start < _THINNEST and position not in marks and following == level:
            continue
        blocks = f"block {position}" if first == position else f"blocks {first} to {position}"
        drawn.append(
            f'<rect x="{start:.1f}" width="{max(x - start, 0.3):.1f}" height="{_HEIGHT}" fill="{_COLOURS[level]}" '
            f'stroke="#fff" stroke-width=".5" opacity="{1 if position <= last else 0.45}">'
            f"<title>{escape(level)}, {blocks}: about {done} tokens up to here</title></rect>"
        )
        start, first = x, position + 1
        mark = marks.get(position)
        if mark is not None:
            y = _HEIGHT + 14 + 13 * (len(labels) % 4)
            drawn.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="-3" y2="{y}" stroke="#c0392b" stroke-width="2"/>')
            labels.append(
                f'<text x="{x:.1f}" y="{y}" dx="{-4 if x > _WIDTH / 2 else 4}" font-size="12" fill="#c0392b" '
                f'text-anchor="{"end" if x > _WIDTH / 2 else "start"}">{escape(mark.by)} {mark.ttl} {mark.survival:.2f}</text>'
            )
    height = _HEIGHT + 20 + 13 * min(len(labels), 4)
    return (
        f'<svg viewBox="-2 -4 {_WIDTH + 4} {height}" style="width:100%;max-width:{_WIDTH}px;background:#fff" '
        f'font-family="sans-serif">{"".join(drawn)}{"".join(labels)}</svg>'
    )


def ledger_html(stats: dict[str, Any]) -> str:
    """The ledger's sums and the break-even of each model."""
    shown = [(name.replace("_", " "), _number(value)) for name, value in stats.items() if name != "break_even"]
    even = [
        (model, ttl, _number(row["uses"]), _number(row["survival"]))
        for model, ttls in stats["break_even"].items()
        for ttl, row in ttls.items()
    ]
    return _table(("", ""), shown) + (
        _table(("model", "lifetime", "uses above", "survival above"), even) if even else ""
    )


def _table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _number(value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
