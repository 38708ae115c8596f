"""Runs a query that began on Spark's own store in a session of ours: `foreign_job FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cec_store.connectors import spark
from cec_store.connectors.spark.setup.settings import BUILT_IN, PROVIDER, PROVIDER_KEY


def run(session: Any, folder: Path, name: str) -> None:
    counts = session.readStream.text(str(folder / "in")).groupBy("value").count()
    writer = counts.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / name)).start().awaitTermination()


def main(folder: Path) -> None:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = spark.configure(builder.config("spark.sql.shuffle.partitions", "1")).getOrCreate()
    (folder / "in").mkdir()
    for part in ("a", "b"):
        (folder / "in" / f"{part}.txt").write_text(f"{part}\n", encoding="utf-8")
        session.conf.set(PROVIDER_KEY, BUILT_IN["hdfs"] if part == "a" else PROVIDER)
        run(session, folder, "foreign")
        session.conf.set(PROVIDER_KEY, PROVIDER)
        run(session, folder, "own")
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
