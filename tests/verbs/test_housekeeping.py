"""`cec-store consumers` and `cec-store trim`: they say what holds a queue, and act when told to."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from cec_store import open_queue
from cec_store.cli import app
from support.places import damaged_queues as made

SCHEMA = pa.schema([("n", pa.int64())])
SINCE_US = 1_600_000_000_000_000


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def json_of(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def files(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.iterdir()}


def names_of_writers(names: dict[str, bytes]) -> set[str]:
    """What each writer has of its own."""
    return {name for name in names if name.startswith(("manifest-", "durable-"))}


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    """Ten records, a segment for each; one consumer is here, one has gone."""
    path = tmp_path / "queue"
    with open_queue(
        path, "x", schema=SCHEMA, clock_us=lambda: 1_600_000_000_000_000, retention="consumers"
    ) as opened:
        for number in range(10):
            opened.append(pa.record_batch({"n": [number]}), pa.array([number * 500_000]))
            opened.roll()
        with opened.consumer("hourly") as hourly, opened.consumer("gone", start=2):
            hourly.acknowledge(received=8, effects_saved=6)
    return path


def test_the_list_has_every_consumer_with_its_lag(queue: Path) -> None:
    before = files(queue)
    first, *lines = run("consumers", queue).stdout.splitlines()
    assert first == f"{queue}: retention consumers"
    assert lines[0] == f"{queue}: consumers"
    assert re.split(r"\s{2,}", lines[1].strip()) == [
        "name", "received", "effects saved", "lag", "lag s", "event-time lag s", "acknowledged",
    ]  # fmt: skip
    *gone, _, event_s, acknowledged = lines[2].split()
    assert (gone, event_s) == (["gone", "2", "2", "8"], "3.5")
    assert acknowledged == "2020-09-13T12:26:40Z"
    *hourly, lag_s, event_s, _ = lines[3].split()
    assert (hourly, event_s) == (["hourly", "8", "6", "2"], "0.5")
    since_us = json_of("consumers", queue)["consumers"][1]["waiting_since_us"]
    assert abs(float(lag_s.replace(",", "")) - (time.time() - since_us / 1e6)) < 60
    assert files(queue) == before


def test_the_list_as_json(queue: Path) -> None:
    document = json_of("consumers", queue)
    (log,) = document["logs"]
    assert (log["first_offset"], log["end_offset"]) == (0, 10)
    assert document["consumers"][1] == {
        "name": "hourly", "partitions": 1, "lag_records": 2, "lag_us": 500_000,
        "acknowledged_us": 1_600_000_000_000_000, "waiting_since_us": SINCE_US,
    }  # fmt: skip
    assert log["consumers"][1] == {
        "name": "hourly", "received": 8, "effects_saved": 6, "lag_records": 2,
        "lag_us": 500_000, "acknowledged_us": 1_600_000_000_000_000,
        "waiting_since_us": SINCE_US,
    }  # fmt: skip


def test_a_queue_without_consumers_says_so(tmp_path: Path) -> None:
    open_queue(tmp_path / "queue", "x", schema=SCHEMA).close()
    assert run("consumers", tmp_path / "queue").stdout == (
        f"{tmp_path}/queue: retention forever\n{tmp_path}/queue: consumers\n"
        "  name  received  effects saved  lag  lag s  event-time lag s  acknowledged\n  0 rows\n"
    )


def test_a_consumer_is_dropped_only_with_yes(queue: Path) -> None:
    before = files(queue)
    said = run("consumers", queue, "--drop", "gone").stdout
    assert said == (
        f"{queue}: would drop consumer 'gone' (1 file, 72 bytes); do it with --yes\n"
        "  consumer-gone.ack: records were kept for it from offset 2 on\n"
    )
    document = json_of("consumers", queue, "--drop", "gone")
    assert (document["dropped"], document["done"]) == ("gone", False)
    assert files(queue) == before
    assert "dropped consumer 'gone'" in run("consumers", queue, "--drop", "gone", "--yes").stdout
    assert [each["name"] for each in json_of("consumers", queue)["consumers"]] == ["hourly"]


@pytest.mark.parametrize("name", ["nobody", "../hourly", ""])
def test_only_a_consumer_that_is_there_can_be_dropped(queue: Path, name: str) -> None:
    before = files(queue)
    assert run("consumers", queue, "--drop", name, "--yes").exit_code == 2
    assert files(queue) == before


def test_one_in_use_is_not_dropped(queue: Path) -> None:
    with open_queue(queue) as reader, reader.consumer("hourly"):
        result = run("consumers", queue, "--drop", "hourly", "--yes")
    assert result.exit_code == 2
    assert "'hourly' is in use" in result.stderr


def test_a_damaged_one_is_named_stops_a_trim_and_can_be_dropped(queue: Path) -> None:
    made.flip(queue / "consumer-gone.ack", 40)
    before = files(queue)
    for verb in (("consumers",), ("trim", "--before", 3), ("trim", "--before", 3, "--yes")):
        result = run(verb[0], queue, *verb[1:])
        assert result.exit_code == 1
        assert f"{queue}/consumer-gone.ack: damage" in result.stderr
        assert files(queue) == before
    assert run("verify", queue).exit_code == 1
    assert run("consumers", queue, "--drop", "gone", "--yes").exit_code == 0
    assert json_of("trim", queue, "--yes")["logs"][0]["first_offset"] == 6


def test_a_trim_says_what_it_would_do_and_does_it_with_yes(queue: Path) -> None:
    before = files(queue)
    sizes = [made.segment(queue, number).stat().st_size for number in (0, 1)]
    text = (
        f"{queue}: would remove 2 segments ({sum(sizes) / 1024:.1f} KiB), offsets 0 to 1; "
        "the oldest offset left is 2\n"
        "  consumer 'gone' needs the oldest segment that stays\n"
        "do it with --yes\n"
    )
    assert run("trim", queue).stdout == text
    planned = json_of("trim", queue)
    assert files(queue) == before
    done = json_of("trim", queue, "--yes")
    assert {**planned, "done": True} == done
    assert done["totals"] == {"logs": 1, "segments": 2, "bytes": sum(sizes), "records": 2}
    (log,) = done["logs"]
    assert (log["first_segment"], log["first_offset"], log["held_by"]) == (2, 2, ["gone"])
    assert set(log["files"]) == set(before) - set(files(queue)) - names_of_writers(before)
    with open_queue(queue) as reader:
        assert reader.chain().first_offset() == 2
        assert next(reader.replay())["n"].to_pylist() == [2]
    assert json_of("trim", queue, "--yes")["totals"]["segments"] == 0
    assert "removed 0 segments" in run("trim", queue, "--yes").stdout


def test_a_trim_goes_no_further_than_before(queue: Path) -> None:
    document = json_of("trim", queue, "--before", 1, "--yes")
    (log,) = document["logs"]
    assert (log["first_offset"], log["held_by"]) == (1, [])
    assert run("trim", queue, "--before", 11).exit_code == 2


def test_no_trim_beside_a_writer(queue: Path) -> None:
    with open_queue(queue, "a"):
        result = run("trim", queue, "--yes")
    assert result.exit_code == 2
    assert "open for append" in result.stderr
    with open_queue(queue) as reader:
        assert reader.chain().first_offset() == 0
