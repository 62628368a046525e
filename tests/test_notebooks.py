"""Every notebook runs from top to bottom as it is."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NEEDS = {"03_llama_index": ("llama_index.core.llms.mock", "MockFunctionCallingLLM")}
"""What a notebook takes from a framework that its older releases do not have."""


@pytest.mark.parametrize("notebook", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(notebook, monkeypatch):
    module, name = NEEDS.get(notebook.stem, ("pathlib", "Path"))
    if not hasattr(pytest.importorskip(module), name):
        pytest.skip(f"this release has no {module}.{name}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    spec = importlib.util.spec_from_file_location("run_notebooks", ROOT / "tools" / "run_notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.run(notebook)
