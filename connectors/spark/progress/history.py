"""Progress of a query over its life, in a bounded number of stretches. docs/format.md §15.

Values only: `progress_file` reads and writes them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace
from itertools import pairwise
from statistics import median_low
from typing import Any

STRETCHES_MAX = 1024
FILE_BYTES_MAX = 1 << 20
"""A larger file is none of ours; 1,024 stretches take a quarter of it."""
GAP_US_MIN = 60_000_000
_GAP_PERIODS = 3
_FORMAT, _VERSION = "cec-progress", 1
_INT_MAX = 2**63 - 1


@dataclass(frozen=True)
class Stretch:
    """Batches that followed each other. Moments are microseconds since 1970 UTC."""

    from_us: int
    """Time at which the first batch began."""
    until_us: int
    """Time at which the last batch ended."""
    batch: int
    """Number of the last batch."""
    batches: int
    batch_us: int
    """Microseconds of all batches together."""
    batch_max_us: int
    """Microseconds of the longest batch."""
    rows: int
    """Rows of input of all batches together."""
    commit_us: int | None = None
    """Microseconds that the mean state store took to commit, of all batches together."""
    watermark_us: int | None = None
    """Watermark of the last batch; ``None`` before there is one, or without one."""
    memory_bytes: int | None = None
    """Memory of the state stores after the last batch, as Spark says it."""
    replica_lag_versions: int | None = None
    """Versions that replicas lacked after the last batch, over all; ``None`` without replicas."""

    def joined(self, later: Stretch) -> Stretch:
        """Return one stretch in place of this and the next."""
        commits = [us for us in (self.commit_us, later.commit_us) if us is not None]
        return replace(
            later,
            # A clock may have gone back between them.
            from_us=min(self.from_us, later.from_us),
            until_us=max(self.until_us, later.until_us),
            batches=self.batches + later.batches,
            batch_us=self.batch_us + later.batch_us,
            batch_max_us=max(self.batch_max_us, later.batch_max_us),
            rows=self.rows + later.rows,
            commit_us=sum(commits) if commits else None,
        )


_NAMES = tuple(field.name for field in fields(Stretch))
_OPTIONAL = frozenset(("commit_us", "watermark_us", "memory_bytes", "replica_lag_versions"))


def gaps_before(stretches: Sequence[Stretch]) -> list[bool]:
    """Return for each stretch if nothing is known of the time between it and the one before.

    That is so where it is longer than a minute, and than three times the usual time from one
    stretch to the next: the query did not run, or had no batch to run.
    """
    pairs = list(pairwise(stretches))
    usual_us = median_low([b.from_us - a.from_us for a, b in pairs]) if pairs else 0
    longest_us = max(GAP_US_MIN, _GAP_PERIODS * usual_us)
    return [False] * bool(stretches) + [b.from_us - a.until_us > longest_us for a, b in pairs]


def spans_s(stretches: Sequence[Stretch]) -> list[float]:
    """Return the seconds over which the rows of each stretch came.

    They count from the end of the stretch before; at the beginning and after a gap from its own
    beginning to that of the next, because its input may have come for as long.
    """
    gaps = [*gaps_before(stretches), True]
    spans_us = []
    for number, stretch in enumerate(stretches):
        if number and not gaps[number]:
            begin_us = min(stretches[number - 1].until_us, stretch.from_us)
            spans_us.append(stretch.until_us - begin_us)
        elif gaps[number + 1]:
            spans_us.append(stretch.until_us - stretch.from_us)
        else:
            spans_us.append(stretches[number + 1].from_us - stretch.from_us)
    return [max(span_us, 1000) / 1e6 for span_us in spans_us]


def bounded(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Return at most :data:`STRETCHES_MAX` stretches of the same time.

    Neighbours are joined in pairs, the oldest the most often; over gaps only where nothing else
    makes them few enough.
    """
    kept = list(stretches)
    if len(kept) > STRETCHES_MAX:
        gaps = gaps_before(kept)
        kept = _in_pairs(kept, gaps)
    while len(kept) > STRETCHES_MAX:
        kept = _in_pairs(kept, [False] * len(kept))
    return kept


def _in_pairs(stretches: Sequence[Stretch], gaps: Sequence[bool]) -> list[Stretch]:
    pairs: list[Stretch] = []
    has_partner = True
    for stretch, is_gap in zip(stretches, gaps, strict=True):
        if has_partner or is_gap:
            pairs.append(stretch)
            has_partner = False
        else:
            pairs[-1] = pairs[-1].joined(stretch)
            has_partner = True
    return pairs


def encode(stretches: Sequence[Stretch]) -> bytes:
    """Return the bytes of a progress file."""
    document = {
        "format": _FORMAT,
        "version": _VERSION,
        "columns": _NAMES,
        "stretches": [astuple(stretch) for stretch in stretches],
    }
    return json.dumps(document, separators=(",", ":")).encode()


def decode(data: bytes) -> list[Stretch]:
    """Return the stretches in the bytes of a progress file.

    Raises:
        ValueError: it is none, not whole, or of a later version.
    """
    document = json.loads(data.decode())
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError("no progress file")
    if document.get("version") != _VERSION or document.get("columns") != list(_NAMES):
        raise ValueError("a progress file of another version")
    rows = document.get("stretches")
    if not isinstance(rows, list) or len(rows) > STRETCHES_MAX:
        raise ValueError("a progress file without stretches, or with too many")
    return [_stretch(row) for row in rows]


def _stretch(row: Any) -> Stretch:
    if not isinstance(row, list) or len(row) != len(_NAMES):
        raise ValueError("a stretch with other columns")
    for name, value in zip(_NAMES, row, strict=True):
        is_number = type(value) is int and abs(value) <= _INT_MAX
        if not (is_number or (value is None and name in _OPTIONAL)):
            raise ValueError(f"{name} is {str(value)[:40]!r}")
    stretch = Stretch(*row)
    if stretch.batches < 1 or stretch.until_us < stretch.from_us:
        raise ValueError("a stretch without batches, or that ends before it begins")
    return stretch
