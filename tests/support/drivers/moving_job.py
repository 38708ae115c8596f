"""Moves one checkpoint again and again, to be killed: `{"checkpoint", "folder", "move"}`.

Each goes to a place of its own, `folder/0`, `folder/1` and on; says when it begins, and how long
the last one has taken.
"""

import json
import sys
import time
from itertools import count
from pathlib import Path

from cec_store.connectors import spark as cec_spark
from support.spark.session import start_session


def main(order: dict[str, str]) -> None:
    session = start_session("local[2]")
    took_s = 0.0
    for number in count():
        print(json.dumps({"number": number, "took_s": took_s}), flush=True)
        began_s = time.monotonic()
        new = Path(order["folder"]) / str(number)
        if order["move"] == "adopt":
            cec_spark.adopt(session, order["checkpoint"], new)
        else:
            cec_spark.repartition(session, order["checkpoint"], new, partitions=3)
        took_s = time.monotonic() - began_s


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
