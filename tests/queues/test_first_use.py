"""What somebody writes on the first day works, or is refused in words that help."""

import os
import time
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cec_store import NotAQueue, Position, SchemaMismatch, fork, open_queue, read_queue, read_state
from cec_store.operators import Aggregate, CountWindow
from cec_store.values import to_timestamp_us

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def table(numbers: list[int]) -> pa.Table:
    return pa.table({"n": numbers, "text": [str(n) for n in numbers]}, schema=SCHEMA)


def test_a_cursor_is_acknowledged_as_it_is(tmp_path: Path) -> None:
    with open_queue(tmp_path / "q", "x", schema=SCHEMA) as queue:
        queue.append(table([1, 2, 3]), sync=True)
        with queue.consumer("reader", start=Position(1)) as consumer:
            replay = queue.replay()
            next(replay)
            consumer.acknowledge(received=replay.cursor)
            assert (consumer.start, consumer.received, consumer.effects_saved) == (1, 3, 1)
            consumer.acknowledge(effects_saved=replay.cursor)
            assert consumer.effects_saved == 3
            consumer.acknowledge(received=np.int64(3))
        queue.roll()
        queue.append(table([4]), sync=True)
        assert queue.trim(replay.cursor) == 3


@pytest.mark.parametrize("offset", [True, -1, 2**63, 1.0, "1", Position(-1)])
def test_what_is_no_offset_is_not_acknowledged(tmp_path: Path, offset: object) -> None:
    with (
        open_queue(tmp_path / "q", "x", schema=SCHEMA) as queue,
        queue.consumer("reader") as consumer,
    ):
        with pytest.raises(ValueError, match="not an offset"):
            consumer.acknowledge(received=offset)
        with pytest.raises(ValueError, match="not an offset"):
            consumer.acknowledge(effects_saved=offset)


def test_a_table_is_one_frame(tmp_path: Path) -> None:
    chunked = pa.concat_tables([table([1]), table([]), table([2, 3])])
    with open_queue(tmp_path / "q", "x", schema=SCHEMA, timestamp_column=None) as queue:
        assert queue.append(chunked, chunked.column("n"), sync=True) == 0
        assert queue.append(chunked.schema.empty_table()) == 0
        assert queue.append(table([4]).to_batches()[0], sync=True) == 1
        assert queue.replay().read_all() == pa.concat_tables([chunked, table([4])])
        with pytest.raises(SchemaMismatch, match="RecordBatch or Table, not dict"):
            queue.append({"n": [1]})


def test_a_replay_without_rows_is_a_table_without_rows(tmp_path: Path) -> None:
    with open_queue(tmp_path / "q", "x", schema=SCHEMA) as queue:
        assert pa.Table.from_batches(queue.replay()) == SCHEMA.empty_table()
        names = queue.replay(include_metadata=True).schema.names
        assert names == [*SCHEMA.names, "_timestamp", "_kind", "_offset"]
        queue.append(table([1]), pa.array([5]), sync=True)
        assert pa.Table.from_batches(queue.replay(since=6)) == SCHEMA.empty_table()
        assert pa.Table.from_batches(queue.replay()) == table([1])


def test_a_path_may_be_anything_that_names_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "q")

    class Named:
        def __fspath__(self) -> str:
            return path

    open_queue(os.fsencode(path), "x", schema=SCHEMA).close()
    for same in (path, os.fsencode(path), Path(path), Named()):
        assert open_queue(same).folder.path == path
        assert read_queue(same).read_all().num_rows == 0


NOWHERE = {
    "": "empty", "s3:/b/q": "s3:/b/q: neither.*; write s3://b/q, or",
    "x+y://q": "x.y:// is not known", "s3://": "names no bucket", "s3://b/../q": "empty part",
    "file://there/q": "this machine", "simplecache::s3://b/q": "is not known",
}  # fmt: skip


@pytest.mark.parametrize("path", [*NOWHERE, b"", b"s3://", Path("s3://b/q")], ids=repr)
def test_a_path_that_is_empty_or_elsewhere_is_refused_by_name(
    path: str | bytes | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    match = NOWHERE[os.fsdecode(path)]
    for use in (
        lambda: open_queue(path, "a", schema=SCHEMA),
        lambda: open_queue(path),
        lambda: read_queue(path),
        lambda: read_state(path),
        lambda: fork(path, tmp_path / "new", batch=0),
    ):
        with pytest.raises(ValueError, match=match):
            use()
    assert list(tmp_path.iterdir()) == []


def test_a_colon_in_a_path_is_no_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_queue("a:b", "x", schema=SCHEMA).close()
    open_queue("n:/q", "x", schema=SCHEMA).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a:b", "n:"]


@pytest.mark.parametrize("number", [np.int64(5), np.int32(5), np.uint8(5), 5])
def test_a_moment_is_an_integer_of_any_kind(number: object, tmp_path: Path) -> None:
    assert to_timestamp_us(number) == 5
    with open_queue(tmp_path / "q", "x", schema=SCHEMA) as queue:
        queue.append(table([1, 2]), pa.array([4, 5]), sync=True)
        assert queue.replay(since=number).read_all() == table([2])


@pytest.mark.parametrize("moment", [np.float64(5), np.bool_(True), True, b"5"])
def test_other_things_are_no_moment(moment: object) -> None:
    with pytest.raises(TypeError, match="a moment is"):
        to_timestamp_us(moment)


DAY_US = 86_400_000_000


@pytest.mark.parametrize(
    ("moment", "ago_us"),
    [("now", 0), ("-1h", 3_600_000_000), ("-90s", 90_000_000), ("-2min", 120_000_000),
     ("-1w", 7 * DAY_US), ("+1d", -DAY_US), (" -3M ", 180_000_000)],
)  # fmt: skip
def test_a_moment_may_be_relative_to_now(moment: str, ago_us: int) -> None:
    before = to_timestamp_us(moment)
    now = time.time_ns() // 1000
    assert before + ago_us <= now <= to_timestamp_us(moment) + ago_us


def test_days_are_those_of_utc() -> None:
    today, now = to_timestamp_us("today"), to_timestamp_us("now")
    assert today == now // DAY_US * DAY_US
    assert to_timestamp_us("yesterday") in (today - DAY_US, today)  # midnight may have passed
    assert to_timestamp_us(date(1970, 1, 3)) == 2 * DAY_US


def test_relative_moments_select_rows(tmp_path: Path) -> None:
    with open_queue(tmp_path / "q", "x", schema=SCHEMA) as queue:
        now_us = time.time_ns() // 1000
        queue.append(table([1, 2]), pa.array([now_us - 2 * DAY_US, now_us]), sync=True)
    assert read_queue(tmp_path / "q", since="-1d").read_all() == table([2])
    assert read_queue(tmp_path / "q", until="-1d").read_all() == table([1])


@pytest.mark.parametrize("function", ["avg", "sum", "min"])
def test_an_aggregate_of_a_string_is_called_by_its_name(function: str) -> None:
    match = f"out: cannot take {function} of column 'text' of type string"
    with pytest.raises(ValueError, match=match):
        Aggregate(
            group_by=["n"], aggregates={"out": (function, "text")}, window=CountWindow(2),
            input_schema=SCHEMA,
        )  # fmt: skip


@pytest.mark.parametrize("name", ["mine.txt", "00000000000000000007.seg"])
@pytest.mark.parametrize("mode", ["a", "x"])
def test_a_refused_opening_leaves_nothing_in_a_strangers_folder(
    tmp_path: Path, name: str, mode: str
) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(Exception, match=r"not empty|segments without"):
        open_queue(tmp_path, mode, schema=SCHEMA)
    with pytest.raises(NotAQueue):
        open_queue(tmp_path, "r")
    assert [path.name for path in tmp_path.iterdir()] == [name]
