"""Executors that are missing, and the hook that asks for others.

What is missing and when it is asked for are functions of what is seen and of the clock. Executors
that were taken away on purpose, as dynamic allocation does, are not missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Lock, Thread

from cec_store.connectors.spark.fleet.functions import Function, check_function, imported
from cec_store.connectors.spark.setup.environment import run_program
from cec_store.errors import BadFleet
from cec_store.values import has_passed

_ON_PURPOSE = ("Executor killed by driver", "spark scale down")
"""Parts of the reasons with which Spark removes an executor that it, or a user, has given up."""
_OWNER = "on_missing"
_FAILURE_MAX = 2000
_log = logging.getLogger(__name__)


def is_on_purpose(reason: str) -> bool:
    """Return True if Spark gives this reason for executors that are wanted no more."""
    return any(part in reason for part in _ON_PURPOSE)


@dataclass(frozen=True)
class OnMissing:
    """Hook that asks for executors when some are missing.

    Raises:
        BadFleet: none of ``command``, ``call`` and ``request_executors``, or a value that is not
            allowed.

    Examples:
        >>> OnMissing(("sh", "more.sh"), after_s=60.0).again_s
        600.0
    """

    command: tuple[str, ...] = ()
    """Program and arguments; what is missing is in its environment."""
    call: Function | str | None = None
    """Function of a :class:`Shortage`, or where it is: ``"module:name"``."""
    request_executors: bool = False
    """Call Spark's ``requestTotalExecutors`` for the number that there are to be."""
    executors: int | None = None
    """Number that there are to be; by default the most that there were at a time."""
    after_s: float = 30.0
    """Seconds for which executors are missing before it is run."""
    again_s: float = 600.0
    """Seconds from one run to the next one at the least."""
    timeout_s: float = 60.0
    """Seconds after which the command is killed."""

    def __post_init__(self) -> None:
        is_list = isinstance(self.command, tuple) and all(isinstance(w, str) for w in self.command)
        if not is_list:
            raise BadFleet(f"{_OWNER}.command: {self.command!r}; give a list of texts")
        if self.call is not None:
            check_function(_OWNER, "call", self.call)
        if not (self.command or self.call or self.request_executors):
            raise BadFleet(f"{_OWNER}: give command, call or request_executors")
        for key in ("after_s", "again_s", "timeout_s"):
            value = getattr(self, key)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not 0 <= value < 1e9:
                raise BadFleet(f"{_OWNER}.{key}: {value!r}; seconds, 0 or more")
        if self.executors is not None and (type(self.executors) is not int or self.executors < 1):
            raise BadFleet(f"{_OWNER}.executors: {self.executors!r}; a whole number above 0")


@dataclass(frozen=True)
class Missing:
    """Executors that there are to be, and since when some are missing; times are wall clock."""

    expected: int = 0
    since_s: float | None = None
    """``None``: none is missing."""
    asked_s: float | None = None
    """Time of the last run of the hook."""
    failure: str = ""
    """Why that run has failed; empty where it has not, or goes on."""

    def seen(self, present: int, taken_away: int, now_s: float, executors: int | None) -> Missing:
        """Return what is missing after a look.

        Args:
            present: Number of executors.
            taken_away: Number that were taken away on purpose since the last look.
            executors: Number that there are to be; ``None``: the most that there were.
        """
        expected = max(self.expected - taken_away, present) if executors is None else executors
        if present >= expected:
            return replace(self, expected=expected, since_s=None)
        since_s = now_s if self.since_s is None else min(self.since_s, now_s)
        return replace(self, expected=expected, since_s=since_s)

    def is_due(self, now_s: float, hook: OnMissing) -> bool:
        """Return True if the hook is to be run now."""
        if self.since_s is None or now_s - self.since_s < hook.after_s:
            return False
        return self.asked_s is None or has_passed(hook.again_s, self.asked_s, now_s)


@dataclass(frozen=True)
class Shortage:
    """Shortage of executors that a hook is told of.

    Examples:
        >>> Shortage("fleets/shop", expected=4, present=1, cores_present=1.0, since_s=1.8e9).missing
        3
    """

    fleet: str
    """Path or URL of the fleet's folder."""
    expected: int
    """Number of executors that there are to be."""
    present: int
    cores_present: float
    since_s: float
    """Time since which executors are missing, wall clock."""

    @property
    def missing(self) -> int:
        return self.expected - self.present

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables that a command gets."""
        return {
            "CEC_FLEET": self.fleet,
            "CEC_EXECUTORS_MISSING": str(self.missing),
            "CEC_EXECUTORS_EXPECTED": str(self.expected),
            "CEC_EXECUTORS": str(self.present),
            "CEC_CORES": f"{self.cores_present:g}",
            "CEC_MISSING_SINCE": f"{self.since_s:.3f}",
        }


class Asking:
    """Runs a hook in a thread of its own, one at a time; its failure is told and ends nothing.

    Raises:
        BadFleet: the function of the hook is not there.
    """

    def __init__(self, hook: OnMissing, request: Callable[[int], str]) -> None:
        """``request``: asks Spark for so many executors; returns why it could not, else nothing."""
        self._hook = hook
        self._request = request
        self._call = None if hook.call is None else imported(_OWNER, hook.call)
        self._lock = Lock()
        self._thread: Thread | None = None
        self._failure: str | None = None

    @property
    def is_under_way(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def begin(self, shortage: Shortage) -> None:
        """Run the hook, and return at once."""
        self._thread = Thread(
            target=self._run, args=(shortage,), name="cec-fleet-on-missing", daemon=True
        )
        self._thread.start()

    def outcome(self) -> str | None:
        """Return once why the last run has failed, empty if it has not; ``None``: nothing new."""
        with self._lock:
            failure, self._failure = self._failure, None
        return failure

    def _run(self, shortage: Shortage) -> None:
        failures = []
        for step in (self._run_command, self._run_call, self._run_request):
            try:
                failure = step(shortage)
            except Exception as error:  # of a function of the user's, or of Spark
                failure = f"{type(error).__name__}: {error}"
            if failure:
                failures.append(failure)
        failure = "; ".join(failures)[:_FAILURE_MAX]
        if failure:
            _log.warning("%s: on_missing has failed: %s", shortage.fleet, failure)
        with self._lock:
            self._failure = failure

    def _run_command(self, shortage: Shortage) -> str:
        if not self._hook.command:
            return ""
        hook, variables = self._hook, shortage.environment
        status, output = run_program(hook.command, hook.timeout_s, variables)
        if not status:
            return ""
        last = output.strip().rpartition("\n")[2]
        return f"{hook.command[0]} has ended with status {status}" + (f": {last}" if last else "")

    def _run_call(self, shortage: Shortage) -> str:
        if self._call is not None:
            self._call(shortage)
        return ""

    def _run_request(self, shortage: Shortage) -> str:
        return self._request(shortage.expected) if self._hook.request_executors else ""
