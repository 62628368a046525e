"""Two real processes on one file: the same results, and each other's invalidations."""

import subprocess
import sys

import pytest

from shared_core.storage.sqlite import SQLiteStorage
from shared_core.storage.sqlite.blobs import SQLiteBlobs
from tests.core.tool_cache_kit import Counted, tool_cache

pytestmark = pytest.mark.skipif(
    not hasattr(SQLiteBlobs, "counters"),
    reason="this storage has no shared counters yet; rows stay unused until it does",
)

OTHER = """
import os, sys, time
from shared_core.mid_term.tool_cache import ToolCache
from shared_core.settings import Settings
from shared_core.storage.sqlite import SQLiteStorage

storage = SQLiteStorage(sys.argv[1])
tools = ToolCache(settings=Settings(), clock=time.time, blobs=storage.blobs, scope_of=lambda scope: scope or "ada")
tools.register("get", reads="item")
tools.register("set", writes="item")
if sys.argv[2] == "read":
    print(tools.call("get", {"item": "7"}, lambda item: "executed by the other"))
elif sys.argv[2] == "invalidate":
    print(tools.invalidate_resource("7"))
else:
    tools.call("set", {"item": "7"}, lambda item: os._exit(9))
storage.close()
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def tools(file):
    import time

    storage = SQLiteStorage(file)
    tools = tool_cache(time.time, blobs=storage.blobs)
    tools.register("get", reads="item")
    yield tools
    storage.close()


def other(file, what):
    environment = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "77"}
    command = [sys.executable, "-c", OTHER, str(file), what]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def executed(tools):
    tool = Counted("mine")
    tools.call("get", {"item": "7"}, tool)
    return tool.calls == 1


def test_a_result_of_one_process_serves_the_other(tools, file):
    assert executed(tools)
    assert other(file, "read").stdout == "mine\n"


def test_what_one_process_invalidates_is_fresh_in_the_other(tools, file):
    executed(tools)
    assert not executed(tools)
    assert other(file, "invalidate").stdout == "1\n"
    assert executed(tools)


def test_a_process_killed_inside_a_write_leaves_nothing_stale(tools, file):
    executed(tools)
    assert other(file, "die").returncode == 9
    assert executed(tools)
