"""`cec-store state` and `changes`: against models in plain Python, in every format, over damage."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cec_store import open_queue, read_changes, read_state
from cec_store.state_logs.state_log import StateLog
from cec_store.storage.local import LocalFolder
from cec_store.storage.trees import new_file
from cec_store.terminal.formats import Format, write_batches
from support.command_line.state import State, applied, as_state, document, named, rows_of, run
from support.paths import SNAPSHOTS
from support.places import damaged_queues as made
from support.places.made_checkpoints import KEY, START_MS, VALUE, MadeCheckpoint, grown
from support.places.state_logs import grow

each_format = pytest.mark.parametrize("format", [1, 2])


def arrow_of(*arguments: object) -> pa.Table:
    result = run(*arguments, "--format", "arrow")
    assert result.exit_code == 0, result.output
    return pa.ipc.open_stream(result.stdout_bytes).read_all()


# -- Spark's state ----------------------------------------------------------------------------


@each_format
def test_state_of_a_checkpoint_is_that_of_read_state_and_of_the_batches(
    tmp_path: Path, format: int
) -> None:
    checkpoint, states, _ = grown(tmp_path, format=format, beside={(2, b"x"): b"nobody's"})
    start = datetime.fromtimestamp(START_MS / 1000, timezone.utc)
    before = made.hash_of(tmp_path)
    for version, state in enumerate(states, 1):
        began = (start + timedelta(minutes=version - 1)).isoformat()
        due = read_state(checkpoint.path, version=version)
        for at in (("--version", version), ("--at", version), ("--at", began)):
            table = arrow_of("state", tmp_path, *at)
            assert table.schema == due.schema
            assert table.to_pylist() == due.to_pylist()
        found = as_state(rows_of("state", tmp_path, "--at", version))
        assert found == {
            (at, None, key): (row, ()) for at, part in state.items() for key, row in part.items()
        }
    assert arrow_of("state", tmp_path).equals(due)
    one = read_state(checkpoint.path, partition=1)
    assert arrow_of("state", tmp_path, "--partition", 1).equals(one)
    assert made.hash_of(tmp_path) == before, "reading writes nothing"


@each_format
def test_changes_from_one_version_make_the_state_of_another(tmp_path: Path, format: int) -> None:
    checkpoint, states, _ = grown(tmp_path, format=format)
    state_at = [{}, *(as_state(rows_of("state", tmp_path, "--at", n + 1)) for n in range(6))]
    for first in range(len(states) + 1):
        for last in {max(1, first), min(6, first + 1), 6}:
            changes = rows_of("changes", tmp_path, first, last)
            assert applied(state_at[first], changes) == state_at[last]
            if last > first:
                due = read_changes(checkpoint.path, first + 1, last)
                found = arrow_of("changes", tmp_path, first, last)
                assert found.schema == due.schema
                assert found.to_pylist() == due.to_pylist()
            else:
                assert changes == []


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_state_and_changes_of_a_random_log_are_those_of_its_writers(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, random = tmp_path_factory.mktemp("log"), Random(seed)
    folder = LocalFolder(path)
    log = grow(folder, random)
    versions = log.versions()
    last = random.choice([*versions])
    rows = rows_of("state", path, "--at", last, "--raw")
    found = {(row["family"], bytes.fromhex(row["key"])): row["value"] for row in rows}
    assert found == {key: value.hex() for key, value in versions[last].state.items()}
    first = random.randrange(last + 1)
    changes = run("changes", path, first, last, "--raw", "--json")
    if changes.exit_code == 0 and first in versions and _is_before(folder, versions, first, last):
        old = as_state(rows_of("state", path, "--at", first, "--raw"))
        assert applied(old, json.loads(changes.stdout)["rows"]) == as_state(rows)


def _is_before(folder: Any, versions: Any, first: int, last: int) -> bool:
    """Whether the last version was made out of the first, and not of another attempt at it."""
    made_of = versions[first].unique_id
    lineage = StateLog(folder).version_reader(last)
    ids = [
        f"{f.address.segment_id:016x}-{f.header.salt:016x}-{f.header.seq:x}"
        for f in lineage.frames()
    ]
    return made_of in ids


def test_store_alone_is_read_as_in_its_checkpoint(tmp_path: Path) -> None:
    grown(tmp_path)
    alone = arrow_of("state", tmp_path / "state" / "0" / "1")
    assert alone.schema.names == ["key", "value"]
    assert alone.equals(arrow_of("state", tmp_path, "--partition", 1).drop(["partition_id"]))
    changes = arrow_of("changes", tmp_path / "state" / "0" / "1", 2, 5)
    due = arrow_of("changes", tmp_path, 2, 5, "--partition", 1).drop(["partition_id"])
    assert changes.equals(due)


def test_store_must_be_named_where_there_are_several(tmp_path: Path) -> None:
    stores = ("left-keyToNumValues", "right-keyToNumValues")
    checkpoint = MadeCheckpoint(tmp_path, KEY, VALUE, stores, format=1)
    checkpoint.batch({("ann", 1): (1, "a")})
    checkpoint.close()
    result = run("state", tmp_path)
    assert result.exit_code == 2
    names = "; ".join(f"--operator 0 --store {store} (join)" for store in stores)
    assert names in " ".join(result.stderr.replace("│", " ").split())
    assert len(rows_of("state", tmp_path, "--store", stores[0])) == 1


def test_a_side_of_a_join_is_what_read_state_gives(tmp_path: Path) -> None:
    key = pa.struct([("field0", pa.string()), ("index", pa.int64())])
    value = pa.struct([("user", pa.string()), ("n", pa.int64()), ("matched", pa.bool_())])
    stores = tuple(
        f"{s}-{of}" for s in ("left", "right") for of in ("keyToNumValues", "keyWithIndexToValue")
    )
    made_here = MadeCheckpoint(tmp_path, key, value, stores, partitions=2, format=1)
    made_here.batch({("ann", 0): ("ann", 4, True), ("bob", 1): ("bob", 5, False)})
    made_here.close()
    for side in ("left", "right"):
        rows = arrow_of("state", tmp_path, "--store", side)
        assert rows.sort_by("partition_id") == read_state(tmp_path, store=side).sort_by(
            "partition_id"
        )
        stored = arrow_of("state", tmp_path, "--store", f"{side}-keyWithIndexToValue")
        assert "matched" in {field.name for field in stored.schema.field("value").type}
    assert "(join)" in run("state", tmp_path).stderr


# -- queues -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "queue"
    return made.make_operator_queue(path, 700)


def test_windows_of_a_queue_are_those_that_its_records_leave(queue: Path) -> None:
    lines = [json.loads(line) for line in run("dump", queue, "--json").stdout.splitlines()]
    frames = [row for row in lines if row["row"] == "frame" and row["type"] == "BATCH"]
    records = [row for row in lines if row["row"] == "record"]

    def windows(end: int) -> State:
        found: State = {}
        for row in records[:end]:
            if row["kind"] == "RESULT":
                found.pop((None, None, named(row["key"])), None)
            else:
                found[None, None, named(row["key"])] = named(row["state"]), tuple(row["position"])
        return found

    ends = [frame["end_offset"] for frame in frames]
    assert as_state(rows_of("state", queue)) == windows(ends[-1])
    for number in (0, 3, len(frames) // 2, len(frames) - 1):
        end = ends[number]
        assert as_state(rows_of("state", queue, "--at", f"@{end}")) == windows(end)
        inside = frames[number]["first_offset"] + 1
        if inside < end:
            before = ends[number - 1] if number else 0
            assert as_state(rows_of("state", queue, "--at", f"@{inside}")) == windows(before)
    assert rows_of("state", queue, "--at", "@0") == []
    moment = records[ends[5]]["timestamp_us"]
    first = next(row["offset"] for row in records if row["timestamp_us"] >= moment)
    newest = max((end for end in ends if end <= first), default=0)
    assert as_state(rows_of("state", queue, "--at", moment)) == windows(newest)


def test_changes_of_a_queue_make_one_state_of_another(queue: Path) -> None:
    end = rows_of("state", queue)[-1]["offset"] + 1
    random = Random(4)
    seen = set()
    for _ in range(12):
        first, last = sorted(random.sample(range(end), 2))
        old = as_state(rows_of("state", queue, "--at", f"@{first}"))
        changes = rows_of("changes", queue, f"@{first}", f"@{last}")
        assert applied(old, changes) == as_state(rows_of("state", queue, "--at", f"@{last}"))
        seen |= {row["change_type"] for row in changes}
    assert seen == {"open", "update", "close"}


def test_queue_without_an_operator_has_no_state(tmp_path: Path) -> None:
    open_queue(tmp_path / "queue", "x", schema=pa.schema([("n", pa.int64())])).close()
    for verb in (("state",), ("changes", "@0", "@0")):
        result = run(verb[0], tmp_path / "queue", *verb[1:])
        assert result.exit_code == 2
        assert "no operator writes this queue" in result.stderr


# -- formats ----------------------------------------------------------------------------------


def test_formats_are_read_back_equal(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    grown(path)
    for verb in (("state", path), ("changes", path, 1, 6)):
        due = arrow_of(*verb)
        outputs = {form: tmp_path / f"{verb[0]}.{form.value}" for form in Format}
        for output in (o for form, o in outputs.items() if form is not Format.TABLE):
            assert run(*verb, "-o", output).exit_code == 0
        assert pq.read_table(outputs[Format.PARQUET]).equals(due)
        with pa.ipc.open_stream(outputs[Format.ARROW]) as stream:
            assert stream.read_all().equals(due)
        lines = [json.loads(line) for line in outputs[Format.JSONL].read_text().splitlines()]
        assert lines == due.to_pylist()
        assert json.loads(outputs[Format.JSON].read_text())["rows"] == lines
        flat = due.flatten().flatten()
        types = dict(zip(flat.schema.names, flat.schema.types, strict=True))
        options = pa_csv.ConvertOptions(
            column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        assert pa_csv.read_csv(outputs[Format.CSV], convert_options=options).equals(flat)
        assert run(*verb, "--format", "csv").stdout == outputs[Format.CSV].read_text()
        assert len(run(*verb).stdout.splitlines()) == len(due) + 1


def test_columns_that_a_format_lacks_are_json_or_refused(tmp_path: Path) -> None:
    kinds = {
        "list": (pa.list_(pa.int64()), [[1, None], None]),
        "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], []]),
        "binary": (pa.binary(), [b"\xff\0", None]),
        "months": (pa.month_day_nano_interval(), [pa.MonthDayNano([1, 2, 3]), None]),
    }
    schema = pa.schema([(name, kind) for name, (kind, _) in kinds.items()])
    columns = [pa.array(values, kind) for kind, values in kinds.values()]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    out = io.StringIO()
    write_batches([batch], schema, Format.CSV, out)
    first, second = csv.DictReader(io.StringIO(out.getvalue()))
    assert (json.loads(first["list"]), first["binary"]) == ([1, None], "ff00")
    assert second["binary"] == second["list"] == ""
    binary = io.TextIOWrapper(io.BytesIO())
    with pytest.raises(TypeError, match=r"parquet cannot hold these columns: list .*; try arrow"):
        write_batches([batch], schema, Format.PARQUET, binary)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([Decimal("1E+3")], pa.decimal128(5, -2)),
        pa.array([b""], pa.binary(0)),
        pa.array([2**62], pa.timestamp("s")),
    ],
    ids=["negative scale", "no bytes", "late"],
)
def test_what_parquet_cannot_hold_is_refused_by_name(column: pa.Array) -> None:
    batch = pa.RecordBatch.from_arrays([column], ["c"])
    binary = io.TextIOWrapper(io.BytesIO())
    with pytest.raises(TypeError, match=r"parquet cannot hold these columns: c .*; try arrow"):
        write_batches([batch], batch.schema, Format.PARQUET, binary)


def test_parquet_goes_through_a_pipe(tmp_path: Path) -> None:
    grown(tmp_path)
    code = "from cec_store.cli import main; main()"
    command = [sys.executable, "-c", code, "state", str(tmp_path), "--format", "parquet"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert pq.read_table(io.BytesIO(done.stdout)).equals(read_state(tmp_path))


def test_binary_formats_are_not_for_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cec_store.terminal import outputs

    grown(tmp_path)
    monkeypatch.setattr(outputs, "_is_terminal", lambda: True)
    for form in ("arrow", "parquet"):
        result = run("state", tmp_path, "--format", form)
        assert (result.exit_code, "not for a terminal" in result.stderr) == (2, True)
    assert run("state", tmp_path).exit_code == 0


# -- files, damage, wrong use -----------------------------------------------------------------


def test_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path, output = tmp_path / "checkpoint", tmp_path / "out.parquet"
    grown(path)
    output.write_text("precious")
    result = run("state", path, "-o", output)
    assert (result.exit_code, "--force" in result.stderr) == (2, True)
    assert output.read_text() == "precious"
    for segment in (path / "state" / "0" / "1").glob("*.seg"):
        made.flip(segment, segment.stat().st_size - 3)
    assert run("state", path, "-o", output, "--force").exit_code == 1
    assert output.read_text() == "precious"
    assert run("state", path, "-o", tmp_path / "new.csv").exit_code == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint", "out.parquet"]
    done = run("state", path, "--partition", 0, "-o", output, "--force")
    assert done.exit_code == 0
    assert re_rows(done.stdout) == pq.read_table(output).num_rows
    assert output.stat().st_mode & 0o077, "as the umask has it"


def test_file_that_somebody_else_makes_meanwhile_stays(tmp_path: Path) -> None:
    output = tmp_path / "out"

    def write() -> None:
        with new_file(output) as file:
            file.write(b"ours")
            output.write_text("theirs")

    with pytest.raises(FileExistsError, match="--force"):
        write()
    assert output.read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with new_file(output, replace=True) as file:
        file.write(b"ours")
    assert output.read_text() == "ours"


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, kind: str) -> None:
    """By root a device would be gone; of a link the file is meant that it names."""
    output, target = tmp_path / "out", tmp_path / "target"
    target.write_text("before")
    if kind == "link":
        output.symlink_to(target)
        with new_file(output, replace=True) as file:
            file.write(b"ours")
        assert output.is_symlink()
        assert target.read_text() == "ours"
        return
    os.mkfifo(output) if kind == "fifo" else output.mkdir()
    with pytest.raises(FileExistsError), new_file(output, replace=True):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "target"]
    assert not output.is_file()


def test_numbers_that_are_far_too_large_are_taken_or_refused(tmp_path: Path) -> None:
    grown(tmp_path)
    every = rows_of("state", tmp_path)
    assert len(rows_of("state", tmp_path, "--limit", 10**30)) == len(every)
    for arguments in (
        ("size", "--keys", 10, "--changes", 5, "--compression", "nan"),
        ("advise", tmp_path, "--extent-factor", "nan"),
    ):
        assert run(*arguments).exit_code == 2


def re_rows(text: str) -> int:
    return int(text.rsplit(": ", 1)[1].split()[0].replace(",", ""))


def test_a_full_disk_leaves_nothing_and_is_no_damage(tmp_path: Path) -> None:
    """The limit of a process stands for a disk: 40 bytes are free, and the rows need more."""
    grown(tmp_path / "checkpoint")
    code = (
        "import resource, signal, sys\n"
        "from cec_store.cli import app\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40, resource.RLIM_INFINITY))\n"
        "app(sys.argv[1:])\n"
    )
    output = tmp_path / "x.csv"
    command = [sys.executable, "-c", code, "state", str(tmp_path / "checkpoint"), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "x.csv" in done.stderr or "output" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]


def test_a_limit_counts_rows_of_all_partitions(tmp_path: Path) -> None:
    grown(tmp_path)
    every = rows_of("state", tmp_path)
    for limit in (1, len(every) - 1, len(every), len(every) + 1):
        assert len(rows_of("state", tmp_path, "--limit", limit)) == min(limit, len(every))


def test_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cec_store.terminal import outputs

    grown(tmp_path / "checkpoint")

    def interrupted(*_: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(outputs, "write_batches", interrupted)
    assert run("state", tmp_path / "checkpoint", "-o", tmp_path / "x.csv").exit_code != 0
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]


@each_format
def test_damaged_partition_is_told_and_the_others_are_shown(tmp_path: Path, format: int) -> None:
    _, states, _ = grown(tmp_path, format=format, partitions=3)
    for segment in (tmp_path / "state" / "0" / "1").glob("*.seg"):
        made.flip(segment, segment.stat().st_size - 3)
    before = made.hash_of(tmp_path)
    said = document("state", tmp_path, status=1)
    assert said["sound"] is False
    assert [bool(log["problem"]) for log in said["logs"]] == [False, True, False]
    assert "damage at byte" in said["logs"][1]["problem"]
    found = as_state(said["rows"])
    assert found == {
        (at, None, key): (row, ()) for at in (0, 2) for key, row in states[-1][at].items()
    }
    result = run("state", tmp_path, "--format", "jsonl")
    assert "operator 0 (aggregate), partition 1: " in result.stderr
    assert len(result.stdout.splitlines()) == len(found)
    assert made.hash_of(tmp_path) == before


def test_lost_partition_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    grown(tmp_path, partitions=3)
    for partition in (2, 1):
        shutil.rmtree(tmp_path / "state" / "0" / str(partition))
        said = document("state", tmp_path, status=1)
        assert [bool(log["problem"]) for log in said["logs"]] == [p >= partition for p in range(3)]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("state", "--at", 77), "1 to 6"),
        (("state", "--at", "@5"), "is an offset"),
        (("state", "--at", "1999-01-01"), "no batch that began"),
        (("state", "--at", 1, "--version", 1), "not both"),
        (("state", "--at", "0" * 16 + "-" + "0" * 16 + "-1"), "one store"),
        (("state", "--operator", 7), "nothing of operator 7"),
        (("state", "-o", "out.what"), "Its name does not say"),
        (("changes", 3, 2), "comes after"),
        (("changes", 1, 77), "1 to 6"),
        (("changes", 1), "TO"),
    ],
)
def test_wrong_use(tmp_path: Path, arguments: tuple[Any, ...], text: str) -> None:
    grown(tmp_path)
    verb, *rest = arguments
    result = run(verb, tmp_path, *rest)
    assert result.exit_code == 2, result.output
    assert text in " ".join(result.stderr.replace("│", " ").split())
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "arguments",
    [("state",), ("changes", 4, 5), ("diff", "--from", 5, "--top", 5),
     ("fork", "--batch", 4, "new"),
     ("dump", "--partition", 1, "--key", "ann", "--skip-record-metadata", "--since-version", 5)],
)  # fmt: skip
def test_text_of_a_checkpoint_is_as_pinned(tmp_path: Path, arguments: tuple[Any, ...]) -> None:
    path = tmp_path / "checkpoint"
    grown(path)
    verb, *rest = arguments
    result = run(verb, path, *(tmp_path / a if a == "new" else a for a in rest))
    assert result.exit_code == 0, result.output
    # Segments have numbers at random.
    text = re.sub(r"segment: \d+ position: \d+ size: \d+", "segment: …", result.output)
    pin(f"{verb}-checkpoint", text.replace(str(tmp_path), "…"))


def pin(name: str, text: str) -> None:
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("CEC_SNAPSHOTS") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
