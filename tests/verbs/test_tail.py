"""`cec-store tail`: beside a writer, ended by Ctrl-C and by a closed pipe, on any queue."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from cec_store import OutputQueue, PartitionedQueue, open_queue
from cec_store.cli import app

SCHEMA = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
PARTITIONS = pytest.mark.parametrize("partitions", [None, 1, 200])
WAIT_S = 60


def table(*numbers: int) -> pa.Table:
    """Number n is of second n."""
    return pa.table({"n": numbers, "at": [n * 1_000_000 for n in numbers]}, schema=SCHEMA)


def opened(path: Path, partitions: int | None) -> OutputQueue | PartitionedQueue:
    if partitions is None:
        return open_queue(path, "a", schema=SCHEMA, timestamp_column="at")
    return open_queue(path, "a", schema=SCHEMA, timestamp_column="at", partitions=partitions)


def append(queue: OutputQueue | PartitionedQueue, *numbers: int) -> None:
    for number in numbers:
        queue.append(table(number))
    if isinstance(queue, OutputQueue):
        queue.sync()


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["tail", *map(str, arguments)])


def numbers(*arguments: object) -> list[int]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line)["n"] for line in result.stdout.splitlines()]


@contextmanager
def tail_of(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", "from cec_store.cli import main; main()", "tail",
         *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


@PARTITIONS
def test_the_last_ten_rows_in_the_order_of_the_commits(
    partitions: int | None, tmp_path: Path
) -> None:
    with opened(tmp_path / "q", partitions) as queue:
        append(queue, *range(14))
    assert numbers(tmp_path / "q") == [*range(4, 14)]
    assert numbers(tmp_path / "q", "-n", 3) == [11, 12, 13]
    assert numbers(tmp_path / "q", "-n", 0) == []
    assert numbers(tmp_path / "q", "--since", "2s") == [*range(2, 14)]
    assert numbers(tmp_path / "q", "--since", "2s", "--until", "8s", "-n", 2) == [6, 7]
    assert numbers(tmp_path / "q", "--since", "-1h") == []


def test_formats(tmp_path: Path) -> None:
    with opened(tmp_path / "q", 2) as queue:
        append(queue, 7)
    assert run(tmp_path / "q", "--format", "csv").stdout == "n,at\n7,1970-01-01 00:00:07.000000Z\n"
    text = run(tmp_path / "q").stdout.split()
    assert text == ["n", "at", "7", "1970-01-01T00:00:07Z"]
    row = json.loads(run(tmp_path / "q", "--format", "jsonl", "--metadata").stdout)
    assert (row["_partition"], row["_offset"], row["_kind"]) == (0, 0, "DATA")


@PARTITIONS
def test_rows_come_as_they_are_written_until_ctrl_c(partitions: int | None, tmp_path: Path) -> None:
    with opened(tmp_path / "q", partitions) as queue:
        append(queue, 1)
        with tail_of(tmp_path / "q", "-f", "--json") as tail:
            assert tail.stdout is not None
            assert tail.stderr is not None
            for number in range(2, 6):
                assert json.loads(tail.stdout.readline())["n"] == number - 1
                append(queue, number)
            assert json.loads(tail.stdout.readline())["n"] == 5
            said = tail.stderr.readline()
            assert str(tmp_path / "q") in said
            assert "waiting for" in said
            tail.send_signal(signal.SIGINT)
            out, error = tail.communicate(timeout=WAIT_S)
    assert (tail.returncode, out, error) == (0, "", "")


@PARTITIONS
def test_a_pipe_that_is_closed_ends_it_without_another_row(
    partitions: int | None, tmp_path: Path
) -> None:
    with opened(tmp_path / "q", partitions) as queue:
        append(queue, 1)
    with tail_of(tmp_path / "q", "-f", "--json") as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        assert json.loads(tail.stdout.readline())["n"] == 1
        assert "waiting for" in tail.stderr.readline()
        tail.stdout.close()
        assert tail.wait(timeout=WAIT_S) == 141
        assert tail.stderr.read() == ""


@PARTITIONS
@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_queue_that_is_removed_or_replaced_is_told_by_name(
    is_made_anew: bool, partitions: int | None, tmp_path: Path
) -> None:
    opened(tmp_path / "q", partitions).close()
    with tail_of(tmp_path / "q", "-f") as tail:
        assert tail.stderr is not None
        assert "waiting for" in tail.stderr.readline()
        if is_made_anew:
            (tmp_path / "q").rename(tmp_path / "old")
            opened(tmp_path / "new", partitions).close()
            (tmp_path / "new").rename(tmp_path / "q")
        else:
            shutil.rmtree(tmp_path / "q")
        assert tail.wait(timeout=WAIT_S) == 2
        said = tail.stderr.read()
    assert str(tmp_path / "q") in said
    assert re.search("open (the queue|it) again", said)
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--format", "parquet"), "parquet has an end"), (("-n", "-1"), "--lines")],
)
def test_wrong_use_is_status_2(arguments: tuple[Any, ...], said: str, tmp_path: Path) -> None:
    opened(tmp_path / "q", None).close()
    result = run(tmp_path / "q", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_other_places_are_no_queues(tmp_path: Path) -> None:
    assert run(tmp_path / "nothing").exit_code == 2


@pytest.mark.parametrize("verb", ["tail", "replay"])
@PARTITIONS
def test_nothing_to_show_is_the_columns_and_0_rows(
    partitions: int | None, verb: str, tmp_path: Path
) -> None:
    with opened(tmp_path / "q", partitions) as queue:
        append(queue, 1)
    words = [verb, str(tmp_path / "q"), "--since", "2030-01-01"]
    result = CliRunner().invoke(app, [*words, "--format", "table"])
    assert result.exit_code == 0, result.output
    assert result.stdout == "n  at\n0 rows\n"
    assert CliRunner().invoke(app, [*words, "--format", "jsonl"]).stdout == ""
    assert CliRunner().invoke(app, [*words, "--format", "csv"]).stdout == "n,at\n"
