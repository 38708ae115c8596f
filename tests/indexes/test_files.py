"""The index's files: when they are published, what stays of them, and what memory answers."""

from pathlib import Path

import pytest

from cec_store.indexes import timestamp
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.log.chain import Chain
from cec_store.storage.names import INDEX_STAMP
from support.disks.open_files import open_below
from support.models.index_oracle import (
    append,
    assert_equals_scan,
    build,
    chain_of,
    make_queue,
    open_for_append,
    published_file,
)


def publishings(path: Path, frames: int) -> list[int]:
    """After how many frames a writer's index, which follows each, has published another file."""
    found = []
    before = ""
    with open_for_append(path, "x") as queue:
        index = TimestampIndex(queue.chain(), writable=True)
        for number in range(1, frames + 1):
            append(queue, [number])
            queue.sync()
            index.follow(queue.chain())
            there = (path / "index" / INDEX_STAMP).exists()
            now = published_file(path).name if there else ""
            if now != before:
                found.append(number)
            before = now
        index.close()
    return found


def test_the_first_publishing_is_due_after_1024_frames(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    with open_for_append(path, "x") as queue:
        for number in range(1_023):
            append(queue, [number])
        queue.sync()
        index = TimestampIndex(queue.chain(), writable=True)
        index.follow()
        assert not (path / "index" / INDEX_STAMP).exists()
        append(queue, [0])
        queue.sync()
        index.follow(queue.chain())
        assert TimestampIndex(queue.chain()).stored_frames == 1_024
        index.close()


def test_later_ones_are_due_when_a_quarter_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that all that is ever copied is no more than a few times the index."""
    monkeypatch.setattr(timestamp, "_FRAMES_PER_PUBLISHING", 4)
    assert publishings(tmp_path / "queue", 40) == [4, 8, 12, 16, 22, 30, 40]


def test_of_the_files_published_the_last_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timestamp, "_FRAMES_PER_PUBLISHING", 4)
    path = tmp_path / "queue"
    publishings(path, 21)
    assert {file.name for file in (path / "index").iterdir()} == {
        INDEX_STAMP, published_file(path).name,
    }  # fmt: skip
    assert TimestampIndex(chain_of(path)).stored_frames == 21


def test_an_index_that_goes_on_publishes_when_a_quarter_is_new_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was opened with has been published already."""
    monkeypatch.setattr(timestamp, "_FRAMES_PER_PUBLISHING", 4)
    path = tmp_path / "queue"
    publishings(path, 16)
    before = published_file(path)
    with open_for_append(path) as queue:
        index = TimestampIndex(queue.chain(), writable=True)
        for number in range(3):
            append(queue, [100 + number])
            queue.sync()
            index.follow(queue.chain())
        assert published_file(path) == before
        index.close()
    assert published_file(path) != before


def test_a_file_that_does_not_fit_the_log_is_closed(tmp_path: Path) -> None:
    path = make_queue(tmp_path / "queue", [[1], [2]])
    build(path).close()
    with open_for_append(path) as queue:
        append(queue, [3])
        queue.sync()
        queue.trim(queue.end_offset)
    reader = TimestampIndex(chain_of(path))
    assert reader.problem == "the index covers what is not in the log"
    assert not open_below(path)
    assert_equals_scan(reader, chain_of(path))


def test_what_a_reader_has_seen_it_answers_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_queue(tmp_path / "queue", [[n] for n in range(9)], roll_every=3)
    reader, chain = TimestampIndex(chain_of(path)), chain_of(path)
    found = [reader.find_timestamp(n, chain) for n in range(9)]

    def scanned(self: Chain, *_: object) -> None:
        raise AssertionError("the log was scanned")

    monkeypatch.setattr(Chain, "frames", scanned)
    assert [reader.find_timestamp(n, chain) for n in range(9)] == found
    assert [frame.header.seq for frame in found if frame] == list(range(9))
