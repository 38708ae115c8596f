"""Checks of a Spark checkpoint or state store: its provider, versions, partitions and size."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.checkpoint.state_schema import begun_repartition
from cec_store.connectors.spark.setup.settings import BUILT_IN, PREFIX, PROVIDER, PROVIDER_KEY
from cec_store.doctor.diagnoses import (
    Diagnosis,
    SettingInForce,
    fault,
    first_of,
    note,
    of_error,
    sound,
)
from cec_store.doctor.machine import clock_line
from cec_store.doctor.session_rules import not_seen_by_executors
from cec_store.doctor.spark_session import SparkSession
from cec_store.errors import CecError, CorruptLog, OutOfRange, RecoveryError, UnsupportedVersion
from cec_store.format.frame import FORMAT_VERSION
from cec_store.inspector.damage.faults import ADVICE
from cec_store.inspector.measuring.extents import extent_of, reader_at
from cec_store.inspector.places.places import Log, Place
from cec_store.state_logs.key_directories import DirectoryLead, directory_to
from cec_store.state_logs.sizing import (
    HEAP_BYTES_PER_KEY,
    HEAP_SHARE_OF_ROWS,
    RUN_BYTES_PER_KEY,
    SMALL_EXTENT_RECORDS,
    index_bytes,
)

_LONG = 4
"""Extent over open windows above which footprints do not keep up; docs/production/monitoring.md."""
_SKEWED = 4
"""Keys of a partition over the mean of its store that call for a line."""
_SKEWED_LEAST = 1_000
_SIZES = {"": 1 << 20, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_GIVEN_TIMES = 2
"""Times the heap that state takes, which executors should have: docs/production/sizing.md."""


@dataclass(frozen=True)
class _LogSize:
    """Size of one state log at the version from which the query goes on."""

    log: Log
    keys: int
    records: int
    """Records of the extent."""
    raw_bytes: int
    directory: DirectoryLead | None = None
    """Key directory by which a restart goes; ``None``: it reads the extent."""


def state_lines(place: Place, session: SparkSession) -> Iterator[Diagnosis]:
    """Yield the lines about a checkpoint or the folder of a state store."""
    checkpoint = place.checkpoint
    told: set[str] = set()
    if checkpoint is not None:
        yield from _provider(place)
        lines = [*_batches(checkpoint), *_kept_otherwise(checkpoint, session)]
        told = {line.what for line in lines}
        yield from lines
        if place.folder.appends:
            line = not_seen_by_executors(session, place.path)
            if line is not None:
                yield line
    if place.provider not in (None, PROVIDER):
        return
    sizes, errors = _sizes(place)
    errors = [error for error in errors if of_error(error[1], place.path).what not in told]
    if errors:
        yield _unreadable(place, errors)
    elif sizes:
        yield sound("version", f"segments of format {FORMAT_VERSION}, which this release writes")
    if sizes:
        yield from _size_lines(sizes, len(place.logs), session)


# -- Spark's files ----------------------------------------------------------------------------


def _provider(place: Place) -> Iterator[Diagnosis]:
    if not place.logs:
        yield sound("provider", "this query has no state")
    elif place.is_built_in:
        name = next(name for name, kind in BUILT_IN.items() if kind == place.provider)
        label = {"rocksdb": "RocksDB", "hdfs": "Spark's HDFS-backed store"}[name]
        what = f"this query continues with {label}: a checkpoint keeps its provider"
        advice = f"`cec-store adopt {place.path} NEW --yes`, and start it with NEW; nothing, if it "
        yield fault("provider", what, f"{advice}is to stay there")
    elif place.provider != PROVIDER:
        what = f"{place.provider} keeps its state, which is neither cec-store nor a store of Spark"
        yield fault("provider", what, "start it in a session that has this class")
    else:
        yield sound("provider", "cec-store keeps its state")


def kept_settings(checkpoint: Checkpoint) -> tuple[SettingInForce, ...]:
    """Return the settings that a checkpoint keeps, whatever the session says."""
    kept = checkpoint.newest_settings()
    return tuple(SettingInForce(name, kept[name], "the checkpoint") for name in sorted(kept))


def _kept_otherwise(checkpoint: Checkpoint, session: SparkSession) -> Iterator[Diagnosis]:
    """Yield the settings of the session in whose place Spark takes those of the checkpoint."""
    for name, kept in sorted(checkpoint.newest_settings().items()):
        if name != PROVIDER_KEY and session.value(name, kept) != kept:
            what = f"{name}={session.value(name)} (set by {session.source(name)}) is without effect"
            advice = "leave it out; for other partitions of state `cec-store repartition`"
            yield note("settings", f"{what}: the checkpoint keeps {kept}", advice)


def _batches(checkpoint: Checkpoint) -> Iterator[Diagnosis]:
    """Yield what the newest batches say: formats, when they began, what was begun and refused."""
    try:
        logged = checkpoint.logged_batches()
        committed = checkpoint.committed_batches()
        if not committed:
            yield note("state", "no batch is committed yet")
        if logged:
            began_us = checkpoint.offsets(logged[-1]).timestamp_us
            what = f"batch {logged[-1]:,} of {checkpoint.path}"
            line = clock_line(time.time(), began_us / 1e6, what)
            if line.advice:
                yield line
        if committed:
            ids = checkpoint.commit(committed[-1]).unique_ids
            form = "V1" if ids is None else "V2, with unique ids"
            yield sound("version", f"Spark's checkpoint format {form}; batch {committed[-1]:,}")
        begun = begun_repartition(checkpoint)
        if begun is not None:
            what = (
                f"Spark has begun to bring state from {begun.before} into {begun.after} partitions "
                f"(batch {begun.batch}); of state of cec-store it refuses that, and then any start"
            )
            yield fault("state", what, ADVICE["spark-repartition"])
    except (CecError, FileNotFoundError) as error:
        yield of_error(error, checkpoint.path)


# -- logs -------------------------------------------------------------------------------------


def _sizes(place: Place) -> tuple[list[_LogSize], list[tuple[str, CecError | FileNotFoundError]]]:
    """Look at each log at the version that counts: its size, or why it cannot be read."""
    sizes: list[_LogSize] = []
    errors: list[tuple[str, CecError | FileNotFoundError]] = []
    version = None
    try:
        version = place.newest_version()
    except OutOfRange:
        return [], []  # nothing is committed
    except CecError as error:
        return [], [("", error)]
    for log in place.logs:
        try:
            reader, last = reader_at(log.folder, place.at(log, version))
            with suppress(RecoveryError):
                frames = extent_of(reader, last)
                raw = sum(frame.header.raw_bytes for frame in frames)
                keys = last.header.open_windows if last else 0
                records = last.header.extent_records if last else 0
                directory = directory_to(reader, frames)
                sizes.append(_LogSize(log, keys, records, raw, directory))
        except (CecError, FileNotFoundError) as error:
            errors.append((log.name, error))
    return sizes, errors


def _unreadable(place: Place, errors: list[tuple[str, CecError | FileNotFoundError]]) -> Diagnosis:
    """Return the line on logs that cannot be read: of the worst of the errors."""
    chosen = next((e for e in errors if isinstance(e[1], CorruptLog)), errors[0])
    text = first_of([chosen, *[error for error in errors if error is not chosen]])
    line = of_error(chosen[1], place.path)
    if isinstance(chosen[1], UnsupportedVersion) or line.subject == "unreadable":
        return fault(line.subject, text, line.advice)
    advice = f"`cec-store verify {place.path}` lists all damage; restore files, or `cec-store fork`"
    return fault("damage", text, f"{advice} from an earlier batch")


def _size_lines(sizes: list[_LogSize], logs: int, session: SparkSession) -> Iterator[Diagnosis]:
    keys, leads = sum(size.keys for size in sizes), [size.directory for size in sizes]
    records = sum(s.directory.records if s.directory else s.records for s in sizes)
    what = f"{keys:,} keys; a restart reads {records:,} records"
    if any(leads):
        what += f", {len(leads) - leads.count(None):,} of {len(leads):,} logs by key directory"
    yield sound("state", f"{len(sizes):,} of {logs:,} logs read: {what}")
    yield from _target(sizes, session)
    long = [s for s in sizes if s.records > max(_LONG * s.keys, SMALL_EXTENT_RECORDS)]
    if long:
        worst = max(long, key=lambda size: size.records)
        what = f"a restart reads {worst.records:,} records for {worst.keys:,} keys"
        advice = "raise check_time_ms, so that commits may write more footprints again"
        yield note("state", worst.log.named(what), advice)
    yield from _skew(sizes)
    yield from _few_partitions(sizes, session)
    yield _heap(sizes, session)


def _target(sizes: list[_LogSize], session: SparkSession) -> Iterator[Diagnosis]:
    name = f"{PREFIX}extentMaxRecords"
    target = session.value(name).strip()
    most = max(sizes, key=lambda size: size.keys)
    if target.isdecimal() and int(target) < most.keys:
        what = f"{name}={target} is below the {most.keys:,} keys"
        advice = "use more partitions, a longer recovery_time_s, or no fixed number"
        yield fault("settings", most.log.named(f"{what} that a restart needs"), advice)


def _skew(sizes: list[_LogSize]) -> Iterator[Diagnosis]:
    stores: dict[tuple[int | None, str | None], list[_LogSize]] = {}
    for size in sizes:
        stores.setdefault(size.log.store_key, []).append(size)
    for partitions in stores.values():
        worst = max(partitions, key=lambda size: size.keys)
        mean = sum(size.keys for size in partitions) / len(partitions)
        if worst.keys >= _SKEWED_LEAST and worst.keys > _SKEWED * mean:
            what = f"{worst.keys:,} keys, and its store {mean:,.0f} a partition in the mean"
            advice = "look for a key that most rows have: this one decides how long a restart takes"
            yield note("state", worst.log.named(what), advice)


def _few_partitions(sizes: list[_LogSize], session: SparkSession) -> Iterator[Diagnosis]:
    partitions, cores = 1 + max(size.log.partition or 0 for size in sizes), session.cores
    if cores is not None and sizes[0].log.partition is not None and partitions < cores:
        what = f"{partitions:,} partitions of state for {cores:,} cores: some load nothing"
        yield note("state", what, "`cec-store repartition` brings it into as many as there are")


def _heap(sizes: list[_LogSize], session: SparkSession) -> Diagnosis:
    """Return a line on the heap that the state takes, and what the settings here give."""
    keys, raw_bytes = sum(size.keys for size in sizes), sum(size.raw_bytes for size in sizes)
    least = sum(index_bytes(size.keys) for size in sizes)
    if session.is_on_cluster:
        name, count = "spark.executor.memory", session.value("spark.executor.instances", "1")
    else:
        name, count = "spark.driver.memory", "1"
    memory = _bytes_of(session.value(name, "1g")) * int(count if count.isdecimal() else 1)
    given = f"{name} is {session.value(name, '1g (the default)')}"
    given += f", times {count}" if session.is_on_cluster else ""
    # What the heap has no room for goes to local files, but for keys that have changed lately.
    whole, room = HEAP_BYTES_PER_KEY * keys + raw_bytes, memory // HEAP_SHARE_OF_ROWS
    needed = min(whole, least + room)
    what = f"state takes about {needed / 2**20:,.1f} MiB of heap"
    if whole > least + room:
        local = raw_bytes + RUN_BYTES_PER_KEY * keys
        what += f", and {local / 2**20:,.1f} MiB in local files"
    if needed * _GIVEN_TIMES <= memory:
        return sound("heap", f"{what}; {given}")
    advice = (
        "give executors twice the heap that state takes, or use RocksDB: docs/production/sizing"
    )
    if needed > memory:
        return fault("heap", f"{what}, and {given}", advice)
    return note("heap", f"{what}, and {given}", advice)


def _bytes_of(text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)b?", text.strip().lower())
    return int(match[1]) * _SIZES[match[2]] if match else 1 << 30
