"""What `cec-store dump` shows of variables, taken together: the rows that are left in the end."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from cec_store import read_state
from cec_store.cli import app
from support.command_line import verify

TIMERS = ("$eventTimers_keyToTimestamp", "$procTimers_keyToTimestamp")
Rows = dict[str, list[tuple[Any, Any]]]
"""Keys and values by variable."""


def left_by_dump(path: Path) -> Rows:
    """Each record on its own says which variable it is of; of a key the last one counts."""
    result = CliRunner().invoke(app, ["dump", str(path), "--json"])
    assert result.exit_code == 0, result.output
    log, left = "", {}
    for line in map(json.loads, result.stdout.splitlines()):
        assert line["row"] not in ("note", "damage"), line
        if line["row"] == "log":
            log = line["name"]
        elif line["row"] == "record" and "variable" in line["key"]:
            left[log, json.dumps(line["key"])] = line
    rows: Rows = {}
    chunks = {
        at: line["state"]["list_element"]
        for at, line in left.items()
        if line["state"] and "chunk" in line["key"]
    }
    for (name, _), line in left.items():
        key, value = line["key"], line["state"]
        if value is None or "chunk" in key:
            continue
        if isinstance(value, dict) and "chunks" in value:
            parts = (chunks[name, json.dumps({**key, "chunk": n})] for n in range(value["chunks"]))
            value = [element for part in parts for element in part]
        rows.setdefault(key["variable"], []).append((key["key"], value))
    return rows


def left_by_reader(path: Path, variable: str) -> list[tuple[Any, Any]]:
    """The same of `read_state`."""
    rows = read_state(path, variable=variable).to_pylist()
    if rows and "list_element" in rows[0]:
        lists: dict[str, tuple[Any, list[Any]]] = {}
        for row in rows:
            lists.setdefault(repr(row["key"]), (row["key"], []))[1].append(row["list_element"])
        return [*lists.values()]
    if rows and "user_map_key" in rows[0]:
        return [
            ({"key": row["key"], "userKey": row["user_map_key"]}, row["user_map_value"])
            for row in rows
        ]
    return [(row["key"], row["value"]) for row in rows]


def timers_left(path: Path) -> list[Any]:
    rows = read_state(path, variable="timers").to_pylist()
    return [
        {"key": row["key"], "expiryTimestampMs": row["expiration_timestamp_ms"]} for row in rows
    ]


def require_agreement(path: Path, *variables: str) -> None:
    """`verify --deep` decodes all rows, and `dump` shows of each variable what the reader reads."""
    assert verify.document(path, "--deep")["notes"] == []
    shown = left_by_dump(path)
    for variable in variables:
        rows = left_by_reader(path, variable)
        assert in_order(shown.get(variable, [])) == in_order(rows), variable
    timers = [key for name in TIMERS for key, _ in shown.get(name, [])]
    assert in_order(timers) == in_order(timers_left(path))
    assert sum(map(len, shown.values())) > 10


def in_order(rows: list[Any]) -> list[str]:
    return sorted(map(repr, rows))
