"""Readers that come back when what they want is gone are told so, or go on where they may."""

from pathlib import Path

import pytest

from cec_store import OutOfRange, Retention, open_queue
from cec_store.partitioned.offsets import Range
from cec_store.partitioned.read_options import parse
from cec_store.partitioned.reading import StreamReader
from cec_store.storage.local import LocalFolder
from support.places.partitioned_queues import QUERY, SCHEMA, rows, stage
from support.places.version_1 import Committer


def reader(path: Path, fail: str = "true") -> StreamReader:
    given = {"path": str(path), "consumer": "hourly", "startingOffsets": "earliest"}
    return StreamReader(parse({**given, "failOnDataLoss": fail}, is_stream=True))


def test_a_stream_whose_rows_are_gone_fails_or_goes_on_as_it_was_told(tmp_path: Path) -> None:
    path = tmp_path / "trades"
    kept = Retention.of("1us")
    committer = Committer(LocalFolder(path), SCHEMA, segment_bytes=600, retention=kept)
    committer.commit(QUERY, 0, stage(committer, 0, {0: rows(0, 5)}))
    committer.close()
    # The queue goes on by reference: a consumer is registered by a commit.
    start = reader(path).begin()
    with open_queue(path, "a", partitions=1) as queue:
        for batch in range(1, 11):
            queue.append(rows(10 * batch, 5))
        queue.trim()
        oldest = queue.starts()[0]
        queue.append(rows(110, 5))
        assert 5 < oldest < queue.ends()[0] == 60
    with pytest.raises(OutOfRange, match=f"offset 0 is not in {oldest} … 60: it is trimmed"):
        reader(path).next_end(start, takes_all=True)
    goes_on = reader(path, fail="false")
    end = goes_on.next_end(start, takes_all=True)
    assert goes_on.batch(start, end) == [Range(0, oldest, 60)]
    goes_on.acknowledge(end)
    (state,) = open_queue(path).consumers()
    assert state.effects_saved == (60,)
