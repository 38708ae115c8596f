"""Key directories, as Python looks at them: their checksums, and that nothing else minds them."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

import pytest

from cec_store.format.checksum import crc32c
from cec_store.inspector.verifying.log import verify
from cec_store.state_logs.key_directories import is_key_directory, problem_of
from cec_store.storage.local import LocalFolder
from support.places.state_logs import EMPTY, Writer

NAME = f"{1 << 32:020}-{7:020}.keys"


def directory_of(head: bytes, *runs: bytes) -> bytes:
    start = struct.pack("<4sHHQI", b"CECK", 1, 0, len(head), crc32c(head))
    parts = [start, struct.pack("<I", crc32c(start)), head]
    for run in runs:
        parts += [struct.pack("<Q", len(run)), run, struct.pack("<I", crc32c(run))]
    return b"".join(parts)


def problem_in(tmp_path: Path, data: bytes) -> str | None:
    (tmp_path / NAME).write_bytes(data)
    return problem_of(LocalFolder(tmp_path), NAME)


def test_names() -> None:
    assert is_key_directory(NAME)
    for name in (NAME[1:], NAME + "x", f".{NAME}-part", NAME.replace("keys", "seg"), ""):
        assert not is_key_directory(name)


@pytest.mark.parametrize("runs", [(), (b"",), (b"abc", bytes(3 << 20))], ids=len)
def test_whole_directory_has_no_problem(tmp_path: Path, runs: tuple[bytes, ...]) -> None:
    assert problem_in(tmp_path, directory_of(b"head" * 9, *runs)) is None


def test_every_damaged_byte_is_a_problem(tmp_path: Path) -> None:
    whole, random = directory_of(b"head" * 9, b"abc", b"defghi" * 9), Random(1)
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << random.randrange(8)
        assert problem_in(tmp_path, bytes(damaged)) is not None, at
    for length in range(len(whole)):
        # Whole without its last runs, it is a directory of fewer.
        if length not in (60, 60 + 15):
            assert problem_in(tmp_path, whole[:length]) is not None, length


def test_another_version_is_named(tmp_path: Path) -> None:
    start = struct.pack("<4sHHQI", b"CECK", 2, 0, 0, 0)
    said = problem_in(tmp_path, start + struct.pack("<I", crc32c(start)))
    assert said == "version 2 of key directories is unknown to this release"


def test_verify_notes_a_damaged_directory_and_goes_on(tmp_path: Path) -> None:
    writer = Writer(LocalFolder(tmp_path), Random(1), blocks=True)
    writer.commit(EMPTY, {(1, b"a"): b"1"})
    (tmp_path / NAME).write_bytes(directory_of(b"head", b"run"))
    assert not verify(LocalFolder(tmp_path)).notes
    (tmp_path / NAME).write_bytes(directory_of(b"head", b"run")[:-1])
    report = verify(LocalFolder(tmp_path))
    assert not report.faults
    (note,) = report.notes
    assert NAME in note.path
    assert "cut short" in note.what
    assert "can be deleted" in note.what
