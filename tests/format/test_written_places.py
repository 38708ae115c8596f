"""What earlier checkouts wrote (tests/data/written) is read as it was, is sound, and goes on."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cec_store import open_queue
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from support.paths import DATA
from support.places.written_places import (
    CHECKPOINTS,
    NOON_US,
    QUEUES,
    ROWS,
    aggregate,
    bids,
    found,
    join,
    rows_of,
    write_operators,
)

WRITTEN = sorted((DATA / "written").iterdir())
each_checkout = pytest.mark.parametrize("checkout", [path.name for path in WRITTEN])


@pytest.fixture
def written(checkout: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "written" / checkout, tmp_path / "written"))


def expected(written: Path) -> dict[str, Any]:
    return dict(json.loads((written / "found.json").read_text()))


def test_there_are_places_to_read() -> None:
    assert WRITTEN
    assert set(expected(WRITTEN[0])) == {*QUEUES, *CHECKPOINTS}


@each_checkout
def test_reads_what_was_read_then(written: Path) -> None:
    assert found(written) == expected(written)


@pytest.mark.parametrize("name", [*QUEUES, *CHECKPOINTS])
@each_checkout
def test_is_sound(written: Path, name: str) -> None:
    verification = verify_place(place_at(written / name))
    assert verification.is_sound
    assert verification.logs


@pytest.mark.parametrize("name", ["plain", "unclosed"])
@each_checkout
def test_appends_follow_what_is_there(written: Path, name: str) -> None:
    (batch,) = bids(100, 110).to_batches()
    with open_queue(written / name, "a", schema=batch.schema, timestamp_column="at") as queue:
        queue.append(batch)
    before = expected(written)[name]
    after = rows_of(written / name)
    assert after[: len(before)] == before
    assert len(after) == len(before) + 10


@each_checkout
def test_index_and_consumers_are_found(written: Path) -> None:
    names = {path.name for path in (written / "plain" / "index").iterdir()}
    with open_queue(written / "plain") as queue:
        offset = queue.position_at(NOON_US + 41_000).offset
        assert queue.position_at(0).offset + 11 == offset
        effects = {each.name: each.effects_saved for each in queue.consumers()}
    assert effects == {"billing": 30, "audit": 35}
    assert {path.name for path in (written / "plain" / "index").iterdir()} == names


@pytest.mark.parametrize("name", ["aggregate", "join"])
@each_checkout
def test_operators_go_on_as_if_never_stopped(written: Path, tmp_path: Path, name: str) -> None:
    make = {"aggregate": aggregate, "join": join}[name]
    inputs = [bids(0, ROWS)] * (2 if name == "join" else 1)
    write_operators(written / name, make(), inputs)
    write_operators(tmp_path / "at once", make(), inputs)
    assert sorted(rows_of(written / name)) == sorted(rows_of(tmp_path / "at once"))
