"""What the tests of several processes start from."""

import sqlite3
import struct
import subprocess
import sys

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
