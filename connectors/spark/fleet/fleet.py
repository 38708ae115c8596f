"""A fleet as its users have it: declared, then started as one."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from cec_store.connectors.spark.fleet.declaration import (
    Graph,
    Query,
    absolute_path,
    queue_path,
)
from cec_store.connectors.spark.fleet.driver import PERIOD_S, STORE_PERIOD_S, FleetDriver
from cec_store.connectors.spark.fleet.fleet_folder import (
    FleetFolder,
    pausing,
    redeploying,
    restarting,
)
from cec_store.connectors.spark.fleet.functions import Function, imported
from cec_store.connectors.spark.fleet.missing import Missing, OnMissing
from cec_store.connectors.spark.fleet.notes import Notes
from cec_store.connectors.spark.fleet.outer import Sink, Source
from cec_store.connectors.spark.fleet.recovery import Situation
from cec_store.connectors.spark.fleet.rules import Rules
from cec_store.connectors.spark.fleet.running import SparkEngine
from cec_store.connectors.spark.fleet.toml_file import read_toml
from cec_store.connectors.spark.takeover.tenure import LEASE
from cec_store.errors import BadFleet, NotAFleet, NotAQueue
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.log.epochs import newest_epoch
from cec_store.recovery_plans.density import best_density
from cec_store.recovery_plans.plans import Planner
from cec_store.storage.paths import AnyPath, is_url
from cec_store.storage.stores.folders import StorageOptions, folder_at


class Fleet:
    """Queries joined by queues. Nothing happens before it is started.

    Examples:
        >>> fleet = Fleet("fleets/shop", rules=Rules(lost_executors=3))
        >>> _ = fleet.query("valid", valid, reads=["queues/sold"], writes="queues/valid")
        >>> _ = fleet.query("dear", dear, reads=["queues/valid"], writes="queues/dear", priority=9)
        >>> fleet.checked().upstream("dear")
        ('valid',)
    """

    def __init__(
        self,
        folder: AnyPath,
        *,
        rules: Rules | None = None,
        spark: Mapping[str, str] | None = None,
        storage_options: StorageOptions | None = None,
        on_missing: OnMissing | None = None,
    ) -> None:
        """``folder``: what is kept of the fleet, on a disk that its drivers share, or in a store
        by URL, which outlives them.

        ``spark``: settings of the session, for ``cec-store fleet run``. ``storage_options``: of
        the folder's and the queues' fsspec file systems, where they are URLs, as pandas takes them;
        they are not noted, and Spark has its own. ``on_missing``: asks for executors when some are
        missing.

        Raises:
            ValueError: no path, and no URL of a store that is known.
        """
        self.folder = FleetFolder(folder, storage_options)
        self._rules = rules
        self._spark = dict(spark or {})
        self._on_missing = on_missing
        self._queries: list[Query] = []

    @classmethod
    def of_toml(cls, path: Path, storage_options: StorageOptions | None = None) -> Fleet:
        """Make the fleet that a TOML file declares (docs/fleets.md); the file has no credentials.

        Raises:
            BadFleet: the file says what it cannot.
            OSError: it cannot be read.
        """
        declared = read_toml(path)
        fleet = cls(
            declared.folder,
            rules=declared.rules,
            spark=declared.spark,
            storage_options=storage_options,
            on_missing=declared.on_missing,
        )
        fleet._queries = list(declared.queries)
        return fleet

    @classmethod
    def at(cls, folder: AnyPath, storage_options: StorageOptions | None = None) -> Fleet:
        """One that was started before, or made by a fork, as its folder has it.

        Raises:
            NotAFleet: there is none.
        """
        notes = FleetFolder(folder, storage_options).read()
        fleet = cls(
            folder,
            rules=notes.rules,
            spark=notes.spark,
            storage_options=storage_options,
            on_missing=notes.on_missing,
        )
        fleet._queries = list(notes.declared)
        return fleet

    def query(
        self,
        name: str,
        function: Function | str,
        *,
        reads: Sequence[str] = (),
        writes: str = "",
        priority: int | None = None,
        output_mode: str = "append",
        every_s: float = 0.0,
        cost: float | None = None,
        read_options: Mapping[str, str] | None = None,
        write_options: Mapping[str, str] | None = None,
        sources: Sequence[Source] = (),
        sink: Sink | None = None,
    ) -> Fleet:
        """Add a query; returns the fleet.

        Args:
            function: Gets a streaming DataFrame for each queue of ``reads`` and then each of
                ``sources``, in that order, and returns the one that is written. Or where it is:
                ``"module:name"``.
            writes: A queue that no other query of the fleet writes; made where there is none.
            priority: 1 to 10, of a query whose output somebody waits for. Without it, 1 where no
                query reads that output, else none: then it runs for those that need it.
            every_s: Between the starts of two batches; 0: one after the other.
            cost: Cores that it keeps busy; measured where it is not given.
            read_options: Of the source, for all queues that are read.
            write_options: Of the queue that is written.
            sources: What it reads that is no queue.
            sink: What it writes, in place of ``writes``, that is no queue.

        Raises:
            BadFleet: a value that is not allowed.
        """
        if isinstance(reads, str):
            raise BadFleet(f"{name}: reads={reads!r}; give a list of queues")
        self._queries.append(
            Query(
                # Whoever reads the notes may do so in another folder.
                name, function, tuple(map(absolute_path, reads)),
                absolute_path(writes) if writes else "", priority, output_mode, every_s, cost,
                dict(read_options or {}), dict(write_options or {}), tuple(sources), sink,
            )
        )  # fmt: skip
        return self

    @property
    def spark(self) -> Mapping[str, str]:
        """Settings of the session."""
        return self._spark

    def checked(self) -> Graph:
        """The graph, if all of it can be started.

        Raises:
            BadFleet: names or writers twice, a circle, a function or an input queue that is not
                there; options of stores for a fleet that has none. Nothing was started or changed.
        """
        graph = Graph.of(self._queries)
        places = [self.folder.path, *graph.read_queues, *graph.writers]
        if self.folder.storage_options and not any(map(is_url, places)):
            raise BadFleet(
                f"{self.folder.path}: local files have no storage_options, and this fleet has "
                "neither its folder nor a queue in a store"
            )
        for query in graph.queries.values():
            for function in query.functions:
                imported(query.name, function)
        if self._on_missing is not None and self._on_missing.call is not None:
            imported("on_missing", self._on_missing.call)
        for queue in dict.fromkeys((*graph.read_queues, *graph.writers)):
            if newest_epoch(folder_at(queue, self.folder.options_of(queue))) is not None:
                raise BadFleet(
                    f"{queue}: a queue without partitions, and a fleet's queries are joined by "
                    "queues of many, whose commits say which batch has written what; make one by "
                    "open_queue(PATH, 'a', schema=..., partitions=N), and append the rows to it"
                )
        for queue in graph.inputs:
            readers = ", ".join(name for name in graph.queries if queue in graph.reads(name))
            try:
                ReferenceLog(self.folder.queue(queue)).open()
            except NotAQueue as error:
                raise BadFleet(
                    f"{readers}: reads {queue}, which is no queue of many partitions, and no "
                    f"query of the fleet writes it: {error}"
                ) from error
        return graph

    def check_is_free(self) -> None:
        """Look whether another driver runs this fleet, before a session is started for it.

        Raises:
            LeaseHeld: one does.
        """
        self.folder.leases().check_is_free(LEASE)

    def pause(self, query: str) -> None:
        """Have the fleet's driver keep a query stopped, from its next look on, until it is resumed.

        Its input waits in the queues; it holds for later drivers as well.

        Raises:
            BadFleet: the fleet has no query of that name.
        """
        self.folder.ask(pausing(self._known(query)))

    def resume(self, query: str) -> None:
        """Have a paused query go on where it was; raises as :meth:`pause`."""
        self.folder.withdraw(pausing(self._known(query)))

    def restart(self, query: str) -> None:
        """Have a query stopped and started again, without waiting for what a failure asks for.

        A batch that was under way is run again, and is once in the queue. Raises as :meth:`pause`.
        """
        self.folder.ask(restarting(self._known(query)))

    def redeploy(self, query: str) -> None:
        """Have a query's function, and that of its sink, read anew from their modules' files.

        Then it is stopped and started with them. It goes on with its old code where they cannot be
        read: :attr:`.QueryNotes.code_failure` says why. Raises as :meth:`pause`.
        """
        self.folder.ask(redeploying(self._known(query)))

    def _known(self, query: str) -> str:
        names = [declared.name for declared in self._queries]
        if query not in names:
            raise BadFleet(f"no query {query!r} in this fleet; it has {', '.join(names)}")
        return query

    def start(
        self,
        session: Any,
        *,
        accept: bool = False,
        period_s: float | None = None,
        planner: Planner = best_density,
        in_turn: bool = True,
    ) -> FleetDriver:
        """Start all of it, or go on where its last driver was.

        Args:
            session: A `SparkSession` with our jar: ``spark.configure(builder)``.
            accept: Run all of it on the executors that there are, however many there were before.
            period_s: Seconds between two looks at queries and executors; 0.5, or 2 where the
                folder is in a store: some requests each time.
            planner: Of :mod:`cec_store.recovery_plans`.
            in_turn: Queries that are behind do not wait for their triggers. Where the session's
                ``spark.scheduler.mode`` is ``FAIR``, those that keep up with their input have the
                first claim to a core, and those that are behind catch up in the order of the plan.
                Else all have the same claim, and wait.

        Returns:
            What runs it, in a thread of its own; a context manager that stops it.

        Raises:
            BadFleet: as :meth:`checked`.
            LeaseHeld: another driver runs this fleet.
            SparkUnavailable: the session has no jar of ours, or no driver of its own.
        """
        graph = self.checked()
        engine = SparkEngine(session, in_turn=in_turn)
        self.folder.make()
        # What cannot be gone on with is said before anybody who drives it is waited for.
        self.noted(graph, accept=accept)
        noted = partial(self.noted, graph, accept=accept)
        if period_s is None:
            period_s = STORE_PERIOD_S if is_url(self.folder.path) else PERIOD_S
        return FleetDriver(engine, self.folder, noted, planner, period_s).begin()

    def noted(self, graph: Graph, *, accept: bool = False) -> Notes:
        """Return the notes of the last driver, with the queries and rules that are declared now.

        Raises:
            BadFleet: a query has an earlier one's name, or has other queues than before.
        """
        try:
            notes = self.folder.read()
        except NotAFleet:
            rules = self._rules or Rules()
            return Notes(
                secrets.token_hex(16),
                tuple(self._queries),
                rules,
                spark=self._spark,
                on_missing=self._on_missing,
            )
        known = {earlier_query.name: earlier_query for earlier_query in notes.declared}
        for name, query in graph.queries.items():
            if name not in known and self.folder.generations(name):
                raise BadFleet(
                    f"{name}: an earlier query of this fleet had that name, and its checkpoint is "
                    "still there; give this one another name"
                )
            before = known.get(name, query)
            if list(map(queue_path, before.reads)) != list(graph.reads(name)):
                raise BadFleet(
                    f"{name}: reads other queues than before, and its checkpoint says how far it "
                    "is in those; give it another name"
                )
            if [source.name for source in before.sources] != [
                source.name for source in query.sources
            ]:
                raise BadFleet(
                    f"{name}: reads other sources than before, and its checkpoint says how far it "
                    "is in those; give it another name"
                )
            if _output(before) != _output(query):
                raise BadFleet(
                    f"{name}: writes another queue or sink than before, which would lack what it "
                    "has written so far; give it another name"
                )
        return replace(
            notes,
            declared=tuple(self._queries),
            situation=Situation({}) if accept else notes.situation,
            rules=self._rules or notes.rules,
            spark=self._spark or notes.spark,
            on_missing=self._on_missing,
            missing=Missing() if accept else notes.missing,
        )


def _output(query: Query) -> str:
    if query.sink is None:
        return queue_path(query.writes)
    # New code may have the function at another place.
    return query.sink.name if query.sink.foreach_batch is None else "foreachBatch"
