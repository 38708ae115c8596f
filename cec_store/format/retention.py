"""Retention of a queue's records, as stored on disk. docs/format.md §10."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from struct import Struct

from cec_store.errors import CorruptLog, unknown_version, upgrade_needed
from cec_store.format.checksum import crc_is_right, with_crc
from cec_store.values import SIZE_UNITS, parse_size

_MAGIC = b"CECRETN\0"
_VERSION = 1
_LAYOUT = Struct("<8sHHI16sQq12xI")
RETENTION_BYTES = _LAYOUT.size
assert RETENTION_BYTES == 64
_VALUE_END = 1 << 63
_WRITTEN = re.compile(r"([0-9]+)\s*([a-z]+)")
_TIMES_US = {
    "w": 604_800_000_000, "d": 86_400_000_000, "h": 3_600_000_000, "min": 60_000_000,
    "s": 1_000_000, "ms": 1000, "us": 1,
}  # fmt: skip
_SIZE_NAMES = {"tib": "TiB", "gib": "GiB", "mib": "MiB", "kib": "KiB"}


class RetentionMode(IntEnum):
    """Rule by which rows may be deleted without being asked. Frozen numbers."""

    FOREVER = 0
    """Nothing."""
    CONSUMERS = 1
    """Rows that all registered consumers have acknowledged as saved."""
    TIME = 2
    """Rows that were written longer ago."""
    BYTES = 3
    """Rows beyond so many bytes."""

    @property
    def has_value(self) -> bool:
        """Return True for a length of time or a size."""
        return self in (RetentionMode.TIME, RetentionMode.BYTES)


@dataclass(frozen=True)
class Retention:
    """A queue's setting. ``str`` of one is what :meth:`of` makes it from again.

    Examples:
        >>> Retention.of("10GiB")
        Retention(mode=<RetentionMode.BYTES: 3>, value=10737418240)
        >>> str(Retention.of(timedelta(days=2)))
        '2d'
    """

    mode: RetentionMode = RetentionMode.FOREVER
    value: int = 0
    """Microseconds or bytes; 0 for the modes that have none."""

    @classmethod
    def of(cls, asked: Retention | str | timedelta | int) -> Retention:
        """``forever``, ``consumers``, a length of time or a number of bytes.

        As text ``7d`` (of w, d, h, min, s, ms, us) or ``10GiB`` (of B, kB … TB, KiB … TiB).

        Raises:
            ValueError: anything else.
        """
        if isinstance(asked, Retention):
            return asked
        if isinstance(asked, timedelta):
            return cls._checked(RetentionMode.TIME, asked // timedelta(microseconds=1), asked)
        if isinstance(asked, int) and not isinstance(asked, bool):
            return cls._checked(RetentionMode.BYTES, asked, asked)
        text = asked.strip().lower() if isinstance(asked, str) else ""
        if text in ("forever", "consumers"):
            return cls(RetentionMode[text.upper()])
        match = _WRITTEN.fullmatch(text)
        if match is not None and match[2] in _TIMES_US:
            return cls._checked(RetentionMode.TIME, int(match[1]) * _TIMES_US[match[2]], asked)
        has_unit = text.endswith(tuple(SIZE_UNITS))
        try:
            size = parse_size(text) if has_unit else 0
        except ValueError:
            size = 0
        return cls._checked(RetentionMode.BYTES, size, asked)

    @classmethod
    def _checked(cls, mode: RetentionMode, value: int, asked: object) -> Retention:
        if not 0 < value < _VALUE_END:
            raise ValueError(
                f"no retention: {asked!r}; it is forever, consumers, a time above 0 such as 7d or "
                "a size such as 10GiB"
            )
        return cls(mode, value)

    def __str__(self) -> str:
        if self.mode is RetentionMode.TIME:
            # In days at most: "7d" is shown as it was asked for.
            whole = (name for name, size in _TIMES_US.items() if self.value % size == 0)
            unit = next(name for name in whole if name != "w")
            return f"{self.value // _TIMES_US[unit]}{unit}"
        if self.mode is RetentionMode.BYTES:
            units = ((name, SIZE_UNITS[unit]) for unit, name in _SIZE_NAMES.items())
            fits = next(((n, size) for n, size in units if self.value % size == 0), ("B", 1))
            return f"{self.value // fits[1]}{fits[0]}"
        return self.mode.name.lower()


FOREVER = Retention()


@dataclass(frozen=True)
class KeptRetention:
    """The file's content."""

    log_id: bytes
    retention: Retention
    set_us: int

    def encode(self) -> bytes:
        rule = self.retention
        data = _LAYOUT.pack(
            _MAGIC, _VERSION, RETENTION_BYTES, rule.mode, self.log_id, rule.value, self.set_us, 0
        )
        return with_crc(data)

    @classmethod
    def decode(cls, data: bytes, path: str) -> KeptRetention:
        """Raises :class:`UnsupportedVersion` or :class:`CorruptLog`."""
        version = int.from_bytes(data[8:10], "little")
        is_ours, is_whole = data.startswith(_MAGIC), len(data) == RETENTION_BYTES
        is_sound = is_ours and is_whole and crc_is_right(data)
        if is_ours and version > _VERSION and (is_sound or not is_whole):
            raise upgrade_needed(path, unknown_version(version, _VERSION))
        if not is_sound or version != _VERSION:
            raise damaged_retention(path, 0, "the queue's retention fails its checksum")
        _, _, _, mode, log_id, value, set_us, _ = _LAYOUT.unpack(data)
        has_value = 0 < value < _VALUE_END
        if mode not in set(RetentionMode) or RetentionMode(mode).has_value != has_value:
            raise upgrade_needed(path, f"retention {mode} of {value}")
        return cls(log_id, Retention(RetentionMode(mode), value), set_us)


def damaged_retention(path: str, byte: int, reason: str) -> CorruptLog:
    """The error for a setting that cannot be believed."""
    advice = "set it again by `cec-store consumers --retention`; until then nothing is trimmed"
    return CorruptLog(path, byte, reason, advice)
