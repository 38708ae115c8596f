"""The driver's side of replicas: where they are, where partitions go, and what is refused."""

import pytest

pytest.importorskip("pyspark")

from support.spark.jvm import run_jvm

RULES = (
    "replicas are spread evenly, each on another executor than its partition",
    "a replica goes to another host where there is one",
    "a replica goes to another rack where one is known",
    "a partition of a lost executor goes to its replica before the next batch, with all its stores",
    "an entry that a running task has overwritten is made again",
    "a lost partition that a task has taken elsewhere stays there",
    "replicas on a lost executor are made elsewhere",
    "an executor that is gone is not heard any more",
    "a decommissioned executor loses its partitions to their replicas and gets nothing new",
    "direct changes the location at once",
    "CPA needs a warm replica",
    "the replica that CPA goes to is kept, wanted or not",
    "CPAL changes the location once the replica has caught up",
    "a replica that lacks more than a warm one may is not warm",
    "so many replicas are loaded at a time, those that partitions go to first",
    "a replica without room, or with a provider's state, takes nobody's turn",
    "settings that are not allowed are refused by name",
    "the old owner keeps its state as the replica",
    "a warm replica elsewhere stays when its partition moves",
    "after a direct move the old owner's state takes the place of a cold replica",
    "a placed replica that is used goes to where the partition was",
    "the old owner's state stays until placed replicas are warm",
    "a migration to an executor that is lost fails",
    "orders that cannot be followed are refused and change nothing",
    "a run that goes back to an older batch has the say",
    "a provider that is left over does not own its store",
    "what readers of a checkpoint open changes nothing",
    "a newcomer gets replicas, and the old ones stay until those are warm",
    "too few executors are told",
    "placed replicas stay where they are until they are released",
    "a warm replica that is replaced stays until the new one is warm",
    "a replica that is replaced goes where another one has no room",
    "the arrival of a join is told by a store whose metrics Spark shows",
    "an owner hears of the lag and memory of its replicas, and once of its arrival",
    "what happens is told in order, each once",
    "a run that begins anew has lost nothing",
    "as many events are kept as there is room for",
    "messages survive the wire",
    "Spark's table is looked at after each batch, and a few times a second",
    "what a run has cost is told for ten minutes after its end",
)


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """What one run of all of them says: nothing of those that hold."""
    return run_jvm("driverRules", timeout_s=120)


def test_every_rule_is_run(said: dict[str, str]) -> None:
    assert set(said) == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: str, said: dict[str, str]) -> None:
    assert said[rule] == ""
