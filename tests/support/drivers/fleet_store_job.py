"""A driver of the diamond fleet of which all is in a store: `fleet_store_job ORDER`.

ORDER is JSON: `url` of an empty folder and `conf` of the session; the store's clients in Python
find what they need in the environment. Says on stdout what was seen in each of the fleet's lives.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from typing import Any

from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.going_back import settings_now
from cec_store.connectors.spark.fleet.notes import GoingBack
from cec_store.connectors.spark.fleet.status import status_of
from cec_store.report.fleet_document import report_on_fleet
from cec_store.storage.stores.by_url import store_at
from support.drivers.killed_job import say
from support.fleets import diamond
from support.spark import session as spark_session

LEFT = "queries/parsed/1/offsets/99"
"""Of a rollback that somebody was killed in."""
ROWS = 60


def main(order: dict[str, Any]) -> None:
    session = spark_session.start_session("local[2]", **order["conf"])
    url = order["url"]
    diamond.make_input(url)
    diamond.add_rows(url, 0, ROWS)
    fleet = diamond.declared(url)
    with fleet.start(session):
        diamond.await_all(url, ROWS)
        early = diamond.await_checkpoint(fleet, ROWS)
        say(life="first", state=status_of(fleet.folder, time.time()).state)
    say(life="between", state=status_of(fleet.folder, time.time()).state)
    diamond.add_rows(url, ROWS, ROWS)
    again = Fleet.at(f"{url}/fleet")
    with again.start(session):
        diamond.await_all(url, 2 * ROWS)
    say(life="second", batch=again.folder.read().of("parsed").batch)

    notes = again.folder.read()
    back = GoingBack(early.number, 1, settings_now(again.folder, early))
    again.folder.write(replace(notes, going_back=back), lambda: None)
    store = store_at(again.folder.path)
    store.create(LEFT, [b"half"])
    with Fleet.at(f"{url}/fleet").start(session):
        diamond.await_all(url, 2 * ROWS)
        told = report_on_fleet(again.folder)
    here = [each.name for each in store.list("queries/parsed/1/offsets")]
    say(
        life="gone back", generation=again.folder.read().generation, is_left="99" in here,
        offsets=len(here), state=told["state"], queries=len(told["queries"]),
    )  # fmt: skip
    session.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
