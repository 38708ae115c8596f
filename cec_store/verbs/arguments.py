"""Arguments and options of the verbs, and how their words become values."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from cec_store.connectors.spark.checkpoint.providers import require_logs
from cec_store.format.retention import Retention
from cec_store.format.schema import RecordKind
from cec_store.inspector.measuring import overview
from cec_store.inspector.measuring.place_extents import At
from cec_store.inspector.places.places import Place, place_at
from cec_store.inspector.places.points import PointInTime
from cec_store.inspector.showing.dump_filter import parse_kinds
from cec_store.storage.given_options import nested, value_of
from cec_store.storage.paths import check_local
from cec_store.storage.stores.folders import AnyFolder, folder_at, folders_at
from cec_store.terminal.exit_status import wrong_use
from cec_store.values import Position, parse_count, parse_size, to_timestamp_us

_UNIQUE_ID = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{1,16}")


def moment_of(text: str) -> int | Position:
    """Return ``@offset`` as a position, and else a moment in microseconds since 1970."""
    if re.fullmatch(r"@\d+", text):
        return Position(int(text[1:]))
    try:
        return to_timestamp_us(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}; or @ and an offset") from None


def _time(text: str) -> int:
    moment = moment_of(text)
    if not isinstance(moment, int):
        raise typer.BadParameter(f"{text!r} is an offset, and a checkpoint has batches and times")
    return moment


def wanted_at(place: Place, at: PointInTime | None, version: int | None) -> At:
    """Return the point at which a place is to be looked at; ``None`` for its end.

    Raises:
        OutOfRange: it is not there, or nothing is kept of that moment.
    """
    point = point_of(place, at, version)
    with wrong_use():
        return overview.at_point(place, point)


def point_of(place: Place, at: PointInTime | None, version: int | None) -> PointInTime | None:
    """Return the point that `--at` or `--version` names; `None` without either."""
    if at is not None and version is not None:
        raise typer.BadParameter("give --at or --version, not both")
    if version is None:
        return at
    if not place.has_versions:
        raise typer.BadParameter(f"{place.path}: a queue has no versions; give --at")
    return PointInTime(str(version), version)


def parse_point(text: str) -> PointInTime:
    """A version, its unique id, a moment or ``@offset``."""
    if re.fullmatch(r"\d+", text):
        return PointInTime(text, version=int(text), timestamp_us=int(text))
    if _UNIQUE_ID.fullmatch(text):
        return PointInTime(text, unique_id=text)
    moment = moment_of(text)
    if isinstance(moment, Position):
        return PointInTime(text, offset=moment.offset)
    assert isinstance(moment, int)
    return PointInTime(text, timestamp_us=moment)


def _kinds(text: str) -> frozenset[RecordKind]:
    with wrong_use():
        return frozenset(parse_kinds(text))


def retention_of(text: str) -> Retention:
    """Parse the retention that a queue or a trim is to follow."""
    with wrong_use():
        return Retention.of(text)


def count_of(least: int = 0) -> Callable[[str | int], int]:
    """Return a parser of numbers of things, such as 1000, 1e6 or 1.5M, that are ``least`` or more.

    A default value comes as a number.
    """
    return _number_of(parse_count, least)


def _number_of(parse: Callable[[str], int], least: int) -> Callable[[str | int], int]:
    def number(text: str | int) -> int:
        with wrong_use():
            value = text if isinstance(text, int) else parse(text)
        if value < least:
            raise typer.BadParameter(f"{value:,} is less than {least:,}")
        return value

    return number


def local_path(text: str | Path) -> Path:
    """A path of the local file system, as it was typed: pathlib would lose an empty one."""
    with wrong_use():
        return Path(check_local(str(text)))


def storage_options_of(given: list[Any] | None) -> dict[str, Any]:
    """Return the options of all `--storage-option` as one dictionary."""
    try:
        return nested(given or ())
    except ValueError as error:
        raise typer.BadParameter(f"--storage-option {error}") from None


def _storage_option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not all(name.split(".")):
        raise typer.BadParameter(f"{text.partition('=')[0]!r} is no option: give NAME=VALUE")
    return name, value_of(value)


def place_of(path: str, given: list[Any] | None) -> Place:
    """Return the place at a path or URL; the options are for a URL."""
    options = storage_options_of(given)
    with wrong_use():
        folder = folder_at(path, options)
    return place_at(folder)


def logs_of(path: str, given: list[Any] | None) -> Place:
    """Return the place at a path or URL, as :func:`place_of` does, if it has logs of ours.

    Raises:
        NotAQueue: Spark's own providers keep the state.
    """
    place = place_of(path, given)
    verbs = "extent, verify, state, diff and report take it, and adopt makes a checkpoint of ours"
    require_logs(place.path, place.provider, verbs)
    return place


def places_of(paths: tuple[str, str], given: list[Any] | None) -> tuple[Place, Place]:
    """Return the places at two paths; the options are for those that are URLs."""
    first, second = given_folders(paths, given)
    return place_at(first), place_at(second)


def given_folders(paths: tuple[str, str], given: list[Any] | None) -> tuple[AnyFolder, AnyFolder]:
    """The folders of two paths or URLs; the options are for those that are URLs."""
    options = storage_options_of(given)
    with wrong_use():
        return folders_at(paths, options)


def count_option(text: str, *names: str, least: int = 0) -> Any:
    """Return an option for a number of things, with its help and, if it needs them, its names."""
    return typer.Option(*names, parser=count_of(least), metavar="N", help=text)


def size_option(text: str, *names: str) -> Any:
    """Return an option for a number of bytes."""
    return typer.Option(*names, parser=_number_of(parse_size, 0), metavar="SIZE", help=text)


PlacePath = Annotated[
    str,
    typer.Argument(
        metavar="PATH",
        help="A queue, of many partitions or of none, a state store or a Spark checkpoint.",
    ),
]
StorageOptions = Annotated[
    list[Any] | None,
    typer.Option(
        "--storage-option",
        parser=_storage_option,
        metavar="NAME=VALUE",
        help="Of the file system of a URL, as fsspec has them; as often as needed.",
    ),
]
Operator = Annotated[int | None, typer.Option(min=0, help="Only this operator of a checkpoint.")]
Partition = Annotated[int | None, typer.Option(min=0, help="Only this partition.")]
Store = Annotated[str | None, typer.Option(help="Only this store of a checkpoint's operators.")]
AtPoint = Annotated[
    Any,
    typer.Option(
        parser=parse_point,
        metavar="V|MOMENT|@OFFSET",
        help="A version, its unique id, or a moment.",
    ),
]
AtVersion = Annotated[
    int | None, typer.Option("--version", min=0, help="At this version: batch N makes N + 1.")
]
BeganAt = Annotated[
    Any,
    typer.Option(parser=_time, metavar="MOMENT", help="After the last batch begun by this time."),
]
Cores = Annotated[
    int | None,
    typer.Option(min=1, help="How many cores load state at a restart; by default as many as here."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; docs/cli.md has the schema.")]
Since = Annotated[
    Any,
    typer.Option(
        parser=moment_of,
        metavar="MOMENT",
        help="Only at or after it: ISO time, -1h, yesterday, 1767225600s; @offset: begin there.",
    ),
]
Until = Annotated[
    Any,
    typer.Option(
        parser=moment_of, metavar="MOMENT", help="Only before it; @offset is where to end."
    ),
]
FromMoment = Annotated[
    Any,
    typer.Option(
        parser=moment_of,
        metavar="MOMENT",
        help="Begin with the first record at or after it; later ones may be of earlier moments.",
    ),
]
Kinds = Annotated[
    Any, typer.Option(parser=_kinds, metavar="KINDS", help="Such as result,data or open,check.")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Wait for more at the end.")]
Raw = Annotated[bool, typer.Option("--raw", help="State as it is stored, in hex.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it; without, only say so.")]
Limit = Annotated[
    int | None,
    count_option("Stop after so many, such as 1000 or 1e6.", least=1),
]
