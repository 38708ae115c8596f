"""Holds a lease until it is told to end: `lease_holder ORDER`.

ORDER is JSON: `place`, `options`, `name`, `holder`, and `keep_alive` or nothing. Says `held N` once
it holds it; a line on stdin asks `check`, `release` or `leave` (to end without releasing it).
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from cec_store.errors import CecError
from cec_store.standby.leases import KeepAlive, leases_of


def main(order: dict[str, Any]) -> None:
    leases = leases_of(order["place"], order.get("options"))
    lease = leases.hold(
        order["name"], holder=order["holder"], keep_alive=KeepAlive(**order.get("keep_alive", {}))
    )
    print(f"held {lease.number}", flush=True)
    for line in sys.stdin:
        if line.strip() == "leave":
            os._exit(0)
        if line.strip() == "release":
            lease.release()
            print("released", flush=True)
            continue
        try:
            lease.check()
            print("mine", flush=True)
        except CecError as error:
            print(f"{type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
