"""Figures of a runner, a standby and a fleet, read when they are asked for.

Runners, standbys and fleets never call this module. Logs are read by a reader of their own, so that
any thread may ask; the rest are numbers that their owner replaces whole.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.connectors.spark.fleet.lags import lags_of, opened_queues
from cec_store.connectors.spark.fleet.notes import Notes
from cec_store.connectors.spark.fleet.status import QUERY_STATES, status_of
from cec_store.ledger.commit_chain import chain_at
from cec_store.operators.runner import Runner
from cec_store.queues.lags import consumer_states
from cec_store.standby.leases import Leases
from cec_store.standby.nodes.members import seen_leases
from cec_store.standby.nodes.notes import NodeState
from cec_store.standby.standby import Standby
from cec_store.storage.folder import Folder


class Metric(NamedTuple):
    """Meaning, labels and type of a figure."""

    meaning: str
    labels: tuple[str, ...] = ()
    """Labels beside ``name``."""
    is_counter: bool = False


METRICS = {
    "cec_records_written": Metric("records of every kind since the runner was made", (), True),
    "cec_checks_written": Metric("CHECK records since the runner was made", (), True),
    "cec_durable_records": Metric("records of the queue that were acknowledged, ever"),
    "cec_open_windows": Metric("N: windows open at the queue's durable end"),
    "cec_extent_records": Metric("q: records that a restart would read"),
    "cec_recovery_load_seconds": Metric("loading the state when the runner was made"),
    "cec_recovery_records": Metric("records that were read for that"),
    "cec_recovery_replay_seconds": Metric("taking input again when the runner was made"),
    "cec_recovery_replayed_rows": Metric("input rows that were taken again"),
    "cec_consumer_lag_records": Metric("records a consumer has not received", ("consumer",)),
    "cec_consumer_waiting_seconds": Metric("how long the next has waited", ("consumer",)),
    "cec_standby_lag_records": Metric("records of the log that a warm standby has not taken"),
    "cec_standby_is_over": Metric("1 once it has taken over or was closed"),
    "cec_node_is_primary": Metric("1 while this node is the primary", ("node",)),
    "cec_node_is_warm": Metric("1 while it is the primary, or ready to take over", ("node",)),
    "cec_node_lag": Metric("records of the log, or batches, that it lacks", ("node",)),
    "cec_takeovers_are_paused": Metric("1 while nodes have been told not to take over"),
    "cec_fleet_is_driven": Metric("1 while a driver is alive"),
    "cec_fleet_queries": Metric("queries by what they do", ("state",)),
    "cec_fleet_query_failures": Metric("failures one after the other", ("query",)),
    "cec_fleet_query_lag_records": Metric("records that it has not read", ("query",)),
    "cec_fleet_query_waiting_seconds": Metric("how long the oldest has waited", ("query",)),
    "cec_fleet_executors": Metric("executors at the driver's last look"),
    "cec_fleet_cores": Metric("their cores"),
    "cec_fleet_checkpoint_age_seconds": Metric(
        "since the newest global checkpoint had all that was done"
    ),
}


class Figure(NamedTuple):
    """A number, under a name of :data:`METRICS`."""

    metric: str
    value: float
    labels: tuple[str, ...] = ()


def runner_figures(runner: Runner) -> Iterator[Figure]:
    """Yield the figures of an operator's runner, of its queue and of the queue's consumers.

    Raises:
        CecError: the queue cannot be read.
    """
    yield Figure("cec_records_written", runner.records_written)
    yield Figure("cec_checks_written", runner.checks_written)
    if (recovery := runner.recovery) is not None:
        yield Figure("cec_recovery_load_seconds", recovery.load_s)
        yield Figure("cec_recovery_records", recovery.extent.records)
        yield Figure("cec_recovery_replay_seconds", recovery.replay_s)
        yield Figure("cec_recovery_replayed_rows", recovery.replayed_rows)
    yield from _queue_figures(runner.queue.folder)


def _queue_figures(folder: Folder) -> Iterator[Figure]:
    chain = chain_at(folder)
    end = chain.end.offset
    yield Figure("cec_durable_records", end)
    last = chain.find_offset(end - 1) if end > chain.first_offset() else None
    if last is not None and last.header.is_counted:
        yield Figure("cec_open_windows", last.header.open_windows)
        yield Figure("cec_extent_records", last.header.extent_records)
    now_us = time.time_ns() // 1000
    for consumer in consumer_states(chain):
        since_us = now_us if consumer.waiting_since_us is None else consumer.waiting_since_us
        yield Figure("cec_consumer_lag_records", consumer.lag_records, (consumer.name,))
        waited_s = _since_s(since_us, now_us)
        yield Figure("cec_consumer_waiting_seconds", waited_s, (consumer.name,))


def standby_figures(standby: Standby) -> Iterator[Figure]:
    """Yield the figures of an operator's standby.

    Raises:
        CecError: the primary's log cannot be read.
    """
    yield Figure("cec_standby_is_over", standby.is_over)
    followed = standby.followed_offset
    if followed is not None and not standby.is_over:
        lag = max(0, chain_at(standby.folder).end.offset - followed)
        yield Figure("cec_standby_lag_records", lag)


def nodes_figures(leases: Leases, lease: str) -> Iterator[Figure]:
    """Yield the figures of the nodes of a lease, from any process.

    Takes a few of their periods, to see which of them are alive.

    Raises:
        CecError: the place cannot be read.
    """
    for seen in seen_leases(leases, only=lease):
        yield Figure("cec_takeovers_are_paused", seen.order.is_paused)
        for member in seen.nodes:
            state, labels = member.note.state, (member.name,)
            is_primary = member.is_alive and state is NodeState.PRIMARY
            is_ready = member.is_alive and state is NodeState.READY
            yield Figure("cec_node_is_primary", is_primary, labels)
            yield Figure("cec_node_is_warm", is_primary or is_ready, labels)
            if member.is_alive and member.note.lag is not None:
                yield Figure("cec_node_lag", member.note.lag, labels)


def fleet_figures(folder: FleetFolder) -> Iterator[Figure]:
    """Yield the figures of a fleet, by its folder, from any process.

    Waits for a sign of life of its driver, for 6 seconds at most.

    Raises:
        NotAFleet, CorruptLog, UnsupportedVersion: the folder cannot be read.
    """
    notes = folder.read()
    status = status_of(folder, time.time(), notes=notes)
    yield Figure("cec_fleet_is_driven", status.is_driven)
    states = Counter(query.state for query in status.queries)
    for state in QUERY_STATES:
        yield Figure("cec_fleet_queries", states[state], (state,))
    for query in status.queries:
        yield Figure("cec_fleet_query_failures", query.failures, (query.name,))
    yield from _fleet_lags(folder, notes, status.is_driven)
    yield Figure("cec_fleet_executors", status.executors)
    yield Figure("cec_fleet_cores", status.cores)
    if status.checkpointed_us is not None:
        age_s = _since_s(status.checkpointed_us, time.time_ns() // 1000)
        yield Figure("cec_fleet_checkpoint_age_seconds", age_s)


def _fleet_lags(folder: FleetFolder, notes: Notes, is_driven: bool) -> Iterator[Figure]:
    """Yield the lag of each query of which it is known."""
    now_us = time.time_ns() // 1000
    queues = opened_queues(folder, notes.graph)
    for name, lag in lags_of(folder, notes, queues, is_driven=is_driven).items():
        if lag.records_waiting is None:
            continue
        yield Figure("cec_fleet_query_lag_records", lag.records_waiting, (name,))
        since_us = lag.waiting_since_us if lag.records_waiting else now_us
        if since_us is not None:
            yield Figure("cec_fleet_query_waiting_seconds", _since_s(since_us, now_us), (name,))


def _since_s(since_us: int, now_us: int) -> float:
    return max(0.0, (now_us - since_us) / 1e6)
