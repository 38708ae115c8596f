"""The Spark job that reads the state and writes it where it is to be: `scala/moving`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from cec_store.connectors.spark.checkpoint.layout import STATE, Checkpoint, store_folder
from cec_store.connectors.spark.checkpoint.rewriting import hadoop_url
from cec_store.connectors.spark.moving.plan import Plan
from cec_store.connectors.spark.setup.session import has_source_of_jar
from cec_store.errors import CecError, CorruptLog, MoveRefused, SparkUnavailable
from cec_store.storage.folder import FolderTree

MOVING = "org.apache.spark.sql.cecstore.moving.Moving"
_KEY_EXTRACTOR = "org.apache.spark.sql.execution.streaming.state.StatePartitionKeyExtractor"
"""`scala/moving` needs it, and is left out where a Spark lacks it."""
_OF_THE_JOB = re.compile(
    "cancell?ed|ExecutorLostFailure|OutOfMemoryError|No space left on device|[Qq]uota exceeded|"
    "SparkContext was shut down|stopped SparkContext|Too many open files|Input/output error|"
    "AccessDenied|AccessControlException|Permission denied|"
    "Connection refused|ConnectException|SocketTimeout|UnknownHost"
)
"""Words of an error after which nothing is known of what the job was to read."""


def moving_of(session: Any) -> Any:
    """Return the JVM's object that runs such jobs, of this session.

    Raises:
        SparkUnavailable: it cannot.
    """
    if not hasattr(session, "_jsparkSession"):
        what = "a client of Spark Connect has no driver of its own: call this in the server's"
        raise SparkUnavailable(f"{what} process")
    jvm = session._jvm
    is_known = jvm.org.apache.spark.util.Utils.classIsLoadable
    if not is_known(_KEY_EXTRACTOR):
        raise SparkUnavailable(
            f"Spark {session.version} does not say which partition a key of its operators is in "
            "(StatePartitionKeyExtractor): move state with Spark 4.2 or newer"
        )
    if not (has_source_of_jar(session) and is_known(MOVING)):
        raise SparkUnavailable(
            f"this session's JVM does not know {MOVING}: start it by spark.configure(builder); "
            "with another Spark than cec-store's jar was made for it may be left out"
        )
    return jvm.org.apache.spark.sql.cecstore.moving.Moving


def reading(old: Checkpoint, batch: int) -> dict[str, object]:
    """Return the part of a job's JSON that describes the checkpoint to read."""
    unique_ids = old.commit(batch).unique_ids or {}
    return {
        "from": hadoop_url(old.folder),
        "queryId": old.query_id,
        "batch": batch,
        "conf": dict(old.offsets(batch).conf),
        "ids": {str(operator): operator_ids for operator, operator_ids in unique_ids.items()},
    }


def asked(what: str, call: Callable[[], str]) -> dict[str, Any]:
    """Return the JSON object that the JVM answers; ``what`` names the checkpoints in errors.

    Raises:
        MoveRefused: it refuses; says why.
        CorruptLog: Spark cannot read what is there.
        SparkUnavailable: the job failed by itself.
    """
    with job_errors(what, "Spark cannot read its state"):
        answer: dict[str, Any] = json.loads(call())
    if "refused" in answer:
        raise MoveRefused(f"{what}: {answer['refused']}")
    return answer


def check_all_noted(old: Checkpoint, operators: Iterable[int]) -> None:
    """Check that the operators of which Spark has noted what they keep are all that keep state.

    Raises:
        MoveRefused: one is none of them; what is noted would be taken for all.
    """
    state = old.folder.folder(STATE)
    known = {str(operator) for operator in operators}
    names = state.folders() if state.exists() else ()
    for operator in sorted(name for name in names if name.isdigit()):
        if operator not in known:
            raise MoveRefused(
                f"{state.path}/{operator}: Spark has noted nothing of this operator: run a "
                "batch of the query with the installed Spark first"
            )


@contextmanager
def job_errors(path: str, what: str) -> Iterator[None]:
    """Raise what :func:`job_error` says where a call into Spark fails, or its JVM has gone."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise job_error(path, what, error) from error
    except Py4JError as error:
        raise SparkUnavailable(f"{path}: Spark's JVM has gone: {reason_of(error)}") from error


def job_error(path: str, what: str, error: Exception) -> CecError:
    """Return what to raise for a job that failed: damage only where the job has seen it."""
    reason = reason_of(error)
    if _OF_THE_JOB.search(str(error)):
        return SparkUnavailable(
            f"{path}: the job was not done, and nothing is known of the state: {reason}. Try again"
        )
    return CorruptLog(path, 0, f"{what}: {reason}")


def reason_of(error: Exception) -> str:
    """Return the innermost line that says what was wrong, without the stacks around it.

    Py4J puts a line of its own before that of the error: "An error occurred while calling …".
    """
    first, *rest = str(error).splitlines() or [type(error).__name__]
    causes = [line for line in rest if line.startswith("Caused by: ")]
    if causes:
        return causes[-1].removeprefix("Caused by: ")[:500]
    thrown = rest[0].removeprefix(": ") if rest and rest[0].startswith(": ") else first
    return thrown[:500]


class StateJob:
    """The job of one plan, in one session."""

    def __init__(self, session: Any, plan: Plan) -> None:
        """Raises :class:`SparkUnavailable` where the session cannot run it."""
        self._moving = moving_of(session)
        self._session = session
        self._plan = plan

    def check(self) -> None:
        """See that it can be done. Nothing is written.

        Raises:
            MoveRefused: it cannot; says why.
            CorruptLog: a partition of state is missing.
        """
        old = self._plan.old
        state = old.folder.folder(STATE)
        if not state.exists():
            raise MoveRefused(f"{old.path}: its query keeps no state, so nothing has to be moved")
        stores = self._ask(self._moving.check, old.folder)["stores"]
        check_all_noted(old, (store["operator"] for store in stores))
        for store in stores:
            operator_folder = old.operator_folder(store["operator"])
            for partition in range(store["partitions"]):
                folder = store_folder(operator_folder, partition, store["store"])
                if not folder.exists():
                    raise CorruptLog(
                        folder.path, 0, "state is kept here, and the folder is missing"
                    )

    def run(self, into: FolderTree) -> tuple[int, dict[str, list[list[str]]]]:
        """Write the state below this folder: how many rows, and what V2 calls the stores."""
        answer = self._ask(self._moving.run, into)
        return int(answer["rows"]), answer["ids"]

    def take_away(self, into: FolderTree) -> None:
        """Delete the state that was written below this folder; without a JVM, nothing."""
        from py4j.protocol import Py4JNetworkError

        with suppress(Py4JNetworkError):
            self._moving.takeAway(self._session._jsparkSession, self._request(into))

    def _ask(self, call: Any, into: FolderTree) -> dict[str, Any]:
        what = self._plan.old.path
        return asked(what, lambda: call(self._session._jsparkSession, self._request(into)))

    def _request(self, into: FolderTree) -> str:
        plan = self._plan
        request = {
            **reading(plan.old, plan.batch),
            "to": hadoop_url(into),
            "providerTo": plan.provider,
            "partitions": plan.partitions or 0,
        }
        return json.dumps(request)
