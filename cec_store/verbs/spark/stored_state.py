"""State of Spark's own providers for the verbs that show it: Spark reads it, in a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from cec_store.connectors.spark.moving.stored_rows import StoredRows
from cec_store.inspector.places.places import Log, Place
from cec_store.inspector.showing.states import Stored
from cec_store.verbs.spark.session import settings_of, spark_session


@contextmanager
def stored_state(
    conf: list[str] | None, asked: Sequence[tuple[Place, int | str | None]]
) -> Iterator[list[Stored | None]]:
    """Yield, for each place at its version, a reader of its stores; ``None`` where it has logs of
    ours.

    Raises:
        ValueError: settings that do not go together.
        OutOfRange: the version is not kept.
        MoveRefused: state that is kept in a way that is not known.
        SparkUnavailable: no Spark 4, or no Java.
    """
    if not any(place.is_built_in for place, _ in asked):
        yield [None] * len(asked)
        return
    with spark_session("cec-store", settings_of(conf)) as session:
        yield [
            _reader(session, place, version) if place.is_built_in else None
            for place, version in asked
        ]


def _reader(session: object, place: Place, version: int | str | None) -> Stored:
    assert place.checkpoint is not None
    assert isinstance(version, int)
    rows = StoredRows(session, place.checkpoint, version - 1)

    def read(log: Log) -> pa.Table:
        return rows.table(int(log.operator or 0), str(log.store), int(log.partition or 0))

    return read
