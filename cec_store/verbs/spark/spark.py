"""The verbs below `cec-store spark`, which tell a Spark not started from Python what it needs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from cec_store.connectors import spark
from cec_store.connectors.spark.setup.compiler import (
    coordinates,
    copy_jar,
    find_spark,
    has_extension,
)
from cec_store.connectors.spark.setup.settings import (
    JARS,
    PACKAGES,
    session_settings,
    spark_settings,
)
from cec_store.terminal.screens import Screen
from cec_store.verbs.arguments import AsJson, count_option

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_Replicas = Annotated[
    int | None, typer.Option(help="Warm copies of each partition on other executors.")
]
_ReplicaMemory = Annotated[str | None, typer.Option(help="Of all of them on an executor; as 512m.")]
_WarmLag = Annotated[int | None, typer.Option(help="Versions that a warm copy may lack.")]
_WarmUps = Annotated[int | None, typer.Option(help="Copies that are loaded at a time; 0: all.")]


_CheckDirectories = Annotated[
    bool | None,
    typer.Option(
        "--check-directories/--no-check-directories",
        help="Read the log after a load by such hashes, too, and fail if it says otherwise.",
    ),
]
_KeyDirectories = Annotated[
    bool | None,
    typer.Option(
        "--key-directories/--no-key-directories",
        help="Keep hashes of the keys of large states beside their logs.",
    ),
]


class ConfFormat(str, Enum):
    """Form in which settings are written."""

    ARGUMENTS = "arguments"
    SPARK_DEFAULTS = "spark-defaults"


@app.callback()
def _spark() -> None:
    """Use cec-store as Spark's state store."""


@app.command("conf", epilog="Example: cec-store spark conf --recovery-time-s 2")
def conf_verb(
    recovery_time_s: Annotated[
        float | None, typer.Option(help="Seconds that a restart may load state.")
    ] = None,
    extent_factor: Annotated[
        float | None, typer.Option(help="Records to read at a load, as a multiple of live keys.")
    ] = None,
    extent_max_records: Annotated[
        int | None, count_option("Records to read at a load, as 1e6.")
    ] = None,
    check_time_ms: Annotated[
        int | None, typer.Option(help="Time of a commit that checkpoints may take.")
    ] = None,
    sync_mode: Annotated[str | None, typer.Option(help="commit or none.")] = None,
    compression_level: Annotated[int | None, typer.Option(help="0 (none) to 19.")] = None,
    segment_bytes: Annotated[str | None, typer.Option(help="As 67108864, 64m or 64MiB.")] = None,
    memory_bytes: Annotated[
        str | None, typer.Option(help="Of rows in an executor's heap; the rest is in local files.")
    ] = None,
    key_directories: _KeyDirectories = None,
    check_directories: _CheckDirectories = None,
    replicas: _Replicas = None,
    replica_memory_bytes: _ReplicaMemory = None,
    replica_warm_lag_versions: _WarmLag = None,
    replica_warm_ups: _WarmUps = None,
    jar: Annotated[
        str | None, typer.Option(help="Where the cluster finds the jar; else the local one.")
    ] = None,
    package: Annotated[
        bool, typer.Option("--package", help="Take the jar from a Maven repository by its name.")
    ] = False,
    form: Annotated[
        ConfFormat, typer.Option("--format", help="For spark-submit, or spark-defaults.conf.")
    ] = ConfFormat.ARGUMENTS,
    as_json: AsJson = False,
) -> None:
    """Print the settings that switch the state store on."""
    try:
        chosen = spark_settings(
            {
                "recovery_time_s": recovery_time_s,
                "extent_factor": extent_factor,
                "extent_max_records": extent_max_records,
                "check_time_ms": check_time_ms,
                "sync_mode": sync_mode,
                "compression_level": compression_level,
                "segment_bytes": segment_bytes,
                "memory_bytes": memory_bytes,
                "key_directories": key_directories,
                "check_directories": check_directories,
                "replicas": replicas,
                "replica_memory_bytes": replica_memory_bytes,
                "replica_warm_lag_versions": replica_warm_lag_versions,
                "replica_warm_ups": replica_warm_ups,
            }
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    settings = _with_jar(chosen, jar, package)
    if as_json:
        Screen().document(settings)
        return
    for name, value in settings.items():
        typer.echo(f"--conf {name}={value}" if form is ConfFormat.ARGUMENTS else f"{name} {value}")


def _with_jar(chosen: dict[str, str], jar: str | None, package: bool) -> dict[str, str]:
    """The settings of a session that takes the jar from there."""
    if jar and package:
        raise typer.BadParameter("--jar and --package each say where the jar is: give one of them")
    local_jar = None if jar or package else spark.jar()
    return session_settings(
        coordinates(find_spark().version) if package else jar or str(local_jar),
        chosen,
        has_extension=local_jar is None or has_extension(local_jar),
        by=PACKAGES if package else JARS,
    )


@app.command("jar", epilog="Example: cec-store spark jar --into jars")
def jar_verb(
    into: Annotated[Path | None, typer.Option(help="Copy it into this folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the path of the provider's jar; compile it first if need be."""
    path = copy_jar(into) if into else spark.jar()
    Screen().document({"jar": str(path)}) if as_json else typer.echo(path)
