"""The verb `cec-store consumers`: who a queue keeps records for, and what it deletes by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Annotated, Any

import typer

from cec_store.format.retention import Retention, RetentionMode
from cec_store.inspector.measuring.consumer_lags import ConsumerLag, consumer_lags
from cec_store.inspector.measuring.reference_consumers import reference_consumers
from cec_store.inspector.places.places import Log, Place, PlaceKind
from cec_store.log.chain import Chain
from cec_store.partitioned.retaining import set_retention
from cec_store.queues.appendable_queue import now_us
from cec_store.queues.lags import ConsumerState, consumer_states
from cec_store.terminal.documents import document
from cec_store.terminal.exit_status import wrong_use
from cec_store.terminal.gathering import Gathered, gather
from cec_store.terminal.screens import Cell, Screen
from cec_store.terminal.wording import counted, size
from cec_store.values import format_timestamp_us
from cec_store.verbs.arguments import (
    AsJson,
    PlacePath,
    StorageOptions,
    Yes,
    place_of,
    retention_of,
)
from cec_store.verbs.upkeep.by_log import (
    Drop,
    Trim,
    add_consumer,
    carry_out_drops,
    plan_addition,
    plan_drops,
    plan_trim_of,
    queues_of,
)
from cec_store.verbs.upkeep.by_reference import (
    add_reference_consumer,
    carry_out_reference_drop,
    plan_reference_addition,
    plan_reference_drop,
    plan_reference_trims,
)

_NAMES = (
    "name", "received", "effects saved", "lag", "lag s", "event-time lag s", "acknowledged",
)  # fmt: skip


@dataclass(frozen=True)
class _Readers:
    """Offsets and consumers of one queue."""

    first_offset: int
    end_offset: int
    consumers: list[ConsumerState]


def consumers_verb(
    path: PlacePath,
    drop: Annotated[
        str | None, typer.Option(metavar="NAME", help="Forget this consumer, with --yes.")
    ] = None,
    add: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Register this consumer before it starts, with --yes."),
    ] = None,
    retention: Annotated[
        Any,
        typer.Option(
            parser=retention_of,
            metavar="forever|consumers|7d|10GiB",
            help="Set what the queue deletes by itself, with --yes.",
        ),
    ] = None,
    yes: Yes = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """List the consumers of a queue; add or drop one; set the queue's retention."""
    screen = Screen()
    place = place_of(path, storage_options)
    place.require_open()
    is_reference = place.kind is PlaceKind.PARTITIONED_QUEUE
    with wrong_use():
        queues = place.logs if is_reference else queues_of(place)
        if sum(option is not None for option in (drop, add, retention)) > 1:
            raise ValueError("give one of --drop, --add and --retention")
        if add is not None:
            _add(screen, place, add, yes, as_json)
            return
        if retention is not None:
            _set_retention(screen, place, retention, yes, as_json)
            return
        if drop is not None:
            _drop(screen, place, drop, yes, as_json)
            return
    readers = _by_reference(place) if is_reference else _readers
    _list_consumers(screen, place, gather(place, queues, readers), as_json)


def _list_consumers(
    screen: Screen, place: Place, gathered: Gathered[_Readers], as_json: bool
) -> None:
    totals = consumer_lags(
        [state for _, readers in gathered.answers for state in readers.consumers]
    )
    if as_json:
        counts = {"logs": len(gathered.answers) + len(gathered.problems), "consumers": len(totals)}
        more = {"retention": place.retention(), "consumers": [*map(asdict, totals)]}
        screen.document(gathered.as_json(asdict, counts, **more))
    else:
        _show(screen, place, gathered, totals)
    gathered.end()


def _by_reference(place: Place) -> Callable[[Log], _Readers]:
    queue, of_partition = place.reference, reference_consumers(place)
    ends = queue.ends()

    def readers(log: Log) -> _Readers:
        number = log.partition or 0
        return _Readers(queue.first(number), ends[number], of_partition(number))

    return readers


def _readers(log: Log) -> _Readers:
    chain = Chain(log.folder)
    return _Readers(chain.first_offset(), chain.end.offset, consumer_states(chain))


def _show(
    screen: Screen, place: Place, gathered: Gathered[_Readers], totals: list[ConsumerLag]
) -> None:
    screen.line(f"{place.path}: retention {place.retention() or 'unreadable'}")
    rows = [(log, state) for log, readers in gathered.answers for state in readers.consumers]
    if len(place.logs) == 1:
        screen.table(f"{place.path}: consumers", _NAMES, [_row(state) for _, state in rows])
        return
    cells: list[list[Cell]] = [[str(log.partition), *_row(state)] for log, state in rows]
    screen.table(f"{place.path}: consumers", ("partition", *_NAMES), cells)
    if not totals:
        return
    sums: list[list[Cell]] = [
        [lag.name, lag.partitions, lag.lag_records, _waits_s(lag.waiting_since_us),
         _seconds(lag.lag_us), _acknowledged(lag.acknowledged_us)]
        for lag in totals
    ]  # fmt: skip
    names = ("name", "partitions", "lag", "longest lag s", "longest event-time lag s",
             "acknowledged")  # fmt: skip
    screen.table("over all partitions", names, sums)


def _row(state: ConsumerState) -> tuple[Cell, ...]:
    when = _acknowledged(state.acknowledged_us)
    waits_s, event_s = _waits_s(state.waiting_since_us), _seconds(state.lag_us)
    lag = state.lag_records
    return (state.name, state.received, state.effects_saved, lag, waits_s, event_s, when)


def _acknowledged(timestamp_us: int) -> str:
    return format_timestamp_us(timestamp_us) if timestamp_us else "never"


def _waits_s(since_us: int | None) -> str:
    """Return as text the seconds since then, by the clock; ``None`` counts as now."""
    return _seconds(0 if since_us is None else max(0, now_us() - since_us))


def _seconds(span_us: int) -> str:
    return f"{span_us / 1e6:,.1f}"


def _add(screen: Screen, place: Place, name: str, yes: bool, as_json: bool) -> None:
    is_reference = place.kind is PlaceKind.PARTITIONED_QUEUE
    if yes:
        begins = (add_reference_consumer if is_reference else add_consumer)(place, name)
    else:
        begins = (plan_reference_addition if is_reference else plan_addition)(place, name)
    if as_json:
        logs = [{**log.fields(), "effects_saved": at} for log, at in begins.items()]
        totals = {"logs": len(logs)}
        screen.document(document(place, True, logs, totals, added=name, done=yes))
        return
    if yes:
        screen.line(f"{place.path}: consumer {name!r} is registered")
    else:
        screen.line(f"{place.path}: would register consumer {name!r}; do it with --yes")
    for log, at in begins.items():
        screen.line(f"  {log.name or 'the queue'}: records are kept for it from offset {at:,} on")
    if (kept := place.retention()) not in ("forever", "consumers"):
        screen.note(f"the retention is {kept}: what it says is deleted, whoever needs it")


def _set_retention(
    screen: Screen, place: Place, retention: Retention, yes: bool, as_json: bool
) -> None:
    """Say what changes, and with ``yes`` change it; a partition that cannot be read stops it.

    Nothing is deleted yet: that is for the writer, whenever it has completed a segment, or made
    another commit.
    """
    before = place.retention()
    is_reference = place.kind is PlaceKind.PARTITIONED_QUEUE

    @cache
    def plan_partition() -> Callable[[Log], Trim]:
        return plan_reference_trims(place, None, None, by=retention)

    def plan(log: Log) -> Trim:
        return plan_partition()(log) if is_reference else plan_trim_of(log, None, by=retention)

    gathered = gather(place, place.logs if is_reference else queues_of(place), plan)
    is_done = yes and gathered.is_sound
    if is_done:
        set_retention(place.folder, retention)
    trims = [trim for _, trim in gathered.answers]
    totals = {
        "logs": len(place.logs),
        "segments": sum(trim.plan.segments for trim in trims),
        "bytes": sum(trim.bytes for trim in trims),
    }
    if as_json:
        more = {"before": before, "retention": str(retention), "done": is_done}
        screen.document(document(place, gathered.is_sound, [], totals, **more))
        gathered.end()
        return
    old = before or "unreadable"
    if is_done:
        screen.line(f"{place.path}: retention is {retention}; it was {old}")
    else:
        screen.line(f"{place.path}: retention is {old}; would set it to {retention}")
    what = f"{counted(totals['segments'], 'segment')} ({size(totals['bytes'])})"
    if retention.mode is not RetentionMode.FOREVER:
        when = "with one of its next commits" if is_reference else "when its next is full"
        screen.line(f"  the writer then deletes {what} of what is there now, {when}")
    if not yes:
        screen.line("do it with --yes")
    elif not is_done:
        screen.line("nothing was set, since not all could be read", "bold red")
    gathered.end()


def _drop(screen: Screen, place: Place, name: str, yes: bool, as_json: bool) -> None:
    is_reference = place.kind is PlaceKind.PARTITIONED_QUEUE
    drops: list[Drop] = (plan_reference_drop if is_reference else plan_drops)(place, name)
    if yes and is_reference:
        carry_out_reference_drop(place, name)
    elif yes:
        carry_out_drops(drops, name)
    total = sum(drop.bytes for drop in drops)
    if as_json:
        logs = [
            {**drop.log.fields(), "files": [*drop.files], "bytes": drop.bytes,
             "effects_saved": drop.effects_saved}
            for drop in drops
        ]  # fmt: skip
        totals = {"logs": len(drops), "bytes": total}
        screen.document(document(place, True, logs, totals, dropped=name, done=yes))
        return
    count = sum(len(drop.files) for drop in drops)
    files = f"{counted(count, 'file')}, {size(total)}"
    if yes:
        where = f" in {len(drops):,} partitions" if len(place.logs) > 1 else ""
        screen.line(
            f"{place.path}: dropped consumer {name!r}{where}; the queue waits for it no more"
        )
    else:
        screen.line(f"{place.path}: would drop consumer {name!r} ({files}); do it with --yes")
    for drop in drops:
        saved = "its file is damaged" if drop.effects_saved is None else (
            f"records were kept for it from offset {drop.effects_saved:,} on")  # fmt: skip
        screen.line(f"  {drop.log.name or drop.files[0]}: {saved}")
