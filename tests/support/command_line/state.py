"""`cec-store state`, `changes` and `diff` run in this process, and their rows as dicts."""

import json
from typing import Any

from typer.testing import CliRunner, Result

from cec_store.cli import app

State = dict[Any, Any]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def document(*arguments: object, status: int = 0) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


def rows_of(*arguments: object, status: int = 0) -> list[dict[str, Any]]:
    return list(document(*arguments, status=status)["rows"])


def named(key: Any) -> Any:
    """A key or state as something that a dict takes."""
    return tuple(key.values()) if isinstance(key, dict) else key


def applied(state: State, changes: list[dict[str, Any]]) -> State:
    """What changes leave of a state, one after the other."""
    state = dict(state)
    for row in changes:
        key = row.get("partition_id"), row.get("family"), named(row["key"])
        if row["change_type"] in ("delete", "close"):
            state.pop(key, None)
        else:
            position = tuple(row.get("position", ()))
            state[key] = named(row["value"] if "value" in row else row["state"]), position
    return state


def as_state(rows: list[dict[str, Any]]) -> State:
    return applied({}, [{**row, "change_type": "update"} for row in rows])
