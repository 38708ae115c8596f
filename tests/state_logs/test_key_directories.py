"""Key directories, as Python looks at them: their checksums, and that nothing else minds them."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

import pytest

from cec_store.inspector.measuring.extents import inspect_extent
from cec_store.inspector.verifying.log import verify
from cec_store.state_logs.directory_files import is_of_key_directory, problem_of
from cec_store.state_logs.key_directories import DirectoryLead
from cec_store.state_logs.state_log import StateLog
from cec_store.storage.local import LocalFolder
from support.places.key_directories import sealed
from support.places.state_logs import EMPTY, Writer

NAMES = {
    b"CECK": f"{1 << 32:020}-{7:020}.keys",
    b"CECL": f"{1 << 32:020}-{7:020}.live",
}
KEYS = NAMES[b"CECK"]


def problem_in(tmp_path: Path, data: bytes, name: str = KEYS) -> str | None:
    (tmp_path / name).write_bytes(data)
    return problem_of(LocalFolder(tmp_path), name)


@pytest.mark.parametrize("name", NAMES.values())
def test_names(name: str) -> None:
    assert is_of_key_directory(name)
    for other in (name[1:], name + "x", f".{name}-part", name[:-4] + "seg", ""):
        assert not is_of_key_directory(other)


@pytest.mark.parametrize("body", [b"", b"abc", bytes(3 << 20)], ids=len)
@pytest.mark.parametrize("magic", NAMES)
def test_whole_file_has_no_problem(tmp_path: Path, magic: bytes, body: bytes) -> None:
    assert problem_in(tmp_path, sealed(magic, b"head" * 9, body), NAMES[magic]) is None


def test_file_of_the_other_kind_is_a_problem(tmp_path: Path) -> None:
    assert problem_in(tmp_path, sealed(b"CECL", b"head")) is not None


def test_every_damaged_byte_is_a_problem(tmp_path: Path) -> None:
    whole, random = sealed(b"CECK", b"head" * 9, b"abcdefghi" * 9), Random(1)
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << random.randrange(8)
        assert problem_in(tmp_path, bytes(damaged)) is not None, at
        assert problem_in(tmp_path, whole[:at]) is not None, at


def test_another_version_is_named(tmp_path: Path) -> None:
    said = problem_in(tmp_path, sealed(b"CECK", b"", version=2))
    assert said == "version 2 of key directories is unknown to this release"


def described(folder: LocalFolder, version: int, keys: bytes) -> str:
    """Make a live file of a version, and the key file that it names; returns its name."""
    lineage = StateLog(folder).version_reader(version)
    last = lineage.last_frame
    segment_id, byte, seq = *last.address, last.header.seq
    crc = lineage.chain_crc_after(last)
    head = struct.pack("<QQQIQQQ", segment_id, byte, seq, crc, version, 1, last.header.end_offset)
    head += struct.pack("<I", 3) + b"abc"
    head += struct.pack("<IQQ", 1, segment_id, seq) + keys[-12:-4] + struct.pack("<I", 0)
    name = f"{segment_id:020}-{seq:020}"
    (Path(folder.path) / f"{name}.live").write_bytes(sealed(b"CECL", head))
    (Path(folder.path) / f"{name}.keys").write_bytes(keys)
    return f"{name}.live"


def lead_to(folder: LocalFolder, version: int) -> DirectoryLead | None:
    state = inspect_extent(folder, at=version).state
    assert state is not None
    return state.directory


def test_directory_leads_to_later_versions_of_its_lineage(tmp_path: Path) -> None:
    folder, keys = LocalFolder(tmp_path), sealed(b"CECK", b"head", b"hash" * 9)
    writer = Writer(folder, Random(1), blocks=True)
    made = writer.commit(EMPTY, {(1, b"a"): b"1", (1, b"b"): b"2"})
    made = second = writer.commit(made, {(1, b"c"): b"3"})
    for version in range(3, 6):
        made = writer.commit(made, {(1, b"%d" % version): b"4", (1, b"c"): b"5"})
    assert lead_to(folder, 5) is None
    name = described(folder, 2, keys)
    lead = lead_to(folder, 5)
    assert lead is not None
    assert (lead.files[0], lead.version, lead.records) == (name, 2, 6)
    own_bytes = len(keys) + folder.size(name)
    frames = [frame.header for frame in StateLog(folder).version_reader(5).frames()][2:]
    assert lead.stored_bytes == own_bytes + sum(header.frame_bytes for header in frames)
    assert lead.raw_bytes == own_bytes + sum(header.raw_bytes for header in frames)
    assert lead_to(folder, 1) is None
    # Another attempt at version 3 goes on from it, too.
    other = Writer(folder, Random(2), blocks=True)
    other.commit(second, {(1, b"d"): b"6"})
    lead = lead_to(folder, 3)
    assert lead is not None
    assert lead.records == 1


def test_of_two_directories_the_newest_that_leads_there_counts(tmp_path: Path) -> None:
    folder, keys = LocalFolder(tmp_path), sealed(b"CECK", b"head", b"hash" * 9)
    writer = Writer(folder, Random(1), blocks=True)
    made = EMPTY
    for version in range(5):
        made = writer.commit(made, {(1, b"%d" % version): b"4"})
    names = [described(folder, version, keys) for version in (2, 4)]
    for version, name in ((5, names[1]), (4, names[1]), (3, names[0]), (2, names[0])):
        lead = lead_to(folder, version)
        assert lead is not None
        assert lead.files == (name, name.replace(".live", ".keys"))


def test_directory_that_is_damaged_or_of_other_frames_leads_nowhere(tmp_path: Path) -> None:
    folder, keys = LocalFolder(tmp_path), sealed(b"CECK", b"head", b"hash" * 9)
    writer = Writer(folder, Random(1), blocks=True)
    made = writer.commit(EMPTY, {(1, b"a"): b"1"})
    writer.commit(made, {(1, b"c"): b"3"})
    name = described(folder, 1, keys)
    live, key_file = tmp_path / name, tmp_path / name.replace("live", "keys")
    assert lead_to(folder, 2) is not None
    whole = live.read_bytes()
    for at in range(len(whole)):
        live.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert lead_to(folder, 2) is None, at
    for at in (0, 8, 16, 24):  # segment, byte, number and chain CRC, with checksums that are right
        head = bytearray(whole[:-28])
        head[at] ^= 1
        live.write_bytes(sealed(b"CECL", bytes(head)))
        assert lead_to(folder, 2) is None, at
    live.write_bytes(whole)
    key_file.write_bytes(sealed(b"CECK", b"head", b"hush" * 9))
    assert lead_to(folder, 2) is None
    key_file.unlink()
    assert lead_to(folder, 2) is None


def test_verify_notes_a_damaged_directory_and_goes_on(tmp_path: Path) -> None:
    writer = Writer(LocalFolder(tmp_path), Random(1), blocks=True)
    writer.commit(EMPTY, {(1, b"a"): b"1"})
    (tmp_path / KEYS).write_bytes(sealed(b"CECK", b"head", b"hashes"))
    assert not verify(LocalFolder(tmp_path)).notes
    (tmp_path / KEYS).write_bytes(sealed(b"CECK", b"head", b"hashes")[1:])
    report = verify(LocalFolder(tmp_path))
    assert not report.faults
    (note,) = report.notes
    assert KEYS in note.path
    assert "its body fails its checksum" in note.what
    assert "can be deleted" in note.what
