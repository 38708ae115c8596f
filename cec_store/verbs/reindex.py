"""The verb `cec-store reindex`: the timestamp index anew."""

from __future__ import annotations

from typing import Any

from cec_store.inspector.measuring.totals import sums
from cec_store.terminal.exit_status import wrong_use
from cec_store.terminal.gathering import gather
from cec_store.terminal.screens import Screen
from cec_store.terminal.wording import counted, size
from cec_store.verbs.arguments import AsJson, PlacePath, StorageOptions, Yes, place_of
from cec_store.verbs.upkeep.by_log import Reindex, carry_out_reindexes, plan_reindex_of, queues_of


def reindex_verb(
    path: PlacePath,
    yes: Yes = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild the timestamp index from the log. The log is not changed."""
    screen = Screen(has_bars=not as_json)
    place = place_of(path, storage_options)
    with wrong_use():
        logs = queues_of(place)
    with screen.waiting("reading the log"):
        gathered = gather(place, logs, plan_reindex_of)
        plans = [plan for _, plan in gathered.answers]
        is_done = yes and gathered.is_sound
        if is_done:
            carry_out_reindexes(place, plans)
    totals = {"logs": len(logs), **sums(plans, "bytes", "frames")}
    if as_json:
        screen.document(gathered.as_json(_as_json, totals, done=is_done))
    else:
        for planned in plans:
            frames = counted(planned.frames, "frame")
            files = f"{counted(len(planned.files), 'file')}, {size(planned.bytes)}"
            if is_done:
                text = f"the index was made anew and covers {frames}"
            else:
                text = f"would delete the index ({files}) and make it anew over {frames}"
            screen.line(f"{planned.log.folder.path}: {text}")
        if not yes:
            screen.line("do it with --yes")
        elif not is_done:
            screen.line("no index was touched, since not all logs could be read", "bold red")
    gathered.end()


def _as_json(plan: Reindex) -> dict[str, Any]:
    return {"files": list(plan.files), "bytes": plan.bytes, "frames": plan.frames}
