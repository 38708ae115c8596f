"""The eventual checkpoint: an operator's open windows, gathered by reading the log backward.

CEC paper, II.B "Constructing an EC". The paper stops once N footprints are found; every frame
also says how many records back the oldest of them lies (its extent), so the walk knows where it
will stop and decides about all records in one go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cec_store.checkpoints.last_rows import last_rows
from cec_store.errors import CorruptLog, RecoveryError
from cec_store.format.columns import Ints, one_array, taken, values_of
from cec_store.format.frame import FrameHeader
from cec_store.format.records import closes, of_windows
from cec_store.format.schema import KEY, KIND, STATE, RecordSchema, input_column
from cec_store.log.frames import Frame
from cec_store.log.reader import LogReader
from cec_store.values import Extent


@dataclass(frozen=True)
class EventualCheckpoint:
    """The windows open at the end of a frame, each as of its newest footprint.

    Positions are next-unread offsets, shape (…, inputs): a window has taken all input below its
    own. Row ``i`` of ``keys``, ``states``, ``positions`` and ``offsets`` is one open window; rows
    stand in the order of their footprints.

    Examples:
        >>> found = open_queue("averages").rebuild()
        >>> sorted(key["item"] for key in found.keys.to_pylist())
        [1, 2]
        >>> found.replay_from.tolist(), found.replay_upto.tolist()
        ([4], [4])
    """

    seq: int
    """The frame; -1 in a queue without records."""
    end_offset: int
    keys: pa.StructArray
    states: pa.StructArray
    positions: Ints
    offsets: Ints
    """Offset of each footprint."""
    replay_from: Ints
    """T: the oldest footprint's position, shape (inputs,). Input from it on is needed again."""
    replay_upto: Ints
    """Input below it is reflected in the log; output continues from here, shape (inputs,)."""
    extent: Extent

    @property
    def open_windows(self) -> int:
        """Number of open windows, N."""
        return len(self.keys)


def rebuild(chain: LogReader, seq: int | None = None) -> EventualCheckpoint:
    """The eventual checkpoint at the end of frame ``seq``; of the newest vouched frame by default.

    Raises:
        RecoveryError: the queue belongs to no operator, or the frame's step continues in the next.
        OutOfRange: the frame, or a part of its extent, is trimmed.
        CorruptLog: damage in the extent, or footprints that do not add up to N.
    """
    schema = chain.schema()
    if schema.inputs == 0:
        raise RecoveryError(
            f"{chain.folder.path}: no operator writes this queue, so it has no state"
        )
    last = _counted(chain, seq)
    if last is None:
        return _nothing(schema, chain.end.offset)
    newest_first = list(extent_frames(chain, last))
    columns = [KIND, *(input_column(i) for i in range(schema.inputs))]
    columns += [
        name for name, part in ((KEY, schema.key), (STATE, schema.state)) if part is not None
    ]
    table = _records(chain, newest_first, columns)
    positions = _positions(table, schema.inputs)
    if schema.key is None or schema.state is None:
        upto = input_taken(last.header, positions)
        return _nothing(schema, last.header.end_offset, last.header.seq, upto, [last])
    return _gather(chain, newest_first, table, positions)


def open_footprints(chain: LogReader, seq: int | None = None) -> tuple[pa.Table, Ints]:
    """Keys and states of all records of an extent, and which rows are those of open windows.

    For who takes what is needed of these rows at once; else as :func:`rebuild`. The log has keys
    and states, and a record.
    """
    last = _counted(chain, seq)
    assert last is not None
    newest_first = list(extent_frames(chain, last))
    table = _records(chain, newest_first, [KIND, KEY, STATE])
    return table.select([KEY, STATE]), open_rows(chain, newest_first[0], table)


def _records(chain: LogReader, newest_first: list[Frame], columns: list[str]) -> pa.Table:
    """Return these columns of the frames' records, in the order of the log."""
    batches = [chain.records(frame, backward=True, columns=columns) for frame in newest_first]
    return pa.Table.from_batches(batches[::-1])


def extent(chain: LogReader, seq: int | None = None) -> Extent:
    """Return the extent that a rebuild at this frame would read; reads frame headers only."""
    last = _counted(chain, seq)
    if last is None:
        return _extent_of([], chain.end.offset)
    return _extent_of_newest(list(extent_frames(chain, last)))


def _counted(chain: LogReader, seq: int | None) -> Frame | None:
    """The frame asked for, or the newest; its windows must have been counted."""
    frame = chain.last() if seq is None else chain.find_seq(seq)
    if frame is not None and frame.header.continues:
        raise RecoveryError(
            f"{chain.folder.path}: the step of frame {frame.header.seq} goes on in the next one; "
            "there is a state at the end of its last frame"
        )
    if frame is not None and not frame.header.is_counted:
        raise RecoveryError(
            f"{chain.folder.path}: frame {frame.header.seq} was written without checkpoints"
        )
    return frame


def extent_frames(chain: LogReader, last: Frame) -> Iterator[Frame]:
    """Frames from the newest back to the one with the oldest footprint that still counts."""
    needed = last.header.end_offset - last.header.extent_records
    frame: Frame | None = last
    while frame is not None:
        yield frame
        if frame.header.first_offset <= needed:
            return
        frame = chain.before(frame)
    path = chain.reader(last.address.segment_id).path
    raise CorruptLog(
        path,
        last.address.byte,
        f"the extent of {last.header.extent_records} records begins nowhere",
    )


def frames_in_order(chain: LogReader, last: Frame) -> list[Frame]:
    """The same frames, oldest first."""
    return list(extent_frames(chain, last))[::-1]


def _extent_of_newest(newest_first: list[Frame]) -> Extent:
    """Return the extent that the newest of these frames states; it begins in the last of them."""
    header = newest_first[0].header
    return _extent_of(newest_first, header.end_offset, header.extent_records, header.open_windows)


def _extent_of(frames: list[Frame], end: int, records: int = 0, open_windows: int = 0) -> Extent:
    return Extent(
        records=records,
        frames=len(frames),
        bytes=sum(frame.header.frame_bytes for frame in frames),
        segments=len({frame.address.segment_id for frame in frames}),
        open_windows=open_windows,
        first_offset=end - records,
        end_offset=end,
    )


def _positions(table: pa.Table, inputs: int) -> Ints:
    return np.stack([values_of(table.column(input_column(i)), "i8") for i in range(inputs)], axis=1)


def input_taken(last: FrameHeader, positions: Ints) -> Ints:
    """The input that the log reflects, shape (inputs,)."""
    inputs = positions.shape[1]
    if not last.record_count and inputs == 1:
        # A frame without records only says how far the input was taken.
        return np.array([last.input_upto])
    return positions[-1] if len(positions) else np.zeros(inputs, np.int64)


def _gather(
    chain: LogReader, newest_first: list[Frame], table: pa.Table, positions: Ints
) -> EventualCheckpoint:
    last = newest_first[0].header
    opened = open_rows(chain, newest_first[0], table)
    upto = input_taken(last, positions)
    try:
        keys, states = (rows_of(table.column(name), opened) for name in (KEY, STATE))
    except RecoveryError as error:
        raise RecoveryError(f"{_path_of(chain, newest_first[0])}: {error}") from None
    return EventualCheckpoint(
        seq=last.seq,
        end_offset=last.end_offset,
        keys=keys,
        states=states,
        positions=positions[opened],
        offsets=newest_first[-1].header.first_offset + opened,
        # Positions never fall along the log, so the first footprint is the oldest.
        replay_from=positions[opened[0]] if len(opened) else upto,
        replay_upto=upto,
        extent=_extent_of_newest(newest_first),
    )


def open_rows(chain: LogReader, last: Frame, table: pa.Table) -> Ints:
    """Rows of the footprints of open windows, ascending, shape (N,).

    Decides by the newest record of each key. ``table`` has kinds and keys of all records of the
    extent that ends with the frame ``last``, in the order of the log.

    Raises:
        CorruptLog: they do not add up to N.
    """
    kinds = values_of(table.column(KIND), "u1")
    keys, is_keyed = table.column(KEY), of_windows(kinds)
    if not is_keyed.any():
        newest = np.empty(0, np.int64)
    elif is_keyed.all():
        newest = last_rows(keys)
    else:
        (keyed,) = np.nonzero(is_keyed)
        newest = keyed[last_rows(rows_of(keys, keyed))]
    is_closed = closes(kinds)
    opened = newest[~is_closed[newest]] if is_closed.any() else newest
    if len(opened) != last.header.open_windows:
        raise CorruptLog(
            _path_of(chain, last), last.address.byte,
            f"the frame counts {last.header.open_windows} open windows, its extent has "
            f"{len(opened)}",
        )  # fmt: skip
    return opened


def _path_of(chain: LogReader, frame: Frame) -> str:
    """Return the path of the segment that a frame is in."""
    return chain.reader(frame.address.segment_id).path


def rows_of(column: pa.ChunkedArray, rows: Ints) -> pa.Array:
    """Return ascending rows as one array.

    Raises:
        RecoveryError: these rows are more than one array holds; all of an extent may be.
    """
    return one_array(taken(column, rows))


def _nothing(
    schema: RecordSchema,
    end_offset: int,
    seq: int = -1,
    upto: Ints | None = None,
    frames: list[Frame] | None = None,
) -> EventualCheckpoint:
    """The checkpoint of an operator without open windows."""
    position = np.zeros(schema.inputs, np.int64) if upto is None else upto
    return EventualCheckpoint(
        seq=seq,
        end_offset=end_offset,
        keys=pa.array([], pa.struct(list(schema.key or []))),
        states=pa.array([], pa.struct(list(schema.state or []))),
        positions=np.empty((0, schema.inputs), np.int64),
        offsets=np.empty(0, np.int64),
        replay_from=position,
        replay_upto=position,
        extent=_extent_of(frames or [], end_offset),
    )
