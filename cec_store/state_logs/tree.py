"""The segments of a state log as a tree, and which frame is a version. docs/format.md §9.

There is no manifest: what vouches for a version is Spark's own commit log. So every whole frame
counts, and a version that is not there is refused by name, never answered with an older one.
"""

from __future__ import annotations

import re

from cec_store.errors import CecError, CorruptLog, NotAQueue, OutOfRange, UnsupportedVersion
from cec_store.format.frame import NONE, SEGMENT_HEADER_BYTES, BadHeader
from cec_store.format.scan import refusal
from cec_store.format.schema import STATE_SCHEMA, RecordSchema
from cec_store.log.frames import Frame
from cec_store.log.segment import SegmentReader, SegmentReaders
from cec_store.state_logs.segments import (
    MERGED,
    StateSegment,
    is_state_log,
    newest_in,
    read_segment,
    segment_without_header,
)
from cec_store.storage.folder import Folder
from cec_store.storage.names import segment_id_of, segment_name
from cec_store.values import Address

_UNIQUE_ID = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{1,16})")


class StateTree:
    """A state log's directory at one moment. Not for use by two threads at once."""

    def __init__(self, folder: Folder) -> None:
        """Raises :class:`NotAQueue` where no state store has written."""
        self.folder = folder
        if not is_state_log(folder):
            raise NotAQueue(f"{folder.path}: no state log here (there are no segments of one)")
        self._readers = SegmentReaders()
        self._unread: dict[int, CorruptLog | UnsupportedVersion] = {}
        self._segments: dict[int, StateSegment] = {}
        self._vouched: dict[int, int] = {}
        self._sound_bodies: set[Address] = set()
        self.ids: list[int] = []
        """Numbers of the segments, ascending."""
        numbers = map(segment_id_of, folder.names())
        for segment_id in sorted(number for number in numbers if number is not None):
            self._open(segment_id)

    def _open(self, segment_id: int) -> None:
        self._read_header(segment_id)
        if segment_id in self._unread and segment_name(segment_id) not in self.folder.names():
            del self._unread[segment_id]  # maintenance has deleted it since the listing
        else:
            self.ids.append(segment_id)

    def _read_header(self, segment_id: int) -> None:
        try:
            self._readers[segment_id] = SegmentReader(self.folder, segment_id)
        except (CorruptLog, UnsupportedVersion) as error:
            self._unread[segment_id] = error
        else:
            self._unread.pop(segment_id, None)
            header = self._readers[segment_id].header
            known = self._vouched.get(header.prev_segment, 0)
            self._vouched[header.prev_segment] = max(known, header.prev_bytes)

    def _path_of(self, segment_id: int) -> str:
        return f"{self.folder.path}/{segment_name(segment_id)}"

    def reader(self, segment_id: int) -> SegmentReader:
        """Raises :class:`CorruptLog` where the segment is lost or has no sound header."""
        if segment_id in self._unread:
            raise self._unread[segment_id]
        if segment_id not in self._readers:
            raise CorruptLog(self._path_of(segment_id), 0, "the segment is missing")
        return self._readers.switch_to(segment_id)

    def segment(self, segment_id: int) -> StateSegment:
        """Return a segment, up to where it is sound; raise CorruptLog where it is missing."""
        if segment_id not in self._segments:
            vouched = self.vouched(segment_id)
            if segment_id in self._unread:
                segment = segment_without_header(
                    self.folder, segment_id, self._unread[segment_id], vouched
                )
                if segment.refusal is not None:
                    self._read_header(segment_id)  # may have been written since
            if segment_id not in self._unread:
                segment = read_segment(self.folder, self.reader(segment_id), vouched)
            self._segments[segment_id] = segment
        return self._segments[segment_id]

    def vouched(self, segment_id: int) -> int:
        """Return the bytes of a segment that others build on."""
        return self._vouched.get(segment_id, 0)

    def remember(self, segment: StateSegment) -> None:
        """Take over what a caller has found that read the whole segment."""
        self._segments[segment.segment_id] = segment

    def schema(self) -> RecordSchema:
        """The record schema, which is the same in all state logs.

        Raises:
            NotAQueue: these segments are those of something else.
            CorruptLog: no segment can be read.
        """
        damage: CecError | None = None
        for segment in map(self.segment, reversed(self.ids)):
            if segment.schema is None:
                continue
            try:
                schema = self.reader(segment.segment_id).schema(segment.schema)
            except BadHeader as error:
                # A version of another segment does not need this one.
                damage = damage or CorruptLog(segment.path, SEGMENT_HEADER_BYTES, str(error))
                continue
            if schema.arrow.names != STATE_SCHEMA.arrow.names or schema.key != STATE_SCHEMA.key:
                raise NotAQueue(f"{segment.path}: a segment, but not one of a state log")
            return schema
        raise damage or self.segment(self.ids[-1]).error()

    def check_body(self, frame: Frame) -> None:
        """Raises :class:`CorruptLog` where a frame's body is not what was written."""
        if frame.address not in self._sound_bodies:
            reader = self.reader(frame.address.segment_id)
            try:
                reader.body_at(frame.address.byte, frame.header)
            except BadHeader as error:
                raise refusal(reader.path, frame.address.byte, error) from None
            self._sound_bodies.add(frame.address)

    # -- which frame a version is -------------------------------------------------------------

    def versions(self) -> list[int]:
        """Every version of which a last frame is here, ascending."""
        return sorted({f.header.input_upto for s in self.ids for f in self.segment(s).commits})

    def find(self, at: int | str | None = None) -> Frame:
        """The last frame of a version, of a unique id, or of the newest version.

        Raises:
            CorruptLog: it is, or may be, in a damaged or missing segment.
            OutOfRange: there is no such version.
            ValueError: not a unique id.
        """
        if isinstance(at, str):
            return self._find_unique(at)
        if at is not None:
            return self._find_version(at)
        return self._find_newest()

    def _find_newest(self) -> Frame:
        versions = self.versions()
        newest = max(versions, default=-1)
        for segment in map(self.segment, reversed(self.ids)):
            # A segment of any number may have been written to since, and hold a newer version.
            if segment.refusal and not newest_in(self.folder, segment) <= newest:
                raise segment.error()
        return self._find_version(max(newest, 0))

    def _find_version(self, version: int) -> Frame:
        suspect: StateSegment | None = None
        lost = -1
        for segment_id in reversed(self.ids):
            if lost > segment_id:
                break
            segment = self.segment(segment_id)
            if (frame := segment.last_of.get(version)) is not None:
                return frame
            if segment.may_have_held(version):
                raise segment.error()
            if suspect is None and segment.reason and segment.newest_version < version:
                suspect = segment
            base = self.missing_base(segment_id)
            if base is not None and segment.schema and segment.schema.input_upto >= version:
                lost = max(lost, base)
        if lost >= 0:
            raise CorruptLog(self._path_of(lost), 0, "the segment is missing")
        if suspect is not None:
            raise suspect.error()
        raise OutOfRange(f"{self.folder.path}: version {version} is not in this state log")

    def _find_unique(self, text: str) -> Frame:
        match = _UNIQUE_ID.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no unique id: segment-salt-seq, in hexadecimal digits")
        segment_id, salt, seq = (int(part, 16) for part in match.groups())
        # One stands for another only as what somebody builds on: the named one is asked first.
        is_here = self._is_here(segment_id)
        segment = self.segment(segment_id if is_here else self._standing_for(segment_id))
        if segment.header is not None and segment.header.salt != salt:
            raise CorruptLog(segment.path, 40, f"its salt is not that of {text}: another segment")
        frame = segment.frame_of(seq)
        if frame is None or not frame.header.is_counted:
            raise segment.error()
        return frame

    # -- what a segment builds on -------------------------------------------------------------

    def _standing_for(self, segment_id: int) -> int:
        """The segment to look into for this one: that which it was merged into, if any."""
        merged = segment_id | MERGED
        return merged if self._is_here(merged) else segment_id

    def _is_here(self, segment_id: int) -> bool:
        return segment_id in self._readers or segment_id in self._unread

    def missing_base(self, segment_id: int) -> int | None:
        """The segment that this one builds on, where it is not here (any more)."""
        reader = self._readers.get(segment_id)
        if reader is None or reader.header.prev_segment == NONE:
            return None
        named = reader.header.prev_segment
        return None if self._is_here(self._standing_for(named)) else named

    def base(self, segment_id: int) -> Frame | None:
        """The frame that a segment builds on; ``None`` where its state begins empty.

        Raises:
            CorruptLog: that frame is not there, or not what the segment says.
        """
        reader = self.reader(segment_id)
        child = reader.header
        if child.prev_segment == NONE:
            return None
        base_id = self._standing_for(child.prev_segment)
        if base_id >= segment_id:
            raise CorruptLog(reader.path, 56, f"it builds on segment {base_id}, which is younger")
        header, segment = self.reader(base_id).header, self.segment(base_id)
        if header.salt != child.prev_salt:
            raise CorruptLog(
                segment.path, 40, f"its salt is not the one that {reader.name} builds on"
            )
        if header.log_id != child.log_id:
            raise CorruptLog(segment.path, 16, f"it is of another log than {reader.name}")
        frame = segment.frame_of(child.first_seq - 1)
        if frame is None and child.first_seq > header.first_seq:
            raise segment.error()
        if frame is None or not frame.header.is_counted:
            what = (
                f"it builds on frame {child.first_seq - 1} of {header.segment_id}, no commit's end"
            )
            raise CorruptLog(reader.path, 48, what)
        if base_id == child.prev_segment:  # not moved by a merge
            if frame.next_address.byte != child.prev_bytes:
                what = (
                    f"it builds on byte {child.prev_bytes} of {segment.path}, where no frame ends"
                )
                raise CorruptLog(reader.path, 64, what)
            if segment.running_crcs[child.prev_bytes] != child.prev_chain:
                what = f"these are not the frames that {reader.name} builds on (chain CRC)"
                raise CorruptLog(segment.path, child.prev_bytes, what)
        return frame
