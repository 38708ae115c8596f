"""What the index has on disk: the rows of one made anew, and answers without a look at the log."""

import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from cec_store.indexes import stored
from cec_store.indexes.entries import BadIndex, TimestampEntry
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.log.chain import Chain
from support.models.index_oracle import (
    append,
    assert_equals_scan,
    build,
    chain_of,
    make_queue,
    open_for_append,
    rows_of,
)


def history(generator: random.Random, drift: int) -> list[Sequence[int]]:
    """Moments that rise by ``drift`` a frame, with frames that are late by up to ten."""
    return [
        [n * drift - generator.randrange(10) for _ in range(generator.randint(1, 2))]
        for n in range(24)
    ]


@pytest.mark.parametrize("drift", [-1, 0, 1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_after_any_trims_the_rows_are_those_of_an_index_made_anew(
    tmp_path: Path, seed: int, drift: int
) -> None:
    generator = random.Random(seed)
    frames = history(generator, drift)
    path = make_queue(tmp_path / "queue", frames, roll_every=generator.randint(1, 4))
    build(path).close()
    for share in sorted(generator.random() for _ in range(3)):
        with open_for_append(path) as queue:
            queue.trim(int(share * queue.end_offset))
        require_rows(path)
    with open_for_append(path) as queue:
        for moments in history(generator, drift):
            append(queue, moments)
    require_rows(path)


def require_rows(path: Path) -> None:
    index = build(path)
    assert_equals_scan(index, chain_of(path))
    assert (index.dropped, index.problem) == (0, "")
    index.close()
    assert rows_of(path) == rows_made_anew(path)


def rows_made_anew(path: Path) -> dict[str, list[tuple[bytes, bytes]]]:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "queue")
        shutil.copytree(path, copy, ignore=shutil.ignore_patterns("index"))
        build(copy).close()
        return rows_of(copy)


def test_where_all_that_it_covers_is_trimmed_the_index_is_made_anew(tmp_path: Path) -> None:
    path = make_queue(tmp_path / "queue", [[n] for n in range(6)], roll_every=2)
    index = build(path)
    with open_for_append(path) as queue:
        append(queue, [3])
        queue.sync()
        queue.trim(queue.end_offset)
    index.follow(chain_of(path))
    assert index.dropped == 1
    index.close()
    assert rows_of(path) == rows_made_anew(path)


def test_a_published_index_answers_without_a_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_queue(tmp_path / "queue", [[n * 5 % 7, -n] for n in range(30)], roll_every=4)
    build(path).close()
    frames = list(chain_of(path).frames())
    index, chain = TimestampIndex(chain_of(path)), chain_of(path)

    def scanned(self: Chain, *_: object) -> None:
        raise AssertionError("the log was scanned")

    for name in ("find_seq", "find_offset", "find_timestamp", "frames"):
        monkeypatch.setattr(Chain, name, scanned)
    for frame in frames:
        assert index.find_seq(frame.header.seq, chain) == frame
        for offset in range(frame.header.first_offset, frame.header.end_offset):
            assert index.find_offset(offset, chain) == frame
    for moment in range(-30, 7):
        found = next(f for f in frames if f.header.max_timestamp_us >= moment)
        assert index.find_timestamp(moment, chain) == found


def test_a_row_that_says_how_far_a_frame_reaches_is_proven(tmp_path: Path) -> None:
    chain = chain_of(make_queue(tmp_path / "queue", [[10], [20]]))
    frame = next(iter(chain.frames()))
    header = frame.header
    claim = TimestampEntry(
        10, header.seq, frame.address.segment_id, frame.address.byte, header.header_crc, 0
    )
    assert stored.prove(claim, chain) == frame
    with pytest.raises(BadIndex, match="does not reach 11"):
        stored.prove(claim._replace(upto_us=11), chain)
    with pytest.raises(BadIndex, match="another frame than 1"):
        stored.prove(claim._replace(seq=1), chain)
