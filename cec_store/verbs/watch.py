"""The verb `cec-store watch`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import Annotated

import pyarrow as pa
import typer
from rich.live import Live

from cec_store.inspector.measuring.kept_rates import known_rates
from cec_store.terminal.exit_status import DAMAGED, wrong_use
from cec_store.terminal.interrupts import raise_noted_interrupt
from cec_store.terminal.screens import Screen
from cec_store.terminal.streams import refuse_closed_output
from cec_store.terminal.watch_screens import live_view, plain_line
from cec_store.verbs.arguments import Cores, StorageOptions, place_of, storage_options_of
from cec_store.watching.watcher import Sight, Watcher

_Show = Callable[[Sequence[Sight]], None]


def watch_verb(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Queues, state stores and Spark checkpoints."),
    ],
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, max=3600, help="Seconds between looks.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, print it, and end.")] = False,
    cores: Cores = None,
    storage_options: StorageOptions = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A line of JSON for each look; docs/cli.md.")
    ] = False,
) -> None:
    """Show a place while it changes: rows and batches a second, restart, memory, lags.

    Reads only. Without a terminal there is a line for each place and look. Ctrl-C ends it.
    """
    screen = Screen()
    with wrong_use():
        options = storage_options_of(storage_options)
    rates, cores = known_rates(), cores or pa.cpu_count()
    places = [place_of(path, storage_options) for path in paths]
    with ExitStack() as stack:
        watchers = [
            stack.enter_context(closing(Watcher(place, rates, cores, options))) for place in places
        ]
        if once:
            sights = [watcher.look(is_only=True) for watcher in watchers]
            _plain(screen, as_json)(sights)
            if not all(sight.look.is_sound for sight in sights):
                raise typer.Exit(DAMAGED)
            return
        try:
            _watch(screen, watchers, interval, as_json)
        except KeyboardInterrupt:
            return


def _watch(screen: Screen, watchers: Sequence[Watcher], interval_s: float, as_json: bool) -> None:
    if as_json or not screen.is_terminal:
        _repeat(watchers, interval_s, _plain(screen, as_json))
        return
    with Live(console=screen.out, auto_refresh=False, vertical_overflow="crop") as live:
        _repeat(
            watchers,
            interval_s,
            lambda sights: live.update(live_view(sights, screen.out.width), refresh=True),
        )


def _repeat(watchers: Sequence[Watcher], interval_s: float, show: _Show) -> None:
    """Look and show for ever; a look that takes longer than the interval delays the next."""
    next_s = time.monotonic()
    while True:
        raise_noted_interrupt()
        show([watcher.look() for watcher in watchers])
        next_s = max(next_s + interval_s, time.monotonic())
        time.sleep(max(0.0, next_s - time.monotonic()))


def _plain(screen: Screen, as_json: bool) -> _Show:
    def show(sights: Sequence[Sight]) -> None:
        refuse_closed_output()
        if as_json:
            screen.json_line({"places": [sight.as_json() for sight in sights]})
        else:
            for sight in sights:
                screen.line(plain_line(sight))
        screen.flush()

    return show
