"""What verify says beside single damages: notes, depth, text, and places that are in use."""

import io
import json
import os
import re
import shutil
import threading
import time
import zipfile
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store.connectors.spark.checkpoint.state_rows import decoder_of
from cec_store.errors import CorruptLog
from cec_store.inspector.built_in.snapshots import read_snapshot
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.inspector.verifying.spark_files import SparkFiles
from cec_store.state_logs.state_log import StateLog
from cec_store.storage.local import LocalFolder
from support.command_line.verify import document, run, state_of
from support.disks.open_files import open_below
from support.paths import SNAPSHOTS
from support.places import damaged_places as places
from support.places import damaged_queues as made
from support.places.checkpoints import JOIN
from support.places.made_checkpoints import KEY, VALUE, MadeCheckpoint, grown


@pytest.fixture(autouse=True)
def _quick_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda descriptor: None)


def kinds(found: dict) -> list[str]:
    return [fault["kind"] for fault in found["faults"]]


def notes(found: dict) -> str:
    return "\n".join(note["what"] for note in found["notes"])


# -- what is no fault -------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_a_batch_that_is_not_committed_yet_is_no_fault(tmp_path: Path, version: int) -> None:
    query = MadeCheckpoint(tmp_path / "c", places.KEY, places.VALUE, format=version)
    query.batch({(1,): (1,)}, commits=False)
    assert document(query.path)["batches"] is None
    query = MadeCheckpoint(tmp_path / "d", places.KEY, places.VALUE, format=version)
    for _ in range(3):
        query.batch({(1,): (1,)}, {(2,): (2,)})
    query.batch({(1,): (4,)}, commits=False)
    assert document(query.path)["batches"] == {"first": 0, "last": 2}


@pytest.mark.parametrize("release", ["2", "3.2"])
def test_what_older_sparks_did_not_write_is_a_note(tmp_path: Path, release: str) -> None:
    """Spark notes schemas since release 3.1, and operators since release 4."""
    query = MadeCheckpoint(tmp_path / "c", places.KEY, places.VALUE)
    query.batch({(1,): (1,)}, {(2,): (2,)})
    query.close()
    place = place_at(query.path)
    assert place.checkpoint is not None
    shutil.rmtree(query.path / "state" / "0" / "_metadata")
    if release == "2":
        shutil.rmtree(query.path / "state/0/0/_metadata")
    files = SparkFiles(place.checkpoint, place.logs, is_built_in=True)
    files.check()
    assert files.faults == []
    [note] = files.notes
    assert note.path == str(query.path / "state/0/_metadata/metadata")
    assert "from release 4 on" in note.what
    ours = SparkFiles(place.checkpoint, place.logs)
    ours.check()
    assert [fault.kind for fault in ours.faults] == ["spark-schema"], "our provider needs it"
    if release == "3.2":
        (query.path / "state/0/0/_metadata/schema").write_bytes(b"no schema")
        files = SparkFiles(place.checkpoint, place.logs, is_built_in=True)
        files.check()
        assert [fault.kind for fault in files.faults] == ["spark-schema"]


def test_a_query_that_has_only_begun_has_no_state_yet(tmp_path: Path) -> None:
    query = MadeCheckpoint(tmp_path / "c", places.KEY, places.VALUE)
    (query.path / "offsets" / "0").write_text('v1\n{"batchTimestampMs":1,"conf":{}}\n0')
    assert "nothing is committed yet" in notes(document(query.path))


@pytest.mark.parametrize("version", [1, 2])
def test_what_spark_and_maintenance_have_forgotten_is_no_fault(
    tmp_path: Path, version: int
) -> None:
    """Spark deletes offsets and commits from the oldest on, maintenance segments."""
    path = places.checkpoint(tmp_path / "c", version)
    for batch in (0, 1, 2):
        for log in ("offsets", "commits"):
            (path / log / str(batch)).unlink()
    assert document(path)["batches"] == {"first": 3, "last": 7}
    for partition in (0, 1):
        made.segments(places.state(path, partition))[0].unlink()
    # Without their beginning versions 5 and 6 cannot be rebuilt any more, later ones can.
    whole = [StateLog(LocalFolder(places.state(path, n))).versions() for n in (0, 1)]
    assert whole[0] == whole[1] != []
    assert whole[0][0] > 4
    found = document(path)
    assert "oldest versions that Spark has committed are not here any more" in notes(found)


def test_state_of_another_provider_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "c"
    query = MadeCheckpoint(path, places.KEY, places.VALUE)
    query.batch({(1,): (1,)})
    offsets = path / "offsets" / "0"
    conf = {"spark.sql.streaming.stateStore.providerClass": "org.example.Other"}
    offsets.write_text(offsets.read_text().replace('"conf": {}', f'"conf": {json.dumps(conf)}'))
    query.put_schema("in a format", "of its own", version=3)
    found = document(path)
    assert found["logs"][0]["figures"] is None
    assert "another provider" in notes(found)


def test_an_operator_that_is_gone_is_missed_by_its_ids(tmp_path: Path) -> None:
    path = places.checkpoint_v2(tmp_path / "c")
    shutil.rmtree(path / "state" / "0")
    (fault,) = document(path, status=1)["faults"]
    assert (fault["kind"], fault["path"]) == ("log-missing", str(path / "state" / "0"))


# -- how deep ---------------------------------------------------------------------------------


def test_a_defect_of_the_writer_is_found_in_the_records(tmp_path: Path) -> None:
    path = places.store(tmp_path / "s")
    file = made.segments(path)[-1]
    byte, header = made.batches(file)[-1]
    made.patch_header(file, byte, open_windows=header.open_windows - 1)
    document(path)  # the bytes are as they were written
    for option in ("--records", "--deep"):
        found = document(path, option, status=1)
        assert kinds(found) == ["open-windows"]
        assert found["faults"][0]["byte"] == byte


def test_keys_and_values_are_held_against_the_schema(tmp_path: Path) -> None:
    path = places.checkpoint(tmp_path / "c")
    query = MadeCheckpoint(
        tmp_path / "other", places.KEY, pa.struct([(n, pa.int64()) for n in "abc"])
    )
    schema = (query.folder(0) / "_metadata" / "schema").read_bytes()
    (places.state(path, 0) / "_metadata" / "schema").write_bytes(schema)
    document(path, "--records")
    found = document(path, "--deep", status=1)
    assert set(kinds(found)) == {"rows"}
    assert {fault["log"] for fault in found["faults"]} == {
        "operator 0 (aggregate), partition 0", "operator 0 (aggregate), partition 1",
    }  # fmt: skip


def test_every_version_is_rebuilt_and_not_the_newest_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cec_store.inspector.verifying import version_faults

    path, rebuilt = places.store(tmp_path / "s"), []
    real = version_faults.rebuild

    def noting(lineage):
        rebuilt.append(lineage.version)
        return real(lineage)

    monkeypatch.setattr(version_faults, "rebuild", noting)
    document(path)
    assert rebuilt == []
    document(path, "--records")
    assert rebuilt == [12]
    rebuilt.clear()
    assert document(path, "--deep")["totals"]["versions"] == len(rebuilt) == 12


@pytest.mark.parametrize("version", [1, 2])
def test_operator_of_which_every_partition_is_lost_is_a_fault(tmp_path: Path, version: int) -> None:
    query, _, _ = grown(tmp_path / "c", batches=2, format=version)
    for partition in (0, 1):
        shutil.rmtree(query.folder(partition))
    found = document(query.path, status=1)
    assert {fault["kind"] for fault in found["faults"]} >= {"log-missing"}


@pytest.mark.parametrize("version", [1, 2])
def test_stray_folder_in_a_partition_hides_no_log(tmp_path: Path, version: int) -> None:
    query, _, _ = grown(tmp_path / "c", batches=2, format=version)
    (query.folder(1) / "old").mkdir()
    found = document(query.path)
    assert [log["name"][-11:] for log in found["logs"]] == ["partition 0", "partition 1"]
    assert found["totals"]["segments"] == 2


def test_store_that_spark_has_not_noted_is_damage(tmp_path: Path) -> None:
    query, _, _ = grown(tmp_path / "c", batches=2)
    store = query.folder(1) / "left-keyToNumValues"
    store.mkdir()
    with pytest.raises(CorruptLog, match=r"state/0: .*no store 'left-keyToNumValues'"):
        decoder_of(LocalFolder(store))


# -- many logs, and live ones -----------------------------------------------------------------


def test_a_checkpoint_of_many_stores(tmp_path: Path) -> None:
    query = MadeCheckpoint(
        tmp_path / "c", places.KEY, places.VALUE, stores=JOIN, partitions=12, format=2
    )
    for batch in range(2):
        query.batch(*({(n,): (batch,)} for n in range(12)))
    query.close()
    found = document(query.path)
    assert not open_below(query.path)
    assert found["totals"]["logs"] == len(found["logs"]) == 48
    assert found["totals"]["versions"] == 96
    text = run("verify", query.path).output
    assert "48 logs without a fault are not listed" in text
    (made.segments(query.folder(7, JOIN[2]))[0]).unlink()
    text = run("verify", query.path).output
    assert "operator 0 (join), partition 7, right-keyToNumValues" in text
    assert "47 logs without a fault are not listed" in text


def test_versions_that_are_forgotten_meanwhile_are_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at Spark's commits and that at the logs the query goes on for a while."""
    path = tmp_path / "c"
    query = MadeCheckpoint(path, places.KEY, places.VALUE, format=2)
    for batch in range(3):
        query.batch({(1,): (batch,)}, {(2,): (batch,)})
    real = SparkFiles.check

    def check(self: SparkFiles) -> None:
        real(self)
        query.roll()
        for batch in range(3):
            query.batch({(1,): (batch,)}, {(2,): (batch,)})
            for log in ("offsets", "commits"):
                (path / log / str(batch)).unlink()
        for partition in (0, 1):
            made.segments(query.folder(partition))[0].unlink()

    monkeypatch.setattr(SparkFiles, "check", check)
    found = document(path)
    assert found["batches"] == {"first": 3, "last": 5}


def test_beside_a_query_that_runs_all_is_well(tmp_path: Path) -> None:
    """Batches come, Spark forgets the oldest ones, and maintenance segments."""
    path, stop = tmp_path / "c", threading.Event()
    query = MadeCheckpoint(path, places.KEY, places.VALUE, format=2)
    failed: list[BaseException] = []

    def go() -> None:
        try:
            while not stop.is_set():
                query.batch({(n,): (query.batches,) for n in range(5)}, {(9,): (query.batches,)})
                if query.batches % 3 == 0:
                    query.roll()
                for log in ("offsets", "commits"):
                    (path / log / str(query.batches - 8)).unlink(missing_ok=True)
                for partition in (0, 1):  # every key is written anew in each batch
                    for file in made.segments(query.folder(partition))[:-6]:
                        file.unlink()
        except BaseException as error:
            failed.append(error)
            raise

    query.batch({(1,): (0,)}, {(9,): (0,)})
    writer = threading.Thread(target=go)
    writer.start()
    looks = 0
    try:
        while (query.batches < 60 or looks < 3) and not failed:
            found = verify_place(place_at(path))
            assert found.faults == (), found.faults[:2]
            looks += 1
    finally:
        stop.set()
        writer.join()
    assert not failed


# -- what is read -----------------------------------------------------------------------------


def test_what_spark_notes_of_columns_is_read_once_for_all_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = ("left-keyToNumValues", "right-keyToNumValues")
    query = MadeCheckpoint(tmp_path / "c", KEY, VALUE, stores)
    query.batch({("a", 1): (1, "x")}, {("b", 1): (1, "x")})
    query.close()
    asked = []
    read = decoder_of
    monkeypatch.setattr(
        "cec_store.inspector.places.places.decoder_of",
        lambda folder: asked.append(folder.path) or read(folder),
    )
    assert len(place_at(tmp_path / "c").logs) == 4
    found = verify_place(place_at(tmp_path / "c"), deep=True)
    assert found.is_sound
    assert [path.removeprefix(str(tmp_path)) for path in sorted(asked)] == [
        f"/c/state/0/0/{store}" for store in stores
    ]


def test_a_number_far_away_is_one_run_that_is_missing(tmp_path: Path) -> None:
    """As of a file that somebody has named after a day."""
    made_here, _, _ = grown(tmp_path / "c", batches=4)
    for number in (7, 20_261_130):
        shutil.copy(tmp_path / "c" / "offsets" / "3", tmp_path / "c" / "offsets" / str(number))
    began_s = time.process_time()
    faults = {
        (fault["path"].removeprefix(str(made_here.path)), fault["what"])
        for fault in document(made_here.path, status=1)["faults"]
    }
    assert ("/offsets/4", "batches 4 to 6 are missing here") in faults
    assert ("/offsets/8", "batches 8 to 20261129 are missing here") in faults
    assert ("/commits/4", "batches 4 to 20261129 are missing here") in faults
    assert time.process_time() - began_s < 20  # each number alone took minutes


def test_checksums_of_one_large_piece_are_no_order_to_read_beyond_a_file(tmp_path: Path) -> None:
    """Their size of a piece is what the file says: it may be damaged."""
    made_here, _, _ = grown(tmp_path / "c", batches=2)
    file = made_here.path / "metadata"
    data = file.read_bytes()
    for piece in (2**31 - 1, 2**32 - 1):
        text = b"crc\0" + piece.to_bytes(4, "big") + zlib.crc32(data).to_bytes(4, "big")
        (made_here.path / ".metadata.crc").write_bytes(text)
        assert document(made_here.path)["sound"]


def test_every_bit_of_a_zip_is_read_or_named(tmp_path: Path) -> None:
    """A snapshot of Spark's own RocksDB store: what zipfile raises depends on the place."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("metadata", 'v1\n{"sstFiles":[],"logFiles":[],"numKeys":3}')
        written.writestr("CURRENT", "MANIFEST-000005\n")
    data = archive.getvalue()
    named: list[str] = []
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / "1.zip").write_bytes(damaged)
        try:
            read_snapshot(LocalFolder(str(tmp_path)), "1.zip")
        except CorruptLog as error:
            named.append(str(error))
    assert len(named) > 100
    assert all("1.zip" in text for text in named)


# -- text -------------------------------------------------------------------------------------


def pin(name: str, text: str, folder: Path) -> None:
    text = text.replace(str(folder), "PLACE")
    text = re.sub(r"[0-9]{20}\.seg", "SEGMENT", text)
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("CEC_SNAPSHOTS") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("damages", [(), ("body", "partition_lost", "offsets_cut")])
def test_text_of_a_checkpoint_is_as_pinned(tmp_path: Path, damages: tuple[str, ...]) -> None:
    path = places.checkpoint(tmp_path / "c")
    if damages:
        places.checkpoint_offsets_cut(path)
        file = made.segments(places.state(path, 0))[-1]
        made.flip(file, places.batch_at(file, 2) + 130)
        places.checkpoint_partition_lost(path)
    before = state_of(path)
    result = run("verify", path)
    assert state_of(path) == before
    assert result.exit_code == bool(damages)
    pin("verify-checkpoint-damaged" if damages else "verify-checkpoint", result.output, path)
