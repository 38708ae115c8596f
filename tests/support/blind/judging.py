"""Whether what is left of a mangled place says all, or says that something is wrong."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random

from typer.testing import CliRunner

from cec_store.cli import app
from cec_store.errors import CecError
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from support.blind.places import BlindPlace, Streams
from support.blind.trees import MANGLES, NOBODY, Mangled, Tree, put_up, take_down

_SECONDS_MAX = 10


class Wrong(AssertionError):
    """A silent loss, a false row, an error without a type, a hang, or a change by a refusal."""


class _OutOfTime(BaseException):
    """Not an error that the store could take for one of its own."""


def try_case(place: BlindPlace, root: Path, kind: str, seed: str) -> Counter[str]:
    """One mangling of one file, and every question asked of what is left.

    Raises:
        Wrong: with what happened, and to which file.
    """
    put_up(place.tree, root)
    random = Random(f"{kind} {seed}")
    it = Mangled(root, place.older, random, place.below)
    MANGLES[kind](it)
    try:
        with _as_nobody(root) if it.unreadable else nullcontext():
            _look_at_a_screen(random.choice(place.screens), root)
            return _judged(place, root)
    except Wrong as wrong:
        raise Wrong(f"{kind} {seed}, {it.name}: {wrong}") from wrong
    finally:
        moved = root.parent / "moved"
        moved.unlink(missing_ok=True)


def _judged(place: BlindPlace, root: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, ask in place.questions.items():
        truth = place.truth[name]
        with _nothing_changes(root):
            answer = _answer(name, ask, root)
        if answer is None:
            found["refused"] += 1
        elif answer == truth:
            found["whole"] += 1
        elif _is_reported(root):
            found["reported"] += 1
        else:
            raise Wrong(f"{name}: {_difference(answer, truth)}, and verify finds nothing")
    if place.go_on is not None:
        found[_going_on(place, root)] += 1
    return found


def _going_on(place: BlindPlace, root: Path) -> str:
    """What was acknowledged before is still there once somebody has appended, or is missed."""
    assert place.go_on is not None
    before = take_down(root)
    if not before:
        return "removed"  # with its only folder: nothing is left that could be missed
    appended = _answer("going on", place.go_on, root)
    if appended is None:
        if place.is_one_log:
            _require_unchanged(before, take_down(root))
        return "refused"
    answer = _answer("rows", place.questions["rows"], root)
    if answer is None:
        return "refused later"
    truth = place.truth["rows"]
    for there, old, new in zip(answer, truth, appended, strict=True):
        if there[: len(old)] != old or there[len(there) - len(new) :] != new:
            raise Wrong(f"going on: {_difference(answer, truth)}")
    return "went on"


def _answer(name: str, ask: Callable[[Path], Streams], root: Path) -> Streams | None:
    """The answer; ``None`` for an error of the store's own."""
    try:
        with _time_limit():
            return ask(root)
    except CecError:
        return None
    except (Exception, _OutOfTime) as error:
        raise Wrong(f"{name}: {type(error).__name__}: {error}") from error


def _look_at_a_screen(words: str, root: Path) -> None:
    """What the command line says is for people; but it says something, and in time."""
    try:
        with _nothing_changes(root), _time_limit():
            result = CliRunner().invoke(app, [*words.split(), str(root)])
    except _OutOfTime as error:
        raise Wrong(f"{words}: {error}") from error
    if not isinstance(result.exception, (SystemExit, type(None))):
        raise Wrong(f"{words}: {type(result.exception).__name__}: {result.exception}")


def _is_reported(root: Path) -> bool:
    try:
        with _time_limit():
            found = verify_place(place_at(str(root)), deep=False)
            return not found.is_sound or any("an older copy" in each.what for each in found.notes)
    except CecError:
        return True
    except (Exception, _OutOfTime) as error:
        raise Wrong(f"verify: {type(error).__name__}: {error}") from error


def _difference(answer: Streams, truth: Streams) -> str:
    sizes = [[len(part) for part in streams] for streams in (answer, truth)]
    return f"{sizes[0]} rows of {sizes[1]}"


@contextmanager
def _nothing_changes(root: Path) -> Iterator[None]:
    before = take_down(root)
    yield
    if take_down(root) != before:
        raise Wrong("a reader has written")


def _require_unchanged(before: Tree, after: Tree) -> None:
    """New files without content, as locks, are no loss; every other file is as it was."""
    lost = [name for name, data in before.items() if after.get(name) != data]
    if lost:
        raise Wrong(f"refused, and yet changed: {lost[:3]}")


@contextmanager
def _time_limit() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise _OutOfTime(f"no answer within {_SECONDS_MAX} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(_SECONDS_MAX)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _as_nobody(root: Path) -> Iterator[None]:
    """Root may read everything: as somebody else, whom the other files belong to."""
    if os.geteuid() != 0:
        yield
        return
    for each in [root, *root.rglob("*")]:
        shutil.chown(each, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
