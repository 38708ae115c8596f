"""Drives a fleet: looks at executors and queries, and does what follows from that."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Event, Thread

from cec_store.connectors.spark.fleet import recovery
from cec_store.connectors.spark.fleet.backoff import Failures
from cec_store.connectors.spark.fleet.checkpointing import Holds, drop_holds, now_us, taken
from cec_store.connectors.spark.fleet.costs import is_caught_up
from cec_store.connectors.spark.fleet.fleet_folder import (
    CHECKPOINT,
    STOP,
    FleetFolder,
    Requests,
)
from cec_store.connectors.spark.fleet.functions import imported, read_anew
from cec_store.connectors.spark.fleet.going_back import finished
from cec_store.connectors.spark.fleet.missing import Asking, Missing, Shortage
from cec_store.connectors.spark.fleet.notes import Notes, QueryNotes
from cec_store.connectors.spark.fleet.running import Engine, Running, Seen
from cec_store.errors import CecError, Fenced, Forked, NotAQueue, StorageError
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.recovery_plans.plans import Planner
from cec_store.recovery_plans.topology import Topology
from cec_store.storage.waiting import start_uninterrupted
from cec_store.values import has_passed

PERIOD_S = 0.5
STORE_PERIOD_S = 2.0
_NOTED_AT_LEAST_S = 2.0
_STOPPED_AT_ONCE = 16
_STOP_TOLD_S = 60.0
_SIGNAL_S = 1.0
"""A signal just before a wait wakes nobody: its handler runs once the wait is over."""
_log = logging.getLogger(__name__)


class FleetDriver:
    """Made by :meth:`.fleet.Fleet.start`.

    Examples:
        >>> with fleet.start(session) as driver:
        ...     driver.wait(timeout_s=1.0)
        False
    """

    def __init__(
        self,
        engine: Engine,
        folder: FleetFolder,
        noted: Callable[[], Notes],
        planner: Planner,
        period_s: float = PERIOD_S,
        now_s: float | None = None,
    ) -> None:
        """``noted``: called once the lease is held. Until then whoever holds it may change them."""
        self._engine = engine
        self._folder = folder
        self._planner = planner
        self._period_s = period_s
        self._lease = engine.enter(folder.path, folder.options_of(folder.path))
        try:
            # Before anything is taken from whoever drives the fleet by now.
            self._lease.check()
            folder.withdraw(STOP)
            self._asked = folder.requests()
            read_before = folder.read().graph.read_queues if folder.is_there() else ()
            self._notes = finished(folder, noted(), self._lease.check)
            self._graph = self._notes.graph
            self._lease.check()
            engine.discard_unfinished([self._checkpoint_of(name) for name in self._graph.queries])
            self._imported = {
                name: query.having(*(imported(name, function) for function in query.functions))
                for name, query in self._graph.queries.items()
            }
            hook = self._notes.on_missing
            self._asking = None if hook is None else Asking(hook, engine.request)
            self._holds = Holds(folder, self._notes.consumer, self._graph)
            for error in self._holds.hold_all():
                # The queries that read it say so when they start; the others go on.
                _log.warning("%s: %s", folder.path, error)
            dropped = set(read_before) - set(self._graph.read_queues)
            drop_holds(folder, self._notes.consumer, sorted(dropped))
            self._begin(time.time() if now_s is None else now_s)
        except BaseException:
            # It has failed, and was not stopped: whoever watches the fleet tries again.
            self._lease.abandon()
            raise
        self._running: dict[str, Running] = {}
        self._arranged: tuple[str, ...] = ()
        self._ended = Event()
        self._wanted_end = Event()
        self._is_ending = False
        self.failure: Exception | None = None
        """Why it drives no more, where it was not told to stop."""

    # -- as its users have it -----------------------------------------------------------------

    @property
    def notes(self) -> Notes:
        """Notes of the fleet, which this driver writes to the fleet's folder."""
        return self._notes

    def begin(self) -> FleetDriver:
        """Drive it from now on, in a thread of its own."""
        start_uninterrupted([Thread(target=self._run, name="cec-fleet", daemon=True)])
        return self

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the driver has ended, for at most ``timeout_s``; return True if it has.

        Raises:
            Exception: what has ended it, where it was not told to stop.
        """
        if timeout_s is None:
            while not self._ended.wait(_SIGNAL_S):
                continue
        ended = self._ended.wait(timeout_s)
        if ended and self.failure is not None:
            raise self.failure
        return ended

    def end_soon(self) -> None:
        """Have it stop all queries at its next look, and return; a signal's handler may call it."""
        self._is_ending = True  # an event has a lock, which the thread of the signal may hold

    def stop(self) -> None:
        """Stop all queries and return; what they have begun they go on with when started again."""
        self._wanted_end.set()
        self._ended.wait()

    def __enter__(self) -> FleetDriver:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def look(self, now_s: float, *, asked: Requests | None = None) -> None:
        """One look at executors and queries at this moment, wall clock, and what follows from it.

        A global checkpoint that was asked for is taken now, unless a recovery is under way.
        For the thread that drives; else only before :meth:`begin`.

        Args:
            asked: Requests to the driver; those of its last look by default.
        """
        asked = self._asked if asked is None else asked
        if not self._is_held():
            return
        self._hear_of_hook()
        before = self._notes
        topology, rules = self._topology(), before.rules
        executors = self._engine.executors()
        taken_away = self._engine.taken_away(before.situation.executors.keys() - executors.keys())
        situation = recovery.observed(
            before.situation, executors, now_s, topology, rules, self._planner, taken_away
        )
        if self._engine.is_dynamic:
            situation = recovery.asking(situation, asked.paused)
        planned = situation.running(topology)
        queries_to_run = tuple(name for name in planned if name not in asked.paused)
        is_planned_anew = situation.outage != before.situation.outage
        if is_planned_anew and not self._is_held():
            return
        missing = self._seen_missing(len(executors), len(taken_away), now_s)
        self._notes = replace(before, situation=situation, missing=missing)
        if is_planned_anew:
            # A successor goes on with the plan that is in the folder, so none is carried out before
            # it is there.
            if not self._is_done(partial(self._write, now_s)):
                self._notes = before
                return
            _log.warning("%s: %s", self._folder.path, _said(situation, queries_to_run))
        # First, because a run that has ended is no longer known to be of its query.
        self._spent()
        kept = set(queries_to_run) - asked.restarts - self._redeploy(asked)
        self._stop([name for name in self._running if name not in kept])
        for name in list(self._running):
            self._watch(name, now_s)
        if queries_to_run != self._arranged:
            self._engine.arrange(queries_to_run)
            self._arranged = queries_to_run
        self._restart(asked)
        for name in queries_to_run:
            if name not in self._running:
                self._start(name, now_s)
        self._ask_for_missing(now_s)
        is_due = has_passed(rules.checkpoint_s, self._checkpointed_s, now_s)
        if situation.outage is None and (is_due or asked.is_checkpoint_asked):
            self._checkpoint(now_s, is_asked=asked.is_checkpoint_asked)
        self._note(now_s)

    # -- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_to_end:
                began_s = time.monotonic()
                self._asked = self._requests()
                if self._asked.is_stop_asked:
                    break
                self.look(time.time())
                self._wanted_end.wait(max(0.0, self._period_s - (time.monotonic() - began_s)))
            self._stop(list(self._running))
            if self._is_held():
                self._note(time.time(), is_over=True)
                # The next driver withdraws it where this one cannot.
                self._is_done(partial(self._folder.withdraw, STOP))
        except Exception as error:  # whatever a session that ends may raise
            if self._is_to_end and not isinstance(error, CecError):
                # Who stops a service may end its JVM at the same time, and the queries with it.
                _log.warning(
                    "%s: its session has ended as it stopped: %s", self._folder.path, error
                )
                return
            self.failure = error
            _log.error("%s: this fleet is driven no more: %s", self._folder.path, error)
            with suppress(Exception):  # the session may have ended, and they with it
                self._stop(list(self._running))
        finally:
            # One that has failed falls silent: whoever watches the fleet starts it again.
            self._lease.release() if self.failure is None else self._lease.abandon()
            self._ended.set()

    @property
    def _is_to_end(self) -> bool:
        return self._is_ending or self._wanted_end.is_set()

    def _requests(self) -> Requests:
        try:
            return self._folder.requests()
        except StorageError as error:  # as with the lease
            _log.warning("%s: %s", self._folder.path, error)
            # A query that is paused does not go on for that. What was carried out is not once more.
            return self._asked.lasting

    def _is_held(self) -> bool:
        """Return True if the lease is held; as :meth:`_is_done`."""
        return self._is_done(self._lease.check)

    def _is_done(self, step: Callable[[], None]) -> bool:
        """Take a step in the fleet's folder; return False where its store is away at present.

        Raises:
            Fenced: another driver has taken over.
            Forked: this process is a fork of the driver's.
        """
        try:
            step()
        except (Fenced, Forked):
            raise
        except StorageError as error:  # a busy machine, or a disk that is away: look again later
            _log.warning("%s: %s", self._folder.path, error)
            return False
        return True

    def _begin(self, now_s: float) -> None:
        topology = self._topology()
        before = self._notes.situation
        # Its executors are still coming: from now on they are waited for.
        missing = replace(self._notes.missing, since_s=None)
        if self._engine.is_dynamic:
            # They come for the tasks of queries that run, so that none may wait for them.
            before, missing = recovery.Situation({}), replace(missing, expected=0)
        situation = recovery.begun(
            before, self._engine.executors(), now_s, topology, self._notes.rules, self._planner
        )
        queries = {name: self._notes.of(name) for name in self._graph.queries}
        self._notes = replace(self._notes, situation=situation, queries=queries, missing=missing)
        self._checkpointed_s = now_s
        self._write(now_s)

    def _seen_missing(self, present: int, taken_away: int, now_s: float) -> Missing:
        hook, missing = self._notes.on_missing, self._notes.missing
        return missing.seen(present, taken_away, now_s, hook.executors if hook else None)

    def _hear_of_hook(self) -> None:
        failure = None if self._asking is None else self._asking.outcome()
        if failure is not None:
            missing = replace(self._notes.missing, failure=failure)
            self._notes = replace(self._notes, missing=missing)

    def _ask_for_missing(self, now_s: float) -> None:
        hook, missing = self._notes.on_missing, self._notes.missing
        if hook is None or self._asking is None or not missing.is_due(now_s, hook):
            return
        if self._asking.is_under_way or missing.since_s is None:
            return
        situation = self._notes.situation
        shortage = Shortage(
            self._folder.path, missing.expected, len(situation.executors), situation.cores,
            missing.since_s,
        )  # fmt: skip
        before = self._notes
        asked = replace(missing, asked_s=now_s, failure="")
        # Noted first, so that a driver which dies asks no more often than it may.
        self._notes = replace(before, missing=asked)
        if not self._is_done(partial(self._write, now_s)):
            self._notes = before
            return
        _log.warning("%s: %d executors are missing", self._folder.path, shortage.missing)
        self._asking.begin(shortage)

    def _checkpoint_of(self, name: str) -> str:
        return self._folder.checkpoint_of(name, self._notes.generation)

    def _topology(self) -> Topology:
        return self._graph.topology(self._notes.costs())

    def _watch(self, name: str, now_s: float) -> None:
        seen, notes = self._running[name].look(), self._notes.of(name)
        if seen.batch is not None and seen.batch != notes.batch:
            notes = self._progressed(name, seen, now_s)
        if not seen.is_active:
            del self._running[name]
            failures = notes.failures.after(seen.failure, now_s, self._notes.rules)
            notes = replace(notes, failures=failures, is_active=False)
            _log.warning("%s: %s has failed: %s", self._folder.path, name, failures.reason)
        self._notes = self._notes.having(name, notes)

    def _progressed(self, name: str, seen: Seen, now_s: float) -> QueryNotes:
        notes = self._notes.of(name)
        sources = self._graph.queries[name].sources
        takes_all = bool(sources) and all(source.takes_all for source in sources)
        cost = notes.cost
        if self._notes.situation.outage is None and is_caught_up(
            seen.progress, takes_all=takes_all
        ):
            cost = cost.caught_up(now_s, self._notes.rules.cost_window_s)
        return replace(
            notes, cost=cost, batch=seen.batch, sources=seen.sources,
            failures=notes.failures.forgiven(), outer_lags=seen.outer_lags,
        )  # fmt: skip

    def _spent(self) -> None:
        names = {query.run_id: name for name, query in self._running.items()}
        for run, cpu_s in self._engine.spent().items():
            if run in names and cpu_s > 0:
                notes = self._notes.of(names[run])
                notes = replace(notes, cost=notes.cost.spent(cpu_s))
                self._notes = self._notes.having(names[run], notes)

    def _start(self, name: str, now_s: float) -> None:
        notes = self._notes.of(name)
        if not notes.failures.may_start(now_s, self._notes.rules):
            return
        query = self._imported[name]
        try:
            missing = [queue for queue in self._graph.reads(name) if not self._is_there(queue)]
            if missing:
                notes = replace(notes, waits_for=f"{missing[0]}, which its writer has not made yet")
                self._notes = self._notes.having(name, notes)
                return
            self._holds.hold(self._graph.reads(name))
            started = self._engine.start(query, self._checkpoint_of(name))
            self._running[name] = started
            notes = replace(notes, is_active=True, waits_for="", batch=None)
        except Exception as error:  # of the query's function, of Spark, or of a queue
            failures = notes.failures.after(str(error), now_s, self._notes.rules)
            notes = replace(notes, failures=failures, is_active=False, waits_for="")
            _log.warning("%s: %s cannot start: %s", self._folder.path, name, failures.reason)
        self._notes = self._notes.having(name, notes)

    def _redeploy(self, asked: Requests) -> set[str]:
        """Read the code of these queries anew; return those of which it could be read."""
        names = set()
        for name in asked.redeploys & self._imported.keys():
            query, failure = self._imported[name], ""
            try:
                functions = read_anew(name, *query.functions)
                self._engine.ship(functions)
                self._imported[name] = query.having(*functions)
                names.add(name)
            except CecError as error:
                failure = str(error)
                _log.warning("%s: %s keeps its code: %s", self._folder.path, name, failure)
            notes = replace(self._notes.of(name), code_failure=failure)
            if not failure:
                notes = replace(notes, failures=Failures())
            self._notes = self._notes.having(name, notes)
        return names

    def _restart(self, asked: Requests) -> None:
        """Have queries that were stopped for it start at once, whatever has failed before."""
        for name in asked.restarts & self._graph.queries.keys():
            notes = replace(self._notes.of(name), failures=Failures())
            self._notes = self._notes.having(name, notes)
        if asked.once and self._is_held():
            try:
                for request in asked.once:
                    self._folder.withdraw(request)
            except StorageError as error:  # as with the lease; they are started once more then
                _log.warning("%s: %s", self._folder.path, error)

    def _stop(self, names: list[str]) -> None:
        if not names:
            return
        with ThreadPoolExecutor(_STOPPED_AT_ONCE) as threads:
            stops = {threads.submit(self._running[name].stop): name for name in names}
            late = wait(stops, _STOP_TOLD_S).not_done
            if late:
                told = ", ".join(sorted(stops[stop] for stop in late))
                _log.warning(
                    "%s: %s has not stopped for %g s, and the fleet waits for it: its task hangs, "
                    "or its function catches interrupts",
                    self._folder.path, told, _STOP_TOLD_S,
                )  # fmt: skip
            for stop in stops:
                stop.result()
        for name in names:
            del self._running[name]
            notes = replace(self._notes.of(name), is_active=False)
            self._notes = self._notes.having(name, notes)

    def _checkpoint(self, now_s: float, *, is_asked: bool) -> None:
        self._checkpointed_s = now_s
        try:
            at_us = now_us()
            cut = taken(self._folder, self._notes, self._graph, at_us)
            if cut is None:
                return
            self._lease.check()
            if cut.new is not None:
                self._folder.add_checkpoint(cut.new, self._notes.rules.kept_checkpoints)
                self._holds.release(self._folder.checkpoint(self._folder.checkpoints()[0]))
            if cut.new is not None or cut.has_all:
                situation = self._notes.situation.checkpointed()
                self._notes = replace(self._notes, situation=situation, checkpointed_us=at_us)
            if is_asked:
                self._folder.withdraw(CHECKPOINT)
        except Fenced:
            raise
        except (CecError, OSError) as error:
            # A query has just deleted what was read, or a store is not there: at the next one.
            _log.warning("%s: no global checkpoint: %s", self._folder.path, error)

    def _note(self, now_s: float, *, is_over: bool = False) -> None:
        is_due = has_passed(min(self._period_s, _NOTED_AT_LEAST_S), self._noted_s, now_s)
        if is_over or (is_due and self._is_held()):
            self._is_done(partial(self._write, now_s))

    def _write(self, now_s: float) -> None:
        notes = replace(self._notes, written_s=now_s)
        self._folder.write(notes, self._lease.check)
        self._notes, self._noted_s = notes, now_s

    def _is_there(self, queue: str) -> bool:
        """Raises what is wrong with a queue that is there."""
        try:
            ReferenceLog(self._folder.queue(queue)).open()
        except NotAQueue:
            return False
        return True


def _said(situation: recovery.Situation, queries_to_run: tuple[str, ...]) -> str:
    if situation.outage is None:
        return "all queries run"
    names = ", ".join(queries_to_run) or "nothing"
    return f"{situation.cores:g} cores of {situation.outage.cores_before:g}: {names} runs"
