"""What another target would have given: at the recorded one exactly what was recorded."""

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cec_store import CorruptLog, Targets, open_queue
from cec_store.inspector.measuring.extent_history import WhatIf, parse_what_if
from cec_store.inspector.measuring.extents import reader_at
from cec_store.inspector.measuring.what_if import (
    ExtentHistory,
    Simulation,
    outcomes_of,
    simulate,
    together,
)
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow, TimeWindow
from cec_store.operators.inputs.sources import ArrowSource
from cec_store.operators.join.join import WindowJoin
from cec_store.operators.runner import Runner, record_schema
from cec_store.storage.local import LocalFolder
from support.disks.memory_folder import MemoryFolder
from support.places import damaged_queues as made
from support.places.state_logs import EMPTY, Commit, Writer


def history_of(folder, *targets: WhatIf, at=None) -> Simulation:
    return simulate(*reader_at(folder, at), targets)


def assert_same(history: ExtentHistory, other: ExtentHistory) -> None:
    assert history.checks.tolist() == other.checks.tolist()
    assert history.extent_records.tolist() == other.extent_records.tolist()
    assert history.replay_rows.tolist() == other.replay_rows.tolist()


def windows_of(folder) -> list[int]:
    """N at the end of each commit."""
    headers = [frame.header for frame in reader_at(folder)[0].frames()]
    return [header.open_windows for header in headers if header.is_counted]


def is_different(history: ExtentHistory, other: ExtentHistory) -> bool:
    return history.checks.tolist() != other.checks.tolist()


# -- queues of operators ----------------------------------------------------------------------

WINDOWS = st.one_of(
    st.integers(1, 30).map(CountWindow),
    st.integers(2, 12).map(lambda n: CountWindow(n, max(1, n // 3))),
    st.integers(1, 30).map(lambda n: TimeWindow(n * 1_000_000_000)),
)


@settings(max_examples=settings.default.max_examples // 3)
@given(
    window=WINDOWS,
    records=st.one_of(st.none(), st.integers(1, 150)),
    replay_rows=st.one_of(st.none(), st.integers(30, 500)),
    seed=st.integers(0, 1000),
    step_rows=st.integers(5, 200),
)
def test_at_its_own_target_an_operators_queue_is_what_it_was(
    tmp_path_factory: pytest.TempPathFactory, window, records, replay_rows, seed, step_rows
) -> None:
    path = tmp_path_factory.mktemp("random") / "q"
    policy = Targets(records, None, replay_rows)
    made.make_operator_queue(
        path, 600, window=window, policy=policy, seed=seed, step_rows=step_rows, reopen_at=250
    )
    target = WhatIf(extent_records=records, replay_rows=replay_rows)
    history = history_of(made.folder_of(path), target, WhatIf(extent_records=10**9))
    (_, same), (_, without) = history.targets
    assert_same(same, history.recorded)
    frames = [header for path in made.segments(path) for _, header in made.batches(path)]
    assert history.recorded.extent_records.tolist() == [each.extent_records for each in frames]
    records_of_each = history.recorded.checks + history.others
    assert np.cumsum(records_of_each).tolist() == [each.end_offset for each in frames]
    assert records_of_each.tolist() == [each.record_count for each in frames]
    assert not without.checks.any()


@pytest.mark.parametrize("factor", [1.5, 3.0])
def test_a_factor_of_the_open_windows_is_a_target(tmp_path: Path, factor: float) -> None:
    table = made.trips(60_000)
    planes = np.random.default_rng(1).integers(0, 1500, 60_000)
    table = table.set_column(1, "plane", pa.array(planes).cast("string"))
    operator = Aggregate(
        group_by=["plane"], aggregates={"trips": ("count",)}, window=CountWindow(9),
        input_schema=table.schema,
    )  # fmt: skip
    with open_queue(tmp_path / "q", "x", schema=record_schema(operator)) as queue:
        source = ArrowSource(table, "at")
        Runner(operator, [source], queue, Targets(extent_factor=factor), step_rows_max=900).run()
    history = history_of(LocalFolder(tmp_path / "q"), WhatIf(extent_factor=factor))
    assert history.recorded.checks.any()
    assert_same(history.targets[0][1], history.recorded)


def test_a_join_of_two_inputs_is_what_it_was(tmp_path: Path) -> None:
    left, right = made.trips(700, 1), made.trips(700, 2)
    operator = WindowJoin(left.schema, right.schema, on=["plane"], within_us=900_000_000)
    with open_queue(tmp_path / "q", "x", schema=record_schema(operator)) as queue:
        sources = [ArrowSource(left, "at"), ArrowSource(right, "at")]
        Runner(operator, sources, queue, Targets(60, None, 300), step_rows_max=40).run()
    history = history_of(LocalFolder(tmp_path / "q"), WhatIf(60, None, 300), WhatIf(200))
    assert history.recorded.checks.any()
    assert_same(history.targets[0][1], history.recorded)
    assert is_different(history.targets[1][1], history.recorded)


def test_a_trimmed_queue_goes_on_from_where_all_windows_can_be_seen(tmp_path: Path) -> None:
    path = made.make_operator_queue(tmp_path / "q", policy=Targets(60, None))
    whole = history_of(made.folder_of(path), WhatIf(60), WhatIf(90))
    with open_queue(path, "a") as queue:
        # Not to the end: how many frames the last segments have depends on the time.
        assert queue.trim(queue.end_offset // 2) > 0
    rest = history_of(made.folder_of(path), WhatIf(60), WhatIf(90))
    assert 0 < len(rest.others) < len(whole.others)
    assert_same(rest.targets[0][1], rest.recorded)
    last = len(whole.others) - len(rest.others)
    assert rest.others.tolist() == whole.others[last:].tolist()
    assert rest.recorded.checks.tolist() == whole.recorded.checks[last:].tolist()
    assert is_different(rest.targets[1][1], rest.recorded)


def test_records_that_do_not_add_up_are_damage(tmp_path: Path) -> None:
    path = made.make_operator_queue(tmp_path / "q")
    made.patch_header(
        made.segments(path)[0], made.batches(made.segments(path)[0])[3][0], open_windows=3
    )
    with pytest.raises(CorruptLog, match="its records say"):
        history_of(made.folder_of(path), WhatIf(60))


# -- state stores -----------------------------------------------------------------------------


class NaiveStore:
    """Renews as Spark's provider does, one footprint after the other."""

    def __init__(self, target: WhatIf) -> None:
        self.target = target
        self.starts: list[int] = []

    def renewed(self, base: Commit, changes: dict) -> int:
        """How many a commit renews: LiveState.renew, in plain Python."""
        put = {key for key, value in changes.items() if value is not None}
        gone = {k for k, v in changes.items() if v is None and k in base.state}
        n = len((set(base.state) | put) - gone)
        records = len(put) + len(gone)
        old = sorted(o for k, o in base.footprints.items() if k not in put | gone)
        self.starts.append(base.offset)
        asked = self.target.extent_records
        if asked is None:
            asked = max(8192, int(n * (self.target.extent_factor or 0)))
        most = max(asked, int(n * 1.1))
        count = 0
        while count < len(old):
            first = max(place for place, start in enumerate(self.starts) if start <= old[count])
            frames = len(self.starts) - first
            if base.offset + records + count - old[count] + 128 * frames <= most:
                break
            count += 1
        return count


def random_store(
    folder: MemoryFolder, random: Random, target: WhatIf, commits: int, keys: int, puts: int = 40
) -> Commit:
    policy, base = NaiveStore(target), EMPTY
    writer = Writer(folder, random, blocks=True, segment_bytes=4_000)
    for _ in range(commits):
        changes: dict = {}
        for _ in range(random.choice([0, 1, 5, puts])):
            key = (1, random.randrange(keys).to_bytes(random.choice([2, 2, 8]), "big"))
            is_removal = random.random() < 0.3
            if not is_removal or key in base.state:
                changes[key] = None if is_removal else random.randbytes(random.randrange(9))
        base = writer.commit(base, changes, renew=policy.renewed(base, changes))
        if random.random() < 0.1:
            writer.roll()
    writer.close()
    return base


@settings(max_examples=settings.default.max_examples // 2)
@given(
    seed=st.integers(0, 2**32),
    target=st.one_of(
        st.integers(1, 3000).map(lambda q: WhatIf(extent_records=q)),
        st.just(WhatIf(extent_factor=2.0)),
    ),
    keys=st.integers(1, 400),
)
def test_at_its_own_target_a_state_store_is_what_it_was(seed: int, target, keys: int) -> None:
    folder = MemoryFolder({})
    last = random_store(folder, Random(seed), target, 40, keys)
    history = history_of(folder, target, WhatIf(extent_records=10**9))
    (_, same), (_, without) = history.targets
    assert_same(same, history.recorded)
    assert not without.checks.any()
    assert len(history.others) == last.version
    if len(history.others):
        assert int(same.extent_records[-1]) == last.extent_records
        assert windows_of(folder)[-1] == len(last.state)


def test_footprints_of_a_state_store_are_renewed_in_such_a_history() -> None:
    folder = MemoryFolder({})
    random_store(folder, Random(5), WhatIf(extent_records=900), 60, 100)
    history = history_of(folder, WhatIf(extent_records=900), WhatIf(extent_records=500))
    assert (history.recorded.checks > 0).sum() > 5
    assert is_different(history.targets[1][1], history.recorded)


def test_a_target_below_the_open_windows_of_a_state_store_is_as_near_as_it_can_be() -> None:
    folder, target = MemoryFolder({}), WhatIf(extent_records=1)
    random_store(folder, Random(3), target, 16, 9000, puts=4000)
    history = history_of(folder, target, WhatIf(extent_records=9000))
    assert (history.recorded.checks > 0).sum() > 3
    assert max(windows_of(folder)) > 3000
    assert is_different(history.targets[0][1], history.targets[1][1])
    assert_same(history.targets[0][1], history.recorded)


def test_a_state_store_without_its_first_versions_goes_on_from_a_whole_one() -> None:
    folder, target = MemoryFolder({}), WhatIf(extent_records=900)
    random_store(folder, Random(5), target, 60, 100)
    whole = history_of(folder, target)
    folder.unlink(min(folder.names()))
    rest = history_of(folder, target, WhatIf(extent_records=1200))
    assert 0 < len(rest.others) < len(whole.others)
    assert_same(rest.targets[0][1], rest.recorded)
    cut = len(whole.others) - len(rest.others)
    assert rest.recorded.checks.tolist() == whole.recorded.checks[cut:].tolist()
    assert rest.recorded.checks.any()


def test_a_state_store_has_no_target_u() -> None:
    folder = MemoryFolder({})
    random_store(folder, Random(5), WhatIf(extent_records=900), 3, 10)
    with pytest.raises(ValueError, match="replays no input"):
        history_of(folder, WhatIf(replay_rows=5))


# -- words and sums ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("Q=100000", WhatIf(extent_records=100_000)),
        ("q=100k", WhatIf(extent_records=100_000)),
        ("Q=1.5m", WhatIf(extent_records=1_500_000)),
        ("Q=2x", WhatIf(extent_factor=2.0)),
        ("U=5_000", WhatIf(replay_rows=5000)),
        ("Q=1.5x, U=5k", WhatIf(extent_factor=1.5, replay_rows=5000)),
    ],
)
def test_a_target_is_read_and_written(text: str, target: WhatIf) -> None:
    assert parse_what_if(text) == target
    assert parse_what_if(str(target)) == target


@pytest.mark.parametrize(
    "text", ["", "Q", "Q=", "Q=0", "Q=-1", "Q=1.5", "U=2x", "Q=1,Q=2", "R=3", "Q=2x2", "Q=0x"]
)
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no target"):
        parse_what_if(text)


def test_outcomes_of_many_logs_add_up(tmp_path: Path) -> None:
    outcomes = []
    for seed in (1, 2):
        path = made.make_operator_queue(tmp_path / str(seed), 500, seed=seed)
        outcomes.append(outcomes_of(history_of(made.folder_of(path), WhatIf(60))))
    recorded, tried = together(outcomes)
    assert (recorded.target, tried.target) == ("recorded", "Q=60")
    assert tried.checks == sum(each[1].checks for each in outcomes) > 0
    assert tried.check_overhead == tried.checks / tried.other_records
    assert together([]) == ()
