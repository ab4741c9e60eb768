"""A store as text, to compare two."""
import sqlite3


def store_dump(path):
    """The statements that make it, but for the moment of the ingest."""
    store = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
    return [line for line in store.iterdump() if "'ingested_at'" not in line]
