"""``TieredByteStore``: LangChain's key-value store of bytes (embedding caches, document stores) in the memory's file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Final

from langchain_core.stores import ByteStore

from langchain_tiered_memory.owner import Named, scope_of
from shared_core import Blob, InvalidInput, TieredMemory, check_memory, open_again

_NAMESPACE: Final = "langchain/bytes"
_BORN: Final = 0.0  # nothing here expires, and a clock that is set back must not hide what was stored


class TieredByteStore(ByteStore):
    """Bytes by key: written means durable, keys are any text, a prefix is taken literally.

    ``scope`` is a string or a function without arguments; without one and without a default scope it is the
    class name: stored bytes belong to no user.
    """

    def __init__(self, memory: TieredMemory, *, scope: Named = None) -> None:
        self._memory = check_memory(memory, scope)
        self._scope = scope

    __reduce__ = open_again

    def _where(self) -> tuple[str, str]:
        return scope_of(self._memory, self._scope, fallback=type(self).__name__), _NAMESPACE

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        """The values in the order of the keys; None where there is none."""
        found = self._memory.storage.blobs.get(*self._where(), _texts(keys), now=_BORN)
        return [None if blob is None else blob.value for blob in found]

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """Store all pairs in one transaction; of equal keys the last wins. InvalidInput for what is no text or no bytes."""
        pairs = list(key_value_pairs)
        _texts(key for key, _ in pairs)
        for key, value in pairs:
            if not isinstance(value, bytes):
                raise InvalidInput(f"value of {key!r}: expected bytes, got {type(value).__name__}; encode it first")
        blobs = [Blob(key, value, _BORN) for key, value in pairs]
        if blobs:
            self._memory.storage.blobs.put(*self._where(), blobs, durable=True)

    def mdelete(self, keys: Sequence[str]) -> None:
        """Remove the keys; one that is not there is no error."""
        self._memory.storage.blobs.delete(*self._where(), _texts(keys), durable=True)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """The keys there are now, in the order of first writing; writing while iterating is safe."""
        yield from self._memory.storage.blobs.keys(*self._where(), prefix=prefix or "", now=_BORN)

    async def amget(self, keys: Sequence[str]) -> list[bytes | None]:
        """``mget`` off the event loop."""
        return await asyncio.to_thread(self.mget, list(keys))

    async def amset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """``mset`` off the event loop."""
        await asyncio.to_thread(self.mset, list(key_value_pairs))

    async def amdelete(self, keys: Sequence[str]) -> None:
        """``mdelete`` off the event loop."""
        await asyncio.to_thread(self.mdelete, list(keys))

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        """``yield_keys`` off the event loop."""
        for key in await asyncio.to_thread(lambda: list(self.yield_keys(prefix=prefix))):
            yield key


def _texts(keys: Iterable[str]) -> list[str]:
    found = list(keys)
    for key in found:
        if not isinstance(key, str):
            raise InvalidInput(f"key: expected a string, got {type(key).__name__} {key!r:.80}; write str(key)")
    return found
