"""Which of Spark's tests are of its own stores, and not of every store, by their names."""

from __future__ import annotations

import re

NOT_OURS = {
    r"SPARK-18342": "it lets renames fail, of which our commits make none",
    r"SPARK-54063": "a metric of Spark's own stores",
    r"hdfsStateStoreProvider should fail": "it says that another provider is refused",
    r"\((without changelog checkpointing|with changelog checkpointing = false)\)": (
        "once more with a setting of RocksDB's"
    ),
    r"SPARK-51779|SPARK-35896.*virtual column family": (
        "they ask for state format 3, which Spark gives to its RocksDB alone"
    ),
}


def reason_of(test: str) -> str | None:
    found = (reason for pattern, reason in NOT_OURS.items() if re.search(pattern, test))
    return next(found, None)
