"""The report of a cluster: from a look that was saved, to figures, a page, and what is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cec_store.cli import app
from cec_store.connectors import spark
from cec_store.connectors.spark.executors.saved import read_saved
from cec_store.errors import SparkUnavailable
from support.command_line.json_schemas import check
from support.places.reported_places import HOSTILE
from support.processes.chromium import Chromium, browser
from support.spark.driver_double import (
    QUERY,
    DriverDouble,
    event,
    executor,
    migration,
    partition,
    replica,
)

DESK, PHONE = (1280, 900), (360, 740)


def moved(number: int, **more: object) -> dict[str, Any]:
    done = {"state": "done", "located_ms": 2_500, "done_ms": 3_000, "version": 17}
    return migration(number, number % 3, "1", **{**done, **more})


def cluster_of_three() -> DriverDouble:
    driver = DriverDouble(
        executors=[executor("0"), executor("1"), executor("10", state="draining")],
        assignments=[partition(0, "0"), partition(1, "1"), partition(2, None, state_bytes=1 << 20)],
        replicas=[
            replica(0, "1"),
            replica(1, "0", lag_versions=0, version=17),
            replica(2, "1", state="no_room", version=-1, lag_versions=None, reason="it is full"),
        ],
        migrations=[
            moved(0, is_from_replica=True, records_read=1_200, load_ms=7),
            moved(1, protocol="direct", records_read=20_000, load_ms=400),
            moved(2, protocol="direct", records_read=20_000, load_ms=600),
            migration(3, 1, "9", state="failed", reason="executor 9 is gone", done_ms=1_500),
        ],
    )
    driver.happened = [
        event(7, "executor_joined", "1"),
        event(8, "owned", "1", of=1, **{"from": "0"}),
        event(9, "move_failed", "9", of=1, move=3, reason="executor 9 was killed"),
    ]
    driver.ends_as = {}  # they stay as they are
    return driver


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def document_of(driver: DriverDouble, folder: Path) -> Any:
    spark.cluster(driver.session()).save(folder / "look.json")
    result = run("--cluster", folder / "look.json", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    check("cluster", document)
    return document


def test_what_was_saved_is_what_there_was(tmp_path: Path) -> None:
    cluster = spark.cluster(cluster_of_three().session())
    cluster.save(tmp_path / "look.json")
    found = read_saved(tmp_path / "look.json")
    assert found.snapshot == cluster.snapshot()
    assert [each.kind for each in found.events] == ["executor_joined", "owned", "move_failed"]
    assert (found.names, found.application) == ({QUERY: "counts"}, "an application")


def test_figures(tmp_path: Path) -> None:
    document = document_of(cluster_of_three(), tmp_path)
    assert document["totals"] == {
        "executors": 3, "partitions": 3, "rows": 3_000, "state_bytes": 7 << 20,
        "replica_bytes": 3 << 20, "without_owner": 1, "covered": 2, "lag_versions_max": 1,
        "moves_done": 3, "moves_failed": 1, "moves_running": 0,
    }  # fmt: skip
    names = ("executor", "owns", "replicas", "warm_replicas")
    owners = [tuple(each[name] for name in names) for each in document["executors"]]
    assert owners == [("0", 1, 1, 1), ("1", 1, 2, 1), ("10", 0, 0, 0)]
    assert [each["takeover"] for each in document["partitions"]] == [
        {"executor": "1", "lag_versions": 1},
        {"executor": "0", "lag_versions": 0},
        None,
    ]
    # A second for 40,000 records, and each partition has 1,000.
    assert {each["cold_load_us"] for each in document["partitions"]} == {25_000}
    names = ("protocol", "is_from_replica", "moves", "load_us_median")
    costs = [tuple(each[name] for name in names) for each in document["costs"]]
    assert costs == [("cpal", True, 1, 7_000), ("direct", False, 2, 500_000)]
    assert [each["took_us"] for each in document["moves"]] == [2_000_000] * 3 + [500_000]
    assert [each["number"] for each in document["events"]] == [7, 8, 9]
    assert [each["at_us"] for each in document["events"]] == [7_000_000, 8_000_000, 9_000_000]
    assert document["events"][0]["partition"] is None
    key = {"query": "counts", "run_id": QUERY, "operator": 0, "partition": 1}
    assert [each["partition"] for each in document["events"][1:]] == [key, key]
    assert (document["events"][1]["from"], document["events"][2]["move"]) == ("0", 3)


def test_before_anything_has_happened(tmp_path: Path) -> None:
    driver = DriverDouble(executors=[executor("0")])
    driver.wanted = "replicas=1 needs 2 executors, there is 1"
    document = document_of(driver, tmp_path)
    assert document["shortage"] == driver.wanted
    assert (document["partitions"], document["moves"], document["costs"]) == ([], [], [])


def test_a_look_takes_the_place_of_the_last_one_and_fails_without_a_trace(tmp_path: Path) -> None:
    driver = cluster_of_three()
    cluster = spark.cluster(driver.session())
    cluster.save(tmp_path / "look.json")
    driver.lists["assignments"].pop()
    cluster.save(tmp_path / "look.json")
    assert len(read_saved(tmp_path / "look.json").snapshot.partitions) == 2
    before = (tmp_path / "look.json").read_bytes()
    driver.is_up = False
    with pytest.raises(SparkUnavailable):
        cluster.save(tmp_path / "look.json")
    assert (tmp_path / "look.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["look.json"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no look at a cluster"),
        (b"\xff\xfe", "no look at a cluster"),
        (b"[1]", "no look at a cluster"),
        (b'{"format": "other"}', "no look at a cluster"),
        (b'{"format": "cec-store cluster", "version": 2}', "a newer cec-store reads it"),
        (b'{"format": "cec-store cluster", "version": 1, "taken_us": 1}', "not whole"),
    ],
)
def test_files_that_are_no_look(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "look.json").write_bytes(content)
    result = run("--cluster", tmp_path / "look.json", "-o", tmp_path / "page.html")
    assert result.exit_code == 2
    assert words in " ".join(result.output.replace("│", " ").split())
    assert not (tmp_path / "page.html").exists()


def test_options_of_a_place_and_pages_that_are_there(tmp_path: Path) -> None:
    spark.cluster(cluster_of_three().session()).save(tmp_path / "look.json")
    assert run("--cluster", tmp_path / "look.json", "--version", 3).exit_code == 2
    assert run("--cluster", tmp_path / "look.json", "--storage-option", "a=b").exit_code == 2
    assert run("--cluster", tmp_path / "none.json").exit_code == 2
    page = tmp_path / "page.html"
    page.write_text("mine")
    assert run("--cluster", tmp_path / "look.json", "-o", page).exit_code == 2
    assert page.read_text() == "mine"
    result = run("--cluster", tmp_path / "look.json", "-o", page, "--force")
    assert result.exit_code == 0
    said = "If an executor were lost now, 1 of 3 partitions would have to be loaded from the log"
    assert said in result.output.replace("\n", " ")


# -- in a browser ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


def page_of(driver: DriverDouble, folder: Path) -> Path:
    spark.cluster(driver.session()).save(folder / "look.json")
    assert run("--cluster", folder / "look.json", "-o", folder / "page.html").exit_code == 0
    return folder / "page.html"


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_page_says_it_all(tab: Chromium, size: tuple[int, int], tmp_path: Path) -> None:
    page = page_of(cluster_of_three(), tmp_path)
    tab.open(page, *size)
    assert tab.complaints() == []
    assert tab.requests() == [page.as_uri()], "the page and nothing else"
    assert tab.value("document.documentElement.dataset.errors") is None
    said = tab.value("document.body.innerText")
    for words in (
        "an application",
        "1 of 3 partitions would have to be loaded from the log: no warm replica.",
        "partition 2: the replica on executor 1 is no room: it is full",
        "10 (leaves)",
        "1, after 1 version",
        "0, at once",
        "anybody, who loads all of it",
        "about 25 ms",
        "executor 9 is gone",
        "executor joined",
        "executor 9 was killed",
    ):
        assert words in said, words
    points = (
        "[...document.querySelectorAll('canvas')].map((each) =>"
        " Chart.getChart(each).data.datasets.map((one) => one.data.length))"
    )
    assert tab.value(points) == [[3, 3], [1, 2]]
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert tab.value(overflow) == 0


def test_a_page_of_a_cluster_without_queries(tab: Chromium, tmp_path: Path) -> None:
    tab.open(page_of(DriverDouble(executors=[executor("0")]), tmp_path), *DESK)
    assert tab.complaints() == []
    said = tab.value("document.body.innerText")
    assert "No query has opened state yet." in said
    assert "Nothing has moved on purpose." in said
    assert "Nothing has happened yet." in said


def test_words_that_mean_harm_are_shown_and_do_nothing(tab: Chromium, tmp_path: Path) -> None:
    driver = DriverDouble(
        executors=[executor("0", host=HOSTILE[0])],
        assignments=[partition(0, HOSTILE[1])],
        replicas=[replica(0, HOSTILE[4], state="failing", reason=HOSTILE[0])],
        migrations=[migration(0, 0, HOSTILE[2], state="failed", reason=HOSTILE[1])],
    )
    driver.happened = [event(1, "orphaned", HOSTILE[3], of=0, reason=HOSTILE[4])]
    driver.wanted = HOSTILE[5]
    tab.open(page_of(driver, tmp_path), *DESK)
    assert tab.complaints() == []
    assert tab.value("document.title").endswith("cec-store report")
    assert tab.value("document.querySelectorAll('img').length") == 0
    assert HOSTILE[0] in tab.value("document.body.innerText")
