"""Rows are data: nothing in the packages unpickles, evaluates or builds SQL from values."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(
    path
    for package in ("shared_core", "langchain_tiered_memory", "llama_index_tiered_memory")
    for path in (ROOT / package).rglob("*.py")
)
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "jsonpickle"}
CALLS = {"eval", "exec", "compile", "__import__", "loads_pickle"}


def found(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield node.module
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            yield node.func.id
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle" and getattr(node.value, "value", True):
            yield "allow_pickle"
        elif isinstance(node, ast.Attribute) and node.attr in ("enable_load_extension", "load_extension", "yaml_load"):
            yield node.attr


def test_there_is_something_to_look_at():
    assert len(FILES) > 40


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_unpickled_or_evaluated(path):
    assert list(found(ast.parse(path.read_text("utf-8")))) == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from dill import x",
        "eval('1')",
        "np.load(p, allow_pickle=True)",
        "db.enable_load_extension(1)",
    ],
)
def test_the_look_finds_what_it_looks_for(code):
    assert list(found(ast.parse(code)))


SQL = sorted((ROOT / "shared_core" / "storage" / "sqlite").glob("*.py"))
CONSTANT = {"COLUMNS", "_PATH", "_columns", "_marks", "BUSY_SECONDS", "APPLICATION_ID", "MIGRATIONS", "len", "join"}


@pytest.mark.parametrize("path", SQL, ids=lambda path: path.name)
def test_sql_is_put_together_from_constants_and_marks_only(path):
    """In every f-string given to ``execute``, what stands in braces is a constant or a row of question marks."""
    for call in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not (
            isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr.startswith("execute")
        ):
            continue
        for part in ast.walk(call.args[0]) if call.args else ():
            if isinstance(part, ast.FormattedValue):
                names = {node.id for node in ast.walk(part.value) if isinstance(node, ast.Name)}
                names |= {node.attr for node in ast.walk(part.value) if isinstance(node, ast.Attribute)}
                assert names & CONSTANT, f"{path.name}:{call.lineno}: {ast.unparse(part.value)}"
