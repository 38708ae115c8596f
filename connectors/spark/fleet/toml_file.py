"""A fleet that is declared in a TOML file; docs/fleets.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cec_store.connectors.spark.fleet.declaration import Query
from cec_store.connectors.spark.fleet.missing import OnMissing
from cec_store.connectors.spark.fleet.outer import Sink, Source
from cec_store.connectors.spark.fleet.rules import Rules
from cec_store.errors import BadFleet

_FILE = ("folder", "on_missing", "queries", "rules", "spark")
_OF_QUERY = {field.name for field in fields(Query)} - {"name"}
_NEEDED = ("function",)
_EITHER = (("reads", "sources"), ("writes", "sink"))
"""Keys of which a query needs the first, unless it has the second."""
_OF_SOURCE = {field.name for field in fields(Source)}
_OF_SINK = {field.name for field in fields(Sink)}


@dataclass(frozen=True)
class Declared:
    """Contents of a fleet's TOML file."""

    folder: str
    queries: tuple[Query, ...]
    rules: Rules
    spark: Mapping[str, str]
    """Settings of the session."""
    on_missing: OnMissing | None = None


def read_toml(path: Path) -> Declared:
    """The fleet that a file declares; relative paths are from the file's folder on.

    Raises:
        BadFleet: it is no TOML, or says what it cannot; with the file's name.
        OSError: it cannot be read.
    """
    try:
        return declared(_parsed(path.read_text("utf-8")), path.absolute().parent)
    except ValueError as error:  # of TOML, of its text, and ours
        raise BadFleet(f"{path}: {error}") from error


def _parsed(text: str) -> dict[str, Any]:
    try:
        # With Python from 3.11 on.
        import tomllib
    except ImportError:  # pragma: no cover
        import tomli as tomllib  # type: ignore[no-redef,import-not-found,unused-ignore]
    return tomllib.loads(text)


def declared(document: Mapping[str, Any], base: Path) -> Declared:
    """Return what the tables of the file declare.

    Raises:
        BadFleet: a key that is not known or is missing, or a value that is not allowed.
    """
    _check_keys("the file", document, _FILE, ("folder", "queries"))
    queries = _table("queries", document["queries"])
    return Declared(
        _at(base, _text("folder", document["folder"])),
        tuple(
            _query(name, _table(f"queries.{name}", query), base) for name, query in queries.items()
        ),
        _rules(_table("rules", document.get("rules", {}))),
        _options("spark", document.get("spark", {})),
        _on_missing(document),
    )


def _query(name: str, table: Mapping[str, Any], base: Path) -> Query:
    place = f"queries.{name}"
    needed = [key for key, other in _EITHER if other not in table]
    _check_keys(place, table, sorted(_OF_QUERY), (*_NEEDED, *needed))
    reads, sources = table.get("reads", []), table.get("sources", [])
    if not isinstance(reads, list):
        raise BadFleet(f"{place}.reads: a list of queues, not {reads!r}")
    if not isinstance(sources, list):
        raise BadFleet(f"{place}.sources: a list of tables, not {sources!r}")
    rest: dict[str, Any] = {key: table[key] for key in table.keys() - {*_NEEDED}}
    for key in ("read_options", "write_options"):
        rest[key] = _options(f"{place}.{key}", table.get(key, {}))
    if "sink" in rest:
        rest["sink"] = Sink(**_outer(f"{place}.sink", rest["sink"], _OF_SINK, ()))
    rest["reads"] = tuple(_at(base, _text(f"{place}.reads", queue)) for queue in reads)
    rest["sources"] = tuple(
        Source(**_outer(f"{place}.sources", source, _OF_SOURCE, ("format",))) for source in sources
    )
    writes = _at(base, _text(f"{place}.writes", rest["writes"])) if "writes" in rest else ""
    rest["writes"] = writes
    return Query(name=name, function=_text(f"{place}.function", table["function"]), **rest)


def _outer(place: str, value: object, known: set[str], needed: tuple[str, ...]) -> dict[str, Any]:
    table = _table(place, value)
    _check_keys(place, table, sorted(known), needed)
    return {**table, "options": _options(f"{place}.options", table.get("options", {}))}


def _rules(table: Mapping[str, Any]) -> Rules:
    _check_keys("rules", table, sorted(field.name for field in fields(Rules)), ())
    return Rules(**table)


def _on_missing(document: Mapping[str, Any]) -> OnMissing | None:
    if "on_missing" not in document:
        return None
    table = _table("on_missing", document["on_missing"])
    _check_keys("on_missing", table, sorted(field.name for field in fields(OnMissing)), ())
    command = table.get("command", [])
    if not isinstance(command, list):
        raise BadFleet(f"on_missing.command: {command!r}; give a list of texts")
    return OnMissing(**{**table, "command": tuple(command)})


def _check_keys(
    place: str,
    table: Mapping[str, Any],
    known: list[str] | tuple[str, ...],
    needed: tuple[str, ...],
) -> None:
    if unknown := [key for key in table if key not in known]:
        raise BadFleet(f"{place}: {unknown[0]!r} is no key; those are {', '.join(known)}")
    if missing := [key for key in needed if key not in table]:
        raise BadFleet(f"{place}: {missing[0]!r} is missing")


def _table(place: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadFleet(f"{place}: a table, not {value!r}")
    return value


def _text(place: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise BadFleet(f"{place}: a text, not {value!r}")
    return value


def _options(place: str, value: object) -> dict[str, str]:
    """Return settings of Spark, with numbers and booleans as Spark writes them.

    Raises:
        BadFleet: a value is neither a text nor a number nor a boolean.
    """
    settings = {}
    for key, setting in _table(place, value).items():
        if not isinstance(setting, str | int | float):
            raise BadFleet(f"{place}.{key}: a text, a number or a truth, not {setting!r}")
        settings[key] = str(setting).lower() if isinstance(setting, bool) else str(setting)
    return settings


def _at(base: Path, path: str) -> str:
    return path if "://" in path else str(base / path)
