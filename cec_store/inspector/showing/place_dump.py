"""The frames and records of all logs of a place, over logs that cannot be read and on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from cec_store.connectors.spark.checkpoint.state_rows import RowDecoder
from cec_store.errors import CecError, CorruptLog, QueueReplaced, UnsupportedVersion
from cec_store.inspector.damage.faults import located
from cec_store.inspector.places.places import Log, Place, PlaceKind
from cec_store.inspector.showing.dump_filter import DumpFilter
from cec_store.inspector.showing.dump_rows import DamageRow, NoteRow, Row
from cec_store.inspector.showing.dumping import dump
from cec_store.inspector.showing.following import Follower, QueueFollower, StateFollower
from cec_store.inspector.showing.reference_dump import (
    ReferenceFollower,
    dump_reference,
)

_LOOK_FOR_LOGS_S = 1.0


class PlaceDump:
    """A dump of what a filter wants, at a version or of everything."""

    def __init__(
        self, place: Place, selection: DumpFilter, raw: bool, version: int | str | None = None
    ) -> None:
        self._place = place
        self._wanted = selection
        self._raw = raw
        self._version = version

    def rows(self, log: Log) -> Iterator[Row]:
        """Yield the rows of one log.

        Raises:
            CecError: it cannot be read at all, and there are no others.
        """
        if self._place.kind is PlaceKind.PARTITIONED_QUEUE:
            yield from dump_reference(self._place.reference, log.partition or 0, self._wanted)
            return
        decoder, rows = self._decoder(log)
        yield from rows
        try:
            at = self._place.at(log, self._version)
            yield from dump(log.folder, replace(self._wanted, at=at), decoder)
        except (CecError, FileNotFoundError) as error:
            if len(self._place.logs) == 1:
                raise
            yield _damage(log, error)

    def follow(self, look: Callable[[], Sequence[Log]]) -> Iterator[tuple[Log, Row] | None]:
        """Yield rows of all logs as they grow, without end; ``None`` after each round.

        ``look`` returns the logs that there are: a query may make some.
        """
        if self._place.kind is PlaceKind.PARTITIONED_QUEUE:
            yield from self._follow_by_reference(look)
            return
        followers: dict[tuple[str, int | None], tuple[Log, Follower | None]] = {}
        looked_s = -_LOOK_FOR_LOGS_S
        while True:
            if time.monotonic() - looked_s >= _LOOK_FOR_LOGS_S:
                for log in look():
                    if log.key not in followers:
                        made, rows = self._follower(log)
                        followers[log.key] = log, made
                        yield from ((log, row) for row in rows)
                looked_s = time.monotonic()
            for key, (log, follower) in followers.items():
                try:
                    yield from ((log, row) for row in (follower.poll() if follower else ()))
                except QueueReplaced:
                    raise
                except (CecError, FileNotFoundError) as error:
                    yield log, _damage(log, error)
                    followers[key] = log, None
            yield None

    def _follow_by_reference(
        self, look: Callable[[], Sequence[Log]]
    ) -> Iterator[tuple[Log, Row] | None]:
        """One request a look for all partitions, where nothing has come."""
        queue, first = self._place.reference, self._place.logs[0]
        followers: dict[int, tuple[Log, ReferenceFollower]] = {}
        known = 0
        while True:
            try:
                queue.refresh()
            except (CorruptLog, UnsupportedVersion) as error:
                yield first, _damage(first, error)
                return
            if known < len(queue.ends()):
                known = len(queue.ends())
                for log in look():
                    made = ReferenceFollower(queue, log.partition or 0, self._wanted)
                    followers.setdefault(log.partition or 0, (log, made))
            for log, follower in followers.values():
                yield from ((log, row) for row in follower.poll())
            yield None

    def _follower(self, log: Log) -> tuple[Follower, list[Row]]:
        decoder, rows = self._decoder(log)
        kind = StateFollower if self._place.has_versions else QueueFollower
        return kind(log.folder, self._wanted, decoder), rows

    def _decoder(self, log: Log) -> tuple[RowDecoder | None, list[Row]]:
        """Return the decoder of a state store, or ``None`` and a row with the reason."""
        try:
            return (None if self._raw else log.row_decoder), []
        except CorruptLog as error:
            return None, [_damage(log, error)]
        except (CecError, ValueError) as error:
            return None, [NoteRow(log.folder.path, f"keys and states are shown in hex: {error}")]


def _damage(log: Log, error: Exception) -> DamageRow:
    return DamageRow(*located(error, log.folder.path), True)
