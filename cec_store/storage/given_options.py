"""Options of a store as people give them, by names and texts: ``client_kwargs.region_name``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


def value_of(text: str) -> Any:
    """JSON where it can be (``true``, ``5``), and else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def nested(given: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """All of them together; a dot in a name stands for options in an option.

    ``client_kwargs.region_name=eu-west-1`` is ``{"client_kwargs": {"region_name": "eu-west-1"}}``.

    Raises:
        ValueError: a name that is empty, or inside of one that has a value of its own.
    """
    options: dict[str, Any] = {}
    for name, value in given:
        *above, last = name.split(".")
        if not all((*above, last)):
            raise ValueError(f"{name!r} is no name of an option")
        inside = options
        for part in above:
            inside = inside.setdefault(part, {})
            if not isinstance(inside, dict):
                raise ValueError(f"{name}: {part} has a value of its own")
        inside[last] = value
    return options
