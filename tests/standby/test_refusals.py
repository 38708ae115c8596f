"""What a standby cannot do is refused by a typed error, and the primary goes on as before."""

import numpy as np
import pyarrow as pa
import pytest

from cec_store import (
    Fenced,
    KeepAlive,
    NotAQueue,
    OutOfRange,
    QueueInput,
    QueueOptions,
    RecoveryError,
    SchemaMismatch,
    Scheme,
    Standby,
    StandbyRefused,
    StoreUnreachable,
    Targets,
    leases_of,
    open_queue,
)
from cec_store.operators import (
    Aggregate,
    ArrowSource,
    CountWindow,
    Filter,
    QueueSource,
    RandomFilter,
    Runner,
    SessionWindow,
    TimeWindow,
    Union,
    WindowJoin,
    record_schema,
)
from cec_store.operators.contract import Operator
from cec_store.standby.lease import Lease
from cec_store.standby.leases import Sighting, Watch
from support.disks.open_files import open_below

ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64())])
TIGHT = Targets(extent_factor=1.5, extent_floor=1)


def summed(window=None) -> Aggregate:
    return Aggregate(
        group_by=["k"],
        aggregates={"v": ("sum", "v")},
        window=window or CountWindow(4),
        input_schema=ROWS,
    )


def timed() -> Aggregate:
    return summed(TimeWindow(10))


def table(rows: int = 100) -> pa.Table:
    at = np.arange(rows)
    return pa.table({"k": at % 3, "v": at, "t": pa.array(at).cast(pa.timestamp("us"))})


class Table(ArrowSource):
    """A table as a source of its rows without their time."""

    def __init__(self, rows: int = 100) -> None:
        super().__init__(table(rows), "t")
        self.schema = ROWS

    def read(self, start, stop=None):
        for read in super().read(start, stop):
            yield type(read)(read.batch.select(ROWS.names), read.offsets, read.timestamps_us)


class Primary:
    """Goes on, with what it has not taken yet, after a standby was refused."""

    def __init__(self, path, operator=None, sources=None, checkpoints=True) -> None:
        operator = operator or summed()
        self.queue = open_queue(path, "a", schema=record_schema(operator))
        self.runner = Runner(
            operator, sources or [Table()], self.queue, TIGHT, checkpoints=checkpoints,
            step_rows_max=10,
        )  # fmt: skip
        for number, step in enumerate(self.runner._steps(self.runner._position), 1):
            self.runner.step(step)
            if number == 5:
                break
        self.queue.sync()
        self.epoch = self.queue.chain().manifest.epoch

    def goes_on(self) -> None:
        end = self.queue.end_offset
        self.runner.run()
        assert self.queue.durable_offset > end
        assert self.queue.chain().manifest.epoch == self.epoch
        self.queue.close()


@pytest.fixture
def primary(tmp_path):
    made = Primary(tmp_path / "queue")
    yield made
    made.goes_on()


@pytest.mark.parametrize("name", ["hot", "passive standby!", "", None, 3])
def test_an_unknown_scheme(primary, tmp_path, name):
    with pytest.raises(StandbyRefused, match="there are 'amnesia', 'passive standby'"):
        Standby(tmp_path / "queue", summed, [Table()], name)


@pytest.mark.parametrize("name", ["passive", "Passive Standby", "PASSIVE", Scheme.PASSIVE])
def test_schemes_have_the_papers_names(primary, tmp_path, name):
    assert Standby(tmp_path / "queue", summed, [Table()], name).scheme is Scheme.PASSIVE


@pytest.mark.parametrize("given", [summed(), None, lambda: None, lambda: "operator"])
def test_an_operator_that_is_no_factory(primary, tmp_path, given):
    with pytest.raises(StandbyRefused, match="a function that makes a new operator"):
        Standby(tmp_path / "queue", given, [Table()])


@pytest.mark.parametrize("scheme", Scheme)
def test_another_operator_than_the_primarys(primary, tmp_path, scheme):
    def other() -> Aggregate:
        return summed(TimeWindow(10))

    source = Table()
    if scheme is Scheme.UPSTREAM:
        with open_queue(tmp_path / "rows", "x", schema=ROWS) as rows:
            source = QueueInput(rows, "primary")
    with pytest.raises(SchemaMismatch, match="the queue's columns are"):
        Standby(tmp_path / "queue", other, [source], scheme)


@pytest.mark.parametrize("scheme", [Scheme.PASSIVE, Scheme.ACTIVE])
def test_an_operator_that_cannot_be_followed(tmp_path, scheme):
    class Plain(Filter):
        can_be_followed = False

    def make() -> Operator:
        return Plain(lambda batch: pa.array([True] * batch.num_rows, pa.bool_()), ROWS)

    primary = Primary(tmp_path / "queue", make())
    with pytest.raises(StandbyRefused, match="Plain cannot be kept close"):
        Standby(tmp_path / "queue", make, [Table()], scheme)
    primary.goes_on()


def test_a_shadow_of_an_operator_that_depends_on_chance(tmp_path):
    def make() -> Operator:
        return RandomFilter(0.9, ROWS)

    primary = Primary(tmp_path / "queue", make())
    with pytest.raises(StandbyRefused, match="RandomFilter depends on chance"):
        Standby(tmp_path / "queue", make, [Table()], "active")
    primary.goes_on()


def test_active_standby_of_sessions(tmp_path):
    """Which of them are open side by side depends on where steps end."""

    def sessions():
        return summed(SessionWindow(2, 20))

    primary = Primary(tmp_path / "queue", sessions())
    with pytest.raises(StandbyRefused, match="Aggregate over sessions has windows by where"):
        Standby(tmp_path / "queue", sessions, [Table()], "active")
    primary.goes_on()


def test_upstream_backup_of_windows_that_do_not_align_again(tmp_path):
    with open_queue(tmp_path / "rows", "x", schema=ROWS) as rows:
        primary = Primary(tmp_path / "queue", checkpoints=False)
        with pytest.raises(StandbyRefused, match="never comes to the same output again"):
            Standby(tmp_path / "queue", summed, [QueueInput(rows, "primary")], "upstream")
        primary.goes_on()


class Once:
    """An input that cannot be read twice."""

    schema = ROWS


@pytest.mark.parametrize(
    ("sources", "says"),
    [
        ([], "0 sources for an operator with 1 input"),
        ([Table(), Table()], "2 sources"),
        ([Once()], "cannot be read again from an offset"),
        ([iter([])], "cannot be read again from an offset"),
    ],
)
def test_sources_that_cannot_be_replayed(primary, tmp_path, sources, says):
    with pytest.raises(StandbyRefused, match=says):
        Standby(tmp_path / "queue", summed, sources)


def test_amnesia_asks_where_the_input_ends(primary, tmp_path):
    class Endless(Table):
        end = None

    with pytest.raises(StandbyRefused, match="does not say where it ends"):
        Standby(tmp_path / "queue", summed, [Endless()], "amnesia")


def test_upstream_backup_needs_a_consumer(tmp_path):
    primary = Primary(tmp_path / "queue", timed(), checkpoints=False)
    with pytest.raises(StandbyRefused, match="input 0 has no consumer"):
        Standby(tmp_path / "queue", timed, [Table()], "upstream")
    primary.goes_on()


def test_a_standby_does_not_act_under_the_primarys_name(tmp_path):
    with (
        open_queue(tmp_path / "rows", "x", schema=ROWS) as rows,
        rows.consumer("primary") as consumer,
    ):
        primary = Primary(tmp_path / "queue")
        with pytest.raises(StandbyRefused, match="give QueueInput"):
            Standby(tmp_path / "queue", summed, [QueueSource(rows.chain, consumer)])
        primary.goes_on()


def test_upstream_backup_needs_a_registered_consumer(tmp_path):
    with open_queue(tmp_path / "rows", "x", schema=ROWS) as rows:
        primary = Primary(tmp_path / "queue", timed(), checkpoints=False)
        standby = Standby(tmp_path / "queue", timed, [QueueInput(rows, "nobody")], "upstream")
        with pytest.raises(StandbyRefused, match="no consumer 'nobody' is registered"):
            standby.take_over()
        primary.goes_on()


@pytest.mark.parametrize("scheme", [Scheme.PASSIVE, Scheme.ACTIVE, Scheme.EVENTUAL])
def test_a_primary_without_checkpoints_leaves_no_state(tmp_path, scheme):
    primary = Primary(tmp_path / "queue", checkpoints=False)
    with pytest.raises(RecoveryError, match="take over by 'upstream backup'"):
        Standby(tmp_path / "queue", summed, [Table()], scheme)
    primary.goes_on()


def test_a_primary_with_checkpoints_has_let_go_of_its_input(tmp_path):
    primary = Primary(tmp_path / "queue", timed())
    with (
        open_queue(tmp_path / "rows", "x", schema=ROWS) as rows,
        pytest.raises(RecoveryError, match="was written with checkpoints"),
    ):
        Standby(tmp_path / "queue", timed, [QueueInput(rows, "primary")], "upstream")
    primary.goes_on()


def test_no_queue(tmp_path):
    with pytest.raises(NotAQueue):
        Standby(tmp_path / "queue", summed, [Table()])
    assert list(tmp_path.iterdir()) == []


def test_input_that_is_gone_is_missed_before_the_primary_is_fenced(tmp_path):
    options = QueueOptions(segment_bytes=1_000)
    with open_queue(tmp_path / "rows", "x", schema=ROWS, options=options) as rows:
        for start in range(0, 100, 5):
            at = np.arange(start, start + 5)
            rows.append(pa.record_batch({"k": at % 3, "v": at}, schema=ROWS), pa.array(at))
        rows.sync()
        primary = Primary(tmp_path / "queue", sources=[QueueSource(rows.chain)])
        standby = Standby(tmp_path / "queue", summed, [QueueSource(rows.chain)], "eventual", TIGHT)
        assert rows.trim(rows.end_offset) > 60
        with pytest.raises(StandbyRefused, match=r"input 0 is needed from \d+ on") as refused:
            standby.take_over()
        assert isinstance(refused.value.__cause__, OutOfRange)
        assert primary.queue.chain().manifest.epoch == primary.epoch
        primary.queue.close()


def test_input_that_a_join_would_preload_is_missed_before_the_primary_is_fenced(tmp_path):
    options = QueueOptions(segment_bytes=1_000)
    sides = [open_queue(tmp_path / name, "x", schema=ROWS, options=options) for name in "lr"]
    for side in sides:
        for start in range(0, 400, 10):
            at = np.arange(start, start + 10)
            side.append(pa.record_batch({"k": at % 7, "v": at}, schema=ROWS), pa.array(at))
        side.sync()

    def join() -> WindowJoin:
        return WindowJoin(ROWS, ROWS, on=["k"], within_us=60)

    def sources() -> list[QueueSource]:
        return [QueueSource(side.chain) for side in sides]

    queue = open_queue(tmp_path / "queue", "a", schema=record_schema(join()))
    Runner(join(), sources(), queue, Targets(extent_records=1)).run()
    newest = queue.rebuild()
    low, position = newest.states[0].as_py()["low_left"], int(newest.replay_from[0])
    standby = Standby(tmp_path / "queue", join, sources(), "eventual")
    warm = Standby(tmp_path / "queue", join, sources(), "passive")
    warm.follow()
    assert low < sides[0].trim(position - 1) < position
    epoch = queue.chain().manifest.epoch
    with pytest.raises(StandbyRefused, match=rf"input 0 is needed from {low} on"):
        standby.take_over()
    assert queue.chain().manifest.epoch == epoch
    # One that is warm has that input already.
    warm.take_over().close()
    for side in sides:
        side.close()


def test_a_refusal_takes_no_lease(tmp_path):
    """Who watches finds the primary silent, and must leave it alone where it cannot go on."""
    with open_queue(tmp_path / "rows", "x", schema=ROWS) as rows:
        primary = Primary(tmp_path / "queue", timed(), checkpoints=False)
        leases = leases_of(tmp_path / "queue")
        lease = leases.hold("primary", keep_alive=KeepAlive(0.01, 1))
        number = lease.number
        lease.release()
        standby = Standby(tmp_path / "queue", timed, [QueueInput(rows, "nobody")], "upstream")
        with pytest.raises(StandbyRefused, match="no consumer"):
            standby.wait_and_take_over(leases)
        assert leases.watch("primary").look().tenure == number
        primary.goes_on()


@pytest.mark.parametrize("kept", ["on a disk", "in a store"])
def test_a_standby_that_lost_its_lease_does_not_fence_the_holder(tmp_path, monkeypatch, kept):
    """It was stopped between taking the lease and opening the log, and another took both."""
    primary = Primary(tmp_path / "queue")
    place = tmp_path / "queue" if kept == "on a disk" else f"memory://{tmp_path}"
    leases = leases_of(place)
    leases.hold("primary", keep_alive=KeepAlive(0.01, 1)).release()
    standby = Standby(tmp_path / "queue", summed, [Table()], policy=TIGHT)
    other = Standby(tmp_path / "queue", summed, [Table()], policy=TIGHT)
    real, rightful = leases.hold, []

    def hold(name: str, **options) -> Lease:
        lease = real(name, **options)
        monkeypatch.undo()
        lease.abandon()
        rightful.append(other.wait_and_take_over(leases))
        return lease

    monkeypatch.setattr(leases, "hold", hold)
    with pytest.raises(Fenced, match="has taken over from"):
        standby.wait_and_take_over(leases)
    assert not standby.is_over
    (holder,) = rightful
    holder.runner.run()
    holder.lease.check()
    holder.lease.release()
    holder.queue.close()
    with pytest.raises(Fenced):
        primary.runner.run()


def test_a_standby_takes_over_once(primary, tmp_path):
    standby = Standby(tmp_path / "queue", lambda: summed(), [Table()])
    standby.close()
    with pytest.raises(StandbyRefused, match="make a new one"):
        standby.take_over()
    with pytest.raises(StandbyRefused, match="make a new one"):
        standby.follow()


def test_who_is_told_to_stop_waiting_leaves_the_primary_alone(primary, tmp_path):
    leases = leases_of(tmp_path / "queue")
    with leases.hold("primary"):
        standby = Standby(tmp_path / "queue", summed, [Table()])
        looks = iter([True, True, False])
        assert standby.wait_and_take_over(leases, goes_on=lambda: next(looks)) is None


@pytest.mark.parametrize("is_taken", [True, False])
def test_the_watch_is_closed_when_the_waiting_ends(tmp_path, monkeypatch, is_taken):
    Primary(tmp_path / "queue")
    leases = leases_of(tmp_path / "queue")
    lease = leases.hold("primary", keep_alive=KeepAlive(0.01, 1))
    if is_taken:
        lease.release()
    watches, watch = [], leases.watch
    monkeypatch.setattr(leases, "watch", lambda name: watches.append(watch(name)) or watches[-1])
    looks = iter([True, is_taken, is_taken])
    with Standby(tmp_path / "queue", summed, [Table()], policy=TIGHT) as standby:
        done = standby.wait_and_take_over(leases, goes_on=lambda: next(looks))
    assert (done is not None) == is_taken
    if done is not None:
        done.close()
        done.lease.release()
    lease.release()
    assert watches
    assert open_below(tmp_path / "queue" / "leases") == []


def test_a_lease_that_cannot_be_read_for_a_moment_ends_no_waiting(tmp_path, monkeypatch):
    Primary(tmp_path / "queue")
    leases = leases_of(tmp_path / "queue")
    leases.hold("primary", keep_alive=KeepAlive(0.01, 1)).release()
    look, failures = Watch.look, []

    def look_later(watch: Watch) -> Sighting:
        if not failures:
            failures.append(StoreUnreachable("s3://queue: no answer"))
            raise failures[0]
        return look(watch)

    monkeypatch.setattr(Watch, "look", look_later)
    with Standby(tmp_path / "queue", summed, [Table()], policy=TIGHT) as standby:
        done = standby.wait_and_take_over(leases)
    assert failures
    done.close()
    done.lease.release()


def test_a_store_that_is_lost_behind_the_fence_ends_a_standby(tmp_path, monkeypatch):
    Primary(tmp_path / "queue")
    leases = leases_of(tmp_path / "queue")
    leases.hold("primary", keep_alive=KeepAlive(0.01, 1)).release()

    def complete(*_: object) -> None:
        raise StoreUnreachable("s3://queue: no answer")

    monkeypatch.setattr(Standby, "_complete", complete)
    standby = Standby(tmp_path / "queue", summed, [Table()], policy=TIGHT)
    with pytest.raises(StoreUnreachable, match="no answer"):
        standby.wait_and_take_over(leases)
    assert standby.is_over


def test_two_inputs_need_two_sources(tmp_path):
    primary = Primary(tmp_path / "queue", Union(ROWS, 2), [Table(), Table()])
    with pytest.raises(StandbyRefused, match="1 sources for an operator with 2 inputs"):
        Standby(tmp_path / "queue", lambda: Union(ROWS, 2), [Table()])
    primary.goes_on()
