"""State as tables, without Spark: which version is read, what is in it, and what is refused."""

import json
import shutil
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

from cec_store import (
    CorruptLog,
    NotACheckpoint,
    NotAQueue,
    OutOfRange,
    SchemaMismatch,
    UnsupportedVersion,
    read_changes,
    read_state,
)
from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from support.places.made_checkpoints import (
    KEY,
    START_MS,
    VALUE,
    MadeCheckpoint,
    Model,
    Rows,
    grown,
    schema_file,
)

each_format = pytest.mark.parametrize("format", [1, 2])


def read(checkpoint: MadeCheckpoint, **how: Any) -> Model:
    table = read_state(checkpoint.path, **how)
    assert table.schema == pa.schema([("key", KEY), ("value", VALUE), ("partition_id", pa.int32())])
    found: Model = {at: {} for at in range(checkpoint.partitions)}
    for row in table.to_pylist():
        key = tuple(row["key"].values())
        assert key not in found[row["partition_id"]]
        found[row["partition_id"]][key] = tuple(row["value"].values())
    return found


@each_format
def test_state_at_every_version_is_what_the_batches_left(tmp_path: Path, format: int) -> None:
    made, states, _ = grown(tmp_path, format=format)
    assert any(states[-1].values())
    for version, state in enumerate(states, 1):
        assert read(made, version=version) == state
    assert read(made) == states[-1]


@each_format
def test_keys_of_prefix_scans_are_put_together_again(tmp_path: Path, format: int) -> None:
    made, states, _ = grown(tmp_path, format=format, prefix=1)
    assert any(states[-1].values())
    assert read(made) == states[-1]


def test_families_that_no_operator_has_are_left_out(tmp_path: Path) -> None:
    beside = {(0, b"timers"): b"\2\0", (2, b"no row"): b"nor this"}
    made, states, changes = grown(tmp_path, beside=beside)
    assert read(made) == states[-1]
    rows = [len(each) for batch in changes for each in batch]
    assert read_changes(made.path, 1, 6).num_rows == sum(rows)


def test_one_partition_alone(tmp_path: Path) -> None:
    made, states, _ = grown(tmp_path)
    assert read(made, partition=1) == {**states[-1], 0: {}}
    with pytest.raises(ValueError, match="no partition 2; there are 2"):
        read_state(made.path, partition=2)


def test_state_that_was_not_committed_is_not_read(tmp_path: Path) -> None:
    made = MadeCheckpoint(tmp_path, KEY, VALUE, partitions=1)
    made.batch({("ann", 1): (1, "a")})
    made.batch({("bob", 1): (2, "b")}, commits=False)
    made.close()
    assert read(made) == {0: {("ann", 1): (1, "a")}}
    with pytest.raises(OutOfRange, match="version 2 is not among those committed and kept: 1 to 1"):
        read_state(made.path, version=2)


def test_moment_means_the_newest_batch_that_had_begun(tmp_path: Path) -> None:
    made, states, _ = grown(tmp_path)
    start = datetime.fromtimestamp(START_MS / 1000, timezone.utc)
    for batch, state in enumerate(states):
        began = start + timedelta(minutes=batch)
        assert read(made, at=began) == read(made, at=began + timedelta(seconds=59)) == state
    assert read(made, at=(START_MS + 60_000) * 1000) == states[1]
    with pytest.raises(OutOfRange, match="the earliest is batch 0, at 2023-11-14T22:13:20Z"):
        read_state(made.path, at=start - timedelta(microseconds=1))
    with pytest.raises(ValueError, match="version or at"):
        read_state(made.path, version=1, at=start)


def test_versions_that_are_not_kept_are_refused(tmp_path: Path) -> None:
    made, _, _ = grown(tmp_path)
    for folder in ("offsets", "commits"):
        for batch in (0, 1):
            (made.path / folder / str(batch)).unlink()
    for version in (-1, 0, 1, 2, 7):
        with pytest.raises(OutOfRange, match=f"version {version} is not among .*: 3 to 6"):
            read_state(made.path, version=version)


@each_format
def test_beside_a_query_that_runs_whole_versions_are_read(tmp_path: Path, format: int) -> None:
    made = MadeCheckpoint(tmp_path, KEY, VALUE, format=format)
    versions = 40

    def go_on() -> None:
        for version in range(2, versions + 1):
            made.batch({("ann", version): (version, "a")}, {("bob", 0): (version, "b")})
            if version % 7 == 0:
                made.roll()

    made.batch({("ann", 1): (1, "a")}, {("bob", 0): (1, "b")})
    writer = Thread(target=go_on)
    writer.start()
    seen = {0}
    while writer.is_alive():
        state = read(made)
        version = len(state[0])
        assert state[1] == {("bob", 0): (version, "b")}
        assert version >= max(seen)
        seen.add(version)
        assert read_changes(made.path, 1, version).num_rows == 2 * version
    writer.join()
    made.close()
    assert len(seen) > 2
    assert len(read(made)[0]) == versions


@each_format
@pytest.mark.parametrize("partition", [None, 1])
def test_the_newest_state_is_read_although_its_batch_is_forgotten_meanwhile(
    tmp_path: Path, format: int, partition: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a slow reader of many partitions, beside a query that keeps few batches."""
    made, states, _ = grown(tmp_path, format=format)
    real, forgotten = Checkpoint.unique_id, list[int]()

    def forget(checkpoint: Checkpoint, batch: int, *place: Any) -> str | None:
        if not forgotten:
            forgotten.append(batch)
            made.roll()
            made.batch({("ann", 7): (7, "a")}, {("bob", 7): (7, "b")})
            for log in ("offsets", "commits"):
                for number in range(batch + 1):
                    (made.path / log / str(number)).unlink(missing_ok=True)
        return real(checkpoint, batch, *place)

    monkeypatch.setattr(Checkpoint, "unique_id", forget)
    due = states[-1] if partition is None else {**states[-1], 0: {}}
    due = {at: dict(rows) for at, rows in due.items()}
    due[1]["bob", 7] = (7, "b")
    if partition is None:
        due[0]["ann", 7] = (7, "a")
    assert read(made, partition=partition) == due
    assert forgotten == [5]
    forgotten.clear()
    with pytest.raises(OutOfRange, match="batch 6 is not kept"):
        read_state(made.path, version=7)
    made.close()


def test_attempt_that_counts_is_the_last_or_the_one_that_spark_named(tmp_path: Path) -> None:
    for format, due in ((1, (9, "late")), (2, (1, "a"))):
        made = MadeCheckpoint(tmp_path / str(format), KEY, VALUE, partitions=1, format=format)
        made.batch({("ann", 1): (1, "a")})
        made.attempt(0, {("ann", 1): (9, "late")})
        made.close()
        assert read(made) == {0: {("ann", 1): due}}, f"checkpoint format {format}"


def test_the_operator_is_asked_for_where_several_keep_state(tmp_path: Path) -> None:
    made = MadeCheckpoint(tmp_path / "c", KEY, VALUE, partitions=1)
    made.batch({("ann", 1): (1, "a")})
    made.close()
    only = read_state(made.path)
    shutil.copytree(tmp_path / "c" / "state" / "0", tmp_path / "c" / "state" / "1")
    asks = r"several operators.*operator=0 \(aggregate\), operator=1 \(aggregate\)"
    with pytest.raises(ValueError, match=asks):
        read_state(made.path)
    with pytest.raises(ValueError, match=asks):
        read_changes(made.path, 1, 1)
    assert read_state(made.path, operator=1) == only == read_state(made.path, operator=0)


def test_columns_of_one_name_are_told_apart(tmp_path: Path) -> None:
    value = pa.struct([("sum", pa.int64()), ("sum_2", pa.int64()), ("total", pa.int64())])
    made = MadeCheckpoint(tmp_path, KEY, value, partitions=1)
    twice = [{"name": n, "type": "long", "nullable": True} for n in ("sum", "sum_2", "sum")]
    key = json.loads(schema_file_text(made))
    made.put_schema(json.dumps(key), json.dumps({"type": "struct", "fields": twice}))
    made.batch({("ann", 1): (1, 2, 3)})
    made.close()
    [row] = read_state(made.path).to_pylist()
    assert row["value"] == {"sum": 1, "sum_2": 2, "sum_3": 3}


def schema_file_text(made: MadeCheckpoint) -> str:
    data = (made.folder(0) / "_metadata" / "schema").read_bytes()
    size = int.from_bytes(data[8:10], "big")
    return data[10 : 10 + size].decode()


# -- what batches changed ---------------------------------------------------------------------


@each_format
def test_changes_are_those_that_the_batches_made(tmp_path: Path, format: int) -> None:
    made, _, changes = grown(tmp_path, format=format)
    for first, last in ((1, 6), (2, 4), (6, 6)):
        table = read_changes(made.path, first, last)
        assert table.schema.names == ["batch_id", "change_type", "key", "value", "partition_id"]
        due = sum(len(each) for batch in changes[first - 1 : last] for each in batch)
        assert table.num_rows == due
        found: dict[int, list[Rows]] = {at: [{}, {}] for at in range(first - 1, last)}
        for row in table.to_pylist():
            value = None if row["value"] is None else tuple(row["value"].values())
            assert row["change_type"] == ("delete" if value is None else "update")
            found[row["batch_id"]][row["partition_id"]][tuple(row["key"].values())] = value
        assert [found[at] for at in sorted(found)] == changes[first - 1 : last]
    assert {"delete", "update"} == set(read_changes(made.path, 1, 6)["change_type"].to_pylist())


def test_changes_that_are_not_kept_any_more_are_refused(tmp_path: Path) -> None:
    made = MadeCheckpoint(tmp_path, KEY, VALUE, partitions=1)
    made.batch({("ann", 1): (1, "a")})
    made.roll()
    made.batch({("ann", 1): (2, "b")})
    made.batch({("ann", 1): (3, "c")})
    made.close()
    assert read_changes(made.path, 1, 3).num_rows == 3
    min(made.folder(0).glob("*.seg")).unlink()
    assert read(made) == {0: {("ann", 1): (3, "c")}}
    assert read_changes(made.path, 2, 3)["batch_id"].to_pylist() == [1, 2]
    with pytest.raises(OutOfRange, match="changes are kept from version 2 on, not those of 1"):
        read_changes(made.path, 1, 3)


@pytest.mark.parametrize(("first", "last"), [(0, 2), (3, 2), (-1, -1)])
def test_no_range_of_versions_is_refused(tmp_path: Path, first: int, last: int) -> None:
    made, _, _ = grown(tmp_path)
    with pytest.raises(ValueError, match="no range of versions"):
        read_changes(made.path, first, last)
    with pytest.raises(OutOfRange, match="1 to 6"):
        read_changes(made.path, 1, 7)
    with pytest.raises(ValueError, match="no store 'left'"):
        read_changes(made.path, 1, 2, store="left")


# -- Spark's schemas --------------------------------------------------------------------------

TYPES = {
    "void": pa.null(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "float": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal(38,10)": pa.decimal128(38, 10),
    "interval day to second": pa.duration("us"),
    "interval hour": pa.duration("us"),
    "interval year to month": pa.month_day_nano_interval(),
    "time(6)": pa.time64("ns"),
    '{"type":"array","elementType":"long","containsNull":true}': pa.list_(
        pa.field("element", pa.int64())
    ),
    '{"type":"map","keyType":"string","valueType":"boolean"}': pa.map_(pa.string(), pa.bool_()),
}


def one_column(kind: str, name: str = "c") -> str:
    said = json.loads(kind) if kind.startswith("{") else kind
    return json.dumps(
        {"type": "struct", "fields": [{"name": name, "type": said}]}, ensure_ascii=False
    )


@pytest.mark.parametrize(("said", "kind"), TYPES.items())
def test_each_type_of_spark_has_its_arrow_type(
    tmp_path: Path, said: str, kind: pa.DataType
) -> None:
    made = MadeCheckpoint(tmp_path, KEY, VALUE)
    made.batch()
    made.close()
    made.put_schema(one_column("string"), one_column(said))
    assert read_state(made.path).schema.field("value").type == pa.struct([("c", kind)])


@pytest.mark.parametrize("how", [{"version": 1}, {"version": 2}, {"version": 2, "piece": 7}])
def test_schema_is_read_in_each_of_sparks_formats(tmp_path: Path, how: dict[str, int]) -> None:
    made = MadeCheckpoint(tmp_path, KEY, VALUE)
    made.batch()
    made.close()
    made.put_schema(one_column("string", "ключ 🚀"), one_column("long", "a\0b"), **how)
    table = read_state(made.path)
    assert table.schema.field("key").type[0].name == "ключ 🚀"
    assert table.schema.field("value").type[0].name == "a\0b"


@pytest.mark.parametrize(
    "said",
    ["variant", "interval", "geometry(4326)", '{"type":"udt","class":"a.B","sqlType":"long"}'],
)
def test_type_that_is_not_supported_is_refused_before_anything_is_read(
    tmp_path: Path, said: str
) -> None:
    made, _, _ = grown(tmp_path)
    for path in made.path.rglob("*.seg"):
        path.write_bytes(b"nothing of this may be looked at")
    array = json.dumps({"type": "array", "elementType": json.loads(one_column(said))})
    schema = made.put_schema(one_column("string"), one_column(array))
    with pytest.raises(
        SchemaMismatch, match=r"column value\.c\[\]\.c is of Spark's type"
    ) as refused:
        read_state(made.path)
    assert str(schema) in str(refused.value)


def test_schema_that_is_cut_anywhere_is_damage(tmp_path: Path) -> None:
    made, _, _ = grown(tmp_path)
    whole = (made.folder(0) / "_metadata" / "schema").read_bytes()
    for size in range(len(whole)):
        path = made.put("0/_metadata/schema", whole[:size])
        with pytest.raises(CorruptLog) as refused:
            read_state(made.path)
        assert refused.value.path == str(path)
        assert refused.value.byte <= size


@pytest.mark.parametrize(
    ("file", "data", "error"),
    [
        ("0/_metadata/schema", None, CorruptLog),
        ("0/_metadata/schema", schema_file("{}", "{}"), CorruptLog),
        ("0/_metadata/schema", schema_file('"long"', '"long"'), CorruptLog),
        ("0/_metadata/schema", schema_file("[" * 50_000, "{}"), CorruptLog),
        ("0/_metadata/schema", b"\0\2v3", UnsupportedVersion),
        ("_metadata/metadata", None, CorruptLog),
        ("_metadata/metadata", b"v1\n{}", CorruptLog),
        ("_metadata/metadata", b"v1\n{", CorruptLog),
        ("_metadata/metadata", b"v2\n{}", UnsupportedVersion),
    ],
)
def test_what_spark_notes_of_the_state_is_refused_where_it_is_not_what_spark_writes(
    tmp_path: Path, file: str, data: bytes | None, error: type[Exception]
) -> None:
    made, _, _ = grown(tmp_path)
    path = made.path / "state" / "0" / file
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)
    with pytest.raises(error) as refused:
        read_state(made.path)
    assert str(path) in str(refused.value)


# -- damage, and what is not there ------------------------------------------------------------


def test_rows_that_are_not_of_the_schema_are_refused_by_name(tmp_path: Path) -> None:
    made, _, _ = grown(tmp_path)
    fields = [{"name": f"c{at}", "type": "string"} for at in range(40)]
    schema = made.put_schema(one_column("string"), json.dumps({"type": "struct", "fields": fields}))
    with pytest.raises(SchemaMismatch, match="too short for its fields") as refused:
        read_state(made.path)
    assert str(schema) in str(refused.value)
    assert str(made.folder(0)) in str(refused.value)


def test_damaged_log_is_refused_with_its_file(tmp_path: Path) -> None:
    made, _, _ = grown(tmp_path)
    [path] = made.folder(1).glob("*.seg")
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    assert read_state(made.path, partition=0).num_rows > 0
    for call in (read_state, lambda where: read_changes(where, 1, 6)):
        with pytest.raises(CorruptLog) as refused:
            call(made.path)
        assert refused.value.path == str(path)


@each_format
def test_lost_partition_is_refused_and_not_taken_for_an_empty_one(
    tmp_path: Path, format: int
) -> None:
    made, _, _ = grown(tmp_path, format=format)
    shutil.rmtree(made.folder(1))
    with pytest.raises(NotAQueue, match="no state log here") as refused:
        read_state(made.path)
    assert str(made.folder(1)) in str(refused.value)


def test_limit_has_one_partition_however_many_spark_notes(tmp_path: Path) -> None:
    key = pa.struct([("key", pa.null())])
    made = MadeCheckpoint(tmp_path, key, VALUE, operator="globalLimit")
    made.batch({(None,): (7, "x")})
    made.close()
    shutil.rmtree(made.folder(1))
    [row] = read_state(made.path).to_pylist()
    assert row["value"] == {"count": 7, "last": "x"}


def test_lost_partition_of_an_operator_with_a_void_key_is_missed(tmp_path: Path) -> None:
    """Spark hashes a null, so that the rows may be in any partition."""
    made = MadeCheckpoint(tmp_path, pa.struct([("key", pa.null())]), VALUE, operator="dedupe")
    made.batch({}, {(None,): (7, "x")})
    made.close()
    [row] = read_state(made.path).to_pylist()
    assert row["partition_id"] == 1
    shutil.rmtree(made.folder(1))
    with pytest.raises(NotAQueue, match="no state log here"):
        read_state(made.path)


def test_state_of_sparks_own_provider_is_said_to_be_that(tmp_path: Path) -> None:
    made = MadeCheckpoint(tmp_path / "c", KEY, VALUE)
    made.batch({("ann", 1): (1, "")})
    rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    about = {
        "batchTimestampMs": START_MS,
        "conf": {"spark.sql.streaming.stateStore.providerClass": rocksdb},
    }
    (made.path / "offsets" / "0").write_text(f"v1\n{json.dumps(about)}\n0")
    for read_it in (read_state, lambda path: read_changes(path, 1, 1)):
        with pytest.raises(NotAQueue, match=r"kept by .*RocksDBStateStoreProvider.*spark.adopt"):
            read_it(made.path)


def test_what_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    made, _, _ = grown(tmp_path / "made")
    with pytest.raises(NotACheckpoint, match="no checkpoint of a Spark query"):
        read_state(tmp_path)
    with pytest.raises(NotAQueue, match="no such stateful operator"):
        read_state(made.path, operator=1)
    for path in made.path.rglob("*.seg"):
        path.rename(path.with_suffix(".delta"))
    with pytest.raises(NotAQueue, match="no state log here"):
        read_state(made.path)


def test_reading_imports_no_spark_and_writes_nothing(tmp_path: Path) -> None:
    made, _, _ = grown(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))}
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from cec_store import read_changes, read_state\n"
        f"assert read_state({str(made.path)!r}).num_rows\n"
        f"assert read_changes({str(made.path)!r}, 1, 6).num_rows\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
    assert {path: path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))} == before
