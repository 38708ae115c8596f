"""Leases: who holds them, when a holder is silent, and who is fenced."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lmdb
import pytest

from cec_store.errors import (
    CorruptLog,
    DiskFull,
    Fenced,
    Forked,
    LeaseHeld,
    NoExclusiveCreate,
    StorageError,
    StoreUnreachable,
    UnsupportedVersion,
)
from cec_store.standby import beats, lease_objects
from cec_store.standby.beats import ObjectBeats
from cec_store.standby.lease_format import (
    Beat,
    BeatKind,
    KeptIn,
    Tenure,
    check_lease_name,
    decode_beat,
    decode_tenure,
    encode_beat,
    encode_document,
)
from cec_store.standby.leases import KeepAlive, Leases, Sign, Watch, leases_of
from cec_store.storage import mounts
from cec_store.storage.stores.local_store import LocalStore
from support.stores.counting import CountingStore

QUICK = KeepAlive(0.02, 5)
DEADLINE_S = 60.0


class Holder:
    """`support.processes.lease_holder` in a process of its own."""

    def __init__(self, place: str, **order: Any) -> None:
        told = {"place": place, "name": "primary", "holder": "the other", **order}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.processes.lease_holder", json.dumps(told)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        said = self.line()
        assert said.startswith("held "), said
        self.number = int(said.split()[1])

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, what: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.line()

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)


@contextmanager
def holder_at(place: str, **order: Any) -> Iterator[Holder]:
    holder = Holder(place, **order)
    try:
        yield holder
    finally:
        holder.process.kill()
        holder.process.communicate()


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any] | None]:
    """On disk, where beats are rows, and in a bucket, where they are objects."""
    if request.param == "local":
        return str(tmp_path / "place"), None
    from support.stores.s3_server import BUCKET, options_of

    address = request.getfixturevalue("s3_address")
    return f"s3://{BUCKET}/{tmp_path.name}", options_of(address)


def await_sign(watch: Watch, sign: Sign) -> Any:
    seen = watch.wait({sign}, DEADLINE_S)
    assert seen.sign is sign
    return seen


def await_moved(watch: Watch) -> Any:
    end_s = time.monotonic() + DEADLINE_S
    while not (seen := watch.look()).has_moved:
        assert time.monotonic() < end_s
        time.sleep(watch.pause_s)
    return seen


def test_whoever_is_killed_falls_silent_and_whoever_takes_over_is_next(place: Any) -> None:
    with holder_at(place[0], options=place[1]) as holder:
        watch = leases_of(*place).watch("primary")
        assert await_moved(watch)[:3] == (Sign.ALIVE, 1, "the other")
        holder.send(signal.SIGKILL)
        seen = await_sign(watch, Sign.SILENT)
        with leases_of(*place).hold("primary", after=seen.tenure, holder="me") as lease:
            assert lease.number == 2
            assert await_sign(watch, Sign.ALIVE)[1:3] == (2, "me")
            with pytest.raises(LeaseHeld, match="is held by me"):
                leases_of(*place).hold("primary", after=seen.tenure)
        assert await_sign(watch, Sign.RELEASED).tenure == 2
        watch.close()


def test_whoever_was_stopped_finds_that_it_is_fenced(place: Any) -> None:
    with holder_at(place[0], options=place[1]) as holder:
        watch = leases_of(*place).watch("primary")
        await_moved(watch)
        holder.send(signal.SIGSTOP)
        seen = await_sign(watch, Sign.SILENT)
        with leases_of(*place).hold("primary", after=seen.tenure, holder="me") as lease:
            holder.send(signal.SIGCONT)
            said = holder.ask("check")
            assert said.startswith("Fenced: ")
            assert "me has taken over from the other" in said
            assert holder.ask("release") == "released"
            lease.check()
            # What the one before it does at its end is no sign of the one who holds it.
            assert watch.wait({Sign.RELEASED, Sign.SILENT}, 1.0).sign is Sign.ALIVE
        watch.close()


def test_a_stopped_holder_that_nobody_replaced_goes_on(place: Any) -> None:
    with holder_at(place[0], options=place[1]) as holder:
        watch = leases_of(*place).watch("primary")
        holder.send(signal.SIGSTOP)
        await_sign(watch, Sign.SILENT)
        holder.send(signal.SIGCONT)
        assert await_sign(watch, Sign.ALIVE).tenure == 1
        assert holder.ask("check") == "mine"
        watch.close()


def test_released_never_seen_and_silent_are_told_apart(place: Any) -> None:
    leases = leases_of(*place)
    watch = leases.watch("primary")
    assert watch.look() == (Sign.NEVER, 0, "", False)
    leases.hold("primary", keep_alive=QUICK, holder="me").release()
    assert await_sign(watch, Sign.RELEASED)[1:3] == (1, "me")
    with holder_at(place[0], options=place[1]) as holder:
        assert holder.number == 2
        assert await_sign(watch, Sign.ALIVE).tenure == 2
        assert holder.ask("leave") == ""
        assert await_sign(watch, Sign.SILENT).tenure == 2
    watch.close()


def test_nobody_can_hold_what_somebody_alive_holds(place: Any) -> None:
    with holder_at(place[0], options=place[1]) as holder:
        with pytest.raises(LeaseHeld, match="is held by the other"):
            leases_of(*place).hold("primary")
        assert holder.ask("check") == "mine"
        with leases_of(*place).hold("another") as lease:
            assert lease.number == 1
        holder.send(signal.SIGKILL)
        with leases_of(*place).hold("primary") as lease:
            assert lease.number == 2


def test_of_many_who_take_over_at_once_one_does(tmp_path: Path) -> None:
    held = []
    for _ in range(5):
        try:
            held.append(leases_of(tmp_path).hold("primary", after=0))
        except LeaseHeld:
            continue
    assert [lease.number for lease in held] == [1]
    held[0].release()


class Clock:
    """Of a watcher, which moves when told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr("cec_store.standby.leases.time.monotonic", lambda: self.now_s)


def objects_of(path: Path, kept_in: KeptIn = KeptIn.OBJECTS) -> tuple[Any, Tenure]:
    tenure = Tenure(1, "somebody", "ab" * 16, kept_in, 100_000, 3)
    return lease_objects.LeaseObjects(path, None, "primary"), tenure


def test_silence_is_measured_by_the_looks_and_not_by_one_long_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects, tenure = objects_of(tmp_path)
    beats = objects.claim(tenure)
    clock = Clock(monkeypatch)
    watch = leases_of(tmp_path).watch("primary")
    assert watch.look().sign is Sign.ALIVE
    clock.now_s += 3600  # the watcher itself was stopped
    assert watch.look().sign is Sign.ALIVE
    for _ in range(3):
        clock.now_s += 0.05
        assert watch.look().sign is Sign.ALIVE
    beats.beat(Beat(2, BeatKind.HELD))
    clock.now_s += 0.05
    assert watch.look() == (Sign.ALIVE, 1, "somebody", True)
    for expected in [Sign.ALIVE] * 5 + [Sign.SILENT] * 2:
        clock.now_s += 0.05
        assert watch.look().sign is expected
    beats.beat(Beat(3, BeatKind.HELD))
    assert watch.look().sign is Sign.ALIVE


def test_a_watcher_that_was_away_finds_beats_behind_those_that_were_deleted(tmp_path: Path) -> None:
    objects, tenure = objects_of(tmp_path)
    beats = objects.claim(tenure)
    watch = leases_of(tmp_path).watch("primary", KeepAlive(0.001, 1))
    watch.look()
    for counter in range(2, 500):
        beats.beat(Beat(counter, BeatKind.HELD))
    time.sleep(0.01)
    assert watch.look() == (Sign.ALIVE, 1, "somebody", True)
    assert len(os.listdir(tmp_path / "leases" / "primary")) < 60


def test_a_watcher_that_was_away_sees_the_newest_holder_at_its_first_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not a beat that an earlier holder had given since the look before."""
    objects, tenure = objects_of(tmp_path, KeptIn.LMDB)
    beats = objects.claim(tenure)
    clock = Clock(monkeypatch)
    watch = leases_of(tmp_path).watch("primary")
    watch.look()
    beats.beat(Beat(2, BeatKind.HELD, b"old"))
    following = replace(tenure, number=2, holder="another", token="cd" * 16)
    objects.claim(following).beat(Beat(2, BeatKind.HELD, b"new"))
    clock.now_s += 3600
    assert watch.look() == (Sign.ALIVE, 2, "another", True)
    assert watch.note == b"new"


def test_what_earlier_tenures_left_is_deleted_and_whoever_is_in_one_is_fenced(
    tmp_path: Path,
) -> None:
    first = leases_of(tmp_path).hold("primary", keep_alive=KeepAlive(3600.0, 3))
    for number in range(1, 30):
        leases_of(tmp_path).hold("primary", after=number).release()
    assert len(os.listdir(tmp_path / "leases" / "primary")) <= 3 * 9
    with pytest.raises(Fenced, match="has taken over"):
        first.check()
    with pytest.raises(LeaseHeld):  # a number that was deleted is not given again
        leases_of(tmp_path).hold("primary", after=1)
    first.release()


def test_beats_are_objects_where_the_place_is_on_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = leases_of(tmp_path).hold("local")
    with monkeypatch.context() as patched:
        patched.setattr("cec_store.storage.local.is_remote", lambda path: True)
        with leases_of(tmp_path).hold("primary", keep_alive=QUICK):
            watch = leases_of(tmp_path).watch("primary")
            assert await_moved(watch).sign is Sign.ALIVE
            assert not [*(tmp_path / "leases" / "primary").glob("*.rows")]
        with pytest.raises(StorageError, match="LMDB on its own disk"):
            leases_of(tmp_path).watch("local").look()
    local.release()
    assert [*(tmp_path / "leases" / "local").glob("*.rows")]


def test_a_beat_of_objects_lists_nothing(tmp_path: Path) -> None:
    store = CountingStore(LocalStore(tmp_path))
    tenure = Tenure(7, "me", "ab" * 16, KeptIn.OBJECTS, 100_000, 3)
    holder, watcher = ObjectBeats(store, tenure), ObjectBeats(store, tenure)
    holder.beat(Beat(1, BeatKind.HELD))
    assert watcher.newest() == Beat(1, BeatKind.HELD)
    store.calls.clear()
    for counter in range(2, 200):
        holder.beat(Beat(counter, BeatKind.HELD))
        assert watcher.newest() == Beat(counter, BeatKind.HELD)
    assert "list" not in store.counts()


def test_a_child_of_fork_holds_and_watches_nothing(tmp_path: Path) -> None:
    with leases_of(tmp_path).hold("primary", keep_alive=QUICK) as lease:
        watch = leases_of(tmp_path).watch("primary")
        watch.look()
        child = os.fork()
        if child == 0:
            refused = 0
            try:
                for call in (lease.check, watch.look):
                    with suppress(Forked):
                        call()
                        os._exit(1)
                    refused += 1
                lease.release()
                watch.close()
                own = leases_of(tmp_path).watch("primary")
                refused = 10 * refused + (own.look().sign is Sign.ALIVE)
            finally:
                os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 21
        lease.check()
        assert await_moved(watch).sign is Sign.ALIVE


def test_there_is_no_sign_of_life_of_somebody_who_is_asked_and_says_no(tmp_path: Path) -> None:
    answers = [True]
    with leases_of(tmp_path).hold(
        "primary", keep_alive=QUICK, is_alive=lambda: answers[0]
    ) as lease:
        watch = leases_of(tmp_path).watch("primary")
        await_moved(watch)
        answers[0] = False
        await_sign(watch, Sign.SILENT)
        answers[0] = True
        await_sign(watch, Sign.ALIVE)
        lease.check()


def test_a_holder_whose_beats_do_not_get_there_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StorageError("the disk is gone")

    with leases_of(tmp_path).hold("primary", keep_alive=QUICK) as lease:
        monkeypatch.setattr(lease._beats, "beat", refuse)
        time.sleep(3 * QUICK.timeout_s)
        with pytest.raises(StorageError, match="the disk is gone"):
            lease.check()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"period_s": 0}, "period_s=0"),
        ({"period_s": float("nan")}, "period_s=nan"),
        ({"period_s": "1"}, "period_s='1'"),
        ({"misses": 0}, "misses=0"),
        ({"misses": 2.5}, "misses=2.5"),
        ({"misses": True}, "misses=True"),
    ],
)
def test_rules_that_cannot_be_kept_are_refused(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        KeepAlive(**wrong)


@pytest.mark.parametrize("name", ["", "a/b", "..", ".x", "ä", "a" * 101])
def test_names_that_are_no_names_of_leases_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a lease's name"):
        leases_of(tmp_path).watch(name)
    assert check_lease_name("node-1.a_b") == "node-1.a_b"


def test_a_store_in_which_two_could_hold_a_lease_is_refused() -> None:
    pytest.importorskip("fsspec")
    leases = leases_of("memory://leases", {"single_writer": True})
    with pytest.raises(NoExclusiveCreate, match="two could hold a lease"):
        leases.hold("primary")


def test_leases_in_memory_are_those_of_this_process() -> None:
    pytest.importorskip("fsspec")
    leases = leases_of(f"memory://leases-{os.getpid()}")
    with leases.hold("primary", keep_alive=QUICK):
        watch = leases.watch("primary")
        await_moved(watch)
        with pytest.raises(LeaseHeld):
            leases.hold("primary")
    assert await_sign(watch, Sign.RELEASED).tenure == 1


TENURE = Tenure(8, "node:1", "0123456789abcdef" * 2, KeptIn.LMDB, 100_000, 3)
TENURE_BYTES = (
    b'{"cause": "start", "holder": "node:1", "kept_in": "lmdb", "misses": 3, "number": 8, '
    b'"period_us": 100000, '
    b'"token": "0123456789abcdef0123456789abcdef", "version": 1}'
)
BEAT_BYTES = bytes.fromhex("0123456789abcdef0123456789abcdef29000000000000000100000077bf8ece")


def test_bytes_of_a_tenure_are_as_the_format_says() -> None:
    assert encode_document(TENURE) == TENURE_BYTES
    assert decode_tenure(TENURE_BYTES, "x") == TENURE


def test_bytes_of_a_beat_are_as_the_format_says() -> None:
    assert encode_beat(TENURE.token, Beat(41, BeatKind.HELD)) == BEAT_BYTES
    assert decode_beat(BEAT_BYTES, TENURE.token) == Beat(41, BeatKind.HELD)
    for place in range(len(BEAT_BYTES)):
        wrong = bytearray(BEAT_BYTES)
        wrong[place] ^= 1
        assert decode_beat(bytes(wrong), TENURE.token) is None
    assert decode_beat(BEAT_BYTES[:-1], TENURE.token) is None
    assert decode_beat(BEAT_BYTES, "00" * 16) is None


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", TENURE_BYTES.replace(b"8,", b"-8,"),
     TENURE_BYTES.replace(b"lmdb", b"x"), TENURE_BYTES.replace(b'"holder"', b'"who"'),
     TENURE_BYTES.replace(b"0123", b"012 "), TENURE_BYTES.replace(b"3,", b'"3",')],
)  # fmt: skip
def test_bytes_that_are_no_tenure_are_damage(data: bytes) -> None:
    with pytest.raises(CorruptLog, match="not the bytes of a lease's holder"):
        decode_tenure(data, "leases/primary/8")


def test_a_tenure_of_a_later_release_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedVersion, match="upgrade"):
        decode_tenure(TENURE_BYTES.replace(b'version": 1', b'version": 2'), "x")


def test_places_are_not_on_a_network_by_default(tmp_path: Path) -> None:
    assert not mounts.is_remote(str(tmp_path))
    assert isinstance(leases_of(tmp_path), Leases)


def test_a_lease_is_held_and_watched_by_two_paths_of_one_place(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "place")
    held, other = leases_of(str(tmp_path / "place")), leases_of(str(tmp_path / "link"))
    with held.hold("primary", keep_alive=QUICK):
        watch = other.watch("primary")
        assert watch.look().sign is Sign.ALIVE
        assert held.watch("primary").look().sign is Sign.ALIVE
    assert watch.look().sign is Sign.RELEASED
    watch.close()


@pytest.mark.parametrize(("room_bytes", "error"), [(4096, DiskFull), (1 << 30, StorageError)])
def test_a_beat_that_is_cut_short_says_that_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room_bytes: int, error: type[Exception]
) -> None:
    found = SimpleNamespace(f_bavail=room_bytes // 512, f_frsize=512)
    monkeypatch.setattr(os, "statvfs", lambda path: found)
    with pytest.raises(error) as caught, beats._lmdb_errors(str(tmp_path / "beat")):
        raise lmdb.Error("mdb_txn_commit: Input/output error")
    assert type(caught.value) is error
    with pytest.raises(DiskFull), beats._lmdb_errors(str(tmp_path / "beat")):
        raise lmdb.DiskError("mdb_txn_commit: No space left on device")


CUTS = {
    "gone": lambda path, size: path.unlink(),
    "without bytes": lambda path, size: os.truncate(path, 0),
    "cut to a page": lambda path, size: os.truncate(path, 4096),
    "cut behind its first pages": lambda path, size: os.truncate(path, 8192),
    "of zeros": lambda path, size: path.write_bytes(bytes(size)),
    "of zeros behind a page": lambda path, size: path.write_bytes(
        path.read_bytes()[:4096] + bytes(size - 4096)
    ),
    "of zeros behind its first pages": lambda path, size: path.write_bytes(
        path.read_bytes()[:8192] + bytes(size - 8192)
    ),
}
"""What a power cut may leave of a file that was not synced since it was made, or never."""


@pytest.mark.parametrize("cut", CUTS)
def test_a_lease_whose_beats_a_power_cut_took_can_be_held_again(cut: str, tmp_path: Path) -> None:
    with holder_at(str(tmp_path)):
        pass
    (rows,) = (tmp_path / "leases" / "primary").glob("*.rows")
    CUTS[cut](rows, rows.stat().st_size)
    for lock in rows.parent.glob("*-lock"):
        lock.unlink()
    leases = leases_of(tmp_path)
    lease = leases.hold("primary", keep_alive=QUICK)
    assert lease.number == 2
    lease.release()


def test_beats_are_on_disk_before_the_tenure_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as they will ever be: a page behind the end of a file kills who reads it."""
    synced: list[int] = []
    real = beats.LmdbBeats.put_on_disk

    def noted(those: beats.LmdbBeats) -> None:
        real(those)
        (rows,) = (tmp_path / "leases" / "primary").glob("*.rows")
        assert not [name for name in os.listdir(rows.parent) if name.isdigit()]
        synced.append(rows.stat().st_size)

    monkeypatch.setattr(beats.LmdbBeats, "put_on_disk", noted)
    leases_of(tmp_path).hold("primary", keep_alive=QUICK).release()
    assert synced == [1 << 20]


@pytest.mark.parametrize("planned", [False, True])
def test_a_beat_that_got_there_although_its_answer_was_lost_silences_nobody(planned: bool) -> None:
    counts = iter(range(10**9))
    leases = leases_of(f"memory://{os.urandom(8).hex()}")
    lease = leases.hold("primary", keep_alive=QUICK, note=lambda: b"%d" % next(counts))
    held = lease._beats
    assert isinstance(held, ObjectBeats)
    create, losing = held._store.create, [True]

    def create_and_lose_the_answer(name: str, parts: Any) -> None:
        create(name, parts)
        if losing:
            losing.clear()
            raise StoreUnreachable(f"{name}: it is not known whether it was made")

    held._store.create = create_and_lose_the_answer  # type: ignore[method-assign]
    watch = leases.watch("primary")
    end_s = time.monotonic() + DEADLINE_S
    while losing:
        assert time.monotonic() < end_s
        time.sleep(QUICK.period_s)
    if planned:
        lease.release()
        assert await_sign(watch, Sign.RELEASED).sign is Sign.RELEASED
        return
    assert watch.wait({Sign.SILENT}, 10 * QUICK.timeout_s).sign is Sign.ALIVE
    lease.check()
    lease.release()
