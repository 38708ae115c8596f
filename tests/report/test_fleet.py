"""The report of a fleet: from its folder to figures, a page in a browser, and what is refused."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cec_store.cli import app
from cec_store.standby.leases import leases_of
from support.command_line.json_schemas import check
from support.fleets.plain_spark import INPUTS, SHAPE
from support.fleets.walks import Walk
from support.places import damaged_queues as made
from support.processes.chromium import Chromium, browser

SIZES = [(1280, 900), (400, 800)]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def document_of(folder: Path) -> Any:
    before = hashes(folder)
    result = run(folder, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    check("fleet", document)
    assert hashes(folder) == before, "reading writes nothing"
    return document


def hashes(folder: Path) -> dict[str, str]:
    """Of all that is in it but the leases, in which a driver gives its signs of life."""
    rest = [path for path in folder.iterdir() if path.name != "leases"]
    return {path.name: made.hash_of(path) for path in rest if path.is_dir()} | {
        path.name: path.read_text() for path in rest if path.is_file()
    }


def begun(folder: Path) -> Walk:
    """A fleet with a global checkpoint, all of whose queries run."""
    walk = Walk(folder, 1)
    walk.now_s = time.time() - 600
    walk.until_checkpoint()
    return walk


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    """In the middle of a recovery: of four executors three were lost, and one has come."""
    walk = begun(tmp_path_factory.mktemp("fleets"))
    walk.fail()
    walk.come()
    walk.look()
    assert walk.driver.notes.situation.outage is not None
    for _ in range(8):
        walk.feed()
    return walk


@pytest.fixture(scope="module")
def folder(walk: Walk) -> Iterator[Path]:
    path = walk.folder / "fleet"
    with leases_of(path).hold("driver", holder="somebody"):
        yield path


def test_figures(walk: Walk, folder: Path) -> None:
    document = document_of(folder)
    assert (document["kind"], document["state"]) == ("fleet", "recovering")
    queries = {each["query"]: each for each in document["queries"]}
    assert queries.keys() == SHAPE.keys()
    queues = {Path(each["path"]).name: each for each in document["queues"]}
    assert queues.keys() == {*INPUTS, *SHAPE}
    for name, (reads, *_) in SHAPE.items():
        assert [Path(path).name for path in queries[name]["reads"]] == list(reads)
        assert queues[name]["writer"] == name
        assert queries[name]["level"] == 1 + max(queues[each]["level"] for each in reads)
        assert queues[name]["level"] == 1 + queries[name]["level"]
    assert {queues[name]["level"] for name in INPUTS} == {0}
    assert sum(queues[name]["end"] for name in INPUTS) == walk.rows
    totals = document["totals"]
    assert (totals["executors"], totals["cores"]) == (2, 2.0)
    assert totals["running"] + totals["held_back"] == totals["queries"] == len(SHAPE)
    assert totals["held_back"] > 0
    assert len(document["outage"]["arrivals_us"]) == 1
    assert document["checkpoints"][-1]["batches"].keys() == SHAPE.keys()


def test_what_is_still_to_be_read_is_what_no_batch_has_read(tmp_path: Path) -> None:
    walk = begun(tmp_path / "fleet-of-one-driver")
    for _ in range(40):  # until the first query has read all that has come in
        walk.look()
        walk.engine.step()
    before = document_of(walk.folder / "fleet")
    assert before["queries"][0]["records_waiting"] == 0
    rows, fed_us = walk.rows, time.time_ns() // 1000
    while walk.rows == rows:
        walk.feed()
    after = document_of(walk.folder / "fleet")
    readers = [each for each in after["queries"] if each["records_waiting"]]
    inputs = {each["path"]: each for each in after["queues"] if each["writer"] is None}
    assert {path for each in readers for path in each["reads"]} & inputs.keys()
    known = {each["path"]: each["end"] for each in before["queues"]}
    new = {path: each["end"] - known[path] for path, each in inputs.items()}
    waited = {each["query"]: each["records_waiting"] for each in before["queries"]}
    for each in after["queries"]:
        more = sum(new.get(path, 0) for path in each["reads"])
        assert each["records_waiting"] == waited[each["query"]] + more
        # The oldest of them: it came with the last feed only where none had waited before.
        since_us = each["waiting_since_us"]
        assert (since_us is None) == (each["records_waiting"] == 0)
        if since_us is not None:
            assert (since_us >= fed_us) is (waited[each["query"]] == 0)
    assert sum(new.values()) == walk.rows - rows


def test_the_first_sentence_says_who_waits_and_until_when(folder: Path) -> None:
    document = document_of(folder)
    held = [each for each in document["queries"] if each["state"] == "held back"]
    said = document["summary"]
    assert said.startswith(f"{len(SHAPE) - len(held)} of {len(SHAPE)} queries run. ")
    assert all(each["query"] in said for each in held)
    assert "for executors" in said
    last = max(each["expected_us"] for each in held)
    assert time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(last // 1_000_000)) in said


def test_a_stopped_fleet_and_one_whose_driver_is_silent_are_told_apart(tmp_path: Path) -> None:
    walk = begun(tmp_path / "stopped")
    folder = walk.folder / "fleet"
    with leases_of(folder).hold("driver", holder="somebody") as lease:
        assert document_of(folder)["summary"] == f"All {len(SHAPE)} queries run."
        lease.abandon()
    silent = document_of(folder)
    assert silent["summary"].startswith("Nobody drives the fleet: its driver is silent")
    with leases_of(folder).hold("driver"):
        pass
    assert document_of(folder)["summary"].startswith("The fleet is stopped.")


def test_a_queue_that_cannot_be_opened_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    walk = begun(tmp_path / "broken")
    log = walk.folder / "b" / "log"
    newest = max(log.rglob("*.commit"))
    newest.write_bytes(newest.read_bytes()[:-7])
    document = document_of(walk.folder / "fleet")
    broken = {Path(each["path"]).name: each for each in document["queues"] if each["problem"]}
    assert broken.keys() == {"b"}
    assert newest.name in broken["b"]["problem"]
    for each in document["queries"]:
        is_unknown = "b" in SHAPE[each["query"]][0]
        assert (each["records_waiting"] is None) is is_unknown
        assert each["waiting_since_us"] is None or not is_unknown


def test_options_of_a_place_are_refused_and_a_page_that_is_there_stays(
    folder: Path, tmp_path: Path
) -> None:
    for words in (("--at", "@3"), ("--no-verify",), ("--recovery-time", "2")):
        result = run(folder, *words, "-o", tmp_path / "page.html")
        assert result.exit_code == 2
        assert "of a fleet there are only" in " ".join(result.output.replace("│", " ").split())
    (tmp_path / "page.html").write_text("mine")
    assert run(folder, "-o", tmp_path / "page.html").exit_code == 2
    assert (tmp_path / "page.html").read_text() == "mine"


# -- in a browser ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def page(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("pages") / "fleet.html"
    assert run(folder, "-o", page).exit_code == 0
    return page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["desk", "phone"])
def test_the_page_shows_the_graph(
    tab: Chromium, page: Path, size: tuple[int, int], dark: bool
) -> None:
    tab.open(page, *size, dark=dark)
    assert tab.complaints() == []
    assert tab.requests() == [page.as_uri()], "the page and nothing else"
    assert tab.value("document.documentElement.dataset.errors") is None
    first = tab.value("document.querySelector('main').innerText.trim()")
    assert first.startswith(tab.value("report.summary")), "the sentence comes first"
    names = tab.value("[...document.querySelectorAll('.node .name')].map((e) => e.textContent)")
    assert sorted(names) == sorted([*INPUTS, *SHAPE, *SHAPE])
    edges = sum(len(reads) + 1 for reads, *_ in SHAPE.values())
    assert tab.value("document.querySelectorAll('.edge').length") == edges
    held = tab.value("document.querySelectorAll('.node.held').length")
    assert held == tab.value("report.totals.held_back") > 0
    upward = """[...document.querySelectorAll('.edge')].filter((each) => {
      const end = each.getPointAtLength(each.getTotalLength());
      return end.y <= each.getPointAtLength(0).y;
    }).length"""
    assert tab.value(upward) == 0, "data flows down"
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert tab.value(overflow) == 0


def test_the_page_can_be_printed(tab: Chromium, page: Path) -> None:
    tab.open(page, *SIZES[0], dark=True)
    assert tab.paper().startswith(b"%PDF-")
    assert tab.complaints() == []
