"""The provider, call by call: what it gives back, and what it says to calls that are wrong."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from spark_jvm import OURS, ROCKSDB, STORE, run_jvm

CHANGELOG = {f"{STORE}.rocksdb.changelogCheckpointing.enabled": "true"}

# Calls that Spark's own store takes or refuses in a way that is its business alone.
OWN_WORDS = {
    "load a version that is not there",  # ours says which file and version
    "load a version below zero",
    "create a family of blanks",
}


@pytest.mark.parametrize("maintenance", [False, True], ids=["still", "maintained"])
@pytest.mark.parametrize("v2", [False, True], ids=["V1", "V2"])
@pytest.mark.parametrize("families", [False, True], ids=["one-family", "families"])
def test_random_calls_give_what_a_map_gives(
    tmp_path: Path,
    crash_count: Callable[[int, int], int],
    families: bool,
    v2: bool,
    maintenance: bool,
) -> None:
    seeds = crash_count(12, 600)
    found = run_jvm(
        "model", root=tmp_path, families=families, v2=v2, maintenance=maintenance,
        until=seeds, counted=True, timeout_s=60 + 5 * seeds,
    )  # fmt: skip
    assert found["seeds"] == seeds
    assert found["calls"] > 300 * seeds
    assert found["commits"] > 10 * seeds
    assert found["aborts"] > seeds
    assert found["back"] > seeds, "older versions were hardly ever opened"


def test_random_calls_agree_with_sparks_own_store(tmp_path: Path) -> None:
    """The model is not of our making alone: RocksDB passes it too."""
    found = run_jvm(
        "model", root=tmp_path, provider=ROCKSDB, families=True, v2=True,
        until=2, settings=CHANGELOG,
    )  # fmt: skip
    assert found["calls"] > 600


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
