"""What is said of checkpoints that Spark's own providers keep: sizes, what is missing, contents."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from cec_store.connectors import spark as cec_spark
from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from support.command_line import json_schemas
from support.command_line.verify import document, run, state_of
from support.processes.chromium import Chromium, browser
from support.processes.drawn import DESK, PHONE, check_drawn
from support.spark.moves import Leg, go
from support.spark.queries import QUERIES
from support.spark.runs import Job, Kept, Run
from support.spark.session import CEC, HDFS, ROCKSDB
from support.spark.transforms import evolving, run_life

PLACE = "spark.sql.streaming.stateStore."
CHANGELOG = {PLACE + "rocksdb.changelogCheckpointing.enabled": "true"}
SELDOM = {PLACE + "minDeltasForSnapshot": "3"}
STORES = {
    "hdfs": Kept(HDFS, 1, SELDOM),
    "rocksdb": Kept(ROCKSDB),
    "changelog": Kept(ROCKSDB, 1, {**CHANGELOG, **SELDOM}),
    "V2": Kept(ROCKSDB, 2),
    "V2 changelog": Kept(ROCKSDB, 2, {**CHANGELOG, **SELDOM}),
}
BATCHES = 5
FIRST = Path("state/0/0")


@pytest.fixture(scope="module")
def kept(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One of each store, of a count by key; nobody changes these."""
    folder = tmp_path_factory.mktemp("kept")
    return {
        name: go(
            spark, QUERIES["aggregate_update"], folder / name.replace(" ", "-"), each,
            [Leg(BATCHES)],
        ).checkpoints[0]
        for name, each in STORES.items()
    }  # fmt: skip


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(params=STORES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def copy(kept: dict[str, Path], name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept[name], tmp_path / "c"))


def shown(verb: str, *arguments: object, status: int = 0) -> Any:
    result = run(verb, *arguments, "--json")
    assert result.exit_code == status, result.output
    found = json.loads(result.stdout)
    json_schemas.check(verb, found)
    return found


def unique_id(checkpoint: Path, version: int) -> str:
    """What stands in the names of files of the first partition; empty with format V1."""
    found = Checkpoint(checkpoint).unique_id(version - 1, 0, 0, "default")
    return f"_{found}" if found else ""


def of_version(checkpoint: Path, version: int) -> list[Path]:
    """The files of one version of the first partition, without checksums."""
    folder = checkpoint / FIRST
    stem = f"{version}{unique_id(checkpoint, version)}"
    return sorted(p for p in folder.glob(f"{stem}.*") if p.suffix != ".crc")


# -- as it was written --------------------------------------------------------------------------


def test_a_restart_reads_the_newest_snapshot_and_the_changes_since(
    kept: dict[str, Path], name: str
) -> None:
    """Held against the names of the files, one by one."""
    path = kept[name]
    before = state_of(path)
    found = shown("extent", path)
    assert found["provider"] == STORES[name].provider
    assert found["version"] == BATCHES
    assert [each["partition"] for each in found["logs"]] == [0, 1]
    store = found["logs"][0]["store"]
    own = {p.name: p for p in (path / FIRST).iterdir() if p.suffix != ".crc" and p.is_file()}
    whole = (".snapshot", ".zip")
    snapshots = [v for v in range(1, BATCHES + 1) for p in of_version(path, v) if p.suffix in whole]
    load = store["restart"]
    assert load["snapshot_version"] == max(snapshots, default=None)
    assert load["change_files"] == BATCHES - max(snapshots, default=0)
    if name in ("rocksdb", "V2"):
        assert snapshots == [*range(1, BATCHES + 1)]
        assert load["keys"] > 0
    changes = [
        p.stat().st_size
        for version in range(max(snapshots, default=0) + 1, BATCHES + 1)
        for p in of_version(path, version)
        if p.suffix not in whole
    ]
    assert load["change_bytes"] == sum(changes)
    shared = [p for p in (path / FIRST).glob("*/*") if p.suffix in (".sst", ".log")]
    assert store["files"] == len(own) + len(shared)
    assert store["bytes"] == sum(p.stat().st_size for p in [*own.values(), *shared])
    assert found["restart_reads"]["bytes"] == sum(
        each["store"]["restart"]["snapshot_bytes"] + each["store"]["restart"]["change_bytes"]
        for each in found["logs"]
    )
    older = shown("extent", path, "--version", 2)["logs"][0]["store"]["restart"]
    assert older["version"] == 2
    assert state_of(path) == before


def test_a_sound_one_is_sound(kept: dict[str, Path], name: str) -> None:
    found = document(kept[name])
    assert found["faults"] == []
    assert [log["loadable"] for log in found["logs"]] == [{"first": 1, "last": BATCHES}] * 2
    assert run("verify", kept[name]).output.rstrip().endswith("sound")
    report = shown("report", kept[name])
    assert report["sound"]
    assert report["logs"][0]["store"]["restart"]["version"] == BATCHES


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_its_report_is_drawn_in_a_browser(
    kept: dict[str, Path], name: str, tab: Chromium, tmp_path: Path, size: tuple[int, int]
) -> None:
    page = tmp_path / "report.html"
    result = run("report", kept[name], "-o", page)
    assert result.exit_code == 0, result.output
    assert check_drawn(tab, page, size) == check_drawn(tab, page, size, dark=True)
    assert tab.value("document.querySelector('h1').textContent")
    assert "restart" in tab.value("document.body.innerText")


def test_before_and_after_a_move_stand_beside_each_other(
    spark: Any, kept: dict[str, Path], tmp_path: Path
) -> None:
    old, new = kept["rocksdb"], tmp_path / "new"
    cec_spark.adopt(spark, old, new)
    found = shown("extent", old, new)
    reads, other = found["restart_reads"], found["other"]["restart_reads"]
    assert reads["keys"] == other["keys"] > 0
    assert 0 < other["bytes"] <= other["bytes_there"]
    assert "beside each other" in run("extent", old, new).output
    assert run("extent", old, tmp_path / "none").exit_code == 2


# -- damaged ------------------------------------------------------------------------------------


def test_changes_that_are_missing_are_named_with_the_versions_they_cost(
    copy: Path, name: str
) -> None:
    """Version 2 has to be loaded from the changes of versions 1 and 2."""
    if name in ("rocksdb", "V2"):
        pytest.skip("it keeps no changes")
    [lost] = [p for p in of_version(copy, 2) if p.suffix in (".delta", ".changelog")]
    lost.unlink()
    found = document(copy, status=1)
    [fault] = found["faults"]
    assert (fault["kind"], fault["path"]) == ("state-file-missing", str(lost))
    assert fault["first_version"] == 2
    assert 2 <= fault["last_version"] < BATCHES or found["logs"][0]["loadable"]["last"] == 1


def test_a_snapshot_that_is_missing_is_named(copy: Path, name: str) -> None:
    if name not in ("rocksdb", "V2"):
        pytest.skip("the changes say the same")
    [lost] = of_version(copy, BATCHES)
    lost.unlink()
    [fault] = document(copy, status=1)["faults"]
    assert fault["kind"] == "state-file-missing"
    assert fault["path"].startswith(str(lost.with_suffix("")))
    assert (fault["first_version"], fault["last_version"]) == (BATCHES, BATCHES)
    result = run("extent", copy)
    assert result.exit_code == 1
    assert "the file is missing" in result.output


def test_a_file_that_a_zip_names_is_missed(copy: Path, name: str) -> None:
    shared = sorted((copy / FIRST).glob("SSTs/*.sst"))
    if not shared:
        pytest.skip("it shares no files")
    shared[0].unlink()
    faults = document(copy, status=1)["faults"]
    assert [(f["kind"], f["path"]) for f in faults] == [("state-file-missing", str(shared[0]))]


@pytest.mark.parametrize("provider", [ROCKSDB, CEC], ids=["rocksdb", "cec"])
def test_a_transforms_last_partition_is_missed_when_it_is_gone(
    spark: Any, tmp_path: Path, provider: str
) -> None:
    """Its variables' schemas count no partitions: the offset log does."""
    job = Job(evolving("first"), tmp_path, Kept(provider))
    done = Run(tmp_path / "checkpoint")
    run_life(spark, job, 0, done)
    assert shown("verify", done.checkpoint)["sound"]
    shutil.rmtree(done.checkpoint / "state" / "0" / "1")
    found = shown("verify", done.checkpoint, status=1)
    lost = [each["path"] for each in found["faults"] if each["kind"] == "log-missing"]
    assert lost == [str(done.checkpoint / "state" / "0" / "1")]


@pytest.mark.parametrize("with_checksums", [True, False])
def test_a_file_that_is_cut_or_changed_is_named(
    copy: Path, name: str, with_checksums: bool
) -> None:
    """Every file of the first partition in turn; without checksums beside it, by what is in it."""
    seen = 0
    folder = copy / FIRST
    if not with_checksums:
        for checksum in folder.rglob("*.crc"):
            checksum.unlink()
    for file in sorted(p for p in folder.iterdir() if p.is_file() and p.suffix != ".crc"):
        if file.suffix == ".zip" and not with_checksums:
            assert file.stat().st_size > 100
        whole = file.read_bytes()
        damages = [whole[:-1], whole[: len(whole) // 2], b""]
        if with_checksums or file.suffix == ".zip":
            damages.append(whole[:-30] + bytes([whole[-30] ^ 1]) + whole[-29:])
        for damaged in damages:
            file.write_bytes(damaged)
            faults = document(copy, status=1)["faults"]
            assert str(file) in {fault["path"] for fault in faults}
            assert {fault["kind"] for fault in faults} <= {"spark-checksum", "state-file-damaged"}
            seen += 1
        file.write_bytes(whole)
    assert document(copy)["sound"]
    assert seen >= 3 * BATCHES


def test_what_spark_has_forgotten_is_no_fault(copy: Path, name: str) -> None:
    """Files are deleted from the oldest on, up to a snapshot; offsets may stay a while."""
    whole = {p.name for v in range(3, BATCHES + 1) for p in of_version(copy, v)
             if p.suffix in (".zip", ".snapshot")}  # fmt: skip
    if not whole:
        pytest.skip("no snapshot came in time")
    for version in range(1, min(int(n.split(".")[0].split("_")[0]) for n in whole)):
        for file in of_version(copy, version):
            file.unlink()
    found = document(copy)
    assert "are not here any more" in " ".join(note["what"] for note in found["notes"])


# -- read by Spark ------------------------------------------------------------------------------


def test_state_is_what_sparks_own_reader_says(spark: Any, kept: dict[str, Path], name: str) -> None:
    from support.spark.runs import format_of

    found = shown("state", kept[name])
    with format_of(spark, kept[name]):
        due = spark.read.format("statestore").load(str(kept[name])).toArrow().to_pylist()
    assert len(due) > 10
    assert sorted(map(str, found["rows"])) == sorted(
        str(json.loads(json.dumps(row, default=str))) for row in due
    )
    raw = shown("state", kept[name], "--raw", "--partition", 1)
    assert {row["family"] for row in raw["rows"]} == {1}


def test_versions_and_providers_are_compared_key_by_key(
    spark: Any, kept: dict[str, Path], name: str, tmp_path: Path
) -> None:
    found = shown("diff", kept[name], "--from", BATCHES - 1, "--to", BATCHES)
    assert found["totals"]["changed"] + found["totals"]["added"] > 0
    cec_spark.adopt(spark, kept[name], tmp_path / "new")
    same = shown("diff", kept[name], tmp_path / "new")
    assert same["equal"]
    assert same["totals"]["same"] > 10
