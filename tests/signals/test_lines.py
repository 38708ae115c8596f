"""What is worth a line: who took over, who was fenced, what a recovery took, what was cut."""

import logging
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import Fenced, Standby, open_queue
from cec_store.operators import Aggregate, ArrowSource, CountWindow, Runner, record_schema
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.memory import MemoryFileSystem
from cec_store.storage.stores.retrying import Retries
from support.places import damaged_queues as made

ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("at", pa.timestamp("us"))])


def sums() -> Aggregate:
    return Aggregate(
        group_by=["k"], aggregates={"s": ("sum", "v")}, window=CountWindow(3), input_schema=ROWS
    )


def source() -> ArrowSource:
    numbers = list(range(41))
    table = pa.table({"k": [n % 2 for n in numbers], "v": numbers, "at": numbers}, schema=ROWS)
    return ArrowSource(table, "at")


@pytest.fixture(autouse=True)
def _all_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "cec_store")


def lines(caplog: pytest.LogCaptureFixture, room: str) -> list[tuple[str, str]]:
    """Levels and words, of a room."""
    return [(each.levelname, each.getMessage()) for each in caplog.records if each.name == room]


def test_a_recovery_says_that_it_began_and_what_it_took(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    schema = record_schema(sums())
    with open_queue(tmp_path / "q", "a", schema=schema) as queue:
        Runner(sums(), [source()], queue).run()
    assert lines(caplog, "cec_store.operators.runner") == [], "there was nothing to recover"
    with open_queue(tmp_path / "q", "a", schema=schema) as queue:
        found = Runner(sums(), [source()], queue).recovery
    assert found is not None
    (level, began), (_, ended) = lines(caplog, "cec_store.operators.runner")
    assert level == "INFO"
    assert began == f"{tmp_path / 'q'}: recovery begins, at offset {queue.durable_offset}"
    assert f"{found.extent.open_windows} open windows: {found.extent.records} records" in ended
    assert f"{found.replayed_rows} rows replayed" in ended


def test_a_torn_tail_that_is_cut_is_told_with_file_and_byte(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = made.make_operator_queue(tmp_path / "q", 200)
    caplog.clear()
    newest = made.segments(path)[-1]
    whole = newest.stat().st_size
    newest.write_bytes(newest.read_bytes() + b"half a frame")
    open_queue(path, "a").close()
    (said,) = [
        words for level, words in lines(caplog, "cec_store.log.reopening") if level == "WARNING"
    ]
    assert said.startswith(f"{newest}: an unfinished write of 12 bytes at byte {whole}")
    assert "is cut off" in said


def test_whoever_takes_over_and_whoever_was_fenced_say_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    schema = record_schema(sums())
    primary = open_queue(tmp_path / "q", "a", schema=schema)
    Runner(sums(), [source()], primary).run()
    with Standby(tmp_path / "q", sums, [source()]) as standby:
        taken = standby.take_over()
    (told,) = lines(caplog, "cec_store.standby.standby")
    assert told[0] == "WARNING"
    assert "taken over by passive standby in 0." in told[1]
    with pytest.raises(Fenced):
        primary.roll()
    # The writer's thread says it, which may be after its caller was told.
    primary.close()
    (told,) = lines(caplog, "cec_store.log.pipeline.pipeline")
    assert told[0] == "WARNING"
    assert told[1].startswith("fenced: ")
    taken.queue.close()


def test_a_call_that_is_made_again_is_told_with_its_number(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fsspec")
    answers = [TimeoutError("no answer"), TimeoutError("no answer"), 7]

    def size(_: object, path: str) -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(MemoryFileSystem, "size", size)
    store = store_at("memory://asked", retries=Retries(first_pause_s=0.0))
    assert store.size("b") == 7
    said = lines(caplog, "cec_store.storage.stores.fsspec_store")
    assert [level for level, _ in said] == ["WARNING", "WARNING"]
    assert ["attempt 2" in said[0][1], "attempt 3" in said[1][1]] == [True, True]
