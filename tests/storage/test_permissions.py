"""What a user may not read or write is said in so many words, and is no damage."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from cec_store import OutputQueue, QueueLocked, ReadOnly, Unreadable, open_queue
from cec_store.cli import app
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.storage.names import manifest_name, segment_name
from cec_store.verbs import consumers, dump, extent, replay, report, trim, verify  # noqa: F401
from support.disks.other_user import as_nobody, open_to_all
from support.places.reported_places import grown

SCHEMA = pa.schema([("n", pa.int64())])
COULD_NOT_LOOK = 3


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture
def queue() -> Iterator[Path]:
    """Three segments that everybody may read."""
    with open_to_all() as top:
        with open_queue(top / "queue", "x", schema=SCHEMA) as written:
            for number in range(3):
                written.append(pa.record_batch({"n": pa.array([number])}))
                written.roll()
        for file in (top / "queue").rglob("*"):
            file.chmod(0o644)
        (top / "queue").chmod(0o755)
        yield top / "queue"


@pytest.mark.parametrize("name", [segment_name(1), manifest_name(0), "", ".."])
@pytest.mark.parametrize(
    "verb", ["verify", "extent", "dump", "replay", "report", "consumers", "trim"]
)
def test_what_may_not_be_read_is_neither_damage_nor_of_a_later_release(
    queue: Path, name: str, verb: str, tmp_path: Path
) -> None:
    (queue / name).chmod(0)
    with as_nobody():
        done = run(verb, queue, *(["-o", tmp_path / "page"] if verb == "report" else []))
    assert done.exit_code == COULD_NOT_LOOK, done.output
    assert "may not be read by" in done.stderr
    for word in ("damage", "upgrade", "written", "no queue", "neither"):
        assert word not in done.stderr.replace(str(queue), "")


@pytest.mark.parametrize("name", [segment_name(1), manifest_name(0), "", ".."])
def test_a_reader_says_who_may_not_read_what(queue: Path, name: str) -> None:
    (queue / name).chmod(0)
    with as_nobody(), pytest.raises(Unreadable, match="may not be read by") as caught:
        [*open_queue(queue).replay()]
    assert isinstance(caught.value, PermissionError)
    assert not isinstance(caught.value, ReadOnly)


def test_a_lock_of_another_user_does_not_matter_to_readers(queue: Path) -> None:
    (queue / "writer.lock").chmod(0)
    with as_nobody():
        assert run("verify", queue).exit_code == 0


def test_files_that_became_unreadable_are_a_fault_of_their_own(queue: Path) -> None:
    place = place_at(queue)
    (queue / segment_name(1)).chmod(0)
    with as_nobody():
        found = verify_place(place)
    assert [fault.kind for fault in found.faults] == ["unreadable"]
    assert "may not be read by" in found.faults[0].what


def test_one_log_that_may_not_be_read_is_not_passed_over(tmp_path: Path) -> None:
    with open_to_all() as top:
        checkpoint = grown(top / "c", partitions=2)
        for path in (top / "c").rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        checkpoint.folder(1).chmod(0)
        for verb in ("verify", "extent", "state", "changes", "dump", "diff"):
            others = {"diff": [top / "c"], "changes": [1, 2]}.get(verb, [])
            with as_nobody():
                done = run(verb, top / "c", *others)
            assert done.exit_code == COULD_NOT_LOOK, (verb, done.output)
            assert str(checkpoint.folder(1)) in done.stderr


def test_a_queue_of_another_user_is_said_to_be_theirs(queue: Path) -> None:
    with as_nobody(), pytest.raises(ReadOnly, match=r"cannot be written by .* belongs to"):
        open_queue(queue, "a")


def test_this_process_is_not_called_another(tmp_path: Path) -> None:
    with (
        open_queue(tmp_path / "q", "x", schema=SCHEMA),
        pytest.raises(QueueLocked, match="this process has this queue open"),
    ):
        open_queue(tmp_path / "q", "a")


def test_another_process_is_not_called_this_one(tmp_path: Path) -> None:
    with open_queue(tmp_path / "q", "x", schema=SCHEMA) as queue:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                open_queue(tmp_path / "q", "a")
            except QueueLocked as error:
                os.write(writing, str(error).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert b"another process has this queue open" in os.read(reading, 1000)
        os.close(reading)
        os.close(writing)
        assert isinstance(queue, OutputQueue)
