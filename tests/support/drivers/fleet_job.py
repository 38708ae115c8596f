"""A driver of a fleet, to be killed: `fleet_job ORDER`.

ORDER is JSON: `folder`, `fleet` (a module of `support.fleets` that declares one, `diamond` by
default), `master`, `costs`, `rules` and `conf`. Says `{"started": …}` on stdout, and
`{"stopped": …}` where it was asked to stop.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from support.drivers.killed_job import say
from support.fleets import diamond, members
from support.spark import session as spark_session


def main(order: dict[str, Any]) -> None:
    session = spark_session.start_session(order["master"], **order["conf"])
    module = {"diamond": diamond, "members": members}[order.get("fleet", "diamond")]
    fleet = module.declared(Path(order["folder"]), order["costs"], **order["rules"])
    with fleet.start(session, period_s=0.25) as driver:
        say(started=driver.notes.generation)
        driver.wait()
    say(stopped=True)
    session.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
