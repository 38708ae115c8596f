"""The progress file of a checkpoint, on a disk and in a store: one, the newest, deletable."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cec_store.connectors.spark.progress.history import Stretch
from cec_store.connectors.spark.progress.progress_file import ProgressFile
from cec_store.inspector.measuring.crash_costs import LoadRates
from cec_store.inspector.places.places import place_at
from cec_store.report.document import report_on
from cec_store.storage.stores.by_url import store_at
from cec_store.watching.looks import look_at
from support.places.made_checkpoints import START_MS, grown
from support.stores.copies import in_memory

RATES = LoadRates()
START_US = START_MS * 1000
MINUTE_US = 60_000_000


def stretch(number: int, gap_us: int = 0) -> Stretch:
    from_us = START_US + number * MINUTE_US + gap_us
    return Stretch(
        from_us, from_us + 2_000_000, number, 1, 2_000_000, 2_000_000, 600, 500_000,
        from_us - 5_000_000, 4096, 3,
    )  # fmt: skip


@pytest.fixture(params=["disk", "store"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    grown(tmp_path / "c")
    return tmp_path / "c" if request.param == "disk" else in_memory(tmp_path / "c")


def names(checkpoint: Path | str) -> list[str]:
    return sorted(entry.name for entry in store_at(checkpoint).list("progress"))


def test_the_newest_is_read_and_the_only_one(checkpoint: Path | str) -> None:
    file = ProgressFile(checkpoint)
    assert file.read() == []
    for count in range(1, 5):
        file.write([stretch(n) for n in range(count)])
        assert file.read() == [stretch(n) for n in range(count)]
        assert names(checkpoint) == [f"{count - 1:020d}"]
    again = ProgressFile(checkpoint)
    again.write([*again.read(), stretch(4)])
    assert len(ProgressFile(checkpoint).read()) == 5


def test_two_writers_leave_one_whole_file(checkpoint: Path | str) -> None:
    one, other = ProgressFile(checkpoint), ProgressFile(checkpoint)
    for number in range(6):
        (one if number % 2 else other).write([stretch(number)])
        assert one.read() == [stretch(number)]
    assert len(names(checkpoint)) == 1


def test_a_checkpoint_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    grown(tmp_path / "c")
    file = ProgressFile(tmp_path / "c")
    shutil.rmtree(tmp_path / "c")
    file.write([stretch(0)])
    assert not (tmp_path / "c").exists()


def _report(checkpoint: Path | str) -> dict[str, object]:
    return report_on(place_at(checkpoint), with_verify=True, rates=RATES, cores=1)


def test_the_report_has_the_series_and_stays_sound(checkpoint: Path | str) -> None:
    assert _report(checkpoint)["progress"] is None
    ProgressFile(checkpoint).write([stretch(0), stretch(1), stretch(2, 3600 * 10**6)])
    document = _report(checkpoint)
    assert document["sound"]
    series = document["progress"]
    assert isinstance(series, dict)
    assert series["is_after_gap"] == [False, False, True]
    assert series["batch_s"] == [2.0, 2.0, 2.0]
    assert series["commit_s"] == [0.5, 0.5, 0.5]
    assert series["watermark_lag_s"] == [7.0, 7.0, 7.0]
    # From one batch to the next it was a minute; the last one stands alone.
    assert series["rows_per_s"] == [10.0, 10.0, 300.0]


@pytest.mark.parametrize(
    "spoil",
    [lambda data: data[:-3], lambda data: b"\0" * len(data), lambda _: b"x" * (1 << 20) + b"x"],
)
def test_a_damaged_one_is_a_note_and_no_damage(
    spoil: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    grown(tmp_path / "c")
    ProgressFile(tmp_path / "c").write([stretch(0)])
    (path,) = (tmp_path / "c" / "progress").iterdir()
    path.write_bytes(spoil(path.read_bytes()))
    document = _report(tmp_path / "c")
    assert document["sound"]
    assert document["progress"] is None
    assert any(str(path) in str(note) and "delete it" in note for note in document["notes"])  # type: ignore[attr-defined]


def test_a_look_takes_what_spark_said_of_the_newest_batches(tmp_path: Path) -> None:
    grown(tmp_path / "c")
    estimated = look_at(place_at(tmp_path / "c"), RATES, 1)
    assert not estimated.memory_is_measured
    assert (estimated.commit_s, estimated.replica_lag_versions) == (None, None)
    ProgressFile(tmp_path / "c").write([stretch(4), stretch(5)])
    look = look_at(place_at(tmp_path / "c"), RATES, 1)
    assert (look.memory_bytes, look.memory_is_measured) == (4096, True)
    assert (look.commit_s, look.input_rows_per_s, look.replica_lag_versions) == (0.5, 10.0, 3)


def test_a_look_does_not_take_what_is_old(tmp_path: Path) -> None:
    grown(tmp_path / "c")
    ProgressFile(tmp_path / "c").write([Stretch(0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0)])
    look = look_at(place_at(tmp_path / "c"), RATES, 1)
    assert (look.memory_is_measured, look.commit_s) == (False, None)
