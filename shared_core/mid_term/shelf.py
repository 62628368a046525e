"""Where a cache of the mid term keeps its entries: the bounded container, and why an entry left it. No locks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from shared_core.eviction.cache import AttentionLRUCache
from shared_core.records import MISS
from shared_core.settings import Settings

CAUSES: Final = ("cold", "expired", "invalidated", "uncacheable", "evicted")
"""Why a call was a miss: never kept, too old, an event or a change, nothing that can be kept, no room."""
_REMEMBERED: Final = 10_000


class Sized(Protocol):
    """What can be put on a shelf: ``size`` in bytes."""

    @property
    def size(self) -> int:
        """Bytes of memory."""


E = TypeVar("E", bound=Sized)


class Shelf(Generic[E]):
    """Entries by key within ``Settings.cache_items`` and ``cache_bytes``, evicted by the rule with aged frequency.

    ``policy`` is that of ``AttentionLRUCache``. The cache around it calls it inside its own lock.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float], policy: str) -> None:
        rule = settings.mid_term
        self._evicted: list[tuple[Any, Any]] = []
        self._gone: dict[str, str] = {}
        self._max_entry_bytes = settings.max_entry_share * settings.cache_bytes
        self._container = AttentionLRUCache(
            max_items=settings.cache_items,
            max_bytes=settings.cache_bytes,
            alpha=rule.alpha,
            beta=rule.beta,
            time_scale=rule.time_scale,
            evidence_weight=rule.evidence_weight,
            default_prior="frequency",
            clock=clock,
            policy=policy,
            getsizeof=lambda entry: entry.size,
            copy=None,
            on_evict=self._evicted.extend,
        )

    def fits(self, size: int) -> bool:
        """Whether an entry of this size is small enough beside the others."""
        return size <= self._max_entry_bytes

    def get(self, key: str) -> E | None:
        """The entry; an access."""
        found = self._container.get(key)
        return None if found is MISS else found

    def put(self, key: str, entry: E) -> tuple[bool, list[tuple[str, E]]]:
        """Whether it is in, and what had to go for it."""
        self._gone.pop(key, None)
        stored = self._container.put(key, entry)
        evicted: list[tuple[str, E]] = list(self._evicted)
        self._evicted.clear()
        for gone, _ in evicted:
            self._remember(gone, "evicted")
        return stored, evicted

    def remove(self, key: str, cause: str) -> None:
        """Take an entry out and remember why."""
        self._container.delete(key)
        self._remember(key, cause)

    def cause(self, key: str) -> str:
        """Why the key is not here, as far as it is remembered."""
        return self._gone.get(key, "cold")

    def select(self, wanted: Callable[[E], bool]) -> list[str]:
        """Keys of the entries that are wanted, oldest first; walks all of them."""
        keys = self._container.keys()
        return [str(key) for key in keys if (entry := self._container.get(key)) is not MISS and wanted(entry)]

    def stats(self) -> dict[str, int]:
        """What is held and what was evicted."""
        held = self._container.stats()
        return {"entries": held["items"], "bytes": held["bytes"], "evictions": held["evictions"]}

    def _remember(self, key: str, cause: str) -> None:
        self._gone.pop(key, None)
        self._gone[key] = cause
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]


def alive(created: float, ttl: float | None, now: float) -> bool:
    """Neither expired nor from the future (the clock was set back: its age cannot be told)."""
    return created <= now and (ttl is None or now < created + ttl)
