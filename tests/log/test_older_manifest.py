"""A manifest that does not know of segments which are there is damage, and nothing is removed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import open_queue, read_queue
from cec_store.errors import CorruptLog
from cec_store.format.manifest import Manifest
from cec_store.inspector.verifying.log import verify
from cec_store.log.chain import Chain
from cec_store.log.creating import create
from cec_store.log.epochs import read_manifest
from cec_store.log.reopening import reopen
from cec_store.log.writer import LogWriter
from cec_store.storage.local import LocalFolder
from support.disks.memory_folder import MemoryFolder
from support.vectors import make as make_vectors

SCHEMA = pa.schema([("n", pa.int64())])
SAVED_AT, RECORDS = 21, 100


def manifest_of(path: Path) -> Path:
    return max(path.glob("manifest-*"))


def write(path: Path, saved: Path, reopen_every: int) -> None:
    """Acknowledged records, of which the saved manifest knows the first ones; rolls between."""
    queue = open_queue(str(path), "a", schema=SCHEMA)
    for n in range(RECORDS):
        queue.append(pa.record_batch([[n]], names=["n"]), sync=True)
        if n + 1 == SAVED_AT:
            saved.mkdir()
            shutil.copy(manifest_of(path), saved)
        if n % 10 == 9:
            queue.roll()
        if n % reopen_every == reopen_every - 1:
            queue.close()
            queue = open_queue(str(path), "a")
    queue.close()


def same_name(path: Path, saved: Path) -> None:
    (copy,) = saved.iterdir()
    shutil.copy(copy, path)


def in_its_place(path: Path, saved: Path) -> None:
    """The manifest of another epoch, with none of the newer ones."""
    for newer in path.glob("manifest-*"):
        newer.unlink()
    same_name(path, saved)


def without_notes(path: Path, saved: Path) -> None:
    """With the notes gone as well the segments themselves show it."""
    for note in path.glob("durable-*"):
        note.unlink()
    in_its_place(path, saved)


def refused(path: Path) -> None:
    before = {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}
    doors: list[Callable[[], object]] = [
        lambda: open_queue(str(path)),
        lambda: open_queue(str(path), "a"),
        lambda: open_queue(str(path), "a", takeover=True),
        lambda: read_queue(str(path)).read_all(),
    ]
    for door in doors:
        with pytest.raises(CorruptLog, match="the manifest is older than") as raised:
            door()
        assert raised.value.path == str(manifest_of(path))
    found = verify(LocalFolder(path))
    assert "manifest-old" in {fault.kind for fault in found.faults}
    assert before == {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}


@pytest.mark.parametrize("put_back", [same_name, in_its_place, without_notes])
@pytest.mark.parametrize("reopen_every", [RECORDS + 1, 15])
def test_an_older_manifest_deletes_nothing(
    put_back: Callable[[Path, Path], None], reopen_every: int, tmp_path: Path
) -> None:
    path, saved, newest = tmp_path / "queue", tmp_path / "saved", tmp_path / "newest"
    write(path, saved, reopen_every)
    newest.mkdir()
    shutil.copy(manifest_of(path), newest)
    if put_back is same_name and reopen_every <= RECORDS:
        return  # beside a newer manifest the older one does not count
    put_back(path, saved)
    refused(path)
    in_its_place(path, newest)
    assert read_queue(str(path)).read_all().column("n").to_pylist() == list(range(RECORDS))


def test_the_manifest_before_the_newest_roll_is_refused(tmp_path: Path) -> None:
    """One segment above it, which looks as one that is being born, but has been acknowledged."""
    path, saved = tmp_path / "queue", tmp_path / "saved"
    with open_queue(str(path), "a", schema=SCHEMA) as queue:
        for n in range(3):
            queue.append(pa.record_batch([[n]], names=["n"]), sync=True)
            if n == 0:
                saved.mkdir()
                shutil.copy(manifest_of(path), saved)
                queue.roll()
    shutil.copytree(path, tmp_path / "whole")
    without_notes(path, saved)
    refused(path)
    assert open_queue(str(tmp_path / "whole")).durable_offset == 3


def test_a_reader_that_is_open_refuses_an_older_manifest(tmp_path: Path) -> None:
    path, saved = tmp_path / "queue", tmp_path / "saved"
    write(path, saved, RECORDS + 1)
    with open_queue(str(path)) as reader:
        in_its_place(path, saved)
        with pytest.raises(CorruptLog, match="the manifest is older than"):
            assert reader.durable_offset


def born(folder: MemoryFolder, writer: LogWriter) -> tuple[MemoryFolder, str]:
    """What is left where a writer dies before it publishes a segment that it has made."""
    before = folder.copy()
    writer.roll()
    name = max(name for name in folder.files if name.endswith(".seg"))
    before.files[name] = bytearray(folder.files[name])
    return before, name


@pytest.mark.parametrize("left", ["all", "half", "nothing", "zeros"])
def test_a_segment_that_was_being_born_is_removed(left: str) -> None:
    folder, around = MemoryFolder({}), make_vectors.clock_and_entropy()
    writer = create(folder, make_vectors.SCHEMAS["plain"], around)
    folder, name = born(folder, writer)
    data = folder.files[name]
    size = {"all": len(data), "half": len(data) // 2, "nothing": 0, "zeros": 0}[left]
    folder.files[name] = data[:size] + bytes(len(data) if left == "zeros" else 0)
    assert Chain(folder).end.offset == 0
    writer, _ = reopen(folder, None, around)
    assert writer.manifest.newest_segment == 1


def test_a_manifest_with_its_segments_the_wrong_way_round_is_refused(tmp_path: Path) -> None:
    """It had readers look for ever."""
    path = tmp_path / "queue"
    open_queue(str(path), "a", schema=SCHEMA).close()
    manifest = read_manifest(LocalFolder(path))
    manifest_of(path).write_bytes(Manifest(manifest.epoch, manifest.log_id, 2, 1).encode())
    for mode in ("r", "a"):
        with pytest.raises(CorruptLog, match="first segment 2 above newest segment 1"):
            open_queue(str(path), mode)
    assert not verify(LocalFolder(path)).is_sound


def test_a_newest_segment_that_vanishes_under_a_reader_is_missing(tmp_path: Path) -> None:
    """It had readers look for ever: nothing was trimmed, so looking again is of no use."""
    path = tmp_path / "queue"
    open_queue(str(path), "a", schema=SCHEMA).close()
    chain = Chain(LocalFolder(path))
    max(path.glob("*.seg")).unlink()
    with pytest.raises(CorruptLog, match="the segment is missing"):
        chain.refresh()
