"""How often something was forgotten in a scope: what an answer was built on may be gone since. No answers here."""

from __future__ import annotations

import threading
from typing import Final

from shared_core import arguments
from shared_core.forks import renew_in_child
from shared_core.mid_term.rows import Rows
from shared_core.storage.base import Blobs

_ANY_SCOPE: Final = "\x1fany scope"  # its generation moves with a forget in whatever scope


class Forgets:
    """A generation a scope, which each forget in it moves: in the rows where there are any. Thread-safe.

    ``common`` are the scopes that were shared here.
    """

    def __init__(self, blobs: Blobs | None, rows: Rows | None) -> None:
        self._blobs, self._rows = blobs, rows
        self._lock = threading.Lock()
        self._generations: dict[str, int] = {}
        self.common: set[str] = set()
        renew_in_child(self)

    def after_fork_in_child(self) -> None:
        """A lock of our own."""
        self._lock = threading.Lock()

    def bump(self, scope: str, *, durable: bool = True) -> int:
        """A memory of the scope was forgotten. The new generation."""
        self.advance(_ANY_SCOPE, durable=durable)
        return self.advance(scope, durable=durable)

    def share(self, scope: str) -> None:
        """A forget anywhere is one in this scope, too."""
        self.common.add(arguments.scope("scope", scope))

    def advance(self, scope: str, *, durable: bool = True) -> int:
        """Move the generation of this scope alone."""
        if self._blobs is not None:
            return self._blobs.bump(scope, durable=durable)
        with self._lock:
            self._generations[scope] = self._generations.get(scope, 0) + 1
            return self._generations[scope]

    def generation(self, scope: str) -> int | None:
        """Where the scope stands; None if that cannot be told now."""
        found = self._of(scope)
        if scope not in self.common or found is None:
            return found
        anywhere = self._of(_ANY_SCOPE)
        return None if anywhere is None else found + anywhere  # both only grow, so the sum tells every move

    def _of(self, scope: str) -> int | None:
        if self._rows is not None:
            return self._rows.generation(scope)
        with self._lock:
            return self._generations.get(scope, 0)
