"""Readers that come back when what they want is gone are told so, or go on where they may."""

from pathlib import Path

import pytest

from cec_store import OutOfRange, Position, Retention, open_queue
from cec_store.partitioned.committer import Committer
from cec_store.partitioned.partitions import Partitions
from cec_store.storage.local import LocalFolder
from support.places.partitioned_queues import QUERY, SCHEMA, rows, stage


def a_short_queue(path: Path, batches: int, first: int = 0) -> None:
    """One that keeps hardly anything: of five rows a batch."""
    kept = Retention.of("1us")
    committer = Committer(LocalFolder(path), SCHEMA, segment_bytes=600, retention=kept)
    for batch in range(first, first + batches):
        committer.commit(QUERY, batch, stage(committer, batch, {0: rows(10 * batch, 5)}))
    committer.close()


def test_a_stream_whose_rows_are_gone_fails_or_goes_on_as_it_was_told(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from cec_store.connectors.spark.queues.source import StreamSource, columns
    from cec_store.connectors.spark.queues.source_options import parse

    path = tmp_path / "trades"

    def source(fail: str) -> StreamSource:
        given = {"path": str(path), "consumer": "hourly", "startingOffsets": "earliest"}
        options = parse({**given, "failOnDataLoss": fail}, is_stream=True)
        return StreamSource(options, columns(options))

    a_short_queue(path, 1)
    early = source("true")
    start = early.initialOffset()
    early.stop()
    a_short_queue(path, 11, 1)
    oldest = Partitions(LocalFolder(path)).first(0)
    assert oldest > 5
    late = source("true")
    with pytest.raises(OutOfRange, match=f"needs records from 0 on, and the oldest is {oldest}"):
        late.latestOffset(start, late.getDefaultReadLimit())
    late.stop()
    goes_on = source("false")
    end = goes_on.latestOffset(start, goes_on.getDefaultReadLimit())
    (piece,) = goes_on.partitions(start, end)
    assert (piece.range.start, piece.range.stop) == (oldest, 60)  # type: ignore[attr-defined]
    goes_on.commit(end)
    goes_on.stop()
    with open_queue(path / "partition-00000") as queue:
        (state,) = queue.consumers()
        assert state.effects_saved == 60
        with pytest.raises(OutOfRange, match=f"not in {oldest}"):
            next(queue.replay(Position(0)))
