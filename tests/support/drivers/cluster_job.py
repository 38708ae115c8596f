"""Queries in local-cluster: workers and executors are processes of their own.

The arguments are a folder and the queries' names; what was found is printed as one line of JSON.
"""

import json
import sys
from pathlib import Path
from typing import Any

from support.spark.queries import QUERIES
from support.spark.runs import REFERENCE, Job, Kept, differences, run, unproven
from support.spark.session import start_session, stop_session

MASTER = "local-cluster[2,1,1024]"


def compare(spark: Any, name: str, folder: Path) -> dict[str, Any]:
    query = QUERIES[name]
    kept = [REFERENCE, Kept(version=1), Kept(version=2)]
    jobs = [Job(query, folder / f"{place}", each) for place, each in enumerate(kept)]
    reference, *runs = run(spark, *jobs)
    found: dict[str, Any] = {
        "rows": sum(map(len, reference.rows.values())),
        "removed": reference.removed(),
    }
    for job, ours in zip(jobs[1:], runs, strict=True):
        proof = unproven(ours, job.kept)
        found[f"v{job.kept.version}"] = [*differences(ours, reference), *proof]
    return found


def main(folder: str, *names: str) -> None:
    spark = start_session(MASTER, **{"spark.executor.memory": "700m"})
    found = {name: compare(spark, name, Path(folder) / name) for name in names}
    # The driver has a block manager as well.
    executors = spark._jsc.sc().getExecutorMemoryStatus().size() - 1
    stop_session(spark)
    print(json.dumps({"executors": executors, "queries": found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
