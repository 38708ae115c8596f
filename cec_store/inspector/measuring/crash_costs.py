"""Estimate what a crash now would cost: the time of a load and of a replay, from rates.

A load opens a log, reads the extent's bytes, checks and decompresses them into records, and decides
which of them are the newest of their keys. Opening has a fixed cost, and each of the others a rate
of its own, so that one measurement holds for logs with small states and with large ones. Many logs
are loaded by several cores at the same time.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

import pyarrow as pa

from cec_store.checkpoints.last_rows import last_rows
from cec_store.format.schema import KEY
from cec_store.log.frames import Frame
from cec_store.log.reader import LogReader
from cec_store.state_logs.key_directories import DirectoryLead

DEFAULT, REMEMBERED, CALIBRATED = "default", "remembered", "calibrated"
_SAMPLE_BYTES_MAX = 128 << 20
_RAW_BYTES_MIN = 1 << 20
_ROUNDS = 5
_KEYS_PER_RECORD = 2
"""Keys whose hashes a load puts into an index while it decides about one record."""


@dataclass(frozen=True)
class LoadRates:
    """Speed of a machine. The default rates are those of a laptop that is not the newest."""

    read_bytes_per_s: float = 500e6
    """Stored bytes, read and their checksums proven."""
    decode_bytes_per_s: float = 500e6
    """Bytes after decompression: that, and the proof of their structure."""
    decide_records_per_s: float = 5e6
    """Records among which the newest of each key is found."""
    replay_rows_per_s: float = 2e6
    """Rows of input that the operator takes again. No log says how fast its operator is."""
    fixed_s: float = 0.005
    """Opening a log: its files, and the headers at its end.

    By default that of a small state store in a JVM that has just started, on two cores that do
    other work too: 2 to 7 ms, as ``python bench/spark/small_loads.py`` measures it.
    """
    source: str = DEFAULT
    """``default``, ``calibrated`` now, or ``remembered`` from the last time that was done here."""
    fixed_source: str = DEFAULT
    """The same for the fixed cost, which can be measured on any log."""

    @property
    def is_guess(self) -> bool:
        """True if a rate of a load was not measured on this machine."""
        return DEFAULT in (self.source, self.fixed_source)

    def load_s(self, stored_bytes: float, raw_bytes: float, records: float) -> float:
        """Return the seconds that reading back so much takes."""
        reading = stored_bytes / self.read_bytes_per_s + raw_bytes / self.decode_bytes_per_s
        return self.fixed_s + reading + records / self.decide_records_per_s


@dataclass(frozen=True)
class CrashCost:
    """Time to restore one log's state, in seconds."""

    load_s: float
    replay_s: float
    """0 of a state store: a version's state needs no input."""


@dataclass(frozen=True)
class LogLoad:
    """Bytes, records and rows that a load reads of one log.

    One task loads all logs of the same operator and partition.
    """

    operator: int | None
    partition: int | None
    stored_bytes: float
    raw_bytes: float
    records: float
    replay_rows: int = 0

    def by_directory(self, lead: DirectoryLead | None, keys: int) -> LogLoad:
        """The load by a key directory of so many keys, where there is one."""
        if lead is None:
            return self
        records = lead.records + keys / _KEYS_PER_RECORD
        return replace(
            self, stored_bytes=lead.stored_bytes, raw_bytes=lead.raw_bytes, records=records
        )

    def scaled(self, factor: float) -> LogLoad:
        """The load of an extent so many times as long."""
        sizes = (self.stored_bytes, self.raw_bytes, self.records)
        stored, raw, records = (factor * size for size in sizes)
        return replace(self, stored_bytes=stored, raw_bytes=raw, records=records)


@dataclass(frozen=True)
class RestartCost(CrashCost):
    """Time to restore the state of all logs, in seconds."""

    cores: int
    """Cores that load at the same time: those given, or one for each partition if fewer."""


def restart_cost(loads: Sequence[LogLoad], rates: LoadRates, cores: int) -> RestartCost:
    """Return the seconds of a restart: operators follow each other, their partitions share cores.

    The stores of a partition, as a join has them, are loaded by one task.
    """
    tasks: dict[int | None, dict[int | None, float]] = defaultdict(lambda: defaultdict(float))
    for load in loads:
        seconds = rates.load_s(load.stored_bytes, load.raw_bytes, load.records)
        tasks[load.operator][load.partition] += seconds
    load_s = sum(
        max(sum(partitions.values()) / min(cores, len(partitions)), *partitions.values())
        for partitions in tasks.values()
    )
    replay_s = sum(load.replay_rows for load in loads) / rates.replay_rows_per_s
    used = min(cores, max((len(partitions) for partitions in tasks.values()), default=1))
    return RestartCost(load_s, replay_s, used)


def fixed_seconds(open_log: Callable[[], object], seconds_max: float = 1.0) -> float:
    """Return the seconds that opening a log takes: the best of some rounds."""
    began = time.perf_counter()
    best = math.inf
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        open_log()
        best = min(best, time.perf_counter() - start)
        if time.perf_counter() - began > seconds_max:
            break
    return max(best, 1e-6)


def calibrate(
    log_reader: LogReader, frames: Sequence[Frame], seconds_max: float = 3.0
) -> LoadRates | None:
    """Return the rates of this machine, timed on frames of an extent; its fixed cost is a guess.

    The best of some rounds, so from the page cache. ``None`` where the extent has less than a MiB:
    then the cost of each frame would stand for that of its bytes.

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
    """Return the rates as JSON for a cache file, which the user may delete at any time."""
    return json.dumps(asdict(rates), indent=2) + "\n"


def rates_of_text(text: str) -> LoadRates | None:
    """Return the rates in the text of a cache file; ``None`` where they are invalid."""
    sources = ("source", "fixed_source")
    names = [name for name in asdict(LoadRates()) if name not in sources]
    try:
        known = json.loads(text)
        figures = {name: float(known[name]) for name in names}
        told = [DEFAULT if known[name] == DEFAULT else REMEMBERED for name in sources]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not all(0 < figure < math.inf for figure in figures.values()):
        return None
    return replace(LoadRates(source=told[0], fixed_source=told[1]), **figures)  # type: ignore[arg-type]
