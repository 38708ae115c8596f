"""A Spark session of a verb's own, with settings from the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from cec_store.connectors import spark

Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="Of the Spark session that does it."),
]

_UI = "spark.ui.enabled"
"""Setting that turns Spark's page off, because the session lives only as long as one command."""


def settings_of(conf: list[str] | None) -> dict[str, str]:
    """Return the settings in `--conf NAME=VALUE`.

    Raises:
        typer.BadParameter: one is none.
    """
    settings = {}
    for setting in conf or []:
        name, equals, value = setting.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"--conf {setting!r}: give NAME=VALUE")
        settings[name] = value
    return settings


@contextmanager
def spark_session(name: str, settings: Mapping[str, str]) -> Iterator[Any]:
    """Yield a Spark session with our jar; stop it at the end, unless it was running before.

    Raises:
        ValueError: settings that do not go together.
        SparkUnavailable: no Spark 4, or no Java.
    """
    from pyspark.sql import SparkSession  # takes a while, and the other verbs do without

    builder = SparkSession.builder.appName(name)
    for key, value in {_UI: "false", **settings}.items():
        builder = builder.config(key, value)
    before = SparkSession.getActiveSession()
    session = spark.configure(builder).getOrCreate()
    try:
        yield session
    finally:
        if before is None:
            session.stop()
