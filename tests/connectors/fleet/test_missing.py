"""Executors that are missing: since when, told apart from those taken away, and asked for once."""

import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.going_back import fork_fleet
from cec_store.connectors.spark.fleet.missing import (
    Asking,
    Missing,
    OnMissing,
    Shortage,
    is_on_purpose,
)
from cec_store.connectors.spark.fleet.notes import GlobalCheckpoint
from cec_store.connectors.spark.fleet.status import status_of
from cec_store.connectors.spark.fleet.toml_file import read_toml
from cec_store.errors import BadFleet
from support.fleets import diamond
from support.fleets.engine_double import EngineDouble, driver_of
from support.spark.standalone import wait_for

COSTS = {"parsed": 1.0, "even": 0.5, "odd": 0.5, "counts": 0.4, "joined": 1.0, "tall": 0.6}
HOOK = OnMissing(("true",), after_s=10.0, again_s=100.0)
SHORTAGE = Shortage("/fleets/shop", 4, 1, 1.5, 1000.25)


# -- what is missing, and when it is asked for ------------------------------------------------


class Model:
    """A history in full, from which everything is worked out anew."""

    def __init__(self) -> None:
        self.looks: list[tuple[float, int, int]] = []
        """Time, executors, and how many of them were taken away since the look before."""
        self.asked: list[float] = []

    def expected(self) -> list[int]:
        most, answers = 0, []
        for _, there, taken in self.looks:
            most = max(there, most - taken)
            answers.append(most)
        return answers

    def since(self) -> float | None:
        since = None
        for (at, there, _), expected in zip(self.looks, self.expected(), strict=True):
            since = None if there >= expected else at if since is None else since
        return since

    def is_due(self) -> bool:
        now, since = self.looks[-1][0], self.since()
        is_long = since is not None and now - since >= HOOK.after_s
        return is_long and all(now - at >= HOOK.again_s for at in self.asked)


LOOKS = some.lists(some.tuples(some.integers(0, 40), some.integers(0, 6), some.integers(0, 6)))


@given(LOOKS)
def test_the_hook_runs_when_executors_are_missing_for_long_and_not_too_often(
    looks: list[tuple[int, int, int]],
) -> None:
    missing, model, now_s, before = Missing(), Model(), 0.0, 0
    for passed, there, taken in looks:
        now_s += passed
        taken = min(taken, max(0, before - there))
        before = there
        missing = missing.seen(there, taken, now_s, None)
        model.looks.append((now_s, there, taken))
        assert (missing.expected, missing.since_s) == (model.expected()[-1], model.since())
        assert missing.is_due(now_s, HOOK) == model.is_due()
        if missing.is_due(now_s, HOOK):
            missing = Missing(missing.expected, missing.since_s, now_s)
            model.asked.append(now_s)


def test_a_number_that_is_given_counts_also_before_so_many_have_come() -> None:
    missing = Missing().seen(2, 0, 5.0, 4)
    assert (missing.expected, missing.since_s) == (4, 5.0)
    assert missing.seen(1, 1, 6.0, 4).expected == 4
    assert missing.seen(4, 0, 6.0, 4).since_s is None


def test_a_clock_that_was_set_back_delays_nothing_for_long() -> None:
    missing = Missing(4, since_s=1000.0, asked_s=1000.0).seen(3, 0, 50.0, None)
    assert missing.since_s == 50.0
    assert missing.is_due(60.0, HOOK)


@pytest.mark.parametrize(
    ("reason", "on_purpose"),
    [
        ("Executor killed by driver.", True),
        ("Executor decommission: spark scale down", True),
        ("Executor decommission: worker decommissioned", False),
        ("Command exited with code 137", False),
        ("Executor heartbeat timed out after 130 ms", False),
        ("Worker shutting down", False),
        ("", False),
    ],
)
def test_a_loss_is_told_apart_by_the_reason_that_spark_gives(reason: str, on_purpose: bool) -> None:
    assert is_on_purpose(reason) is on_purpose


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({}, "give command, call or request_executors"),
        ({"command": "sh"}, "on_missing.command: 'sh'"),
        ({"command": ("sh", 1)}, "on_missing.command"),
        ({"call": "nowhere"}, "on_missing: call 'nowhere'"),
        ({"command": ("sh",), "after_s": -1}, "on_missing.after_s: -1"),
        ({"command": ("sh",), "again_s": True}, "on_missing.again_s"),
        ({"command": ("sh",), "executors": 0}, "on_missing.executors: 0"),
    ],
)
def test_no_such_hook(values: dict[str, Any], what: str) -> None:
    with pytest.raises(BadFleet, match=what):
        OnMissing(**values)


def test_a_file_declares_it(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    text = 'folder = "f"\n[on_missing]\ncommand = ["sh", "more.sh"]\nafter_s = 5\n[queries]\n'
    path.write_text(text)
    assert read_toml(path).on_missing == OnMissing(("sh", "more.sh"), after_s=5)
    for old, new, what in (
        ("after_s", "after", "on_missing: 'after' is no key; those are after_s, again_s"),
        ('["sh", "more.sh"]', '"sh"', "on_missing.command: 'sh'; give a list"),
        ('command = ["sh", "more.sh"]\n', "", "give command, call or request_executors"),
    ):
        path.write_text(text.replace(old, new))
        with pytest.raises(BadFleet, match=what):
            read_toml(path)


# -- the hook ---------------------------------------------------------------------------------


def outcome_of(hook: OnMissing, request: Any = lambda executors: "") -> str:
    asking = Asking(hook, request)
    assert asking.outcome() is None
    asking.begin(SHORTAGE)
    wait_for(lambda: not asking.is_under_way, lambda: "it goes on")
    failure = asking.outcome()
    assert failure is not None
    assert asking.outcome() is None, "told once"
    return failure


def test_a_command_is_told_what_is_missing(tmp_path: Path) -> None:
    script = f"import json, os; json.dump(dict(os.environ), open({str(tmp_path / 'said')!r}, 'w'))"
    assert outcome_of(OnMissing((sys.executable, "-c", script))) == ""
    told = eval((tmp_path / "said").read_text(), {})
    assert (
        told.items()
        >= {
            "CEC_FLEET": "/fleets/shop",
            "CEC_EXECUTORS_MISSING": "3",
            "CEC_EXECUTORS_EXPECTED": "4",
            "CEC_EXECUTORS": "1",
            "CEC_CORES": "1.5",
            "CEC_MISSING_SINCE": "1000.250",
        }.items()
    )


def test_a_function_and_spark_are_asked_beside_it() -> None:
    told: list[object] = []
    hook = OnMissing(call=told.append, request_executors=True)

    def request(executors: int) -> str:
        told.append(executors)
        return ""

    assert outcome_of(hook, request) == ""
    assert told == [SHORTAGE, 4]


@pytest.mark.parametrize(
    ("hook", "what"),
    [
        (OnMissing(("false",)), "false has ended with status 1"),
        (
            OnMissing(("sh", "-c", "echo no room >&2; exit 3")),
            "sh has ended with status 3: no room",
        ),
        (OnMissing(("/nowhere/more",)), "FileNotFoundError: .*/nowhere/more"),
        (OnMissing(("sleep", "60"), timeout_s=0.1), r"sleep did not end within 0.1 s"),
        (OnMissing(call=lambda shortage: 1 / 0), "ZeroDivisionError"),
        (OnMissing(("false",), request_executors=True), "status 1; no manager takes requests"),
    ],
)
def test_a_failure_is_told_and_raised_nowhere(hook: OnMissing, what: str) -> None:
    failure = outcome_of(hook, lambda executors: "no manager takes requests")
    assert re.search(what, failure), failure


# -- a driver ---------------------------------------------------------------------------------


def fleet_with(folder: Path, hook: OnMissing) -> Fleet:
    fleet = diamond.with_empty_queues(folder, COSTS)
    made = Fleet(fleet.folder.path, rules=fleet._rules, on_missing=hook)
    made._queries = fleet._queries
    return made


def test_a_driver_asks_once_and_goes_on_whatever_comes_of_it(tmp_path: Path) -> None:
    told: list[Shortage] = []

    def ask(shortage: Shortage) -> None:
        told.append(shortage)
        raise OSError("no more machines")

    fleet = fleet_with(tmp_path, OnMissing(call=ask, after_s=10.0, again_s=100.0))
    engine = EngineDouble(6)
    start_s = time.time()
    driver = driver_of(fleet, engine, start_s)
    driver.look(start_s)
    engine.lose(0)
    for passed in range(1, 12):
        driver.look(start_s + passed)
    wait_for(lambda: bool(told), lambda: "it was not asked")
    assert (told[0].expected, told[0].present, told[0].missing) == (6, 5, 1)
    assert told[0].since_s == start_s + 1
    for passed in range(12, 100):
        driver.look(start_s + passed)
    assert len(told) == 1
    assert "no more machines" in driver.notes.missing.failure
    assert engine.running() == set(diamond.NAMES)
    status = status_of(fleet.folder, start_s, 0.1)
    assert (status.executors_missing, status.missing_since_s) == (1, start_s + 1)
    assert status.asked_s == start_s + 11
    assert "no more machines" in status.ask_failure

    # A driver that comes after it asks no sooner, and counts from its own start.
    engine = EngineDouble(5)
    driver = driver_of(fleet, engine, start_s + 100)
    driver.look(start_s + 100)
    assert driver.notes.missing.since_s == start_s + 100
    driver.look(start_s + 110)
    assert len(told) == 1
    driver.look(start_s + 112)
    wait_for(lambda: len(told) == 2, lambda: "it was not asked again")
    engine.come("9")
    driver.look(start_s + 113)
    assert driver.notes.missing.since_s is None


def test_executors_that_were_taken_away_are_neither_lost_nor_missing(tmp_path: Path) -> None:
    told: list[Shortage] = []
    fleet = fleet_with(tmp_path, OnMissing(call=told.append, after_s=0.0))
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    engine.take_away(0, 1, 2)
    driver.look(1.0)
    assert driver.notes.situation.outage is None
    assert driver.notes.situation.lost == 0
    assert engine.running() == set(diamond.NAMES)
    driver.look(2.0)
    assert not told
    assert driver.notes.missing == Missing(3)
    # Of the three that are left two are lost: now there is a failure, and it is over with three.
    engine.lose(3, 4)
    driver.look(3.0)
    outage = driver.notes.situation.outage
    assert outage is not None
    assert outage.cores_before == 3.0
    wait_for(lambda: bool(told), lambda: "it was not asked")
    assert told[0].missing == 2
    engine.come("7", "8")
    driver.look(4.0)
    assert driver.notes.situation.outage is None
    assert engine.running() == set(diamond.NAMES)


def test_executors_that_are_taken_away_in_a_recovery_are_waited_for_no_more(tmp_path: Path) -> None:
    fleet = fleet_with(tmp_path, HOOK)
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    engine.lose(0, 1, 2)
    driver.look(1.0)
    assert driver.notes.situation.outage is not None
    engine.take_away(3)
    driver.look(2.0)
    outage = driver.notes.situation.outage
    assert outage is not None
    assert outage.cores_before == 5.0
    assert driver.notes.missing.expected == 5
    engine.come("7", "8", "9")
    driver.look(3.0)
    assert driver.notes.situation.outage is None


def test_a_fleet_that_accepts_fewer_misses_none(tmp_path: Path) -> None:
    fleet = fleet_with(tmp_path, HOOK)
    driver = driver_of(fleet, EngineDouble(6), 0.0)
    for at_s in (0.0, 5.0):  # notes are written every two seconds
        driver.look(at_s)
    driver = driver_of(fleet, EngineDouble(4), 6.0)
    driver.look(6.0)
    assert driver.notes.missing.since_s == 6.0
    driver = driver_of(fleet, EngineDouble(4), 7.0, accept=True)
    driver.look(7.0)
    assert driver.notes.missing == Missing(4)


def test_a_fork_misses_none_of_the_executors_of_its_original(tmp_path: Path) -> None:
    fleet = fleet_with(tmp_path, HOOK)
    driver = driver_of(fleet, EngineDouble(6), 0.0)
    driver.look(0.0)
    driver.look(5.0)
    notes = fleet.folder.read()
    assert notes.missing == Missing(6)
    graph = notes.graph
    nothing_done = GlobalCheckpoint(
        number=0, at_us=1, generation=0, batches=dict.fromkeys(graph.queries),
        commits=dict.fromkeys(graph.writers, 0), needed=dict.fromkeys(graph.read_queues, ()),
        queues={},
    )  # fmt: skip
    forked = fork_fleet(fleet.folder, tmp_path / "forked", nothing_done)
    assert (forked.missing, forked.on_missing) == (Missing(), HOOK)
