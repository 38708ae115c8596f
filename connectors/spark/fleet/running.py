"""One query of a fleet in Spark: started, looked at, stopped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cec_store.connectors.spark.executors.adaptation import cores_of
from cec_store.connectors.spark.fleet.declaration import Function, Query, queue_path

_SOURCE = re.compile(r"cec\[(.*)\]", re.DOTALL)


def executors_of(session: Any) -> dict[str, float]:
    """Cores of each executor that is alive; the driver is one where it runs the tasks itself."""
    if session.sparkContext._jsc.sc().isLocal():
        return {"driver": float(session.sparkContext.defaultParallelism)}
    return cores_of(session)


@dataclass(frozen=True)
class Seen:
    """A look at a query."""

    is_active: bool
    failure: str = ""
    """Why it has ended; empty where it has not failed."""
    progress: Any = None
    """Spark's, of its last batch in this run; ``None``: none yet."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The queue of each source."""
        found = [_SOURCE.fullmatch(each.description) for each in self.progress.sources]
        return tuple(queue_path(each[1]) for each in found if each)


class RunningQuery:
    """A query that was started; made by :func:`start`."""

    def __init__(self, query: Any) -> None:
        self._query = query
        self.run_id = str(query.runId)

    def look(self) -> Seen:
        if self._query.isActive:
            return Seen(True, "", self._query.lastProgress)
        failure = self._query.exception()
        what = "it has ended" if failure is None else str(failure)
        return Seen(False, what, self._query.lastProgress)

    def stop(self) -> None:
        """A batch that is under way is run again when the query goes on."""
        self._query.stop()


def start(session: Any, query: Query, function: Function, checkpoint: str) -> RunningQuery:
    """Start it, or go on with it, from its checkpoint.

    What it reads it reads from the beginning of the queue, unless its options say otherwise.
    """
    frames = []
    for queue in query.reads:
        reader = session.readStream.format("cec").option("startingOffsets", "earliest")
        frames.append(reader.options(**query.read_options).load(queue_path(queue)))
    writer = function(*frames).writeStream.format("cec").queryName(query.name)
    writer = writer.outputMode(query.output_mode).option("checkpointLocation", checkpoint)
    writer = writer.trigger(processingTime=f"{round(query.every_s * 1000)} milliseconds")
    return RunningQuery(writer.options(**query.write_options).start(queue_path(query.writes)))
