"""Values of logs as people and JSON read them, beyond what Python's own types reach."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from cec_store import open_queue
from cec_store.cli import app
from cec_store.inspector.decoding.keys import KeyTest
from cec_store.inspector.decoding.plain_values import rows_of

DAYS = pa.array([-719_563, 0, 3_000_000, None, 2**31 - 1], pa.int32()).cast(pa.date32())
TEXTS = ["-0001-11-27", "1970-01-01", "10183-09-21", None, "2147483647"]


@pytest.mark.parametrize(("column", "texts"), [
    (DAYS, TEXTS),
    (pa.array([3_000_000 * 86_400_000], pa.int64()).cast(pa.date64()), ["10183-09-21"]),
    (pa.StructArray.from_arrays([DAYS], ["day"]), [{"day": text} for text in TEXTS]),
    (pa.ListArray.from_arrays([0, 1, 3], DAYS[:3]), [TEXTS[:1], TEXTS[1:3]]),
    (pa.MapArray.from_arrays([0, 1], ["a"], DAYS[2:3]), [[{"key": "a", "value": TEXTS[2]}]]),
    (DAYS.dictionary_encode(), TEXTS),
    (pa.array([45_296_123_456_789], pa.time64("ns")), ["12:34:56.123456789"]),
    (pa.array([2**62], pa.int64()).cast(pa.duration("s")), [str(2**62)]),
])  # fmt: skip
def test_dates_and_times_are_told_beyond_pythons_calendar(column: pa.Array, texts: Any) -> None:
    assert rows_of(column) == texts


@pytest.mark.parametrize("verb", ["dump", "replay"])
def test_a_queue_with_years_beyond_9999_is_shown(tmp_path: Path, verb: str) -> None:
    rows = pa.record_batch([DAYS], names=["day"])
    with open_queue(tmp_path / "queue", "a", schema=rows.schema) as queue:
        queue.append(rows)
        queue.sync()
    for form in ("--json", "--format=table"):
        if (verb, form) == ("dump", "--format=table"):
            continue
        shown = CliRunner().invoke(app, [verb, str(tmp_path / "queue"), form])
        assert shown.exit_code == 0, shown.output
        assert "10183-09-21" in shown.stdout
        if form == "--json":
            lines = [json.loads(line) for line in shown.stdout.splitlines()]
            rows_there = [line.get("data", line) for line in lines if "10183" in json.dumps(line)]
            assert [row["day"] for row in rows_there] == ["10183-09-21"]


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        (pa.time64("ns"), [3_600_000_000_123, 0], ["01:00:00.000000123"]),
        (pa.time64("us"), [3_600_000_000, 0], ["01:00:00", "01:00:00.000000"]),
        (pa.time32("s"), [3_600, 0], ["01:00:00"]),
        (pa.duration("us"), [172_800_000_000, 0], ["2 days, 0:00:00"]),
        (pa.month_day_nano_interval(), [(14, 1, 0), (14, 0, 0)], ["14 months 1 days"]),
        (pa.list_(pa.int8()), [[1, 2], [1]], ["[1, 2]", "[1,2]"]),
        (pa.date32(), [dt.date(2026, 1, 1), dt.date(2026, 1, 2)], ["2026-01-01"]),
    ],
)
def test_a_key_is_found_by_what_is_printed_of_it(
    kind: pa.DataType, values: list[Any], texts: list[str]
) -> None:
    column = pa.array([*values, None], kind)
    keys = pa.StructArray.from_arrays([column], ["c"])
    printed = rows_of(column)
    assert len({json.dumps(row) for row in printed}) == 3
    for text in [*texts, printed[0] if isinstance(printed[0], str) else json.dumps(printed[0])]:
        for asked in (text, json.dumps({"c": text})):
            assert KeyTest(asked).rows(keys).tolist() == [True, False, False], asked


def test_a_duration_is_found_by_its_number() -> None:
    column = pa.array([172_800_000_000, 0, None], pa.duration("us"))
    keys = pa.StructArray.from_arrays([column], ["c"])
    assert KeyTest('{"c": 172800000000}').rows(keys).tolist() == [True, False, False]
