"""An embedder that keeps what it has embedded on disk, outside the repository, so that a second run is fast."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from shared_core.embedding import Embedder, Vectors


def default_folder() -> Path:
    """The platform's folder for things that can be made again."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tiered-memory" / "benchmarks"


class CachedEmbedder:
    """Answers for another embedder, from disk where it can. ``save`` writes what is new."""

    def __init__(self, inner: Embedder, folder: Path) -> None:
        self._inner = inner
        self.fingerprint = inner.fingerprint
        self.dimension = inner.dimension
        self.scripts: frozenset[str] | None = getattr(inner, "scripts", None)
        self._file = folder / f"{hashlib.sha256(inner.fingerprint.encode()).hexdigest()[:16]}.npz"
        self._known: dict[bytes, Vectors] = {}
        self._new = 0
        if self._file.exists():
            with np.load(self._file, allow_pickle=False) as kept:
                keys, rows = kept["keys"], kept["rows"]
            self._known = {key.tobytes(): row for key, row in zip(keys, rows, strict=True)}

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """As the embedder behind it; texts seen before are not embedded again."""
        keys = [
            hashlib.sha256((b"q" if query else b"p") + text.encode("utf-8", "surrogatepass")).digest() for text in texts
        ]
        fresh = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if fresh:
            rows = self._inner.embed(list(fresh.values()), query=query)
            self._known.update(zip(fresh, rows, strict=True))
            self._new += len(fresh)
        if not keys:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return np.stack([self._known[key] for key in keys]).astype(np.float32)

    def save(self) -> None:
        """Write the vectors if there are new ones; whole file, then moved into place."""
        if not self._new:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        part = self._file.with_suffix(".part.npz")
        keys = np.frombuffer(b"".join(self._known), dtype=np.uint8).reshape(-1, 32)
        np.savez(part, keys=keys, rows=np.stack(list(self._known.values())))
        part.replace(self._file)
        self._new = 0
