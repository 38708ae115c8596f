"""Tables in README and on other pages have the figures of the newest run in bench/RESULTS.md."""

import re
from pathlib import Path

import pytest

from support.paths import BENCH, DOCS, ROOT

STORES = ("hdfs", "rocksdb", "changelog", "cec")


def measured() -> dict[str, list[str]]:
    """By row of the tables: what stands there for each store."""
    text = (BENCH / "RESULTS.md").read_text("utf-8")
    text = text.split("## `python bench/spark/providers.py`")[1].split("\n## ")[0]
    batches, restarts = [], []
    for store in STORES:
        lines = re.findall(rf"^{store} +([\d. |]+)$", text, re.MULTILINE)
        assert len(lines) == 2, f"{store}: one line of batches and one of restarts"
        batches.append([cells.split() for cells in lines[0].split("|")])
        restarts.append(lines[1].split())
    first, second = zip(*((each[1], each[2]) for each in batches), strict=True)
    return {
        "batch with 100,000 changes": [f"{int(each[0]):,} ms" for each in first],
        "the slowest such batch": [f"{int(each[1]):,} ms" for each in first],
        "batch with 10,000 changes": [f"{int(each[0]):,} ms" for each in second],
        "commit, both tasks together": [f"{int(each[2]):,} ms" for each in second],
        "bytes written for those 10,000": [f"{int(each[3]):,} kB" for each in second],
        "files, and their size": [f"{each[4]}, {each[5]} MB" for each in restarts],
        "restart to the end of the first batch": [f"{each[0]} s" for each in restarts],
        "Java heap": [f"{each[3]} MB" for each in restarts],
    }


@pytest.mark.parametrize("path", [ROOT / "README.md", DOCS / "why.md"], ids=lambda path: path.stem)
def test_figures_are_those_of_the_newest_run(path) -> None:  # type: ignore[no-untyped-def]
    lines = [line.strip("| ").split(" | ") for line in path.read_text("utf-8").splitlines()]
    rows = {line[0]: [cell.strip("*") for cell in line[1:]] for line in lines if len(line) == 5}
    known = measured()
    shown = {name: known[name] for name in rows if name in known}
    assert len(shown) >= 7
    assert {name: rows[name] for name in shown} == shown
    for name in shown:
        numbers = [float(cell.split(",")[0] if "MB" in cell and "," in cell
                         else cell.split()[0].replace(",", "")) for cell in rows[name]]  # fmt: skip
        assert f"| **{rows[name][numbers.index(min(numbers))]}**" in path.read_text("utf-8")


@pytest.mark.parametrize("path", [ROOT / "README.md", DOCS / "why.md"], ids=lambda path: path.stem)
def test_pages_say_which_processor_each_table_is_of(path: Path) -> None:
    results = (BENCH / "RESULTS.md").read_text("utf-8")
    text = " ".join(path.read_text("utf-8").split())
    for script, table in {"providers": "first table", "watermarks": "second"}.items():
        section = results.split(f"## `python bench/spark/{script}.py`")[1]
        [name] = re.findall(r"processor (.+?)(?: Processor)?, \d+ cores", section.split("```")[0])
        assert re.search(rf"{table}[^.]* {name.replace('(R)', '')}\b", text), (script, name)


def watermarked() -> dict[str, list[str]]:
    """By row of the tables: the time of a batch on each store."""
    text = (BENCH / "RESULTS.md").read_text("utf-8")
    text = text.split("## `python bench/spark/watermarks.py`")[1].split("\n## ")[0]
    lines = re.findall(r"^(\w+) +(.+?) +([\d,]+) batch +(\d+) ms", text, re.MULTILINE)
    # The first of a kind counts: a query that is to be started again comes later.
    first = lines[::-1]
    batches = {(query, store, rows): f"{int(ms):,} ms" for query, store, rows, ms in first}
    rows = {
        "counts in 6,000,000 open windows": ("windowed_append", "6,000,000"),
        "the same in update mode": ("windowed_update", "6,000,000"),
        "`dropDuplicates` with 6,000,000 keys": ("dedup", "6,000,000"),
        "`dropDuplicatesWithinWatermark` with 6,000,000 keys": ("dedup_within", "6,000,000"),
        "1,000,000 open sessions": ("session", "1,000,000"),
        "1,000,000 groups with a timeout": ("timeouts", "1,000,000"),
        "a join with 1,000,000 rows": ("join", "1,000,000"),
    }
    known = {
        name: [batches[query, store, size] for store in ("hdfs", "changelog", "cec")]
        for name, (query, size) in rows.items()
    }
    last = ["", *(batches["join", store, "1,000,000"] for store in ("changelog, format 4", "cec"))]
    return {**known, "the same with RocksDB in state format 4": last}


@pytest.mark.parametrize(("path", "least"), [(ROOT / "README.md", 3), (DOCS / "why.md", 8)])
def test_figures_with_a_watermark_are_those_of_the_newest_run(path: Path, least: int) -> None:
    lines = [line.strip("|").split("|") for line in path.read_text("utf-8").splitlines()]
    rows = {line[0].strip(): [cell.strip("* ") for cell in line[1:]] for line in lines}
    known = watermarked()
    shown = {name: known[name] for name in rows if name in known}
    assert len(shown) == least
    assert {name: rows[name] for name in shown} == shown


def test_figures_of_large_state_are_those_of_the_newest_run() -> None:
    text = (BENCH / "RESULTS.md").read_text("utf-8")
    text = text.split("## `python bench/spark/large_state.py`")[1].split("\n## ")[0]
    lines = re.findall(
        r"^(?:changelog|walk|cec) .*load +([\d.]+) s, batch +(\d+) ms, restart +([\d.]+) s, "
        r"heap +(\d+) MB, folder +([\d.]+) MB$",
        text,
        re.MULTILINE,
    )
    assert len(lines) == 6
    units = ("s", "ms", "s", "MB", "MB")
    known = [
        [f"{float(value):,.0f} {unit}" if value.isdigit() else f"{value} {unit}" for value in row]
        for of_query in (lines[:3], lines[3:])  # without a watermark, and with one
        for unit, row in zip(units, zip(*of_query, strict=True), strict=True)
    ]
    page = (DOCS / "why.md").read_text("utf-8").split("(`spark/large_state.py`)")[1]
    names = "ten batches|such a batch|a restart, to the end|heap in use|checkpoint folder"
    rows = re.findall(
        rf"^\| (?:with a watermark: )?(?:{names})[^|]*\| (.+) \|$", page, re.MULTILINE
    )
    assert [[cell.strip("*") for cell in row.split(" | ")] for row in rows] == known


def test_figures_that_a_page_names_are_those_of_the_newest_run() -> None:
    """Rows that end in a figure's value and its name."""
    results = (BENCH / "RESULTS.md").read_text("utf-8")
    known = dict(re.findall(r"^\| `[\w/]+\.py` \| `(\w+)` \| ([\d.,]+)", results, re.MULTILINE))
    assert len(known) > 30
    named = [
        (path.stem, name, value)
        for path in DOCS.rglob("*.md")
        for value, name in re.findall(
            r"\| ([\d.,]+) \| `(\w+)` \|$", path.read_text("utf-8"), re.MULTILINE
        )
    ]
    assert len(named) >= 8
    assert [(name, value) for _, name, value in named] == [
        (name, known.get(name, "is not there")) for _, name, _ in named
    ]


def test_heap_of_four_million_keys_is_that_of_the_newest_run() -> None:
    results = (BENCH / "RESULTS.md").read_text("utf-8")
    [heap_gb] = re.findall(r"\| `heap_4m_gb` \| ([\d.]+) \|", results)
    page = " ".join((DOCS / "production" / "sizing.md").read_text("utf-8").split())
    assert re.findall(r"([\d.]+) GB of heap were in use", page) == [heap_gb]


def test_percentages_of_the_table_stand_in_the_table_before_them() -> None:
    """Prose that names a cell ("the 13.8 % of the table") names one that is there."""
    named = []
    for path in DOCS.rglob("*.md"):
        text = path.read_text("utf-8")
        for match in re.finditer(r"([\d.,]+\s%)\sof\sthe\stable", text):
            table = text[: match.start()].split("<!-- end -->")[-2]
            cell = " ".join(match[1].split())
            named.append((path.stem, cell, f"| {cell} |" in table))
    assert named
    assert all(stands for _, _, stands in named), named
