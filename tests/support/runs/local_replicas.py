"""Run by connectors/executors/test_local_sessions.py: a local session with the plugin."""

import json
import sys
import time
from typing import Any

from cec_store.connectors.spark.setup.settings import PLUGIN
from support.spark.session import start_session
from support.spark.standalone import wait_for

LOOKS_S = 1.5
"""The plugin's threads try again after a second."""


def main(order: dict[str, Any]) -> None:
    session = start_session("local[2]", **{"spark.plugins": PLUGIN, **order["conf"]})
    session.sparkContext.setLogLevel("WARN")
    cluster = session._jvm.org.apache.spark.sql.cecstore.replicas.Cluster
    wait_for(lambda: "driver" in cluster.executors(), lambda: "no executor has reported")
    time.sleep(LOOKS_S)
    print(json.dumps({"executors": json.loads(cluster.executors())}), flush=True)
    session.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
