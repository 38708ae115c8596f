"""Documents of the command line against the schemas that docs/json holds."""

import json
from functools import cache
from typing import Any

import jsonschema

from support.paths import DOCS

FOLDER = DOCS / "json"


@cache
def _validator(verb: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((FOLDER / f"{verb}.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def check(verb: str, document: Any) -> None:
    """Raises where it is not what the schema says."""
    _validator(verb).validate(document)
