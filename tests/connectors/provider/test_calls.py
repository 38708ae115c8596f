"""The provider, call by call: what it gives back, and what it says to calls that are wrong."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from support.places.key_directories import verify_directories
from support.spark.jvm import CHECKED, OURS, ROCKSDB, STORE, run_jvm

CHANGELOG = {f"{STORE}.rocksdb.changelogCheckpointing.enabled": "true"}

# Calls that Spark's own store takes or refuses in a way that is its business alone.
OWN_WORDS = {
    "load a version that is not there",  # ours says which file and version
    "load a version below zero",
    "create a family of blanks",
}


@pytest.mark.crash
def test_random_calls_give_what_a_map_gives(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """With column families, checkpoint format V2 and maintenance, and without, in any mixture."""
    seeds = crash_count(4, 200)
    found = run_jvm(
        "model", root=tmp_path, every=True, tight=True, until=seeds, counted=True,
        timeout_s=120 + 20 * seeds,
    )  # fmt: skip
    assert len(found) == 8
    for each in found.values():
        assert each["seeds"] == seeds
        assert each["calls"] > 300 * seeds
        assert each["commits"] > 10 * seeds
        assert each["aborts"] > seeds
        assert each["back"] > seeds, "older versions were hardly ever opened"
        assert each["renewed"] > seeds, "footprints were hardly ever written again"
        assert each["local"] > 1000 * seeds, "rows were hardly ever put into local files"
    assert sum(each["renewed"] for each in found.values()) > 100 * seeds * len(found)


@pytest.mark.crash
@pytest.mark.parametrize("families", [True, False], ids=["families", "one family"])
def test_random_calls_give_what_a_map_gives_after_loads_by_key_directories(
    tmp_path: Path, crash_count: Callable[[int, int], int], families: bool
) -> None:
    """Keys that look alike, versions that are taken back, rows in blocks of a key or two."""
    seeds = crash_count(8, 1_000)
    found = run_jvm(
        "model", root=tmp_path, families=families, v2="both", maintenance=True, directories=True,
        tight=True, until=seeds, counted=True, settings=CHECKED,
        timeout_s=120 + 10 * seeds,
    )  # fmt: skip
    assert found["seeds"] == seeds
    assert found["refused"] == 0
    # Stores whose keys are in order have none.
    assert 2 * found["directories"] > seeds
    assert 2 * found["byDirectory"] > seeds
    assert found["blocks"] > 5 * seeds
    assert verify_directories(tmp_path) > seeds / 6


@pytest.mark.crash
@pytest.mark.parametrize("provider", [OURS, ROCKSDB], ids=["ours", "rocksdb"])
def test_random_calls_in_avro_give_what_a_map_gives(
    tmp_path: Path, crash_count: Callable[[int, int], int], provider: str
) -> None:
    """All kinds of keys, in order and in none, with one value and with several."""
    seeds = crash_count(2 if provider == OURS else 0, 100)
    if not seeds:
        pytest.skip("at full size only: it proves the model, which does not change")
    settings = {f"{STORE}.encodingFormat": "avro", **(CHANGELOG if provider == ROCKSDB else {})}
    found = run_jvm(
        "model", root=tmp_path, provider=provider, families=True, v2=True, maintenance=True,
        tight=True, until=seeds, settings=settings, timeout_s=240 + 60 * seeds,
    )  # fmt: skip
    assert found["calls"] > 300 * seeds
    assert found["commits"] > 10 * seeds
    assert found["aborts"] > seeds


@pytest.mark.crash
def test_random_calls_agree_with_sparks_own_store(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """The model is not of our making alone: RocksDB passes it too."""
    seeds = crash_count(0, 20)
    if not seeds:
        pytest.skip("at full size only: it proves the model, which does not change")
    found = run_jvm(
        "model", root=tmp_path, provider=ROCKSDB, families=True, v2=True,
        until=seeds, settings=CHANGELOG, timeout_s=120 + 20 * seeds,
    )  # fmt: skip
    assert found["calls"] > 300 * seeds


def test_misuse_is_refused_where_spark_refuses_it(tmp_path: Path) -> None:
    ours = run_jvm("misuse", root=tmp_path / "ours", provider=OURS)
    sparks = run_jvm("misuse", root=tmp_path / "sparks", provider=ROCKSDB)
    assert len(sparks) > 30
    refused = {name for name, said in sparks.items() if said != "ok"} - OWN_WORDS
    assert refused, "Spark's store takes everything"
    assert {name for name in refused if ours.get(name) == "ok"} == set()
    taken = {name for name, said in sparks.items() if said == "ok"}
    assert {name: ours[name] for name in taken if ours[name] != "ok"} == {}
    assert ours["load a version that is not there"] != "ok"
    assert ours["load a version below zero"] != "ok"
