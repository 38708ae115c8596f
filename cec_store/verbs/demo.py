"""The verb `cec-store demo`."""

from __future__ import annotations

import random
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from cec_store.demos.demo import demonstrate, report_on_demo
from cec_store.inspector.measuring.kept_rates import known_rates
from cec_store.terminal.exit_status import DAMAGED
from cec_store.terminal.screens import Screen
from cec_store.verbs.arguments import AsJson, count_option


def demo_verb(
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Operators of this package, without Spark.")
    ] = False,
    keep: Annotated[Path | None, typer.Option(help="Keep all files in this new folder.")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides when kills fall.")] = None,
    rows: Annotated[
        int | None,
        count_option("Only the first flights, not the whole year.", least=20_000),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run Spark queries over a year of flights, kill the driver, and compare what comes out."""
    screen = Screen()
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cec-demo-")))
        seed = random.randrange(1000) if seed is None else seed
        equal = demonstrate(screen, folder, seed, rows, embedded=embedded, as_json=as_json)
        if not as_json:
            report_on_demo(screen, folder, embedded, keep or Path(), known_rates())
    if keep is not None and not as_json:
        screen.line(f"all files are in {keep}: try cec-store extent on a log in it")
    if not equal:
        raise typer.Exit(DAMAGED)
