"""The package's face: what it exports, and how it behaves where LlamaIndex is not installed."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import llama_index_tiered_memory as ours

WITHOUT = """
    import sys
    class Absent:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in {"llama_index", "workflows"}:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    sys.meta_path.insert(0, Absent())
"""


def run(code):
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(WITHOUT) + textwrap.dedent(code)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    return out.stdout.strip()


def test_all_names_exactly_what_can_be_imported():
    assert ours.__all__ == sorted(ours.__all__)
    assert set(ours.__all__) == set(ours._HOME)
    for name in ours.__all__:
        assert callable(getattr(ours, name)), name
        assert getattr(ours, name).__name__ == name
        assert getattr(ours, name).__doc__, name


def test_every_file_with_an_interface_exports_it():
    import pathlib

    files = {path.stem for path in pathlib.Path(ours.__file__).parent.glob("*.py")}
    own = {"__init__", "convert", "attach", "answers", "calls", "requests", "steps", "metadata_filters"}
    assert files - own == set(ours._HOME.values())


def test_the_names_are_listed_and_an_unknown_one_is_an_attribute_error():
    assert set(ours.__all__) <= set(dir(ours))
    with pytest.raises(AttributeError, match="has no attribute 'TieredNothing'"):
        ours.TieredNothing  # noqa: B018


@pytest.mark.parametrize("name", ours.__all__)
def test_without_llama_index_the_package_imports_and_a_name_says_what_to_install(name):
    assert (
        run(f"""
        import llama_index_tiered_memory as ours
        from shared_core import MissingExtra
        try:
            ours.{name}
        except MissingExtra as error:
            print(error)
    """)
        == f"llama_index_tiered_memory.{name} needs an extra that is not installed: "
        "in a checkout of this project, pip install '.[llama-index]'"
    )


def test_importing_the_package_does_not_import_llama_index():
    code = (
        "import sys, llama_index_tiered_memory; print(sorted(m for m in sys.modules if m.startswith('llama_index.')))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.stdout.strip() == "[]", out.stderr
