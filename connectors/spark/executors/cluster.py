"""Cluster of a session, from `spark.cluster(session)`: owners of partitions, and moving these."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from cec_store.connectors.spark.executors.adaptation import Adaptation, cores_of
from cec_store.connectors.spark.executors.batch_loads import MIN_BATCHES
from cec_store.connectors.spark.executors.driver_side import DriverSide
from cec_store.connectors.spark.executors.events import events_of
from cec_store.connectors.spark.executors.loads import LoadMeter
from cec_store.connectors.spark.executors.migration import await_all, order, order_all
from cec_store.connectors.spark.executors.planning import (
    check_spread,
    per_s,
    planned,
)
from cec_store.connectors.spark.executors.saved import save
from cec_store.connectors.spark.executors.showing import text_of
from cec_store.connectors.spark.executors.snapshot import Move, PartitionId, Snapshot
from cec_store.connectors.spark.executors.tables import (
    table_of_events,
    table_of_loads,
    table_of_moves,
    table_of_partitions,
)
from cec_store.errors import NoSuchPartition
from cec_store.placement.plans import Plan, Rules
from cec_store.storage.paths import AnyPath


class Cluster:
    """State on the executors of one application; ``print`` it to see it.

    Made by :func:`cec_store.connectors.spark.cluster`. Its methods may be called from any thread.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._driver = DriverSide(session)
        self._meter = LoadMeter(session)
        self._shown = LoadMeter(session)
        """Meter of what was shown, so that a look changes nothing for :meth:`rebalance`."""

    def __str__(self) -> str:
        return text_of(self.snapshot(), self._names())

    def snapshot(self) -> Snapshot:
        """Executors, partitions, replicas and migrations as they are now.

        Examples:
            >>> [(each.id.partition, each.owner) for each in cluster.snapshot().partitions]
            [(0, '0'), (1, '0')]
        """
        return self._driver.snapshot()

    def save(self, path: AnyPath) -> None:
        """Write what there is now, and what has happened, to a local file: whole or not at all, in
        place of what was there. ``cec-store report --cluster`` makes a page of it.

        Raises:
            SparkUnavailable: the session has been stopped; the file is as it was.
            OSError: it cannot be written.

        Examples:
            >>> cluster.save("cluster.json")
        """
        context = self._session.sparkContext
        status = self._driver.status()
        events = self._driver.events()
        save(path, status, events, self._names(), context.appName, context.applicationId)

    def partitions(self) -> pa.Table:
        """A row for each partition, with the replica that lacks least; nulls where there is none.

        ``query`` is the run id. A join's partition has four stores, and is one row.

        Examples:
            >>> cluster.partitions().select(["partition", "owner", "replica"]).to_pylist()[0]
            {'partition': 0, 'owner': '0', 'replica': '1'}
        """
        return table_of_partitions(self.snapshot())

    def moves(self) -> pa.Table:
        """A row for each migration, the oldest first; times in milliseconds since 1970.

        The last 1,000 that are over are kept.

        Examples:
            >>> cluster.moves().select(["partition", "source", "target", "state"]).to_pylist()
            [{'partition': 1, 'source': '1', 'target': '0', 'state': 'done'}]
        """
        return table_of_moves(self.snapshot())

    def loads(self) -> pa.Table:
        """A row for what each partition has cost since the last call, or since this was made.

        ``cpu_s`` is processor time, ``rows`` and ``shuffled_bytes`` have come in shuffles,
        ``written_bytes`` were written to them; ``memory_bytes`` is the most that a task has had for
        sorts and aggregates so far, ``state_bytes`` the state in memory. A row without a partition
        has the processor time that an executor spent on stages without state, other jobs and tasks
        that failed. Loads that nothing was spent on are left out.

        Examples:
            >>> sorted(cluster.loads().column_names)[:2]
            ['cpu_s', 'executor']
        """
        costs, _ = self._shown.read()
        return table_of_loads(self.snapshot(), costs, self._shown.read_others())

    def events(self) -> pa.Table:
        """A row for each thing that has happened, the oldest first; ``at_ms`` since 1970.

        ``kind`` says what: an executor joined, is being decommissioned or was lost; a partition has
        come to an executor or lost it; a replica was placed, has become warm, was evicted or
        dropped; a migration was ordered or has ended. ``source`` is where a partition comes from.

        The last 2,000 are kept; ``number`` counts all of them, so that a reader who comes again
        knows which are new.

        Examples:
            >>> cluster.events().select(["kind", "partition", "executor"]).to_pylist()[0]
            {'kind': 'executor_joined', 'partition': None, 'executor': '0'}
        """
        return table_of_events(events_of(self._driver.events()))

    def migrate(
        self,
        query: Any,
        operator: int,
        partition: int,
        *,
        to: str | int,
        protocol: str = "cpal",
        wait_s: float = 60.0,
    ) -> Move:
        """Move a partition to another executor, between two batches.

        ``direct``: the executor loads the state when the next batch begins. ``cpa``: it has a
        replica, and reads what that lacks when the next batch begins. ``cpal``: a replica is made
        there if there is none, and catches up while the query goes on; then the partition moves.

        Args:
            query: A ``StreamingQuery``, or its name, id or run id.
            operator: The number of the stateful operator in its plan, 0 if it has one.
            to: The executor's id.
            wait_s: Until a batch has run there; 0 does not wait, and :meth:`moves` tells.

        Raises:
            NoSuchExecutor: Spark has none of this id; the message names those it has.
            NoSuchPartition: this query runs not, or has no such operator or partition.
            MigrationRunning: it moves already.
            MigrationRefused: it is there already, the executor is being decommissioned, or has no
                replica for ``cpa``.
            MigrationFailed: it was begun and did not end within ``wait_s``.
            ValueError: no such protocol.

        Examples:
            >>> cluster.migrate("counts", operator=0, partition=1, to="1").state
            'done'
        """
        of = PartitionId(self._run_id(query), operator, partition)
        move = order(self._driver, of, str(to), protocol)
        return await_all(self._driver, [move], wait_s)[0] if wait_s > 0 else move

    def rebalance(
        self, *, rules: Rules | None = None, dry_run: bool = False, wait_s: float = 120.0
    ) -> Plan:
        """Give each executor its fair share of partitions, and relieve those that are overloaded.

        Loads are processor times of the tasks since the last call, or since this object was made:
        those of each partition, and of each executor what it does for no partition of state.

        Args:
            rules: Thresholds; without them those of ``Rules``, and executors neither freed nor
                asked for.
            dry_run: Only say what would be done; ``print`` the plan.
            wait_s: Until all has moved; 0 does not wait.

        Raises:
            MigrationFailed: something did not move within ``wait_s``.

        Examples:
            >>> [each.target for each in cluster.rebalance(dry_run=True).moves]
            ['1']
        """
        costs, passed_s = self._meter.read()
        plan = planned(
            self.snapshot(),
            per_s({of: cost.cpu_s for of, cost in costs.items()}, passed_s),
            cores_of(self._session),
            rules or Rules(scales=False),
            others=per_s(self._meter.read_others(), passed_s),
        )
        if not dry_run:
            orders = [
                (move.group, str(move.target))
                for move in plan.moves
                if isinstance(move.group, PartitionId)
            ]
            moves = order_all(self._driver, orders, "cpal")
            if wait_s > 0:
                await_all(self._driver, moves, wait_s)
        return plan

    def adapt(
        self,
        *,
        every_s: float = 2.0,
        min_batches: int = MIN_BATCHES,
        rules: Rules | None = None,
        threshold: float = 0.05,
        spread: float = math.inf,
        dry_run: bool = False,
        say: Callable[[str], object] = print,
        on_scale: Callable[[int, tuple[str, ...]], object] | None = None,
    ) -> Adaptation:
        """Do what :meth:`rebalance` does from now on by itself, and place replicas by Algorithm 3.

        An executor that joins gets its fair share; one that is overloaded is relieved. Nothing of
        this happens unless it is asked for.

        Args:
            every_s: Between two looks.
            min_batches: A query's load is the mean over at least so many whole batches, however
                long they take. Before, nothing is moved because of load, and no executor is freed.
            rules: Thresholds of overload and underload; those of ``Rules`` without.
            threshold: θ: how much better another allocation of replicas has to be, as a share of
                all load, before replicas are moved.
            spread: Constraint 2: the partitions of which an executor has replicas load at most so
                many times the average over executors. It is kept whatever θ is; where measured
                loads do not allow it, ``say`` is told so.
            dry_run: Only say what would be done.
            say: Gets what is planned, as text.
            on_scale: Called with how many more executors are needed, and with those that own
                nothing any more and can be taken away. Without it executors are neither.

        Returns:
            What runs; stop it, or use it as a context manager.

        Raises:
            PlacementRefused: the spread is below 1, or below what these executors and replicas
                allow whatever the loads are; nothing runs.
            ValueError: ``every_s`` or ``min_batches`` is too small, or θ below 0.

        Examples:
            >>> with cluster.adapt(dry_run=True):
            ...     query.awaitTermination()
        """
        if every_s <= 0:
            raise ValueError(f"every_s must be above 0, not {every_s}")
        if not threshold >= 0:
            raise ValueError(f"threshold must be at least 0, not {threshold}")
        check_spread(spread, self.snapshot())
        chosen = rules or Rules(scales=on_scale is not None)
        return Adaptation(
            self._session, self._driver, every_s=every_s, min_batches=min_batches,
            rules=chosen, threshold=threshold, spread=spread, dry_run=dry_run, say=say,
            on_scale=on_scale,
        )  # fmt: skip

    def place(self, query: Any, operator: int, partition: int, on: Sequence[str | int]) -> None:
        """Have the replicas of a partition on these executors; :meth:`release` undoes it.

        A warm replica that is replaced stays until the new one is warm.

        Raises:
            NoSuchExecutor, NoSuchPartition, MigrationRefused: as :meth:`migrate`; nothing changed.

        Examples:
            >>> cluster.place("counts", 0, 1, on=["1"])
        """
        of = PartitionId(self._run_id(query), operator, partition)
        self._driver.place(of, tuple(str(executor_id) for executor_id in on))

    def release(self, query: Any, operator: int, partition: int) -> None:
        """Let the plugin choose again where the replicas of a partition are.

        Examples:
            >>> cluster.release("counts", 0, 1)
        """
        self._driver.release(PartitionId(self._run_id(query), operator, partition))

    def _names(self) -> dict[str, str]:
        active = self._session.streams.active
        return {str(query.runId): query.name or str(query.id)[:8] for query in active}

    def _run_id(self, query: Any) -> str:
        if not isinstance(query, str):
            return str(query.runId)
        active = self._session.streams.active
        for active_query in active:
            if query in (active_query.name, str(active_query.id), str(active_query.runId)):
                return str(active_query.runId)
        known = (
            ", ".join(sorted(active_query.name or str(active_query.id) for active_query in active))
            or "none"
        )
        raise NoSuchPartition(f"no query {query!r} runs in this session; those that run: {known}")


def cluster(session: Any) -> Cluster:
    """State on this application's executors: ``print`` it to see who owns which partition, who has
    a replica of it and what has moved; its methods move partitions and replicas.

    Args:
        session: A `SparkSession` that was begun with ``configure(builder, replicas=1)``.

    Raises:
        SparkUnavailable: the session has no plugin of ours, no jar, or no driver of its own.
        ValueError: its state is in a store of another provider.

    Examples:
        >>> spark.cluster(session).partitions().num_rows
        2
    """
    return Cluster(session)
