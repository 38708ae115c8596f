"""Appending to a queue of any layout: what comes back, when, and what bad input leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal

import pyarrow as pa
import pytest

from cec_store import NotAQueue, OutputQueue, QueueLocked, ReadOnly, SchemaMismatch
from cec_store.errors import CecError, Fenced
from support.contract.layouts import (
    BY_REFERENCE,
    MANY,
    MANY_IN_MEMORY,
    MANY_IN_S3,
    PLAIN,
    PLAIN_IN_STORE,
    SCHEMA,
    Layout,
    every_layout,
    table,
)

NO_NUMBER = "append waits for the disk by itself and has no await_durable"
NO_END = "close() lets go of nothing, so that a closed queue still appends"
OTHERS = "another writer is no error: both append"


@every_layout()
def test_rows_come_back_in_order_with_their_offsets(layout: Layout) -> None:
    with layout.open() as queue:
        rows = queue.fill(7, rows=3)
        assert queue.ends() == {n: len(rows.get(n, [])) for n in queue.ends()}
        for partition, expected in rows.items():
            assert queue.numbers(partition) == expected
    assert layout.rows() == rows
    assert layout.faults() == []


@every_layout()
def test_appends_have_rising_numbers(layout: Layout) -> None:
    with layout.open() as queue:
        numbers = [queue.append([n]) for n in range(5)]
    assert numbers == sorted({*numbers})


@every_layout()
def test_an_append_that_returned_durable_is_read_by_others_at_once(layout: Layout) -> None:
    with layout.open() as queue:
        for number in range(4):
            queue.append([number])
            assert layout.numbers() == list(range(number + 1))


@every_layout(dict.fromkeys(BY_REFERENCE, NO_NUMBER), raises=AttributeError)
def test_the_number_of_an_append_is_what_await_durable_takes(layout: Layout) -> None:
    with layout.open() as queue:
        number = queue.queue.append(table([1]))
        queue.queue.await_durable(number)  # type: ignore[union-attr]
        assert layout.rows() == {0: [1]}


@every_layout()
def test_an_append_without_rows_writes_nothing(layout: Layout) -> None:
    with layout.open() as queue:
        last = queue.append([1])
        before = layout.files()
        assert queue.append([]) == last
        assert layout.files() == before


@every_layout()
def test_a_queue_goes_on_where_it_was_closed(layout: Layout) -> None:
    expected: list[int] = []
    for first in (0, 10, 20):
        with layout.open() as queue:
            queue.fill(4, first)
            expected += range(first, first + 8)
    rows = layout.rows()
    assert layout.numbers() == expected
    assert all(part == sorted(part) for part in rows.values())
    assert layout.faults() == []


@every_layout()
def test_a_queue_that_is_left_open_is_opened_again_to_read(layout: Layout) -> None:
    with layout.open() as writer:
        rows = writer.fill(4)
        with layout.open("r") as reader:
            assert {n: reader.numbers(n) for n in rows} == rows
            more = writer.fill(3, 100)
            assert {n: reader.numbers(n) for n in more} == {
                n: rows.get(n, []) + added for n, added in more.items()
            }


@every_layout(dict.fromkeys(BY_REFERENCE, NO_END))
def test_a_closed_queue_appends_no_more(layout: Layout) -> None:
    queue = layout.open()
    queue.append([1])
    queue.close()
    with pytest.raises(CecError):
        queue.append([2])
    assert layout.rows() == {0: [1]}


@every_layout(
    {PLAIN_IN_STORE: "whoever opens last takes over: there is nothing to hold in a store"}
    | dict.fromkeys(BY_REFERENCE, OTHERS),
)
def test_a_second_writer_of_an_exclusive_queue_is_refused(layout: Layout) -> None:
    with layout.open() as queue:
        queue.append([1])
        before = layout.files()
        with pytest.raises(QueueLocked):
            layout.open().close()
        assert layout.files() == before


@every_layout()
def test_two_writers_lose_nothing_that_either_was_told_is_there(layout: Layout) -> None:
    first = layout.open()
    first.append([0])
    second = layout.open(takeover=True)
    told, fenced = [0], 0
    for number in range(1, 9):
        try:
            (first, second)[number % 2].append([number])
            told.append(number)
        except Fenced:
            fenced += 1
    assert layout.numbers() == told
    assert fenced == (4 if layout.is_plain else 0)
    assert layout.faults() == []
    second.close()
    with suppress(Fenced):
        first.close()


@every_layout()
def test_an_append_is_there_in_all_of_its_partitions_or_in_none(layout: Layout) -> None:
    keys = {} if layout.is_plain else {"key_columns": ["n"]}
    with layout.open(**keys) as queue:
        queue.append(range(100))
        broken = pa.table({"n": ["no number"], "at": ["no time"]})
        with pytest.raises(SchemaMismatch):
            queue.queue.append(pa.concat_tables([broken, broken]))
    assert layout.numbers() == list(range(100))
    if layout.name in (MANY, MANY_IN_MEMORY, MANY_IN_S3):
        assert len(layout.rows()) == layout.partitions


# -- bad input ------------------------------------------------------------------------------------


@every_layout()
def test_nothing_is_opened_and_nothing_made_where_no_queue_is(layout: Layout) -> None:
    with pytest.raises(NotAQueue):
        layout.open("r")
    with pytest.raises(NotAQueue):
        layout.open("a", None, timestamp_column=None)
    with pytest.raises(NotAQueue):
        layout.read()
    assert not layout.path.exists() if layout.is_local else layout.files() == {}


def _with_other_columns(layout: Layout) -> None:
    layout.open("a", pa.schema([("other", pa.string())]), timestamp_column=None)


def _as_new(layout: Layout) -> None:
    layout.open("x")


def _with_a_mode_that_is_none(layout: Layout) -> None:
    layout.open("w")


def _with_no_retention(layout: Layout) -> None:
    layout.open("a", retention="soon")


@pytest.mark.parametrize(
    ("open_badly", "error"),
    [
        (_with_other_columns, SchemaMismatch),
        (_as_new, FileExistsError),
        (_with_a_mode_that_is_none, ValueError),
        (_with_no_retention, ValueError),
    ],
)
@every_layout()
def test_a_queue_opened_wrongly_stays_as_it_is(
    layout: Layout, open_badly: Callable[[Layout], None], error: type[Exception]
) -> None:
    with layout.open() as queue:
        queue.append([1, 2])
    before = layout.files()
    with pytest.raises(error):
        open_badly(layout)
    assert layout.files() == before


@every_layout()
def test_a_mode_that_is_none_makes_no_queue(layout: Layout) -> None:
    with pytest.raises(ValueError, match="mode"):
        layout.open("w")
    assert not layout.path.exists() if layout.is_local else layout.files() == {}


DECIMALS = pa.schema([("price", pa.decimal128(4, 2))])


@pytest.mark.parametrize(
    ("schema", "rows"),
    [
        (SCHEMA, pa.table({"n": [1]})),
        (SCHEMA, pa.table({"n": [1], "at": [1], "more": [1]})),
        (SCHEMA, pa.table({"n": ["1"], "at": [1]})),
        (SCHEMA, pa.table({"n": [1.5], "at": [1]})),
        (DECIMALS, pa.table({"price": pa.array([Decimal("123456.78")], pa.decimal128(9, 2))})),
    ],
)
@every_layout()
def test_rows_that_do_not_fit_leave_nothing(
    layout: Layout, schema: pa.Schema, rows: pa.Table
) -> None:
    at = "at" if schema is SCHEMA else None
    with layout.open("x", schema, timestamp_column=at) as queue:
        before = layout.files()
        with pytest.raises(SchemaMismatch):
            queue.queue.append(rows)
        assert layout.files() == before
        assert {*queue.ends().values()} == {0}


@every_layout()
def test_a_reader_changes_nothing(layout: Layout) -> None:
    with layout.open() as queue:
        queue.append([1])
    before = layout.files()
    with layout.open("r") as reader:
        with pytest.raises(ReadOnly):
            reader.queue.append(table([2]))
        with pytest.raises(ReadOnly):
            reader.trim({0: 0})
        with pytest.raises(ReadOnly):
            reader.queue.set_retention("7d")
        assert reader.numbers(0) == [1]
    assert layout.files() == before


@every_layout()
def test_columns_are_kept_with_what_is_said_about_them(layout: Layout) -> None:
    schema = pa.schema(
        [
            pa.field("n", pa.int64(), nullable=False, metadata={"unit": "pieces"}),
            pa.field("at", pa.int64()),
            pa.field("tags", pa.list_(pa.string())),
        ],
        metadata={"made by": "a test"},
    )
    with layout.open("x", schema) as queue:
        rows = pa.table({"n": [1], "at": [5], "tags": [["a", "b", "a"]]}).cast(schema)
        queue.queue.append(rows)
    for _ in range(2):
        read = layout.read()
        assert read.schema.equals(schema, check_metadata=True)
        assert read.to_pylist() == [{"n": 1, "at": 5, "tags": ["a", "b", "a"]}]
        with layout.open("a", schema) as queue:
            assert queue.queue.schema.data.equals(schema, check_metadata=True)
            assert queue.queue.schema.timestamp_column == "at"


@every_layout(among=(PLAIN, PLAIN_IN_STORE))
def test_timestamps_are_those_of_the_timestamp_column(layout: Layout) -> None:
    with layout.open() as queue:
        assert isinstance(queue.queue, OutputQueue)
        queue.queue.append(table([1, 2]), pa.array([1000, 2000]), sync=True)
        with pytest.raises(SchemaMismatch, match="timestamp column 'at'"):
            queue.queue.append(table([3, 4]), pa.array([3000, 4001]))
    assert layout.numbers() == [1, 2]
