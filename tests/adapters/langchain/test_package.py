"""The package itself: what it names is there, and it can be imported without a framework."""

import subprocess
import sys

import pytest

import langchain_tiered_memory


def test_all_names_exactly_what_can_be_loaded():
    assert langchain_tiered_memory.__all__ == sorted(langchain_tiered_memory._PLACES, key=str)
    for name in langchain_tiered_memory.__all__:
        assert getattr(langchain_tiered_memory, name).__name__ == name
    assert set(langchain_tiered_memory.__all__) <= set(dir(langchain_tiered_memory))


def test_an_unknown_name_is_an_attribute_error_that_lists_the_known_ones():
    with pytest.raises(AttributeError, match="TieredMemoryMiddleware"):
        langchain_tiered_memory.TieredMiddleware  # noqa: B018


def test_it_imports_without_langchain_and_each_name_says_what_to_install():
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("langchain", "langchain_core", "langchain_classic", "langgraph"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import langchain_tiered_memory
for name in langchain_tiered_memory.__all__:
    try:
        getattr(langchain_tiered_memory, name)
        print(name, "loaded")
    except ImportError as error:
        assert type(error).__name__ == "MissingExtra", error
        assert str(error).startswith(f"{name} needs an extra that is not installed: in a checkout of this project, "), error
        assert "pip install '.[" in str(error), error
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (out.stdout, out.stderr) == ("", "")
