"""Two sessions, two processes, two frameworks, one file. Run with ``make demo``."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from demo import script, show
from shared_core import TieredMemory


def main() -> None:
    """Run both sessions and list what the file holds."""
    with tempfile.TemporaryDirectory() as folder:
        location = str(Path(folder) / "ada.db")
        show.title("Session one: a LangChain agent" + ("" if script.REAL else " (scripted model: no key needed)"))
        _run("demo.session_one", location)
        show.title("Session two: a LlamaIndex agent, another process, the same file")
        _run("demo.session_two", location)
        show.title(
            "What the file holds: recall('what should I know before I invite Ada for coffee?'), each score with its parts"
        )
        with TieredMemory.open(location, default_scope=script.SCOPE) as memory:
            show.hits(memory.recall("what should I know before I invite Ada for coffee?", k=4))
            kept = memory.long_term.list()
        show.title(
            f"{len(kept)} memories in one SQLite file of {Path(location).stat().st_size // 1024} KB. Nothing left this machine."
        )


def _run(module: str, location: str) -> None:
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", module, location], check=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})


if __name__ == "__main__":
    main()
