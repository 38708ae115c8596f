"""`cec-store fleet`: what people see of a fleet, and its rollback and forks."""

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from cec_store.cli import app
from cec_store.connectors.spark.fleet import checkpointing
from cec_store.connectors.spark.fleet.driver import FleetDriver
from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.fleet_folder import (
    CHECKPOINT,
    FleetFolder,
    Requests,
)
from cec_store.connectors.spark.fleet.status import status_of
from cec_store.recovery_plans.density import best_density
from cec_store.standby.leases import KeepAlive, leases_of
from cec_store.verbs.fleet import fleet as verb
from support.command_line.json_schemas import check
from support.fleets.engine_double import EngineDouble
from support.fleets.plain_spark import SHAPE
from support.fleets.walks import Walk
from support.stores.s3_server import BUCKET, options_of


def run(*words: object, status: int = 0) -> str:
    result = CliRunner().invoke(app, ["fleet", *map(str, words)])
    assert "Traceback" not in result.output
    assert result.exit_code == status, result.output
    return result.output


def document(verb: str, *words: object, status: int = 0) -> Any:
    """What `--json` prints, which has the documented form."""
    said = json.loads(run(verb, *words, "--json", status=status))
    check(f"fleet-{verb}", said)
    return said


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a fleet with a global checkpoint, in the middle of a recovery; its driver is dead."""
    walk = Walk(tmp_path_factory.mktemp("fleets"), 1)
    walk.until_checkpoint()
    walk.fail()
    assert walk.driver.notes.situation.outage is not None
    return walk.folder / "fleet"


def test_status_says_who_waits_for_what(folder: Path) -> None:
    said = document("status", folder)
    assert (said["state"], said["driver"]) == ("stopped", "never seen")
    assert {each["state"] for each in said["queries"]} == {"stopped"}
    with leases_of(folder).hold("driver", holder="somebody"):
        said = document("status", folder)
        text = run("status", folder)
    assert (said["state"], said["driver"]) == ("recovering", "alive (somebody)")
    assert (said["executors"], said["cores"], said["cores_before"]) == (1, 1.0, 4.0)
    shown = {each["name"]: each for each in said["queries"]}
    assert shown["a"]["state"] == "running"
    held = shown["d"]
    assert (held["state"], held["expected_s"]) == ("held back", None)
    assert held["arrivals"] > 0
    assert held["waits_for"].startswith("executors, as ")
    assert "1 of 4 cores are there, of which 80% are planned for" in said["message"]
    for part in ("recovering; driver alive (somebody)", said["message"], "none has come yet"):
        assert part in text


def test_status_says_what_waits_for_each_query_or_why_nobody_knows(folder: Path) -> None:
    before = {each["name"]: each for each in document("status", folder)["queries"]}
    held = max(before.values(), key=lambda each: each["records_waiting"])
    assert held["records_waiting"] > 0
    assert 0 <= time.time() - held["waiting_since_us"] / 1e6 < 600
    assert f"{held['records_waiting']:,}" in run("status", folder)
    # The queues stand beside the fleet's folder, which knows them by their whole path.
    log = folder.parent / "b" / "log"
    newest = max(log.rglob("*.commit"))
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-7])
    try:
        shown = {each["name"]: each for each in document("status", folder)["queries"]}
        text = " ".join(run("status", folder).split())
    finally:
        newest.write_bytes(whole)
    unknown = {name for name, each in shown.items() if each["lag_problem"]}
    assert unknown == {name for name, (reads, _) in SHAPE.items() if "b" in reads}
    for name in unknown:
        assert shown[name]["records_waiting"] is None
        assert newest.name in shown[name]["lag_problem"]
        assert f"how far {name} is behind is not known" in text
    assert {name: shown[name] for name in shown.keys() - unknown} == {
        name: before[name] for name in before.keys() - unknown
    }


def test_one_query_is_paused_resumed_and_restarted(tmp_path: Path) -> None:
    walk = Walk(tmp_path, 3)
    walk.until_checkpoint()
    place = walk.folder / "fleet"
    said = document("pause", place, "c")
    assert (said["state"], said["done"]) == ("stopped", True), "no driver is alive"
    assert "the next one does as told" in run("pause", place, "c")
    with leases_of(place).hold("driver"):
        said = document("pause", place, "c", "--wait", "0", status=1)
        assert (said["state"], said["done"]) == ("paused", False), "this driver does not look"
        assert "has not done it yet" in run("restart", place, "c", "--wait", "0", status=1)
        walk.driver.look(walk.now_s + 10.0, asked=walk.fleet.folder.requests())
        assert document("pause", place, "c")["done"]
        shown = {each["name"]: each for each in document("status", place)["queries"]}
        assert (shown["c"]["state"], shown["c"]["waits_for"]) == ("paused", "fleet resume")
        assert document("resume", place, "c")["state"] != "paused"
        assert document("restart", place, "c", "--wait", "0", status=1)["state"] != "paused"
        said = document("redeploy", place, "c", "--wait", "0", status=1)
        assert (said["done"], said["problem"]) == (False, "")
        notes = walk.driver.notes
        failed = replace(notes.of("c"), code_failure="SyntaxError in line 7")
        walk.fleet.folder.write(notes.having("c", failed), lambda: None)

        def withdraw(folder: FleetFolder) -> None:
            for name in folder.requests().names:
                if name.startswith("redeploy."):
                    folder.withdraw(name)

        withdraw(walk.fleet.folder)

        def tried() -> None:
            folder = FleetFolder(place)
            while "c" not in folder.requests().redeploys:
                time.sleep(0.05)
            withdraw(folder)

        driver = Thread(target=tried)
        driver.start()
        assert "its old code: SyntaxError in line 7" in run("redeploy", place, "c", status=1)
        driver.join()
    assert walk.fleet.folder.requests().restarts == {"c"}


def test_stop_waits_until_the_driver_has_stopped(folder: Path) -> None:
    assert "stopped" in run("stop", folder)
    assert document("stop", folder) == {"path": str(folder), "stopped": True}
    with leases_of(folder).hold("driver"):
        assert not document("stop", folder, "--wait", "0", status=1)["stopped"]
        assert "recovering" in run("stop", folder, "--wait", "0", status=1)
    assert FleetFolder(folder).requests().is_stop_asked


def test_a_driver_that_misses_fewer_signs_of_life_than_its_rule_allows_is_alive(
    folder: Path,
) -> None:
    patient = KeepAlive(0.1, 1000)
    with leases_of(folder).hold("driver", keep_alive=patient, is_alive=lambda: False):
        assert status_of(FleetFolder(folder), time.time(), 0.5).is_driven


def test_stop_is_asked_of_a_silent_driver_and_of_none_that_has_stopped(tmp_path: Path) -> None:
    folder = Walk(tmp_path, 1).fleet.folder
    folder.leases().hold("driver").release()
    assert document("stop", folder.path)["stopped"]
    assert not folder.requests().is_stop_asked
    folder.leases().hold("driver").abandon()
    assert document("stop", folder.path)["stopped"]
    assert folder.requests().is_stop_asked, "it may be asleep"


def test_a_fork_and_a_rollback_are_only_told_unless_asked_for(folder: Path, tmp_path: Path) -> None:
    number = FleetFolder(folder).checkpoints()[0]
    new = tmp_path / "new"
    assert "do it with --yes" in run("fork", folder, new, "--checkpoint", number)
    assert "do it with --yes" in run("rollback", folder)
    told = document("rollback", folder)
    assert (told["new"], told["done"], told["checkpoint"]) == (None, False, number)
    assert not document("fork", folder, new, "--checkpoint", number)["done"]
    assert not new.exists()
    assert FleetFolder(folder).read().generation == 0
    done = document("fork", folder, new, "--checkpoint", number, "--yes")
    assert (done["new"], done["done"], done["checkpoint"]) == (str(new), True, number)
    assert done["batches"].keys() == SHAPE.keys()
    assert FleetFolder(new).read().fleet_id != FleetFolder(folder).read().fleet_id
    run("fork", folder, new, "--yes", status=2)
    with leases_of(folder).hold("driver"):
        assert "is held by" in run("rollback", folder, "--yes", status=2)
    assert FleetFolder(folder).read().generation == 0
    assert document("rollback", folder, "--yes")["done"]
    assert FleetFolder(folder).read().generation == 1


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("status", "{}/nowhere"), "no fleet here"),
        (("rollback", "{}", "--at", "2001-01-01"), "so old"),
        (("rollback", "{}", "--checkpoint", "999"), "no global checkpoint 999; there are"),
        (("rollback", "{}", "--at", "@7"), "is an offset"),
        (("rollback", "{}", "--at", "2001-01-01", "--checkpoint", "1"), "not both"),
        (("run", "{}/nowhere"), "no fleet here"),
        (("run", "{}", "--conf", "x"), "give NAME=VALUE"),
        (("pause", "{}", "zz"), "no query 'zz' in this fleet; it has a, "),
        (("resume", "{}/nowhere", "a"), "no fleet here"),
    ],
)
def test_wrong_use_is_one_line(folder: Path, words: tuple[str, ...], what: str) -> None:
    said = run(*(each.format(folder) for each in words), status=2)
    assert what in " ".join(said.replace("│", " ").split())


def test_a_file_that_cannot_run_starts_no_session(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text('folder = "f"\n[queries.a]\nfunction = "m:f"\nreads = ["i"]\nwrites = "i"\n')
    assert "circle" in run("run", path, status=2)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["fleet.toml"]


def test_global_checkpoints_are_listed_and_asked_for(tmp_path: Path) -> None:
    walk = Walk(tmp_path, 3)
    place = walk.folder / "fleet"
    said = run("checkpoints", place)
    assert "number  taken" in said
    assert said.endswith("0 rows\n")
    walk.until_checkpoint()
    kept = document("checkpoints", place)["checkpoints"]
    assert [each["checkpoint"] for each in kept] == walk.fleet.folder.checkpoints()
    assert kept[-1]["batches"].keys() == SHAPE.keys()
    assert "last batch of each query" in run("checkpoints", place)
    assert "no driver is alive" in run("checkpoints", place, "--take", status=2)
    with leases_of(place).hold("driver", holder="somebody"):
        said = run("checkpoints", place, "--take", "--wait", "0", status=2)
        assert "no global checkpoint within 0 s" in said
        assert FleetFolder(place).requests() == Requests()
        asked = Thread(target=run, args=("checkpoints", place, "--take"))
        asked.start()
        while not FleetFolder(place).requests().is_checkpoint_asked:
            time.sleep(0.01)
        walk.driver.look(walk.now_s, asked=Requests(frozenset({CHECKPOINT})))
        asked.join(60.0)
        assert not asked.is_alive()


def test_an_unchanged_cut_counts_as_taken_once_no_batch_is_under_way(tmp_path: Path) -> None:
    walk = Walk(tmp_path, 3)
    walk.settle()
    for _ in range(3):
        walk.look()
        walk.now_s += 10.0
    folder = walk.fleet.folder
    number, noted = folder.checkpoints()[-1], walk.driver.notes.checkpointed_us
    walk.look()
    later = walk.driver.notes.checkpointed_us
    assert folder.checkpoints()[-1] == number
    assert None not in (noted, later)
    assert folder.checkpoint(number).at_us < (noted or 0) < (later or 0)
    # A batch that is begun and never done is no idle fleet.
    offsets = Path(folder.checkpoint_of("a", 0)) / "offsets"
    newest = max(offsets.iterdir(), key=lambda each: int(each.name))
    (offsets / str(int(newest.name) + 1)).write_bytes(newest.read_bytes())
    walk.now_s += 10.0
    walk.look()
    assert walk.driver.notes.checkpointed_us == later
    assert document("status", folder.path)["checkpointed_us"] <= later


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> list[FleetDriver]:
    """`fleet run` starts no session, and drives an engine double; its drivers, once they run."""
    drivers: list[FleetDriver] = []

    def begun(fleet: Fleet, session: Any, **_: Any) -> FleetDriver:
        fleet.folder.make()
        noted = partial(fleet.noted, fleet.checked())
        driver = FleetDriver(session, fleet.folder, noted, best_density, 0.05)
        drivers.append(driver.begin())
        return driver

    monkeypatch.setattr(verb, "spark_session", lambda *_: nullcontext(EngineDouble(4)))
    monkeypatch.setattr(Fleet, "start", begun)
    return drivers


def test_sigterm_stops_a_fleet_and_is_no_crash(
    tmp_path: Path, without_spark: list[FleetDriver]
) -> None:
    Walk(tmp_path, 1)

    def terminate() -> None:
        while not without_spark:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    killer = Thread(target=terminate)
    killer.start()
    assert "runs" in run("run", tmp_path / "fleet")
    killer.join()
    [driver] = without_spark
    assert driver.wait(0.0), "it was stopped, and its lease released: nobody starts it again"
    assert not any(each.is_active for each in driver.notes.queries.values())
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_signal_just_before_the_wait_for_a_driver_is_heard(tmp_path: Path) -> None:
    """Its handler runs only between two waits, so none is without end."""
    waits: list[float | None] = []

    class Ended(Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return len(waits) > 2

    driver = Walk(tmp_path, 1).driver
    driver._ended = Ended()
    assert driver.wait()
    assert len(waits) > 2
    assert None not in waits[:3]


def test_a_fleet_that_runs_is_refused_before_a_session_is_started(
    tmp_path: Path, without_spark: list[FleetDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    Walk(tmp_path, 1)
    monkeypatch.setattr(verb, "spark_session", lambda *_: pytest.fail("a session is started"))
    with leases_of(tmp_path / "fleet").hold("driver", holder="somebody else"):
        assert "is held by somebody else" in run("run", tmp_path / "fleet", status=2)


@pytest.fixture
def in_store(s3_address: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs words with what the store's client needs, of which the environment says nothing."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    told = {**options_of(s3_address), "client_kwargs.region_name": "us-east-1"}
    said = [f"{name}={value}" for name, value in told.items() if isinstance(value, str)]
    options = [word for each in said for word in ("--storage-option", each)]

    def told_run(*words: object) -> str:
        result = CliRunner().invoke(app, [*map(str, words), *options])
        assert result.exit_code == 0, result.output
        return result.output

    return told_run


def test_a_fleet_in_a_store_takes_the_options_of_its_file_system(
    folder: Path, tmp_path: Path, in_store: Callable[..., str], s3_address: str
) -> None:
    """Its inputs are on this disk, all else is in a bucket."""
    first, second = (f"s3://{BUCKET}/{tmp_path.name}/{name}" for name in ("first", "second"))
    in_store("fleet", "fork", folder, first, "--yes")
    assert "stopped; driver never seen" in in_store("fleet", "status", first)
    assert json.loads(in_store("fleet", "stop", first, "--json"))["stopped"]
    told = json.loads(in_store("report", first, "--json"))
    assert {each["problem"] for each in told["queues"]} == {""}

    opened = FleetFolder(first, options_of(s3_address))
    notes = opened.read()
    taken = checkpointing.taken(opened, notes, notes.graph, time.time_ns() // 1_000)
    assert taken is not None
    assert taken.new is not None
    opened.add_checkpoint(taken.new, 3)
    in_store("fleet", "rollback", first, "--yes")
    assert opened.read().generation == 1
    in_store("fleet", "fork", first, second, "--yes")
    assert opened.beside(second).read().declared[0].writes == f"{second}/queues/a"


def test_options_of_urls_are_not_noted(folder: Path) -> None:
    fleet = Fleet.at(folder, {"key": "confided", "secret": "confided"})
    fleet.folder.write(fleet.noted(fleet.folder.read().graph), lambda: None)
    said = [path.read_text() for path in (folder / "notes").iterdir()]
    assert "confided" not in "".join(said)


@pytest.mark.parametrize("verb", ["status", "stop", "rollback", "fork"])
def test_schemas_refuse_other_documents(folder: Path, tmp_path: Path, verb: str) -> None:
    said = document(verb, folder, *([tmp_path / "new"] if verb == "fork" else []))
    broken = [{key: value for key, value in said.items() if key != name} for name in said]
    for each in (*broken, {**said, "surprise": 1}, {**said, "path": 7}):
        with pytest.raises(jsonschema.ValidationError):
            check(f"fleet-{verb}", each)
