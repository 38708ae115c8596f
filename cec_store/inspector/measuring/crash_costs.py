"""What a crash now would cost: the time of a load and of a replay, from rates.

A load reads the extent's bytes, checks and decompresses them into records, and decides which of
them are the newest of their keys. Each of the three has a rate of its own, so that one measurement
holds for logs with small states and with large ones.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

import pyarrow as pa

from cec_store.checkpoints.last_rows import last_rows
from cec_store.format.schema import KEY
from cec_store.log.frames import Frame
from cec_store.log.reader import LogReader

DEFAULT, REMEMBERED, CALIBRATED = "default", "remembered", "calibrated"
_SAMPLE_BYTES_MAX = 128 << 20
_RAW_BYTES_MIN = 1 << 20
_ROUNDS = 5


@dataclass(frozen=True)
class LoadRates:
    """How fast a machine works. The defaults are a guess: a laptop that is not the newest."""

    read_bytes_per_s: float = 500e6
    """Stored bytes, read and their checksums proven."""
    decode_bytes_per_s: float = 500e6
    """Bytes after decompression: that, and the proof of their structure."""
    decide_records_per_s: float = 5e6
    """Records among which the newest of each key is found."""
    replay_rows_per_s: float = 2e6
    """Rows of input that the operator takes again. No log says how fast its operator is."""
    fixed_s: float = 0.05
    """Opening files, reading the tail."""
    source: str = DEFAULT
    """``default``, ``calibrated`` now, or ``remembered`` from the last time that was done here."""

    def load_s(self, stored_bytes: int, raw_bytes: int, records: int) -> float:
        """How long reading back so much takes."""
        reading = stored_bytes / self.read_bytes_per_s + raw_bytes / self.decode_bytes_per_s
        return self.fixed_s + reading + records / self.decide_records_per_s


@dataclass(frozen=True)
class CrashCost:
    """What getting back one log's state takes, in seconds."""

    load_s: float
    replay_s: float
    """0 of a state store: a version's state needs no input."""


def calibrate(
    log_reader: LogReader, frames: Sequence[Frame], seconds_max: float = 3.0
) -> LoadRates | None:
    """Rates of this machine, timed on an extent's frames, of which a sample may stand for all.

    The best of some rounds, so from the page cache. ``None`` where there is too little to be timed.

    Raises:
        CorruptLog, OutOfRange: the extent cannot be read.
    """
    sample: list[Frame] = []
    stored = raw = 0
    for frame in frames:
        if stored >= _SAMPLE_BYTES_MAX:
            break
        sample.append(frame)
        stored, raw = stored + frame.header.body_bytes, raw + frame.header.raw_bytes
    if raw < _RAW_BYTES_MIN or log_reader.schema().key is None:
        return None
    best: list[float] = []
    began = time.perf_counter()
    for _ in range(_ROUNDS):
        taken = _timed(log_reader, sample)
        best = [min(pair) for pair in zip(best or taken, taken, strict=True)]
        if time.perf_counter() - began > seconds_max:
            break
    records = sum(frame.header.record_count for frame in sample)
    read_s, both_s, decide_s = (max(seconds, 1e-9) for seconds in best)
    return LoadRates(
        read_bytes_per_s=stored / read_s,
        decode_bytes_per_s=raw / max(both_s - read_s, 1e-9),
        decide_records_per_s=records / decide_s,
        source=CALIBRATED,
    )


def _timed(log_reader: LogReader, frames: Sequence[Frame]) -> list[float]:
    """Seconds to read the frames; to read and decode them; to decide about their keys."""
    stamps = [time.perf_counter()]
    for frame in frames:
        reader = log_reader.reader(frame.address.segment_id)
        reader.reload()
        reader.body_at(frame.address.byte, frame.header)
    stamps.append(time.perf_counter())
    keys = []
    for frame in frames:
        log_reader.reader(frame.address.segment_id).reload()
        keys.append(log_reader.records(frame).column(KEY))
    stamps.append(time.perf_counter())
    last_rows(pa.chunked_array(keys).combine_chunks())
    stamps.append(time.perf_counter())
    return [after - before for before, after in pairwise(stamps)]


# -- what an earlier calibration found --------------------------------------------------------


def rates_as_text(rates: LoadRates) -> str:
    """For a file of the user's, which may be deleted at any time."""
    return json.dumps(asdict(rates), indent=2) + "\n"


def rates_of_text(text: str) -> LoadRates | None:
    """What such a file says; ``None`` where it makes no sense."""
    names = [name for name in asdict(LoadRates()) if name != "source"]
    try:
        known = json.loads(text)
        values = [float(known[name]) for name in names]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not all(0 < each < math.inf for each in values):
        return None
    return replace(LoadRates(), source=REMEMBERED, **dict(zip(names, values, strict=True)))
