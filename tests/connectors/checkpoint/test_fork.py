"""A fork without Spark: random state logs, every refusal, a failure and a kill at every step."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cec_store import (
    CecError,
    CorruptLog,
    NotACheckpoint,
    NotAQueue,
    OutOfRange,
    StateLog,
    StorageError,
    fork,
)
from cec_store.cli import app
from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.format.frame import FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES
from cec_store.inspector.measuring.extents import inspect_extent
from cec_store.inspector.verifying.log import verify
from cec_store.state_logs.directory_files import is_of_key_directory
from cec_store.state_logs.tree import StateTree
from cec_store.storage import local_files, trees
from cec_store.storage.local import LocalFolder
from support.places.checkpoints import JOIN, Made, began_us, tree_of, write
from support.places.key_directories import write_directory
from support.places.made_checkpoints import grown
from support.places.state_logs import Commit, Writer, contents, grow

FORMATS = [1, 2]


@pytest.fixture(autouse=True, scope="module")
def _quick_syncs() -> Iterator[None]:
    """Thousands of folders are made; that a sync is called is looked at, not what it does."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, lambda descriptor: None)
        yield


def all_of(made: Made) -> tuple[dict[str, tuple[str, int]], list[str]]:
    """The old checkpoint, and what stands beside it."""
    return tree_of(made.path), sorted(os.listdir(made.path.parent))


def at_of(checkpoint: Path, batch: int, state: Any) -> int | str:
    return Checkpoint(checkpoint).unique_id(batch, *state[:3]) or batch + 1


def check(made: Made, new: Path, batch: int) -> None:
    """Every store is at the version that the batch made, and at none after it."""
    found = Checkpoint(new)
    assert found.newest_batch() == found.logged_batches()[-1] == batch
    for state in found.state_folders():
        log = StateLog(state.folder)
        due = made.states[state.partition, state.store].made[batch + 1]
        assert contents(log.rebuild(at=at_of(new, batch, state))) == due.state
        assert log.versions()[-1] == batch + 1
        assert verify(state.folder).is_sound


# -- state logs -------------------------------------------------------------------------------


def grown_checkpoint(
    path: Path, seed: int, steps: int, version: int
) -> tuple[Made, Commit, list[Commit]]:
    """One store with retries, twins, zombies and merged segments; a version of it; all of them."""
    random = Random(seed)
    made = Made(path, version=version, partitions=1)
    state = made.states[0, "default"]
    grown = grow(state.folder, random, steps)
    by_rule = grown.versions()
    chosen = random.choice([*by_rule.values()] if version == 1 else grown.attempts)
    state.made = [state.made[0]]
    for number in by_rule:
        state.made.append(chosen if number == chosen.version else by_rule[number])
        made.plan()
        made.commit()
    return made, chosen, grown.attempts


@pytest.mark.parametrize("version", FORMATS)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 20))
def test_a_version_is_the_same_and_the_newest(version: int, seed: int, steps: int) -> None:
    with TemporaryDirectory() as folder:
        old, new = Path(folder) / "old", Path(folder) / "new"
        made, chosen, _ = grown_checkpoint(old, seed, steps, version)
        before = all_of(made)
        fork(old, new, batch=chosen.version - 1)
        assert tree_of(old) == before[0]
        assert sorted(os.listdir(folder)) == ["new", "old"]
        [state] = Checkpoint(new).state_folders()
        log = StateLog(state.folder)
        at = chosen.unique_id if version == 2 else chosen.version
        found = log.rebuild(at=at)
        assert contents(found) == chosen.state
        assert (found.seq, found.end_offset) == (chosen.seq - 1, chosen.offset)
        assert log.versions()[-1] == chosen.version
        assert log.unique_id(at) == StateLog(made.states[0, "default"].folder).unique_id(at)
        assert verify(state.folder).is_sound
        goes_on(state.folder, chosen, at)
        assert tree_of(old) == before[0], "what the fork writes is its own"


def goes_on(folder: LocalFolder, base: Commit, at: int | str) -> None:
    """As the provider does: on the frame that it loaded, in a segment of its own."""
    last = StateLog(folder).version_reader(at).last_frame
    end = last.next_address.byte
    base = replace(
        base, segment_id=last.address.segment_id, byte=last.address.byte, end=end,
        salt=last.header.salt,
        running_crc=StateTree(folder).segment(last.address.segment_id).running_crcs[end],
    )  # fmt: skip
    made = Writer(folder, Random(1)).commit(base, {(1, b"new"): b"value"})
    log = StateLog(folder)
    for name in (made.version, made.unique_id):
        assert contents(log.rebuild(at=name)) == made.state == {**base.state, (1, b"new"): b"value"}


@pytest.fixture(params=FORMATS, ids=["v1", "v2"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    """Ten batches over three lives."""
    made = Made(tmp_path / "checkpoint", version=request.param)
    for batches in (4, 3, 3):
        made.run(batches)
        made.restart()
    return made


def test_every_batch_can_be_forked(made: Made, tmp_path: Path) -> None:
    before = tree_of(made.path)
    for batch in range(10):
        report = fork(made.path, tmp_path / f"new {batch}", batch=batch)
        assert (report.batch, report.timestamp_us) == (batch, began_us(batch))
        check(made, tmp_path / f"new {batch}", batch)
    assert tree_of(made.path) == before


def test_all_stores_of_a_join_are_forked(tmp_path: Path) -> None:
    for version in FORMATS:
        old, new = tmp_path / f"old {version}", tmp_path / f"new {version}"
        made = Made(old, version=version, stores=JOIN)
        made.run(5)
        fork(old, new, batch=2)
        check(made, new, 2)
        assert len(Checkpoint(new).state_folders()) == 8


def test_a_key_directory_that_leads_to_the_batch_is_taken_along(made: Made, tmp_path: Path) -> None:
    """The new query starts by it, as the old one would."""
    for state in made.states.values():
        write_directory(state.folder, state.made[4])
        write_directory(state.folder, state.made[8], earlier=[state.made[4]])
    before = tree_of(made.path)
    for batch, version, files in ((2, None, 0), (3, 4, 2), (7, 8, 3)):
        new = tmp_path / f"new {batch}"
        dry = fork(made.path, new, batch=batch, dry_run=True)
        report = fork(made.path, new, batch=batch)
        assert replace(report, query_id="") == dry
        check(made, new, batch)
        for state in Checkpoint(new).state_folders():
            shown = inspect_extent(state.folder).state
            assert shown is not None
            assert (shown.directory.version if shown.directory else None) == version, batch
            assert len([n for n in state.folder.names() if is_of_key_directory(n)]) == files
            assert verify(state.folder, records=True, rebuilds=True).is_sound
    assert tree_of(made.path) == before


def test_a_fork_can_be_forked(made: Made, tmp_path: Path) -> None:
    fork(made.path, tmp_path / "once", batch=8)
    fork(tmp_path / "once", tmp_path / "twice", batch=5)
    shutil.rmtree(tmp_path / "once")
    check(made, tmp_path / "twice", 5)


def test_a_moment_is_the_last_batch_begun_by_then(made: Made, tmp_path: Path) -> None:
    assert fork(made.path, tmp_path / "new", at=began_us(7) - 1).batch == 6
    check(made, tmp_path / "new", 6)


def inodes(path: Path) -> dict[str, int]:
    return {str(p.relative_to(path)): p.stat().st_ino for p in path.rglob("*.seg")}


def test_only_a_segment_that_may_grow_is_copied(made: Made, tmp_path: Path) -> None:
    """Batches 0 to 3 are one segment of each store, 4 to 6 the next."""
    for batch, linked in ((3, 0), (4, 1), (6, 1), (9, 2)):
        new = tmp_path / f"new {batch}"
        report = fork(made.path, new, batch=batch)
        shared = {*inodes(made.path).items()} & {*inodes(new).items()}
        assert len(shared) == report.linked_files == 2 * linked
        assert len(inodes(new)) == 2 * linked + 2
        size = sum(path.stat().st_size for path in new.rglob("*.*") if path.suffix == ".seg")
        rest = [p for p in new.rglob("*") if p.is_file() and p != new / "metadata"]
        assert report.linked_bytes <= size
        total = sum(path.stat().st_size for path in rest)
        assert report.linked_bytes + report.copied_bytes == total


def test_the_old_query_may_go_on_and_adds_nothing_to_the_fork(tmp_path: Path) -> None:
    for version in FORMATS:
        old = tmp_path / f"old {version}"
        made = Made(old, version=version)
        made.run(4)
        made.restart()
        made.run(4)
        for batch in (3, 5, 7):
            fork(old, tmp_path / f"{version} {batch}", batch=batch)
        found = {batch: tree_of(tmp_path / f"{version} {batch}") for batch in (3, 5, 7)}
        before = tree_of(old)
        made.run(3)
        assert [name for name, file in before.items() if tree_of(old)[name] != file], "it appended"
        for batch in (3, 5, 7):
            assert tree_of(tmp_path / f"{version} {batch}") == found[batch]
            check(made, tmp_path / f"{version} {batch}", batch)


def test_a_late_attempt_in_a_linked_segment_does_not_count(tmp_path: Path) -> None:
    for version in FORMATS:
        old, new = tmp_path / f"old {version}", tmp_path / f"new {version}"
        made = Made(old, version=version, partitions=1)
        made.run(3)
        state = made.states[0, "default"]
        zombie, base = state.writer, state.made[3]
        made.restart()
        made.run(3)
        assert fork(old, new, batch=5).linked_files == 1
        zombie.commit(base, {(1, b"late"): b"x"})
        check(made, new, 5)
        if version == 1:
            log = StateLog(Checkpoint(new).state_folders()[0].folder)
            for number in range(1, 7):
                assert contents(log.rebuild(at=number)) == state.made[number].state


def test_the_old_query_may_forget_what_the_fork_has(made: Made, tmp_path: Path) -> None:
    fork(made.path, tmp_path / "new", batch=9)
    shutil.rmtree(made.path)
    check(made, tmp_path / "new", 9)


def test_a_torn_end_is_left_behind(made: Made, tmp_path: Path) -> None:
    for state in made.states.values():
        newest = max(state.path.glob("*.seg"))
        with newest.open("ab") as file:
            file.write(b"CECF\1")
    fork(made.path, tmp_path / "new", batch=9)
    check(made, tmp_path / "new", 9)
    assert not any(path.read_bytes().endswith(b"CECF\1") for path in tmp_path.glob("new/**/*.seg"))


# -- Spark's own files ------------------------------------------------------------------------


def names_in(path: Path) -> list[str]:
    return sorted((p.name for p in path.iterdir()), key=lambda n: (len(n), n))


def test_logs_end_with_the_batch(made: Made, tmp_path: Path) -> None:
    new = tmp_path / "new"
    made.plan()
    fork(made.path, new, batch=5)
    for log in ("offsets", "commits"):
        assert names_in(new / log) == ["0", "1", "2", "3", "4", "5"]
        for name in names_in(new / log):
            assert (new / log / name).read_bytes() == (made.path / log / name).read_bytes()
    assert sorted(names_in(new / "sources" / "0")) == ["0", "1", "2", "3.compact", "4", "5"]
    assert names_in(new / "sources" / "1") == ["0"]
    assert (new / "state/0/_metadata/metadata").read_text().startswith("v1")
    assert (new / "state/0/0/_metadata/schema").read_text() == "v3 of Spark"
    assert not list(new.rglob(".*")), "no checksums of other files"


def test_the_new_query_is_another(made: Made, tmp_path: Path) -> None:
    ids = {Checkpoint(made.path).query_id}
    for number in range(3):
        report = fork(made.path, tmp_path / f"new {number}", batch=5)
        ids.add(report.query_id)
        assert Checkpoint(tmp_path / f"new {number}").query_id == report.query_id
    assert len(ids) == 4


def test_a_source_is_cut_to_its_own_entry_and_not_to_the_batch(made: Made, tmp_path: Path) -> None:
    """Batches without data read no new entry."""
    text = (made.path / "offsets" / "5").read_text()
    write(made.path / "offsets" / "5", text.replace('"logOffset":5', '"logOffset":3'))
    fork(made.path, tmp_path / "new", batch=5)
    assert names_in(tmp_path / "new" / "sources" / "0") == ["0", "1", "2", "3.compact"]


@pytest.mark.parametrize("place", ["-", '{"logOffset":-1}'])
def test_a_source_that_had_not_begun_begins_anew(made: Made, tmp_path: Path, place: str) -> None:
    text = (made.path / "offsets" / "5").read_text()
    write(made.path / "offsets" / "5", text.replace('{"logOffset":5}', place))
    fork(made.path, tmp_path / "new", batch=5)
    assert not (tmp_path / "new" / "sources" / "0").exists()
    assert names_in(tmp_path / "new" / "sources" / "1") == ["0"]


def test_entries_before_the_last_compaction_may_be_gone(made: Made, tmp_path: Path) -> None:
    for gone in ("0", "1", "2"):
        (made.path / "sources" / "0" / gone).unlink()
    fork(made.path, tmp_path / "new", batch=5)
    assert sorted(names_in(tmp_path / "new" / "sources" / "0")) == ["3.compact", "4", "5"]
    with pytest.raises(OutOfRange, match=r"earliest that can be forked is batch 3,"):
        fork(made.path, tmp_path / "other", batch=1)


def test_a_query_without_state_or_sources_can_be_forked(made: Made, tmp_path: Path) -> None:
    shutil.rmtree(made.path / "state")
    shutil.rmtree(made.path / "sources")
    for batch in range(10):
        path = made.path / "commits" / str(batch)
        write(path, 'v1\n{"nextBatchWatermarkMs":0}')
    fork(made.path, tmp_path / "new", batch=4)
    assert sorted(os.listdir(tmp_path / "new")) == ["commits", "metadata", "offsets"]


# -- refusals ---------------------------------------------------------------------------------


def wound(path: Path) -> None:
    """One bit of the last frame's body."""
    data = bytearray(path.read_bytes())
    data[-9] ^= 4
    path.write_bytes(data)


def newest_segment(made: Made) -> Path:
    return max((made.path / "state" / "0" / "1").glob("*.seg"))


def lose_first_offsets(made: Made) -> None:
    for batch in range(3):
        (made.path / "offsets" / str(batch)).unlink()


def forget_first_segments(made: Made) -> None:
    for state in made.states.values():
        min(state.path.glob("*.seg")).unlink()


def keep_files(made: Made) -> None:
    write(made.path / "sources" / "1" / "1", "v1\n{}")


def take_rocksdb(made: Made) -> None:
    for log in (made.path / "offsets").glob("[0-9]*"):
        log.write_text(log.read_text().replace("cecstore.CecState", "x.RocksDBState"))


def take_nameless(made: Made) -> None:
    """Another provider's files, of a Spark that did not note which one it was."""
    for log in (made.path / "offsets").glob("[0-9]*"):
        log.write_text(log.read_text().replace("providerClass", "class"))
    for state in made.states.values():
        for segment in state.path.glob("*.seg"):
            segment.rename(segment.with_suffix(".delta"))


REFUSALS: dict[str, tuple[Callable[[Made], Any], int, type[Exception], str]] = {
    "not committed": (lambda made: made.plan(), 10, OutOfRange, "not committed yet.* batch 0,"),
    "no longer kept": (lose_first_offsets, 1, OutOfRange, "no longer kept.* batch 4, .*:00:40Z"),
    "the batch before is not kept": (lose_first_offsets, 3, OutOfRange, "one before.* batch 4,"),
    "state forgotten": (forget_first_segments, 2, CecError, r"(missing|not in).* is batch [4-9],"),
    "damaged frame": (lambda made: wound(newest_segment(made)), 9, CorruptLog, "1/.* batch 0,"),
    "lost segment": (lambda made: newest_segment(made).unlink(), 9, CecError, "state/0/1"),
    "damaged offsets": (
        lambda made: write(made.path / "offsets" / "9", "v1\n"), 9, CorruptLog, "offsets/9.*copy",
    ),
    "damaged commit": (
        lambda made: write(made.path / "commits" / "9", "v2\n"), 9, CorruptLog, "commits/9.*copy",
    ),
    "a source with files of its own": (keep_files, 5, StorageError, "sources/1.* of its own"),
    "unknown entry": (
        lambda made: write(made.path / "sources" / "0" / "x", ""), 5, CorruptLog, "sources/0/x",
    ),
    "another provider": (take_rocksdb, 5, NotAQueue, "kept by org.apache.spark.sql.x.RocksDB"),
    "another provider's files": (take_nameless, 5, NotAQueue, "no state log here"),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSALS)
def test_a_refusal_says_why_and_changes_nothing(made: Made, tmp_path: Path, why: str) -> None:
    spoil, batch, error, text = REFUSALS[why]
    spoil(made)
    before = all_of(made)
    for dry_run in (True, False):
        with pytest.raises(error, match=text):
            fork(made.path, tmp_path / "new", batch=batch, dry_run=dry_run)
        assert all_of(made) == before


def test_a_lost_partition_is_refused(tmp_path: Path) -> None:
    made = Made(tmp_path / "checkpoint", version=2, partitions=3)
    made.run(3)
    shutil.rmtree(made.path / "state" / "0" / "2")
    with pytest.raises(CorruptLog, match=r"state/0/2: .*the folder is missing"):
        fork(made.path, tmp_path / "new", batch=2)


@pytest.mark.parametrize("format", [1, 2])
def test_a_partition_that_spark_has_noted_and_is_lost_is_refused(
    format: int, tmp_path: Path
) -> None:
    """The last one, so that nothing else speaks of it with checkpoint format V1."""
    grown_one, _, _ = grown(tmp_path / "checkpoint", format=format, partitions=3)
    shutil.rmtree(grown_one.folder(2))
    with pytest.raises(CorruptLog, match=r"state/0/2: .*the folder is missing"):
        fork(grown_one.path, tmp_path / "new", batch=5)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("format", [1, 2])
def test_operator_of_which_every_partition_is_lost_is_refused(format: int, tmp_path: Path) -> None:
    grown_one, _, _ = grown(tmp_path / "checkpoint", format=format)
    for partition in (0, 1):
        shutil.rmtree(grown_one.folder(partition))
    with pytest.raises(CecError, match=r"state/0/[01]: "):
        fork(grown_one.path, tmp_path / "new", batch=5)
    assert not (tmp_path / "new").exists()


def test_a_moment_that_is_no_longer_kept_is_refused(made: Made, tmp_path: Path) -> None:
    lose_first_offsets(made)
    with pytest.raises(OutOfRange, match=r"can be forked is batch 4, which began at .*00:00:40Z"):
        fork(made.path, tmp_path / "new", at=began_us(1))


def test_damage_that_the_batch_does_not_need_does_not_matter(made: Made, tmp_path: Path) -> None:
    wound(newest_segment(made))
    for batch in range(9):
        fork(made.path, tmp_path / f"new {batch}", batch=batch)
        check(made, tmp_path / f"new {batch}", batch)


def test_a_damaged_schema_of_the_newest_segment_leaves_the_batches_before(
    made: Made, tmp_path: Path
) -> None:
    newest = newest_segment(made)
    data = bytearray(newest.read_bytes())
    data[SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + 3] ^= 4
    newest.write_bytes(data)
    with pytest.raises(CorruptLog, match="the earliest that can be forked is batch 0"):
        fork(made.path, tmp_path / "new", batch=9)
    for batch in range(7):
        fork(made.path, tmp_path / f"new {batch}", batch=batch)
        check(made, tmp_path / f"new {batch}", batch)


@pytest.mark.parametrize("there", ["folder", "file", "link"])
def test_nothing_is_replaced(made: Made, tmp_path: Path, there: str) -> None:
    new = tmp_path / "new"
    if there == "folder":
        new.mkdir()
    elif there == "file":
        new.write_text("mine")
    else:
        new.symlink_to("nowhere")
    before = all_of(made)
    with pytest.raises(FileExistsError, match="is there already"):
        fork(made.path, new, batch=3)
    assert all_of(made) == before
    assert there != "file" or new.read_text() == "mine"


def test_a_fork_inside_the_old_one_is_refused(made: Made) -> None:
    before = all_of(made)
    with pytest.raises(StorageError, match="is inside the checkpoint"):
        fork(made.path, made.path / "new", batch=3)
    assert all_of(made) == before


def test_one_way_to_name_the_batch_is_needed(made: Made, tmp_path: Path) -> None:
    for given_ in ({}, {"at": 1, "batch": 1}):
        with pytest.raises(ValueError, match="give a moment"):
            fork(made.path, tmp_path / "new", **given_)
    with pytest.raises(NotACheckpoint):
        fork(tmp_path, tmp_path / "new", batch=1)


def test_a_dry_run_says_the_same_and_writes_nothing(made: Made, tmp_path: Path) -> None:
    before = all_of(made)
    said = fork(made.path, tmp_path / "new", batch=6, dry_run=True)
    assert all_of(made) == before
    done = fork(made.path, tmp_path / "new", batch=6)
    assert replace(done, query_id="") == said
    assert done.linked_files > 0


# -- file systems, failures, kills ------------------------------------------------------------


def test_without_links_everything_is_copied(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*args: Any, **options: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    report = fork(made.path, tmp_path / "new", batch=9)
    assert (report.linked_files, report.linked_bytes) == (0, 0)
    check(made, tmp_path / "new", 9)


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no second file system")
def test_another_file_system_gets_copies(made: Made, tmp_path: Path) -> None:
    with TemporaryDirectory(dir="/dev/shm") as other:
        if os.stat(other).st_dev == os.stat(tmp_path).st_dev:
            pytest.skip("the same file system")
        assert fork(made.path, Path(other) / "new", batch=9).linked_files == 0
        check(made, Path(other) / "new", 9)


class Killed(BaseException):
    """The process is gone: nothing is tidied up."""


class Steps:
    """Every call that changes the disk, in order; one of them may fail or kill."""

    CALLS = (
        (LocalFolder, ("make", "create", "sync_names")),
        (local_files.LocalFile, ("write", "sync", "close")),
        (os, ("link", "rename", "fsync")),
    )

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.trace: list[tuple[str, str]] = []
        self.fail: dict[int, BaseException] = {}
        self.numbers = count()
        for owner, names in self.CALLS:
            for name in names:
                patch.setattr(owner, name, self.watched(name, getattr(owner, name)))
        real = shutil.rmtree

        def rmtree(path: Any, **options: Any) -> None:
            if not any(isinstance(error, Killed) for error in self.fail.values()):
                real(path, **options)

        patch.setattr(trees.shutil, "rmtree", rmtree)

    def watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **options: Any) -> Any:
            number = next(self.numbers)
            if number in self.fail:
                raise self.fail[number]
            on = getattr(args[0], "path", None) or getattr(args[0], "_path", args[0])
            what = f"{on}/{args[1]}" if name == "create" else str(args[1] if name == "link" else on)
            self.trace.append((name, what))
            return call(*args, **options)

        return step


@pytest.fixture
def small(tmp_path: Path) -> Made:
    made = Made(tmp_path / "in" / "checkpoint", partitions=1)
    for _ in range(2):
        made.run(1)
        made.restart()
    return made


def steps_of(made: Made, new: Path, fail: dict[int, BaseException]) -> Steps:
    with pytest.MonkeyPatch.context() as patch:
        steps = Steps(patch)
        steps.fail = fail
        fork(made.path, new, batch=1)
        return steps


def test_all_is_on_disk_before_it_has_its_name(small: Made, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    trace = steps_of(small, tmp_path / "out" / "new", {}).trace
    last = {step: place for place, step in enumerate(trace)}
    [renamed] = [place for place, (call, _) in enumerate(trace) if call == "rename"]
    created = [what for call, what in trace if call == "create"]
    linked = [what for call, what in trace if call == "link"]
    assert len(created) > 8
    assert len(linked) == 1
    for file in created:
        assert last["write", file] < last["sync", file] < renamed
    for file in created + linked:
        made = last.get(("create", file), last.get(("link", file), 0))
        assert made < last["sync_names", str(Path(file).parent)] < renamed
    # A link's bytes may never have been synced by who wrote them: fsync goes by number.
    assert trace[last["link", linked[0]] + 1][0] == "fsync"
    assert created[-1].endswith("/metadata"), "no checkpoint before it is complete"
    assert last["sync_names", str(tmp_path / "out")] > renamed


def outcome(small: Made, out: Path, number: int, error: BaseException) -> BaseException | None:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    try:
        steps_of(small, out / "new", {number: error})
    except BaseException as caught:
        return caught
    return None


def test_a_failure_at_any_step_leaves_nothing(small: Made, tmp_path: Path) -> None:
    before, out = tree_of(small.path), tmp_path / "out"
    for number in count():
        caught = outcome(small, out, number, OSError(28, "No space left on device"))
        if caught is None:
            break
        assert isinstance(caught, OSError), number
        complete = (out / "new").exists()  # only its name may not be on disk yet
        assert sorted(os.listdir(out)) == (["new"] if complete else []), number
        assert tree_of(small.path) == before
    assert number > 40
    check(small, out / "new", 1)


def test_a_kill_at_any_step_leaves_nothing_that_looks_like_a_checkpoint(
    small: Made, tmp_path: Path
) -> None:
    before, out = tree_of(small.path), tmp_path / "out"
    left = 0
    for number in count():
        caught = outcome(small, out, number, Killed())
        if caught is None:
            break
        assert isinstance(caught, Killed)
        assert tree_of(small.path) == before
        for there in out.iterdir():
            left += 1
            if (there / "metadata").exists() and (there / "metadata").read_bytes():
                check(small, there, 1)
            else:
                assert there.name.startswith(".new.")
                assert there.name.endswith(".tmp")
        # And the next try is not disturbed by what is left.
        if not (out / "new").exists():
            fork(small.path, out / "new", batch=1)
        check(small, out / "new", 1)
    assert left > 40


def test_what_a_running_query_deletes_meanwhile_is_left_out(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old log entries go one by one while they are copied."""
    real = trees.copy
    deleted: list[str] = []

    def copy(source: LocalFolder, name: str, target: LocalFolder, size: int) -> None:
        if len(deleted) < 2 and source.path.endswith("/offsets"):
            deleted.append(name)
            (Path(source.path) / name).unlink()
        real(source, name, target, size)

    monkeypatch.setattr("cec_store.storage.stores.new_trees.copy", copy)
    fork(made.path, tmp_path / "new", batch=7)
    assert deleted == ["0", "1"]
    assert names_in(tmp_path / "new" / "offsets") == ["2", "3", "4", "5", "6", "7"]
    check(made, tmp_path / "new", 7)
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", "new"]


# -- the command line -------------------------------------------------------------------------


def run(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.output


def test_the_verb_forks_at_a_moment_a_batch_or_a_version(made: Made, tmp_path: Path) -> None:
    ways = (("--at", "2026-01-01T00:00:59Z"), ("--batch", 5), ("--version", 6))
    for number, way in enumerate(ways):
        code, said = run("fork", made.path, *way, tmp_path / f"new {number}", "--yes")
        assert code == 0
        assert "continues after batch 5, which began at 2026-01-01T00:00:50Z" in said
        check(made, tmp_path / f"new {number}", 5)


def test_the_verb_says_what_it_would_do(made: Made, tmp_path: Path) -> None:
    before = all_of(made)
    code, said = run("fork", made.path, "--batch", 5, tmp_path / "new")
    assert code == 0
    assert "would continue after batch 5" in said
    assert said.endswith("do it with --yes\n")
    code, said = run("fork", made.path, "--batch", 5, tmp_path / "new", "--json")
    assert (code, json.loads(said)["done"]) == (0, False)
    assert not (tmp_path / "new").exists()
    assert all_of(made) == before


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "give one of --at, --batch and --version"),
        (("--batch", 1, "--version", 2), "give one of"),
        (("--at", "@5"), "is an offset"),
        (("--at", "tomorrow"), "is no moment"),
        (("--batch", 77), "not committed yet"),
    ],
)
def test_wrong_use_is_status_2(
    made: Made, tmp_path: Path, words: tuple[object, ...], text: str
) -> None:
    code, said = run("fork", made.path, *words, tmp_path / "new")
    assert (code, text in said) == (2, True), said


def test_damage_is_status_1(made: Made, tmp_path: Path) -> None:
    wound(newest_segment(made))
    assert run("fork", made.path, "--batch", 9, tmp_path / "new")[0] == 1
