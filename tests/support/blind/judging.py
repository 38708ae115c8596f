"""Whether what is left of a mangled place says all, or says that something is wrong."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from cec_store.errors import CecError
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from support.blind.places import BlindPlace, Streams
from support.blind.trees import MANGLES, NOBODY, Mangled, Tree, put_up, take_down

_SECONDS_MAX = 10


class Wrong(AssertionError):
    """A silent loss, a false row, an error without a type, a hang, or a change by a refusal."""


def try_case(place: BlindPlace, root: Path, kind: str, seed: int) -> Counter[str]:
    """One mangling of one file, and every question asked of what is left.

    Raises:
        Wrong: with what happened, and to which file.
    """
    put_up(place.tree, root)
    it = Mangled(root, place.older, Random(f"{kind} {seed}"), place.below)
    MANGLES[kind](it)
    try:
        with _as_nobody(root) if it.unreadable else suppress():
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
    if place.goes_on is not None:
        before = take_down(root)
        answer = _answer("going on", place.goes_on, root)
        if answer is None:
            _require_unchanged(before, take_down(root))
            found["refused"] += 1
        elif not _begins_with(answer, place.truth["rows"]):
            raise Wrong(f"going on: {_difference(answer, place.truth['rows'])}")
        else:
            found["went on"] += 1
    return found


def _answer(name: str, ask: Callable[[Path], Streams], root: Path) -> Streams | None:
    """The answer; ``None`` for an error of the store's own."""
    try:
        with _time_limit():
            return ask(root)
    except CecError:
        return None
    except Exception as error:
        raise Wrong(f"{name}: {type(error).__name__}: {error}") from error


def _is_reported(root: Path) -> bool:
    try:
        with _time_limit():
            return not verify_place(place_at(str(root)), deep=False).is_sound
    except CecError:
        return True
    except Exception as error:
        raise Wrong(f"verify: {type(error).__name__}: {error}") from error


def _begins_with(answer: Streams, truth: Streams) -> bool:
    return len(answer) == len(truth) and all(
        a[: len(t)] == t for a, t in zip(answer, truth, strict=True)
    )


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
        raise TimeoutError(f"no answer within {_SECONDS_MAX} s")

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
