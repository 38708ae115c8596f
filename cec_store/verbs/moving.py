"""The verbs `cec-store adopt`, `release`, `repartition` and `compare`: state by Spark jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer

from cec_store.connectors import spark
from cec_store.connectors.spark.moving.moving import MoveReport
from cec_store.terminal.exit_status import wrong_use
from cec_store.terminal.screens import Screen
from cec_store.verbs.arguments import AsJson, StorageOptions, Yes, storage_options_of
from cec_store.verbs.spark.session import Conf, settings_of, spark_session

_NAME = "cec-store"

Old = Annotated[str, typer.Argument(metavar="CHECKPOINT", help="A query's checkpointLocation.")]
New = Annotated[str, typer.Argument(metavar="NEW", help="The folder to make.")]


def adopt_verb(
    checkpoint: Old,
    new: New,
    conf: Conf = None,
    yes: Yes = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Make a checkpoint in which a query of Spark's stores continues with cec-store."""
    move = partial(spark.adopt, checkpoint=checkpoint, new=new)
    _move(move, conf, yes, storage_options, as_json)


def release_verb(
    checkpoint: Old,
    new: New,
    provider: Annotated[
        str, typer.Option(metavar="NAME", help="Spark's: `rocksdb` or `hdfs`.")
    ] = "rocksdb",
    conf: Conf = None,
    yes: Yes = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Make a checkpoint in which a query continues with one of Spark's own stores."""
    move = partial(spark.release, checkpoint=checkpoint, new=new, provider=provider)
    _move(move, conf, yes, storage_options, as_json)


def repartition_verb(
    checkpoint: Old,
    new: New,
    partitions: Annotated[
        int, typer.Option(metavar="N", help="The query's spark.sql.shuffle.partitions from then.")
    ],
    conf: Conf = None,
    yes: Yes = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Make a checkpoint in which a query continues with more or fewer partitions."""
    move = partial(spark.repartition, checkpoint=checkpoint, new=new, partitions=partitions)
    _move(move, conf, yes, storage_options, as_json)


def compare_verb(
    checkpoint: Old,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Another checkpointLocation.")],
    conf: Conf = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Compare the state of two checkpoints, of any providers."""
    screen = Screen(has_bars=not as_json)
    options = storage_options_of(storage_options)
    waiting = screen.waiting("comparing")
    with wrong_use(), waiting, spark_session(_NAME, settings_of(conf)) as session:
        comparison = spark.compare(session, checkpoint, other, storage_options=options)
    if as_json:
        screen.document({**asdict(comparison), "same": comparison.is_same})
    else:
        for store in comparison.stores:
            screen.line(
                f"operator {store.operator} ({store.name}), {store.store}: {store.rows:,} rows and "
                f"{store.other_rows:,}; {store.only_here:,} only in the first, "
                f"{store.only_there:,} only in the second"
            )
        screen.line("the same state" if comparison.is_same else "not the same state")
    if not comparison.is_same:
        raise typer.Exit(1)


def _move(
    move: Callable[..., MoveReport],
    conf: list[str] | None,
    yes: bool,
    storage_options: list[Any] | None,
    as_json: bool,
) -> None:
    options = storage_options_of(storage_options)
    screen = Screen(has_bars=not as_json)
    waiting = screen.waiting("moving state" if yes else "reading the checkpoint")
    with wrong_use(), waiting, spark_session(_NAME, settings_of(conf)) as session:
        done = move(session, dry_run=not yes, storage_options=options)
    if as_json:
        screen.document({**asdict(done), "done": yes})
        return
    continues = "continues" if yes else "would continue"
    screen.line(f"{done.path}: {continues} after batch {done.batch}, with {done.provider}")
    if done.partitions is not None:
        screen.line(f"  {done.partitions:,} partitions of state")
    if done.pending is not None:
        screen.line(f"  batch {done.pending} was begun and is run again")
    if done.rows is None:
        screen.line("do it with --yes")
    else:
        screen.line(f"  {done.rows:,} rows of state moved")
