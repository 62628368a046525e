"""Processes that fork: both sides go on with what is their own."""

import os
import sqlite3
import threading
from contextlib import closing

import pytest

from tests.core.process_kit import check_agreement, in_a_fork
from tests.core.tool_cache_kit import tool_cache


def test_a_forked_process_opens_its_own_and_both_go_on(open_memory, tmp_path):
    memory = open_memory(ids=None)
    memory.remember("before the fork")
    memory.recall("fork")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            found = {hit.memory.text for hit in memory.recall("fork")}
            memory.remember("from the child")
            memory.close()
            status = 0 if "before the fork" in found else 2
        finally:
            os._exit(status)
    memory.remember("from the parent")
    assert os.waitpid(child, 0)[1] == 0
    assert {hit.memory.text for hit in memory.recall("from before fork", k=9)} == {
        "before the fork", "from the child", "from the parent",
    }  # fmt: skip
    memory.close()
    assert len(check_agreement(tmp_path / "memory.db")) == 3
    with closing(sqlite3.connect(tmp_path / "memory.db")) as db, db:
        counted = db.execute("SELECT access_count FROM memories WHERE text = 'before the fork'").fetchone()[0]
    db.close()
    assert counted == 3  # the parent's two and the child's one, each once


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_store_in_memory_is_not_shared_with_a_fork(open_memory):
    memory = open_memory(":memory:")
    memory.remember("tea")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            memory.recall("tea")
        except Exception as error:  # noqa: BLE001 - the exit status tells
            status = 0 if "fork" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert memory.recall("tea")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_fork_does_not_wait_for_a_call_that_only_its_parent_will_end(open_memory):
    memory = open_memory()
    memory.tools.register("slow")
    began, may_end = threading.Event(), threading.Event()

    def slow(x):
        began.set()
        may_end.wait(30)
        return x

    leader = threading.Thread(target=lambda: memory.tools.call("slow", {"x": 1}, slow))
    leader.start()
    began.wait(30)
    try:
        assert in_a_fork(lambda: memory.tools.call("slow", {"x": 1}, lambda x: x)) == 0
    finally:
        may_end.set()
        leader.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_fork_in_the_middle_of_other_threads_work_can_do_all_of_it_itself(open_memory):
    memory = open_memory(ids=None)
    memory.tools.register("read")
    memory.tools.register("write", cacheable=False)
    stop = threading.Event()

    def work(name, n):
        memory.tools.call("read", {"n": n % 9}, lambda n: n)
        memory.tools.call("write", {"n": n}, lambda n: n)
        memory.responses.call({"messages": [{"role": "user", "content": str(n % 9)}]}, lambda: {"content": "yes"})
        memory.turns.follow([{"role": "user", "content": f"{name} {n}"}], session=name)
        memory.recall(name)

    def keep_on(name):
        n = 0
        while not stop.is_set():
            n += 1
            work(name, n)

    threads = [threading.Thread(target=keep_on, args=(f"t{i}",)) for i in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert [in_a_fork(lambda: work("child", 0)) for _ in range(6)] == [0] * 6
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_result_whose_execution_went_through_a_fork_is_not_kept_in_the_child():
    """What it hung on stayed behind in the parent: no event in the child would reach it."""
    tools = tool_cache()
    tools.register("read")
    child = tools.call("read", {}, os.fork)
    if child == 0:
        status = 1
        try:
            status = 0 if tools.call("read", {}, lambda: "fresh") == "fresh" else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert tools.call("read", {}, lambda: "executed again") == child
