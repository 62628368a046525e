"""What the tests of several processes start from."""

import os
import signal
import sqlite3
import struct
import subprocess
import sys
import time

START = """
import sys, time
from shared_core import TieredMemory, Settings
from shared_core.testing.embedders import HashEmbedder
memory = TieredMemory.open(sys.argv[1], embedder=HashEmbedder(), default_scope="ada")
"""


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
