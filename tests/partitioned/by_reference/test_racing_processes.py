"""Ten processes commit to one queue at the same time, and some are killed: all is in once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cec_store import read_queue
from cec_store.format.by_reference.commits import Operation
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.storage.stores.by_url import store_at
from support.processes import racing_writers
from support.processes.racing_writers import ROWS
from support.runs.counts import crash_count
from support.stores.s3_server import BUCKET, options_of

WRITERS = 10


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(crash_count(1, 5)))
@pytest.mark.parametrize(
    ("kind", "versions", "kills"),
    [
        ("local", crash_count(5, 200), crash_count(4, 60)),
        ("s3", crash_count(2, 25), crash_count(2, 20)),
    ],
)
def test_what_ten_processes_commit_at_once_is_in_once(
    kind: str, versions: int, kills: int, seed: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url, options = str(tmp_path / "q"), dict[str, Any]()
    if kind == "s3":
        address = request.getfixturevalue("s3_address")
        url, options = f"s3://{BUCKET}/racing-{tmp_path.name}", options_of(address)
    facts = [url, json.dumps(options), *map(str, (WRITERS, versions, kills, seed))]
    done = subprocess.run(
        [sys.executable, "-m", racing_writers.__name__, *facts],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    due = {(writer, version) for writer in range(WRITERS) for version in range(versions)}
    said = {tuple(map(int, line.split())) for line in done.stdout.splitlines()}
    assert said == due, "each was acknowledged to somebody"
    check_contents(url, options, due)


def check_contents(url: str, options: dict[str, Any], due: set[tuple[int, int]]) -> None:
    table = read_queue(url, storage_options=options or None).read_all()
    found = sorted(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))
    assert found == sorted((*each, n) for each in due for n in range(ROWS))
    log = ReferenceLog(store_at(url, options or None))
    newest = log.open().number
    made = [log.commit(number).commit.operation for number in range(newest + 1)]
    assert made.count(Operation.APPEND) == len(due), "one commit for each, and no number is missing"
    assert verify_place(place_at(url, options or None)).faults == ()
