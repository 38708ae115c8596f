"""`consumers`, `trim`, `reindex`, `replay`, `dump` of a queue of many partitions; refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cec_store.cli import app
from cec_store.format.retention import Retention
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.log.chain import Chain
from cec_store.opening import open_queue
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import WRITER_LOCK
from support.places import damaged_queues as made
from support.places.made_checkpoints import grown
from support.places.partitioned_queues import QUERY, SCHEMA, contents, rows, stage
from support.places.version_1 import Committer

BATCHES, PARTITIONS = 12, 3


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def document(*arguments: object, status: int = 0) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


def partition(path: Path, number: int) -> Path:
    return path / f"partition-{number:05d}"


@pytest.fixture
def committer(tmp_path: Path) -> Committer:
    """Twelve batches of three partitions; a segment for each frame, so that many can go."""
    times = iter(range(1_000_000, 10**12, 1_000_000))
    made_of = Committer(
        LocalFolder(tmp_path / "queue"), SCHEMA, segment_bytes=600, clock_us=lambda: next(times),
        retention=Retention.of("consumers"),
    )  # fmt: skip
    for batch in range(BATCHES):
        parts = {n: rows(100 * n + 2 * batch, 2) for n in range(PARTITIONS)}
        made_of.commit(QUERY, batch, stage(made_of, batch, parts))
        if not batch:
            for number in range(PARTITIONS):
                with open_queue(partition(tmp_path / "queue", number)) as queue:
                    queue.consumer("hourly", start=0).close()
                    if number:
                        queue.consumer("daily", start=0).close()
    return made_of


@pytest.fixture
def queue(committer: Committer, tmp_path: Path) -> Path:
    path = tmp_path / "queue"
    for number, saved in enumerate((20, 10, 4)):
        with open_queue(partition(path, number)) as reader, reader.consumer("hourly") as hourly:
            hourly.acknowledge(received=saved + 2, effects_saved=saved)
    return path


def test_consumers_are_told_for_each_partition_and_in_all(queue: Path) -> None:
    before = made.hash_of(queue)
    said = document("consumers", queue)
    assert [log["partition"] for log in said["logs"]] == [0, 1, 2]
    lags = [{c["name"]: c["lag_records"] for c in log["consumers"]} for log in said["logs"]]
    assert lags == [{"hourly": 2}, {"hourly": 12, "daily": 24}, {"hourly": 18, "daily": 24}]
    sums = {each["name"]: (each["partitions"], each["lag_records"]) for each in said["consumers"]}
    assert sums == {"hourly": (3, 32), "daily": (2, 48)}
    assert said["totals"] == {"logs": 3, "consumers": 2}
    lines = run("consumers", queue).stdout.splitlines()
    assert sum("hourly" in line for line in lines) == 4
    assert made.hash_of(queue) == before


def test_trim_takes_of_each_partition_what_its_consumers_let_go(queue: Path) -> None:
    before = made.hash_of(queue)
    held = contents(queue)
    planned = document("trim", queue)
    assert "do it with --yes" in run("trim", queue).stdout
    assert made.hash_of(queue) == before
    assert [log["held_by"] for log in planned["logs"]][1:] == [["daily"], ["daily"]]
    assert [log["segments"] > 0 for log in planned["logs"]] == [True, False, False]
    gone = planned["logs"][0]
    sizes = [(partition(queue, 0) / name).stat().st_size for name in gone["files"]]
    assert (len(sizes), sum(sizes)) == (gone["segments"], gone["bytes"])
    done = document("trim", queue, "--yes")
    assert {**planned, "done": True} == done
    assert not any((partition(queue, 0) / name).exists() for name in gone["files"])
    with open_queue(partition(queue, 0)) as left:
        first = left.chain().first_offset()
    assert first == gone["first_offset"] == gone["records"]
    assert contents_from(queue) == {0: held[0][first:], 1: held[1], 2: held[2]}
    assert document("trim", queue)["totals"]["segments"] == 0


def contents_from(path: Path) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    for line in run("replay", path, "--json", "--metadata").stdout.splitlines():
        row = json.loads(line)
        found[row["_partition"]].append(row["n"])
    return found


def test_before_is_a_moment_where_there_are_partitions(queue: Path) -> None:
    for name in ("hourly", "daily"):
        assert document("consumers", queue, "--drop", name, "--yes")["done"]
    lines = run("replay", queue, "--json", "--metadata").stdout.splitlines()
    moment = json.loads(lines[10])["_timestamp"]
    assert run("trim", queue, "--before", 5).exit_code == 2
    said = document("trim", queue, "--before", moment, "--yes")
    assert all(log["segments"] for log in said["logs"])
    left = [json.loads(line) for line in
            run("replay", queue, "--json", "--metadata").stdout.splitlines()]  # fmt: skip
    due = [row for row in map(json.loads, lines) if row["_timestamp"] >= moment]
    assert [row for row in left if row["_timestamp"] >= moment] == due
    assert len(left) < len(lines)


def test_committer_of_a_query_goes_on_after_all_of_it(committer: Committer, queue: Path) -> None:
    document("trim", queue, "--yes")
    document("reindex", queue, "--yes")
    before = contents_from(queue)
    parts = {n: rows(1000 + n, 1) for n in range(PARTITIONS)}
    assert committer.commit(QUERY, BATCHES, stage(committer, BATCHES, parts))
    assert contents_from(queue) == {n: [*before[n], 1000 + n] for n in range(PARTITIONS)}
    for number in range(PARTITIONS):
        assert run("verify", partition(queue, number)).exit_code == 0


def test_indexes_of_all_partitions_are_made_anew(queue: Path) -> None:
    before = made.hash_of(queue)
    planned = document("reindex", queue)
    assert made.hash_of(queue) == before
    assert [log["partition"] for log in planned["logs"]] == [0, 1, 2]
    assert all(log["files"] and log["bytes"] for log in planned["logs"])
    done = document("reindex", queue, "--yes")
    assert done["totals"]["frames"] == sum(log["frames"] for log in planned["logs"]) > 0
    for log in planned["logs"]:
        index = TimestampIndex(Chain(LocalFolder(log["path"])))
        assert (index.stored_frames, index.problem) == (log["frames"], "")
        index.close()


def test_consumer_is_dropped_from_all_partitions(queue: Path) -> None:
    before = made.hash_of(queue)
    said = document("consumers", queue, "--drop", "daily")
    assert [log["effects_saved"] for log in said["logs"]] == [0, 0]
    assert [log["partition"] for log in said["logs"]] == [1, 2]
    assert made.hash_of(queue) == before
    with open_queue(partition(queue, 1)) as reader, reader.consumer("daily"):
        result = run("consumers", queue, "--drop", "daily", "--yes")
        assert (result.exit_code, "in use" in result.stderr) == (2, True)
    assert "in 2 partitions" in run("consumers", queue, "--drop", "daily", "--yes").stdout
    assert [c["name"] for c in document("consumers", queue)["consumers"]] == ["hourly"]
    assert run("consumers", queue, "--drop", "daily").exit_code == 2


def test_one_partition_that_cannot_be_read_is_told_and_then_nothing_is_done(queue: Path) -> None:
    made.flip(partition(queue, 1) / "consumer-daily.ack", 40)
    before = made.hash_of(queue)
    for verb in ("consumers", "trim"):
        said = document(verb, queue, status=1)
        assert [bool(log["problem"]) for log in said["logs"]] == [False, True, False]
        assert said["sound"] is False
    result = run("trim", queue, "--yes")
    assert result.exit_code == 1
    assert "nothing was removed" in result.stdout
    assert "consumer-daily.ack: damage" in result.stderr
    assert made.hash_of(queue) == before


def test_nobody_acts_beside_a_commit(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cec_store.partitioned.finishing._LOCK_WAIT_S", 0.2)
    lock = LocalFolder(queue / "commits").lock(WRITER_LOCK)
    before = made.hash_of(queue)
    try:
        for verb in ("trim", "reindex"):
            assert run(verb, queue, "--yes").exit_code == 2
    finally:
        lock.close()
    assert made.hash_of(queue) == before


def test_replay_of_many_partitions_has_no_follow(queue: Path) -> None:
    result = run("replay", queue, "--follow")
    assert (result.exit_code, "dump --follow" in result.stderr) == (2, True)
    assert run("replay", queue, "--since", "@3").exit_code == 2
    assert len(run("replay", queue, "--limit", 5, "--json").stdout.splitlines()) == 5


def test_dump_of_many_partitions_names_each(queue: Path) -> None:
    lines = [json.loads(line) for line in run("dump", queue, "--json").stdout.splitlines()]
    names = [row["name"] for row in lines if row["row"] == "log"]
    assert names == ["commits", "partition 0", "partition 1", "partition 2"]
    numbers = [row["data"]["n"] for row in lines if row["row"] == "record" and "n" in row["data"]]
    assert numbers == [n for part in contents(queue).values() for n in part]


@pytest.mark.parametrize("verb", ["consumers", "trim", "reindex"])
def test_state_is_no_queue(tmp_path: Path, verb: str) -> None:
    grown(tmp_path)
    before = made.hash_of(tmp_path)
    for path in (tmp_path, tmp_path / "state" / "0" / "0"):
        result = run(verb, path, *(["--yes"] if verb != "consumers" else []))
        assert result.exit_code == 2
        text = " ".join(result.stderr.split())
        assert "Spark's own maintenance" in text
    assert made.hash_of(tmp_path) == before


def test_checkpoint_has_no_output_to_replay(tmp_path: Path) -> None:
    grown(tmp_path)
    result = run("replay", tmp_path)
    assert (result.exit_code, "cec-store changes" in result.stderr) == (2, True)
