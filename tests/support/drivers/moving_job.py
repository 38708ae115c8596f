"""Moves one checkpoint again and again, to be killed.

The order is `{"checkpoint", "folder", "move", "conf", "storage_options"}`. Each goes to a place of
its own, `folder/0`, `folder/1` and on; says when it begins, and how long the last one has taken.
"""

import json
import sys
import time
from itertools import count
from typing import Any

from cec_store.connectors import spark as cec_spark
from support.spark.session import start_session


def main(order: dict[str, Any]) -> None:
    session = start_session("local[2]", **order["conf"])
    more: dict[str, Any] = {"storage_options": order["storage_options"]}
    if order["move"] == "repartition":
        more["partitions"] = 3
    took_s = 0.0
    for number in count():
        print(json.dumps({"number": number, "took_s": took_s}), flush=True)
        began_s = time.monotonic()
        new = f"{order['folder']}/{number}"
        getattr(cec_spark, order["move"])(session, order["checkpoint"], new, **more)
        took_s = time.monotonic() - began_s


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
