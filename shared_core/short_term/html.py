"""How a plan and a ledger look in a notebook. Drawing only; every text is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shared_core.short_term.plan import Plan

_COLOURS = {"tools": "#8fb8de", "system": "#b6d7a8", "messages": "#f0d9a8"}
_MOST_DRAWN = 200


def plan_html(plan: Plan) -> str:
    """The prompt as a strip of blocks, as wide as their tokens, with the breakpoints and their survival beneath."""
    pieces = plan.parts.pieces()
    marks = {mark.position: mark for mark in plan.breakpoints}
    last = max(marks, default=0)
    cells = []
    for position, (level, piece) in enumerate(pieces, 1):
        mark = marks.get(position)
        if len(pieces) > _MOST_DRAWN and mark is None and position % (len(pieces) // _MOST_DRAWN + 1):
            continue
        edge = "3px solid #c0392b" if mark else "1px solid #fff"
        faded = "" if position <= last else "opacity:.45;"
        title = f"{level} block {position}: about {piece.tokens} tokens"
        cells.append(
            f'<div title="{escape(title)}" style="flex:{max(piece.tokens, 1)} 1 2px;height:28px;{faded}'
            f'background:{_COLOURS[level]};border-right:{edge}"></div>'
        )
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
        f'<div>{summary}<div style="display:flex;width:100%;margin:6px 0">{"".join(cells)}</div>'
        + _table(("breakpoint", "block", "position", "tokens", "lifetime", "survival"), rows)
        + (f"<ul>{notes}</ul>" if notes else "")
        + "</div>"
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
