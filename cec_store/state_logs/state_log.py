"""A Spark state store's log, read at any version that it holds. Nothing is ever written."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import date
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from cec_store.checkpoints.rebuild import (
    EventualCheckpoint,
    extent,
    extent_frames,
    open_footprints,
    rebuild,
)
from cec_store.errors import CecError, CorruptLog, OutOfRange
from cec_store.format.columns import Ints
from cec_store.format.schema import KEY, STATE, RecordKind, input_column
from cec_store.log.replay import Replay, offset_at
from cec_store.log.selection import Moment, Selection
from cec_store.state_logs.segments import unique_id
from cec_store.state_logs.tree import StateTree
from cec_store.state_logs.versions import VersionReader
from cec_store.storage.folder import Folder
from cec_store.storage.retrying import retry_when_changed
from cec_store.values import Extent, Position

CHANGE_KINDS = frozenset({RecordKind.OPEN, RecordKind.CHECK, RecordKind.RESULT})
STORED = pa.schema([("family", pa.uint16()), ("key", pa.binary()), ("value", pa.binary())])
"""Keys of a store with their values, of the column family that each is of."""
CHANGES = pa.schema([("version", pa.int64()), *STORED])
"""Columns of a replay of a state log: the version that set a key to a value; null removes it."""
_Answer = TypeVar("_Answer")


class StateLog:
    """The log of one state store. ``at`` is a version, a unique id of checkpoint format V2, or by
    default the newest version. Of several attempts at a version the latest counts.

    Every method looks at the directory anew, and raises :class:`CorruptLog` for damage that the
    version needs and :class:`OutOfRange` for a version that is not there; both name the version
    wanted and the newest one that is sound.

    Examples:
        >>> log = open_queue("checkpoint/state/0/0")
        >>> list(log.versions()), log.extent(at=2).open_windows
        ([1, 2, 3], 1)
    """

    mode = "r"

    def __init__(self, folder: Folder, tree: StateTree | None = None) -> None:
        """``tree`` is a look at the directory just taken, for what is asked first.

        Raises :class:`NotAQueue` where there is none; see :func:`cec_store.open_queue`.
        """
        self.folder = folder
        self._looked_at = tree
        self.schema = (tree or StateTree(folder)).schema()

    def versions(self) -> list[int]:
        """The versions that can be rebuilt, ascending, as far as headers show."""
        return self._tried(lambda tree: [v for v in tree.versions() if _is_reachable(tree, v)])

    def unique_id(self, at: int | str | None = None) -> str:
        """Return the unique id of this version in checkpoint format V2."""
        return self._read(at, lambda lineage: unique_id(lineage.last_frame))

    def rebuild(self, at: int | str | None = None) -> EventualCheckpoint:
        """The state at a version: an open window is a key, its position the version that set it."""
        return self._read(at, rebuild)

    def open_footprints(self, at: int | str | None = None) -> tuple[pa.Table, Ints]:
        """Keys and values of all records that such a rebuild reads, and which rows count."""
        return self._read(at, open_footprints)

    def extent(self, at: int | str | None = None) -> Extent:
        """Return the extent that such a rebuild would read; reads headers and schemas only."""
        return self._read(at, extent)

    def replay(
        self,
        since: Moment | None = None,
        until: Moment | None = None,
        *,
        at: int | str | None = None,
        kinds: Collection[RecordKind] = CHANGE_KINDS,
        include_metadata: bool = False,
        from_moment: Moment | None = None,
    ) -> Replay:
        """Return what was put and removed up to a version, as Arrow batches of :data:`CHANGES`.

        Begins with the oldest record that is left. Footprints that were only renewed are left out.
        See :meth:`cec_store.OutputQueue.replay`.
        """
        selection = Selection(since, until, kinds, include_metadata, from_moment=from_moment)
        return self._read(at, lambda lineage: _ChangeReplay(lineage, lineage, selection))

    def changes(self, first: int, at: int | str | None = None) -> pa.Table:
        """Return the changes of the versions from ``first`` on, as :meth:`replay` gives them.

        Raises:
            OutOfRange: the changes of ``first`` are not all there any more.
        """
        return self._read(
            at, lambda lineage: pa.Table.from_batches(self._since(lineage, first), CHANGES)
        )

    def replay_from(self, first: int, at: int | str | None = None) -> Replay:
        """The same, a frame at a time."""
        return self._read(at, lambda lineage: self._since(lineage, first))

    def _since(self, lineage: VersionReader, first: int) -> Replay:
        if lineage.built_on >= first:
            raise OutOfRange(
                f"{self.folder.path}: changes are kept from version {lineage.built_on + 1} on, "
                f"not those of {first}"
            )
        frames = (f for f in lineage.frames() if f.header.input_upto >= first)
        first_frame = next(frames, None)
        since = Position(
            lineage.end.offset if first_frame is None else first_frame.header.first_offset
        )
        return _ChangeReplay(lineage, lineage, Selection(since, kinds=CHANGE_KINDS))

    def position_at(self, moment: date | int | str, at: int | str | None = None) -> Position:
        """The position of the earliest record at or after the moment; the end if there is none."""

        def position(lineage: VersionReader) -> Position:
            return Position(offset_at(lineage, lineage, moment), queue=lineage.queue_id)

        return self._read(at, position)

    def version_reader(self, at: int | str | None = None) -> VersionReader:
        """A reader of the frames that a version builds on."""
        return self._read(at, lambda lineage: lineage)

    def checked_version_reader(self, at: int | str | None = None) -> VersionReader:
        """The same, with the checksum of every frame that the version's state needs checked."""
        return self._read(at, _checked)

    def close(self) -> None:
        """Does nothing, since no file stays open."""

    def __enter__(self) -> StateLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- looking, and saying what went wrong --------------------------------------------------

    def _read(self, at: int | str | None, work: Callable[[VersionReader], _Answer]) -> _Answer:
        def answer(tree: StateTree) -> _Answer:
            try:
                return work(VersionReader(tree, tree.find(at)))
            except CorruptLog as error:
                reason = f"{error.reason}; {_newest_sound(tree, at)}"
                raise CorruptLog(error.path, error.byte, reason) from error
            except OutOfRange as error:
                raise OutOfRange(f"{error}; {_newest_sound(tree, at)}") from error

        return self._tried(answer)

    def _tried(self, work: Callable[[StateTree], _Answer]) -> _Answer:
        """Maintenance may merge or forget segments while they are read: then look again."""
        ids: Collection[int] = ()

        def look() -> _Answer:
            nonlocal ids
            tree, self._looked_at = self._looked_at or StateTree(self.folder), None
            ids = tree.ids
            return work(tree)

        missed = (OutOfRange, CorruptLog, FileNotFoundError)
        return retry_when_changed(look, missed, lambda: StateTree(self.folder).ids != ids)


class _ChangeReplay(Replay):
    def _needed(self, is_all_of_time: bool) -> None:
        """All columns."""

    def _columns(self, records: pa.RecordBatch) -> pa.RecordBatch:
        family, key = records.column(KEY).flatten()
        value, _ = records.column(STATE).flatten()
        version = records.column(input_column(0))
        return pa.RecordBatch.from_arrays([version, family, key, value], schema=CHANGES)

    def _wanted(self, records: pa.RecordBatch) -> pa.BooleanArray:
        _, renewed = records.column(STATE).flatten()
        return pc.and_not(super()._wanted(records), renewed.fill_null(False))


def _is_reachable(tree: StateTree, version: int) -> bool:
    try:
        extent(VersionReader(tree, tree.find(version)))
    except (CorruptLog, OutOfRange):
        return False
    return True


def _newest_sound(tree: StateTree, at: int | str | None) -> str:
    """Return text for an error: the version asked for, and the newest with sound checksums."""
    what = "the newest version was wanted" if at is None else f"version {at} was wanted"
    for version in reversed(tree.versions()):
        if _is_sound(tree, version):
            return f"{what}; the newest sound one is {version}"
    return f"{what}; none is sound"


def _is_sound(tree: StateTree, version: int) -> bool:
    try:
        _checked(VersionReader(tree, tree.find(version)))
    except CecError:
        return False
    return True


def _checked(lineage: VersionReader) -> VersionReader:
    for frame in extent_frames(lineage, lineage.last_frame):
        lineage.check_body(frame)
    return lineage
