"""Takes a query from place to place in a store of URLs, beside one that stays on the local disk:
`{"place", "storage_options", "conf", "folder"}`. Says after each leg what both have said.
"""

import json
import sys
from pathlib import Path
from typing import Any

from cec_store.connectors import spark as cec_spark
from support.spark.queries import QUERIES
from support.spark.runs import Job, Kept, Run, start, take_progress
from support.spark.session import HDFS, ROCKSDB, start_session

QUERY = QUERIES["aggregate_update"]
LEGS = ("", "adopt", "repartition", "release")
FILES = 2


def main(order: dict[str, Any]) -> None:
    session = start_session("local[2]", **order["conf"])
    folder, options = Path(order["folder"]), order["storage_options"]
    provider = ROCKSDB if order["release"] == "rocksdb" else HDFS
    job = Job(QUERY, folder / "moves", Kept(provider))
    stays = Job(QUERY, folder / "stays", Kept(provider))
    rows: dict[int, list[Any]] = {}
    due: dict[int, list[Any]] = {}
    at = f"{order['place']}/old"
    for leg, move in enumerate(LEGS):
        said: dict[str, Any] = {"leg": move}
        if move:
            to = f"{order['place']}/{move}"
            more: dict[str, Any] = {"storage_options": options}
            more |= {"partitions": 3} if move == "repartition" else {}
            more |= {"provider": order["release"]} if move == "release" else {}
            report = getattr(cec_spark, move)(session, at, to, **more)
            found = cec_spark.compare(session, at, to, storage_options=options)
            said |= {"rows": report.rows, "same": found.is_same, "path": report.path}
            at = to
        files = range(leg * FILES, leg * FILES + FILES)
        for each, checkpoint, done in ((job, at, rows), (stays, folder / "checkpoint", due)):
            run = Run(checkpoint, rows=done)
            query = start(session, each, 0, files, run)
            query.awaitTermination()
            take_progress(query, run)
        said |= {"batches": len(rows), "is_due": rows == due}
        print(json.dumps(said), flush=True)
    session.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
