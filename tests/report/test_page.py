"""The report in a real browser: every plot drawn, on a desk, a phone and paper; nothing loaded."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cec_store import open_queue
from cec_store.cli import app
from cec_store.connectors.spark.progress.history import Stretch
from cec_store.connectors.spark.progress.progress_file import ProgressFile
from support.places import damaged_queues as made
from support.places.reported_places import HOSTILE, grown, hostile, large, partitioned
from support.processes.chromium import Chromium, browser
from support.processes.drawn import (
    DESK,
    OVERFLOW,
    PAINTED,
    PHONE,
    UNFOLDED,
    check_drawn,
)

SPECIALISTS = {"recovery", "renewing", "footprints", "ages-records", "ages-time_us", "segments",
               "lifetimes"}  # fmt: skip


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The report of a place, as a file."""
    folder = tmp_path_factory.mktemp("pages")

    def write(place: Path, status: int = 0, *options: str) -> Path:
        page = folder / f"{place.name}.html"
        arguments = ["report", str(place), "-o", str(page), "--force", *options]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == status, result.output
        return page

    return write


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a place of each kind."""
    folder = tmp_path_factory.mktemp("places")
    grown(folder / "checkpoint", partitions=3)
    made.make_operator_queue(folder / "queue", 900)
    partitioned(folder / "partitioned")
    damaged = made.copy(folder / "queue", folder / "damaged")
    byte, _ = made.batches(made.segments(damaged)[0])[3]
    made.flip(made.segments(damaged)[0], byte + 20)
    return folder


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize(
    ("name", "plots"),
    [
        ("checkpoint", {"history", "recovery", "renewing", "footprints", "segments", "written",
                        "ages-records", "ages-time_us", "skew"}),
        ("checkpoint/state/0/1", {"history", "recovery", "footprints", "segments"}),
        ("queue", {"history", "recovery", "renewing", "footprints", "lifetimes"}),
        ("partitioned", {"segments", "written", "skew"}),
        ("damaged", {"history", "segments", "written", "ages-records"}),
    ],
)  # fmt: skip
def test_every_plot_is_drawn(
    tab: Chromium, page_of: Any, places: Path, size: tuple[int, int], name: str, plots: set[str]
) -> None:
    page = page_of(places / name, int(name == "damaged"))
    drawn = check_drawn(tab, page, size)
    assert {f"plot-{plot}" for plot in plots} <= set(drawn)
    verdict = tab.value("document.querySelector('.verdict').textContent")
    assert verdict == data_of(page)["summary"]
    assert ("Damaged: 1 fault" in verdict) is (name == "damaged")
    assert ("every byte was checked, and is sound" in verdict.lower()) is (name != "damaged")


def test_the_sentence_is_first_then_the_oldest_keys_and_what_specialists_ask_is_folded(
    tab: Chromium, page_of: Any, places: Path
) -> None:
    page = page_of(places / "checkpoint", 0, "--recovery-time", "2")
    tab.open(page, *PHONE)
    first = tab.value("document.querySelector('main').innerText.trim()")
    estimate = r"A restart takes about \d+ ms on \d cores?, by a guess"
    assert re.match(estimate + ", within the 2 s asked for; every byte", first)
    shown = "[...document.querySelectorAll('figure')].filter((e) => e.checkVisibility())"
    titles = tab.value(f"{shown}.map((e) => e.querySelector('h3').textContent)")
    assert titles == ["The oldest keys", "Extent over time", "Bytes written",
                      "Skew between partitions"]  # fmt: skip
    assert tab.value("document.documentElement.dataset.plots") == "3/3"
    tab.value(UNFOLDED)
    folded = tab.value(
        "[...document.querySelectorAll('#specialists .plot')].map((e) => e.parentNode.id)"
    )
    assert {name.removeprefix("plot-") for name in folded} == SPECIALISTS - {"lifetimes"}
    assert all(count >= 20 for count in tab.value(PAINTED))


def test_a_restart_that_takes_longer_than_asked_for_is_no_good_news(
    tab: Chromium, page_of: Any, places: Path
) -> None:
    tab.open(page_of(places / "checkpoint", 0, "--recovery-time", "0.001"), *DESK)
    assert ", by a guess, more than the 0.001 s asked for; " in tab.value("document.body.innerText")
    assert tab.value("document.querySelector('.verdict').className") == "verdict bad"


def test_versions_have_their_time_beside_them(tab: Chromium, page_of: Any, places: Path) -> None:
    tab.open(page_of(places / "checkpoint"), *DESK)
    for plot in ("history", "written"):
        ticks = tab.value(
            f"Chart.getChart(document.querySelector('#plot-{plot} canvas')).scales.x.ticks"
            ".map((each) => each.label)"
        )
        history = tab.value("report.views[0].history")
        times = dict(zip(history["number"], history["timestamp_us"], strict=True))
        assert len(ticks) > 2
        for number, clock in ticks:
            said = time.strftime("%H:%M:%S", time.gmtime(times[int(number)] // 1_000_000))
            assert clock == said


def test_throughput_is_what_was_written_over_the_time_of_the_records(
    tab: Chromium, page_of: Any, places: Path
) -> None:
    page = page_of(places / "queue")
    document = data_of(page)
    flow = document["views"][0]["throughput"]
    length_s = (flow["until_us"][1] - flow["until_us"][0]) / 1e6
    written = sum(flow["records_per_s"]) * length_s
    assert written == pytest.approx(document["totals"]["records"], rel=1e-3)
    tab.open(page, *DESK)
    assert "records an hour on average" in tab.value("document.getElementById('flow').innerText")
    assert data_of(page_of(places / "checkpoint"))["views"][0]["throughput"] is None


def test_each_log_has_plots_of_its_own(tab: Chromium, page_of: Any, places: Path) -> None:
    check_drawn(tab, page_of(places / "checkpoint"), DESK)
    title = "document.getElementById('tiles').textContent"
    whole = tab.value(title)
    names = tab.value("[...document.getElementById('view').options].map((o) => o.textContent)")
    assert names == ["all logs", *(f"operator 0 (aggregate), partition {n}" for n in range(3))]
    tab.value(
        "view.value = '2'; document.getElementById('view').dispatchEvent(new Event('change'))"
    )
    assert tab.value(title) != whole
    assert all(count >= 20 for count in tab.value(PAINTED))
    assert tab.complaints() == []
    assert tab.value("document.getElementById('plot-skew')") is None, "of many logs only"


def test_a_queues_page_says_who_reads_it(tab: Chromium, page_of: Any, tmp_path: Path) -> None:
    made.make_operator_queue(tmp_path / "queue", 900)
    said = "document.getElementById('readers').innerText"
    tab.open(page_of(tmp_path / "queue"), *DESK)
    assert "No consumer is registered. The queue keeps everything." in tab.value(said)
    open_queue(tmp_path / "queue").consumer("late")
    tab.open(page_of(tmp_path / "queue"), *PHONE)
    assert "late" in tab.value(said)
    assert tab.complaints() == []
    assert tab.value(OVERFLOW) == 0


def test_the_numbers_are_there_as_tables(tab: Chromium, page_of: Any, places: Path) -> None:
    page = page_of(places / "checkpoint")
    check_drawn(tab, page, PHONE)
    tab.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    tab.value("new Promise((done) => setTimeout(done, 100))")
    plots = tab.value("document.querySelectorAll('.plot').length")
    assert tab.value("document.querySelectorAll('figure details table').length") == plots
    assert tab.value("document.querySelectorAll('figure details table caption').length") == plots
    assert tab.value("document.querySelectorAll('th:not([scope])').length") == 0
    rows = tab.value(
        "[...document.querySelectorAll('#plot-history tbody tr')].map((row) =>"
        " [...row.children].map((cell) => cell.textContent))"
    )
    history = data_of(page)["views"][0]["history"]
    assert [int(row[0]) for row in rows] == history["number"]
    assert [int(row[2].replace(",", "")) for row in rows] == history["extent_records"]
    assert tab.value(OVERFLOW) == 0, "wide tables are scrolled inside their own frame"


def data_of(page: Path) -> Any:
    found = re.search(r'id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_hostile_keys_are_shown_and_do_nothing(tab: Chromium, page_of: Any, tmp_path: Path) -> None:
    page = page_of(hostile(tmp_path / "hostile").path)
    assert [row["key"]["user"] for row in data_of(page)["views"][0]["windows"]["oldest"]] == [
        *HOSTILE
    ]
    check_drawn(tab, page, DESK)
    assert tab.value("document.title").endswith("hostile – cec-store report")
    cells = "[...document.querySelectorAll('figure > .scroll tbody th')]"
    keys = tab.value(f"{cells}.map((cell) => cell.textContent)")
    assert f"user {HOSTILE[0]}, page 0" in keys, "as text"
    assert tab.value("document.querySelectorAll('img').length") == 0
    text = tab.value("document.body.innerText")
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2028\ufeff]", text)
    assert "\\u{202e}gnp.exe" in text


def test_a_script_that_is_not_the_pages_own_does_not_run(
    tab: Chromium, page_of: Any, places: Path, tmp_path: Path
) -> None:
    page = tmp_path / "changed.html"
    text = page_of(places / "queue").read_text("utf-8")
    attack = "<script>document.title = 'owned'</script><img src='x' onerror=\"document.title='o'\">"
    page.write_text(text.replace("</main>", f"{attack}</main>"), "utf-8")
    tab.open(page, *DESK)
    assert tab.value("document.title").endswith("cec-store report")
    assert any("Content Security Policy" in each for each in tab.complaints())


def test_a_dark_page_has_other_colours(tab: Chromium, page_of: Any, places: Path) -> None:
    page = page_of(places / "queue")
    colour = "getComputedStyle(document.body).backgroundColor"
    check_drawn(tab, page, DESK)
    light = tab.value(colour)
    check_drawn(tab, page, DESK, dark=True)
    assert tab.value(colour) != light


def test_it_can_be_printed(tab: Chromium, page_of: Any, places: Path) -> None:
    check_drawn(tab, page_of(places / "checkpoint"), DESK, dark=True)
    paper = tab.paper()
    assert paper.startswith(b"%PDF-")
    assert len(paper) > 50_000, "with its plots"
    assert tab.complaints() == []


@pytest.fixture(scope="module")
def large_page(page_of: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """Of 200 partitions of four stores, and how many seconds it took."""
    path = large(tmp_path_factory.mktemp("large") / "checkpoint-200")
    began = time.process_time()
    return page_of(path), time.process_time() - began


def test_200_partitions_of_four_stores_fit_on_a_page(large_page: tuple[Path, float]) -> None:
    page, seconds = large_page
    assert page.stat().st_size < 1_000_000
    assert seconds < 30
    document = data_of(page)
    assert (document["totals"]["logs"], document["version"]) == (800, 6)
    assert len(document["views"][0]["segments"]) <= 120


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_page_of_800_logs_is_drawn(
    tab: Chromium, large_page: tuple[Path, float], size: tuple[int, int]
) -> None:
    assert "plot-skew" in check_drawn(tab, large_page[0], size)


@pytest.fixture(scope="module")
def with_progress(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose batches have a history with an hour's outage in it."""
    place = tmp_path_factory.mktemp("progress") / "checkpoint-with-progress"
    grown(place, partitions=2)
    second_us = 1_000_000
    stretches = []
    for number in range(60):
        from_us = 1_767_225_600 * second_us + number * 10 * second_us
        from_us += 3600 * second_us * (number >= 30)
        took_us = (2 + number % 3) * second_us
        watermark_us = None if number < 5 else from_us - 30 * second_us
        stretches.append(
            Stretch(from_us, from_us + took_us, number, 1, took_us, took_us, 500 + number,
                    took_us // 5, watermark_us, 1 << 20)
        )  # fmt: skip
    ProgressFile(place).write(stretches)
    return place


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_what_batches_took_is_drawn_over_time_and_an_outage_is_a_gap(
    tab: Chromium, page_of: Any, with_progress: Path, size: tuple[int, int]
) -> None:
    page = page_of(with_progress)
    plots = {"plot-batch-time", "plot-input-rate", "plot-watermark"}
    assert plots <= set(check_drawn(tab, page, size))
    for plot in plots:
        points = tab.value(
            f"Chart.getChart(document.querySelector('#{plot} canvas')).data.datasets[0].data"
        )
        empty = [point for point in points if point["y"] is None]
        before = [point for point in points if point["x"] < 1_767_229_200 * 1_000_000]
        # Of the watermark the first five have none either.
        assert len(empty) == 1 + 5 * (plot == "plot-watermark")
        assert points[30]["y"] is None
        assert len(before) == 30
        text = tab.value(f"document.getElementById('{plot}').innerText")
        assert "1 gap: nothing ran then" in text


def test_a_checkpoint_without_a_history_has_no_plots_of_it(
    tab: Chromium, page_of: Any, places: Path
) -> None:
    tab.open(page_of(places / "checkpoint"), *DESK)
    assert not tab.value("!!document.getElementById('plot-batch-time')")
