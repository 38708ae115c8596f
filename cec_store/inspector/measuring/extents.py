"""Measure what a restart has to read of one log, and which windows keep that long. Reads only.

All figures come from frame headers, which say N and q; only the windows with the oldest footprints
have to be looked for among the extent's records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cec_store.checkpoints.rebuild import frames_in_order
from cec_store.connectors.spark.checkpoint.state_rows import RowDecoder
from cec_store.errors import CecError, OutOfRange, RecoveryError
from cec_store.format.columns import Ints
from cec_store.format.frame import FrameHeader
from cec_store.format.records import inputs_of
from cec_store.format.schema import KEY
from cec_store.inspector.damage.state_log_files import StateLogFiles, files_of
from cec_store.inspector.decoding.records import Names, RecordDecoder, RecordRow
from cec_store.inspector.measuring.crash_costs import CrashCost, LoadRates, LogLoad
from cec_store.inspector.measuring.oldest_footprints import oldest_footprints
from cec_store.inspector.measuring.totals import BytesSinceLast, LogTotals, totals_of
from cec_store.ledger.commit_chain import chain_at
from cec_store.log.frames import Frame
from cec_store.log.reader import LogReader
from cec_store.state_logs.families import families_in, names_at
from cec_store.state_logs.key_directories import DirectoryLead, directory_to
from cec_store.state_logs.segments import is_state_log
from cec_store.state_logs.state_log import StateLog
from cec_store.state_logs.tree import StateTree
from cec_store.state_logs.versions import VersionReader
from cec_store.storage.folder import Folder
from cec_store.values import Extent

_LOOKS = 4


@dataclass(frozen=True)
class OpenWindow:
    """One of the windows that hold the extent open."""

    key: Any
    state: Any
    kind: str
    """OPEN or CHECK: the footprint's."""
    renewed: bool | None
    """True if a state store's policy wrote it; ``None`` in a queue, where it writes all CHECKs."""
    offset: int
    timestamp_us: int
    position: tuple[int, ...]
    """Next unread input, for each input: the footprint reflects what is below."""
    records_back: int
    """q, if this were the oldest window."""
    replay_rows: int
    """u, if this were the oldest window."""
    records_freed: int
    """Records that fall out of the extent when this footprint is renewed, after all older ones."""


@dataclass(frozen=True)
class OperatorState:
    """Figures of a restart at the end of a frame: the extent to load and the input to replay."""

    extent: Extent
    raw_bytes: int
    """The extent's frames after decompression."""
    replay_from: tuple[int, ...]
    """T: the input that a restart needs begins here."""
    replay_upto: tuple[int, ...]
    replay_rows: int
    """u: how much of it there is, over all inputs; of a state store, how many versions."""
    oldest_timestamp_us: int | None
    """Timestamp of the oldest footprint, in microseconds."""
    age_us: int | None
    """Microseconds from there to the largest timestamp of the last frame."""
    oldest_windows: tuple[OpenWindow, ...]
    directory: DirectoryLead | None = None
    """Key directory by which a state store is loaded; ``None``: the extent is read."""

    @property
    def load(self) -> LogLoad:
        """Load of a restart."""
        extent = self.extent
        walk = LogLoad(None, None, extent.bytes, self.raw_bytes, extent.records)
        return walk.by_directory(self.directory, extent.open_windows)

    def cost(self, rates: LoadRates, *, has_input: bool) -> CrashCost:
        """Return the seconds of load and replay that a crash now would cost.

        Without input, as in a state store, nothing is replayed.
        """
        load = self.load
        load_s = rates.load_s(load.stored_bytes, load.raw_bytes, load.records)
        return CrashCost(load_s, self.replay_rows / rates.replay_rows_per_s if has_input else 0.0)

    def freed_s(self, window: OpenWindow, rates: LoadRates) -> float:
        """Seconds of load that renewing this footprint saves, the older ones renewed before it."""
        whole = rates.load_s(self.extent.bytes, self.raw_bytes, self.extent.records)
        return (whole - rates.fixed_s) * window.records_freed / max(1, self.extent.records)


@dataclass(frozen=True)
class ExtentReport:
    """A log's totals and, where an operator writes it, what its restart would take."""

    path: str
    epoch: int | None
    totals: LogTotals
    has_state: bool
    """True if an operator writes this log."""
    state: OperatorState | None
    """``None`` where there is none, or where damage keeps it out of reach."""
    damage: str
    """Reason that something could not be read; empty in a sound log."""
    version: int | None = None
    """Version of a state log; ``None`` in a queue."""
    last: FrameHeader | None = None
    """Header of the newest frame that counts; ``None`` in an empty log."""


def inspect_extent(
    folder: Folder,
    *,
    at: int | str | None = None,
    top: int = 10,
    counts: bool = False,
    end_only: bool = False,
    decoder: RowDecoder | None = None,
    progress: BytesSinceLast | None = None,
) -> ExtentReport:
    """Totals, the extent, and the ``top`` windows with the oldest footprints.

    ``at`` is a version of a state log, or the number of a queue's frame. ``counts`` reads the whole
    log and counts its records by kind; ``top=0`` reads headers and the oldest footprint alone;
    ``end_only`` leaves the totals empty, so that nothing before the extent is read.
    ``progress`` is called with bytes read.

    Raises:
        NotAQueue: nothing of a log here.
        OutOfRange: it does not have what ``at`` names.
    """
    files = files_of(folder)
    totals, damage = (LogTotals(), "") if end_only else totals_of(files, counts, progress)
    epoch = files.manifest.epoch if files.manifest else None
    state = version = last = None
    has_state = isinstance(files, StateLogFiles)
    tree = files.tree if isinstance(files, StateLogFiles) else None
    for looks_left in reversed(range(_LOOKS)):
        try:
            log_reader, last = reader_at(folder, at, tree)
            tree = None  # the next look is a new one
            version = log_reader.version if isinstance(log_reader, VersionReader) else None
            has_state = log_reader.schema().inputs > 0
            if has_state:
                state = _state(log_reader, last, top, decoder, progress)
        except RecoveryError:
            has_state = False  # written without checkpoints
        except OutOfRange as error:
            if at is not None:
                raise
            # A writer beside this inspection may have trimmed what the chain began with.
            damage = damage or ("" if looks_left else str(error))
            continue
        except CecError as error:
            damage = damage or str(error)
        break
    header = None if last is None else last.header
    return ExtentReport(folder.path, epoch, totals, has_state, state, damage, version, header)


def reader_at(
    folder: Folder, at: int | str | None = None, tree: StateTree | None = None
) -> tuple[LogReader, Frame | None]:
    """A reader of a log, and the last frame that counts for ``at``; ``None`` in an empty log.

    ``tree`` is a look at a state log's directory just taken.

    Raises:
        OutOfRange: the log does not have what ``at`` names.
        CorruptLog: that is out of reach.
        NotAQueue: nothing of a log here; or a unique id, and no state log.
    """
    if isinstance(at, str) or is_state_log(folder):
        lineage = StateLog(folder, tree).version_reader(at)
        return lineage, lineage.last_frame
    chain = chain_at(folder)
    return chain, chain.last() if at is None else chain.find_seq(at)


def _state(
    log_reader: LogReader,
    last: Frame | None,
    top: int,
    decoder: RowDecoder | None,
    progress: BytesSinceLast | None,
) -> OperatorState:
    schema = log_reader.schema()
    frames = extent_of(log_reader, last)
    upto = _upto(log_reader, last, schema.inputs)
    q = last.header.extent_records if last is not None else 0
    end = last.header.end_offset if last is not None else log_reader.end.offset
    extent = Extent(
        records=q,
        frames=len(frames),
        bytes=sum(frame.header.frame_bytes for frame in frames),
        segments=len({frame.address.segment_id for frame in frames}),
        open_windows=last.header.open_windows if last is not None else 0,
        first_offset=end - q,
        end_offset=end,
    )
    # Read one more than is shown: renewing a footprint frees the records up to the next one.
    oldest = oldest_footprints(log_reader, frames, top + 1, progress) if q else None
    shown = () if oldest is None else _rows(log_reader, last, oldest.records, decoder)
    windows = () if oldest is None else _windows(oldest.offsets, shown, extent, upto)
    replay_from = np.array(windows[0].position) if windows else upto
    oldest_us = windows[0].timestamp_us if windows else None
    end_us = last.header.max_timestamp_us if last is not None and last.header.record_count else None
    return OperatorState(
        extent=extent,
        raw_bytes=sum(frame.header.raw_bytes for frame in frames),
        replay_from=tuple(replay_from.tolist()),
        replay_upto=tuple(upto.tolist()),
        replay_rows=int((upto - replay_from).sum()),
        oldest_timestamp_us=oldest_us,
        age_us=None if oldest_us is None or end_us is None else end_us - oldest_us,
        oldest_windows=windows[:top],
        directory=directory_to(log_reader, frames),
    )


def extent_of(log_reader: LogReader, last: Frame | None) -> list[Frame]:
    """The frames that a rebuild at ``last`` reads, oldest first.

    Raises:
        RecoveryError: it was written without checkpoints.
        OutOfRange, CorruptLog: a part of them is trimmed or damaged.
    """
    if last is None:
        return []
    if not last.header.is_counted:
        raise RecoveryError(f"{log_reader.folder.path}: written without checkpoints")
    return frames_in_order(log_reader, last)


def _upto(log_reader: LogReader, last: Frame | None, inputs: int) -> Ints:
    """The input that the log reflects, shape (inputs,)."""
    if last is None:
        return np.zeros(inputs, np.int64)
    if inputs == 1:
        return np.array([last.header.input_upto])
    positions = inputs_of(log_reader.records(last), inputs)
    return positions[-1] if len(positions) else np.zeros(inputs, np.int64)


def _rows(
    log_reader: LogReader, last: Frame | None, records: pa.RecordBatch, decoder: RowDecoder | None
) -> Iterable[RecordRow]:
    decode = RecordDecoder(decoder)
    names = names_for(decode, log_reader, last, records.column(KEY)) if len(records) else None
    return decode.rows(records, 0, np.arange(len(records)), names)


def names_for(
    decode: RecordDecoder, log_reader: LogReader, last: Frame | None, keys: pa.StructArray
) -> Names | None:
    """Return the names of these keys' families at ``last``; ``None`` where none are needed.

    Raises:
        CorruptLog, OutOfRange: the log has them out of reach.
    """
    if not decode.needs_names or not isinstance(log_reader, VersionReader) or last is None:
        return None
    return names_at(log_reader, last, families_in(keys))


def _windows(
    offsets: Sequence[int], rows: Iterable[RecordRow], extent: Extent, upto: Ints
) -> tuple[OpenWindow, ...]:
    nexts = [*offsets[1:], extent.end_offset]
    return tuple(
        OpenWindow(
            key=row.key,
            state=row.state,
            kind=row.kind,
            renewed=row.renewed,
            offset=offset,
            timestamp_us=row.timestamp_us,
            position=row.position,
            records_back=extent.end_offset - offset,
            replay_rows=int(upto.sum()) - sum(row.position),
            records_freed=next_offset - offset,
        )
        for row, offset, next_offset in zip(rows, offsets, nexts, strict=False)
    )
