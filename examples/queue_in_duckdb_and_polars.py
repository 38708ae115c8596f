"""Query a queue with DuckDB, polars and pandas: each reads only the times and columns it needs."""

import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa

from cec_store import open_queue, scan_queue

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def fill(path: Path) -> None:
    """Append a visit a minute for two hours; ten visits make a frame."""
    moments = [START + timedelta(minutes=n) for n in range(120)]
    pages = ["home" if n % 3 else "about" for n in range(120)]
    table = pa.table({"moment": moments, "page": pages, "ms": [*range(120)]})
    with open_queue(path, "a", schema=table.schema, timestamp_column="moment") as queue:
        for start in range(0, 120, 10):
            queue.append(table.slice(start, 10))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        fill(Path(name) / "visits")
        visits = scan_queue(Path(name) / "visits")

        counts = "SELECT page, count(*) FROM visits WHERE moment >= ? GROUP BY page ORDER BY page"
        print("DuckDB:", duckdb.execute(counts, [START + timedelta(hours=1)]).fetchall())

        is_late = pl.col("moment") >= START + timedelta(hours=1)
        late = pl.scan_pyarrow_dataset(visits).filter(is_late)
        print("polars:", late.group_by("page").len().sort("page").collect().rows())

        times = visits.to_table(columns=["page", "ms"]).to_pandas().groupby("page")["ms"]
        print("pandas:", times.mean().to_dict())


if __name__ == "__main__":
    main()
