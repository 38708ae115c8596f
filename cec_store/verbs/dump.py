"""The verb `cec-store dump`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from cec_store.format.schema import RecordKind
from cec_store.inspector.decoding.keys import KeyTest
from cec_store.inspector.decoding.records import RecordRow
from cec_store.inspector.places.places import Log, Place, place_at
from cec_store.inspector.places.points import version_at
from cec_store.inspector.showing.dump_filter import DumpFilter
from cec_store.inspector.showing.dump_rows import DamageRow, FrameRow, NoteRow, Row
from cec_store.inspector.showing.place_dump import PlaceDump
from cec_store.terminal.documents import document
from cec_store.terminal.exit_status import DAMAGED, wrong_use
from cec_store.terminal.interrupts import raise_noted_interrupt
from cec_store.terminal.screens import Screen
from cec_store.terminal.streams import refuse_closed_output
from cec_store.terminal.wording import counted, moment, value
from cec_store.values import MIN_TIMESTAMP_US, Position
from cec_store.verbs.arguments import (
    AsJson,
    AtPoint,
    Follow,
    Kinds,
    Limit,
    Operator,
    Partition,
    PlacePath,
    Raw,
    Since,
    StorageOptions,
    Store,
    Until,
    count_option,
    logs_of,
    size_option,
)

_POLL_S = 0.1
_POLL_STORE_S = 1.0  # each look is a request, which is paid for
_TALLIES = {FrameRow: "frames", RecordRow: "records", DamageRow: "damaged"}
_WORDS = {FrameRow: "frame", RecordRow: "record", DamageRow: "damage", NoteRow: "note"}


Key = Annotated[
    str | None,
    typer.Option(help='Records of this key: JSON such as {"tailnum": "N123"}, or a value in it.'),
]
SinceVersion = Annotated[int | None, typer.Option(min=0, help="Of state stores: from here on.")]
UntilVersion = Annotated[int | None, typer.Option(min=0, help="Of state stores: below this.")]
Last = Annotated[
    int | None,
    count_option("The last of each log.", "--last", "-n"),
]
MaxBytes = Annotated[
    int | None,
    size_option("Look at so much of each log, as 64MiB."),
]
Bare = Annotated[
    bool, typer.Option("--skip-record-metadata", help="Of records key, state and payload only.")
]


def dump_verb(
    path: PlacePath,
    records: Annotated[
        bool, typer.Option("--print-data-log/--frames-only", help="Records too, or frames alone.")
    ] = True,
    kinds: Kinds = None,
    key: Key = None,
    since: Since = None,
    until: Until = None,
    since_offset: Annotated[int | None, typer.Option(min=0, help="As --since @offset.")] = None,
    until_offset: Annotated[int | None, typer.Option(min=0, help="As --until @offset.")] = None,
    since_version: SinceVersion = None,
    until_version: UntilVersion = None,
    segment: Annotated[int | None, typer.Option(min=0, help="Only this segment.")] = None,
    operator: Operator = None,
    partition: Partition = None,
    store: Store = None,
    at: AtPoint = None,
    last: Last = None,
    max_bytes: MaxBytes = None,
    follow: Follow = False,
    raw: Raw = False,
    bare: Bare = False,
    limit: Limit = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Print the frames and records of a log, skipping damaged regions."""
    place = logs_of(path, storage_options)
    since_offset = since.offset if isinstance(since, Position) else since_offset
    until_offset = until.offset if isinstance(until, Position) else until_offset
    selection = DumpFilter(
        kinds=kinds or frozenset(RecordKind),
        since_offset=since_offset or 0,
        until_offset=until_offset,
        since_us=since if isinstance(since, int) else MIN_TIMESTAMP_US,
        until_us=until if isinstance(until, int) else None,
        since_version=since_version or 0,
        until_version=until_version,
        key=None if key is None else KeyTest(key),
        segment_id=segment,
        records=records,
        last=last,
        max_bytes=max_bytes,
    )
    if (since_version, until_version, at) != (None, None, None) and not place.has_versions:
        raise typer.BadParameter(f"{place.path}: a {place.kind.value} has no versions")
    if follow and (at, max_bytes) != (None, None):
        raise typer.BadParameter("--follow goes on for ever: neither --at nor --max-bytes")
    place.require_open()
    with wrong_use():
        logs = place.chosen(operator, partition, store)
        version = version_at(place, at) if at is not None else None
    show = _Show(place, logs, limit, as_json, bare)
    dump = PlaceDump(place, selection, raw, version)
    if follow:
        show.growing(dump.follow(lambda: place_at(place.folder).chosen(operator, partition, store)))
    else:
        for log in logs:
            show.begin(log)
            for row in dump.rows(log):
                show.row(log, row)
                if show.is_full:
                    break
    show.end()


class _Show:
    """Prints rows, and counts them."""

    def __init__(
        self, place: Place, logs: Sequence[Log], limit: int | None, as_json: bool, is_bare: bool
    ) -> None:
        self._screen = Screen()
        self._place = place
        self._limit = limit
        self._as_json = as_json
        self._is_bare = is_bare
        self._is_alone = len(place.logs) == 1
        self._poll_s = _POLL_S if place.folder.appends else _POLL_STORE_S
        self._logs = {log.key: (log, _nothing()) for log in logs}
        self._log: Log | None = None
        self._lines = 0

    @property
    def is_full(self) -> bool:
        """True once the limit of lines has been printed."""
        return self._lines == self._limit

    def begin(self, log: Log) -> None:
        """A line that names the log, unless rows of it are being shown."""
        if self._log is log or self.is_full:
            return
        self._log = log
        if self._as_json:
            self._screen.json_line({"row": "log", **log.fields()})
        elif not self._is_alone:
            self._screen.line(f"{log.name}: {log.folder.path}", "bold cyan")

    def row(self, log: Log, row: Row) -> None:
        """One line."""
        if self.is_full:
            return
        self._lines += 1
        _, tally = self._logs.setdefault(log.key, (log, _nothing()))
        is_torn = isinstance(row, DamageRow) and not row.acknowledged
        if type(row) in _TALLIES and not is_torn:
            tally[_TALLIES[type(row)]] += 1
        if self._as_json:
            self._screen.json_line({"row": _WORDS[type(row)], **asdict(row)})
        else:
            show_dump_row(self._screen, row, self._is_bare)

    def growing(self, rows: Iterator[tuple[Log, Row] | None]) -> None:
        """Rows as they come, until that is interrupted."""
        try:
            for entry in rows:
                if entry is not None:
                    self.begin(entry[0])
                    self.row(*entry)
                    if self.is_full:
                        return
                    continue
                sys.stdout.flush()
                refuse_closed_output()
                raise_noted_interrupt()
                time.sleep(self._poll_s)
        except KeyboardInterrupt:
            return

    def end(self) -> None:
        """Print the totals; raise typer.Exit where something was damaged."""
        totals = {name: sum(t[name] for _, t in self._logs.values()) for name in _nothing()}
        totals["logs"] = len(self._logs)
        is_sound = not totals["damaged"]
        if self._as_json:
            logs = [{**log.fields(), **tally} for log, tally in self._logs.values()]
            self._screen.json_line({"row": "end", **document(self._place, is_sound, logs, totals)})
        elif not self._is_alone:
            counts = ", ".join(counted(totals[f"{name}s"], name) for name in ("frame", "record"))
            damaged = "" if is_sound else f", {counted(totals['damaged'], 'damaged place')}"
            self._screen.line(f"{counted(totals['logs'], 'log')}: {counts}{damaged}", "bold")
        if not is_sound:
            raise typer.Exit(DAMAGED)


def _nothing() -> dict[str, int]:
    return {"frames": 0, "records": 0, "damaged": 0}


def show_dump_row(screen: Screen, row: Row, is_bare: bool = False) -> None:
    """One line, with the words of kafka-dump-log where they mean the same."""
    if isinstance(row, FrameRow):
        screen.line(_frame_line(row), "bold")
    elif isinstance(row, RecordRow):
        screen.line(_record_line(row, is_bare))
    elif isinstance(row, NoteRow):
        screen.line(f"{row.path}: note: {row.what}", "yellow")
    else:
        what = "damage" if row.acknowledged else "torn tail, not a fault"
        screen.line(f"{row.path}: byte {row.byte}: {what}: {row.what}", "bold red")


def _frame_line(row: FrameRow) -> str:
    parts = [f"{row.type} seq: {row.seq}"]
    if row.record_count:
        parts.append(f"offset: {row.first_offset}-{row.end_offset - 1} count: {row.record_count}")
    parts.append(f"segment: {row.segment_id} position: {row.byte} size: {row.frame_bytes}")
    parts.append(f"epoch: {row.epoch}")
    if row.min_timestamp_us is not None:
        parts.append(f"time: {moment(row.min_timestamp_us)}..{moment(row.max_timestamp_us)}")
    if row.open_windows or row.extent_records:
        parts.append(f"N: {row.open_windows} q: {row.extent_records} input: {row.input_upto}")
    if row.type == "BATCH":
        parts.append(f"durable: {row.durable_upto}")
    parts.append(f"isvalid: {'false (' + row.problem + ')' if row.problem else 'true'}")
    if not row.acknowledged:
        parts.append("not acknowledged")
    return " ".join(parts)


def _record_line(row: RecordRow, is_bare: bool) -> str:
    parts = ["|"]
    if not is_bare:
        parts.append(f"offset: {row.offset} {row.kind} {moment(row.timestamp_us)}")
        if row.position:
            parts.append(f"input: {','.join(map(str, row.position))}")
        if row.renewed:
            parts.append("renewed")
    if row.kind != "DATA":
        parts.append(f"key: {value(row.key)}")
    if row.state is not None:
        parts.append(f"state: {value(row.state)}")
    if row.data:
        parts.append(f"payload: {value(row.data)}")
    return " ".join(parts)
