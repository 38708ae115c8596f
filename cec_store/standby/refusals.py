"""Checks, before anything is fenced, that a standby has what its scheme needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cec_store.checkpoints.rebuild import input_taken
from cec_store.errors import OutOfRange, RecoveryError, StandbyRefused
from cec_store.format.columns import Ints
from cec_store.format.records import inputs_of
from cec_store.format.schema import KEY, STATE, input_column
from cec_store.log.chain import QueueChain
from cec_store.operators.contract import Operator, Source
from cec_store.operators.reprocessing import refuse_checkpoints
from cec_store.operators.taxonomy import ALIGNING, Chance
from cec_store.standby.queue_input import QueueInput
from cec_store.standby.schemes import Scheme

FOLLOWING = (Scheme.PASSIVE, Scheme.ACTIVE)


def scheme_of(name: Scheme | str) -> Scheme:
    """The scheme of this name, as the paper has it or by its first word.

    Raises:
        StandbyRefused: there is none.
    """
    for scheme in Scheme:
        if isinstance(name, str) and name.lower() in (scheme.value, scheme.name.lower()):
            return scheme
    known = ", ".join(repr(scheme.value) for scheme in Scheme)
    raise StandbyRefused(f"scheme={name!r}: there are {known}")


def made_by(factory: Callable[[], Operator]) -> Operator:
    """An operator of this factory.

    Raises:
        StandbyRefused: it is none, or gives something else.
    """
    made = factory() if callable(factory) else None
    if not all(hasattr(made, name) for name in ("apply", "restore", "output_schema", "inputs")):
        raise StandbyRefused(
            f"operator={factory!r}: give a function that makes a new operator each time, as an "
            "operator is used once; a takeover may need several"
        )
    assert made is not None
    return made


def refuse_sources(scheme: Scheme, operator: Operator, sources: Sequence[Source]) -> None:
    """Raises :class:`StandbyRefused` where the scheme cannot read these inputs."""
    if len(sources) != operator.inputs:
        raise StandbyRefused(
            f"{len(sources)} sources for an operator with {operator.inputs} inputs"
        )
    for number, source in enumerate(sources):
        if not callable(getattr(source, "read", None)) or not hasattr(source, "schema"):
            raise StandbyRefused(
                f"input {number}, {source!r}, cannot be read again from an offset: a source has "
                "schema and read(start, stop)"
            )
        if getattr(source, "consumer", None) is not None:
            raise StandbyRefused(
                f"input {number} has a consumer already, whose name is the primary's: give "
                "QueueInput(queue, name), which takes the name over with the queue"
            )
        if scheme is Scheme.AMNESIA and not callable(getattr(source, "end", None)):
            raise StandbyRefused(
                f"input {number}, {source!r}, does not say where it ends (`end()`), which is where "
                "amnesia goes on"
            )
        if scheme is Scheme.UPSTREAM and not isinstance(source, QueueInput):
            raise StandbyRefused(
                f"input {number} has no consumer, so nobody knows from where on upstream backup "
                "has to take it again: give QueueInput(queue, name)"
            )


def refuse_operator(scheme: Scheme, operator: Operator) -> None:
    """Raises :class:`StandbyRefused` where the operator cannot be kept close to a log."""
    if scheme in FOLLOWING and not getattr(operator, "can_be_followed", False):
        raise StandbyRefused(
            f"{type(operator).__name__} cannot be kept close to another one's log "
            f"(`can_be_followed`), as {scheme.value} needs; take over by 'eventual checkpoint'"
        )
    if scheme is Scheme.ACTIVE and operator.chances is not Chance.NONE:
        raise StandbyRefused(
            f"{type(operator).__name__} depends on chance, and a second one would be lucky in "
            "another way; 'passive standby' follows what chance has decided"
        )
    if scheme is Scheme.ACTIVE and not getattr(operator, "can_run_ahead", True):
        raise StandbyRefused(
            f"{type(operator).__name__} over sessions has windows by where its input is cut into "
            "steps, so one that is ahead has others than the log; take 'passive standby'"
        )
    if scheme is Scheme.UPSTREAM and operator.operator_type not in ALIGNING:
        raise StandbyRefused(
            f"{type(operator).__name__} is {operator.operator_type.value}: from an empty state it "
            "never comes to the same output again, so upstream backup cannot bring it back"
        )


def refuse_log(scheme: Scheme, chain: QueueChain) -> None:
    """Raise unless the scheme can continue from this log.

    Raises:
        RecoveryError: the primary writes with, or without, checkpoints, and has to do the other.
        StandbyRefused: its log has decisions of chance, which a second operator would not repeat.
    """
    if scheme is Scheme.ACTIVE and chain.schema().determinants:
        raise StandbyRefused(
            f"{chain.path}: its operator depends on chance (the log has determinants), and a "
            "second one would be lucky in another way; 'passive standby' follows what was decided"
        )
    last = chain.last()
    if last is None or scheme is Scheme.AMNESIA:
        return
    if scheme is Scheme.UPSTREAM:
        refuse_checkpoints(chain, last)
    elif not last.header.is_counted:
        raise RecoveryError(
            f"{chain.path}: frame {last.header.seq} was written without checkpoints, so there is "
            f"no state for {scheme.value}; take over by 'upstream backup'"
        )


def refuse_lost_input(sources: Sequence[Source], needed: Ints) -> None:
    """Raises :class:`StandbyRefused` where an input is not there from this position on."""
    for number, (source, start) in enumerate(zip(sources, needed.tolist(), strict=True)):
        try:
            next(iter(source.read(start, start + 1)), None)
        except OutOfRange as error:
            raise StandbyRefused(
                f"input {number} is needed from {start} on, and cannot be read again: {error}"
            ) from error


def needed_input(
    scheme: Scheme, chain: QueueChain, sources: Sequence[Source], make: Callable[[], Operator]
) -> Ints:
    """Return the position at which a takeover begins to read its inputs, shape (inputs,).

    That is T, where there is a state; by eventual checkpoint an operator whose state is its input,
    such as a join, needs input from before T, which a new one of ``make`` says. One that follows
    has that input already.
    """
    nothing = np.zeros(len(sources), np.int64)
    if scheme is Scheme.UPSTREAM:
        saved = [source.effects_saved() for source in sources if isinstance(source, QueueInput)]
        return np.array(saved, np.int64)
    last = chain.last()
    if last is None:
        return nothing
    header, columns = last.header, [input_column(n) for n in range(len(sources))]
    if not header.extent_records:
        return input_taken(header, inputs_of(chain.records(last, columns=columns), len(sources)))
    first_offset = header.end_offset - header.extent_records
    oldest = chain.find_offset(first_offset)
    assert oldest is not None
    row = first_offset - oldest.header.first_offset
    records = chain.records(oldest, columns=[*columns, KEY, STATE]).slice(row, 1)
    positions = inputs_of(records, len(sources))
    position: Ints = positions[0]
    if scheme is not Scheme.EVENTUAL:
        return position
    fresh = make()
    fresh.restore(records.column(KEY), records.column(STATE), positions)
    starts = fresh.preload_start()
    return position if starts is None else np.minimum(position, starts)


def why_refused(scheme: Scheme, operator: Operator | None, chains: Sequence[QueueChain]) -> str:
    """Return why a :class:`.Standby` of this scheme would be refused; empty where it would not.

    An ``operator`` that is not known is refused nothing.
    """
    try:
        if operator is not None:
            refuse_operator(scheme, operator)
        for chain in chains:
            refuse_log(scheme, chain)
    except (StandbyRefused, RecoveryError) as error:
        return str(error)
    return ""
