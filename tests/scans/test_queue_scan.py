"""A queue as a dataset: read any number of times, by any reader of Arrow, and of no other queue."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from cec_store import NotAQueue, QueueReplaced, QueueScan, SchemaMismatch, open_queue, scan_queue
from cec_store.scans.filters import needed_columns
from support.contract.layouts import Layout, every_layout, table


def scan_of(layout: Layout, **more: object) -> QueueScan:
    return scan_queue(layout.url, storage_options=layout.options, **more)  # type: ignore[arg-type]


@every_layout()
def test_each_scan_reads_as_far_as_the_queue_reaches_then(layout: Layout) -> None:
    with layout.open() as queue:
        queue.append([1, 2])
        scan = scan_of(layout)
        assert [scan.to_table().num_rows, scan.count_rows(), pa.table(scan).num_rows] == [2, 2, 2]
        queue.append([3])
        assert sorted(pa.table(scan)["n"].to_pylist()) == [1, 2, 3]
        assert scan.head(1).num_rows == 1


@every_layout()
def test_a_scan_of_no_rows_has_the_columns(layout: Layout) -> None:
    layout.open().close()
    scan = scan_of(layout)
    assert scan.to_table().schema == scan.schema
    assert pa.table(scan).num_rows == scan.count_rows() == 0


@every_layout()
def test_moments_columns_and_filters_apply_together(layout: Layout) -> None:
    with layout.open() as queue:
        queue.fill(6)
    scan = scan_of(layout, since=2000, until=9000, columns=["n"])
    assert scan.schema.names == ["n"]
    assert sorted(scan.to_table()["n"].to_pylist()) == [*range(2, 9)]
    odd = scan.filter(pc.bit_wise_and(pc.field("n"), 1) == 1).filter(pc.field("n") > 4)
    assert sorted(odd.to_table()["n"].to_pylist()) == sorted(pa.table(odd)["n"].to_pylist())
    assert sorted(odd.to_table()["n"].to_pylist()) == [5, 7]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), pa.array([1.5, 3.0])),
        (pa.int64(), pa.array([3], pa.int8())),
        (pa.timestamp("s"), pa.array([3 * 10**9], pa.timestamp("ns"))),
        (pa.timestamp("us"), pa.array([3 * 10**3], pa.timestamp("ns"))),
    ],
)
def test_literals_of_another_type_than_the_times_select_as_in_a_dataset(
    tmp_path: Path, kind: pa.DataType, values: pa.Array
) -> None:
    rows = pa.table({"at": pa.array(range(6)).cast(kind)})
    with open_queue(tmp_path / "q", "a", schema=rows.schema, timestamp_column="at") as queue:
        queue.append(rows)
    time = pc.field("at")
    for chosen in (time.isin(values), time >= values[-1], time < values[-1]):
        due = ds.dataset(rows).to_table(filter=chosen)
        assert scan_queue(tmp_path / "q").to_table(filter=chosen).equals(due)


@every_layout(among=("plain", "partitions"))
def test_another_queue_at_the_path_is_refused_by_name(layout: Layout) -> None:
    layout.open().close()
    scan = scan_of(layout)
    layout.remove()
    with pytest.raises(NotAQueue):
        scan.to_table()
    layout.open().close()
    with pytest.raises(QueueReplaced, match=layout.url):
        scan.to_table()


@pytest.fixture
def scan(tmp_path: Path) -> QueueScan:
    with open_queue(tmp_path / "queue", "a", schema=table([]).schema) as queue:
        queue.append(table([4, 2, 9]), sync=True)
    return scan_queue(tmp_path / "queue")


def test_duckdb_reads_it_by_its_name(scan: QueueScan) -> None:
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.sql("SELECT sum(n) FROM scan").fetchall() == [(15,)]
    assert duckdb.sql("SELECT min(n) FROM scan").fetchall() == [(2,)]
    assert duckdb.sql("SELECT n FROM scan LIMIT 1").fetchall() == [(4,)]


def test_polars_reads_it(scan: QueueScan) -> None:
    polars = pytest.importorskip("polars")
    lazy = polars.scan_pyarrow_dataset(scan)
    assert lazy.filter(polars.col("n") > 3).collect()["n"].to_list() == [4, 9]
    assert polars.DataFrame(scan)["n"].to_list() == [4, 2, 9]


def test_pandas_reads_it(scan: QueueScan) -> None:
    pytest.importorskip("pandas")
    assert scan.to_table().to_pandas()["n"].tolist() == [4, 2, 9]


def test_a_scan_is_pickled(scan: QueueScan) -> None:
    few = pickle.loads(pickle.dumps(scan.filter(pc.field("n") > 3)))  # noqa: S301 - our own bytes
    assert few.to_table()["n"].to_pylist() == [4, 9]


def test_what_a_dataset_has_is_there(scan: QueueScan) -> None:
    assert scan.take([2, 0])["n"].to_pylist() == [9, 4]
    assert scan.sort_by("n").to_table()["n"].to_pylist() == [2, 4, 9]
    names = pa.table({"n": [9, 2], "name": ["nine", "two"]})
    joined = scan.join(ds.dataset(names), "n", join_type="inner").to_table()
    assert {*joined["name"].to_pylist()} == {"nine", "two"}
    for call in (scan.get_fragments, lambda: scan.replace_schema(scan.schema)):
        with pytest.raises(NotImplementedError, match="queue"):
            call()
    assert "queue: n, at" in repr(scan)


def test_no_method_of_the_base_class_is_left_to_its_missing_dataset() -> None:
    by_scanner = {"head", "to_batches", "to_table"}
    about_options = {"_scan_options", "_scanner_options"}
    names = {name for name in dir(ds.Dataset) if not name.startswith("__")}
    assert {"scanner", "schema", "count_rows"} <= names
    assert names - {*vars(QueueScan)} <= by_scanner | about_options


def test_columns_that_are_not_there_are_refused(scan: QueueScan, tmp_path: Path) -> None:
    for call in (
        lambda: scan.to_table(columns=["m"]),
        lambda: scan.to_table(filter=pc.field("m") > 1),
        lambda: scan.filter(pc.field("m") > 1),
    ):
        with pytest.raises(pa.ArrowInvalid, match="m"):
            call()
    with pytest.raises(SchemaMismatch, match="m"):
        scan_queue(tmp_path / "queue", columns=["m"])


@pytest.mark.parametrize(
    ("columns", "expression", "needed"),
    [
        (None, None, ["a", "an", "b c"]),
        ([], None, []),
        (["an"], None, ["an"]),
        (["b c"], pc.field("a") > 1, ["a", "b c"]),
        ([], (pc.field("an") > 1) & (pc.field("b c") == "a"), ["an", "b c"]),
        ({"x": pc.field("a") + pc.field("an")}, None, ["a", "an"]),
        ([], pc.field(1) > 1, ["a", "an", "b c"]),
        ([], pc.scalar(True), []),
    ],
)
def test_columns_of_an_expression(
    columns: list[str] | None, expression: pc.Expression | None, needed: list[str]
) -> None:
    schema = pa.schema([("a", pa.int64()), ("an", pa.int64()), ("b c", pa.string())])
    assert needed_columns(columns, expression, schema) == needed


def test_a_process_ends_with_a_scan_that_was_not_read_to_its_end(tmp_path: Path) -> None:
    # A thread that reads ahead would wait for Python, and Python for it.
    with open_queue(tmp_path / "queue", "a", schema=table([]).schema) as queue:
        for number in range(200):
            queue.append(table([number] * 1000))
    code = """if True:
        import sys
        from cec_store import scan_queue

        scan = scan_queue(sys.argv[1])
        kept = [scan.to_reader(), scan.scanner().to_reader(), iter(scan.to_batches())]
        print([next(reader).num_rows for reader in kept])
    """
    command = [sys.executable, "-c", code, str(tmp_path / "queue")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[1000, 1000, 1000]\n"
