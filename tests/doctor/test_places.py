"""Misconfigurations of queues and checkpoints, each with its line; nothing is written."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from cec_store import QueueOptions, open_queue
from cec_store.connectors.spark.setup.settings import BUILT_IN, PREFIX, PROVIDER, PROVIDER_KEY
from cec_store.doctor import checkpoints, checkups, machine, queues
from cec_store.doctor.checkups import place_checkup
from cec_store.doctor.diagnoses import Checkup, Severity
from cec_store.doctor.held_leases import lease_lines
from cec_store.errors import (
    CredentialsRefused,
    NoExclusiveCreate,
    NoSuchBucket,
    NotAQueue,
    StoreNotInstalled,
    StoreUnreachable,
)
from cec_store.format.checksum import with_crc
from cec_store.format.frame import FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES
from cec_store.standby.leases import KeepAlive, leases_of
from cec_store.storage import mounts
from cec_store.storage.disk_room import DiskRoom
from support.disks.listed_mounts import list_mount
from support.disks.other_user import as_nobody, open_to_all
from support.places import damaged_queues as made
from support.places.checkpoints import Made
from support.places.key_directories import write_directory
from support.places.made_checkpoints import KEY, VALUE, MadeCheckpoint, Rows, grown
from support.stores.s3_server import BUCKET, options_of

SCHEMA = pa.schema([("n", pa.int64())])
PARTITIONS = "spark.sql.shuffle.partitions"
DAY_S = 86_400


class World:
    """A folder in which a place is made, and what else a checkup is given."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        self.path = folder / "place"
        self.given: dict[str, str] = {}
        self.options: dict[str, Any] | None = None
        self.variables = {"PATH": "", "SPARK_CONF_DIR": str(folder / "conf")}

    def checkup(self) -> Checkup:
        return place_checkup(str(self.path), self.options, self.given, self.variables)

    def queue(self, rows: int = 30, **options: Any) -> None:
        with open_queue(self.path, "a", schema=SCHEMA, **options) as queue:
            queue.append(pa.table({"n": list(range(rows))}))

    def checkpoint(self, batches: int = 3, **conf: str) -> Made:
        query = Made(self.path, conf={PROVIDER_KEY: PROVIDER, **conf})
        query.run(batches)
        return query

    def on(self, kind: str, options: str = "rw") -> None:
        """The folder is on a mount of this kind, as far as the list of mounts tells."""
        self.monkeypatch.setattr(
            mounts, "_MOUNTS", str(list_mount(self.folder, kind, "s", options))
        )

    def later(self, seconds: float) -> None:
        """A checkup is made so much later."""
        now_s = time.time() + seconds
        self.monkeypatch.setattr(queues.time, "time", lambda: now_s)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


class Case(NamedTuple):
    fact: str
    make: Callable[[World], object]
    subject: str
    severity: str
    what: str
    advice: str


def mounted(kind: str, options: str = "rw") -> Callable[[World], None]:
    def make(w: World) -> None:
        w.queue()
        w.on(kind, options)

    return make


def built_in(name: str) -> Callable[[World], object]:
    return lambda w: w.checkpoint(**{PROVIDER_KEY: BUILT_IN[name]})


def repartition(w: World) -> None:
    query = w.checkpoint(**{PARTITIONS: "2"})
    query.conf[PARTITIONS] = "4"
    query.plan()


def newer_commit_log(w: World) -> None:
    w.checkpoint()
    (w.path / "commits" / "2").write_text("v9\n{}")


def newer_segments(w: World) -> None:
    w.queue()
    manifest = next(w.path.glob("manifest-*"))
    data = manifest.read_bytes()
    manifest.write_bytes(with_crc(data[:8] + (9).to_bytes(2, "little") + data[10:]))


def damaged_state(w: World) -> None:
    w.checkpoint()
    for segment in (w.path / "state" / "0" / "1").glob("*.seg"):
        segment.write_bytes(segment.read_bytes()[:-3])


def damaged_schema(w: World) -> None:
    """Of the newest segment, on which the versions before do not build."""
    query = w.checkpoint()
    query.restart()
    query.run(1)
    newest = max((w.path / "state" / "0" / "1").glob("*.seg"))
    made.flip(newest, SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + 3)


def lost_state(w: World) -> None:
    w.checkpoint()
    for segment in (w.path / "state" / "0" / "1").glob("*.seg"):
        segment.unlink()


def damaged_queue(w: World) -> None:
    made.make_operator_queue(w.path, 300)
    made.flip(next(w.path.glob("manifest-*")), 9)


def damaged_commit(w: World) -> None:
    w.queue(partitions=2)
    made.flip(max((w.path / "log").rglob("[0-9]*")), 30)


def two_keys(w: World, rows: list[Rows]) -> None:
    query = MadeCheckpoint(w.path, KEY, VALUE)
    query.batch(*rows)
    query.close()


def skewed_keys(w: World) -> None:
    w.monkeypatch.setattr(checkpoints, "_SKEWED_LEAST", 10)
    w.monkeypatch.setattr(checkpoints, "_SKEWED", 1.5)
    two_keys(w, [{("ann", n): (n, "") for n in range(40)}, {("bob", 0): (0, "")}])


def few_records(w: World) -> None:
    w.given = {f"{PREFIX}extentMaxRecords": "5"}
    two_keys(w, [{("ann", n): (n, "") for n in range(40)}])


def long_extent(w: World) -> None:
    w.monkeypatch.setattr(checkpoints, "SMALL_EXTENT_RECORDS", 10)
    query = MadeCheckpoint(w.path, KEY, VALUE)
    query.batch({("old", 0): (0, "")})
    for n in range(20):
        query.batch({("new", 0): (n, "")})
    query.close()


def small_heap(w: World) -> None:
    w.given = {"spark.driver.memory": "3k"}
    two_keys(w, [{("ann", n): (n, "") for n in range(400)}])


def nearly_small_heap(w: World) -> None:
    w.checkpoint()
    w.monkeypatch.setattr(checkpoints, "_GIVEN_TIMES", 1 << 40)


def more_cores_than_partitions(w: World) -> None:
    w.checkpoint()
    w.given = {"spark.master": "local[8]"}


def other_partitions_in_the_session(w: World) -> None:
    w.checkpoint(**{PARTITIONS: "2"})
    w.given = {PARTITIONS: "64"}


def on_one_machine(w: World) -> None:
    w.checkpoint()
    w.given = {"spark.master": "spark://head:7077"}


def future_files(w: World) -> None:
    w.queue()
    later = time.time() + 40 * DAY_S
    os.utime(next(w.path.glob("*.seg")), (later, later))


def future_batches(w: World) -> None:
    w.checkpoint()
    offsets = w.path / "offsets" / "2"
    version, first, *rest = offsets.read_text().split("\n")
    document = {**json.loads(first), "batchTimestampMs": int((time.time() + 40 * DAY_S) * 1000)}
    offsets.write_text("\n".join([version, json.dumps(document), *rest]))


def consumer(retention: str, later_s: float, **options: Any) -> Callable[[World], None]:
    def make(w: World) -> None:
        w.queue(**options)
        with open_queue(w.path, "a", **options) as queue:
            queue.set_retention(retention)
            reader = queue.consumer("hourly")
            if not options:
                reader.close()
        w.later(later_s)

    return make


def consumer_behind(partitions: int | None) -> Callable[[World], None]:
    """A time or a size of retention waits for no consumer."""

    def make(w: World) -> None:
        table = pa.table({"n": [*range(1000)]})
        how: dict[str, Any] = {"partitions": partitions}
        if partitions is None:
            how = {"options": QueueOptions(segment_bytes=4096)}
        with open_queue(w.path, "a", schema=table.schema, retention="1kB", **how) as queue:
            reader = queue.consumer("hourly")
            if partitions is None:
                reader.close()
            for _ in range(20):
                queue.append(table)
            queue.trim()

    return make


def retention_without_consumers(w: World) -> None:
    w.queue()
    with open_queue(w.path, "a") as queue:
        queue.set_retention("consumers")


def unreadable_retention(w: World) -> None:
    retention_without_consumers(w)
    made.flip(w.path / "retention", 9)


def damaged_consumer(w: World) -> None:
    consumer("consumers", 0)(w)
    made.flip(w.path / "consumer-hourly.ack", 40)


def lease(holder: str, how: str, name: str = "driver") -> Callable[[World], None]:
    def make(w: World) -> None:
        w.checkpoint()
        rule = KeepAlive(period_s=0.02)
        held = leases_of(w.path).hold(name, holder=holder, keep_alive=rule)
        if how == "abandon":
            held.abandon()
        elif how == "release":
            held.release()

    return make


def full_disk(w: World) -> None:
    w.queue()
    room = DiskRoom(1 << 20, 100 << 30, 10**6, 10**6)
    w.monkeypatch.setattr(machine, "room_at", lambda path: room)


def relative_path(w: World) -> None:
    w.queue()
    w.monkeypatch.chdir(w.folder)
    w.path = Path("place")


PLACES = [
    Case("a query that began on RocksDB", built_in("rocksdb"), "provider", "fault",
         "this query continues with RocksDB", "`cec-store adopt "),
    Case("a query that began on Spark's HDFS-backed store", built_in("hdfs"), "provider", "fault",
         "continues with Spark's HDFS-backed store", "`cec-store adopt "),
    Case("a query of an unknown provider", lambda w: w.checkpoint(**{PROVIDER_KEY: "a.Mine"}),
         "provider", "fault", "neither cec-store nor a store of Spark", "that has this class"),
    Case("Spark's own repartition was tried", repartition, "state", "fault",
         "from 2 into 4 partitions", "`cec-store fork CHECKPOINT NEW --batch N`"),
    Case("a commit log of a later Spark", newer_commit_log, "version", "fault",
         "newer than this release knows", "upgrade cec-store"),
    Case("a queue of a later format", newer_segments, "version", "fault", "format version 9",
         "upgrade cec-store"),
    Case("damaged state", damaged_state, "damage", "fault", "partition 1", "cec-store verify"),
    Case("a damaged schema of state", damaged_schema, "damage", "fault", "partition 1",
         "cec-store verify"),
    Case("state of a partition that is lost", lost_state, "damage", "fault", "partition 1",
         "cec-store verify"),
    Case("a damaged queue", damaged_queue, "damage", "fault", "manifest", "cec-store verify"),
    Case("a damaged queue of partitions", damaged_commit, "damage", "fault", "log",
         "cec-store verify"),
    Case("an extent target below the keys", few_records, "settings", "fault",
         "extentMaxRecords=5 is below the 40 keys", "more partitions"),
    Case("footprints that do not keep up", long_extent, "state", "note",
         "a restart reads 21 records for 2 keys", "raise check_time_ms"),
    Case("skewed keys", skewed_keys, "state", "note", "40 keys", "how long a restart takes"),
    Case("a heap that is too small", small_heap, "heap", "fault", "spark.driver.memory is 3k",
         "twice the heap"),
    Case("a heap with little room", nearly_small_heap, "heap", "note",
         "spark.driver.memory is 1g (the default)", "twice the heap"),
    Case("fewer partitions than cores", more_cores_than_partitions, "state", "note",
         "2 partitions of state for 8 cores", "`cec-store repartition`"),
    Case("partitions that the session has otherwise", other_partitions_in_the_session, "settings",
         "note", "=64 (set by --conf) is without effect: the checkpoint keeps 2", "leave it out"),
    Case("a checkpoint on one machine of a cluster", on_one_machine, "file system", "note",
         "executors on other machines do not see it", "HDFS"),
    Case("a relative path", relative_path, "path", "note", "place is relative", "whole paths"),
    Case("files from the future", future_files, "clock", "fault", "40 days later", "(NTP)"),
    Case("batches from the future", future_batches, "clock", "fault", "40 days later", "(NTP)"),
    Case("a full disk", full_disk, "disk", "fault", "less than one segment", "cec-store trim"),
    Case("a queue in memory", mounted("tmpfs"), "file system", "fault",
         "gone after a restart of the machine", "on a disk"),
    Case("an overlay mounted as volatile", mounted("overlay", "rw,volatile"), "file system",
         "fault", "no sync reaches the disk", "on a disk"),
    Case("a queue on s3fs", mounted("fuse.s3fs"), "file system", "fault", "give the s3:// URL",
         "on a disk"),
    Case("a queue on rclone", mounted("fuse.rclone"), "file system", "fault",
         "in this machine's cache alone", "on a disk"),
    Case("a queue on gcsfuse", mounted("fuse.gcsfuse"), "file system", "fault",
         "give the gs:// URL", "on a disk"),
    Case("a queue on blobfuse", mounted("fuse.blobfuse2"), "file system", "fault",
         "give the abfs:// URL", "on a disk"),
    Case("a queue on goofys", mounted("fuse.goofys"), "file system", "fault",
         "give the s3:// URL", "on a disk"),
    Case("a queue on sshfs", mounted("fuse.sshfs"), "file system", "note",
         "locks are this machine's alone", "on a disk"),
    Case("a queue on another FUSE", mounted("fuse.bindfs"), "file system", "note",
         "the program that serves it", "on a disk"),
    Case("a queue on a host's folder", mounted("9p"), "file system", "note",
         "the host shares this folder", "on a disk"),
    Case("a queue on NFS", mounted("nfs4"), "file system", "note",
         "the servers of this file system", "on a disk"),
    Case("a mount that sets modes", mounted("exfat"), "owners", "note",
         "neither chmod nor the umask", "of the mount"),
    Case("a consumer that holds records back", consumer("consumers", 3 * DAY_S), "consumer",
         "fault", "the queue keeps 30 records for it", "--drop hourly"),
    Case("a consumer that holds records of partitions back",
         consumer("consumers", 3 * DAY_S, partitions=2), "consumer", "fault",
         "the queue keeps 30 records for it", "--drop hourly"),
    Case("a consumer whose records are about to go", consumer("2d", 1.5 * DAY_S), "consumer",
         "fault", "more than half of what is kept", "longer retention"),
    Case("a consumer whose records are gone", consumer_behind(None), "consumer", "fault",
         "records that it needs are deleted", "--drop hourly --yes"),
    Case("a consumer of partitions whose records are gone", consumer_behind(2), "consumer",
         "fault", "records that it needs are deleted", "--drop hourly --yes"),
    Case("a consumer that has gone", consumer("forever", 3 * DAY_S), "consumer", "note",
         "30 records not received", "--drop hourly"),
    Case("retention consumers without one", retention_without_consumers, "consumer", "note",
         "nothing is deleted", "--add NAME"),
    Case("a retention that cannot be read", unreadable_retention, "consumer", "fault",
         "nothing is trimmed by itself", "--retention"),
    Case("a damaged consumer", damaged_consumer, "damage", "fault", "consumer-hourly.ack",
         "cec-store verify"),
    Case("a driver that fell silent", lease("node-1:7", "abandon"), "lease", "fault",
         "node-1:7, tenure 1, gives no sign of life", "start the query again"),
    Case("a standby that fell silent", lease("node-1:7", "abandon", "driver.node.b"), "lease",
         "note", "node-1:7, tenure 1, gives no sign of life", "delete leases/driver.node.b"),
    Case("a query that has gone on elsewhere",
         lease("active standby with /data/totals-b", "release"), "lease", "fault",
         "has gone on with the checkpoint /data/totals-b", "start it with /data/totals-b"),
]  # fmt: skip


@pytest.mark.parametrize("case", PLACES, ids=[case.fact for case in PLACES])
def test_place_with(here: World, case: Case) -> None:
    case.make(here)
    before = made.hash_of(here.path)
    checkup = here.checkup()
    lines = [
        line
        for line in checkup.diagnoses
        if line.subject == case.subject and case.what in line.what and case.advice in line.advice
    ]
    assert [line.severity.value for line in lines] == [case.severity], checkup.diagnoses
    assert checkup.is_sound == (not checkup.faults)
    assert made.hash_of(here.path) == before, "nothing is written"


SOUND: dict[str, Callable[[World], object]] = {
    "a queue": lambda w: w.queue(),
    "a queue of partitions": lambda w: w.queue(partitions=3),
    "an operator's queue": lambda w: made.make_operator_queue(w.path, 300),
    "a checkpoint": lambda w: w.checkpoint(),
    "a checkpoint with ids": lambda w: grown(w.path, format=2),
    "a checkpoint without a batch": lambda w: w.checkpoint(0).plan(),
    "a consumer that keeps up": consumer("consumers", 60),
    "a lease that was let go of": lease("node-1:7", "release"),
}


@pytest.mark.parametrize("name", SOUND)
def test_nothing_has_to_be_done_for(here: World, name: str) -> None:
    SOUND[name](here)
    here.on("ext4")
    before = made.hash_of(here.path)
    checkup = here.checkup()
    assert checkup.is_sound, checkup.faults
    assert made.hash_of(here.path) == before, "nothing is written"


def test_a_restart_by_key_directories_is_told(here: World) -> None:
    """Of one partition, at the newest version: nothing lies behind it."""
    query = here.checkpoint()
    keys = [len(state.made[-1].state) for state in query.states.values()]
    records = [state.made[-1].extent_records for state in query.states.values()]
    what = f"2 of 2 logs read: {sum(keys):,} keys; a restart reads"
    assert f"{what} {sum(records):,} records" in [line.what for line in here.checkup().diagnoses]
    first = next(iter(query.states.values()))
    write_directory(first.folder, first.made[-1])
    said = [line.what for line in here.checkup().diagnoses]
    assert f"{what} {records[1]:,} records, 1 of 2 logs by key directory" in said


def test_a_state_store_alone_is_a_place(here: World) -> None:
    here.checkpoint()
    here.path = here.path / "state" / "0" / "1"
    checkup = here.checkup()
    assert checkup.kind == "state store"
    assert checkup.is_sound, checkup.faults


@contextmanager
def held(path: Path) -> Iterator[None]:
    rule = KeepAlive(period_s=0.1, misses=40)
    with leases_of(path).hold("driver", holder="node-1:7", keep_alive=rule):
        yield


def test_a_holder_that_is_alive_is_named(here: World) -> None:
    here.checkpoint()
    with held(here.path):
        checkup = here.checkup()
    (line,) = [line for line in checkup.diagnoses if line.subject == "lease"]
    assert (line.severity, line.what) == (
        Severity.SOUND, "driver: node-1:7, tenure 1, is alive",
    )  # fmt: skip


def test_a_writer_that_is_alive_is_named(here: World) -> None:
    here.queue()
    with open_queue(here.path, "a"):
        (line,) = [line for line in here.checkup().diagnoses if line.subject == "writer"]
    assert line.what == "a process of this machine has it open for append"


def test_files_that_this_user_may_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_to_all() as folder:
        world = World(folder, monkeypatch)
        world.queue()
        segment = next(world.path.glob("*.seg"))
        segment.chmod(0)
        with as_nobody():
            checkup = world.checkup()
        assert {line.subject for line in checkup.faults} == {"unreadable"}
        assert "may not be read by" in checkup.faults[0].what


def test_files_that_this_user_may_only_read(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid():
        pytest.skip("needs root to be somebody else")
    with open_to_all() as folder:
        world = World(folder, monkeypatch)
        world.checkpoint()
        with held(world.path), as_nobody():
            checkup = world.checkup()
    (line,) = [line for line in checkup.diagnoses if line.subject == "owners"]
    assert "may read it and not write to it" in line.what
    assert "start the query or writer as root" in line.advice
    assert checkup.is_sound, checkup.faults


def test_files_of_several_users(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid():
        pytest.skip("needs root to be somebody else")
    with open_to_all() as folder:
        world = World(folder, monkeypatch)
        world.queue()
        os.chown(next(world.path.glob("*.seg")), 65534, 65534)
        (line,) = [line for line in world.checkup().diagnoses if line.subject == "owners"]
    assert line.severity is Severity.NOTE
    assert "files belong to several users" in line.what


def test_an_empty_folder_is_told_apart_from_a_place(here: World) -> None:
    here.path.mkdir()
    checkup = here.checkup()
    assert checkup.kind == "folder"
    (line,) = [line for line in checkup.diagnoses if line.subject == "state"]
    assert "neither a queue" in line.what


def test_a_folder_with_places_in_it_names_them(here: World) -> None:
    here.queue()
    here.path = here.folder
    (line,) = [line for line in here.checkup().diagnoses if line.subject == "state"]
    assert "name one of place (queue)" in line.what


def test_nothing_at_the_path_is_wrong_use(here: World) -> None:
    with pytest.raises(NotAQueue, match="does not exist"):
        here.checkup()


def test_a_store_with_a_single_writer_is_told_of() -> None:
    pytest.importorskip("fsspec")
    with open_queue("memory://doctor/q", "a", schema=SCHEMA, partitions=1) as queue:
        queue.append(pa.table({"n": [1]}))
    options = {"single_writer": True}
    checkup = place_checkup("memory://doctor/q", options, {}, {"PATH": ""})
    (line,) = [line for line in checkup.diagnoses if line.subject == "stores"]
    assert "the second replaces what the first made" in line.what
    assert checkup.is_sound


def test_a_plain_queue_in_a_store_has_no_consumers() -> None:
    pytest.importorskip("fsspec")
    with open_queue("memory://doctor/plain", "a", schema=SCHEMA) as queue:
        queue.append(pa.table({"n": [1]}))
    checkup = place_checkup("memory://doctor/plain", None, {}, {"PATH": ""})
    (line,) = [line for line in checkup.diagnoses if line.subject == "writer"]
    assert "Python has no consumers of it" in line.what


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (StoreNotInstalled("gcsfs is needed"), "install the package"),
        (NoSuchBucket("no bucket lake"), "correct the URL"),
        (CredentialsRefused("none were found"), "give credentials"),
        (StoreUnreachable("no answer"), "see to the network"),
        (NoExclusiveCreate("two writers won"), "that creates on a condition"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_a_store_that_cannot_be_looked_at(
    monkeypatch: pytest.MonkeyPatch, error: Exception, advice: str
) -> None:
    def fail(path: str, options: object) -> None:
        raise error

    monkeypatch.setattr(checkups, "folder_at", fail)
    (line,) = place_checkup("s3://lake/q", None, {}, {"PATH": ""}).faults
    assert (line.subject, line.what) == ("stores", str(error))
    assert advice in line.advice


@pytest.mark.skipif(find_spec("gcsfs") is not None, reason="gcsfs is installed")
def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    (line,) = place_checkup("gs://lake/q", None, {}, {"PATH": ""}).faults
    assert "pip install 'cec-store[gcs]'" in line.what


def test_a_lease_in_s3_is_no_complete_fence(s3_address: str) -> None:
    options = options_of(s3_address)
    place = f"s3://{BUCKET}/doctor"
    leases_of(place, options).hold("driver", holder="n1", keep_alive=KeepAlive(0.02)).release()
    (held, fence) = lease_lines(place, options)
    assert (held.severity, held.what) == (Severity.SOUND, "driver: n1, tenure 1, has let go of it")
    assert "a fence misses one under way" in fence.what


@pytest.mark.parametrize("place", ["s3:/lake/q", "file://host/q", "gopher://x/y", "s3://"])
def test_a_url_that_is_none_is_wrong_use(place: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        place_checkup(place, None, {}, {"PATH": ""})
