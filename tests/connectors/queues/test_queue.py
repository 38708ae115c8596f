"""Queues in Spark: what is written is read, from any offset or moment, as a stream or a batch.

The contract of the source and sink of the jar, and of those in Python.
"""

import re
import shutil
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cec_store.connectors import spark as cec_spark
from cec_store.opening import open_queue, queue_at, read_queue
from support.runs.minors import needs_times
from support.spark.jvm_queues import write_sums
from support.spark.jvm_sink import rubbish
from support.vectors.limit_tables import Tables

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROWS = 3000
SPARK_TYPES = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
    pa.decimal128(1, 0), pa.decimal128(18, 3), pa.decimal128(38, 10), pa.date32(),
    pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.duration("us"), pa.string(), pa.binary(),
]  # fmt: skip


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    cec_spark.register(spark)
    return spark


@pytest.fixture(scope="module", params=["cec", "cec_python"])
def form(request: pytest.FixtureRequest) -> str:
    """What `format()` takes: the source and sink of the jar, or those in Python."""
    return str(request.param)


def frame(session: Any, first: int = 0, count: int = ROWS, parts: int = 2) -> Any:
    rows = session.range(first, first + count, 1, parts)
    return rows.selectExpr(
        "id as n", "cast(id % 7 as string) as item",
        f"timestamp '{START:%Y-%m-%d %H:%M:%S}' + make_dt_interval(0, 0, 0, id) as at",
    )  # fmt: skip


@pytest.fixture(scope="module")
def written(session: Any, form: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions, three writes, a row a second: times of a partition rise."""
    path = tmp_path_factory.mktemp("written") / "trades"
    for first in range(0, 3 * ROWS, ROWS):
        rows = frame(session, first).write.format(form).option("timestampColumn", "at")
        rows.option("keyColumns", "item").mode("append").save(str(path))
    return path


def numbers(rows: Any) -> list[int]:
    return sorted(row.n for row in rows.select("n").collect())


def read(session: Any, form: str, path: Path, **options: str) -> Any:
    return session.read.format(form).options(**options).load(str(path))


def drain(session: Any, form: str, path: Path, checkpoint: Path, **options: str) -> list[list[int]]:
    """The rows of each batch until the stream has all."""
    batches: list[list[int]] = []
    query = (
        session.readStream.format(form).options(**options).load(str(path))
        .writeStream.foreachBatch(lambda rows, _: batches.append(numbers(rows)))
        .option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    return [batch for batch in batches if batch]


# -- what is written is read -------------------------------------------------------------------


def test_all_that_was_written_is_read(session: Any, form: str, written: Path) -> None:
    rows = read(session, form, written)
    assert rows.columns == ["n", "item", "at"]
    assert numbers(rows) == list(range(3 * ROWS))
    expected = session.createDataFrame(frame(session, 0, 3 * ROWS).collect())
    assert rows.exceptAll(expected).count() == 0


def test_rows_keep_their_order_within_a_partition(session: Any, form: str, written: Path) -> None:
    rows = read(session, form, written, includeMetadata="true").collect()
    for number in (0, 1):
        own = sorted((r for r in rows if r._partition == number), key=lambda r: r._offset)
        assert [r._offset for r in own] == list(range(len(own)))
        assert [r.n for r in own] == sorted(r.n for r in own)
        assert {r._kind for r in own} == {"data"}
        assert all(r._timestamp == r.at for r in own)


def test_a_stream_writes_what_it_read_batch_by_batch(
    session: Any, form: str, tmp_path: Path
) -> None:
    source, sink, checkpoint = (str(tmp_path / name) for name in ("in", "out", "checkpoint"))

    def run() -> None:
        query = (
            session.readStream.schema("n LONG").parquet(source)
            .writeStream.format(form).option("checkpointLocation", checkpoint).start(sink)
        )  # fmt: skip
        query.processAllAvailable()
        query.stop()

    for batch in range(3):
        session.range(batch * 100, batch * 100 + 100, 1, 2).toDF("n").write.mode("append").parquet(
            source
        )
        run()
    assert numbers(read(session, form, tmp_path / "out")) == list(range(300))
    queue = queue_at(sink)
    assert sum(queue.ends().values()) == 300
    assert rubbish(tmp_path / "out") == set()


def test_every_type_comes_back_as_it_was(session: Any, form: str, tmp_path: Path) -> None:
    rows = session.sql(
        """
        SELECT * FROM VALUES
          (true, 1Y, 2S, 3, 4L, 1.5F, 2.5D, 'ä', X'00ff', DATE'2026-01-02',
           TIMESTAMP'2026-01-02 03:04:05.678901', TIMESTAMP_NTZ'2026-01-02 03:04:05.678901',
           12.34BD, 1234567890123456789012345678.123456789BD, INTERVAL '1 02:03:04.5' DAY TO SECOND,
           ARRAY(1, NULL), MAP('a', 1L), NAMED_STRUCT('x', 1, 'y', ARRAY('z'))),
          (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           NULL, NULL, NULL, NULL)
        """
    )
    path = tmp_path / "types"
    rows.write.format(form).mode("append").save(str(path))
    found = read(session, form, path)
    assert found.schema.simpleString() == rows.schema.simpleString()
    by_null = lambda row: row[0] is None  # noqa: E731
    assert sorted(found.collect(), key=by_null) == sorted(rows.collect(), key=by_null)


@pytest.mark.parametrize("count", [1, 4000])
def test_bytes_of_strings_are_kept_as_they_are(
    session: Any, form: str, count: int, tmp_path: Path
) -> None:
    few, many = "cast(unhex('636166e9') as string)", "cast(unhex(hex(-id - 1)) as string)"
    rows = session.range(count).selectExpr(
        "id", f"{few} as few", f"{many} as many", f"array({few}, {many}) as list",
        f"named_struct('s', {many}) as pair", f"map({many}, {few}) as map",
    )  # fmt: skip
    shown = [
        "hex(few)", "hex(many)", "hex(list[1])", "hex(pair.s)", "hex(map_keys(map)[0])",
        "length(few)",
    ]  # fmt: skip
    path = tmp_path / "q"
    rows.write.format(form).mode("append").save(str(path))
    found = read(session, form, path)
    due = rows.orderBy("id").selectExpr("id", *shown).collect()
    assert found.orderBy("id").selectExpr("id", *shown).collect() == due
    assert due[0][1:3] == ("636166E9", "FF" * 8)
    assert found.where(f"many = {many}").count() == count
    assert found.groupBy("few").count().collect()[0]["count"] == count
    table = read_queue(path).read_all().sort_by("id")
    texts = table.column("few").cast(pa.binary()).to_pylist()
    assert texts == [b"caf\xe9"] * count
    parquet = tmp_path / "parquet"
    rows.write.parquet(str(parquet))
    theirs = session.read.parquet(str(parquet)).orderBy("id").selectExpr(*shown).collect()
    assert theirs == found.orderBy("id").selectExpr(*shown).collect()


@pytest.mark.parametrize("rows", [20, 3000])
def test_values_at_their_limits_come_back_through_both_languages(
    session: Any,
    form: str,
    rows: int,
    tmp_path: Path,
    crash_count: Callable[[int, int], int],
) -> None:
    for seed in range(crash_count(2, 250)):
        tables = Tables(seed, SPARK_TYPES)
        schema = tables.schema()
        drawn = [tables.table(schema, rows) for _ in range(crash_count(2, 20))]
        due = pa.concat_tables(drawn)
        due = due.append_column("n", pa.array(range(due.num_rows)))
        with open_queue(tmp_path / f"in-{seed}", "a", schema=due.schema) as queue:
            for first in range(0, due.num_rows, rows):
                queue.append(due.slice(first, rows))
        out = tmp_path / f"out-{seed}"
        read(session, form, tmp_path / f"in-{seed}").write.format(form).mode("append").save(
            str(out)
        )
        found = read_queue(out).read_all().sort_by("n")
        for name in due.schema.names:
            column = found.column(name).cast(due.schema.field(name).type)
            assert column.equals(due.column(name)), (seed, due.schema.field(name))


@needs_times
def test_times_beyond_a_day_fail_the_write_and_show_nothing(
    session: Any, form: str, tmp_path: Path
) -> None:
    day_us = 24 * 3600 * 10**6
    stored = pa.array([0, day_us - 1, day_us])
    times = pa.Array.from_buffers(pa.time64("us"), 3, stored.buffers())
    pq.write_table(pa.table({"n": [1, 2, 3], "at": times}), tmp_path / "times.parquet")
    session.conf.set("spark.sql.timeType.enabled", "true")
    try:
        rows = session.read.parquet(str(tmp_path / "times.parquet")).coalesce(1)
        assert rows.count() == 3
        for column, name in (("at", "at"), ("array(at) as list", "list"), ("struct(at) as s", "s")):
            write = rows.selectExpr("n", column).write.format(form).mode("append")
            said = refused(lambda write=write, name=name: write.save(str(tmp_path / name)))
            assert f"column '{name}', row 2" in said
            assert queue_at(tmp_path / name).ends() == {0: 0}
    finally:
        session.conf.unset("spark.sql.timeType.enabled")


def test_the_time_of_writing_is_the_timestamp_by_default(
    session: Any, form: str, tmp_path: Path
) -> None:
    before = datetime.now(timezone.utc)
    session.range(10).write.format(form).mode("append").save(str(tmp_path / "q"))
    after = datetime.now(timezone.utc)
    rows = read(session, form, tmp_path / "q", includeMetadata="true").collect()
    times = [row._timestamp.replace(tzinfo=timezone.utc) for row in rows]
    assert all(before <= at <= after for at in times)


def test_a_batch_with_its_number_is_written_once(session: Any, form: str, tmp_path: Path) -> None:
    for version, first in ((0, 0), (1, 10), (1, 20), (0, 30), (2, 40)):
        writer = frame(session, first, 10).write.format(form).mode("append")
        writer = writer.option("txnAppId", "counts").option("txnVersion", version)
        writer.save(str(tmp_path / "q"))
    found = numbers(read(session, form, tmp_path / "q"))
    assert found == [*range(20), *range(40, 50)]
    writer = frame(session).write.format(form).mode("append").option("txnAppId", "counts")
    assert "go together" in refused(lambda: writer.save(str(tmp_path / "q")))


# -- any part of it ----------------------------------------------------------------------------


def expected_rows(since: int | None, until: int | None) -> list[int]:
    """By seconds since START, which are the numbers."""
    low, high = since or 0, 3 * ROWS if until is None else until
    return list(range(max(0, low), min(3 * ROWS, high)))


def milliseconds(second: int) -> str:
    return str(int((START + timedelta(seconds=second)).timestamp() * 1000))


@given(data=st.data())
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_replay_from_a_moment_is_a_filter(
    session: Any, form: str, written: Path, data: Any
) -> None:
    since = data.draw(st.integers(0, 3 * ROWS - 1), "since")
    until = data.draw(st.none() | st.integers(since, 3 * ROWS + 10), "until")
    options = {
        "startingTimestamp": milliseconds(since),
        "startingOffsetsByTimestampStrategy": "latest",
    }
    if until is not None:
        options["endingTimestamp"] = milliseconds(until)
    if data.draw(st.booleans(), "split"):
        options["minPartitions"] = str(data.draw(st.integers(1, 9), "tasks"))
        options["maxRecordsPerPartition"] = str(data.draw(st.integers(100, 5000), "most"))
    rows = read(session, form, written, **options)
    # The earliest record at or after a moment, in each partition: all from there on, as times rise.
    assert numbers(rows) == expected_rows(since, until)


def test_filters_on_time_read_less(session: Any, form: str, written: Path) -> None:
    low, high = START + timedelta(seconds=4000), START + timedelta(seconds=4100)
    rows = read(session, form, written)
    some = rows.where((rows["at"] >= low) & (rows["at"] < high))
    assert numbers(some) == list(range(4000, 4100))
    source = queue_at(written)
    span = [int(moment.timestamp() * 1e6) for moment in (low, high)]
    ends = source.ends()
    narrowed = [source.narrowed(n, 0, end, *span) for n, end in ends.items()]
    assert sum(stop - start for start, stop in narrowed) < sum(ends.values()) / 2
    by_metadata = read(session, form, written, includeMetadata="true")
    assert numbers(by_metadata.where(by_metadata["_timestamp"] >= high)) == list(
        range(4100, 3 * ROWS)
    )


def test_filters_are_right_where_spark_does_not_hand_them_over(session: Any, written: Path) -> None:
    session.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        rows = read(session, "cec_python", written)
        late = rows.where(rows["at"] >= START + timedelta(seconds=8990))
        assert numbers(late) == list(range(8990, 9000))
    finally:
        session.conf.set("spark.sql.python.filterPushdown.enabled", "true")


# -- streams -----------------------------------------------------------------------------------


def test_a_stream_reads_all_once_in_batches_of_the_size_asked_for(
    session: Any, form: str, written: Path, tmp_path: Path
) -> None:
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "1000"}
    batches = drain(session, form, written, tmp_path / "c", **options)
    assert sorted(n for batch in batches for n in batch) == list(range(3 * ROWS))
    assert len(batches) == 9
    assert all(len(batch) <= 1000 for batch in batches)


def test_a_stream_that_is_restarted_goes_on_where_it_was(
    session: Any, form: str, tmp_path: Path
) -> None:
    path, checkpoint = tmp_path / "q", tmp_path / "c"
    found = []
    for first in (0, 100, 200):
        frame(session, first, 100).write.format(form).mode("append").save(str(path))
        # Options of a start are for a new query only.
        found.append(drain(session, form, path, checkpoint, startingOffsets="earliest"))
    assert found == [[list(range(first, first + 100))] for first in (0, 100, 200)]


def test_a_stream_begins_at_the_latest_by_default(session: Any, form: str, tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "q", tmp_path / "c"
    frame(session, 0, 100).write.format(form).mode("append").save(str(path))
    assert drain(session, form, path, checkpoint) == []
    frame(session, 100, 100).write.format(form).mode("append").save(str(path))
    assert drain(session, form, path, checkpoint) == [list(range(100, 200))]


def test_a_stream_takes_up_partitions_that_are_added(
    session: Any, form: str, tmp_path: Path
) -> None:
    path, checkpoint = tmp_path / "q", tmp_path / "c"
    frame(session, 0, 100, 1).write.format(form).mode("append").save(str(path))
    assert drain(session, form, path, checkpoint, startingOffsets="earliest") == [list(range(100))]
    frame(session, 100, 100, 3).write.format(form).mode("append").save(str(path))
    assert drain(session, form, path, checkpoint) == [list(range(100, 200))]


def test_a_stream_may_begin_before_the_first_row_is_written(
    session: Any, form: str, tmp_path: Path
) -> None:
    """The sink makes the queue when its query starts."""
    empty = frame(session, 0, 10).where("n < 0")
    empty.write.format(form).mode("append").save(str(tmp_path / "q"))
    assert drain(session, form, tmp_path / "q", tmp_path / "c", startingOffsets="earliest") == []
    frame(session, 0, 10).write.format(form).mode("append").save(str(tmp_path / "q"))
    assert drain(session, form, tmp_path / "q", tmp_path / "c") == [list(range(10))]


# -- queues of operators -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def operator_queue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("operator") / "sums"
    write_sums(path)
    return path


def test_the_queue_of_an_operator_is_read_the_same_way(
    session: Any, form: str, operator_queue: Path, tmp_path: Path
) -> None:
    with open_queue(operator_queue) as queue:
        expected = sorted(n for part in queue.replay() for n in part.column("n").to_pylist())
    assert numbers(read(session, form, operator_queue)) == expected
    batches = drain(session, form, operator_queue, tmp_path / "c", startingOffsets="earliest")
    assert sorted(n for batch in batches for n in batch) == expected


def test_control_records_are_read_on_request(session: Any, form: str, operator_queue: Path) -> None:
    rows = read(session, form, operator_queue, kinds="all", includeMetadata="true")
    found = {row["_kind"]: row["count"] for row in rows.groupBy("_kind").count().collect()}
    assert found.keys() >= {"open", "result"}
    some = rows.where("_kind = 'open'").first()
    assert some._key.item.startswith("i")
    assert some._state is not None


# -- refusals ----------------------------------------------------------------------------------


def refused(act: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        act()
    return str(caught.value)


def test_a_path_that_is_no_queue_is_refused_at_the_start(
    session: Any, form: str, tmp_path: Path
) -> None:
    reason = "[PATH_NOT_FOUND]" if form == "cec" else "no queue here"
    assert reason in refused(lambda: read(session, form, tmp_path / "none"))
    stream = session.readStream.format(form)
    assert reason in refused(lambda: stream.load(str(tmp_path / "none")))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    writer = frame(session).write.format(form).mode("append")
    assert "not empty" in refused(lambda: writer.save(str(tmp_path / "full")))
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["notes.txt"]


def test_the_queue_of_an_operator_is_not_written(
    session: Any, form: str, operator_queue: Path
) -> None:
    writer = frame(session).write.format(form).mode("append")
    assert "a queue without partitions" in refused(lambda: writer.save(str(operator_queue)))


def test_other_columns_are_refused_and_change_nothing(
    session: Any, form: str, written: Path
) -> None:
    before = queue_at(written).ends()
    writer = session.range(5).write.format(form).mode("append")
    reason = "id: not in the queue" if form == "cec" else "the queue's columns are"
    assert reason in refused(lambda: writer.save(str(written)))
    other = frame(session).write.format(form).option("timestampColumn", "n").mode("append")
    reason = "timestampColumn: at in the queue" if form == "cec" else "timestampColumn at"
    assert reason in refused(lambda: other.save(str(written)))
    assert queue_at(written).ends() == before


def test_bad_columns_and_options_are_refused(session: Any, form: str, tmp_path: Path) -> None:
    path = str(tmp_path / "q")
    rows = frame(session)
    append = rows.write.format(form).mode("append")
    assert "no timestamp column 'when'" in refused(
        lambda: append.option("timestampColumn", "when").save(path)
    )
    append = rows.write.format(form).mode("append")
    assert "no key column 'who'" in refused(lambda: append.option("keyColumns", "who").save(path))
    append = rows.withColumnRenamed("n", "_n").write.format(form).mode("append")
    assert "reserved" in refused(lambda: append.save(path))
    over = rows.write.format(form).mode("overwrite")
    assert "only appended to" in refused(lambda: over.save(path))
    append = rows.write.format(form).mode("append")
    assert "no option" in refused(lambda: append.option("compression", "x").save(path))
    value = "interval '1' month" if form == "cec" else "parse_json('{}')"
    append = session.sql(f"select {value} as v").write.format(form).mode("append")
    assert "'v'" in refused(lambda: append.save(path))
    assert not (tmp_path / "q").exists()


def test_a_null_timestamp_fails_the_write_and_shows_nothing(
    session: Any, form: str, tmp_path: Path
) -> None:
    rows = session.sql("select 1 as n, cast(null as timestamp) as at")
    append = rows.write.format(form).mode("append").option("timestampColumn", "at")
    assert "timestamps are null" in refused(lambda: append.save(str(tmp_path / "q")))
    assert queue_at(tmp_path / "q").ends() == {0: 0}


def test_a_queue_keeps_what_its_schema_says_whoever_appends(
    session: Any, form: str, tmp_path: Path
) -> None:
    geometry = {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": '{"crs": 1}'}
    element, value, x = (
        pa.field(name, pa.int64(), nullable=False) for name in ("element", "value", "x")
    )
    schema = pa.schema(
        [
            pa.field("n", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "7"}),
            pa.field("shape", pa.binary(), metadata=geometry),
            pa.field("parts", pa.list_(element)),
            pa.field("named", pa.map_(pa.string(), value)),
            pa.field("pair", pa.struct([x])),
        ],
        metadata={"owner": "somebody"},
    )
    with open_queue(tmp_path / "q", "x", schema=schema, partitions=1):
        pass
    values = {"n": "id", "shape": "cast('a' as binary)", "parts": "array(id)"}
    values |= {"named": "map('a', id)", "pair": "named_struct('x', id)"}
    rows = session.range(3).selectExpr(*(f"{term} as {name}" for name, term in values.items()))
    rows.write.format(form).mode("append").save(str(tmp_path / "q"))
    kept = read_queue(tmp_path / "q")
    assert kept.schema.equals(schema, check_metadata=True)
    assert kept.read_all()["parts"].to_pylist() == [[0], [1], [2]]
    assert read(session, form, tmp_path / "q").count() == 3
    for name in values.keys() - {"shape"}:
        terms = {**values, name: values[name].replace("id", "cast(null as bigint)")}
        rows = session.range(1).selectExpr(*(f"{term} as {key}" for key, term in terms.items()))
        append = rows.write.format(form).mode("append")
        assert f"column '{name}', row 0" in refused(lambda: append.save(str(tmp_path / "q")))  # noqa: B023
    assert read(session, form, tmp_path / "q").count() == 3


def trimmed(path: Path) -> int:
    """A plain queue that has lost its beginning; returns the oldest offset that is left."""
    with open_queue(path, "x", schema=pa.schema([("n", pa.int64())])) as queue:
        for first in range(0, 100, 10):
            queue.append(pa.record_batch({"n": list(range(first, first + 10))}))
            queue.roll()
        return queue.trim(55)


def test_a_start_below_what_is_kept_is_lost_data(session: Any, form: str, tmp_path: Path) -> None:
    first = trimmed(tmp_path / "q")
    assert first == 50
    start = {"startingOffsets": '{"0":7}'}
    assert "offset 7 is not in 50 … 100: it is trimmed" in refused(
        lambda: read(session, form, tmp_path / "q", **start).count()
    )
    assert "failOnDataLoss" in refused(
        lambda: drain(session, form, tmp_path / "q", tmp_path / "c", **start)
    )
    kept = {**start, "failOnDataLoss": "false"}
    assert numbers(read(session, form, tmp_path / "q", **kept)) == list(range(50, 100))
    assert drain(session, form, tmp_path / "q", tmp_path / "d", **kept) == [list(range(50, 100))]


def test_what_is_trimmed_while_a_query_is_stopped_is_lost_data(
    session: Any, form: str, tmp_path: Path
) -> None:
    path = tmp_path / "q"
    with open_queue(path, "x", schema=pa.schema([("n", pa.int64())])) as queue:
        queue.append(pa.record_batch({"n": [0]}), sync=True)
        assert drain(session, form, path, tmp_path / "c", startingOffsets="earliest") == [[0]]
        queue.append(pa.record_batch({"n": [1]}))
        queue.roll()
        queue.append(pa.record_batch({"n": [2]}))
        queue.roll()
        assert queue.trim(2) == 2
    said = refused(lambda: drain(session, form, path, tmp_path / "c"))
    assert "offset 1 is not in 2 … 3: it is trimmed" in said
    assert drain(session, form, path, tmp_path / "c", failOnDataLoss="false") == [[2]]


# -- a queue that is not the one that was read -------------------------------------------------

EARLIEST = {"startingOffsets": "earliest"}


def append(session: Any, form: str, path: Path, first: int, count: int) -> None:
    frame(session, first, count, 1).write.format(form).mode("append").save(str(path))


def append_to_plain(session: Any, form: str, path: Path, first: int, count: int) -> None:
    with open_queue(path, "a", schema=pa.schema([("n", pa.int64())])) as queue:
        queue.append(pa.record_batch({"n": list(range(first, first + count))}), sync=True)


KINDS = [
    pytest.param(append, {}, id="partitions"),
    pytest.param(append, {"consumer": "me"}, id="consumer"),
    pytest.param(append_to_plain, {}, id="plain"),
]


def read_and_put_back(
    session: Any, form: str, folder: Path, write: Callable[..., None], options: dict[str, str]
) -> None:
    """Let a query read the 30 rows of `q`, then put back its copy with the first 20 of them."""
    path, checkpoint = folder / "q", folder / "c"
    write(session, form, path, 0, 20)
    assert drain(session, form, path, checkpoint, **options) == [list(range(20))]
    shutil.copytree(path, folder / "copy")
    write(session, form, path, 20, 10)
    assert drain(session, form, path, checkpoint, **options) == [list(range(20, 30))]
    shutil.rmtree(path)
    shutil.copytree(folder / "copy", path)


@pytest.mark.parametrize(("write", "more"), KINDS)
def test_a_checkpoint_ahead_of_an_older_copy_is_lost_data(
    session: Any, form: str, tmp_path: Path, write: Callable[..., None], more: dict[str, str]
) -> None:
    path, checkpoint, options = tmp_path / "q", tmp_path / "c", {**EARLIEST, **more}
    read_and_put_back(session, form, tmp_path, write, options)
    said = refused(lambda: drain(session, form, path, checkpoint, **options))
    assert "partition 0: offset 30 is not in 0 … 20: it is beyond the end" in said
    assert str(path) in said
    assert "failOnDataLoss=false goes on without it" in said
    write(session, form, path, 100, 5)
    assert "beyond the end" in refused(lambda: drain(session, form, path, checkpoint, **options))
    goes_on = {**options, "failOnDataLoss": "false"}
    assert drain(session, form, path, checkpoint, **goes_on) == []
    write(session, form, path, 200, 10)
    assert drain(session, form, path, checkpoint, **options) == [list(range(200, 210))]


@pytest.mark.parametrize(("write", "more"), KINDS)
def test_a_checkpoint_of_another_queue_is_lost_data(
    session: Any, form: str, tmp_path: Path, write: Callable[..., None], more: dict[str, str]
) -> None:
    path, checkpoint, options = tmp_path / "q", tmp_path / "c", {**EARLIEST, **more}
    write(session, form, path, 0, 20)
    assert drain(session, form, path, checkpoint, **options) == [list(range(20))]
    former = queue_at(path).queue_id
    shutil.rmtree(path)
    write(session, form, path, 1000, 40)  # more than were read of the other
    said = refused(lambda: drain(session, form, path, checkpoint, **options))
    assert f"of queue {former}, and another one is here now, {queue_at(path).queue_id}" in said
    assert str(path) in said
    assert "failOnDataLoss=false goes on without it" in said
    goes_on = {**options, "failOnDataLoss": "false"}
    found = drain(session, form, path, checkpoint, **goes_on)
    assert found == [list(range(1000, 1040))]
    write(session, form, path, 1040, 10)
    assert drain(session, form, path, checkpoint, **options) == [list(range(1040, 1050))]


@pytest.mark.parametrize(("write", "more"), KINDS[:2])
def test_a_checkpoint_of_another_history_of_its_queue_is_lost_data(
    session: Any, form: str, tmp_path: Path, write: Callable[..., None], more: dict[str, str]
) -> None:
    path, checkpoint, options = tmp_path / "q", tmp_path / "c", {**EARLIEST, **more}
    read_and_put_back(session, form, tmp_path, write, options)
    write(session, form, path, 100, 15)  # the copy has grown beyond the checkpoint
    said = refused(lambda: drain(session, form, path, checkpoint, **options))
    assert re.search("behind commit [0-9]+-[0-9a-f]{16}, which is not in the queue any more", said)
    assert str(path) in said
    assert "failOnDataLoss=false goes on without it" in said
    goes_on = {**options, "failOnDataLoss": "false"}
    assert drain(session, form, path, checkpoint, **goes_on) == [list(range(110, 115))]
    write(session, form, path, 200, 10)
    assert drain(session, form, path, checkpoint, **options) == [list(range(200, 210))]


@pytest.mark.parametrize(("write", "more"), KINDS)
@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_stream_that_runs_goes_on_over_a_queue_that_is_made_anew_where_loss_is_allowed(
    session: Any,
    form: str,
    tmp_path: Path,
    write: Callable[..., None],
    more: dict[str, str],
    fail: str,
) -> None:
    path, found = tmp_path / "q", list[int]()
    write(session, form, path, 0, 20)
    rows = session.readStream.format(form).options(failOnDataLoss=fail, **EARLIEST, **more)
    writer = rows.load(str(path)).writeStream.option("checkpointLocation", str(tmp_path / "c"))
    query = writer.foreachBatch(lambda batch, _: found.extend(r.n for r in batch.collect())).start()
    try:
        query.processAllAvailable()
        assert sorted(found) == list(range(20))
        path.rename(tmp_path / "away")
        if fail == "true":
            assert "queue" in refused(lambda: query.awaitTermination(60))
            return
        time.sleep(0.5)  # nothing is there meanwhile
        assert query.isActive
        write(session, form, tmp_path / "new", 1000, 40)
        (tmp_path / "new").rename(path)
        query.processAllAvailable()
        assert sorted(found) == [*range(20), *range(1000, 1040)]
        write(session, form, path, 2000, 5)
        query.processAllAvailable()
        assert sorted(found)[60:] == list(range(2000, 2005))
    finally:
        query.stop()


# -- acknowledging -----------------------------------------------------------------------------

LEGS = ["more", "idle", "stop", "die before commit", "idle", "die after commit", "idle",
        "die before commit", "more", "die after commit", "stop", "stop", "idle"]  # fmt: skip


def test_a_batch_is_acknowledged_once_it_is_in_the_checkpoint(
    session: Any, form: str, tmp_path: Path
) -> None:
    """The last one too, whatever ended the run before: a stop, a kill, or nothing new."""
    path, checkpoint, written, failures = tmp_path / "q", tmp_path / "c", 0, []

    def act(rows: Any, batch: int) -> None:
        rows.collect()
        if failures:
            raise RuntimeError("killed")

    for leg in LEGS:
        if leg != "idle":
            append(session, form, path, written, 10)
            written += 10
        failures[:] = ["yes"] if leg.startswith("die") else []
        rows = session.readStream.format(form).options(consumer="me", **EARLIEST)
        writer = rows.load(str(path)).writeStream.foreachBatch(act)
        writer = writer.option("checkpointLocation", str(checkpoint))
        query = writer.start() if leg == "stop" else writer.trigger(availableNow=True).start()
        if leg == "stop":
            query.processAllAvailable()
            query.stop()
        elif failures:
            assert "killed" in refused(query.awaitTermination)
        else:
            query.awaitTermination()
        if leg == "die after commit":
            commits = checkpoint / "commits"
            done = max((int(p.name) for p in commits.glob("[0-9]*")), default=None)
            if done is None:
                text, done = 'v1\n{"nextBatchWatermarkMs":0}', -1
            else:
                text = (commits / str(done)).read_text()
            (commits / str(done + 1)).write_text(text)
        elif not failures:
            (state,) = open_queue(path).consumers()
            assert (sum(state.effects_saved), state.lag_records) == (written, 0), leg


def test_progress_tells_how_far_the_queue_reaches(
    session: Any, form: str, written: Path, tmp_path: Path
) -> None:
    query = (
        session.readStream.format(form).option("startingOffsets", "earliest").load(str(written))
        .writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    (source,) = query.lastProgress["sources"]
    assert source["latestOffset"] is not None
    until = time.monotonic() + 5
    while query.isActive and time.monotonic() < until:
        time.sleep(0.05)
    assert not query.isActive
