"""A FIFO, a folder or a device in the place of any file: nobody waits, everybody names it."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cec_store import CecError, open_queue
from support.command_line.verify import run, state_of
from support.places import damaged_places as places
from support.runs.counts import crash_cases

PLACES = {
    "queue": places.queue,
    "partitioned": places.partitioned,
    "store": places.store,
    "checkpoint": places.checkpoint,
}
KINDS: dict[str, Callable[[str], None]] = {
    "FIFO": os.mkfifo,
    "folder": os.mkdir,
    "link": lambda path: os.symlink("/dev/zero", path),
}
VERBS = (
    ["verify"], ["extent"], ["dump"], ["report", "--json"], ["replay"], ["consumers"], ["state"],
)  # fmt: skip
HANGS_AFTER_S = 120


@contextmanager
def deadline() -> Iterator[None]:
    """Fails what waits for the other end of a FIFO."""

    def fail(number: int, frame: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(HANGS_AFTER_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("whole")
    return {name: make(root / name) for name, make in PLACES.items()}


def swap(path: Path, kind: str) -> None:
    path.unlink()
    KINDS[kind](str(path))


def files_of(place: Path) -> list[Path]:
    """One of each kind and folder: what stands beside it is read in the same way."""
    found = {}
    for file in sorted(path for path in place.rglob("*") if path.is_file()):
        name = "".join(c for c in file.name if not c.isdigit())
        found[file.parent.name, name] = file.relative_to(place)
    return list(found.values())


@pytest.mark.crash
@pytest.mark.parametrize("kind", crash_cases(["FIFO"], KINDS))
@pytest.mark.parametrize("name", PLACES)
def test_what_is_no_file_ends_no_command_with_a_traceback(
    name: str, kind: str, whole: dict[str, Path], tmp_path: Path
) -> None:
    told = 0
    names = files_of(whole[name])
    assert len(names) >= 4 or name == "store"
    for file in names:
        place = tmp_path / "place"
        shutil.copytree(whole[name], place)
        swap(place / file, kind)
        before = state_of(place)
        for verb in VERBS:
            with deadline():
                done = run(verb[0], place, *verb[1:])
            trouble = done.exception
            assert trouble is None or isinstance(trouble, SystemExit), f"{verb} {file}: {trouble!r}"
            told += verb == ["verify"] and done.exit_code != 0 and file.name in done.output
        assert state_of(place) == before, f"{file}: something was changed"
        shutil.rmtree(place)
    assert told >= len(names) // 3, "verify names hardly any"


def refusal(place: Path, mode: str) -> str:
    """What an application is told; nothing if all is well."""
    try:
        with open_queue(place, mode) as queue:
            for _ in queue.replay():
                pass
            queue.rebuild()
            queue.consumer("hourly").close()
    except CecError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_with_what_is_no_file_opens_or_says_which_it_is(
    kind: str, whole: dict[str, Path], tmp_path: Path
) -> None:
    refused = set()
    for file in files_of(whole["queue"]):
        place = tmp_path / "place"
        shutil.copytree(whole["queue"], place)
        swap(place / file, kind)
        with deadline():
            for mode in ("r", "a"):
                said = refusal(place, mode)
                assert not said or file.name in said, f"{file}: {said}"
                refused |= {file.name} if said else set()
        shutil.rmtree(place)
    assert {"writer.lock", "consumer-hourly.ack", "consumer-hourly.lock"} <= refused
