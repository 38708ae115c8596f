"""The outer shape that the JSON documents of all verbs share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cec_store.inspector.places.places import Place


def document(
    place: Place,
    is_sound: bool,
    logs: Iterable[Mapping[str, Any]],
    totals: Mapping[str, Any],
    **own: Any,
) -> dict[str, Any]:
    """A place, what a verb has to say of all of it, each of its logs, and their totals."""
    head = {"path": place.path, "kind": place.kind.value, "sound": is_sound}
    return {**head, **own, "logs": [*logs], "totals": {**totals}}
