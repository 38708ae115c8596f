"""Makes a count of many keys with Spark's RocksDB provider, adopts it, or compares the two.

The order is `{"step": "make", "adopt" or "compare", "folder", "keys"}`.

Each step is a driver of its own; it says how long it took and how much memory its JVM had at most.
"""

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

from cec_store.connectors import spark as cec_spark
from cec_store.connectors.spark.setup.settings import PROVIDER_KEY
from support.spark.session import ROCKSDB, start_session

HEAP = "3g"


def main(order: dict[str, Any]) -> None:
    session = start_session("local[2]", **{"spark.driver.memory": HEAP})
    folder, began_s = Path(order["folder"]), time.monotonic()
    old, new = folder / "old", folder / "new"
    if order["step"] == "make":
        _make(session, order["keys"], folder / "input", old)
        found = {}
    elif order["step"] == "adopt":
        found = {"rows": cec_spark.adopt(session, old, new).rows}
    else:
        compared = cec_spark.compare(session, old, new)
        found = {"rows": compared.stores[0].rows, "same": compared.is_same}
    took_s = time.monotonic() - began_s
    pid = session._jvm.java.lang.ProcessHandle.current().pid()
    status = Path(f"/proc/{pid}/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    peak_mib = int(peak[1]) // 1024
    print(json.dumps({**found, "took_s": took_s, "peak_mib": peak_mib}), flush=True)
    session.stop()


def _make(session: Any, keys: int, data: Path, checkpoint: Path) -> None:
    session.conf.set(PROVIDER_KEY, ROCKSDB)
    session.range(0, keys, 1, 4).write.parquet(str(data))
    counts = session.readStream.schema("id long").parquet(str(data)).groupBy("id").count()
    writer = counts.writeStream.outputMode("update").format("noop")
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
