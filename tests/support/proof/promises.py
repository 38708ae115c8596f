"""The promises of README.md and docs/durability.md, and the parts that try each.

A promise is quoted from its page as it stands there. One without parts is a gap: nothing tries it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

README = "README.md"
DURABILITY = "docs/durability.md"
PROMISING = {
    README: (r"^## Durability\n(.*?)^\*\*Limits\*\*", r"A policy decides when\.(.*?)^`Budget"),
    DURABILITY: (
        r"^## What each mode promises\n(.*?)(?=^## )", r"^## The fault model\n(.*?)(?=^## )",
    ),
}  # fmt: skip
"""Patterns of passages of which every row and list item has to be promised below."""


class Promise(NamedTuple):
    page: str
    quote: str
    parts: tuple[str, ...]


_KILLS = ("crash-simulated", "crash-sigkill", "crash-others")
_CUTS = ("crash-simulated", "crash-power")
_SYNCS = ("crash-writeback", "crash-calls")
_PROVIDER = ("tests-spark-state", "crash-spark-state")
_QUEUES_IN_SPARK = ("tests-spark-queues", "crash-spark-queues")

_OF_README = {
    "a Spark query with 1,000,000 keys": ("bench-spark-stores",),
    "a batch of 1,000 rows, with a watermark": ("bench-spark-watermarks",),
    "New streaming queries of this session keep their state in cec-store": (
        *_PROVIDER, "suites-transforms", "suites-joins", "suites-others",
    ),
    "a restart restores it in about two seconds": ("bench-spark-stores",),
    "If reading the keys alone takes longer, a warning in the executor's log says so": (
        "tests-spark-clusters",
    ),
    "There are no snapshots and no pauses": ("bench-papers-cec",),
    "Each batch makes one append per state store": ("tests-spark-state",),
    "inspect a checkpoint": ("tests-plain", "crash-blind"),
    "makes a second checkpoint that continues from an earlier batch": ("tests-spark-queues",),
    "Rows are written exactly once and can be replayed from any timestamp": _QUEUES_IN_SPARK,
    "Register consumers to keep the rows they have not read; retention deletes the rest": (
        "tests-plain", "tests-spark-queues",
    ),
    "needs no Spark and does not disturb a running query": ("tests-spark-queues",),
    "continues without gaps or duplicates": ("tests-plain", "crash-others"),
    "one process appends, any number read": ("crash-fencing", "crash-sigkill"),
    "`await_durable` returns once the batch is fsynced": (*_CUTS, *_SYNCS),
    "yields the rows with since ≤ timestamp < until as Arrow batches": (
        "tests-plain", "crash-clocks",
    ),
    "returns how much a restart would have to read now": ("tests-plain",),
    "deletes rows that neither consumers nor a rebuild need": ("tests-plain", "crash-simulated"),
    "rebuilds the timestamp index": ("crash-index",),
    "the records to read (by default twice the number of open windows, or 1,024 if that is more)": (
        "tests-plain", "bench-papers-cec",
    ),
    "both by a time, at the rates measured while running": ("tests-plain", "bench-spark-stores"),
    "minimizes the expected cost of writing again plus recovery": ("tests-plain",),
    "each value is written when its window opens, and not again": ("tests-plain",),
    "limits checkpointing to `interval_ms` in every `period_ms`": ("tests-plain",),
    "They work with or without a running process, and change nothing there without `--yes`": (
        "tests-plain",
        "crash-blind",
    ),
    "its own fdatasync is done": (*_CUTS, "crash-sigkill"),
    "a shared fdatasync covering it is done": (*_CUTS, "crash-sigkill"),
    "rows of the last interval that `sync()` did not cover; what remains is a prefix": (
        *_CUTS, "crash-sigkill",
    ),
    "rows that `sync()` did not cover; what remains is a prefix": (*_CUTS, "crash-sigkill"),
    "Readers see durable data only, and rows that were read once never disappear": (
        "crash-simulated", "crash-power",
    ),
    "An unfinished write at the end of the log is cut at the next opening": (
        "crash-simulated", "crash-flips", "crash-fuzz",
    ),
    "After a failed sync the writer stops for good": _SYNCS,
    "State and output after a crash equal those of a run that never crashed": (
        "crash-others", "tests-plain", "crash-standbys",
    ),
    "needs Linux and Python 3.10 or newer": (
        "wheel-3.10", "wheel-3.11", "wheel-3.12", "wheel-3.13", "wheel-3.14", "oldest",
    ),
    "Spark 4.0 to 4.2": ("minor-4.0.5", "minor-4.1.4", "minor-4.2.1"),
}  # fmt: skip
_OF_DURABILITY = {
    "SQLite FULL": (*_CUTS, "crash-sigkill"),
    "a shared fdatasync covering it is done, begun after at most": (*_CUTS, "crash-sigkill"),
    "on disk within `sync_interval_ms`": (*_CUTS, "crash-sigkill"),
    "RocksDB's default": (*_CUTS, "crash-sigkill"),
    "a **prefix** of what was appended": (*_KILLS, "crash-power"),
    "`append()` returns a number and promises nothing": (*_CUTS, "crash-sigkill"),
    "Readers are shown only what is on disk and vouched for": ("crash-simulated", "crash-power"),
    "A **failed sync** ends the writer": _SYNCS,
    "A **full disk** costs nothing that was acknowledged": _SYNCS,
    "**Damage** where the log was acknowledged is refused": ("crash-flips", "crash-blind"),
    "The **index** is derived, never synced, and proven row by row": ("crash-index",),
    "**Ctrl-C**, or any exception that a signal handler raises": ("crash-interrupts",),
    "a queue, a consumer and a runner belong to the process": ("tests-plain",),
    "**A file that is not regular** (a FIFO, a device, a folder, a link) is refused": (
        "tests-plain",
    ),
    "a version that Spark committed is there, or reading it says by name": (
        *_PROVIDER, "crash-spark-clusters",
    ),
    "| process dies |": ("crash-sigkill", "crash-simulated"),
    "| power cut |": ("crash-power", "crash-simulated", "crash-commits"),
    "| crash while recovering |": ("crash-simulated", "crash-power"),
    "| failed call |": ("crash-calls",),
    "| failed sync |": ("crash-writeback",),
    "| decay |": ("crash-flips", "crash-blind"),
    "| index |": ("crash-index",),
    "| zombie |": ("crash-fencing", "crash-standbys"),
    "| interrupt |": ("crash-interrupts",),
    "| clock |": ("crash-clocks",),
    "| hostile bytes |": ("crash-fuzz", "crash-sizes"),
}  # fmt: skip
PROMISES = tuple(
    Promise(page, quote, parts)
    for page, quotes in ((README, _OF_README), (DURABILITY, _OF_DURABILITY))
    for quote, parts in quotes.items()
)


def flat(text: str) -> str:
    """Return a text with single spaces, since pages are wrapped anywhere."""
    return " ".join(text.split())


def strange_quotes(root: Path) -> list[str]:
    """Return promises that their page does not make, or not any more."""
    pages = {name: flat((root / name).read_text(encoding="utf-8")) for name in PROMISING}
    return [promise.quote for promise in PROMISES if flat(promise.quote) not in pages[promise.page]]


def statements(text: str) -> list[str]:
    """Return rows of tables, without their heads, and list items of a passage, each as one line."""
    blocks = re.split(r"\n(?=\||\* )|\n\n", text)
    rows = [flat(block) for block in blocks if block.lstrip().startswith(("|", "* "))]
    rules = [number for number, row in enumerate(rows) if re.fullmatch(r"[|\- ]+", row)]
    return [
        row for number, row in enumerate(rows) if number not in rules and number + 1 not in rules
    ]


def missing(root: Path) -> list[str]:
    """Return rows and items of the promising passages of which no promise is quoted."""
    lost = []
    for name, patterns in PROMISING.items():
        text = (root / name).read_text(encoding="utf-8")
        quotes = [flat(promise.quote) for promise in PROMISES if promise.page == name]
        for pattern in patterns:
            (passage,) = re.findall(pattern, text, re.MULTILINE | re.DOTALL)
            lost += [
                row for row in statements(passage) if not any(quote in row for quote in quotes)
            ]
    return lost
