"""What a fleet's driver asks of Spark; :mod:`.running` has it, and tests have others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cec_store.connectors.spark.fleet.declaration import Function, Query, queue_path
from cec_store.standby.leases import Lease

_SOURCE = re.compile(r"cec\[(.*)\]", re.DOTALL)


@dataclass(frozen=True)
class Seen:
    """A look at a query."""

    is_active: bool
    failure: str = ""
    """Why it has ended; empty where it has not failed."""
    progress: Any = None
    """Spark's, of its last batch in this run; ``None``: none yet."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The queue of each source, empty for one that is none."""
        found = [_SOURCE.fullmatch(each.description) for each in self.progress.sources]
        return tuple(queue_path(each[1]) if each else "" for each in found)


class Running(Protocol):
    """A query that was started."""

    run_id: str

    def look(self) -> Seen: ...

    def stop(self) -> None: ...


class Engine(Protocol):
    """Executors, what queries have spent, and to run them."""

    def enter(self, folder: str) -> Lease: ...

    def discard_unfinished(self, checkpoints: Sequence[str]) -> None: ...

    def executors(self) -> dict[str, float]: ...

    def spent(self) -> dict[str, float]: ...

    def start(self, query: Query, function: Function, checkpoint: str) -> Running: ...
