"""Read the state of a Spark query into DuckDB and polars, with no Spark running."""

import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import polars as pl

from cec_store import read_changes, read_state

ORDERS = [
    ["ann,apples,3", "bob,pears,1"],
    ["ann,pears,2", "cid,apples,7"],
    ["bob,pears,5"],
]


def run_query(folder: Path) -> None:
    """Sums by customer, one batch for each file; the state is kept in logs of ours."""
    from pyspark.sql import SparkSession

    from cec_store.connectors import spark

    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2)
    session = spark.configure(builder.config("spark.ui.enabled", "false")).getOrCreate()
    (folder / "orders").mkdir()
    orders = session.readStream.schema("customer STRING, item STRING, n INT")
    sums = orders.csv(str(folder / "orders")).groupBy("customer").sum("n")
    writer = sums.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    for number, lines in enumerate(ORDERS):
        (folder / "orders" / f"{number}.csv").write_text("\n".join(lines))
        writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
    session.stop()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # In a process of its own: from here on there is no Spark.
        subprocess.run([sys.executable, __file__, name], check=True)

        state = duckdb.from_arrow(read_state(folder / "checkpoint"))  # a pyarrow.Table
        sums = state.query("state", "SELECT key.customer, value.sum FROM state ORDER BY ALL")
        print("now:", sums.fetchall())

        before = pl.from_arrow(read_state(folder / "checkpoint", version=1))
        flat = before.unnest("key", "value").sort("customer")
        print("after the first batch:", flat.select("customer", "sum").rows())

        changes = pl.from_arrow(read_changes(folder / "checkpoint", 2, 3)).unnest("key")
        changed = changes.sort("batch_id", "customer").select("batch_id", "customer").rows()
        print("changed since:", changed)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_query(Path(sys.argv[1]))
    else:
        main()
