"""The work of a node: an operator, its inputs and its output, the same on all nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cec_store.checkpoints.policy import Policy
from cec_store.errors import NotAQueue, StandbyRefused
from cec_store.log.options import QueueOptions
from cec_store.opening import open_queue
from cec_store.operators.contract import Operator, Source
from cec_store.operators.runner import record_schema
from cec_store.standby.nodes.election import NodeRules
from cec_store.standby.queue_input import QueueInput
from cec_store.standby.refusals import (
    FOLLOWING,
    made_by,
    refuse_operator,
    refuse_sources,
    scheme_of,
)
from cec_store.standby.schemes import Scheme
from cec_store.standby.standby import Standby
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.folders import StorageOptions


@dataclass(frozen=True)
class Job:
    """Work of a node. All nodes of a queue are given the same.

    Examples:
        >>> job = Job("averages", averages, lambda: [source], policy=Targets())
        >>> job.check(NodeRules())
        >>> job.standby().scheme
        <Scheme.PASSIVE: 'passive standby'>
    """

    queue: AnyPath
    """Path or URL of the output; the first primary makes it where it is not there."""
    operator: Callable[[], Operator]
    """Makes a new operator each time."""
    inputs: Callable[[], Sequence[Source]]
    """Opens the inputs anew each time: :class:`QueueInput` where the primary acknowledges them."""
    scheme: Scheme | str = Scheme.PASSIVE
    policy: Policy | None = None
    options: QueueOptions | None = None
    storage_options: StorageOptions | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    """Other arguments of :class:`Standby`, such as ``step_rows_max``."""

    def check(self, rules: NodeRules) -> None:
        """See that nodes can run it, by these rules; nothing is written.

        Raises:
            StandbyRefused: the scheme is not one that the operator or its inputs can have, or it
                follows nothing, and the rules bound a lag.
            NotAQueue: an input is not there.
        """
        scheme = scheme_of(self.scheme)
        made = made_by(self.operator)
        refuse_operator(scheme, made)
        refuse_sources(scheme, made, self.inputs())
        if rules.lag_max is not None and scheme not in FOLLOWING:
            raise StandbyRefused(
                f"lag_max={rules.lag_max:,}: a standby by {scheme.value} reads nothing before it "
                "takes over, so that it has no lag; leave lag_max out, or use 'passive standby'"
            )

    def standby(self) -> Standby:
        """Return a new standby. Raises :class:`NotAQueue` before the first primary has begun."""
        return Standby(
            self.queue,
            self.operator,
            self.inputs(),
            self.scheme,
            self.policy,
            options=self.options,
            storage_options=self.storage_options,
            **self.more,
        )

    def begin(self) -> Standby:
        """Return a new standby; the queue is made, and the inputs' consumers are registered.

        For the holder of the lease alone.
        """
        for source in self.inputs():
            if isinstance(source, QueueInput):
                source.register()
        with suppress(NotAQueue):
            return self.standby()
        schema = record_schema(made_by(self.operator))
        open_queue(
            self.queue, "a", schema=schema, options=self.options,
            storage_options=self.storage_options, takeover=True,
        ).close()  # fmt: skip
        return self.standby()
