"""The adaptation manager: looks at loads, and moves partitions and replicas as the paper's does."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

from cec_store.connectors.spark.executors.batch_loads import BatchLoads, OtherLoads
from cec_store.connectors.spark.executors.driver_side import DriverSide
from cec_store.connectors.spark.executors.loads import LoadMeter, is_of_batch
from cec_store.connectors.spark.executors.migration import order_all
from cec_store.connectors.spark.executors.planning import crowded, placed, planned
from cec_store.connectors.spark.executors.snapshot import Move, PartitionId, Snapshot
from cec_store.errors import CecError
from cec_store.placement.loads import LoadHistory
from cec_store.placement.plans import Plan, Rules

SAMPLES_BEFORE_PLACING = 10
"""A correlation of fewer says little."""
MOVE_S = 120.0
"""Seconds after which a move is cancelled that is not over, as ``rebalance`` does by default."""
_log = logging.getLogger(__name__)


def cores_of(session: Any) -> dict[str, float]:
    """Tasks that each executor runs at a time."""
    context = session.sparkContext._jsc.sc()
    cpus = int(session.sparkContext.getConf().get("spark.task.cpus", "1"))
    known = context.statusStore().executorList(True)
    summaries = [known.apply(number) for number in range(known.size())]
    return {
        summary.id(): summary.totalCores() / cpus
        for summary in summaries
        if summary.id() != "driver"
    }


class Adaptation:
    """Runs in a thread of its own until it is stopped. Made by ``Cluster.adapt``.

    What is planned is said, for people, before it is done; with ``dry_run`` that is all.
    """

    def __init__(
        self,
        session: Any,
        driver: DriverSide,
        *,
        every_s: float,
        min_batches: int,
        rules: Rules,
        threshold: float,
        spread: float,
        dry_run: bool,
        say: Callable[[str], object],
        on_scale: Callable[[int, tuple[str, ...]], object] | None,
    ) -> None:
        self.failure: Exception | None = None
        """Why it has stopped by itself."""
        self.rounds = 0
        self._session = session
        self._driver = driver
        self._meter = LoadMeter(session)
        self._batches = BatchLoads(min_batches)
        self._others = OtherLoads(min_batches)
        self._history = LoadHistory()
        self._every_s = every_s
        self._rules = rules
        self._threshold = threshold
        self._spread = spread
        self._crowded: frozenset[str] = frozenset()
        """Executors of which it was said that they break the spread."""
        self._dry_run = dry_run
        self._say = say
        self._on_scale = on_scale
        self._moving_since_s: dict[int, float] = {}
        """Monotonic time at which each move that is under way was seen first, by its number."""
        self._freed: set[str] = set()
        """Executors that are being emptied, or are empty, so that they can go."""
        self._told: set[str] = set()
        """Freed executors that were already passed to ``on_scale``."""
        self._ended = Event()
        self._thread = Thread(target=self._run, name="cec-adaptation", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Migrations that were ordered go on."""
        self._ended.set()
        self._thread.join()

    def __enter__(self) -> Adaptation:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            try:
                self._look()
                self.rounds += 1
            except CecError as error:
                # An executor that went meanwhile; the next look sees what is left.
                _log.warning("adaptation tries again: %s", error)
            except Exception as error:  # told by `failure`
                if not self._ended.is_set():
                    self.failure = error
                    _log.error("adaptation has ended: %s", error)
                return

    def _look(self) -> None:
        snapshot = self._driver.snapshot()
        spent = {of: cost.cpu_s for of, cost in self._meter.totals().items()}
        at_s = time.monotonic()
        sample = self._batches.see(snapshot, spent, at_s, self._idle())
        if sample is not None:
            self._history.add(sample)
            self._others.see(self._meter.others(), at_s)
        if self._waits_for_moves(snapshot, at_s):
            return  # one adaptation at a time: what moves has no load to go by
        self._freed &= set(snapshot.usable)
        self._told &= self._freed
        plan = planned(
            snapshot,
            self._batches.loads(),
            cores_of(self._session),
            self._rules,
            self._freed,
            may_free=self._batches.is_measured,
            others=self._others.loads(),
        )
        self._tell_scale(plan, snapshot)
        if plan.moves:
            self._say(str(plan))
            if not self._dry_run:
                orders = [(_id(move.group), str(move.target)) for move in plan.moves]
                # A replica is made first where there is none, so that nobody waits for a load.
                order_all(self._driver, orders, "cpal")
        elif len(self._history) >= SAMPLES_BEFORE_PLACING:
            self._place(snapshot)

    def _waits_for_moves(self, snapshot: Snapshot, at_s: float) -> bool:
        """Return True if something moves; what has done so for too long is ended."""
        moving = [move for move in snapshot.moves if not move.is_over]
        since_s = {move.number: self._moving_since_s.get(move.number, at_s) for move in moving}
        self._moving_since_s = since_s
        if not self._dry_run:
            for move in moving:
                if at_s - since_s[move.number] >= MOVE_S:
                    self._end(move)
        return bool(moving)

    def _end(self, move: Move) -> None:
        """Cancel a move; where its replica is never warm, order one that needs none."""
        what = f"{move.id}: its move to executor {move.target} is not over after {MOVE_S:g} s"
        _log.warning("%s (%s), and is cancelled", what, move.state)
        self._driver.cancel(move.number)
        if move.state == "catching_up":
            order_all(self._driver, [(move.id, move.target)], "direct")

    def _idle(self) -> dict[str, str]:
        """Return when a query had no batch to run, by run id, where it told of that last."""
        newest = {str(query.runId): query.lastProgress for query in self._session.streams.active}
        return {
            run: str(progress.timestamp)
            for run, progress in newest.items()
            if progress is not None and not is_of_batch(progress)
        }

    def _tell_scale(self, plan: Plan, snapshot: Snapshot) -> None:
        """Tell how many more are needed, and who is empty: not yet those that this plan empties."""
        if self._on_scale is None:
            return
        if plan.nodes_wanted:
            self._freed.clear()
        busy = {partition.owner for partition in snapshot.partitions}
        freed = tuple(str(node) for node in plan.freed if str(node) not in self._told)
        empty = tuple(executor_id for executor_id in freed if executor_id not in busy)
        if not self._dry_run and set(freed) - self._freed:
            self._freed |= set(freed)
            self._batches.begin_anew()
            self._others.begin_anew()
        if not (plan.nodes_wanted or empty):
            return
        self._say(str(plan))
        if not self._dry_run:
            self._told |= set(empty)
            self._on_scale(plan.nodes_wanted, empty)

    def _place(self, snapshot: Snapshot) -> None:
        placings = placed(
            snapshot, self._history, self._threshold, self._freed, spread=self._spread
        )
        for placing in placings:
            self._say(str(placing))
            if not self._dry_run:
                self._driver.place(placing.id, placing.executors)
        if not placings:
            self._tell_crowded(snapshot)

    def _tell_crowded(self, snapshot: Snapshot) -> None:
        """Tell once which executors break the spread where no placing would mend that."""
        shares = crowded(snapshot, self._history, self._spread, self._freed)
        if shares.keys() - self._crowded:
            named = ", ".join(f"{name} has {share:.2f}" for name, share in sorted(shares.items()))
            self._say(
                f"spread {self._spread:g} is not kept by these loads: of the average load of "
                f"replicas executor {named}"
            )
        self._crowded = frozenset(shares)


def _id(group: object) -> PartitionId:
    assert isinstance(group, PartitionId)
    return group
