"""A session whose driver side is made of documents: what `scala/replicas/Cluster.scala` answers."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from cec_store.connectors.spark.setup.settings import PROVIDER

QUERY = "4d0f1c52-0000-0000-0000-000000000001"
_PARTITION = {
    "query": QUERY, "checkpoint": "/checkpoint/state", "operator": 0, "host": "127.0.0.2",
    "version": 17, "stores": ["default"], "windows": 1_000, "state_bytes": 3 << 20,
    "replicas_wanted": 1, "is_placed": False,
}  # fmt: skip
_EXECUTOR = {
    "host": "127.0.0.2", "state": "alive", "owned": 0, "replicas": 0, "replica_bytes": 1 << 20,
    "replica_bytes_max": 64 << 20, "silent_ms": 10,
}  # fmt: skip


def partition(number: int, owner: str | None, **more: object) -> dict[str, Any]:
    return {**_PARTITION, "partition": number, "owner": owner, **more}


def executor(name: str, **more: object) -> dict[str, Any]:
    return {**_EXECUTOR, "executor": name, **more}


def replica(number: int, on: str, **more: object) -> dict[str, Any]:
    found = {"state": "warm", "version": 16, "lag_versions": 1, "memory_bytes": 4096, "reason": ""}
    return {"query": QUERY, "operator": 0, "partition": number, "executor": on, **found, **more}


def migration(number: int, of: int, to: str, **more: object) -> dict[str, Any]:
    found = {
        "from": "0", "protocol": "cpal", "state": "catching_up", "reason": "", "ordered_ms": 1_000,
        "located_ms": None, "done_ms": None, "version": None, "is_from_replica": False,
        "records_read": 0, "load_ms": 0,
    }  # fmt: skip
    return {"id": number, "query": QUERY, "operator": 0, "partition": of, "to": to, **found, **more}


def event(number: int, kind: str, executor: str, **more: object) -> dict[str, Any]:
    """One event of an executor, or with ``of`` of a partition of the query."""
    partition = more.pop("of", None)
    key = {"query": QUERY if partition is not None else None, "partition": partition}
    known = {"number": number, "at_ms": 1_000 * number, "kind": kind, "executor": executor}
    operator = None if partition is None else 0
    return {**key, "operator": operator, **known, "from": None, "move": None, "reason": "", **more}


class DriverDouble:
    """In place of the `Cluster` object; keeps what it was told, and does none of it."""

    def __init__(self, **lists: list[dict[str, Any]]) -> None:
        self.lists = {"executors": [], "assignments": [], "replicas": [], "migrations": [], **lists}
        self.wanted: str | None = None
        self.is_up = True
        self.refusal: dict[str, str] | None = None
        self.ordered: list[tuple[Any, ...]] = []
        self.ends_as: dict[str, object] = {"state": "done", "done_ms": 3_000, "version": 18}
        """What a migration has become by the second look."""
        self.loads: list[dict[str, Any]] = []
        self.others_ns: dict[str, int] = {}
        self.happened: list[dict[str, Any]] = []

    def isRunning(self) -> bool:  # noqa: N802
        return self.is_up

    def status(self) -> str:
        said = json.dumps({"is_running": self.is_up, "wanted": self.wanted, **self.lists})
        moves = self.lists["migrations"]
        moves[:] = [{**each, **self.ends_as} for each in moves]
        return said

    def events(self) -> str:
        return json.dumps(self.happened if self.is_up else {"refused": "not_running"})

    def move(self, query: str, operator: int, number: int, to: str, protocol: str) -> str:
        if self.refusal:
            return json.dumps(self.refusal)
        self.ordered.append(("move", number, to, protocol))
        moves = self.lists["migrations"]
        moves.append(migration(len(moves), number, to, protocol=protocol))
        return json.dumps(moves[-1])

    def cancel(self, number: int) -> str:
        self.ordered.append(("cancel", number))
        moves = self.lists["migrations"]
        moves[number] = {**moves[number], "state": "cancelled"}
        return json.dumps(moves[number])

    def place(self, query: str, operator: int, number: int, on: str) -> str:
        self.ordered.append(("place", number, on))
        return json.dumps(self.refusal or {"executors": on.split(",")})

    def release(self, query: str, operator: int, number: int) -> str:
        self.ordered.append(("release", number))
        return json.dumps(self.refusal or {"executors": []})

    def text(self) -> str:
        """In place of `TaskLoads`."""
        return json.dumps(self.loads)

    def othersText(self) -> str:  # noqa: N802
        return json.dumps(self.others_ns)

    def session(self, provider: str = PROVIDER, knows: bool = True) -> Any:
        """With this as its driver side, and one core on each executor."""
        summaries = [
            SimpleNamespace(id=lambda name=each["executor"]: name, totalCores=lambda: 1)
            for each in self.lists["executors"]
        ]
        listed = SimpleNamespace(size=lambda: len(summaries), apply=lambda n: summaries[n])
        context = SimpleNamespace(
            statusStore=lambda: SimpleNamespace(executorList=lambda active: listed)
        )
        replicas = SimpleNamespace(Cluster=self, TaskLoads=SimpleNamespace(of=lambda sc: self))
        utils = SimpleNamespace(classIsLoadable=lambda name: knows)
        apache = SimpleNamespace(
            spark=SimpleNamespace(
                util=SimpleNamespace(Utils=utils),
                sql=SimpleNamespace(cecstore=SimpleNamespace(replicas=replicas)),
            )
        )
        query = SimpleNamespace(name="counts", id="4d0f1c52", runId=QUERY, lastProgress=None)
        return SimpleNamespace(
            _jsparkSession=None,
            _jvm=SimpleNamespace(org=SimpleNamespace(apache=apache)),
            conf=SimpleNamespace(get=lambda name, default: provider),
            sparkContext=SimpleNamespace(
                _jsc=SimpleNamespace(sc=lambda: context),
                appName="an application",
                applicationId="app-1",
                getConf=lambda: SimpleNamespace(get=lambda name, default: default),
            ),
            streams=SimpleNamespace(active=[query]),
        )
