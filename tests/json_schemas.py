"""Documents of the command line against the schemas that docs/json holds."""

import json
from pathlib import Path
from typing import Any

import jsonschema

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "json"


def check(verb: str, document: Any) -> None:
    """Raises where it is not what the schema says."""
    schema = json.loads((FOLDER / f"{verb}.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)
