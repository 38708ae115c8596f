"""A node of several, to be killed and stopped: a `Node` that says what it has become.

Run as a program, as `standby_node` is. A file `lags-NAME` keeps a standby from following.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cec_store import KeepAlive, QueueInput, QueueOptions, Standby, Targets, open_queue
from cec_store.errors import Fenced, LeaseHeld
from cec_store.standby.nodes.election import NodeRules, View
from cec_store.standby.nodes.job import Job
from cec_store.standby.nodes.node import Node
from cec_store.standby.nodes.notes import NodeNote, NodeState
from support.crashes.acknowledged_chains import OPERATORS, ROWS
from support.processes.standby_node import say, serve

POLICY = Targets(extent_factor=2.0, extent_floor=1, replay_rows=100)
OPTIONS = QueueOptions(segment_bytes=20_000, group_max_wait_ms=0.5)


class LaggingStandby(Standby):
    """Follows nothing more while a file is there."""

    lag_file: Path

    def follow(self) -> int:
        return 0 if self.lag_file.exists() else super().follow()


@dataclass(frozen=True)
class LaggingJob(Job):
    lag_file: Path = Path()

    def standby(self) -> Standby:
        standby = super().standby()
        standby.__class__ = LaggingStandby
        assert isinstance(standby, LaggingStandby)
        standby.lag_file = self.lag_file
        return standby


def live(order: dict) -> int:  # type: ignore[type-arg]
    place = Path(order["place"])
    name = order["name"]
    job = LaggingJob(
        order["output"],
        lambda: OPERATORS[order["operator"]](ROWS),
        lambda: [QueueInput(open_queue(place / "in-0"), "primary")],
        order["scheme"],
        POLICY,
        OPTIONS,
        more={"step_rows_max": 20, "acknowledge_interval_s": 0.02, "held_folder": place / "held"},
        lag_file=place / f"lags-{name}",
    )

    def tell(note: NodeNote, reason: str) -> None:
        view = node.decided_by
        is_new = note.state is NodeState.PRIMARY and view is not None
        say(state=note.state.value, position=note.position, by=seen_by(view) if is_new else None)

    node = Node(
        name, job, rules=NodeRules(**order["rules"]), keep_alive=KeepAlive(*order["keep_alive"]),
        on_change=tell,
    )  # fmt: skip
    while True:
        try:
            node.run()
        except (LeaseHeld, Fenced) as error:
            say(refused=str(error), pid_of=os.getpid())
            return 3


def seen_by(view: View | None) -> dict | None:  # type: ignore[type-arg]
    if view is None:
        return None
    members = {m.name: [m.sign.value, m.note.state.value, m.note.position] for m in view.members}
    return {"tenure": view.tenure + 1, "sign": view.sign.value, "members": members}


if __name__ == "__main__":
    serve(live)
