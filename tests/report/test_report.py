"""The report of every kind of place: what it says, that damage stops nothing, and its file."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import cec_store.inspector.measuring.reference_consumers as facts_room
import cec_store.report.page as page_room
from cec_store import open_queue
from cec_store.cli import app
from cec_store.format.frame import FRAME_HEADER_BYTES
from cec_store.operators import Aggregate, ArrowSource, CountWindow, Runner, record_schema
from cec_store.storage import trees
from support.paths import DOCS, SNAPSHOT_QUEUE
from support.places import damaged_queues as made
from support.places.damaged_places import DAMAGES, Damage
from support.places.made_checkpoints import MadeCheckpoint
from support.places.reported_places import KEY, VALUE, grown, partitioned

SCHEMA = json.loads((DOCS / "json" / "report.schema.json").read_text("utf-8"))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def document_of(path: Path, *arguments: object, status: int = 0) -> Any:
    """What `--json` prints, which has the documented form, and nothing else has changed."""
    before = made.hash_of(path)
    result = run(path, *arguments, "--json")
    assert result.exit_code == status, result.output
    document = json.loads(result.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["sound"] is (status == 0)
    assert made.hash_of(path) == before, "reading writes nothing"
    return document


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> MadeCheckpoint:
    return grown(tmp_path_factory.mktemp("grown") / "checkpoint", batches=12, partitions=3)


# -- figures ----------------------------------------------------------------------------------


def test_figures_are_those_of_extent(checkpoint: MadeCheckpoint) -> None:
    document = document_of(checkpoint.path)
    assert (document["kind"], document["version"]) == ("checkpoint", 12)
    whole, *single = document["views"]
    assert [view["name"] for view in single] == [log["name"] for log in document["logs"]]
    for partition, (log, view) in enumerate(zip(document["logs"], single, strict=True)):
        [found] = extent_of(checkpoint.folder(partition))["logs"]
        extent = found["state"]["extent"]
        assert log["open_windows"] == extent["open_windows"] == view["open_windows"] > 5
        assert log["extent_records"] == extent["records"] == view["history"]["extent_records"][-1]
        assert log["extent_bytes"] == extent["bytes"]
        assert log["records"] == found["totals"]["records"]
        assert view["windows"]["oldest"][0]["records_back"] == extent["records"]
    for name in ("open_windows", "extent_records", "extent_bytes", "bytes", "records"):
        assert document["totals"][name] == sum(log[name] for log in document["logs"])
    assert whole["history"]["number"] == list(range(1, 13))
    assert whole["history"]["extent_records"] == [
        sum(row) for row in zip(*(v["history"]["extent_records"] for v in single), strict=True)
    ]
    assert whole["history"]["largest_extent_records"] == [
        max(row) for row in zip(*(v["history"]["extent_records"] for v in single), strict=True)
    ]


def extent_of(path: Path, *arguments: object) -> Any:
    result = CliRunner().invoke(app, ["extent", str(path), "--json", *map(str, arguments)])
    return json.loads(result.stdout)


@pytest.mark.parametrize("kind", ["checkpoint", "queue"])
def test_a_crash_costs_what_extent_says(
    tmp_path: Path, checkpoint: MadeCheckpoint, kind: str
) -> None:
    path = checkpoint.path
    if kind == "queue":
        path = made.make_operator_queue(tmp_path / "q", 900)
    found, document = extent_of(path)["totals"], document_of(path)
    restart = document["views"][0]["restart"]
    assert restart["load_s"] == pytest.approx(found["load_s"])
    assert restart["replay_s"] == pytest.approx(found["replay_s"])
    assert restart["replay_rows"] == document["totals"]["replay_rows"] == found["replay_rows"]
    assert (restart["replay_rows"] > 0) is (kind == "queue")


def test_other_targets_cost_what_extent_says(tmp_path: Path) -> None:
    path = made.make_operator_queue(tmp_path / "q", 900)
    recovery = document_of(path)["views"][0]["recovery"]
    assert recovery["is_simulated"]
    targets = recovery["extent_target"][::6]
    asked = [word for q in targets for word in ("--what-if", f"Q={q}")]
    recorded, *tried = extent_of(path, *asked)["totals"]["what_if"]
    assert len(tried) == len(targets) == 3
    assert recovery["recorded_checks_per_record"] == pytest.approx(recorded["check_overhead"])
    for place, outcome in enumerate(tried):
        assert recovery["extent_records"][6 * place] == outcome["extent_max"]
        assert recovery["checks_per_record"][6 * place] == pytest.approx(outcome["check_overhead"])
    assert recovery["checks_per_record"][0] > recovery["checks_per_record"][-1]


def test_each_way_to_tell_windows_apart_counts_every_window(checkpoint: MadeCheckpoint) -> None:
    for view in document_of(checkpoint.path)["views"]:
        for windows in (view["ages"]["records"], view["ages"]["time_us"], view["footprints"]):
            assert sum(windows["windows"]) == view["open_windows"]
        records = sum(view["footprints"]["updates"]) + sum(view["footprints"]["renewals"])
        assert records <= view["extent_records"]
        assert view["renewing"]["windows"][-1] == view["open_windows"]
        left = view["renewing"]["extent_records"]
        assert left[0] == view["extent_records"]
        assert left[-1] == view["open_windows"], "all renewed, nothing else is read"


def test_the_map_of_the_log_has_every_byte(checkpoint: MadeCheckpoint) -> None:
    document = document_of(checkpoint.path)
    whole, *single = document["views"]
    for view, log in zip(single, document["logs"], strict=True):
        parts = [{k: n for k, n in bar.items() if k != "name"} for bar in view["segments"]]
        assert len(parts) == log["segments"] == 2
        assert sum(sum(part.values()) for part in parts) == log["bytes"]
        assert all(number >= 0 for part in parts for number in part.values())
        needed = sum(part["footprint_bytes"] + part["superseded_bytes"] for part in parts)
        assert needed == log["extent_bytes"]
    assert len(whole["segments"]) == len(single)


def test_an_earlier_version_is_reported_as_it_was(checkpoint: MadeCheckpoint) -> None:
    now = document_of(checkpoint.path)["views"][0]["history"]
    document = document_of(checkpoint.path, "--version", 5)
    then = document["views"][0]
    assert document["version"] == 5
    assert then["history"]["extent_records"] == now["extent_records"][:5]
    assert then["open_windows"] == now["open_windows"][4]
    assert document_of(checkpoint.path, "--at", 5)["views"] == document["views"]
    began = "2023-11-14T22:17:20.5Z"  # of batch 4, half a second later
    assert document_of(checkpoint.path, "--at", began)["views"] == document["views"]
    assert run(checkpoint.path, "--version", 99, "--json").exit_code == 2


def test_a_queue_is_reported_as_of_an_offset(tmp_path: Path) -> None:
    path = made.make_operator_queue(tmp_path / "q", 900)
    now, then = document_of(path), document_of(path, "--at", "@150")
    assert 50 < then["totals"]["records"] <= 150 < now["totals"]["records"]
    shorter, longer = (each["views"][0]["history"]["extent_records"] for each in (then, now))
    assert shorter == longer[: len(shorter)]
    assert then["totals"]["extent_records"] == shorter[-1]
    assert then["totals"]["bytes"] == now["totals"]["bytes"], "files are what they are"


def test_top_bounds_what_is_looked_at_closely(checkpoint: MadeCheckpoint) -> None:
    views = document_of(checkpoint.path, "--top", 2)["views"]
    assert len(views) == 1 + 2
    assert all(len(view["windows"]["oldest"]) == 2 for view in views)


def test_a_queue_of_many_partitions_is_reported_without_windows(tmp_path: Path) -> None:
    document = document_of(partitioned(tmp_path / "q"))
    assert document["kind"] == "partitioned queue"
    assert [log["partition"] for log in document["logs"]] == [0, 1, 2]
    whole = document["views"][0]
    assert whole["history"] is None
    assert whole["written"]["by"] == "time"
    assert sum(whole["written"]["bytes"]) == document["totals"]["bytes"]
    assert sum(whole["written"]["records"]) == document["totals"]["records"] == 5 * 60


def test_who_reads_a_queue_is_reported_as_the_command_lists_it(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    rows = pa.record_batch({"n": pa.array(range(10))})
    with open_queue(path, "a", schema=rows.schema, retention="consumers") as queue:
        queue.append(rows, pa.array(range(0, 10_000_000, 1_000_000)), sync=True)
        queue.consumer("caught-up").acknowledge(received=10)
        queue.consumer("late")
    listed = json.loads(CliRunner().invoke(app, ["consumers", str(path), "--json"]).stdout)
    document = document_of(path)
    assert (document["retention"], document["consumers"]) == ("consumers", listed["consumers"])
    assert [each["lag_records"] for each in document["consumers"]] == [0, 10]
    (path / "consumer-late.ack").write_bytes(bytes(10))
    document = document_of(path, status=1)
    assert document["consumers"] == []
    assert any("consumer-late" in each["path"] for each in document["damage"])


@pytest.mark.parametrize("partitions", [3, 12])
def test_consumers_of_all_partitions_are_read_once(
    tmp_path: Path, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.record_batch({"n": pa.array(range(10))})
    with open_queue(tmp_path / "q", "a", schema=rows.schema, partitions=partitions) as queue:
        for _ in range(partitions):
            queue.append(rows)
    assert (
        CliRunner()
        .invoke(app, ["consumers", str(tmp_path / "q"), "--add", "late", "--yes"])
        .exit_code
        == 0
    )
    looks = []
    is_read = facts_room.reference_consumers
    monkeypatch.setattr(
        "cec_store.report.document.reference_consumers",
        lambda place: looks.append(place) or is_read(place),
    )
    document = document_of(tmp_path / "q")
    assert len(looks) == 1
    assert [each["lag_records"] for each in document["consumers"]] == [10 * partitions]


def test_moments_before_1970_are_told(tmp_path: Path) -> None:
    """A queue of 1957, whose windows opened within hours of its end."""
    path, early_us = tmp_path / "queue", -400_000_000_000_000
    rows = made.trips(300)
    moments = pa.array(rows["at"].cast(pa.int64()).to_numpy() + early_us)
    rows = rows.set_column(0, "at", moments.cast(pa.timestamp("us", "UTC")))
    operator = Aggregate(
        group_by=["plane"], aggregates={"trips": ("count",)}, window=CountWindow(8),
        input_schema=rows.schema,
    )  # fmt: skip
    with open_queue(path, "a", schema=record_schema(operator)) as queue:
        Runner(operator, [ArrowSource(rows, "at")], queue).run()
    document = document_of(path)
    [view] = document["views"]
    for part in ("history", "written"):
        assert max(view[part]["timestamp_us"]) < early_us / 2
    assert 0 <= document["logs"][0]["age_us"] < 86_400_000_000


def test_a_partition_without_rows_at_first_has_the_time_of_its_next_ones(tmp_path: Path) -> None:
    place = MadeCheckpoint(tmp_path / "c", KEY, VALUE)
    place.batch({}, {("ann", 1): (1, "")})
    place.batch({("bob", 1): (1, "")})
    place.close()
    document = document_of(tmp_path / "c")
    for view in document["views"]:
        for part in ("history", "written"):
            assert min(view[part]["timestamp_us"]) > 1_300_000_000_000_000, (view["name"], part)


def test_places_with_nothing_in_them_are_sound(tmp_path: Path) -> None:
    import pyarrow as pa

    open_queue(tmp_path / "q", "x", schema=pa.schema([("n", pa.int64())])).close()
    assert document_of(tmp_path / "q")["totals"]["records"] == 0
    began = MadeCheckpoint(tmp_path / "began", KEY, VALUE)
    began.batch({("ann", 1): (1, "")}, commits=False)
    began.close()
    assert document_of(tmp_path / "began")["version"] is None
    stateless = tmp_path / "stateless"
    for log in ("offsets", "commits"):
        (stateless / log).mkdir(parents=True)
    (stateless / "metadata").write_text('{"id":"a query"}')
    assert document_of(stateless)["logs"] == []


# -- damage -----------------------------------------------------------------------------------


def test_damage_that_no_restart_needs_is_found(tmp_path: Path) -> None:
    checkpoint = grown(tmp_path / "c", partitions=3)
    [oldest, *_] = made.segments(checkpoint.folder(1))
    byte, _ = made.batches(oldest)[0]
    made.flip(oldest, byte + FRAME_HEADER_BYTES + 9)
    document = document_of(checkpoint.path, status=1)
    assert document["verified"] is False
    assert [(each["path"], each["byte"]) for each in document["damage"]] == [(str(oldest), byte)]
    assert [log["sound"] for log in document["logs"]] == [True, False, True]
    assert document["totals"]["damaged_logs"] == 1


def test_nothing_is_called_sound_that_was_not_looked_at(tmp_path: Path) -> None:
    checkpoint = grown(tmp_path / "c")
    page = tmp_path / "page.html"
    said = run(checkpoint.path, "-o", page, "--no-verify")
    assert said.exit_code == 0
    assert "sound" not in said.stdout.replace(str(tmp_path), "")
    assert "the other bytes were not checked" in " ".join(said.stdout.split())
    assert document_of(checkpoint.path, "--no-verify")["verified"] is None
    said = run(checkpoint.path, "-o", page, "--force")
    assert "sound" in said.stdout


def test_a_damaged_log_does_not_keep_the_others_from_the_report(tmp_path: Path) -> None:
    checkpoint = grown(tmp_path / "c", partitions=3)
    before = document_of(checkpoint.path)
    [*_, newest] = made.segments(checkpoint.folder(1))
    byte, _ = made.batches(newest)[-1]
    made.flip(newest, byte + FRAME_HEADER_BYTES + 9)
    document = document_of(checkpoint.path, status=1)
    [fault] = document["damage"]
    assert (fault["path"], fault["byte"]) == (str(newest), byte)
    assert fault["log"] == "operator 0 (aggregate), partition 1"
    assert [log["sound"] for log in document["logs"]] == [True, False, True]
    assert document["totals"]["damaged_logs"] == 1
    for at in (0, 2):
        assert document["logs"][at] == before["logs"][at]
    assert document["views"][0]["history"]["number"], "of the sound logs"
    found = CliRunner().invoke(app, ["extent", str(checkpoint.path), "--json"])
    totals = json.loads(found.stdout)["totals"]
    for name in ("open_windows", "extent_records", "extent_bytes", "damaged_logs"):
        assert document["totals"][name] == totals[name], "what extent says"


@pytest.mark.parametrize("name", ["commits/7", "state/0/0/_metadata/schema", "state/0/1"])
def test_what_spark_wrote_may_be_damaged_too(tmp_path: Path, name: str) -> None:
    checkpoint = grown(tmp_path / "c", partitions=3, format=2)
    damaged = checkpoint.path / name
    shutil.rmtree(damaged) if damaged.is_dir() else damaged.write_bytes(b"v1\n{")
    document = document_of(checkpoint.path, status=1)
    assert any(str(damaged) in fault["path"] for fault in document["damage"])
    assert len({(f["path"], f["what"]) for f in document["damage"]}) == len(document["damage"])
    counted = [log["open_windows"] for log in document["logs"]]
    assert counted[0] > 5
    assert counted[2] > 5


def test_damage_that_only_a_full_check_meets_is_found_unless_told_otherwise(tmp_path: Path) -> None:
    path = made.copy(SNAPSHOT_QUEUE, tmp_path / "q")
    byte, _ = made.batches(made.segment(path, 0))[1]
    made.flip(made.segment(path, 0), byte + FRAME_HEADER_BYTES + 5)
    assert document_of(path, "--no-verify")["verified"] is None, "below the extent, no header"
    document = document_of(path, status=1)
    assert document["verified"] is False
    assert [(f["path"], f["byte"]) for f in document["damage"]] == [
        (str(made.segment(path, 0)), byte)
    ]
    assert document_of(SNAPSHOT_QUEUE)["verified"] is True


# -- the file ---------------------------------------------------------------------------------


def test_a_page_of_a_damaged_queue_is_written_all_the_same(tmp_path: Path) -> None:
    path = made.copy(SNAPSHOT_QUEUE, tmp_path / "q")
    made.segment(path, 1).unlink()
    result = run(path, "-o", tmp_path / "page.html")
    assert result.exit_code == 1
    assert re.search(r"page\.html: [\d.]+ KiB\nDamaged: 1 fault", result.output)
    assert "the segment is missing" in (tmp_path / "page.html").read_text("utf-8")


def test_a_page_replaces_another_only_when_told(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine")
    result = run(SNAPSHOT_QUEUE, "-o", page)
    assert result.exit_code == 2
    assert "is there already" in result.stderr
    assert page.read_text() == "mine"
    assert run(SNAPSHOT_QUEUE, "-o", page, "--force").exit_code == 0
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    assert run(SNAPSHOT_QUEUE, "-o", tmp_path / "none" / "page.html").exit_code == 2

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trees.os, "link", full)
    result = run(SNAPSHOT_QUEUE, "-o", tmp_path / "page.html")
    assert result.exit_code == 2
    assert "no space left" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_wrong_use_is_said(tmp_path: Path) -> None:
    assert run(tmp_path).exit_code == 2
    assert run(SNAPSHOT_QUEUE, "--version", 3, "--json").exit_code == 2
    assert run(SNAPSHOT_QUEUE, "--top", 0).exit_code == 2


# -- the page ---------------------------------------------------------------------------------


def test_the_page_holds_all_and_names_no_other_place(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run(SNAPSHOT_QUEUE, "-o", page).exit_code == 0
    text = page.read_text("utf-8")
    ours = text.replace(page_room._part("chart.umd.min.js"), "")
    assert len(ours) < len(text) - 200_000
    assert not re.findall(r"https?://|src=|href=|@import|url\(", ours)
    assert "default-src 'none'" in ours
    assert not page_room._HOLE.search(ours)


def test_the_library_is_as_it_was_published() -> None:
    data = (Path(page_room.__file__).parent / "chart.umd.min.js").read_bytes()
    digest = "87364cc2b2a76a6684929e7d6b80b18a897794db38400caff1fcf1791c6925d2"
    assert hashlib.sha256(data).hexdigest() == digest
    assert b"Chart.js v4.6.1" in data[:200]
    assert "Permission is hereby granted" in page_room._part("chart.LICENSE.md")


@pytest.mark.parametrize(
    ("place", "damage"), DAMAGES, ids=[damage.__name__ for _, damage in DAMAGES]
)
def test_faults_are_counted_as_verify_counts_them(
    tmp_path: Path, place: Callable[[Path], Path], damage: Damage
) -> None:
    path = place(tmp_path / "p")
    damage(path)
    verified = json.loads(CliRunner().invoke(app, ["verify", str(path), "--json"]).stdout)
    reported = json.loads(CliRunner().invoke(app, ["report", str(path), "--json"]).stdout)
    counted = [(each["log"], each["path"], each["byte"]) for each in reported["damage"]]
    assert counted == [(each["log"], each["path"], each["byte"]) for each in verified["faults"]]


def test_uniform_input_is_drawn_as_uniform(tmp_path: Path) -> None:
    """Frames of a thousand rows, a row each second: there are fewer frames than bars."""
    schema = pa.schema([("n", pa.int64())])
    with open_queue(tmp_path / "q", "x", schema=schema) as queue:
        for first in range(0, 20_000, 1000):
            moments = pa.array(range(first, first + 1000))
            times = pa.array([each.as_py() * 1_000_000 for each in moments])
            queue.append(pa.record_batch([moments], schema=schema), times)
        queue.sync()
    [view] = document_of(tmp_path / "q")["views"]
    rates = view["throughput"]["records_per_s"]
    assert len(rates) == 60
    assert min(rates) == pytest.approx(1, abs=0.01)
    assert max(rates) == pytest.approx(1, abs=0.01)
    assert view["restart"] is None, "no operator writes it"
