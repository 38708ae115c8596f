"""`cec-store verify` run in this process, and what is on disk before and after it."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import jsonschema
from typer.testing import CliRunner, Result

from cec_store.cli import app
from support.paths import DOCS

SCHEMA = json.loads((DOCS / "json" / "verify.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def document(path: Path, *options: str, status: int = 0) -> Any:
    result = run("verify", path, "--json", *options)
    assert result.exit_code == status, result.output
    found = json.loads(result.stdout)
    VALIDATOR.validate(found)
    assert found["sound"] is (status == 0)
    return found


def state_of(path: Path) -> dict[str, tuple[int, str]]:
    """Times of change and digests of all that is there."""
    return {
        str(each): (
            each.stat().st_mtime_ns,
            sha256(each.read_bytes()).hexdigest() if each.is_file() else "",
        )
        for each in [path, *path.rglob("*")]
    }
