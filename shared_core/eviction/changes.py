"""One change at a time: the lock, and what becomes of changes asked for inside a change. No entries, no rules.

A lock keeps other threads out, not code that a change itself runs: the ``__eq__`` of a key, a finaliser called
by the garbage collector. What such code asks for waits until the change has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Changes:
    """Whoever changes something holds the lock and sets ``inside``; ``alone`` does both.

    Where a call costs as much as the change, its owner writes ``alone`` out: take the lock ``by_hand``, look at
    ``inside`` (True for whom the lock lets in all the same: add to ``later``, and leave), set it and close, and at
    the end take both back, give back the lock, and ``catch_up`` if there is something in ``later``.

    ``opened`` is what a writer without the lock may begin with: what the owner last put into ``offered``, and
    ``closed`` in the middle of a change, so that the changes of one thread keep their order.
    """

    def __init__(self, closed: Any) -> None:
        self.closed = self.offered = closed
        self.renew()

    def renew(self) -> None:
        """Begin with a lock of our own, and nothing to do."""
        self.lock = threading.RLock()
        # To take it and give it back by hand where it counts: ``with`` costs twice as much as the two calls.
        self.by_hand = self.lock.acquire, self.lock.release
        self.inside = False
        self.opened = self.offered
        self.later: list[Callable[[], Any]] = []

    def alone(self, change: Callable[[], Any]) -> Any:
        """What the change gives, made inside the lock; True, and made later, in the middle of another."""
        with self.lock:
            if self.inside:
                self.later.append(lambda: self.alone(change))
                return True
            try:
                self.inside, self.opened = True, self.closed
                done = change()
            finally:
                self.inside, self.opened = False, self.offered
        if self.later:
            self.catch_up()
        return done

    def catch_up(self) -> None:
        """Make the changes that were asked for in the middle of the one that has ended."""
        while self.later:
            try:
                change = self.later.pop(0)
            except IndexError:  # another thread was faster
                return
            change()
