"""A store with names in it that break naive printers."""
import itertools
import sqlite3

from seal import seal

HOSTILE = "</style></title></svg><script>alert(1)</script><img src=x onerror=alert(1)>'\"]]>--><!-- &lt; \x1b[31m\u202e\u200b=1+1 " + "x" * 10_000
# What the program itself parses, and would rightly refuse.
PARSED = {("meta", "key"), ("meta", "value"), ("op", "class"), ("communicator", "kind"), ("region", "kind"), ("process", "ended"), ("metric", "id"),
          ("rank_metric", "id"), ("gpu_name", "class"), ("process_fact", "key"), ("pragma", "")}


def poison(store):
    """Puts HOSTILE into every column of words. Returns how many."""
    db = sqlite3.connect(store)
    numbers = itertools.count()
    db.create_function("number", 0, lambda: next(numbers))  # names that must be unique stay so
    fields = 0
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for _, column, kind, *_ in db.execute(f"PRAGMA table_info({table})").fetchall():
            if kind == "TEXT" and (table, column) not in PARSED:
                db.execute(f"UPDATE {table} SET {column} = ? || number() WHERE {column} IS NOT NULL", (HOSTILE,))
                fields += 1
    db.execute("UPDATE meta SET value = ? WHERE key IN ('name', 'command', 'job_id', 'job_step_id', 'ddl_version', 'verdict.text')", (HOSTILE,))
    db.execute("INSERT OR REPLACE INTO meta VALUES ('name', ?), ('job_id', ?)", (HOSTILE, HOSTILE))
    db.commit()
    db.close()
    seal(store)
    return fields
