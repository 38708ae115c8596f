"""The source in the JVM reads what is appended to as well, operators' queues among it."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cec_store.connectors.spark.queues.spark_types import fit, spark_schema
from cec_store.format.schema import RecordKind, RecordSchema
from cec_store.log.selection import Selection
from cec_store.opening import open_queue, queue_at
from cec_store.storage.stores.by_url import store_at
from support.spark.jvm_queues import drain, read, refused, write_sums, write_visits
from support.stores.copies import contents, in_memory
from support.stores.needed import need

need("fsspec")

SCHEMA = pa.schema([("n", pa.int64())])


def numbers(session: Any, path: Path, **options: str) -> list[int]:
    return sorted(row.n for row in read(session, path, **options).collect())


def batch(first: int, count: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(np.arange(first, first + count))], schema=SCHEMA)


WRITERS = {
    "by rows": write_sums,
    "and by the clock": partial(write_sums, timeout_us=10**15),
    "by sessions that merge": write_visits,
}


@pytest.fixture(scope="module", params=WRITERS)
def sums(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("operator") / "sums"
    WRITERS[request.param](path)
    return path


def record_schema_of(path: Path) -> RecordSchema:
    with open_queue(path) as queue:
        return queue.schema


def test_the_queue_of_an_operator_is_read_with_its_control_records(spark: Any, sums: Path) -> None:
    selection = Selection(kinds=frozenset(RecordKind), include_metadata=True, include_state=True)
    expected = pa.Table.from_batches(queue_at(sums).replay(0, selection))
    found = read(spark, sums, kinds="all", includeMetadata="true").toArrow()
    assert found.num_rows == expected.num_rows > 0
    found = found.sort_by("_offset")
    for name in ("_key", "_state", "_offset", "_timestamp"):
        column = expected.column(name)
        wanted = spark_schema(pa.schema([(name, column.type)]))
        one = fit(
            pa.record_batch([column.combine_chunks()], names=[name]), found.select([name]).schema
        )
        assert wanted.names == [name]
        assert found.column(name).to_pylist() == one.column(0).to_pylist()
    kinds = [RecordKind(number).name.lower() for number in expected.column("_kind").to_pylist()]
    assert found.column("_kind").to_pylist() == kinds
    assert {"open", "result"} <= set(kinds)
    assert ("merged" in kinds) == ("session_end" in record_schema_of(sums).data.names)
    assert kinds.count("determinant") == int(record_schema_of(sums).determinants)


def test_output_alone_is_read_by_default(spark: Any, sums: Path, tmp_path: Path) -> None:
    with open_queue(sums) as queue:
        expected = sorted(n for part in queue.replay() for n in part.column("n").to_pylist())
    assert numbers(spark, sums) == expected
    batches = drain(spark, sums, tmp_path / "c", startingOffsets="earliest")
    assert sorted(n for each in batches for n in each) == expected


def test_a_log_is_read_beside_its_writer_as_far_as_it_is_on_disk(
    spark: Any, tmp_path: Path
) -> None:
    path = tmp_path / "q"
    with open_queue(path, "x", schema=SCHEMA) as queue:
        assert numbers(spark, path) == []
        for turn in range(4):
            queue.append(batch(turn * 10, 10), sync=True)
            found = drain(spark, path, tmp_path / "c", startingOffsets="earliest")
            assert found == [list(range(turn * 10, turn * 10 + 10))]
            if turn == 1:
                queue.roll()
    assert numbers(spark, path) == list(range(40))


def test_frames_of_any_size_are_read_from_any_offset_on(spark: Any, tmp_path: Path) -> None:
    """Below and above what is read ahead, and above what a request is worth."""
    path, rng = tmp_path / "q", np.random.default_rng(7)
    sizes = (5, 20_000, 3, 300_000, 40_000, 7, 250_000, 1)
    values = rng.integers(0, 2**62, sum(sizes))  # these cannot be made smaller
    ends = np.cumsum(sizes)
    with open_queue(path, "x", schema=SCHEMA) as queue:
        for end, size in zip(ends, sizes, strict=True):
            queue.append(pa.record_batch([values[end - size : end]], schema=SCHEMA))
    for start in (0, 5, 20_004, 20_008, int(ends[3]) - 1, int(ends[5]), int(ends[-1]) - 1):
        rows = read(spark, path, startingOffsets=f'{{"0":{start}}}')
        assert sorted(rows.toArrow()["n"].to_pylist()) == sorted(values[start:].tolist())


def test_what_was_trimmed_is_lost_data(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "q"
    with open_queue(path, "x", schema=SCHEMA) as queue:
        for first in range(0, 100, 10):
            queue.append(batch(first, 10))
            queue.roll()
        assert queue.trim(55) == 50
    start = {"startingOffsets": '{"0":7}'}
    said = refused(lambda: read(spark, path, **start).count())
    assert "offset 7 is not in 50 … 100: it is trimmed" in said
    kept = {**start, "failOnDataLoss": "false"}
    assert numbers(spark, path, **kept) == list(range(50, 100))


def test_a_torn_tail_is_the_end_and_damage_is_named(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "q"
    with open_queue(path, "x", schema=SCHEMA) as queue:
        queue.append(batch(0, 10), sync=True)
        queue.append(batch(10, 10), sync=True)
    (file,) = path.glob("*.seg")
    whole = file.read_bytes()
    file.write_bytes(whole + b"CECF" + bytes(50))
    assert numbers(spark, path) == list(range(20))
    file.write_bytes(whole[:600])
    said = refused(lambda: numbers(spark, path))
    assert file.name in said
    assert "byte" in said
    file.write_bytes(whole)
    (note,) = path.glob("durable-*")
    note.unlink()
    said = refused(lambda: numbers(spark, path))
    assert f"{note.name}: damage at byte 0" in said
    assert "open the queue for append once" in said
    with open_queue(path, "a"):
        assert numbers(spark, path) == list(range(20))


def test_a_queue_that_was_made_in_a_store_is_read(spark: Any, tmp_path: Path) -> None:
    url, path = in_memory(), tmp_path / "q"

    def copy() -> list[str]:
        """All that is new in the store, as local files."""
        found = contents(store_at(url))
        for name, data in found.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
        return sorted(name for name in found if name.endswith(".commit"))

    with open_queue(url, "a", schema=SCHEMA) as queue:
        queue.append(batch(0, 10), sync=True)
        queue.append(batch(10, 10), sync=True)
        copy()
        assert numbers(spark, path) == list(range(20))
        found = drain(spark, path, tmp_path / "c", startingOffsets="earliest")
        assert found == [list(range(20))]
        queue.append(batch(20, 10), sync=True)
        copy()
        assert drain(spark, path, tmp_path / "c") == [list(range(20, 30))]
        assert queue.trim(15) == 10
        copy()
        assert numbers(spark, path) == list(range(10, 30))
    with open_queue(url, "a") as queue:  # taken over, and its end noted
        queue.append(batch(30, 10), sync=True)
        copy()
        assert numbers(spark, path) == list(range(10, 40))
        queue.append(batch(40, 10))
        queue.append(batch(50, 10), sync=True)
        *_, before, last = copy()
        assert numbers(spark, path) == list(range(10, 60))
        data = (path / last).read_bytes()
        (path / last).write_bytes(data[: data.rindex(b"CECF")])  # between two frames
        assert f"{last}: byte" in refused(lambda: numbers(spark, path))
        (path / last).write_bytes(data)
    (path / before).unlink()
    said = refused(lambda: numbers(spark, path))
    assert before in said
    assert "missing" in said
