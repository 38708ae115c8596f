"""A version, a moment or an offset that somebody names, found in a place."""

from __future__ import annotations

from dataclasses import dataclass

from cec_store.errors import OutOfRange
from cec_store.inspector.places.places import Place
from cec_store.log.chain import QueueChain
from cec_store.log.frames import Frame
from cec_store.log.replay import offset_at
from cec_store.state_logs.state_log import StateLog


@dataclass(frozen=True)
class PointInTime:
    """A point that a user named; a bare number is a version or, without versions, microseconds."""

    text: str
    version: int | None = None
    unique_id: str | None = None
    timestamp_us: int | None = None
    offset: int | None = None


def version_at(place: Place, point: PointInTime | None) -> int | str | None:
    """The version of a state store or a checkpoint; ``None``: the newest of a lone store.

    Raises:
        ValueError: such a place has no such points.
        OutOfRange: that version is not committed, or not kept.
        CorruptLog, UnsupportedVersion: Spark's own files cannot be read.
    """
    if point is None:
        return place.newest_version()
    if point.offset is not None:
        raise ValueError(f"{point.text} is an offset, and {place.path} has versions")
    if place.checkpoint is None:
        if point.version is None and point.unique_id is None:
            raise ValueError(
                f"{place.path}: when batches began stands in the checkpoint; give a version, or "
                "the whole checkpoint"
            )
        return point.version if point.unique_id is None else point.unique_id
    if point.unique_id is not None:
        raise ValueError(
            f"{point.text} is a version of one store; give that store's folder, or a version"
        )
    if point.version is None:
        assert point.timestamp_us is not None
        return place.checkpoint.batch_at(point.timestamp_us) + 1
    batches = place.checkpoint.committed_batches()
    if point.version - 1 not in batches:
        kept = f"{batches[0] + 1} to {batches[-1] + 1}" if batches else "none"
        raise OutOfRange(
            f"{place.path}: version {point.version} is not among those committed and kept: {kept}"
        )
    return point.version


def version_before(place: Place, point: PointInTime) -> int:
    """The version that changes are to be counted from, which need not be kept; 0: no state.

    Raises:
        As for :func:`version_at`.
    """
    if point.version is not None:
        return point.version
    version = version_at(place, point)
    if isinstance(version, str):
        return StateLog(place.logs[0].folder).version_reader(version).version
    return int(version or 0)


def seq_at(place: Place, chain: QueueChain, point: PointInTime | None) -> int | None:
    """The newest frame of a queue with nothing at or after the point; ``None``: there is none.

    It is the last one of its step: within a step there is no state.

    Raises:
        ValueError: a queue has no such points.
        OutOfRange: trimmed, or not there yet.
    """
    last = chain.last()
    if point is None or last is None:
        return None if last is None else last.header.seq
    if point.unique_id is not None:
        raise ValueError(f"{point.text} is a version of a state store; here is a queue")
    if point.offset is not None:
        offset = point.offset
    else:
        assert point.timestamp_us is not None
        offset = offset_at(chain, chain, point.timestamp_us)
    frame = chain.find_offset(offset)
    if frame is None:
        return last.header.seq
    seq = frame.header.seq - 1
    if frame.header.end_offset == offset:
        seq += 1
    if seq < chain.first_seq():
        if chain.first_offset() == 0:
            return None
        raise OutOfRange(f"{place.path}: what stood before {point.text} is trimmed")
    before: Frame | None = chain.find_seq(seq)
    while before is not None and before.header.continues:
        before = chain.before(before)
    return None if before is None else before.header.seq
