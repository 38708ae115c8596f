"""What opening, following and walking back read, counted at the folder: calls and bytes."""

from collections import Counter

import pyarrow as pa

from cec_store.format.bodies import encode_body
from cec_store.format.records import data_records, to_timestamps
from cec_store.format.schema import RecordSchema
from cec_store.log.chain import Chain
from cec_store.log.creating import create
from cec_store.log.frames import FrameMarks
from cec_store.log.reopening import reopen
from cec_store.log.replay import Replay
from cec_store.log.selection import Selection
from cec_store.log.writer import LogWriter
from support.disks.memory_folder import MemoryFolder
from support.vectors import make as make_vectors

PLAIN = RecordSchema(pa.schema([("x", pa.int64())]))
RECORDS = data_records(
    PLAIN, pa.record_batch([[*range(50)]], names=["x"]), to_timestamps(pa.array([1] * 50))
)
AROUND = make_vectors.clock_and_entropy()


class CountingFolder(MemoryFolder):
    def __init__(self) -> None:
        super().__init__({})
        self.calls: Counter[str] = Counter()
        self.read_bytes = 0
        self.before = lambda call, name: self.calls.update([call])

    def read(self, name: str, byte: int, size: int) -> bytes:
        data = super().read(name, byte, size)
        self.read_bytes += len(data)
        return data

    def reset(self) -> None:
        self.calls.clear()
        self.read_bytes = 0


def append(writer: LogWriter, frames: int = 1, repeat: int = 1) -> None:
    for _ in range(frames):
        body = encode_body(pa.concat_batches([RECORDS] * repeat), -7)
        writer.append(body, FrameMarks())


def filled(frames: int, repeat: int = 1, sync_every: int = 50) -> tuple[CountingFolder, LogWriter]:
    folder = CountingFolder()
    writer = create(folder, PLAIN, AROUND)
    for number in range(frames):
        append(writer, 1, repeat)
        if number % sync_every == sync_every - 1:
            writer.sync()
    writer.sync()
    return folder, writer


def test_opening_reads_as_much_of_a_long_segment_as_of_a_short_one() -> None:
    found = []
    for frames in (500, 5_000):
        folder, writer = filled(frames)
        writer.close()
        folder.reset()
        chain = Chain(folder)
        assert (chain.end.seq, chain.end.offset) == (frames, frames * 50)
        reading, calls = folder.read_bytes, sum(folder.calls.values())
        folder.reset()
        reopen(folder, None, AROUND)[0].close()
        found.append((reading, calls, folder.read_bytes, folder.calls["names"]))
    (short, short_calls, short_opening, _), (long, calls, opening, _) = found
    assert calls == short_calls
    assert long <= short + 4_096
    assert opening <= short_opening + 4_096
    assert long < 200_000
    assert opening < 400_000


def test_a_sync_lists_no_directory_and_reads_a_manifest_a_header_and_a_note() -> None:
    folder, writer = filled(10)
    folder.reset()
    for _ in range(20):
        append(writer)
        writer.sync()
    assert folder.calls["names"] == 0
    assert folder.calls["read"] == 20 * 3
    assert folder.calls["size"] == 20 * 3
    assert folder.calls["sync"] == 20


def test_a_follower_reads_each_frame_once() -> None:
    """What it costs to follow so many frames grows as they do."""
    costs = []
    for frames in (100, 400):
        folder, writer = filled(1, sync_every=1)
        replay = Replay(Chain(folder), Chain(folder), Selection(follow=True))
        next(replay)
        append(writer)
        writer.sync()
        next(replay)
        folder.reset()
        for _ in range(frames):
            append(writer)
            writer.sync()
            assert next(replay).num_rows == 50
        costs.append((folder.read_bytes, folder.calls["read"], folder.calls["names"]))
    for few, many in zip(*costs, strict=True):
        assert many <= 4.4 * few


def test_a_follower_goes_on_in_the_next_segments() -> None:
    folder, writer = filled(1, sync_every=1)
    replay = Replay(Chain(folder), Chain(folder), Selection(follow=True))
    next(replay)
    for number in range(6):
        append(writer)
        if number % 2:
            writer.roll()
        writer.sync()
        if number == 3:
            continue
        rows = next(replay).num_rows + (next(replay).num_rows if number == 4 else 0)
        assert rows == (100 if number == 4 else 50)
    assert replay.cursor.offset == 7 * 50
    writer.trim(3)
    append(writer)
    writer.sync()
    assert next(replay).num_rows == 50


def test_walking_back_over_headers_reads_them_once() -> None:
    for repeat, frames in ((1, 2_000), (200, 200)):
        folder, writer = filled(frames, repeat)
        writer.close()
        chain = Chain(folder)
        folder.reset()
        frame = chain.last()
        count = 0
        while frame is not None:
            count += 1
            frame = chain.before(frame)
        assert count == frames
        size = folder.size("00000000000000000000.seg")
        assert folder.read_bytes <= 1.5 * size + (64 << 10)
        assert folder.read_bytes <= frames * 1_000 + (64 << 10)
