"""The vectors of a storage's memories: made by one model, filled in where they are missing.

Whatever the model raises, memories are still written and read. No index and no score here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from shared_core.embedding.base import Embedder, Vectors, known_dimension, reads
from shared_core.errors import EmbedderMismatch, StorageError
from shared_core.long_term.index import ScopeIndex
from shared_core.long_term.query import sentences
from shared_core.storage.base import Storage
from shared_core.text import windows

_log = logging.getLogger(__name__)
ASKED_SHARE = 0.5
"""What the last sentence of a query adds to the vector of the whole."""

_BATCH = 256  # texts embedded between two commits, so that an interrupted fill goes on where it stopped


class TextVectors:
    """What one model makes of the texts of one storage. ``count`` takes note of failures."""

    def __init__(
        self, storage: Storage, embedder: Embedder | None, *, max_windows: int, count: Callable[..., None]
    ) -> None:
        self._storage = storage
        self._rows = storage.memories
        self._embedder = embedder
        self._max_windows = max_windows
        self._count = count
        self._warned = False
        self._refused: dict[str, set[int]] = {}
        self._batch = _BATCH
        self._dimension = 0
        self._answers = True  # a question was answered last: what fails now is one text's fault, not the model's

    @property
    def fingerprint(self) -> str | None:
        """The model's, or None without a model."""
        return self._embedder.fingerprint if self._embedder else None

    @property
    def dimension(self) -> int:
        """The length of a vector as far as it is known; 0 without a model, and before it or the rows said it.

        Never asks the model: one that fails must not keep memories from being written and read.
        """
        if self._embedder is None or self._dimension:
            return self._dimension
        stored = self._rows.embedder()
        if stored is not None and stored[0] == self._embedder.fingerprint:
            self._dimension = stored[1]
        return self._dimension

    def claim(self, *, reembed: bool) -> bool:
        """Whether the rows' vectors were dropped for this model's. EmbedderMismatch if they should but may not be."""
        stored, embedder = self._rows.embedder(), self._embedder
        if stored is None or embedder is None or _same(stored, embedder, known_dimension(embedder)):
            return False
        if not reembed:
            raise EmbedderMismatch(_mismatch(stored, embedder))
        self._rows.set_embedder(embedder.fingerprint, embedder.dimension)
        return True

    def of_query(self, text: str) -> npt.NDArray[np.float32] | None:
        """The query's vector; None without a model, when it failed (counted: recall goes on by words), and
        when the model does not know the query's script (words alone are better than noise).

        People lead up to a question: of several sentences the last one, where the question is, counts
        ASKED_SHARE once more beside the whole.
        """
        if self._embedder is None or not text.strip() or not reads(self._embedder, text):
            return None
        *lead, asked = sentences(text)
        vectors = self._embed([text, asked] if lead else [text], query=True)
        self._answers = vectors is not None
        if vectors is None or not lead:
            return None if vectors is None else vectors[0]
        both = vectors[0] + np.float32(ASKED_SHARE) * vectors[1]
        length = float(np.linalg.norm(both))
        unit: npt.NDArray[np.float32] = both / np.float32(length) if length else both
        return unit

    def sound(self, raw: bytes) -> bytes | None:
        """Bytes from elsewhere if they could be this model's vectors, else None. Without a model all could be."""
        if self._embedder is None:
            return raw or None
        dimension = self._asked_dimension()
        if (
            not raw
            or not dimension
            or len(raw) % (4 * dimension)
            or not np.isfinite(np.frombuffer(raw, np.float32)).all()
        ):
            return None
        return raw

    def _embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors | None:
        embedder = self._embedder
        if embedder is None or not texts:
            return None
        try:
            vectors = embedder.embed(texts, query=query)
        except Exception as error:  # noqa: BLE001 - whatever a model raises, memories must still be written and read
            self._failed(error)
            return None
        self._dimension = vectors.shape[1]
        return vectors

    def _asked_dimension(self) -> int:
        """The model's own word, for which it may be asked for the first time; 0 if it fails (counted)."""
        try:
            return self._embedder.dimension if self._embedder is not None else 0
        except Exception as error:  # noqa: BLE001 - as in ``_embed``
            self._failed(error)
            return 0

    def _failed(self, error: Exception) -> None:
        self._count(embedding_failures=1)
        _log.warning("embedding failed, going on without vectors: %s: %s", type(error).__name__, error)

    def of(self, texts: Sequence[str], *, wait: bool = True) -> tuple[str | None, list[bytes | None]]:
        """Fingerprint and float32 bytes (windows, dimension) for each text; None where there is no vector."""
        if self._embedder is None or not texts or not self.are_taken(wait=wait):
            return None, [None] * len(texts)
        cut = [windows(text, most=self._max_windows) for text in texts]
        vectors = self._embed([window for some in cut for window in some])
        if vectors is None:
            return None, [None] * len(texts)
        out: list[bytes | None] = []
        start = 0
        for some in cut:
            out.append(vectors[start : start + len(some)].tobytes())
            start += len(some)
        return self._embedder.fingerprint, out

    def are_taken(self, *, wait: bool) -> bool:
        """Whether the rows take this model's vectors: another process may have changed the model meanwhile."""
        if self._embedder is None or self._storage.read_only:
            return False
        dimension = self._asked_dimension()
        if not dimension:
            return False
        stored = self._rows.claim_embedder(self._embedder.fingerprint, dimension, wait=wait)
        if not _same(stored, self._embedder, dimension):
            if not self._warned:
                self._warned = True
                _log.warning("going on without vectors: %s", _mismatch(stored, self._embedder))
            self._count(foreign_model=1)
            return False
        return True

    def fill(self, scope: str, index: ScopeIndex, *, wait: bool) -> bool:
        """Embed the memories that a process without the model wrote; return whether rows changed.

        A bar shows when there are many. Without ``wait``, a reader's call, what a writer at work keeps from
        being written is left to the next recall.
        """
        if self._embedder is None or self._storage.read_only:
            return False
        missing = np.flatnonzero(index.mask("live") & index.mask("active") & (index.column("windows") == 0))
        refused = self._refused.setdefault(scope, set())
        if refused:
            missing = missing[~np.isin(index.ints("row")[missing], list(refused))]
        if not len(missing):
            return False
        try:
            if not self.are_taken(wait=wait):
                return False
            self._fill(scope, index, missing, refused, wait=wait)
        except StorageError as error:
            if wait:
                raise
            _log.info("some vectors are not filled in yet: %s", error)
        return True

    def _fill(
        self, scope: str, index: ScopeIndex, missing: npt.NDArray[np.intp], refused: set[int],
        *, wait: bool,
    ) -> None:  # fmt: skip
        quiet = True if len(missing) <= 200 else None
        with tqdm(total=len(missing), desc="embedding memories", unit="memory", disable=quiet) as bar:
            start = 0
            while start < len(missing):
                positions = missing[start : start + self._batch]
                found = self._rows.get(scope, [index.ids[p] for p in positions])
                pairs = [(int(index.column("row")[p]), m.text) for p, m in zip(positions, found, strict=True) if m]
                fingerprint, vectors = self.of([text for _, text in pairs], wait=wait)
                if fingerprint is None and pairs:
                    # The model fails: on the batch (the next recall tries half of it), or on this one text.
                    if len(positions) == 1 and self._answers:
                        refused.add(pairs[0][0])
                    self._batch = max(1, len(positions) // 2)
                    return
                if fingerprint is not None:
                    filled = {row: raw for (row, _), raw in zip(pairs, vectors, strict=True) if raw}
                    self._rows.set_vectors(scope, fingerprint, filled, wait=wait)
                start += len(positions)
                bar.update(len(positions))
                self._batch = min(_BATCH, 2 * self._batch)


def _same(stored: tuple[str, int], embedder: Embedder, dimension: int | None) -> bool:
    """Whether this model made the stored vectors; a dimension that nobody knows yet is taken for theirs."""
    return stored[0] == embedder.fingerprint and dimension in (None, stored[1])


def _mismatch(stored: tuple[str, int], embedder: Embedder) -> str:
    given, dimension = embedder.fingerprint, known_dimension(embedder)
    of_stored, of_given = (f" ({stored[1]} numbers)", f" ({dimension} numbers)") if stored[0] == given else ("", "")
    return (
        f"the stored vectors were made by {stored[0]!r}{of_stored}, the embedder given is {given!r}{of_given}; "
        "open with that model, or pass reembed=True to make every vector anew"
    )
