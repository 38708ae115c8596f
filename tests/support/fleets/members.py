"""A fleet with files and a function among its members, and what it has written.

Files in `in` are landed in a queue; one query saves its rows as files, another one tells them to a
function, which writes each batch to a file of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cec_store.connectors.spark.fleet import Fleet, OnMissing, Rules, Sink, Source

COSTS = {"landed": 0.3, "told": 0.4, "saved": 1.0}
"""Of 2.4 planned cores of three; one leaves room for the first two."""


def same(rows: Any) -> Any:
    return rows


def declared(folder: Path, costs: Mapping[str, float] = COSTS, **rules: Any) -> Fleet:
    """The fleet; what is missing it writes to the file `asked`."""

    def tell(rows: Any, batch: int) -> None:
        text = json.dumps(sorted(row["v"] for row in rows.collect()))
        (folder / f"told-{batch}.new").write_text(text)
        (folder / f"told-{batch}.new").rename(folder / f"told-{batch}.json")

    queue = str(folder / "landed")
    source = Source("parquet", {"path": str(folder / "in"), "maxFilesPerTrigger": "2"}, "v bigint")
    saved = Sink("parquet", {"path": str(folder / "saved")})
    ask = OnMissing(("sh", "-c", f"echo $CEC_EXECUTORS_MISSING >> {folder}/asked"), after_s=0.0)
    fleet = Fleet(folder / "fleet", rules=Rules(**rules), on_missing=ask)
    fleet.query("landed", same, sources=[source], writes=queue, cost=costs["landed"])
    fleet.query("told", same, reads=[queue], sink=Sink(foreach_batch=tell), priority=9,
                cost=costs["told"])  # fmt: skip
    fleet.query("saved", same, reads=[queue], sink=saved, priority=1, cost=costs["saved"])
    return fleet
