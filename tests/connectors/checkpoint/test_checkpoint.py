"""Spark's checkpoint directory, read without Spark: what is there, and all that may be wrong."""

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from cec_store import CecError, CorruptLog, NotACheckpoint, OutOfRange, UnsupportedVersion
from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.checkpoint.state_schema import read_state_schema
from support.places.checkpoints import JOIN, Made, began_us, tree_of, write


@pytest.fixture
def made(tmp_path: Path) -> Made:
    made = Made(tmp_path / "checkpoint", partitions=3)
    made.run(4)
    return made


def test_batches_are_those_with_offsets_and_a_commit(made: Made) -> None:
    checkpoint = Checkpoint(made.path)
    assert checkpoint.committed_batches() == [0, 1, 2, 3]
    made.plan()  # the next one runs
    assert checkpoint.committed_batches() == [0, 1, 2, 3]
    assert checkpoint.logged_batches() == [0, 1, 2, 3, 4]
    (made.path / "offsets" / "0").unlink()  # commits are purged a little later
    assert checkpoint.committed_batches() == [1, 2, 3]
    assert checkpoint.newest_batch() == 3


def test_batches_are_numbers_and_not_texts(made: Made) -> None:
    made.run(7)
    assert Checkpoint(made.path).committed_batches() == list(range(11))


@pytest.mark.parametrize("name", [".0.crc", ".9.tmp", "9.compact", "9.tmp", "x", "٣", "-1", "1_0"])
def test_a_leftover_is_no_batch(made: Made, name: str) -> None:
    for log in ("offsets", "commits"):
        (made.path / log / name).write_bytes(b"?")
    checkpoint = Checkpoint(made.path)
    assert checkpoint.committed_batches() == [0, 1, 2, 3]


def test_a_moment_is_the_last_batch_begun_by_then(made: Made) -> None:
    checkpoint = Checkpoint(made.path)
    for batch in range(4):
        assert checkpoint.batch_at(began_us(batch)) == batch
        assert checkpoint.batch_at(began_us(batch + 1) - 1) == batch
    assert checkpoint.batch_at(2**62) == 3
    assert checkpoint.batch_at(datetime(2026, 1, 1, 0, 0, 15, tzinfo=timezone.utc)) == 1


def test_a_batch_that_is_not_committed_is_at_no_moment(made: Made) -> None:
    made.plan()
    assert Checkpoint(made.path).batch_at(2**62) == 3


def test_a_moment_before_all_that_is_kept_is_refused_with_the_earliest(made: Made) -> None:
    for log in ("offsets", "commits"):
        (made.path / log / "0").unlink()
    with pytest.raises(OutOfRange, match=r"earliest is batch 1, at 2026-01-01T00:00:10Z"):
        Checkpoint(made.path).batch_at(began_us(1) - 1)


def test_a_query_that_has_committed_nothing_has_no_newest_batch(tmp_path: Path) -> None:
    made = Made(tmp_path / "checkpoint")
    made.plan()
    checkpoint = Checkpoint(made.path)
    assert checkpoint.committed_batches() == []
    for ask in (checkpoint.newest_batch, lambda: checkpoint.batch_at(2**62)):
        with pytest.raises(OutOfRange, match="committed no batch yet"):
            ask()


def test_offsets_say_time_settings_and_places(made: Made) -> None:
    offsets = Checkpoint(made.path).offsets(2)
    assert offsets.timestamp_us == began_us(2)
    assert offsets.conf == made.conf
    assert offsets.sources == {"0": '{"logOffset":2}', "1": '{"topic":{"0":19}}'}


def test_a_source_that_has_not_begun_has_no_place(made: Made) -> None:
    write(made.path / "offsets" / "4", 'v1\n{"batchTimestampMs":1}\n-\n5')
    assert Checkpoint(made.path).offsets(4).sources == {"0": None, "1": "5"}


def test_sources_with_names_stand_under_their_names(made: Made) -> None:
    """Version 2, which Spark writes where sources may come and go."""
    write(made.path / "offsets" / "4", 'v2\n{"batchTimestampMs":1}\norders:{"a":1}\nclicks:-')
    offsets = Checkpoint(made.path).offsets(4)
    assert offsets.sources == {"orders": '{"a":1}', "clicks": None}


def test_every_store_of_every_partition_has_a_folder(tmp_path: Path) -> None:
    made = Made(tmp_path / "checkpoint", stores=JOIN, partitions=11)
    made.run(1)
    found = Checkpoint(made.path).state_folders()
    assert [state[:3] for state in found] == [(0, p, store) for p in range(11) for store in JOIN]
    for state in found:
        assert Path(state.folder.path) == made.path / "state" / "0" / str(state.partition) / (
            state.store
        )
        assert len(state.folder.names()) == 2  # a segment, and Spark's schema


def test_operators_can_be_asked_for_by_number(made: Made) -> None:
    write(made.path / "state" / "10" / "0" / "_metadata" / "schema", "")
    write(made.path / "state" / "2" / "0" / "_metadata" / "schema", "")
    checkpoint = Checkpoint(made.path)
    numbers = [0, 0, 0, 2, 10]
    assert [state.operator for state in checkpoint.state_folders()] == numbers
    assert [state[:3] for state in checkpoint.state_folders(10)] == [(10, 0, "default")]
    assert checkpoint.state_folders(7) == []


def test_a_lost_folder_is_listed_with_the_others(tmp_path: Path) -> None:
    made = Made(tmp_path / "checkpoint", stores=JOIN, partitions=3)
    made.run(1)
    (made.path / "state" / "0" / "1").rename(tmp_path / "away")
    (made.path / "state" / "0" / "2" / JOIN[1]).rename(tmp_path / "away too")
    found = [state[:3] for state in Checkpoint(made.path).state_folders()]
    assert found == [(0, p, store) for p in range(3) for store in JOIN]


def test_operator_of_which_every_partition_is_lost_is_listed_with_one(tmp_path: Path) -> None:
    made = Made(tmp_path / "checkpoint", partitions=2)
    made.run(1)
    write(made.path / "state" / "0" / "_metadata" / "metadata", "")
    for partition in ("0", "1"):
        (made.path / "state" / "0" / partition).rename(tmp_path / partition)
    found = [state[:3] for state in Checkpoint(made.path).state_folders()]
    assert found == [(0, 0, "default")]


@pytest.mark.parametrize("stores", [("default",), JOIN])
def test_stray_folder_in_a_partition_is_no_store(tmp_path: Path, stores: tuple[str, ...]) -> None:
    made = Made(tmp_path / "checkpoint", stores=stores, partitions=2)
    made.run(1)
    for name in ("old", "@eaDir"):
        (made.path / "state" / "0" / "1" / name).mkdir()
    found = [state[:3] for state in Checkpoint(made.path).state_folders()]
    assert found == [(0, p, store) for p in range(2) for store in stores]


def test_a_query_without_state_has_no_folders(made: Made, tmp_path: Path) -> None:
    (made.path / "state").rename(tmp_path / "away")
    assert Checkpoint(made.path).state_folders() == []


def test_unique_ids_are_those_of_the_commit(tmp_path: Path) -> None:
    made = Made(tmp_path / "checkpoint", version=2, stores=JOIN)
    made.run(3)
    checkpoint = Checkpoint(made.path)
    for batch in range(3):
        for (partition, store), state in made.states.items():
            due = state.made[batch + 1].unique_id
            assert checkpoint.unique_id(batch, 0, partition, store) == due
    for wrong in ((1, 0, JOIN[0]), (0, 2, JOIN[0]), (0, 0, "default")):
        with pytest.raises(OutOfRange, match="commits/1: names no state of operator"):
            checkpoint.unique_id(1, *wrong)


def test_format_v1_has_no_unique_ids(made: Made) -> None:
    assert Checkpoint(made.path).unique_id(2, 0, 1, "default") is None


def test_a_batch_that_is_not_there_is_refused(made: Made) -> None:
    checkpoint = Checkpoint(made.path)
    for ask in (checkpoint.offsets, checkpoint.commit):
        with pytest.raises(OutOfRange, match="batch 4 is not kept"):
            ask(4)


def test_the_query_is_named_as_spark_names_it(made: Made) -> None:
    assert Checkpoint(made.path).query_id == "46ec949f-30e1-46fd-a299-3291543c1296"


# -- no checkpoint, damage ----------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["offsets", "everything"])
def test_no_checkpoint_is_refused(made: Made, tmp_path: Path, lost: str) -> None:
    (made.path if lost == "everything" else made.path / lost).rename(tmp_path / "away")
    with pytest.raises(NotACheckpoint, match="no checkpoint of a Spark query here") as caught:
        Checkpoint(made.path)
    assert isinstance(caught.value, FileNotFoundError)
    assert str(made.path) in str(caught.value)


def test_a_checkpoint_without_its_metadata_is_damaged_and_not_gone(made: Made) -> None:
    """State and batches are there, so what they say can be read; the query has lost its name."""
    (made.path / "metadata").unlink()
    assert Checkpoint(made.path).newest_batch() == Checkpoint(made.path).committed_batches()[-1]
    with pytest.raises(CorruptLog, match=r"metadata: .*missing"):
        _ = Checkpoint(made.path).query_id


def test_a_state_store_is_no_checkpoint(made: Made) -> None:
    with pytest.raises(NotACheckpoint):
        Checkpoint(made.path / "state" / "0" / "1")


OFFSETS = '{"batchWatermarkMs":0,"batchTimestampMs":5,"conf":{"a":"b"}}\n{"logOffset":2}'
COMMIT = '{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["x"]]}}'


@pytest.mark.parametrize(
    ("log", "text"),
    [
        *(
            (log, text)
            for log in ("offsets", "commits")
            for text in ("", "v", "1\n{}", "vx\n{}", "v1", "v1\n", "v1\n[]", "v1\n{", "v1\n1")
        ),
        ("offsets", "v1\n{}"),
        ("offsets", 'v1\n{"batchTimestampMs":"5"}'),
        ("offsets", 'v1\n{"batchTimestampMs":true}'),
        ("offsets", 'v1\n{"batchTimestampMs":5,"conf":[]}'),
        ("offsets", 'v2\n{"batchTimestampMs":5}\nno colon'),
        ("commits", 'v2\n{"stateUniqueIds":[]}'),
        ("commits", 'v2\n{"stateUniqueIds":{"a":[]}}'),
        ("commits", 'v2\n{"stateUniqueIds":{"0":["x"]}}'),
        ("commits", 'v2\n{"stateUniqueIds":{"0":[[1]]}}'),
    ],
)
def test_a_file_that_spark_did_not_write_so_is_damage(made: Made, log: str, text: str) -> None:
    write(made.path / log / "2", text)
    checkpoint = Checkpoint(made.path)
    with pytest.raises(CorruptLog) as caught:
        checkpoint.offsets(2) if log == "offsets" else checkpoint.commit(2)
    assert caught.value.path == str(made.path / log / "2")
    assert "restore it from a copy" in str(caught.value)


@pytest.mark.parametrize(("log", "later"), [("offsets", 3), ("commits", 4)])
def test_a_later_format_is_refused_as_such(made: Made, log: str, later: int) -> None:
    write(made.path / log / "2", f"v{later}\nanything")
    checkpoint = Checkpoint(made.path)
    said = f"format v{later}, newer than this release knows"
    with pytest.raises(UnsupportedVersion, match=said):
        checkpoint.offsets(2) if log == "offsets" else checkpoint.commit(2)


def test_a_commit_that_names_its_sinks_is_read(tmp_path: Path) -> None:
    made = Made(tmp_path / "checkpoint", version=2)
    made.run(2)
    file = made.path / "commits" / "1"
    version, said = file.read_text().split("\n")
    assert version == "v2"
    sinks = {"out": {"sinkMetadata": "noop"}}
    write(file, "v3\n" + json.dumps({**json.loads(said), "sinkMetadataMap": sinks}))
    for (partition, store), state in made.states.items():
        due = state.made[2].unique_id
        assert Checkpoint(made.path).unique_id(1, 0, partition, store) == due


def test_no_version_at_all_is_damage(made: Made) -> None:
    for text in ("v0\n{}", "3\n{}", "v\n{}"):
        write(made.path / "commits" / "2", text)
        with pytest.raises(CorruptLog, match="is no version"):
            Checkpoint(made.path).commit(2)


@pytest.mark.parametrize("later", ["metadata", "folder"])
def test_metadata_of_a_later_spark_is_no_damage(made: Made, later: str) -> None:
    operator = made.path / "state" / "0"
    if later == "metadata":
        write(operator / "_metadata" / "metadata", "v2\n{}")
    else:
        (operator / "_metadata" / "v3").mkdir()
    folder = Checkpoint(made.path).operator_folder(0)
    with pytest.raises(UnsupportedVersion, match="newer than this release knows"):
        read_state_schema(folder, "default")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"id":1}', "\x00"])
def test_a_damaged_name_is_refused(made: Made, text: str) -> None:
    write(made.path / "metadata", text)
    with pytest.raises(CorruptLog, match="metadata"):
        _ = Checkpoint(made.path).query_id


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_any_wound_is_one_of_our_errors_or_none(made: Made, log: str) -> None:
    whole = f"v2\n{OFFSETS if log == 'offsets' else COMMIT}".encode()
    refused = 0
    cuts = [whole[:place] for place in range(len(whole))]
    flips = [
        bytes([*whole[:place], whole[place] ^ 0x80, *whole[place + 1 :]])
        for place in range(len(whole))
    ]
    for wound in cuts + flips:
        (made.path / log / "2").write_bytes(wound)
        checkpoint = Checkpoint(made.path)
        try:
            checkpoint.offsets(2) if log == "offsets" else checkpoint.commit(2)
        except CecError:
            refused += 1
    assert refused > len(whole), "every flip is no UTF-8, and most cuts are no JSON"


def test_deeply_nested_words_are_damage(made: Made) -> None:
    write(made.path / "commits" / "2", "v1\n" + "[" * 100_000)
    with pytest.raises(CorruptLog):
        Checkpoint(made.path).commit(2)


def test_reading_writes_nothing(made: Made) -> None:
    before = tree_of(made.path)
    checkpoint = Checkpoint(made.path)
    checkpoint.batch_at(2**62)
    checkpoint.state_folders()
    checkpoint.unique_id(1, 0, 0, "default")
    assert json.loads((made.path / "metadata").read_text())["id"] == checkpoint.query_id
    assert tree_of(made.path) == before
    assert len(before) > 20
