"""A history grown by copies of the runs that it holds: an hour apart, and after half of them a step that is a tenth longer, all of it exposed transfer. The same SQL for
SQLite and PostgreSQL."""

CHANGED = {
    "run": "run || ' copy ' || i",
    "job_id": "CAST(4700 + i AS TEXT)",
    "started_ns": "started_ns + i * 3600000000000",
    "step_time_ns": "CAST(step_time_ns * (1 + CASE WHEN i > {half} THEN 0.1 ELSE 0 END + 0.001 * (i * 7 % 10)) AS BIGINT)",
    "transfer_ns": "transfer_ns + CASE WHEN i > {half} THEN 0.1 * step_time_ns ELSE 0 END",
}


def growing(columns, copies):
    """`columns`: of ddl_run. Every run is said to have run on four nodes, of which node1 was slow."""
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {copies})"
    values = ", ".join(CHANGED.get(column, column).replace("{half}", str(copies // 2)) for column in columns)
    return f"""
      INSERT INTO ddl_run ({", ".join(columns)}) {numbers} SELECT {values} FROM ddl_run, n;
      DELETE FROM ddl_host;
      INSERT INTO ddl_host WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4)
        SELECT run, 'node' || i, 1, CASE WHEN i = 1 THEN 1 ELSE 0 END, CASE WHEN i = 1 THEN length(run) % 3 END FROM ddl_run, n;
      INSERT INTO ddl_finding {numbers} SELECT run || ' copy ' || i, position, id, sentence, rank, saving_ns, share_ratio, confidence, saving_bound FROM ddl_finding, n;
      DELETE FROM ddl_axis;
      INSERT INTO ddl_axis SELECT run, 'data', transfer_ns, wait_ns FROM ddl_run;
    """
