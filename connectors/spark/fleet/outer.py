"""Sources and sinks of a fleet's queries that are no queues: outer inputs and outer outputs.

All that is known of them is what Spark says, so this is where it stands: which sources can be read
again from an offset, how far a query is behind one, and what becomes of a batch that a sink had.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cec_store.connectors.spark.fleet.functions import ELSEWHERE, Function, check_function, place_of
from cec_store.errors import BadFleet

FILES = frozenset(("avro", "csv", "json", "orc", "parquet", "text"))
_REPLAYABLE = FILES | {"delta", "kafka", "rate", "rate-micro-batch"}
_LOST = {
    "memory": "what Spark's memory source has is gone with its driver",
    "socket": "Spark's socket source keeps nothing that it has given out",
}
"""Reasons why a source of this format cannot be read again."""
_LIMITS = ("maxfilespertrigger", "maxbytespertrigger")
_NAMING = ("path", "subscribe", "subscribepattern", "assign", "topic")
"""Options that say which of its kind a source or sink is."""
KEEP_NUMBERS = FILES | {"delta"}
"""Formats whose sinks write no batch of a number that they have had from the query."""


@dataclass(frozen=True)
class Source:
    """A source of Spark that is no queue: an outer input of a fleet.

    Raises:
        BadFleet: no format, or that of queues.

    Examples:
        >>> Source("kafka", {"kafka.bootstrap.servers": "host:9092", "subscribe": "orders"}).name
        'kafka orders'
    """

    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str = ""
    """Columns and types as DDL, for sources that need them told, as files do."""
    replayable: bool | None = None
    """True if it gives the same rows again from an offset of any batch that Spark keeps; needed
    for a format of which that is not known."""

    def __post_init__(self) -> None:
        if not self.format or not isinstance(self.format, str):
            raise BadFleet(f"a source's format {self.format!r}; give one of Spark's, such as kafka")
        if self.format == "cec":
            raise BadFleet("a source of the format cec: give its queue in reads")

    @property
    def name(self) -> str:
        """Return the format and what tells it from others of the format."""
        return _named(self.format, self.options)

    @property
    def takes_all(self) -> bool:
        """True if a batch takes all that is there when it begins: files without a limit."""
        return self.format in FILES and _lowered(self.options).keys().isdisjoint(_LIMITS)


def why_not_replayable(source: Source) -> str:
    """Return why a source cannot be read again from an earlier offset; empty if it can be."""
    if source.replayable is False:
        return "it is declared as one that is not replayable"
    if source.format in _LOST:
        return _LOST[source.format]
    if source.format in FILES:
        cleaned = _lowered(source.options).get("cleansource", "off").lower()
        return "" if cleaned == "off" else f"with cleanSource={cleaned} it takes its files away"
    if source.replayable or source.format in _REPLAYABLE:
        return ""
    return (
        "nothing is known of its format; declare it with replayable=True if it gives the same "
        "rows again from an offset"
    )


@dataclass(frozen=True)
class Sink:
    """A sink of Spark that is no queue: an outer output of a fleet.

    Raises:
        BadFleet: neither or both of ``format`` and ``foreach_batch``, the format of queues, or a
            format of files without a path.

    Examples:
        >>> Sink("parquet", {"path": "out/totals"}).name
        'parquet out/totals'
        >>> Sink(foreach_batch="trades.queries:save").name
        'foreachBatch trades.queries:save'
    """

    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    foreach_batch: Function | str | None = None
    """Function of a DataFrame and the number of its batch, or where it is: ``"module:name"``."""

    def __post_init__(self) -> None:
        if (self.foreach_batch is None) == (not self.format):
            raise BadFleet("a sink: give its format or foreach_batch, one of them")
        if self.format == "cec":
            raise BadFleet("a sink of the format cec: give its queue as writes")
        if self.foreach_batch is not None:
            check_function("a sink", "foreach_batch", self.foreach_batch)
        if self.format in FILES and not _lowered(self.options).get("path"):
            raise BadFleet(f"a sink of {self.format}: give the option path")

    @property
    def name(self) -> str:
        """Return the format and what tells it from others of the format."""
        if self.foreach_batch is None:
            return _named(self.format, self.options)
        place = place_of(self.foreach_batch)
        return "foreachBatch" if place in (None, ELSEWHERE) else f"foreachBatch {place}"

    def shared(self) -> str:
        """Return what becomes of batches of a fork; empty where nothing is kept."""
        if self.foreach_batch is None and self.format in KEEP_NUMBERS:
            return "the fork writes there as well: Spark drops batches whose numbers the other had"
        return "the fork writes there as well" if self.again() else ""

    def again(self) -> str:
        """Return what becomes of a batch that it has had before; empty where nothing is kept."""
        if self.foreach_batch is not None:
            return "is called again, with batches that may be cut elsewhere"
        if self.format in KEEP_NUMBERS:
            return (
                "keeps their rows, and takes no batch of these numbers again: rows are lost or "
                "doubled where batches are cut elsewhere"
            )
        return "" if self.format == "noop" else "keeps their rows, and gets them once more"


def place_in(format: str, options: Mapping[str, str]) -> tuple[str, str] | None:
    """Return which place of which kind these options name; ``None`` where none is known.

    Two queries that name the same one are joined by it.
    """
    known = _lowered(options)
    if format == "kafka":
        topic = known.get("topic") or known.get("subscribe")
        return ("kafka", topic) if topic else None
    path = known.get("path")
    return ("path", path.rstrip("/")) if path and (format in KEEP_NUMBERS) else None


def _named(format: str, options: Mapping[str, str]) -> str:
    known = _lowered(options)
    return " ".join([format, *(known[key] for key in _NAMING if key in known)])


def _lowered(options: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in options.items()}


@dataclass(frozen=True)
class OuterLag:
    """Lag of a query behind one outer input, as Spark told it of the last batch."""

    source: str
    """Spark's description of it."""
    records: int | None
    """``None``: Spark does not say."""


def outer_lag(progress: Any) -> OuterLag:
    """Return the lag that Spark's progress of one source says."""
    return OuterLag(str(progress.description), _records_behind(progress))


def _records_behind(progress: Any) -> int | None:
    metrics = progress.metrics or {}
    if (behind := metrics.get("recordsBehindLatest")) is not None:
        return int(behind)
    end, latest = _json(progress.endOffset), _json(progress.latestOffset)
    if latest is not None:
        if latest == end:
            return 0
        behind = _partitions_behind(end, latest)
        if behind is not None:
            return behind
    # Of the partition that is the furthest behind: nothing else can be said of all of them.
    return 0 if metrics.get("maxOffsetsBehindLatest") == "0" else None


def _partitions_behind(end: object, latest: object) -> int | None:
    """Return the records between two offsets in the form of Kafka's: partitions of topics."""
    if not isinstance(latest, dict) or not latest:
        return None
    records = 0
    for topic, partitions in latest.items():
        before = end.get(topic, {}) if isinstance(end, dict) else {}
        if not isinstance(partitions, dict) or not isinstance(before, dict):
            return None
        for number, offset in partitions.items():
            known = before.get(number)
            # Where a new partition begins is not said.
            if type(offset) is not int or type(known) is not int:
                return None
            records += max(0, offset - known)
    return records


def _json(text: str | None) -> object:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


@dataclass(frozen=True)
class OuterEffect:
    """Batches of an outer output that are run once more after going back, or in a fork."""

    query: str
    sink: str
    first_batch: int
    last_batch: int | None
    """The last one that was begun, done or not; ``None``: all from the first on."""
    effect: str
    """Sentence about what becomes of their rows, without its subject."""

    def __str__(self) -> str:
        first, last = self.first_batch, self.last_batch
        if last is None:
            return (
                f"{self.query}: {self.sink} gets batch {first} and all after it, and {self.effect}"
            )
        batches = f"batch {first}" if first == last else f"batches {first} to {last}"
        return f"{self.query}: {self.sink} has had {batches}, and {self.effect}"


def outer_effects(
    sinks: Mapping[str, Sink], cut: Mapping[str, int | None], begun: Mapping[str, int | None]
) -> tuple[OuterEffect, ...]:
    """Return what going back to a cut cannot take back, in the order of ``sinks``.

    Args:
        sinks: Outer output of each query that has one.
        cut: Last batch of each query that is inside; ``None``: it begins anew.
        begun: Last batch that each query has begun; ``None``: none.
    """
    effects = []
    for name, sink in sinks.items():
        before, last = cut[name], begun[name]
        first = 0 if before is None else before + 1
        if last is not None and last >= first and (effect := sink.again()):
            effects.append(OuterEffect(name, sink.name, first, last, effect))
    return tuple(effects)
