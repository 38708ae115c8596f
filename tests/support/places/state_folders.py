"""State logs as folders on disk, for the programs of support/scala/provider that read them."""

import json
from pathlib import Path
from typing import Any

from support.disks.memory_folder import MemoryFolder
from support.places.state_logs import Commit
from support.vectors.make import FOLDER

CASES: list[dict[str, Any]] = json.loads((FOLDER / "cases.json").read_text("utf-8"))["cases"]
STATE_CASES = [case for case in CASES if case["is"] == "state log"]
At = int | str
"""A version's number, or its unique id."""


def wanted_of(case: dict[str, Any]) -> list[tuple[At, dict[str, Any]]]:
    """By number and by unique id, with what cases.json says of it."""
    versions, others = case["expect"]["versions"], case["expect"]["others"]
    by_number = [(each["version"], each) for each in versions]
    by_id = [(each["unique_id"], each) for each in versions + others]
    return [*by_number, *((at, each) for at, each in by_id if at is not None)]


def expected(commit: Commit) -> dict[str, Any]:
    """As cases.json says it."""
    state = sorted(
        [family, key.hex(), value.hex()] for (family, key), value in commit.state.items()
    )
    return {
        "version": commit.version, "unique_id": commit.unique_id, "state": state,
        "open_windows": len(commit.state), "extent_records": commit.extent_records,
    }  # fmt: skip


def put(folder: Path, log: MemoryFolder, wanted: list[tuple[At, dict[str, Any]]]) -> None:
    """The log, and the versions that a program is to read."""
    folder.mkdir(parents=True)
    for name, data in log.files.items():
        (folder / name).write_bytes(data)
    lines = [f"{each['version']}{'' if at == each['version'] else f' {at}'}" for at, each in wanted]
    (folder / "wanted").write_text("".join(f"{line}\n" for line in lines))


def log_in(folder: Path) -> MemoryFolder:
    return MemoryFolder({path.name: path.read_bytes() for path in folder.glob("*.seg")})


def put_case(folder: Path, case: dict[str, Any]) -> list[tuple[At, dict[str, Any]]]:
    wanted = wanted_of(case)
    put(folder, log_in(FOLDER / case["name"]), wanted)
    return wanted
