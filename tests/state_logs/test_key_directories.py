"""Key directories, as Python looks at them: their checksums, and that nothing else minds them."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

import pytest

from cec_store.format.checksum import crc32c
from cec_store.inspector.verifying.log import verify
from cec_store.state_logs.key_directories import is_of_key_directory, problem_of
from cec_store.storage.local import LocalFolder
from support.places.state_logs import EMPTY, Writer

NAMES = {
    b"CECK": f"{1 << 32:020}-{7:020}.keys",
    b"CECL": f"{1 << 32:020}-{7:020}.live",
}
KEYS = NAMES[b"CECK"]


def file_of(head: bytes, body: bytes = b"", magic: bytes = b"CECK", version: int = 1) -> bytes:
    footer = struct.pack("<4sHHQII", magic, version, 0, len(head), crc32c(head), crc32c(body))
    return body + head + footer + struct.pack("<I", crc32c(footer))


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
    assert problem_in(tmp_path, file_of(b"head" * 9, body, magic), NAMES[magic]) is None


def test_file_of_the_other_kind_is_a_problem(tmp_path: Path) -> None:
    assert problem_in(tmp_path, file_of(b"head", magic=b"CECL")) is not None


def test_every_damaged_byte_is_a_problem(tmp_path: Path) -> None:
    whole, random = file_of(b"head" * 9, b"abcdefghi" * 9), Random(1)
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << random.randrange(8)
        assert problem_in(tmp_path, bytes(damaged)) is not None, at
        assert problem_in(tmp_path, whole[:at]) is not None, at


def test_another_version_is_named(tmp_path: Path) -> None:
    said = problem_in(tmp_path, file_of(b"", version=2))
    assert said == "version 2 of key directories is unknown to this release"


def test_verify_notes_a_damaged_directory_and_goes_on(tmp_path: Path) -> None:
    writer = Writer(LocalFolder(tmp_path), Random(1), blocks=True)
    writer.commit(EMPTY, {(1, b"a"): b"1"})
    (tmp_path / KEYS).write_bytes(file_of(b"head", b"hashes"))
    assert not verify(LocalFolder(tmp_path)).notes
    (tmp_path / KEYS).write_bytes(file_of(b"head", b"hashes")[1:])
    report = verify(LocalFolder(tmp_path))
    assert not report.faults
    (note,) = report.notes
    assert KEYS in note.path
    assert "its body fails its checksum" in note.what
    assert "can be deleted" in note.what
