"""The sink in the JVM on stores that create conditionally, and on those that cannot."""

import json
import os
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cec_store import open_queue
from cec_store.format.checksum import crc32c
from cec_store.storage import mounts
from support.spark.jvm_sink import (
    JVM,
    frame,
    named,
    numbers,
    objects,
    queue_at,
    refused,
    rubbish,
    writer,
)


@pytest.fixture
def planned(spark: Any, tmp_path: Path) -> Iterator[Path]:
    """A folder whose `planned://` URL is an object store; its calls go to ``calls``."""
    conf = spark._jsc.hadoopConfiguration()
    settings = {
        "fs.planned.impl": "cecstore.tests.PlannedObjects",
        "fs.planned.impl.disable.cache": "true",
        "fs.planned.calls": str(tmp_path / "calls"),
        "fs.planned.plan": str(tmp_path / "plan"),
    }
    for name, value in settings.items():
        conf.set(name, value)
    yield tmp_path
    for name in settings:
        conf.unset(name)


def calls_since(folder: Path) -> Counter[str]:
    file = folder / "calls"
    found = Counter(line.split()[0] for line in file.read_text().splitlines())
    file.write_text("")
    return found


def test_a_batch_costs_one_object_a_task_and_one_commit(spark: Any, planned: Path) -> None:
    parts, url = 50, f"planned://{planned}/q"
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000)
    rows = rows.option("numPartitions", parts).load()
    query = rows.writeStream.format(JVM).option("checkpointLocation", str(planned / "c")).start(url)
    seen: dict[int, Counter[str]] = {}
    try:
        while len(seen) < 5 and query.isActive:
            done = [p["batchId"] for p in query.recentProgress]
            if done:
                seen[max(done)] = Counter()
            time.sleep(0.05)
    finally:
        query.stop()
    assert query.exception() is None
    lines = (planned / "calls").read_text().splitlines()
    commits = [n for n, line in enumerate(lines) if line.endswith(".commit") and "create" in line]
    between = [lines[a + 1 : b + 1] for a, b in pairwise(commits[1:])]
    assert len(between) >= 3
    for one in between[1:]:
        kinds = Counter(line.split()[0] for line in one)
        # The read proves the commit before.
        assert kinds == {"create": parts + 1, "read": 1}, json.dumps(one)
    local = queue_at(planned / "q")
    assert sum(local.ends().values()) % 1000 == 0


@pytest.mark.parametrize("kind", ["looks", "ignores"])
def test_a_store_that_lets_two_writers_win_is_refused_before_the_first_row(
    spark: Any, planned: Path, kind: str
) -> None:
    said = refused(lambda: writer(frame(spark)).save(f"planned://{kind}{planned}/q"))
    assert f"planned://{kind}/ let " in said
    assert "of 8 writers make one object" in said
    assert [file for file in (planned / "q").rglob("*") if file.is_file()] == []
    # A queue that is there already is proven by whoever opens it to append.
    writer(frame(spark)).save(f"planned://{planned}/q")
    said = refused(lambda: writer(frame(spark)).save(f"planned://{kind}{planned}/q"))
    assert "of 8 writers make one object" in said
    assert numbers(planned / "q") == list(range(1000))
    writer(frame(spark, 1000), singleWriter="true").save(f"planned://{kind}{planned}/q")
    assert len(numbers(planned / "q")) == 2000


def with_its_checksum(text: bytes) -> bytes:
    return text + struct.pack("<I", crc32c(text))


@pytest.mark.quick
def test_another_writer_s_object_is_not_taken_for_one_s_own(spark: Any, planned: Path) -> None:
    """Whatever ends in its own CRC-32C has the same CRC-32C as all others that do."""
    inside = spark._jvm.org.apache.spark.sql.cecstore.queue
    iterators = getattr(spark._jvm.scala.collection, "Iterator$").__getattr__("MODULE$")
    stores = getattr(inside, "Store$").__getattr__("MODULE$")
    path = spark._jvm.org.apache.hadoop.fs.Path(f"planned://{planned}/q")
    store = stores.at(path, spark._jsc.hadoopConfiguration(), False, False)
    theirs, ours = with_its_checksum(b"another's " * 40), with_its_checksum(b"one's own " * 40)
    assert crc32c(theirs) == crc32c(ours)
    (planned / "q").mkdir()
    (planned / "q" / "first").write_bytes(theirs)
    assert "FileAlreadyExistsException" in refused(
        lambda: store.create("first", iterators.single(ours))
    )
    assert (planned / "q" / "first").read_bytes() == theirs
    (planned / "q" / "second").write_bytes(ours)  # an attempt whose answer was lost
    store.create("second", iterators.single(ours))


def test_sinks_that_make_a_queue_at_once_all_write(spark: Any, planned: Path) -> None:
    """Who was slower appends to the queue of who was quicker, whose probes may be there still."""
    for turn in range(3):
        path = planned / f"q{turn}"
        path.mkdir()
        (path / f"probe-{turn:032x}.tmp").write_bytes(b"of a maker that proves its store")
        with ThreadPoolExecutor(6) as pool:
            saves = [
                pool.submit(writer(frame(spark, 10 * number, 10)).save, f"planned://{path}")
                for number in range(6)
            ]
            for save in saves:
                save.result()
        assert numbers(path) == list(range(60))


def batches_of(names: set[str]) -> set[str]:
    return {name.rpartition("/")[0] for name in names}


@pytest.mark.parametrize("how", ["lost", "raise"])
def test_a_commit_whose_answer_is_lost_counts_once(spark: Any, planned: Path, how: str) -> None:
    path, url = planned / "q", f"planned://{planned}/q"
    writer(frame(spark, 0, 10)).save(url)
    # Two objects of tasks, then the commit.
    for number in range(3):
        (planned / "plan").write_text(f"create {number} {how} {number}")
        save = writer(frame(spark, 10 * number + 10, 10)).save
        if how == "raise" and number < 2:
            assert "as planned" in refused(lambda: save(url))  # noqa: B023
        else:
            save(url)
        assert not (planned / "plan").exists(), "it did not strike"
    expected = list(range(40)) if how == "lost" else [*range(10), *range(30, 40)]
    assert numbers(path) == expected
    assert named(path) <= objects(path)
    # Of two batches one task failed: the other may have come to its end after its batch.
    left = rubbish(path)
    assert len(left) <= (2 if how == "raise" else 0)
    assert batches_of(left).isdisjoint(batches_of(named(path)))


def test_a_store_that_cannot_create_exclusively_is_refused_by_name(
    spark: Any, tmp_path: Path
) -> None:
    conf = spark._jsc.hadoopConfiguration()
    conf.set("fs.plain.impl", "org.apache.hadoop.fs.viewfs.ViewFileSystem")
    conf.set("fs.viewfs.mounttable.default.link./a", f"file://{tmp_path}")
    said = refused(lambda: writer(frame(spark)).save("viewfs://default/a/q"))
    assert "singleWriter=true" in said
    assert not (tmp_path / "q").exists()
    writer(frame(spark), singleWriter="true").save("viewfs://default/a/q")
    assert numbers(tmp_path / "q") == list(range(1000))


LOCAL = ["ext4", "overlay", "fuseblk"]
TOLD = [
    *("tmpfs", "ramfs", "fuse", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.blobfuse2"),
    *("fuse.goofys", "fuse.sshfs", "fuse.other", "9p", "virtiofs", "vboxsf", "nfs", "nfs4"),
    *("fuse.gocryptfs", "cifs", "ocfs2", "lustre"),
]


def test_the_jvm_says_of_mounts_what_python_says(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "mountinfo"
    monkeypatch.setattr(mounts, "_MOUNTS", str(table))
    device = os.stat(tmp_path).st_dev
    numbers = f"{os.major(device)}:{os.minor(device)}"
    theirs = spark._jvm.org.apache.spark.sql.cecstore.log.Mounts
    told = 0
    for kind in LOCAL + TOLD:
        for options in ("rw", "rw,volatile", "rw,lowerdir=/volatile"):
            lines = [
                "22 1 0:1 / / rw - ext4 /dev/a rw",
                f"23 22 {numbers} / {tmp_path} rw shared:1 - {kind} a\\040source {options}",
                f"24 23 0:2 / {tmp_path}/q rw - nfs4 hidden rw",
            ]
            table.write_text("\n".join(lines))
            ours = mounts.mount_of(str(tmp_path / "q"))
            assert ours is not None
            found = theirs.among(table.read_text(), str(tmp_path / "q"), numbers).get()
            risk = found.risk()
            said = risk.get() if risk.isDefined() else None
            assert (found.toString(), found.isRemote(), said) == (
                str(ours),
                ours.is_remote,
                ours.risk(),
            )
            told += said is not None
    # Of local ones the volatile overlay alone.
    assert told == 3 * len(TOLD) + 1


def test_the_sink_knows_the_mount_that_it_is_on(spark: Any, tmp_path: Path) -> None:
    theirs = spark._jvm.org.apache.spark.sql.cecstore.log.Mounts
    path = spark._jvm.java.io.File(str(tmp_path / "not" / "there"))
    found = theirs.of(path.toPath()).get()
    assert found.toString() == str(mounts.mount_of(str(tmp_path)))


def commit_reads(folder: Path) -> list[int]:
    """Return the numbers of the commits that were asked for since, in this order."""
    file = folder / "calls"
    lines = [line.split() for line in file.read_text().splitlines()]
    file.write_text("")
    names = [name for kind, name in lines if kind == "read" and name.endswith(".commit")]
    return [int(Path(name).stem) for name in names]


def test_a_stream_reads_rows_that_stand_in_commits_with_them(spark: Any, planned: Path) -> None:
    path, url, schema = planned / "q", f"planned://{planned}/q", pa.schema([("n", pa.int64())])
    with open_queue(path, "a", schema=schema, partitions=1) as queue:
        for number in range(3):
            queue.append(pa.table({"n": [number]}))
        seen: list[int] = []
        stream = spark.readStream.format(JVM).option("startingOffsets", "earliest").load(url)
        commit_reads(planned)  # for the columns
        query = (
            stream.writeStream.foreachBatch(
                lambda batch, _: seen.extend(row.n for row in batch.collect())
            )
            .option("checkpointLocation", str(planned / "c"))
            .start()
        )
        try:
            wait_for(lambda: len(seen) == 3)
            queue.append(pa.table({"n": [3]}))
            wait_for(lambda: len(seen) == 4)
        finally:
            query.stop()
    found = commit_reads(planned)
    # A number is asked for until it is there, and then the next one: none is read for its rows.
    later = [number for number in found if number > 3]
    assert later == sorted(later)
    assert {*later} == {4, 5}
    # Nor is one that was opened or followed read again to find a position.
    assert {*found} == {3, 4, 5}


def test_a_query_reads_a_commit_once(spark: Any, planned: Path) -> None:
    path, url, schema = planned / "q", f"planned://{planned}/q", pa.schema([("n", pa.int64())])
    with open_queue(path, "a", schema=schema, partitions=1) as queue:
        for number in range(3):
            queue.append(pa.table({"n": [number]}))
        (planned / "calls").write_text("")
        rows = spark.read.format(JVM).load(url)
        assert commit_reads(planned) == [3, 2, 1, 0]
        assert sorted(row.n for row in rows.collect()) == [0, 1, 2]
        # The newest is proven, and the next one asked for: none is read for the rows in it.
        assert {*commit_reads(planned)} == {3, 4}
        queue.append(pa.table({"n": [3]}))
    # Collected again, a query reads what was planned, and proves that it is this queue still.
    assert sorted(row.n for row in rows.collect()) == [0, 1, 2]
    assert commit_reads(planned) == [3]
    assert sorted(row.n for row in rows.select("n").collect()) == [0, 1, 2, 3]


def wait_for(is_done: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not is_done():
        assert time.monotonic() < until
        time.sleep(0.05)
