"""Notes of a fleet and of a global checkpoint: values, and their JSON.

docs/fleets.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

from cec_store.connectors.spark.fleet.backoff import Failures
from cec_store.connectors.spark.fleet.costs import QueryCost
from cec_store.connectors.spark.fleet.declaration import Graph, Query
from cec_store.connectors.spark.fleet.functions import ELSEWHERE, place_of
from cec_store.connectors.spark.fleet.missing import Missing, OnMissing
from cec_store.connectors.spark.fleet.outer import OuterLag, Sink, Source
from cec_store.connectors.spark.fleet.recovery import Outage, Situation
from cec_store.connectors.spark.fleet.rules import Rules

_Values = TypeVar("_Values")


@dataclass(frozen=True)
class QueryNotes:
    """Notes of one query."""

    cost: QueryCost = field(default_factory=QueryCost)
    failures: Failures = field(default_factory=Failures)
    sources: tuple[str, ...] = ()
    """The queue of each of its sources, in Spark's order; empty: it has run no batch yet."""
    batch: int | None = None
    """The last one that is known to be done."""
    is_active: bool = False
    waits_for: str = ""
    """Reason why the query does not run, for people; empty for one that runs."""
    outer_lags: tuple[OuterLag, ...] = ()
    """Lag behind each outer input, as Spark said it of the last batch; empty: it has said none."""
    code_failure: str = ""
    """Reason why its code could not be read anew when that was asked for last; else empty."""


@dataclass(frozen=True)
class GoingBack:
    """A rollback that was begun: to be finished before anything else is done with the fleet."""

    checkpoint: int
    generation: int
    """Number of the generation that it makes."""
    settings: Mapping[str, Mapping[str, str]]
    """Settings of each queue that is written, as they were when it was begun: they stay."""


@dataclass(frozen=True)
class Notes:
    """Notes that a driver writes of its fleet, all of them each time."""

    fleet_id: str
    """Random; its first half names the consumer by which the fleet's queues keep what is needed."""
    declared: tuple[Query, ...]
    rules: Rules = field(default_factory=Rules)
    generation: int = 0
    """Number of the queries' checkpoint folders: one higher with each rollback."""
    situation: Situation = field(default_factory=lambda: Situation({}))
    queries: Mapping[str, QueryNotes] = field(default_factory=dict)
    going_back: GoingBack | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of the session, for whoever starts it."""
    checkpointed_us: int | None = None
    """Time at which a global checkpoint was taken last, or was found to have all that was done
    since; microseconds since 1970."""
    written_s: float = 0.0
    """Wall clock."""
    on_missing: OnMissing | None = None
    missing: Missing = field(default_factory=Missing)

    @property
    def consumer(self) -> str:
        return f"fleet-{self.fleet_id[:16]}"

    @property
    def graph(self) -> Graph:
        return Graph.of(self.declared)

    def of(self, name: str) -> QueryNotes:
        return self.queries.get(name, QueryNotes())

    def having(self, name: str, notes: QueryNotes) -> Notes:
        return replace(self, queries={**self.queries, name: notes})

    def costs(self) -> dict[str, float]:
        """Cores of each query, as declared or measured; those that nobody knows are left out."""
        costs = {}
        for query in self.declared:
            cores = query.cost if query.cost is not None else self.of(query.name).cost.cores
            if cores is not None:
                costs[query.name] = cores
        return costs


@dataclass(frozen=True)
class GlobalCheckpoint:
    """A consistent cut through the fleet."""

    number: int
    at_us: int
    """Time at which it was taken, microseconds since 1970."""
    generation: int
    batches: Mapping[str, int | None]
    """Last batch of each query that is inside; ``None``: the query begins anew."""
    commits: Mapping[str, int]
    """Number of each queue's last commit that is inside."""
    needed: Mapping[str, tuple[int, ...]]
    """First offsets that are read again, by queue and partition; inputs among the queues."""
    queues: Mapping[str, str]
    """Id of each queue, 32 hex digits; empty: the queue did not exist yet."""


def notes_json(notes: Notes) -> dict[str, Any]:
    """Return the notes as the JSON object in the fleet's folder."""
    document = asdict(replace(notes, declared=(), on_missing=None))
    if notes.on_missing is not None:
        call = notes.on_missing.call
        place = None if call is None else place_of(call) or ELSEWHERE
        document["on_missing"] = {**vars(notes.on_missing), "call": place}
    document["declared"] = [_query_json(query) for query in notes.declared]
    return document


def _query_json(query: Query) -> dict[str, Any]:
    document = {
        **{query_field.name: getattr(query, query_field.name) for query_field in fields(query)},
        "function": query.place,
        "sources": [asdict(source) for source in query.sources],
    }
    if query.sink is not None:
        function = query.sink.foreach_batch
        place = None if function is None else place_of(function) or ELSEWHERE
        document["sink"] = {**vars(query.sink), "foreach_batch": place}
    return document


def notes_of(document: Mapping[str, Any]) -> Notes:
    """Return the notes in a JSON object of :func:`notes_json`.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: it holds none.
    """
    situation, back = dict(document["situation"]), document["going_back"]
    hook = document["on_missing"]
    outage = situation.pop("outage")
    return Notes(
        fleet_id=str(document["fleet_id"]),
        declared=tuple(_query(query) for query in document["declared"]),
        rules=_made(Rules, document["rules"]),
        generation=int(document["generation"]),
        situation=Situation(
            **{**situation, "order": tuple(situation["order"])},
            outage=None if outage is None else _made(
                Outage, {**outage, **{key: tuple(outage[key]) for key in ("running", "arrivals")}}
            ),
        ),
        queries={name: _query_notes(query) for name, query in document["queries"].items()},
        going_back=None if back is None else _made(GoingBack, back),
        spark=dict(document["spark"]),
        checkpointed_us=_optional(document["checkpointed_us"]),
        written_s=float(document["written_s"]),
        on_missing=None if hook is None else _made(
            OnMissing, {**hook, "command": tuple(hook["command"])}
        ),
        missing=_made(Missing, document["missing"]),
    )  # fmt: skip


def _optional(value: object) -> int | None:
    return None if value is None else int(str(value))


def _query(values: Mapping[str, Any]) -> Query:
    sink = values["sink"]
    return _made(
        Query,
        {
            **values,
            "function": values["function"] or ELSEWHERE,
            "reads": tuple(values["reads"]),
            "sources": tuple(_made(Source, source) for source in values["sources"]),
            "sink": None if sink is None else _made(Sink, sink),
        },
    )


def _query_notes(values: Mapping[str, Any]) -> QueryNotes:
    cost, failures = _made(QueryCost, values["cost"]), _made(Failures, values["failures"])
    lags = tuple(_made(OuterLag, lag) for lag in values["outer_lags"])
    sources = tuple(values["sources"])
    rest = {"cost": cost, "failures": failures, "sources": sources, "outer_lags": lags}
    return _made(QueryNotes, {**values, **rest})


def checkpoint_of(document: Mapping[str, Any]) -> GlobalCheckpoint:
    """Return the checkpoint that `asdict` has made a JSON object of; errors as :func:`notes_of`."""
    return GlobalCheckpoint(
        number=int(document["number"]),
        at_us=int(document["at_us"]),
        generation=int(document["generation"]),
        batches={
            name: None if batch is None else int(batch)
            for name, batch in document["batches"].items()
        },
        commits={queue: int(number) for queue, number in document["commits"].items()},
        needed={queue: tuple(map(int, offsets)) for queue, offsets in document["needed"].items()},
        queues={queue: str(queue_id) for queue, queue_id in document["queues"].items()},
    )


def _made(kind: type[_Values], values: Mapping[str, Any]) -> _Values:
    return kind(**values)
