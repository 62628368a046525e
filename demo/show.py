"""How the demo prints: what was said, what was recalled, what was saved."""

from __future__ import annotations

from collections.abc import Sequence

from shared_core import Hit


def title(text: str) -> None:
    """A heading."""
    print(f"\n\033[1m{text}\033[0m" if _colours() else f"\n{text}")


def said(who: str, text: str) -> None:
    """One message."""
    print(f"  {who:>9}: {text}")


def note(text: str) -> None:
    """What the memory did."""
    print(f"\033[2m{'':>9}  [{text}]\033[0m" if _colours() else f"{'':>9}  [{text}]")


def hits(found: Sequence[Hit]) -> None:
    """Memories, best first, each with the parts of its score on a line below."""
    for hit in found:
        parts = "  ".join(f"{name} {value:.2f}" for name, value in hit.parts.items() if abs(value) >= 0.005)
        print(f"  {hit.score:9.2f}  {hit.memory.role}: {hit.memory.text}")
        note(parts)


def _colours() -> bool:
    import sys

    return sys.stdout.isatty()
