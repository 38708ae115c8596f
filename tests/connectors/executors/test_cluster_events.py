"""Executors of a real cluster are killed, drained, added and taken away: each row comes once."""

import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.drivers.killed_queries import QUERIES
from support.spark.killed_runs import check, whole_life

pytest.importorskip("pyspark")
pytestmark = pytest.mark.crash

PARTITIONS = 4
EVENT_S_MAX = 90
"""On a busy machine."""
START_S_MAX = 300


@dataclass(frozen=True)
class Scenario:
    queries: tuple[str, ...]
    checkpoint_version: int
    workers: int
    kinds: tuple[str, ...]
    """Of events: each comes about as often as it stands here."""
    events: tuple[int, int]
    """How many there are in `make test` and in `make crash`."""
    replicas: int = 1
    seed: int = 0

    @property
    def conf(self) -> dict[str, str]:
        stores = {
            "checkpointFormatVersion": str(self.checkpoint_version),
            # So that maintenance runs while things happen, and has something to delete.
            "maintenanceInterval": "1s",
            "minDeltasForSnapshot": "5",
            "cec.segmentBytes": "256k",
            "cec.extentFactor": "1.25",
            "cec.replicaWarmUps": "2",
        }
        return {
            **{f"spark.sql.streaming.stateStore.{name}": each for name, each in stores.items()},
            "spark.sql.streaming.minBatchesToRetain": "5",
            "spark.sql.shuffle.partitions": str(PARTITIONS),
        }

    def chosen(self, count: int) -> list[str]:
        """The kinds in turn, each turn in an order of its own, so that none is left out."""
        dice = random.Random(self.seed)
        found: list[str] = []
        while len(found) < count:
            found += dice.sample(self.kinds, len(self.kinds))
        return found[:count]


SMALL = ("migrate", "kill", "adapt")
LOSSES = ("migrate", "kill", "migrate", "drain", "lose")
SCENARIOS = {
    "small": Scenario(("join",), 2, 2, SMALL, (3, 6)),
    "lost": Scenario(("running", "join"), 2, 3, LOSSES, (0, 60)),
    "lost, V1": Scenario(("join", "sessions"), 1, 3, (*LOSSES, "go_back"), (0, 60)),
    "scaled": Scenario(
        ("join", "running", "sessions"),
        2,
        4,
        ("scale 2", "kill", "scale 6", "rebalance", "go_back", "scale 4"),
        (0, 60),
    ),
    "moved": Scenario(("join", "running"), 2, 4, ("migrate",) * 9 + ("kill",), (0, 90)),
    "moved, V1": Scenario(("sessions", "running"), 1, 3, ("migrate",) * 9 + ("kill",), (0, 30)),
    "without replicas": Scenario(
        ("join", "sessions"), 2, 3, ("kill", "drain", "go_back"), (0, 10), replicas=0
    ),
}


def run(folder: Path, scenario: Scenario, events: list[str]) -> list[dict[str, Any]]:
    """One driver's life; what it said."""
    order = {
        "folder": str(folder), "queries": scenario.queries, "workers": scenario.workers,
        "conf": scenario.conf, "configure": {"replicas": scenario.replicas}, "provider": "cec",
        "seed": scenario.seed, "events": events,
    }  # fmt: skip
    life_s_max = START_S_MAX + EVENT_S_MAX * len(events)
    said = whole_life("cluster_events", order, folder, life_s_max)
    assert [event["event"] for event in said if "event" in event] == events
    return said


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_row_comes_once_whatever_happens_to_executors(
    name: str,
    tmp_path: Path,
    crash_count: Callable[[int, int], int],
    tally: Callable[[int], None],
) -> None:
    scenario = SCENARIOS[name]
    events = scenario.chosen(crash_count(*scenario.events))
    if not events:
        pytest.skip("at full size only")
    try:
        said = run(tmp_path, scenario, events)
        batches = [check(tmp_path / each, each, PARTITIONS) for each in scenario.queries]
    except Exception as error:
        saved = Path(tempfile.mkdtemp(prefix="cec-cluster-")) / "job"
        shutil.copytree(tmp_path, saved)
        raise AssertionError(f"{name}, {events}: {error}\nits files: {saved}") from error
    # Those that run anew after the last of it count anew.
    known = len(scenario.queries) * PARTITIONS
    assert said[-1]["partitions_with_costs"] >= known
    metrics = said[-1]["metrics"]
    assert (metrics.get("cecReplicaHits", 0) > 0) is (scenario.replicas > 0)
    if name == "small":  # nothing else happens in it while a partition moves
        assert all(event["warm"] for event in said if event.get("protocol") == "cpal")
    history = said[-1]["history"]
    assert history["executor_joined"] > 0
    assert (history.get("replica_warm", 0) > 0) is (scenario.replicas > 0)
    if name == "small":
        assert history["move_done"] > 0
        assert history["executor_lost"] > 0
        assert history["owned"] > PARTITIONS
    assert min(batches) > len(events), "hardly a batch was run: the test proves nothing"
    tally(len(events))


def test_every_query_and_kind_of_event_is_tried() -> None:
    # transformWithState runs in Python, beside the executors' JVM: test_kills has it.
    tried = {each for s in SCENARIOS.values() for each in s.queries}
    assert tried == {*QUERIES} - {"windows", "transform"}
    assert sum(s.events[1] for s in SCENARIOS.values()) >= 300
    assert {kind.split()[0] for s in SCENARIOS.values() for kind in s.chosen(s.events[1])} == {
        "kill", "lose", "drain", "scale", "go_back", "migrate", "rebalance", "adapt"
    }  # fmt: skip
