"""Values and versions above every limit but the last one, and what dead rows take of the heap."""

from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyspark")

from cec_store import open_queue
from cec_store.format.checksum import crc32c
from cec_store.state_logs.state_log import StateLog
from cec_store.storage.local import LocalFolder
from support.places.state_logs import EMPTY, Writer, contents
from support.spark.jvm import run_jvm

LARGE_BYTES = 70 << 20


def test_a_value_above_a_frame_is_a_frame_of_its_own_to_scala_and_python(tmp_path: Path) -> None:
    (tmp_path / "python").mkdir()
    value = Random(3).randbytes(LARGE_BYTES)
    writer = Writer(LocalFolder(tmp_path / "python"), Random(3), level=0)
    state = {(1, b"a"): b"1", (1, b"b"): value, (1, b"c"): b""}
    writer.commit(EMPTY, {**state}, frames=3)
    writer.close()
    found = run_jvm("large", root=tmp_path, bytes=LARGE_BYTES)
    assert found["scala"]["b"] == found["crc"]
    assert found["python"] == {name.decode(): crc32c(state[1, name]) for name in (b"a", b"b", b"c")}
    with open_queue(tmp_path / "scala") as log:
        assert isinstance(log, StateLog)
        read = contents(log.rebuild())
    assert crc32c(read[1, b"b"]) == found["crc"]
    assert (read[1, b"a"], read[1, b"c"]) == (b"\1", b"\2")


def test_versions_above_an_array_span_several_parts_and_frames(tmp_path: Path) -> None:
    """The limits are lowered; commits, aborts, retries and loads give what a map gives."""
    found = run_jvm(
        "model", root=tmp_path, families=True, v2="both", parts=True, tight=True, until=3,
        counted=True, dump=True,
    )  # fmt: skip
    assert found["commits"] > 30
    assert found["renewed"] > 0
    frames = 0
    for seed in range(3):
        with open_queue(tmp_path / f"seed-{seed}" / "0" / "0") as log:
            assert isinstance(log, StateLog)
            uncounted = [f for f in log.version_reader().frames() if not f.header.is_counted]
            frames += len(uncounted)
    assert frames > 50


@pytest.mark.parametrize("target", ["time", "records"])
def test_dead_rows_do_not_fill_the_heap(tmp_path: Path, target: str) -> None:
    keys, value_bytes = 20, 10_000
    found = run_jvm("heap", root=tmp_path, target=target, keys=keys, bytes=value_bytes, commits=400)
    live = keys * value_bytes
    assert found["memoryBytes"] < (8 << 20) + 8 * live
    assert found["extentRecords"] > 2 * keys


def test_an_extent_by_time_holds_few_records_for_each_key(tmp_path: Path) -> None:
    keys = 5000
    found = run_jvm("heap", root=tmp_path, target="time", keys=keys, bytes=8, commits=60)
    assert 2 * keys < found["extentRecords"] <= 5 * keys
