"""Every damage to the index beside a log after any crash: lookups equal a scan, and nobody dies."""

import multiprocessing
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cec_store.storage.names import manifest_epoch_of
from support.crashes.crash_states import power_cuts, snapshots_of
from support.crashes.index_crashes import DAMAGES, Indexes, check_each
from support.disks.loop_disk import folder_in_memory
from support.runs.suites import Tally

pytestmark = pytest.mark.crash

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["support.crashes.index_crashes"])
CASES_A_CHILD = 70
NAMES = ("rolls", "trims", "openings", "failed_syncs", "takeover", "groups")


@pytest.mark.parametrize("workload", NAMES)
def test_lookups_after_a_crash_equal_a_scan_whatever_the_index_is(
    workload: str, tmp_path: Path, crash_count: Callable[[int, int], int], tally: Tally
) -> None:
    states = [
        state.image
        for state in power_cuts(snapshots_of(workload))
        if any(manifest_epoch_of(name) is not None for name, _ in state.image)
    ]
    generator = random.Random(workload)
    taken = generator.sample(states, min(len(states), crash_count(len(DAMAGES), 400)))
    quick = crash_count(1, 0)
    # Quick: each damage beside one crash state. Full: each beside all of those that are taken.
    cases = [
        (number, image, kind)
        for number, image in enumerate(taken)
        for at, kind in enumerate(sorted(DAMAGES))
        if not quick or at == number
    ]
    with folder_in_memory(tmp_path) as folder:
        indexes = Indexes(workload, folder)
        for first in range(0, len(cases), CASES_A_CHILD):
            part = cases[first : first + CASES_A_CHILD]
            child = CONTEXT.Process(target=check_each, args=(part, indexes, folder))
            child.start()
            child.join(300)
            if child.exitcode != 0:
                saved = Path(tempfile.mkdtemp(prefix="cec-index-"))
                shutil.copytree(folder / "case", saved / "queue")
                why = folder / "why"
                raise AssertionError(
                    f"{workload}, crash state and damage {(folder / 'at').read_text()}: the child "
                    f"ended with {child.exitcode}: {why.read_text() if why.exists() else ''}\n"
                    f"its files: {saved}\nagain: python -m pytest "
                    f"tests/faults/test_index_crashes.py -k '[{workload}]'"
                )
    tally(len(cases))
    print(f"{workload}: {len(cases)} of {len(states)} crash states × {len(DAMAGES)} damages")


def test_there_are_enough_kinds_of_damage() -> None:
    assert len(DAMAGES) >= 12
