"""Lines of a checkup on the screen, and its JSON document."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from cec_store.doctor.diagnoses import Checkup, Diagnosis, Severity
from cec_store.terminal.screens import Screen
from cec_store.terminal.wording import counted

_STYLES = {Severity.SOUND: "", Severity.NOTE: "yellow", Severity.FAULT: "bold red"}


def show_checkup(screen: Screen, checkup: Checkup) -> None:
    """Show each line with what to do, then the settings, then whether something has to be done."""
    screen.line(f"{checkup.path}: {checkup.kind}" if checkup.path else "this machine")
    place = ""
    width = max((len(line.subject) for line in checkup.diagnoses), default=0)
    for line in checkup.diagnoses:
        if line.place != place:
            place = line.place
            screen.line(place)
        _show(screen, line, width)
    if checkup.settings:
        rows = [(s.name, s.value, s.source) for s in checkup.settings]
        screen.table("settings", ("name", "value", "set by"), rows)
    faults = len(checkup.faults)
    if not faults:
        screen.line("sound: nothing has to be done", "bold green")
        if checkup.path and checkup.kind not in ("folder", "fleet"):
            screen.line(
                f"only headers were read; `cec-store verify {checkup.path}` reads every byte"
            )
    else:
        screen.line(f"{counted(faults, 'fault')}: see what to do behind each", "bold red")


def _show(screen: Screen, line: Diagnosis, width: int) -> None:
    head = f"  {line.subject:<{width}}  {line.severity.value:<5}"
    screen.line(f"{head}  {line.what}", _STYLES[line.severity])
    if line.advice:
        screen.line(f"{'':<{len(head)}}  do: {line.advice}")


def checkup_as_json(checkup: Checkup) -> dict[str, Any]:
    """Return the document of `cec-store doctor --json`; docs/json/doctor.schema.json."""
    counts = Counter(line.severity for line in checkup.diagnoses)
    return {
        "path": checkup.path,
        "kind": checkup.kind,
        "sound": checkup.is_sound,
        "diagnoses": [
            {**asdict(line), "severity": line.severity.value} for line in checkup.diagnoses
        ],
        "settings": [asdict(setting) for setting in checkup.settings],
        "totals": {
            "diagnoses": len(checkup.diagnoses),
            "notes": counts[Severity.NOTE],
            "faults": counts[Severity.FAULT],
        },
    }
