"""A clock that moves only when told to."""

from __future__ import annotations


class FakeClock:
    """A callable clock in epoch seconds: pass it as ``clock=`` and move it instead of sleeping."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """The present moment, in epoch seconds."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the clock by this many seconds; a negative number sets it back."""
        self.now += seconds
