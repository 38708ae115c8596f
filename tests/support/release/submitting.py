"""A query below `spark-submit --packages`, with our jar from a Maven repository alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from cec_store import read_state
from cec_store.connectors.spark.setup.compiler import Spark, coordinates
from cec_store.connectors.spark.setup.settings import PACKAGES, session_settings

PROGRAM = '''\
"""Counts of keys: a query that knows nothing of cec-store but its settings."""
import sys
from pyspark.sql import SparkSession

session = SparkSession.builder.getOrCreate()
rows = session.readStream.schema("item LONG").json(f"{sys.argv[1]}/input")
counts = rows.groupBy("item").count()
query = (
    counts.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    .option("checkpointLocation", f"{sys.argv[1]}/checkpoint").start()
)
query.awaitTermination()
session.stop()
'''
_TIMEOUT_S = 600
ROWS = [1, 2, 2, 3, 3, 3]


def submit(spark: Spark, repository: Path, folder: Path) -> str:
    """Run a stateful query twice, and compare the counts in its state; return what was run.

    Ivy's own cache is put below ``folder``, so that no earlier jar is taken.

    Raises:
        SystemExit: the query failed, or its state is not what it has counted.
    """
    (folder / "input").mkdir(parents=True)
    program = folder / "counts.py"
    program.write_text(PROGRAM, encoding="utf-8")
    settings = session_settings(coordinates(spark.version), {}, by=PACKAGES)
    settings |= {"spark.jars.ivy": str(folder / "ivy"), "spark.sql.shuffle.partitions": "2",
                 "spark.ui.enabled": "false", "spark.pyspark.python": sys.executable}  # fmt: skip
    command = [
        str(spark.jars.parent / "bin" / "spark-submit"), "--master", "local[2]",
        "--repositories", repository.resolve().as_uri(),
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        str(program), str(folder),
    ]  # fmt: skip
    for attempt in (1, 2):
        lines = "".join(json.dumps({"item": item}) + "\n" for item in ROWS)
        (folder / "input" / f"{attempt}.json").write_text(lines)
        log = folder / f"log-{attempt}"
        with log.open("wb") as out:
            done = subprocess.run(command, stdout=out, stderr=out, timeout=_TIMEOUT_S, cwd=folder)
        if done.returncode:
            raise SystemExit(f"spark-submit --packages failed:\n{log.read_text()[-3000:]}")
    state = read_state(folder / "checkpoint").to_pylist()
    counts = {row["key"]["item"]: row["value"]["count"] for row in state}
    expected = {item: 2 * ROWS.count(item) for item in ROWS}
    if counts != expected:
        raise SystemExit(f"the query below spark-submit left {counts}, and not {expected}")
    taken = [path.name for path in (folder / "ivy").rglob("*cec-store-spark*.jar")]
    return f"spark-submit --packages {coordinates(spark.version)} (took {taken[0]})"
