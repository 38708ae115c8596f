"""Screens of `cec-store watch`: a live view on a terminal, and a line for each place elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cec_store.inspector.decoding.plain_values import printable
from cec_store.terminal.extent_screens import seconds
from cec_store.terminal.wording import moment, size, span
from cec_store.watching.watcher import Sight

_WIDE = 100
"""Columns of a terminal from which on places stand beside each other."""


def watch_facts(sight: Sight) -> Iterator[tuple[str, str]]:
    """Yield names and values of what is known of a place, in the order in which they are shown."""
    look = sight.look
    if sight.records_per_s is not None:
        yield "records", f"{_rate(sight.records_per_s)}/s, {look.records or 0:,} in all"
    elif look.records is not None:
        yield "records", f"{look.records:,} in all"
    if look.batches is not None:
        a_second = "" if sight.batches_per_s is None else f"{_rate(sight.batches_per_s)}/s, "
        yield "batches", f"{a_second}{look.batches:,} in all"
    if look.committed_us is not None:
        took = "" if look.batch_s is None else f", batch took {seconds(look.batch_s)}"
        yield "committed", f"{_ago(look.taken_us - look.committed_us)}{took}"
    if look.newest_us is not None:
        yield "newest row", f"{moment(look.newest_us)} by its own time"
    if look.input_rows_per_s is not None:
        yield "input", f"{_rate(look.input_rows_per_s)} rows/s in the newest batch"
    if look.commit_s is not None:
        yield "commit", f"{seconds(look.commit_s)} in the mean store"
    if look.watermark_us is not None:
        behind = span(look.taken_us - look.watermark_us)
        yield "watermark", f"{moment(look.watermark_us)}, {behind} behind the clock"
    if look.restart_s is not None:
        yield "restart now", f"about {seconds(look.restart_s)}"
    if look.extent_records is not None:
        yield "extent", f"{look.extent_records:,} records, {size(look.extent_bytes or 0)}"
    elif look.extent_bytes is not None:
        yield "extent", size(look.extent_bytes)
    if look.open_windows is not None:
        yield "open windows", f"{look.open_windows:,}"
    if look.memory_bytes is not None:
        yield "memory", f"{'' if look.memory_is_measured else 'about '}{size(look.memory_bytes)}"
    if look.replica_lag_versions is not None:
        is_ready = look.replica_lag_versions == 0
        lag = "ready" if is_ready else f"{look.replica_lag_versions:,} versions behind in all"
        yield "replicas", lag
    for consumer in look.consumers:
        lag = f"{consumer.lag_records:,} records behind"
        if consumer.waiting_since_us is not None:
            lag += f", for {span(look.taken_us - consumer.waiting_since_us)}"
        yield f"consumer {consumer.name}", lag
    for holder in sight.holders:
        yield f"lease {holder.lease}", f"{holder.state}: {holder.holder}"


def live_view(sights: Sequence[Sight], width: int) -> RenderableType:
    """Return the view of all places; on a narrow terminal they stand below each other."""
    blocks = [_block(sight) for sight in sights]
    if width < _WIDE or len(blocks) == 1:
        return Group(*blocks)
    return Columns(blocks, padding=(0, 4))


def _block(sight: Sight) -> RenderableType:
    # Paths and words fold, so that nothing is cut off at forty columns.
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", overflow="fold")
    table.add_column(overflow="fold")
    for name, value in watch_facts(sight):
        table.add_row(Text(printable(name)), Text(printable(value)))
    head = Text(printable(sight.look.path), style="bold", overflow="fold")
    kind = Text(f"{sight.look.kind}, {moment(sight.look.taken_us)[:19]}", overflow="fold")
    problems = [Text(printable(text), "bold red", overflow="fold") for text in sight.look.problems]
    return Group(head, kind, table, *problems, Text())


def plain_line(sight: Sight) -> str:
    """Return one line about a place, for logs and pipes."""
    facts = [f"{name} {value}" for name, value in watch_facts(sight)]
    facts += [f"PROBLEM {problem}" for problem in sight.look.problems]
    return f"{moment(sight.look.taken_us)} {sight.look.path}: {'; '.join(facts) or 'empty'}"


def _rate(per_s: float) -> str:
    if per_s >= 100 or per_s == 0:
        return f"{per_s:,.0f}"
    return f"{per_s:.1f}" if per_s >= 1 else f"{per_s:.2g}"


def _ago(passed_us: int) -> str:
    return f"{span(passed_us)} ago" if passed_us >= 0 else f"in {span(-passed_us)}"
