"""Names and bytes of leases, docs/format.md §14."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import Enum, IntEnum
from typing import Any, NamedTuple, TypeVar

from cec_store.errors import CorruptLog, unknown_version, upgrade_needed
from cec_store.format.checksum import crc_is_right, with_crc
from cec_store.storage.names import check_given_name

VERSION = 1
T = TypeVar("T")
_TENURE = re.compile(r"([0-9]{20})")
_BEAT = re.compile(r"([0-9]{20})\.([0-9]{20})")
_TOKEN = re.compile(r"[0-9a-f]{32}")
_BYTES = struct.Struct("<16sQB3x")
_CRC_BYTES = 4
NOTE_BYTES_MAX = 4096


class KeptIn(str, Enum):
    """Storage of a tenure's beats."""

    LMDB = "lmdb"
    OBJECTS = "objects"


class BeatKind(IntEnum):
    """Kinds of the newest beat. Frozen numbers."""

    HELD = 1
    RELEASED = 2


class Cause(str, Enum):
    """Reasons for which a tenure began."""

    START = "start"
    """Nobody held the lease before, or its holder is no node."""
    FAILOVER = "failover"
    """The holder before it was silent."""
    RESTART = "restart"
    """The same node held it before."""
    HANDOVER = "handover"
    """The holder before it had let go of the lease."""
    SWITCH = "switch"
    """An order names the holder."""


class Beat(NamedTuple):
    """A sign of life: the counter has moved."""

    counter: int
    kind: BeatKind
    note: bytes = b""
    """Bytes that the holder tells with it, at most :data:`NOTE_BYTES_MAX`."""


@dataclass(frozen=True)
class Tenure:
    """One holder's time with a lease; who comes after it has the next number."""

    number: int
    holder: str
    token: str
    """32 hexadecimal digits, drawn for this tenure alone."""
    kept_in: KeptIn
    period_us: int
    misses: int
    cause: Cause = Cause.START


def check_lease_name(name: object) -> str:
    """Return a name that a lease may have.

    Raises:
        ValueError: anything but 1 to 100 of ``A-Z a-z 0-9 . _ -``, the first a letter or digit and
            the last no dot.
    """
    return check_given_name(name, "a lease's")


def tenure_name(number: int) -> str:
    """The object that makes somebody the holder: the first to create it."""
    return f"{number:020d}"


def tenure_of(name: str) -> int | None:
    """The number in such a name; ``None`` for any other name."""
    match = _TENURE.fullmatch(name)
    return int(match[1]) if match else None


def beat_name(tenure: int, counter: int) -> str:
    """The object of one beat."""
    return f"{tenure:020d}.{counter:020d}"


def beat_of(name: str) -> tuple[int, int] | None:
    """Tenure and counter in such a name; ``None`` for any other name."""
    match = _BEAT.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def rows_name(token: str) -> str:
    """The LMDB file with the beats of a tenure; LMDB has its locks in ``…-lock`` beside it."""
    return f"{token}.rows"


def encode_document(facts: Any) -> bytes:
    """Return the bytes of an object that holds these facts, a dataclass, as JSON with a version."""
    return json.dumps({"version": VERSION, **asdict(facts)}, sort_keys=True).encode()


def decode_document(
    data: bytes, path: str, build: Callable[[dict[str, Any]], T], what: str, advice: str
) -> T:
    """Return what ``build`` makes of the fields that :func:`encode_document` has written.

    Raises:
        CorruptLog: it is nothing of the kind, or ``build`` has raised ``ValueError``.
        UnsupportedVersion: a later release has written it.
    """
    try:
        fields = json.loads(data)
        version = fields.pop("version")
        if version != VERSION:
            raise upgrade_needed(path, unknown_version(version, VERSION))
        return build(fields)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise CorruptLog(path, 0, f"these are not the bytes of {what}", advice) from error


def decode_tenure(data: bytes, path: str) -> Tenure:
    """Return the tenure of an object's bytes; raises as :func:`decode_document`."""

    def build(fields: dict[str, Any]) -> Tenure:
        kinds = {"kept_in": KeptIn(fields["kept_in"]), "cause": Cause(fields["cause"])}
        tenure = Tenure(**{**fields, **kinds})
        numbers = (tenure.number, tenure.period_us, tenure.misses)
        is_sound = all(type(n) is int and 0 < n < 2**63 for n in numbers)
        if not (is_sound and type(tenure.holder) is str and _TOKEN.fullmatch(tenure.token)):
            raise ValueError(tenure)
        return tenure

    advice = "delete it once nobody holds the lease"
    return decode_document(data, path, build, "a lease's holder", advice)


def encode_beat(token: str, beat: Beat) -> bytes:
    """Return 32 bytes and the note; the last four are the checksum of the others.

    Raises:
        ValueError: the note is longer than :data:`NOTE_BYTES_MAX`.
    """
    if len(beat.note) > NOTE_BYTES_MAX:
        raise ValueError(f"a note of {len(beat.note):,} bytes; at most {NOTE_BYTES_MAX:,}")
    head = _BYTES.pack(bytes.fromhex(token), beat.counter, beat.kind)
    return with_crc(head + beat.note + bytes(_CRC_BYTES))


def decode_beat(data: bytes, token: str) -> Beat | None:
    """The beat; ``None`` for bytes that are none, or of another tenure."""
    note_bytes = len(data) - _BYTES.size - _CRC_BYTES
    if not 0 <= note_bytes <= NOTE_BYTES_MAX or not crc_is_right(data):
        return None
    written, counter, kind = _BYTES.unpack(data[: _BYTES.size])
    if written.hex() != token or kind not in tuple(BeatKind):
        return None
    return Beat(counter, BeatKind(kind), data[_BYTES.size : -_CRC_BYTES])
