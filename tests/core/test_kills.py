"""Processes that are killed in the middle of their work: what was acknowledged is there, and nothing half there."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from shared_core import Settings, TieredMemory
from shared_core.testing.embedders import HashEmbedder
from tests.core.process_kit import START, check_agreement, run

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
