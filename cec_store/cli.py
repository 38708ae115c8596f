"""The command line. It reads options and prints; what there is to know is found out elsewhere.

Exit status: 0 sound, 1 damaged (or, in the demo, different), 2 wrong use.
"""

from __future__ import annotations

import random
import sys
import tempfile
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cec_store import housekeeping, spark_cli
from cec_store.arguments import AsJson, At, Kinds, Limit, QueuePath, Since, Until
from cec_store.chain import Chain
from cec_store.demo import demonstrate_embedded, demonstrate_spark
from cec_store.errors import CecError, CorruptLog
from cec_store.files import LocalFolder
from cec_store.formats import Format, limited, replay_schema, write_batches
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.inspector import (
    DamageRow,
    DumpFilter,
    dump,
    inspect_extent,
    verify,
)
from cec_store.layout import WRITER_LOCK
from cec_store.records import RecordKind
from cec_store.replay import OUTPUT_KINDS
from cec_store.reports import (
    dump_row_as_json,
    extent_as_json,
    show_dump_row,
    show_extent,
    show_verification,
    verification_as_json,
)
from cec_store.screens import Screen
from cec_store.state_log import CHANGE_KINDS, CHANGES, StateLog
from cec_store.state_segments import is_state_log
from cec_store.store import open_queue
from cec_store.units import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US, Position

DAMAGED = 1
WRONG_USE = 2


class Verbs(TyperGroup):
    """Turns what can go wrong into one line and a status."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CorruptLog as error:
            sys.stderr.write(f"cec-store: {error}\n")
            raise typer.Exit(DAMAGED) from error
        except (CecError, FileExistsError, FileNotFoundError) as error:
            sys.stderr.write(f"cec-store: {error}\n")
            raise typer.Exit(WRONG_USE) from error


app = typer.Typer(
    cls=Verbs,
    name="cec-store",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(spark_cli.app, name="spark")
app.command("consumers")(housekeeping.consumers_verb)
app.command("trim")(housekeeping.trim_verb)
app.command("fork")(spark_cli.fork_verb)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cec-store {version('cec-store')}")
        raise typer.Exit


@app.callback()
def _app(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say so and exit."),
    ] = False,
) -> None:
    """Look at output queues, read them again, and see recovery at work.

    Exit status: 0 sound, 1 damaged, 2 wrong use.
    """


@app.command("demo")
def demo_verb(
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Operators of this package, without Spark.")
    ] = False,
    keep: Annotated[Path | None, typer.Option(help="Keep all files in this new folder.")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides when kills fall.")] = None,
    rows: Annotated[
        int | None, typer.Option(min=20_000, help="Only the first flights, not the whole year.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run Spark queries over a year of flights, kill the driver, and compare what comes out."""
    screen = Screen()
    demonstrate = demonstrate_embedded if embedded else demonstrate_spark
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cec-demo-")))
        seed = random.randrange(1000) if seed is None else seed
        equal = demonstrate(screen, folder, seed, rows, as_json)
    if keep is not None and not as_json:
        screen.line(f"all files are in {keep}: try cec-store extent on a log in it")
    if not equal:
        raise typer.Exit(DAMAGED)


def _folder_at(path: Path, at: int | str | None) -> LocalFolder:
    folder = LocalFolder(path)
    if at is not None and not is_state_log(folder):
        raise typer.BadParameter("--at is a version of a Spark state store; here is none")
    return folder


@app.command("extent")
def extent_verb(
    queue: QueuePath,
    at: At = None,
    top: Annotated[int, typer.Option(min=0, help="How many of the oldest windows.")] = 10,
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not count records by kind over the whole log.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a restart would have to read back, and which windows hold it open."""
    screen = Screen()
    folder = _folder_at(queue, at)
    with screen.bytes_progress("reading", folder) as progress:
        report = inspect_extent(folder, at=at, top=top, counts=not quick, progress=progress)
    screen.document(extent_as_json(report)) if as_json else show_extent(screen, report)
    if report.damage:
        raise typer.Exit(DAMAGED)


@app.command("verify")
def verify_verb(
    queue: QueuePath,
    records: Annotated[
        bool, typer.Option(help="Also decode all records and count N and q anew.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Check every checksum, link and mark; name each fault, where it is and what to do."""
    screen = Screen()
    folder = LocalFolder(queue)
    with screen.bytes_progress("checking", folder) as progress:
        found = verify(folder, records=records, progress=progress)
    screen.document(verification_as_json(found)) if as_json else show_verification(screen, found)
    if not found.is_sound:
        raise typer.Exit(DAMAGED)


@app.command("dump")
def dump_verb(
    queue: QueuePath,
    records: Annotated[
        bool, typer.Option("--print-data-log/--frames-only", help="Records too, or frames alone.")
    ] = True,
    kinds: Kinds = None,
    since: Since = None,
    until: Until = None,
    since_offset: Annotated[int | None, typer.Option(min=0, help="As --since @offset.")] = None,
    until_offset: Annotated[int | None, typer.Option(min=0, help="As --until @offset.")] = None,
    segment: Annotated[int | None, typer.Option(min=0, help="Only this segment.")] = None,
    at: At = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Print frames and records as they stand in the log, over damage and on."""
    screen = Screen()
    since_offset = since.offset if isinstance(since, Position) else since_offset
    until_offset = until.offset if isinstance(until, Position) else until_offset
    wanted = DumpFilter(
        kinds=kinds or frozenset(RecordKind),
        since_offset=since_offset or 0,
        until_offset=until_offset,
        since_us=since if isinstance(since, int) else MIN_TIMESTAMP_US,
        until_us=until if isinstance(until, int) else MAX_TIMESTAMP_US,
        segment_id=segment,
        at=at,
        records=records,
    )
    is_damaged = False
    for number, row in enumerate(dump(_folder_at(queue, at), wanted)):
        if number == limit:
            break
        is_damaged |= isinstance(row, DamageRow) and row.acknowledged
        screen.json_line(dump_row_as_json(row)) if as_json else show_dump_row(screen, row)
    if is_damaged:
        raise typer.Exit(DAMAGED)


@app.command("replay")
def replay_verb(
    queue: QueuePath,
    since: Since = None,
    until: Until = None,
    form: Annotated[Format, typer.Option("--format", help="How rows are written.")] = Format.TABLE,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more at the end.")] = (
        False
    ),
    limit: Limit = None,
    kinds: Kinds = None,
    at: At = None,
    metadata: Annotated[
        bool, typer.Option("--metadata", help="Also _timestamp, _kind and _offset.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As --format jsonl.")] = False,
) -> None:
    """Read a queue's output again, from a moment on; of a state store what was put and removed."""
    form = Format.JSONL if as_json else form
    if form is Format.ARROW and sys.stdout.isatty():
        raise typer.BadParameter("an Arrow stream is not for a terminal: send it to a file or pipe")
    with open_queue(_folder_at(queue, at)) as source:
        if isinstance(source, StateLog):
            if follow:
                raise typer.BadParameter("a state store is read at a version: it has no --follow")
            rows = source.replay(
                since, until, at=at, kinds=kinds or CHANGE_KINDS, include_metadata=metadata
            )
            schema = replay_schema(CHANGES, metadata)
        else:
            rows = source.replay(
                since, until, follow=follow, kinds=kinds or OUTPUT_KINDS, include_metadata=metadata
            )
            schema = replay_schema(source.schema.data, metadata)
        try:
            write_batches(limited(rows, limit), schema, form, sys.stdout)
        except KeyboardInterrupt:
            if not follow:
                raise
            rows.stop()


@app.command("reindex")
def reindex_verb(
    queue: QueuePath,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only say so.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete the timestamp index and make it anew from the log. The log is not touched."""
    screen = Screen()
    folder = LocalFolder(queue)
    chain = Chain(folder)
    frames = 0
    if yes:
        lock = folder.lock(WRITER_LOCK)
        try:
            index = TimestampIndex(chain, writable=True)
            frames = index.rebuild(chain)
            index.close()
        finally:
            lock.close()
    if as_json:
        screen.document({"path": folder.path, "done": yes, "frames": frames})
    elif yes:
        screen.line(f"{folder.path}: the index was made anew and covers {frames:,} frames")
    else:
        screen.line(f"{folder.path}: would delete the index and make it anew; do it with --yes")


def main() -> None:
    """Entry point."""
    app()
