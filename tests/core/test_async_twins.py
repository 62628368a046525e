"""Every method has an async twin of the same signature that runs the same procedure."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from shared_core import Closed, TieredMemory
from shared_core.long_term import LongTerm
from shared_core.off_loop import off_loop

TWINS = [
    (kind, name)
    for kind in (TieredMemory, LongTerm)
    for name, method in vars(kind).items()
    if inspect.iscoroutinefunction(method) and not name.startswith("_") and name != "astats"
]


@pytest.mark.parametrize(("kind", "name"), TWINS, ids=[name for _, name in TWINS])
def test_a_twin_takes_what_its_method_takes_and_says_whose_twin_it_is(kind, name):
    twin, method = getattr(kind, name), getattr(kind, name[1:])
    assert inspect.signature(twin).parameters == inspect.signature(method).parameters
    assert twin.__name__ == name
    assert f"``{name[1:]}``" in twin.__doc__


async def test_the_twins_do_the_same_work(open_memory):
    memory = open_memory()
    made = await memory.aremember("I take my coffee black.", tags=["taste"])
    assert (await memory.arecall("coffee", k=1, tags=["taste"]))[0].memory.id == made.id
    assert await memory.aget(made.id) == memory.get(made.id)
    assert [one.id for one in await memory.long_term.alist(limit=5)] == [made.id]
    assert await memory.aforget(made.id) == 1


async def test_an_async_with_block_closes_the_memory(open_memory):
    async with open_memory() as memory:
        await memory.aremember("x")
    with pytest.raises(Closed):
        memory.remember("y")


async def test_the_method_that_runs_is_the_objects_own():
    class Base:
        def get(self, n):
            return n

        aget = off_loop(get)

    class Twice(Base):
        def get(self, n):
            return 2 * n

    assert await Base().aget(1) == 1
    assert await Twice().aget(n=1) == 2


PROGRAM = """
from shared_core import TieredMemory

async def use(memory: TieredMemory) -> None:
    await memory.aremember("x", tagz=["a"])
    await memory.arecall("x", k="8")
    memory.tools.wrap(len, tttl=5)
    good: str = (await memory.aremember("x", tags=["a"])).text
    async with memory as same:
        await same.asweep(dry_run=True)

    @memory.tools.wrap(ttl=5)
    def tool(x: int) -> str:
        return good

    tool("x")
"""


def test_a_type_checker_finds_a_keyword_that_is_not_there(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", "program.py"],
        cwd=tmp_path, env={"MYPYPATH": str(Path(__file__).parents[2]), "MYPY_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = [
        line.split(":")[1] for line in done.stdout.splitlines() if line.startswith("program.py") and ": error:" in line
    ]
    assert sorted(set(found), key=int) == ["5", "6", "7", "16"], done.stdout + done.stderr
