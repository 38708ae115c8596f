"""The verb `cec-store diff`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from cec_store.inspector.measuring.totals import sums
from cec_store.inspector.places.places import Place
from cec_store.inspector.showing.differences import (
    Change,
    DiffSide,
    LogDiff,
    differences,
    require_keys_alone,
)
from cec_store.terminal.documents import document
from cec_store.terminal.exit_status import exit_if_damaged, wrong_use
from cec_store.terminal.screens import Cell, Screen
from cec_store.terminal.wording import value
from cec_store.verbs.arguments import (
    AsJson,
    AtPoint,
    Operator,
    Partition,
    PlacePath,
    StorageOptions,
    Store,
    count_option,
    parse_point,
    places_of,
)
from cec_store.verbs.spark.session import Conf
from cec_store.verbs.spark.stored_state import stored_state

_COUNTS = ("added", "removed", "changed", "same")

From = Annotated[
    Any, typer.Option("--from", parser=parse_point, metavar="POINT", help="The old one of PATH.")
]
To = Annotated[
    Any, typer.Option("--to", parser=parse_point, metavar="POINT", help="The new one of PATH.")
]


def diff_verb(
    path: PlacePath,
    other: Annotated[
        str | None, typer.Argument(metavar="[OTHER]", help="Compare with this one.")
    ] = None,
    old: From = None,
    new: To = None,
    at: AtPoint = None,
    operator: Operator = None,
    partition: Partition = None,
    store: Store = None,
    top: Annotated[int, count_option("How many keys are listed.")] = 20,
    conf: Conf = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Compare two versions of one place, or two places: keys added, removed and changed.

    What Spark's own providers keep is read by Spark, in a session that is begun for it.
    """
    if (other is None) == (old is None) or (other is not None and new is not None):
        raise typer.BadParameter("give two places (and --at), or one with --from (and --to)")
    if other is None and at is not None:
        raise typer.BadParameter("--at is for two places; of one give --from and --to")
    places = places_of((path, path if other is None else other), storage_options)
    with wrong_use():
        logs = [place.chosen(operator, partition, store) for place in places]
        points = (at, at) if other is not None else (old, new)
        sides = [DiffSide(place, point) for place, point in zip(places, points, strict=True)]
        if any(place.is_built_in for place in places):
            require_keys_alone(logs[0] + logs[1])
        compared = differences(sides[0], sides[1], (logs[0], logs[1]), top, partition is None)
    screen, diffs = Screen(has_bars=not as_json), []
    asked = [(side.place, side.at) for side in sides]
    with wrong_use(), stored_state(conf, asked) as stored, screen.bar() as bar:
        for side, reader in zip(sides, stored, strict=True):
            side.stored = reader
        task = bar.add_task("comparing", total=max(map(len, logs)))
        for diff in compared:
            diffs.append(diff)
            bar.advance(task)
    own: dict[str, Any] = {"other": None if other is None else places[1].path}
    own |= {"from": sides[0].at, "to": sides[1].at}
    if as_json:
        screen.document(diff_as_json(places[0], diffs, own))
    else:
        show_diff(screen, sides, diffs)
    exit_if_damaged(entry.log.named(entry.problem) for entry in diffs if entry.problem)


def diff_as_json(place: Place, diffs: list[LogDiff], own: dict[str, Any]) -> dict[str, Any]:
    """The document of ``cec-store diff --json``."""
    logs = [{**diff.log.fields(), **_counts(diff), "problem": diff.problem} for diff in diffs]
    totals = _counts(*diffs)
    rows = [{"log": d.log.name, **asdict(row)} for d in diffs for row in d.rows]
    left_out = sum(totals[name] for name in _COUNTS[:3]) - len(rows)
    is_sound = not any(diff.problem for diff in diffs)
    own = {**own, "equal": all(diff.is_equal for diff in diffs)}
    return document(
        place, is_sound, logs, {"logs": len(logs), **totals}, **own, rows=rows,
        rows_left_out=left_out,
    )  # fmt: skip


def _counts(*diffs: LogDiff) -> dict[str, int]:
    return sums(diffs, *_COUNTS)


def show_diff(screen: Screen, sides: list[DiffSide], diffs: list[LogDiff]) -> None:
    """Counts of each log in which something differs, and the first keys."""
    for sign, side in zip("-+", sides, strict=True):
        what = "version" if side.place.has_versions else "frame"
        newest = "the newest version" if side.place.has_versions else "before the first frame"
        at = newest if side.at is None else f"{what} {side.at}"
        screen.line(f"{sign} {side.place.path}: {at}")
    differing = [diff for diff in diffs if not diff.is_equal]
    if differing and len(diffs) > 1:
        cells: list[list[Cell]] = [
            [diff.log.name, *_counts(diff).values()] for diff in differing if not diff.problem
        ]
        screen.table("logs that differ", ("log", *_COUNTS), cells)
    for diff in differing:
        if diff.rows and len(diffs) > 1:
            screen.line(diff.log.name, "bold cyan")
        for row in diff.rows:
            screen.line(_line(row), {"added": "green", "removed": "red"}.get(row.change, "yellow"))
    totals = _counts(*diffs)
    listed = sum(len(diff.rows) for diff in diffs)
    left_out = sum(totals[name] for name in _COUNTS[:3]) - listed
    if left_out:
        screen.line(f"… and {left_out:,} more")
    counts = ", ".join(f"{count:,} {name}" for name, count in totals.items())
    screen.line(f"{'differs' if differing else 'equal'}: {counts}", "bold")


def _line(row: Change) -> str:
    key = f"key: {value(row.key)}"
    if row.change == "changed":
        return f"~ {key} state: {value(row.before)} -> {value(row.after)}"
    sign, state = ("+", row.after) if row.change == "added" else ("-", row.before)
    return f"{sign} {key} state: {value(state)}"
