"""Key directories of a state log: what they say follows from the log. docs/format.md §16."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cec_store.checkpoints.rebuild import frames_in_order, open_rows
from cec_store.errors import CorruptLog
from cec_store.format.columns import bytes_of, values_of
from cec_store.format.schema import KEY, KIND, STATE
from cec_store.inspector.damage.faults import Fault, Note
from cec_store.log.frames import Frame
from cec_store.partitioned.murmur3 import Hashes, hash_bytes
from cec_store.state_logs.directory_files import (
    ZONE_ROWS,
    KeyFrame,
    LiveFile,
    LivePart,
    SortedRows,
    SortedRun,
    hashes_of,
    is_live_file,
    is_of_key_directory,
    problem_of,
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
        except FileNotFoundError:
            continue  # maintenance has made a newer one
        except CorruptLog as error:
            problem = _behind_checksums(tree, error)
        if problem is not None:
            yield Fault("key-directory", path, 0, problem, True)


def _behind_checksums(tree: StateTree, error: CorruptLog) -> str | None:
    """Return what an error says of a file; ``None`` where its checksums fail, which is noted."""
    name = error.path.rpartition("/")[2]
    try:
        is_noted = not is_of_key_directory(name) or problem_of(tree.folder, name) is not None
    except FileNotFoundError:
        return None
    return None if is_noted else f"{name}: {error.reason}"


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
                raise FileNotFoundError(named.name)  # another file stands there
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
        batches = iter(self._rows)
        number = len(self._live.parts) - sum(len(frames) for _, frames, _ in self._files)
        for name, frames, runs in self._files:
            # The rows of each of its frames; None before the extent, and where it has none.
            of_frames: list[pa.RecordBatch | None] = []
            for frame in frames:
                of_frames.append(next(batches) if number >= 0 and frame.rows else None)
                number += 1
            problem = self._problem_of_file(name, frames, runs, of_frames)
            if problem is not None:
                return f"{name} has {problem}"
        return None

    def _problem_of_file(
        self,
        name: str,
        frames: tuple[KeyFrame, ...],
        runs: tuple[SortedRun, ...],
        of_frames: list[pa.RecordBatch | None],
    ) -> str | None:
        counts = np.array([frame.rows for frame in frames], np.int64)
        seen = [np.empty(0, np.int64)]
        for run in runs:
            ordered = sorted_rows(self._lineage.folder, name, run)
            if not len(ordered.rows):
                continue
            if (ordered.frames >= len(frames)).any():
                return "sorted keys of frames that it has not"
            if (ordered.rows >= counts[ordered.frames]).any():
                return "sorted keys of rows that its frames have not"
            places = ordered.frames.astype(np.int64) << 32 | ordered.rows
            is_less = pc.less(ordered.keys[:-1], ordered.keys[1:]).to_numpy(zero_copy_only=False)
            is_same = pc.equal(ordered.keys[:-1], ordered.keys[1:]).to_numpy(zero_copy_only=False)
            if not (is_less | (is_same & (np.diff(places) > 0))).all():
                return "sorted keys that are in another order"
            if (problem := _problem_of_keys(ordered, run.family, of_frames)) is not None:
                return problem
            seen.append(places)
        every = np.concatenate(seen)
        return "the sorted key of a row twice" if len(np.unique(every)) < len(every) else None

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


def _problem_of_keys(
    ordered: SortedRows, family: int, of_frames: list[pa.RecordBatch | None]
) -> str | None:
    """The first thing that is wrong with the keys of a run, which are compared frame by frame."""
    by_frame = np.argsort(ordered.frames, kind="stable")
    numbers, starts = np.unique(ordered.frames[by_frame], return_index=True)
    for number, at in zip(numbers.tolist(), np.split(by_frame, starts[1:]), strict=True):
        if (batch := of_frames[number]) is None:
            continue
        families, stored = batch.column(KEY).take(pa.array(ordered.rows[at])).flatten()
        if (values_of(families, "u2") != family).any():
            return "sorted keys of another family"
        keys = ordered.keys.take(pa.array(at))
        if pc.any(pc.not_equal(stored.cast(keys.type), keys)).as_py():
            return "other sorted keys than the log"
    return None
