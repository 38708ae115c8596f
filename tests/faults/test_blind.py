"""Directories mangled by hands that know nothing of the format: all is there, or it is said."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.blind.judging import Wrong, try_case
from support.blind.places import PLACES
from support.blind.trees import MANGLES
from support.runs.suites import Tally

pytestmark = pytest.mark.crash
_SHOWN_MAX = 20


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.mark.parametrize("kind", PLACES)
def test_a_mangled_directory_says_all_or_says_what_is_wrong(
    kind: str, open_folder: Path, crash_count: Callable[[int, int], int], tally: Tally
) -> None:
    place = PLACES[kind](open_folder / "made")
    found: Counter[str] = Counter()
    wrong = []
    cases = 0
    for mangle in MANGLES:
        for seed in range(crash_count(1, 70)):
            cases += 1
            try:
                found += try_case(place, open_folder / "case", mangle, f"{kind} {seed}")
            except Wrong as error:
                wrong.append(str(error))
    tally(cases)
    shown = "\n".join(wrong[:_SHOWN_MAX])
    assert not wrong, f"{len(wrong)} of {cases} cases of {kind!r} ({dict(found)}):\n{shown}"
    assert found["whole"] > cases / 20, "nearly everything is refused"
    assert found["refused"] > cases / 4, "hardly anything is noticed"
