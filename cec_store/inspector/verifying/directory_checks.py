"""Key directories of a state log: what they say follows from the log. docs/format.md §16."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cec_store.checkpoints.rebuild import frames_in_order, open_rows
from cec_store.errors import CorruptLog
from cec_store.format.columns import Ints, bytes_of, values_of
from cec_store.format.schema import KEY, KIND, STATE
from cec_store.inspector.damage.faults import Fault, Note
from cec_store.log.frames import Frame
from cec_store.partitioned.murmur3 import Hashes, hash_bytes
from cec_store.state_logs.directory_files import (
    ZONE_ROWS,
    KeyFrame,
    LiveFile,
    LivePart,
    SortedRun,
    hashes_of,
    is_live_file,
    read_key_file,
    read_live_file,
    seal_of,
    sorted_rows,
)
from cec_store.state_logs.families import DEFAULT
from cec_store.state_logs.row_times import TimePlace
from cec_store.state_logs.tree import StateTree
from cec_store.state_logs.versions import VersionReader


def check_directories(tree: StateTree) -> Iterator[Fault | Note]:
    """Yield what is wrong with the directories whose checksums are right, in a sound log.

    It needs the room of one version's keys.
    """
    for name in sorted(filter(is_live_file, tree.folder.names())):
        path = f"{tree.folder.path}/{name}"
        try:
            live = read_live_file(tree.folder, name)
            last = _frame_of(tree, live)
            if last is None:
                what = "a key directory of a version that is not here; no load goes by it"
                yield Note(path, 0, what)
                continue
            problem = _Check(VersionReader(tree, last), live).problem()
        except (CorruptLog, FileNotFoundError):
            continue  # noted with the file; or maintenance has made a newer one
        if problem is not None:
            yield Fault("key-directory", path, 0, problem, True)


def _frame_of(tree: StateTree, live: LiveFile) -> Frame | None:
    """The frame at whose end a directory stands."""
    if live.segment_id not in tree.ids:
        return None
    frame = tree.segment(live.segment_id).frame_of(live.seq)
    if frame is None or frame.address.byte != live.byte:
        return None
    is_same = VersionReader(tree, frame).chain_crc_after(frame) == live.chain_crc
    return frame if is_same else None


class _Check:
    def __init__(self, lineage: VersionReader, live: LiveFile) -> None:
        self._lineage = lineage
        self._live = live
        self._place = TimePlace.named(live.times_of)
        self._rows: list[pa.RecordBatch] = []
        """Kinds and keys of the frames that were looked at, in the order of the log."""
        self._files: list[tuple[str, tuple[KeyFrame, ...], tuple[SortedRun, ...]]] = []
        """Names of the key files, oldest first, their frames and their sorted runs."""
        self._first_offset = 0
        """Offset of the first of these rows."""

    def problem(self) -> str | None:
        """The first thing that the log says otherwise."""
        live, header = self._live, self._lineage.last_frame.header
        if (live.version, live.open_windows, live.end_offset) != (
            header.input_upto,
            header.open_windows,
            header.end_offset,
        ):
            return "its version, its windows or its end are not those of its frame"
        if live.times_of and self._place is None:
            return f"no row has a time at {live.times_of!r}"
        parts = list(self._parts())
        extent = self._extent()
        if len(parts) < len(live.parts):
            return f"its key files have {len(parts)} frames, it speaks of {len(live.parts)}"
        parts = [part for part in parts if part[0].rows]
        self._first_offset = parts[0][0].first_offset if parts else 0
        if [entry.first_offset for entry, _, _ in parts] != [f.header.first_offset for f in extent]:
            return "its frames are not those of the extent"
        for frame, (entry, hashes, part) in zip(extent, parts, strict=True):
            problem = self._problem_of(frame, entry, hashes, part)
            if problem is not None:
                segment_id, byte = frame.address
                return f"{problem} the frame at byte {byte} of segment {segment_id}"
        if (problem := self._problem_of_runs()) is not None:
            return problem
        return self._problem_of_live([(entry, part) for entry, _, part in parts])

    def _parts(self) -> Iterator[tuple[KeyFrame, Hashes, LivePart]]:
        """Yield what the files say of each frame of the extent, oldest first."""
        folder, live = self._lineage.folder, self._live
        for named in live.key_files:
            seal = seal_of(folder, named.name)
            if not named.is_sealed_by(seal):
                raise CorruptLog(f"{folder.path}/{named.name}", 0, "another file is named")
            self._files.append((named.name, *read_key_file(folder, named.name, seal)))
        # Frames before the extent have numbers below 0.
        number = len(live.parts) - sum(len(frames) for _, frames, _ in self._files)
        for name, frames, _ in self._files:
            for frame, hashes in zip(frames, hashes_of(folder, name, frames), strict=True):
                if 0 <= number < len(live.parts):
                    yield frame, hashes, live.parts[number]
                number += 1

    def _extent(self) -> list[Frame]:
        """Frames with the records of the extent, oldest first."""
        last = self._lineage.last_frame
        start = last.header.end_offset - last.header.extent_records
        frames = frames_in_order(self._lineage, last)
        return [f for f in frames if f.header.record_count and f.header.end_offset > start]

    def _problem_of(
        self, frame: Frame, entry: KeyFrame, hashes: Hashes, part: LivePart
    ) -> str | None:
        header = frame.header
        place = (*frame.address, header.body_bytes, header.raw_bytes, header.codec)
        if place != (entry.segment_id, entry.byte, entry.body_bytes, entry.raw_bytes, entry.codec):
            return "it has another place for"
        if (header.record_count, header.frame_bytes) != (entry.rows, entry.frame_bytes):
            return "it counts otherwise the rows or bytes of"
        records = self._lineage.records(frame, columns=[KIND, KEY, STATE])
        self._rows.append(records.select([KIND, KEY]))
        family, keys = records.column(KEY).flatten()
        values, _ = records.column(STATE).flatten()
        families = values_of(family, "u2")
        expected = np.uint16(DEFAULT) if entry.families is None else entry.families
        if (families != expected).any():
            return "it has other families for rows of"
        for rows, width, size in (
            (keys, entry.key_width, entry.key_bytes),
            (values, entry.value_width, entry.value_bytes),
        ):
            lengths = np.diff(bytes_of(rows)[1])
            if int(lengths.sum()) != size or (width >= 0 and (lengths != width).any()):
                return "it has other lengths for rows of"
        if (hash_bytes(keys, np.zeros(len(keys), np.uint32)) != hashes).any():
            return "it has other hashes for keys of"
        if part.timed_rows > entry.rows or (len(part.live) and int(part.live[-1]) >= entry.rows):
            return "it speaks of more rows than are in"
        if self._place is not None:
            return self._problem_of_times(part, families, keys if self._place.is_in_key else values)
        return None

    def _problem_of_times(
        self, part: LivePart, families: NDArray[np.uint16], rows: pa.BinaryArray
    ) -> str | None:
        assert self._place is not None
        if len(part.least_times_us) != -(-part.timed_rows // ZONE_ROWS):
            return "it has too many or too few times for"
        timed = part.live[part.live < part.timed_rows]
        timed = timed[families[timed] == DEFAULT]
        times_us = self._place.times_us(rows)[timed]
        if (part.least_times_us[timed // ZONE_ROWS] > times_us).any():
            return "it passes over rows that are due, in"
        return None

    def _problem_of_runs(self) -> str | None:
        """The first thing that is wrong with the keys that stand in their order."""
        for name, frames, runs in self._files:
            starts = np.array([frame.first_offset for frame in frames], np.int64)
            counts = np.array([frame.rows for frame in frames], np.int64)
            seen = [np.empty(0, np.int64)]
            for run in runs:
                sorted_ = sorted_rows(self._lineage.folder, name, run)
                if (sorted_.frames >= len(frames)).any():
                    return f"{name} has sorted keys of frames that it has not"
                if (sorted_.rows >= counts[sorted_.frames]).any():
                    return f"{name} has sorted keys of rows that its frames have not"
                offsets = starts[sorted_.frames] + sorted_.rows
                problem = self._problem_of_order(sorted_.keys, offsets, run.family)
                if problem is not None:
                    return f"{name} {problem}"
                seen.append(offsets)
            every = np.concatenate(seen)
            if len(np.unique(every)) < len(every):
                return f"{name} has the sorted key of a row twice"
        return None

    def _problem_of_order(self, keys: pa.Array, offsets: Ints, family: int) -> str | None:
        is_less = pc.less(keys[:-1], keys[1:]).to_numpy(zero_copy_only=False)
        is_same = pc.equal(keys[:-1], keys[1:]).to_numpy(zero_copy_only=False)
        if not (is_less | (is_same & (np.diff(offsets) > 0))).all():
            return "has sorted keys that are in another order"
        if not self._rows:
            return None
        is_here = offsets >= self._first_offset
        at = pa.array(offsets[is_here] - self._first_offset)
        table = pa.Table.from_batches(self._rows).column(KEY).combine_chunks()
        families, stored = table.take(at).flatten()
        if (values_of(families, "u2") != family).any():
            return "has sorted keys of another family"
        is_other = pc.not_equal(stored.cast(keys.type), keys.filter(pa.array(is_here)))
        return "has other sorted keys than the log" if pc.any(is_other).as_py() else None

    def _problem_of_live(self, parts: Sequence[tuple[KeyFrame, LivePart]]) -> str | None:
        live = [entry.first_offset + part.live for entry, part in parts]
        offsets = np.concatenate([np.empty(0, np.int64), *live])
        opened = np.empty(0, np.int64)
        if self._rows:
            table = pa.Table.from_batches(self._rows)
            first_offset = parts[0][0].first_offset
            opened = first_offset + open_rows(self._lineage, self._lineage.last_frame, table)
        odd = np.setxor1d(offsets, opened)
        if not len(odd):
            return None
        return f"{len(odd)} records, {odd[0]} first, are live in the log or in it, and not in both"
