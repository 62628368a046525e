"""Several processes and threads on one file: nothing lost, nothing doubled, nothing stale, nobody held up."""

import json
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from shared_core import Settings, TieredMemory
from shared_core.testing.embedders import HashEmbedder
from tests.core.tool_cache_kit import tool_cache

START = """
import sys, time
from shared_core import TieredMemory, Settings
from shared_core.testing.embedders import HashEmbedder
memory = TieredMemory.open(sys.argv[1], embedder=HashEmbedder(), default_scope="ada")
"""
WRITER = (
    START
    + """
name, count = sys.argv[2], int(sys.argv[3])
for i in range(count):
    memory.remember(f"fact {i} of writer {name}", id=f"{name}-{i}")
    if i % 20 == 0:
        assert memory.recall(f"fact {i} of writer {name}", k=3)
memory.close()
"""
)
# Forks a writer again and again and kills it at a random moment. What the writer was told to be done is on a
# pipe; what was under way when it died may be there or not, but whole.
KILLED = """
import json, os, random, signal, sys, time
from shared_core import Settings, TieredMemory
from shared_core.testing.embedders import HashEmbedder

path, rounds = sys.argv[1], int(sys.argv[2])
rng = random.Random(7)
there, gone = {}, set()

def opened():
    return TieredMemory.open(path, embedder=HashEmbedder(), default_scope="ada")

def operations(number):
    mine, ops = [], random.Random(number)
    for i in range(10**6):
        kind = ops.choice(["pair", "pair", "one", "forget", "swept"]) if len(mine) > 3 else "pair"
        if kind == "forget":
            id = mine.pop(ops.randrange(len(mine)))
            yield [], [id], lambda memory, id=id: memory.forget(id)
        elif kind == "swept":
            yield [], [], lambda memory: memory.recall("fact", k=2) and memory.sweep(max_memories=10**6)
        else:
            ids = [f"{number}-{i}-{part}" for part in "ab"[: 2 if kind == "pair" else 1]]
            items = [{"text": f"fact {i} {id} of round {number}", "id": id} for id in ids]
            mine += ids
            yield ids, [], lambda memory, items=items: memory.remember_many(items)

def write(number, told):
    with opened() as memory:
        for i, (_, _, act) in enumerate(operations(number)):
            act(memory)
            os.write(told, b".")

opened().close()
for number in range(rounds):
    read, told = os.pipe()
    writer = os.fork()
    if writer == 0:
        try:
            write(number, told)
        finally:
            os._exit(3)
    os.close(told)
    done, wanted = 0, rng.randrange(16) if number % 2 else 0  # on odd rounds after so many steps, else any time from the start
    while done < wanted:
        got = os.read(read, 65536)
        assert got, "the writer failed"
        done += len(got)
    time.sleep(rng.uniform(0.0, 0.01 if wanted else 0.06))
    os.kill(writer, signal.SIGKILL)
    assert os.waitpid(writer, 0)[1] == signal.SIGKILL, "the writer failed"
    while got := os.read(read, 65536):
        done += len(got)
    os.close(read)
    steps = operations(number)
    for _ in range(done):
        fresh, dropped, _ = next(steps)
        there.update(dict.fromkeys(fresh)); [there.pop(id) for id in dropped]; gone.update(dropped)
    fresh, dropped, _ = next(steps)
    with opened() as memory:
        found = {one.id for one in memory.long_term.list()}
        sure = set(there) - set(dropped)
        assert sure <= found, sorted(sure - found)
        assert found - sure in (set(), set(fresh), set(dropped)), (found - sure, fresh, dropped)
        there = dict.fromkeys(found)
        if number % 10 == 9:
            assert {hit.memory.id for hit in memory.recall("fact", k=10**6)} == found
            report = memory.check()
            assert report.ok, report
print(json.dumps([sorted(there), len(gone)]))
"""

TALKING = (
    START
    + """
for i in range(10**6):
    memory.context("s").append({"role": ("user", "assistant")[i % 2], "content": f"message {i}"})
    print(i, flush=True)
"""
)


def run(script, *arguments, **options):
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)], text=True, **options)


def check_agreement(path, dimension=64):
    """Rows, text index and vectors of a file agree, and SQLite finds nothing wrong with it."""
    db = sqlite3.connect(path)
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        rows = db.execute(
            "SELECT m.id, i.terms, i.vectors FROM memories m LEFT JOIN search_index i ON i.memory = m.row"
        ).fetchall()
        assert db.execute("SELECT count(*) FROM search_index").fetchone()[0] == len(rows)
        for id, terms, vectors in rows:
            assert terms, id
            assert len(struct.unpack(f"<{dimension}f", vectors)) == dimension
        return {id for id, _, _ in rows}
    finally:
        db.close()


def test_the_arrays_of_one_process_follow_every_write_of_another(open_memory):
    one, other = open_memory(), open_memory()

    def shown():
        return {hit.memory.id for hit in other.recall("fact", k=50)}

    one.remember_many([{"text": f"fact {i}", "id": str(i), "importance": i / 10} for i in range(5)])
    assert shown() == {"0", "1", "2", "3", "4"}
    one.forget("3")
    assert shown() == {"0", "1", "2", "4"}
    one.sweep(max_memories=3)
    assert shown() == {"1", "2", "4"}
    one.supersede("4", "fact four")
    assert len(shown()) == 3
    assert "4" not in shown()
    one.pin("1")
    assert [hit.memory.id for hit in other.sweep(max_memories=0, dry_run=True).victims if hit.memory.id == "1"] == []
    one.storage.upkeep.erase_scope("ada")
    assert shown() == set()
    one.remember("fact again", id="1")
    assert shown() == {"1"}


def test_a_memory_that_comes_back_from_the_archive_is_recalled_again(open_memory):
    one, other = open_memory(), open_memory()
    one.remember_many([{"text": f"fact {i}", "id": str(i)} for i in range(3)])
    one.storage.memories.set_status("ada", ["0"], "archived")
    assert len(other.recall("fact")) == 2
    one.storage.memories.set_status("ada", ["0"], "active")
    for memory in (one, other):
        assert {hit.memory.id for hit in memory.recall("fact")} == {"0", "1", "2"}
        assert memory.recall("fact 0", k=1)[0].memory.id == "0"


def test_another_process_that_replaces_the_model_leaves_this_one_right(open_memory):
    one = open_memory()
    one.remember("I like tea.")
    assert "semantic" in one.recall("tea")[0].parts
    other = open_memory(embedder=HashEmbedder(32), reembed=True)
    assert other.recall("tea")[0].memory.text == "I like tea."
    assert one.recall("tea")[0].memory.text == "I like tea."
    one.remember("I like wine.")
    assert {hit.memory.text for hit in other.recall("wine", k=5)} == {"I like tea.", "I like wine."}
    assert one.stats()["long_term"]["foreign_model"] > 0


def test_a_reader_answers_while_another_process_holds_a_write_transaction(open_memory, tmp_path):
    memory = open_memory()
    memory.remember("I like tea.", id="1")
    open_memory(embedder="none").remember("written without a model", id="2")
    held = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    held.execute("UPDATE memories SET text = 'half-written'")
    try:
        assert {hit.memory.text for hit in memory.recall("tea")} == {"I like tea.", "written without a model"}
        assert memory.get("1").text == "I like tea."
        assert memory.turns.begin("tea").ids
        late = open_memory()
        assert len(late.recall("tea")) == 2
    finally:
        held.execute("ROLLBACK")
        held.close()
    memory.recall("tea")
    memory.close()
    late.close()
    assert check_agreement(tmp_path / "memory.db") == {"1", "2"}


def test_four_processes_write_while_others_recall_and_nothing_is_lost_or_doubled(open_memory, tmp_path):
    path = tmp_path / "memory.db"
    writers = [run(WRITER, path, name, 500, stderr=subprocess.PIPE) for name in "abcd"]
    reader = open_memory()
    counts = []
    while any(writer.poll() is None for writer in writers):
        counts.append(len(reader.recall("fact", k=10_000)))
    for writer in writers:
        assert writer.communicate()[1] == ""
        assert writer.returncode == 0
    assert counts == sorted(counts)
    expected = {f"{name}-{i}" for name in "abcd" for i in range(500)}
    assert {hit.memory.id for hit in reader.recall("fact", k=10_000)} == expected
    assert len(reader.long_term.list()) == 2_000
    assert reader.check().ok
    reader.close()
    assert check_agreement(path) == expected


def test_a_bound_holds_for_four_processes_that_write_at_once(open_memory, tmp_path):
    path = tmp_path / "memory.db"
    bounded = WRITER.replace('default_scope="ada")', 'default_scope="ada", settings=Settings(max_memories=50))')
    bounded = bounded.replace("assert memory.recall", "memory.recall")
    writers = [run(bounded, path, name, 60, stderr=subprocess.PIPE) for name in "abcd"]
    reader, most = open_memory(), 0
    while any(writer.poll() is None for writer in writers):
        most = max(most, len(reader.long_term.list()))
    assert [writer.communicate()[1] for writer in writers] == [""] * 4
    most = max(most, len(reader.long_term.list()))
    assert 50 <= most <= 53  # one more for each other process that wrote at the very moment
    assert len(reader.long_term.list(status=None)) == 240
    one = open_memory(settings=Settings(max_memories=50))
    one.remember("one more")
    assert len(one.long_term.list()) == 50


def test_twenty_threads_on_one_memory_lose_nothing(open_memory):
    memory = open_memory(ids=None)
    failures = []

    def work(name):
        try:
            for i in range(10):
                memory.remember(f"fact {i} of thread {name}")
                memory.remember("said by all")
                assert memory.recall(f"fact {i} of thread {name}", k=1)
                memory.context("s").append({"role": "user", "content": f"{name} {i}"})
        except BaseException as error:  # noqa: BLE001 - told to the test below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    kept = memory.long_term.list()
    assert len(kept) == 201
    (shared,) = [item for item in kept if item.text == "said by all"]
    assert shared.access_count >= 199
    counted = memory.stats()["long_term"]
    assert (counted["remembered"], counted["strengthened"], counted["recalls"]) == (201, 199, 200)
    assert len(memory.context("s").history()) == 200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_what_was_acknowledged_before_any_of_a_hundred_kills_is_there_whole(tmp_path):
    path = tmp_path / "memory.db"
    done = subprocess.run([sys.executable, "-c", KILLED, path, "100"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    there, forgotten = json.loads(done.stdout)
    assert check_agreement(path) == set(there)
    assert len(there) > 100  # it did write between the kills
    assert forgotten > 0
    with TieredMemory.open(path, embedder=HashEmbedder(), default_scope="ada") as memory:
        assert {hit.memory.id for hit in memory.recall("fact", k=10**6)} == set(there)
        memory.remember("the next one")
        assert memory.recall("the next one", k=1)[0].memory.text == "the next one"


def erasing(memory, tmp_path):
    assert memory.forget_scope("ada").left == 0


def taking_in(memory, tmp_path):
    assert memory.import_(tmp_path / "in.jsonl") in (0, 120)


def sweeping(memory, tmp_path):
    memory.sweep(max_memories=50)


def mending(memory, tmp_path):
    assert memory.rebuild_index().ok


def at_the_bound(memory, tmp_path):
    memory.remember_many([{"text": f"new fact {i}", "id": f"new {i}"} for i in range(60)])


# What is done, how many memories of "ada" and of "eve" there may be if it died, and settings.
DEATHS = {
    "erasing": (erasing, {(150, 0), (0, 0)}, Settings()),
    "taking in": (taking_in, {(150, 0), (150, 120)}, Settings()),
    "sweeping": (sweeping, {(150, 0), (50, 0)}, Settings(victims="delete")),
    "mending": (mending, {(150, 0)}, Settings()),
    "at the bound": (at_the_bound, {(150, 0), (160, 0)}, Settings(max_memories=160, victims="delete")),
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.parametrize("name", DEATHS)
def test_a_kill_in_the_middle_of_large_work_leaves_all_of_it_or_nothing(tmp_path, name):
    """Work that changes many rows at once: wherever it dies, it was done or it was not, and other scopes stay whole."""
    act, outcomes, settings = DEATHS[name]
    base, path = tmp_path / "base.db", tmp_path / "memory.db"

    def opened(at=path):
        return TieredMemory.open(at, embedder=HashEmbedder(), default_scope="ada", settings=settings)

    with opened(tmp_path / "eve.db") as memory:
        items = [{"text": f"fact {i} of eve", "id": str(i), "subject": str(i % 7)} for i in range(120)]
        memory.remember_many(items, scope="eve")
        memory.export(tmp_path / "in.jsonl", scope="eve", vectors=True)
    with opened(base) as memory:
        for scope in ("ada", "bob"):
            memory.remember_many([{"text": f"fact {i} of {scope}", "id": str(i)} for i in range(150)], scope=scope)
            memory.context("s", scope=scope).extend([{"role": "user", "content": f"{i}"} for i in range(20)])
    for number in range(12):
        for left in tmp_path.glob("memory.db*"):
            left.unlink()
        path.write_bytes(base.read_bytes())
        read, told = os.pipe()
        worker = os.fork()
        if worker == 0:
            try:
                memory = opened()
                os.write(told, b"begun")
                act(memory, tmp_path)
                os.write(told, b"done")
                os._exit(0)
            finally:
                os._exit(3)
        os.close(told)
        assert os.read(read, 5) == b"begun"
        time.sleep(0.004 * number)
        os.kill(worker, signal.SIGKILL)
        assert os.waitpid(worker, 0)[1] in (signal.SIGKILL, 0), "the work failed"
        done = os.read(read, 4) == b"done"
        os.close(read)
        with opened() as memory:
            assert memory.check().ok
            held = [len(memory.long_term.list(scope=scope, status=None)) for scope in ("ada", "eve")]
            assert tuple(held) in outcomes
            assert len(memory.context("s").history()) == (20 if held[0] else 0)
            assert len(memory.recall("fact", scope="bob", k=999)) == 150
            if name == "erasing":
                assert not (done and held[0])
            if name == "taking in":
                assert held[1] == 120 or not done


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_the_last_message_that_was_appended_before_a_kill_is_in_the_window(open_memory, tmp_path):
    open_memory().close()
    writer = run(TALKING, tmp_path / "memory.db", stdout=subprocess.PIPE)
    for line in writer.stdout:
        if int(line) >= 20:
            writer.send_signal(signal.SIGKILL)
            break
    acknowledged = int(line) + len(writer.stdout.readlines())
    writer.wait()
    writer.stdout.close()
    context = open_memory().context("s")
    said = [message["content"] for message in context.history()]
    assert said == [f"message {i}" for i in range(len(said))]
    assert len(said) - acknowledged in (1, 2), "at most one whose acknowledgement was on its way"
    assert context.window(100_000) == context.history()


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


def test_vectors_that_could_not_be_written_wait_for_the_next_recall(open_memory, tmp_path):
    open_memory(embedder="none", settings=Settings()).remember("tea", id="1")
    memory = open_memory()
    held = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    statements = []
    memory.storage._connections._own_writer().set_trace_callback(statements.append)
    try:
        assert memory.recall("tea")[0].memory.id == "1"
    finally:
        held.execute("ROLLBACK")
        held.close()
    assert statements.index("PRAGMA busy_timeout = 0") < statements.index("BEGIN IMMEDIATE")
    memory.recall("tea")
    memory.close()
    assert check_agreement(tmp_path / "memory.db") == {"1"}


def in_a_fork(work, seconds=20.0):
    """The exit code of a forked child that does the work; None if it did not come to an end."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


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
