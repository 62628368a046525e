"""Run the notebooks from top to bottom in a fresh kernel: ``--write`` keeps their output in the files."""

from __future__ import annotations

import argparse
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "notebooks"


def run(path: Path, *, write: bool = False) -> None:
    """Execute one notebook; CellExecutionError if a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(FOLDER)}}).execute()
    if write:
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)  # when it ran says nothing and changes every time
        notebook.metadata.pop("language_info", None)
        nbformat.write(notebook, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the output in the notebooks")
    for found in sorted(FOLDER.glob("*.ipynb")):
        run(found, write=parser.parse_args().write)
